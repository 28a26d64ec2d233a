"""The kind of a field out of its type as written, and whether a literal value can be of that kind.

This is what the check needs to know; the whole of the type language is in `types`.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.contract import Json

KINDS = (
    "text", "number", "integer", "money", "date", "time", "datetime", "yes_no", "email", "phone", "url", "choice",
    "list", "record", "file",
)  # fmt: skip
TEXTS = frozenset({"text", "email", "phone", "url", "choice", "date", "time", "datetime"})
NUMBERS = frozenset({"number", "integer", "money"})


def kind_of_field(field_type: Json) -> str:
    """`text or empty` -> text, `{"list": {…}}` -> list; empty where it is no type that is known."""
    if isinstance(field_type, str):
        word = field_type.removesuffix(" or empty").strip()
        return word if word in KINDS else ""
    if isinstance(field_type, Mapping):
        return next((kind for kind in KINDS if kind in field_type), "")
    return ""


def inner_fields(field_type: Json) -> Mapping[str, Json] | None:
    """The fields below a list or record type, or None where they are not known."""
    if not isinstance(field_type, Mapping):
        return None
    inner = field_type.get("record", field_type.get("list"))
    if not isinstance(inner, Mapping) or kind_of_field(inner):
        return None
    return inner


def fits(kind: str, value: Json) -> bool:
    """Whether a value as YAML reads it can stand in a field of this kind; an unknown kind takes everything."""
    if kind in TEXTS:
        return isinstance(value, str)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in ("number", "money"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "yes_no":
        return isinstance(value, bool) or value in ("yes", "no")
    if kind == "list":
        return isinstance(value, list)
    if kind in ("record", "file"):
        return isinstance(value, dict)
    return True


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
