"""Measurements. `python -m tests.bench NAME`: each module here with a `main` is one of them.

Every bench prints what it measured on which machine, and measures its floor (the same work without Amends) in the same
run, because a figure without its floor says more about the machine than about the product.
"""
