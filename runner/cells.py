"""Rows for spreadsheets, as CSV: nothing in them is run there, and they are read as UTF-8. And whether a workbook would
become far larger when it is read."""

from __future__ import annotations

import csv
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

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


# --- workbooks -------------------------------------------------------------------------------------------------------

MOST_BYTES = 200_000_000
MOST_ROWS = 1_048_576
MOST_CELLS = 10_000_000
"""From the first cell to the last, the empty ones too: a library makes room for all of them."""
_CELL = re.compile(rb'\br="([A-Z]{1,3})([0-9]{1,7})"')


def too_much(workbook: Path | IO[bytes]) -> str:
    """Why a workbook is not read: what it would be when it is unpacked; empty where it may be."""
    try:
        with zipfile.ZipFile(workbook) as parts:
            if sum(part.file_size for part in parts.infolist()) > MOST_BYTES:
                return f"has more than {MOST_BYTES // 1_000_000} MB when it is unpacked"
            sheets = [name for name in parts.namelist() if re.fullmatch(r"xl/worksheets/.*\.xml", name)]
            return next(filter(None, (_reach(parts.read(name)) for name in sheets)), "")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, zlib.error):
        return ""  # whoever reads it says what is wrong


def _reach(sheet: bytes) -> str:
    rows, columns = sheet.count(b"<row"), 1
    for found in _CELL.finditer(sheet):
        rows, columns = max(rows, int(found[2])), max(columns, _column(found[1]))
    if rows > MOST_ROWS or rows * columns > MOST_CELLS:
        return f"reaches over {rows:,} rows and {columns:,} columns, empty cells among them"
    return ""


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number
