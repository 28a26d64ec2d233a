"""Numbered steps from one schema to the next, shipped inside the package and asked for only when a database is older.

A step is never changed once released. `tables.SCHEMA` names the newest.
"""
