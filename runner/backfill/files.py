"""A file as rows: CSV in many forms, JSON lines, and Excel workbooks (`sheets`). Rows are read one after the other."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.backfill.cells import Cell
from runner.backfill.encodings import encoding_of
from runner.backfill.sheets import read_sheet
from runner.errors import InputsInvalid
from runner.language.nearest import did_you_mean

LONGEST = 1_000_000
"""Characters that one cell may have; a quote that is never closed is noticed there."""
SEPARATORS = (",", ";", "\t")
CALLED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
LINES = (".jsonl", ".ndjson")
ZIP, OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a person said about the file; empty where it is to be seen from the file itself."""

    encoding: str = ""
    separator: str = ""
    sheet: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row. `number` is as a spreadsheet counts, the head being row 1; of JSON lines it is the line.

    `wrong` says what keeps the row as a whole from being read.
    """

    number: int
    cells: Mapping[str, Cell] = field(default_factory=dict)
    wrong: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A file that was opened: `head` names its columns (empty for JSON lines), `rows` begins to read anew.

    `how` says in what way it is read, where that was not plain: "as cp932".
    """

    head: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]
    digest: str
    how: str = ""


def open_table(file: Path, told: Told, is_known: Callable[[str], bool]) -> Table:
    """Opens a file. `is_known` tells whether a column is one of the flow's. Raises InputsInvalid."""
    try:
        with file.open("rb") as source:
            begin = source.read(4)
            source.seek(0)
            digest = hashlib.file_digest(source, "sha256").hexdigest()
    except OSError as error:
        raise InputsInvalid({str(file): f"cannot be read: {error.strerror}"}) from None
    if begin == OLD_OFFICE:
        raise InputsInvalid({file.name: "is an old or a locked Excel file; save it as .xlsx without a password"})
    if begin == ZIP:
        head = _columns(file, [cell.shown for cell in next(read_sheet(file, told.sheet), [])])
        return Table(head=head, digest=digest, rows=lambda: _of_sheet(file, told))
    encoding = encoding_of(file, told.encoding)
    how = "" if told.encoding or encoding.startswith("utf") else f"as {encoding}"
    if file.suffix.lower() in LINES:
        return Table(head=(), digest=digest, how=how, rows=lambda: _of_lines(file, encoding))
    if file.suffix.lower() == ".json":
        raise InputsInvalid({file.name: "is one JSON value; rows are JSON lines (.jsonl), one object on each line"})
    separator, head_text = _separator(file, encoding, told.separator, is_known)
    columns = _columns(file, head_text)
    return Table(head=columns, digest=digest, how=how, rows=lambda: _of_csv(file, encoding, separator, columns))


def _columns(file: Path, names: Sequence[str]) -> tuple[str, ...]:
    while names and not names[-1]:
        names = names[:-1]
    wrong = {name: "names two columns" for name in names if name and names.count(name) > 1}
    if not any(names):
        wrong = {file.name: "has no row of column names at its head"}
    if wrong:
        raise InputsInvalid(wrong)
    return tuple(names)


# --- CSV -------------------------------------------------------------------------------------------------------------


def _records(file: Path, encoding: str, separator: str) -> Iterator[list[str]]:
    """Every record, blank ones too. Raises InputsInvalid that names the row."""
    csv.field_size_limit(LONGEST)
    number = 0
    try:
        with file.open(encoding=encoding, newline="") as source:
            first = source.readline()
            if not (first.lower().startswith("sep=") and len(first.rstrip("\r\n")) == 5):
                source.seek(0)
            for record in csv.reader(source, delimiter=separator, strict=True):
                number += 1
                yield record
    except UnicodeDecodeError as error:
        raise _not_throughout(file, error, number) from None
    except csv.Error as error:
        text = str(error)
        why = (
            "a quotation mark is opened and never closed"
            if "unexpected end" in text or "field limit" in text
            else "behind a closing quotation mark stands something else than a separator"
            if "expected after" in text
            else "the quoting cannot be read"
        )
        raise InputsInvalid({f"row {number + 1}": f"{why}; inside quoted text a quotation mark is doubled"}) from None


def _not_throughout(file: Path, error: UnicodeDecodeError, number: int) -> InputsInvalid:
    at = f"behind row {number}" if number else "at its beginning"
    return InputsInvalid(
        {file.name: f"is not {error.encoding} throughout ({at}); say --encoding cp932, big5, cp1252 …"}
    )


def _separator(file: Path, encoding: str, told: str, is_known: Callable[[str], bool]) -> tuple[str, list[str]]:
    """(the separator, the names at the head): the one by which most names are columns that the flow knows."""
    if told:
        separator = CALLED.get(told, told)
        if len(separator) != 1 or separator in '"\r\n':
            raise InputsInvalid({"--separator": f'"{told}" is not one sign; write "," ";" or tab'})
        return separator, next(_records(file, encoding, separator), [])
    heads = {separator: next(_records(file, encoding, separator), []) for separator in SEPARATORS}
    score = {separator: (sum(map(is_known, head)), len(head)) for separator, head in heads.items()}
    best = max(score.values())
    found = [separator for separator in SEPARATORS if score[separator] == best]
    if any(heads[other] != heads[found[0]] for other in found):
        raise InputsInvalid({file.name: "can be read with more than one separator; say --separator"})
    return found[0], heads[found[0]]


def _of_csv(file: Path, encoding: str, separator: str, head: Sequence[str]) -> Iterator[Row]:
    records = enumerate(_records(file, encoding, separator), start=1)
    for number, record in itertools.islice(records, 1, None):
        while len(record) > len(head) and not record[-1]:
            record.pop()
        if not any(record):
            continue
        row = _row(number, head, [Cell(kind="text", value=text, shown=text) for text in record])
        ragged = f"has {len(record)} cells where the head has {len(head)}" if len(record) != len(head) else ""
        yield replace(row, wrong=ragged or row.wrong)


def _row(number: int, head: Sequence[str], cells: Sequence[Cell]) -> Row:
    beyond = [cell for at, cell in enumerate(cells) if at >= len(head) or not head[at]]
    wrong = "has a value in a column without a name" if any(cell.shown or cell.why for cell in beyond) else ""
    return Row(number=number, cells=dict(zip(head, cells, strict=False)), wrong=wrong)


# --- Excel -----------------------------------------------------------------------------------------------------------


def _of_sheet(file: Path, told: Told) -> Iterator[Row]:
    rows = read_sheet(file, told.sheet)
    head = [cell.shown for cell in next(rows)]
    for number, cells in enumerate(rows, start=2):
        if any(cell.shown or cell.why for cell in cells):
            yield _row(number, head, cells)


# --- JSON lines ------------------------------------------------------------------------------------------------------


def _of_lines(file: Path, encoding: str) -> Iterator[Row]:
    number = 0
    with file.open(encoding=encoding) as source:
        while True:
            try:
                line = source.readline()
            except UnicodeDecodeError as error:
                raise _not_throughout(file, error, number) from None
            number += 1
            if not line:
                return
            if line.strip():
                yield _of_line(number, line)


def _of_line(number: int, line: str) -> Row:
    try:
        found = json.loads(line, object_pairs_hook=_once, parse_constant=_none)
        if not isinstance(found, dict):
            raise ValueError("is not a JSON object with the inputs by name")  # noqa: TRY004
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return Row(number=number, wrong="holds half of a sign, which is no text")
    except json.JSONDecodeError:
        return Row(number=number, wrong="is not JSON")
    except (ValueError, RecursionError) as error:
        return Row(number=number, wrong=str(error))
    cells = {name: Cell(kind="given", value=value, shown=_as_shown(value)) for name, value in found.items()}
    return Row(number=number, cells=cells)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("has a name twice in one object")
    return found


def _none(word: str) -> Any:
    raise ValueError(f"holds {word}, which is no value")


def _as_shown(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def nearest_column(name: str, columns: Sequence[str]) -> str:
    """The hint after a column that the file does not have."""
    return did_you_mean(name, columns, "the file has") or "the file has none"
