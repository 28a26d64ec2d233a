"""Rows for spreadsheets, as CSV: nothing in them is run there, and they are read as UTF-8. Pure."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence

FORMULA = tuple("=+-@\t\r\n＝＋－＠")
"""Signs at the beginning of a cell that make a spreadsheet run it, the wide ones too."""
MARK = "\ufeff"
"""By this a spreadsheet knows UTF-8."""


class _Line:
    def write(self, text: str) -> str:
        return text


def harmless(cell: str) -> str:
    """The text as a cell may hold it: one that would be run gets a sign before it."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def csv_lines(rows: Iterable[Sequence[str | int | float]]) -> Iterator[str]:
    """The lines of a file, the mark before the first; a text that would be run gets a sign before it."""
    writer = csv.writer(_Line())
    mark = MARK
    for row in rows:
        line = writer.writerow([harmless(one) if isinstance(one, str) else one for one in row])
        yield f"{mark}{line}"
        mark = ""
