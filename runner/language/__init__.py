"""What the author wrote: files in, values out, every problem with its place.

Begin at `load` (one flow's text to a `Flow`), `check` (the rules) and `project` (a folder with all its files).
May import only the ground: errors, contract, clock, settings, secrets.
"""
