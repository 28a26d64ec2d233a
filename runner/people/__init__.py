"""Services for people: they append facts and wake the engine.

May import floors 0 to 3. Begin with `operations`: what an operator can do to a run, and when.
"""
