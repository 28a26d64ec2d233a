"""Rows for spreadsheets, as CSV: nothing in them is run there, and they are read as UTF-8. Pure."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence

FORMULA = tuple("=+-@\t\r\n＝＋－＠")
"""Signs at the beginning of a cell that make a spreadsheet run it, the wide ones too."""
_UNSEEN = "\x00\ufeff\u200b\u200c\u200d\u2060\u00ad \u00a0\u3000\v\f"
"""Signs before it that a spreadsheet may skip."""
_CELL_WITHIN = re.compile(rf"([;,|\t\r\n][{re.escape(_UNSEEN)}\"']*)(?=[=+\-@＝＋－＠])")
"""Where a spreadsheet that parts cells by another sign (a semicolon, in much of Europe) begins one inside of ours."""
MARK = "\ufeff"
"""By this a spreadsheet knows UTF-8."""


class _Line:
    def write(self, text: str) -> str:
        return text


def would_run(cell: str) -> bool:
    """Whether a spreadsheet may run this text."""
    return cell.startswith(FORMULA) or cell.lstrip(_UNSEEN).startswith(FORMULA)


def harmless(cell: str) -> str:
    """The text as a cell may hold it: one that would be run gets a sign before it."""
    return f"'{cell}" if would_run(cell) else cell


def _shown(cell: str) -> str:
    """The same for a file that nobody reads back: nor does a cell that is parted in another way begin to run."""
    return harmless(_CELL_WITHIN.sub(r"\1'", cell))


def csv_lines(rows: Iterable[Sequence[str | int | float]]) -> Iterator[str]:
    """The lines of a file, the mark before the first; a text that would be run gets a sign before it."""
    writer = csv.writer(_Line())
    mark = MARK
    for row in rows:
        line = writer.writerow([_shown(one) if isinstance(one, str) else one for one in row])
        yield f"{mark}{line}"
        mark = ""
