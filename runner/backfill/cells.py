"""One cell for one input. What a spreadsheet may have changed without a word is refused, never guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from runner.contract import Json
from runner.language.fields import NUMBERS, WORDS, FieldType

DATES = ("date", "time", "datetime")
_SHEET_ERROR = re.compile(r"#(N/A|NAME\?|NUM!|NULL!|REF!|VALUE!|DIV/0!|SPILL!|CALC!)")
_TOO_NARROW = re.compile(r"#{3,}")
_SHORTENED = re.compile(r"[+-]?[0-9](\.[0-9]+)?E\+[0-9]{2,}")
_EXPONENT = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?[Ee][+-]?[0-9]+")
_KEPT = re.compile(r'="([^"]*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What stands in a cell. `given` is a JSON value; the other kinds are those of a text file or a sheet.

    `shown` is the cell as a text; of a number in a sheet `exact` is the text that the sheet is sure to show, empty
    where that is not certain. `why` says why there is no value to be had (a formula without a result, an error).
    """

    kind: Literal["text", "given", "number", "date", "time", "yes_no", "wrong"]
    value: Json = None
    shown: str = ""
    exact: str = ""
    why: str = ""


EMPTY = Cell(kind="text", value="")


def read_cell(field: FieldType, cell: Cell, *, is_code: bool) -> Json:
    """What the cell gives to an input, for the input's own reader. Raises ValueError with a sentence.

    `is_code`: the numbers of this column are texts, and right as the sheet shows them.
    """
    if cell.why:
        raise ValueError(cell.why)
    if cell.kind == "text":
        _refuse_traps(field, cell.shown)
    elif cell.kind == "number" and field.kind not in (*NUMBERS, "any"):
        return _number_as(field, cell, is_code)
    elif cell.kind in ("date", "time", "yes_no") and field.kind not in (cell.kind, "any", "datetime"):
        needed = WORDS.get(field.kind, field.kind)
        raise ValueError(f"is {WORDS[cell.kind]} in the sheet ({cell.shown}), and it must be {needed}")
    return cell.value


def _number_as(field: FieldType, cell: Cell, is_code: bool) -> Json:
    """A number of the sheet for an input that takes no number."""
    if field.kind in DATES:
        raise ValueError(f"is the number {cell.shown} in the sheet, not a date: format the cells as dates")
    if field.kind == "choice":
        return cell.value if cell.value in field.choices else cell.exact or cell.shown
    if cell.exact and (is_code or cell.exact.startswith("0")):
        return cell.exact
    if is_code:
        raise ValueError(
            f"is the number {cell.shown}, of which a sheet does not keep every digit: make the cell a text"
        )
    raise ValueError(
        f"is the number {cell.shown} in the sheet, so zeros before it may be lost: make the cells text, "
        "or name the column with --as-text if it is right as shown"
    )


def _refuse_traps(field: FieldType, text: str) -> None:
    bare = text.strip()
    if "\ufffd" in text or "\0" in text:
        raise ValueError("has a sign that was lost when the file was saved")
    if _SHEET_ERROR.fullmatch(bare) or _TOO_NARROW.fullmatch(bare):
        raise ValueError(f"is {bare}, which a spreadsheet shows in place of a value")
    if kept := _KEPT.fullmatch(bare):
        raise ValueError(f"is written as a formula, {bare}; write {kept[1]}")
    if (_EXPONENT if field.kind in NUMBERS else _SHORTENED).fullmatch(bare):
        raise ValueError(f"is {bare}, a number that a spreadsheet has shortened: show all its digits and save again")
