"""One spreadsheet file in memory: its rows by the names of their columns, and the bytes it becomes.

CSV is read in the encoding that the connection says (UTF-8 with or without a mark if it says none) and written in the
same, with its line ends. Workbooks are read by calamine and written by openpyxl, which keeps neither pictures nor the
results of formulas: a workbook that has some is not written. Whatever text goes in is a text afterwards, never a
formula.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from openpyxl import load_workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from python_calamine import CalamineError, CalamineWorkbook

from runner.cells import MARK, harmless, too_much, would_run
from runner.contract import Json
from runner.language.nearest import did_you_mean
from runner.language.values import number_text

LONGEST = 32_767
WRITTEN, ONLY_READ = (".csv", ".xlsx"), (".ods", ".xls", ".xlsb", ".xlsm")
_AS_WINDOWS_HAS_IT = {"shift_jis": "cp932", "shift_jisx0213": "cp932", "big5": "cp950"}
_PARTS = re.compile(r"xl/(charts|drawings|media|pivot\w*|embeddings|vbaProject)", re.IGNORECASE)


class Unfit(Exception):
    """The file or a value cannot be used. `str(error)` is one sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """How a connection says that its file is read. `head` is the row with the columns' names, from 1."""

    kind: str
    encoding: str = ""
    separator: str = ","
    sheet: str = ""
    head: int = 1


class Book(ABC):
    """A file that was read. `rows` are the rows below the head that hold something; a cell without anything is None."""

    def __init__(self, told: Told, table: Sequence[Sequence[Json]]) -> None:
        self.told = told
        if len(table) < told.head or not any(cell is not None for cell in table[told.head - 1]):
            raise Unfit(f"has no names of columns in row {told.head}")
        self.head = ["" if cell is None else str(cell) for cell in table[told.head - 1]]
        for name in self.head:
            if name and self.head.count(name) > 1:
                raise Unfit(f'has two columns called "{name}"')
        self.rows: list[dict[str, Json]] = []
        self._places: list[int] = []
        for place, cells in enumerate(table[told.head :], start=told.head):
            row = {name: cell for name, cell in zip(self.head, cells, strict=False) if name}
            if any(cell is not None for cell in cells):
                self.rows.append({**dict.fromkeys(name for name in self.head if name), **row})
                self._places.append(place)
        self._end = self._places[-1] + 1 if self._places else told.head

    def check_columns(self, names: Sequence[str]) -> None:
        """Raises Unfit for a name that is no column."""
        for name in names:
            if name not in self.head:
                raise Unfit(f'has no column "{name}"; {did_you_mean(name, self.head, "it has")}')

    def append(self, values: Mapping[str, Json]) -> None:
        """Adds a row below the last one that holds something."""
        self.put(self._end, values)
        self._end += 1

    def change(self, at: int, values: Mapping[str, Json]) -> None:
        """Sets cells of the row `rows[at]`."""
        self.put(self._places[at], values)

    def remove(self, at: int) -> None:
        """Takes the row `rows[at]` out; what is below moves up."""
        self.take(self._places[at])

    @abstractmethod
    def put(self, place: int, values: Mapping[str, Json]) -> None:
        """Sets cells of the row at this place, from 0."""

    @abstractmethod
    def take(self, place: int) -> None:
        """Takes the row at this place out."""

    @abstractmethod
    def content(self) -> bytes:
        """The file as it is now."""


def read_book(told: Told, data: bytes, *, to_write: bool) -> Book:
    """The file. Raises Unfit."""
    if told.kind == ".csv":
        return _Csv(told, data)
    return _Workbook(told, data, to_write=to_write)


# --- CSV -------------------------------------------------------------------------------------------------------------


class _Csv(Book):
    def __init__(self, told: Told, data: bytes) -> None:
        self._mark = MARK if not told.encoding and data.startswith(codecs.BOM_UTF8) else ""
        self._encoding = encoding_of(told.encoding)
        try:
            text = data.decode(self._encoding).removeprefix(MARK)
        except UnicodeDecodeError:
            hint = "" if told.encoding else "; say encoding: shift_jis, or whatever it is, in connections.yaml"
            raise Unfit(f"is not {told.encoding or 'UTF-8'} throughout{hint}") from None
        self._ends = "\r\n" if "\r\n" in text or "\n" not in text else "\n"
        try:
            self._table = list(csv.reader(io.StringIO(text, newline=""), delimiter=told.separator, strict=True))
        except csv.Error:
            raise Unfit("is not the CSV it should be: the quoting cannot be read") from None
        super().__init__(told, [[_bare(cell) if cell else None for cell in row] for row in self._table])

    def put(self, place: int, values: Mapping[str, Json]) -> None:
        while len(self._table) <= place:
            self._table.append([])
        row = self._table[place]
        row.extend([""] * (len(self.head) - len(row)))
        for name, value in values.items():
            row[self.head.index(name)] = _as_csv(name, value)

    def take(self, place: int) -> None:
        del self._table[place]

    def content(self) -> bytes:
        rows: list[str] = []
        for row in self._table:
            # with \r\n as its end, for otherwise a lone \r in a cell would go without quotes and begin a row
            line = io.StringIO()
            csv.writer(line, delimiter=self.told.separator, lineterminator="\r\n").writerow(row)
            rows.append(line.getvalue().removesuffix("\r\n") + self._ends)
        try:
            return (self._mark + "".join(rows)).encode(self._encoding)
        except UnicodeEncodeError as error:
            sign = error.object[error.start]
            raise Unfit(f'is {self.told.encoding or "UTF-8"}, which has no "{sign}"') from None


def encoding_of(told: str) -> str:
    """The codec. Shift_JIS and Big5 are read as Windows has them. Raises LookupError."""
    name = codecs.lookup(told.strip() or "utf-8").name
    return _AS_WINDOWS_HAS_IT.get(name, name)


def _bare(cell: str) -> str:
    """Without the sign that `harmless` puts before."""
    return cell[1:] if cell.startswith("'") and would_run(cell[1:]) else cell


def _as_csv(name: str, value: Json) -> str:
    value = _checked(name, value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return harmless(value)
    return "" if value is None else number_text(value)


# --- workbooks -------------------------------------------------------------------------------------------------------


class _Workbook(Book):
    def __init__(self, told: Told, data: bytes, *, to_write: bool) -> None:
        much = too_much(io.BytesIO(data))
        if much:
            raise Unfit(much)
        try:
            with CalamineWorkbook.from_filelike(io.BytesIO(data)) as book:
                names = book.sheet_names
                sheet = _sheet(names, told.sheet)
                table = [
                    [_read(cell) for cell in row]
                    for row in book.get_sheet_by_name(sheet).to_python(skip_empty_area=False)
                ]
        except (CalamineError, OSError, ValueError):
            raise Unfit("cannot be read as a workbook; it may be damaged or have a password") from None
        super().__init__(told, table)
        if to_write:
            self._open(data, sheet)

    def _open(self, data: bytes, sheet: str) -> None:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            lost = sorted({found[1] for name in parts.namelist() if (found := _PARTS.match(name))})
        if lost:
            raise Unfit(
                f"holds what would be lost when it is written ({', '.join(lost)}); keep the rows in a file of their own"
            )
        with warnings.catch_warnings(action="ignore"):
            self._book = load_workbook(io.BytesIO(data))
        self._page: Any = self._book[sheet]
        for page in self._book.worksheets:
            for row in page.iter_rows():
                for cell in row:
                    if cell.data_type == "f":
                        where = f"{page.title}!{cell.coordinate}"
                        raise Unfit(
                            f"has formulas ({where}), whose results would be lost; keep the rows in a file of their own"
                        )

    def put(self, place: int, values: Mapping[str, Json]) -> None:
        for name, value in values.items():
            cell = self._page.cell(row=place + 1, column=self.head.index(name) + 1)
            value = _checked(name, value)
            if isinstance(value, str):
                cell.value, cell.data_type, cell.quotePrefix = value, "s", would_run(value)
            else:
                cell.value = value

    def take(self, place: int) -> None:
        self._page.delete_rows(place + 1)

    def content(self) -> bytes:
        out = io.BytesIO()
        self._book.save(out)
        return out.getvalue()


def _sheet(names: Sequence[str], told: str) -> str:
    if told and told not in names:
        raise Unfit(f'has no sheet "{told}"; {did_you_mean(told, names, "it has")}')
    if not told and len(names) != 1:
        raise Unfit(f"has the sheets {', '.join(names)}; say which one with sheet: in connections.yaml")
    return told or names[0]


def _read(cell: Any) -> Json:
    """A cell's value as JSON: dates and times are ISO texts, whole numbers are whole."""
    if cell == "" or cell is None:
        return None
    if isinstance(cell, bool | str):
        return cell
    if isinstance(cell, float | int):
        return int(cell) if float(cell).is_integer() and abs(cell) < 10**15 else cell
    if isinstance(cell, datetime | date | time):
        return cell.isoformat()
    return str(cell) if isinstance(cell, timedelta) else None


def _checked(name: str, value: Json) -> Json:
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        raise Unfit(f'cannot hold a list or a map, which was given for the column "{name}"')
    if len(value) > LONGEST or ILLEGAL_CHARACTERS_RE.search(value):
        raise Unfit(f'cannot hold what was given for the column "{name}": it is too long, or has control characters')
    return value
