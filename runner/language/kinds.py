"""The kind of a field out of its type as written, and whether a literal value can be of that kind.

This is what the check needs to know; the whole of the type language is in `fields` and `types`.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.contract import Json
from runner.language.fields import FieldType, field_type

TEXTS = frozenset({"text", "email", "phone", "url", "choice", "date", "time", "datetime"})
NUMBERS = frozenset({"number", "integer", "money"})

WORDS: Mapping[str, str] = {
    "text": "a text",
    "number": "a number",
    "integer": "a whole number",
    "money": "an amount",
    "date": "a date",
    "time": "a time",
    "datetime": "a moment",
    "yes_no": "a yes or no (true, false)",
    "email": "a mail address",
    "phone": "a phone number",
    "url": "an address (URL)",
    "choice": "one of its choices",
    "list": "a list",
    "record": "a map",
    "file": "a file",
}


def shape_of(written: Json) -> FieldType | None:
    """The type as written, or None where it is none."""
    try:
        return field_type(written)
    except ValueError:
        return None


def kind_of_field(written: Json) -> str:
    """`text or empty` -> text; empty where it is no type, or takes anything."""
    shape = shape_of(written)
    return "" if shape is None or shape.kind == "any" else shape.kind


def fields_below(shape: FieldType) -> Mapping[str, FieldType] | None:
    """The names that a dot can read from a value of this type; None where they are not known."""
    if shape.kind == "money":
        return {"value": FieldType(kind="number"), "currency": FieldType(kind="text")}
    if shape.kind == "file":
        text = FieldType(kind="text")
        return {"name": text, "size": FieldType(kind="integer"), "kind": text, "sha256": text}
    if shape.kind == "record":
        return shape.fields
    return None if shape.kind == "any" else {}


def fits(kind: str, value: Json) -> bool:
    """Whether a value as YAML reads it can stand in a field of this kind; an unknown kind takes everything."""
    if kind in TEXTS:
        return isinstance(value, str) or (kind == "choice" and isinstance(value, int))
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in ("number", "money"):
        is_amount = kind == "money" and isinstance(value, dict)
        return is_amount or (isinstance(value, (int, float)) and not isinstance(value, bool))
    if kind == "yes_no":
        return isinstance(value, bool) or value in ("yes", "no")
    if kind == "list":
        return isinstance(value, list)
    if kind in ("record", "file"):
        return isinstance(value, dict)
    return True
