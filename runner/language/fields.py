"""Field types as they are written: `text`, `number or empty`, `{ choice: [basic, pro] }`.

`field_type` reads the short and the long form into a `FieldType`; everything else works with that alone.
"""

# ruff: noqa: TRY004 (a wrong kind in what somebody wrote is a wrong value)
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from runner.contract import Json
from runner.language.nearest import did_you_mean
from runner.language.values import is_currency, is_number, kind_of, shown

KINDS = "text number integer money date time datetime yes_no email phone url list record file choice any".split()
"""Every type word. `choice` has a long form alone; `any` is for connectors whose service takes whatever it is given."""

TEXTS = frozenset({"text", "email", "phone", "url", "choice", "date", "time", "datetime"})
NUMBERS = frozenset({"number", "integer", "money"})
_YAML_TYPES: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "money": (int, float, dict),
    "list": (list,),
    "record": (dict,),
    "file": (dict,),
}

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

BESIDE = ("label", "help", "empty", "default", "personal")
"""Keys that stand beside any type word in the long form."""

_EMPTY = " or empty"
_SIZE = re.compile(r"([0-9]+) ?(B|KB|MB|GB)")
_SIZES = {"B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_TWINS = {"jpg": "jpeg", "jpeg": "jpg", "tif": "tiff", "tiff": "tif"}
"""Endings that are written in two ways."""
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldType:
    """One field. `least` and `most` bound a number, the length of a text or list, or (`most`) a file's bytes.

    `choices` maps each value to its label; `items` is the type of a list's items, `fields` those of a record; both are
    None where anything is welcome. `currency` is empty where any is. `kinds` are file endings, empty for all.
    """

    kind: str
    optional: bool = False
    default: Json = None
    label: str = ""
    help: str = ""
    personal: bool = False
    choices: Mapping[str | int, str] = field(default_factory=dict)
    items: FieldType | None = None
    fields: Mapping[str, FieldType] | None = None
    currency: str = ""
    least: float | None = None
    most: float | None = None
    kinds: tuple[str, ...] = ()

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of its kinds of files, also where one kind has two: jpg and jpeg."""
        return tuple(dict.fromkeys(one for kind in self.kinds for one in (kind, _TWINS.get(kind, kind))))


def field_type(value: Json) -> FieldType:
    """The type that is written there. Raises ValueError with a sentence that names the nearest word."""
    if isinstance(value, FieldType):
        return value
    if isinstance(value, str):
        return _short_form(value)
    if isinstance(value, Mapping):
        return _long_form(value)
    raise ValueError(f"a type is a word, such as text, or a record, such as {{ choice: [a, b] }}, not {shown(value)}")


def holds_file(kind: FieldType) -> bool:
    """It is a file, or there is one in it at any depth."""
    inner = [*(kind.fields or {}).values(), *([kind.items] if kind.items is not None else [])]
    return kind.kind == "file" or any(holds_file(one) for one in inner)


def is_field_name(name: str) -> bool:
    """Letters, digits and _, a letter first."""
    return _FIELD_NAME.fullmatch(name) is not None


def field_types(fields: Mapping[str, Json]) -> dict[str, FieldType]:
    """Several fields by name. Raises ValueError naming the field."""
    found = {}
    for name, value in fields.items():
        if not is_field_name(str(name)):
            raise ValueError(f'"{name}" is not a name: use letters, digits and _, a letter first')
        try:
            found[name] = field_type(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return found


_CALLED_ELSEWHERE = {"string": "text", "str": "text", "int": "integer", "float": "number", "decimal": "number"} | {
    "bool": "yes_no", "boolean": "yes_no", "enum": "choice", "array": "list", "object": "record", "mail": "email"} | {
    "currency": "money", "yen": "money"
}  # fmt: skip
"""What other languages call a type."""


@lru_cache(maxsize=1024)
def _short_form(text: str) -> FieldType:
    optional = text.endswith(_EMPTY)
    word = text.removesuffix(_EMPTY).strip()
    if word == "choice":
        raise ValueError("a choice needs its values: { choice: [a, b] }")
    if word not in KINDS:
        meant = _CALLED_ELSEWHERE.get(word.lower())
        hint = f'did you mean "{meant}"?' if meant else did_you_mean(word, _offered(), "types")
        raise ValueError(f'there is no type "{word}": {hint}')
    return FieldType(kind=word, optional=optional)


def _offered() -> list[str]:
    return [kind for kind in KINDS if kind != "any"]


def _long_form(value: Mapping[str, Json]) -> FieldType:
    words = [key for key in value if key in KINDS]
    if len(words) != 1:
        problem = f"two types: {' and '.join(map(str, words))}" if words else "no type word"
        other = [key for key in value if key not in BESIDE]
        hint = did_you_mean(str(other[0]), _offered(), "types") if other and not words else ""
        if value.get("type") in _offered():
            hint = f"write {{ {value['type']}: null }}"
        raise ValueError(f"the long form has {problem}{': ' + hint if hint else ''}")
    word = words[0]
    for key in value:
        if key != word and key not in BESIDE:
            raise ValueError(f'"{key}" does not belong beside {word}: {did_you_mean(str(key), BESIDE, "known keys")}')
    shape = _shape_of(word, value[word])
    return replace(
        shape,
        optional=_switch(value, "empty"),
        personal=_switch(value, "personal"),
        label=_sentence(value, "label"),
        help=_sentence(value, "help"),
        default=value.get("default"),
    )


def _switch(value: Mapping[str, Json], key: str) -> bool:
    found = value.get(key, False)
    if not isinstance(found, bool):
        raise ValueError(f'"{key}" is true or false, not {shown(found)}')
    return found


def _sentence(value: Mapping[str, Json], key: str) -> str:
    found = value.get(key, "")
    if not isinstance(found, str):
        raise ValueError(f'"{key}" is a text, not {shown(found)}')
    return found


def _shape_of(word: str, detail: Json) -> FieldType:
    if word == "choice":
        return FieldType(kind=word, choices=_choices(detail))
    if detail is None:
        return FieldType(kind=word)
    if word == "money":
        if not isinstance(detail, str) or not is_currency(detail):
            raise ValueError(f"money is followed by its currency, such as {{ money: JPY }}, not by {shown(detail)}")
        return FieldType(kind=word, currency=detail)
    if word == "list":
        return FieldType(kind=word, items=_item_type(detail))
    if word == "record":
        return FieldType(kind=word, fields=field_types(_options(word, detail)))
    if word == "file":
        return _file_type(_options(word, detail))
    if word in ("text", "number", "integer"):
        return _bounded_type(word, _options(word, detail))
    raise ValueError(f"{word} takes nothing behind it: write {{ {word}: null, label: … }} or just {word}")


def _options(word: str, detail: Json) -> Mapping[str, Json]:
    if not isinstance(detail, Mapping):
        raise ValueError(f"what stands behind {word} is a record, not {shown(detail)}")
    return detail


def _choices(detail: Json) -> dict[str | int, str]:
    pairs = list(detail.items()) if isinstance(detail, Mapping) else [(one, one) for one in _choice_list(detail)]
    found: dict[str | int, str] = {}
    for value, label in pairs:
        if not isinstance(value, (str, int)) or isinstance(value, bool) or value == "":
            raise ValueError(f"a choice is between texts or whole numbers, not {shown(value)}: put it in quotes")
        if value in found:
            raise ValueError(f"{shown(value)} stands twice among the choices")
        if not isinstance(label, (str, int)) or isinstance(label, bool):
            raise ValueError(f"the label of {shown(value)} is a text, not {shown(label)}")
        found[value] = str(label)
    if not found:
        raise ValueError("a choice needs at least one value")
    return found


def _choice_list(detail: Json) -> list[Json]:
    if kind_of(detail) != "list":
        raise ValueError(f"a choice is followed by its values, such as {{ choice: [a, b] }}, not by {shown(detail)}")
    return list(detail)


def _item_type(detail: Json) -> FieldType:
    """A type, or the fields of a record: `{ list: text }`, `{ list: { sku: text, qty: integer } }`."""
    if not isinstance(detail, Mapping):
        return field_type(detail)
    if detail and all(key in KINDS or key in BESIDE for key in detail):
        try:
            return _long_form(detail)
        except ValueError:
            pass
    return FieldType(kind="record", fields=field_types(detail))


def _bounded_type(word: str, options: Mapping[str, Json]) -> FieldType:
    for key, bound in options.items():
        if key not in ("min", "max"):
            raise ValueError(f'"{key}" does not belong behind {word}: {did_you_mean(str(key), ("min", "max"))}')
        if not is_number(bound) or (word == "text" and (bound < 0 or bound != int(bound))):
            raise ValueError(f'"{key}" of {word} is a number, not {shown(bound)}')
    least, most = options.get("min"), options.get("max")
    if least is not None and most is not None and least > most:
        raise ValueError(f'"min" of {word} is larger than "max"')
    return FieldType(kind=word, least=least, most=most)


def _file_type(options: Mapping[str, Json]) -> FieldType:
    for key in options:
        if key not in ("kinds", "max"):
            raise ValueError(f'"{key}" does not belong behind file: {did_you_mean(str(key), ("kinds", "max"))}')
    kinds = options.get("kinds", [])
    if kind_of(kinds) != "list" or not all(isinstance(kind, str) and kind for kind in kinds):
        raise ValueError("the kinds of a file are a list of endings, such as [pdf, jpg]")
    most = read_size(options["max"]) if "max" in options else None
    return FieldType(kind="file", kinds=tuple(kind.lower().removeprefix(".") for kind in kinds), most=most)


def read_size(value: Json) -> int:
    """`10 MB` in bytes. Raises ValueError with a sentence."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{shown(value)} is not a size: write it as 10 MB")
    return int(match[1]) * _SIZES[match[2]]


# --- what the check needs to know ----------------------------------------------------------------------------------


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


def listed_field(output: Mapping[str, Json]) -> str:
    """The field of an answer that is its list: `items`, else the only list there is; empty where that is not clear."""
    lists = [name for name, written in output.items() if kind_of_field(written) == "list"]
    if "items" in output and kind_of_field(output["items"]) in ("list", ""):
        return "items"
    return lists[0] if len(lists) == 1 else ""


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
    if kind == "yes_no":
        return isinstance(value, bool) or value in ("yes", "no")
    if kind == "choice" and isinstance(value, int):
        return True
    wanted = _YAML_TYPES.get(kind, (str,) if kind in TEXTS else (object,))
    return isinstance(value, wanted) and not (kind in NUMBERS and isinstance(value, bool))


def typed_value(text: str, field: Json) -> Any:
    """What somebody typed for a field: text for a text field; for the others JSON where it is JSON (12000, true)."""
    if kind_of_field(field) in ("list", "record", "file", "yes_no", *NUMBERS):
        with suppress(ValueError):
            return json.loads(text)
    return text
