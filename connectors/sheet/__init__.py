"""Spreadsheet files: `books` reads and writes them (the home of openpyxl and python-calamine here), `kind` is the
connector. Begin at `kind`."""
