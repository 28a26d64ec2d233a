"""Excel workbooks: a sheet read row by row, and one written row by row. The only home of openpyxl."""

from __future__ import annotations

import itertools
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from openpyxl import Workbook, load_workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.utils.exceptions import InvalidFileException

from runner.backfill.cells import EMPTY, Cell
from runner.errors import InputsInvalid
from runner.language.nearest import did_you_mean
from runner.language.values import as_text

DIGITS = 15
"""Digits of a number that Excel keeps."""
SHOWN = 11
"""Digits that a cell without a format of its own shows."""
LONGEST = 32_767
MOST_ROWS = 1_048_576
_ZEROS = re.compile(r"0+")


def read_sheet(file: Path, sheet: str = "") -> Iterator[list[Cell]]:
    """The rows of a sheet from the first on, each as long as it is filled. Raises InputsInvalid.

    Formulas are read with the result that was saved with them.
    """
    rows = _raw(file, sheet, results=False)
    results: Iterator[Sequence[Any]] | None = None
    for number, row in enumerate(rows):
        counted: Sequence[Any] = row
        if results is None and any(cell.data_type == "f" for cell in row):
            results = itertools.islice(_raw(file, sheet, results=True), number, None)
        if results is not None:
            counted = next(results)
        yield [_cell(cell, result) for cell, result in zip(row, counted, strict=False)]


def _raw(file: Path, sheet: str, *, results: bool) -> Iterator[Sequence[Any]]:
    try:
        with warnings.catch_warnings(action="ignore"):
            book = load_workbook(file, read_only=True, data_only=results)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError, SyntaxError):
        raise InputsInvalid({file.name: "is not a workbook that can be read; save it as .xlsx"}) from None
    try:
        page = _page(file, book, sheet)
        page.reset_dimensions()  # what the file says of its own size may be wrong
        rows = page.iter_rows()
        while True:
            with warnings.catch_warnings(action="ignore"):
                row = next(rows, None)
            if row is None:
                return
            yield row
    except (zipfile.BadZipFile, SyntaxError, KeyError, ValueError):
        raise InputsInvalid({file.name: "is damaged; open it in a spreadsheet program and save it again"}) from None
    finally:
        book.close()


def _page(file: Path, book: Any, sheet: str) -> Any:
    names = [page.title for page in book.worksheets]
    if sheet and sheet not in names:
        raise InputsInvalid(
            {"--sheet": f'{file.name} has no sheet "{sheet}"; {did_you_mean(sheet, names, "there are")}'}
        )
    if not sheet and len(names) > 1:
        raise InputsInvalid({file.name: f"has the sheets {', '.join(names)}; say which one with --sheet"})
    if not names:
        raise InputsInvalid({file.name: "has no sheet with cells"})
    return book[sheet or names[0]]


def _cell(cell: Any, result: Any) -> Cell:
    is_formula, kind, value = cell.data_type == "f", result.data_type, result.value
    if value is None:
        why = "is a formula without a result: open the file in a spreadsheet program and save it" if is_formula else ""
        return Cell(kind="wrong", why=why) if why else EMPTY
    if kind == "e":
        return Cell(kind="wrong", shown=str(value), why=f"is {value}, an error of the sheet")
    if isinstance(value, bool):
        return Cell(kind="yes_no", value=value, shown=as_text(value))
    if isinstance(value, int | float):
        return _number(value, cell.number_format or "General")
    if isinstance(value, datetime | date):
        has_time = isinstance(value, datetime) and (
            value.time() != time(0) or "h" in (cell.number_format or "").lower()
        )
        text = value.isoformat(timespec="seconds") if isinstance(value, datetime) else value.isoformat()
        text = text if has_time else text[:10]
        return Cell(kind="date", value=text, shown=text)
    if isinstance(value, time):
        text = value.isoformat(timespec="seconds" if value.second else "minutes")
        return Cell(kind="time", value=text, shown=text)
    if isinstance(value, timedelta):
        return Cell(
            kind="wrong", shown=str(value), why=f"is a length of time in the sheet ({value}): make the cell a text"
        )
    return Cell(kind="text", value=str(value), shown=str(value))


def _number(value: float, written_as: str) -> Cell:
    """A number to the digits that Excel itself keeps; `exact` where what is shown is known to the last digit."""
    number = value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    shown = as_text(number)
    if abs(number) >= 10**DIGITS:
        return Cell(
            kind="wrong", shown=shown, why=f"has more digits than a sheet keeps ({shown}): make the cell a text"
        )
    exact = ""
    if isinstance(number, int) and number >= 0:
        if _ZEROS.fullmatch(written_as):
            exact = shown.zfill(len(written_as))
        elif written_as == "General" and len(shown) <= SHOWN:
            exact = shown
    return Cell(kind="number", value=number, shown=exact or shown, exact=exact)


def write_sheet(file: Path, rows: Iterable[Sequence[str]]) -> None:
    """Writes a workbook with one sheet of texts; none of them is a formula. Raises OSError, ValueError for too many."""
    book = Workbook(write_only=True)
    page = book.create_sheet("runs")
    for number, row in enumerate(rows, start=1):
        if number > MOST_ROWS:
            raise ValueError(f"a sheet has no more than {MOST_ROWS:,} rows")
        page.append([_text_cell(page, text) for text in row])
    book.save(file)


def _text_cell(page: Any, text: str) -> Any:
    cell = WriteOnlyCell(page, value=ILLEGAL_CHARACTERS_RE.sub("\ufffd", text)[:LONGEST])
    cell.data_type, cell.quotePrefix = "s", True
    return cell
