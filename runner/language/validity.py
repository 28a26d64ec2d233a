"""What in a value does not fit a JSON Schema, in our words. The only home of jsonschema; loaded where a schema is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, cast

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema

from runner.contract import Json, canonical
from runner.language.fields import FieldType
from runner.language.types import MISSING, no_such_field, read_entry
from runner.language.values import exact, is_number, shown

STANDARD: Mapping[str, Json] = Draft202012Validator.META_SCHEMA
"""The schema of schemas."""

Fault = tuple[tuple[str | int, ...], str]
"""Where in the value, and what is wrong there."""


def faults(schema: Mapping[str, Json], value: Json) -> list[Fault]:
    """Everything in the value that does not fit the schema; a missing or unknown name is a fault at that name."""
    try:
        return list(dict.fromkeys(found for error in _validator(schema).iter_errors(value) for found in _faults(error)))
    except RecursionError:
        return [((), "is nested too deep")]


_kept: dict[int, tuple[Mapping[str, Json], Draft202012Validator]] = {}
"""One validator for each schema that is in use, by the schema's identity; it is held, so that its id stays its own."""


def _validator(schema: Mapping[str, Json]) -> Draft202012Validator:
    kept = _kept.get(id(schema))
    if kept is None:
        if len(_kept) >= 256:
            _kept.clear()
        kept = _kept[id(schema)] = (schema, _Validator(schema, format_checker=_FORMATS))
    return kept[1]


def _faults(error: ValidationError) -> Iterator[Fault]:
    path, value, wanted = tuple(error.absolute_path), cast(Any, error.instance), error.validator_value
    beside: Mapping[str, Json] = error.schema if isinstance(error.schema, Mapping) else {}
    word = str(error.validator)
    if word == "required" and isinstance(wanted, list):
        yield from (((*path, name), MISSING) for name in wanted if name not in value)
    elif word == "dependentRequired" and isinstance(wanted, Mapping):
        for given, needed in wanted.items():
            yield from (
                ((*path, n), f'is required where "{given}" is given')
                for n in needed
                if given in value and n not in value
            )
    elif word == "additionalProperties" and wanted is False:
        known = beside.get("properties", {})
        yield from (((*path, name), no_such_field(str(name), known)) for name in value if name not in known)
    elif word in ("anyOf", "oneOf") and error.context:
        branches: dict[Any, list[ValidationError]] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        near = [
            found for found in branches.values() if not any(one.validator == "type" and not one.path for one in found)
        ]
        if len(near) == 1:
            yield from (found for inner in near[0] for found in _faults(inner))
        else:
            yield path, f"{shown(value)} fits none of the forms it may have"
    else:
        yield path, _sentence(word, wanted, value, error.cause)


def _sentence(word: str, wanted: Any, value: Json, cause: BaseException | None) -> str:
    if word == "format":
        return str(cause)
    if word == "type":
        kinds = wanted if isinstance(wanted, list) else [wanted]
        what = " or ".join(_TYPES.get(kind, str(kind)) for kind in kinds)
        return f"must be {what}, not {shown(value)}"
    if word == "enum":
        return f"must be one of {', '.join(_short(one) for one in wanted)}, not {shown(value)}"
    return _SENTENCES.get(word, _OTHER).format(wanted=_short(wanted), value=shown(value))


def _short(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


_TYPES: Mapping[str, str] = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no (true or false)",
    "array": "a list",
    "object": "a record",
    "null": "nothing",
}
_OTHER = "{value} does not fit the schema"
_SENTENCES: Mapping[str, str] = {
    "const": "must be {wanted}, not {value}",
    "pattern": "{value} does not fit the pattern {wanted}",
    "minLength": "{value} is too short, it needs at least {wanted} characters",
    "maxLength": "{value} is too long, at most {wanted} characters are allowed",
    "minimum": "must be at least {wanted}, not {value}",
    "maximum": "must be at most {wanted}, not {value}",
    "exclusiveMinimum": "must be more than {wanted}, not {value}",
    "exclusiveMaximum": "must be less than {wanted}, not {value}",
    "multipleOf": "must be a multiple of {wanted}, not {value}",
    "minItems": "must have at least {wanted} items",
    "maxItems": "must have at most {wanted} items",
    "uniqueItems": "must not hold an item twice",
    "contains": "does not hold the items that it must",
    "minProperties": "must have at least {wanted} fields",
    "maxProperties": "must have at most {wanted} fields",
    "oneOf": "{value} fits more than one of the forms, and it may fit one only",
    "not": "{value} is what it must not be",
}


# --- what the validator does not do by itself ----------------------------------------------------------------------

_MOMENT = re.compile(r"[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2}(:[0-9]{2})?)")
_UUID = re.compile("-".join(f"[0-9A-Fa-f]{{{count}}}" for count in (8, 4, 4, 4, 12)))
FORMATS: Mapping[str, str] = {"email": "email", "date": "date", "date-time": "datetime", "uri": "url", "uuid": "text"}
"""The formats that are checked, each with the kind of field it makes."""

_FORMATS = FormatChecker(formats=())


def _check_format(name: str, text: Json) -> bool:
    """Raises ValueError with a sentence."""
    if not isinstance(text, str):
        return True
    if name == "uuid" and not _UUID.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a uuid")
    if name == "date-time" and not _MOMENT.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a moment with its offset: write it as 2026-09-01T09:00:00+09:00")
    if read_entry(FieldType(kind=FORMATS[name]), text) != text and name != "date-time":
        raise ValueError(f"{shown(text)} has a space before or behind it")
    return True


for _name in FORMATS:
    _FORMATS.checks(_name, raises=ValueError)(partial(_check_format, _name))


@lru_cache(maxsize=1_000)
def pattern_matcher(pattern: str) -> SchemaValidator:
    """Finds the pattern in a text, in a time that grows with the text alone. Digits and letters of \\d, \\w are ASCII.

    Raises ValueError where the pattern is none, or looks ahead, behind or back.
    """
    plain = re.sub(r"\\(.)", lambda found: _ASCII.get(found[1], found[0]), pattern, flags=re.DOTALL)
    try:
        return SchemaValidator(core_schema.str_schema(pattern=plain, regex_engine="rust-regex"))
    except SchemaError as error:
        raise ValueError(f'the pattern "{pattern}" cannot be checked') from error


_ASCII = {"d": "[0-9]", "D": "[^0-9]", "w": "[0-9A-Za-z_]", "W": "[^0-9A-Za-z_]"}


def _pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not pattern_matcher(pattern).isinstance_python(value):
        yield ValidationError("no match")


def _multiple_of(validator: Any, step: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """In decimals, so that 19.99 is a multiple of 0.01."""
    if is_number(value) and (Fraction(exact(value)) / Fraction(exact(step))).denominator != 1:
        yield ValidationError("not a multiple")


def _unique_items(validator: Any, is_on: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if is_on and isinstance(value, list):
        seen = {item if is_number(item) else canonical(item) for item in value}
        if len(seen) < len(value):
            yield ValidationError("twice")


_Validator: type[Draft202012Validator] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": _pattern, "multipleOf": _multiple_of, "uniqueItems": _unique_items}
)
