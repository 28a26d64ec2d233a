"""JSON Schema 2020-12: what inputs must be, for programs and for people. The only home of jsonschema.

`schema_of` writes the types of a flow's inputs as a schema, for forms and other programs. `read_inputs` reads what a
run is given: by the types, or by the schema of a project's file (`schema_files` says what is accepted). The validator
is made stricter where it is lax: formats are checked, 19.99 is a multiple of 0.01, a pattern takes a time that grows
with the text alone, and every refusal is a sentence of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, cast

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema

from runner.contract import Json, canonical
from runner.errors import InputsInvalid
from runner.language.fields import FieldType, field_types
from runner.language.types import MISSING, is_missing, no_such_field, read_entries, read_entry
from runner.language.values import LARGEST_NUMBER, exact, is_number, shown

DIALECT = "https://json-schema.org/draft/2020-12/schema"
STANDARD: Mapping[str, Json] = Draft202012Validator.META_SCHEMA
"""The schema of schemas."""

_FILLED = {"type": "string", "pattern": r"\S"}
_KINDS: Mapping[str, dict[str, Json]] = {
    "text": _FILLED,
    "number": {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
    "integer": {"type": "integer", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"},
    "datetime": {"type": "string", "format": "date-time"},
    "yes_no": {"type": "boolean"},
    "email": {"type": "string", "format": "email"},
    "phone": {
        "type": "string",
        "allOf": [{"pattern": r"^\+?[0-9(][0-9 ()./-]{3,24}$"}, {"pattern": "^([^0-9]*[0-9]){4,17}[^0-9]*$"}],
    },
    "url": {"type": "string", "format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?:"},
    "record": {"type": "object"},
    "list": {"type": "array"},
    "any": {},
}


# --- types as a schema ---------------------------------------------------------------------------------------------


def schema_of(inputs: Mapping[str, Json]) -> dict[str, Json]:
    """The types of inputs as JSON Schema 2020-12, closed against further names: what `read_inputs` gives fits it.

    Raises ValueError for a type that is none.
    """
    return {"$schema": DIALECT, **_record_schema(field_types(inputs))}


def _record_schema(fields: Mapping[str, FieldType]) -> dict[str, Json]:
    required = [name for name, field in fields.items() if not field.optional and field.default is None]
    return _closed({name: _field_schema(field) for name, field in fields.items()}, required)


def _closed(properties: dict[str, Json], required: list[str]) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _field_schema(field: FieldType) -> dict[str, Json]:
    schema = _kind_schema(field)
    if field.optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    beside = {"title": field.label, "description": field.help, "default": field.default}
    return {**schema, **{key: value for key, value in beside.items() if value not in ("", None)}}


def _kind_schema(field: FieldType) -> dict[str, Json]:
    if field.kind == "choice":
        labels = [{"const": value, "title": label} for value, label in field.choices.items()]
        has_labels = any(str(value) != label for value, label in field.choices.items())
        return {"enum": list(field.choices), **({"oneOf": labels} if has_labels else {})}
    if field.kind == "money":
        currency = {"const": field.currency} if field.currency else {"type": "string", "pattern": "^[A-Z]{3}$"}
        return _closed({"value": _KINDS["number"], "currency": currency}, ["value", "currency"])
    if field.kind == "file":
        return _file_schema(field)
    if field.kind == "list" and field.items is not None:
        return {"type": "array", "items": _field_schema(replace(field.items, optional=False, default=None))}
    if field.kind == "record" and field.fields is not None:
        return _record_schema(field.fields)
    low, high = ("minLength", "maxLength") if field.kind == "text" else ("minimum", "maximum")
    bounds = {low: field.least, high: field.most}
    return {**_KINDS[field.kind], **{key: bound for key, bound in bounds.items() if bound is not None}}


def _file_schema(field: FieldType) -> dict[str, Json]:
    endings = [
        "".join(f"[{sign.upper()}{sign}]" if sign.isalpha() else re.escape(sign) for sign in kind)
        for kind in field.endings
    ]
    name = {"type": "string", **({"pattern": rf"\.({'|'.join(endings)})$"} if endings else {})}
    size = {"type": "integer", "minimum": 0, **({"maximum": field.most} if field.most is not None else {})}
    digest = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    keys = ["name", "size", "kind", "sha256"]
    return _closed(dict(zip(keys, (name, size, {"type": "string"}, digest), strict=True)), keys)


# --- reading inputs ------------------------------------------------------------------------------------------------


def read_inputs(
    inputs: Mapping[str, Json],
    given: Mapping[str, Json],
    *,
    zone: str = "UTC",
    schema: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """The values of a run's inputs. Raises `InputsInvalid` with one sentence per field.

    Text from a form or a terminal becomes the field's kind; defaults are filled in; a missing optional field is None.
    `schema` is the flow's own schema, where a file holds it; without one the types say all that `schema_of` says.
    """
    fields = field_types(inputs)
    if schema is None:
        found, wrong = read_entries(fields, given, zone=zone)
    else:
        found, wrong = _read_by_schema(schema, fields, given, zone)
    if wrong:
        raise InputsInvalid(wrong)
    return found


def _read_by_schema(
    schema: Mapping[str, Json], fields: Mapping[str, FieldType], given: Mapping[str, Json], zone: str
) -> tuple[dict[str, Json], dict[str, str]]:
    values: dict[str, Json] = {}
    wrong = {str(name): no_such_field(str(name), fields) for name in given if name not in fields}
    for name, field in fields.items():
        value = given.get(name)
        is_empty = value is None or (field.kind != "any" and is_missing(field, value))
        if is_empty and field.default is not None:
            values[name] = field.default
        elif is_empty and name in given and field.optional and name in schema.get("required", ()):
            values[name] = None
        elif not is_empty:
            try:
                values[name] = _from_text(field, value, zone)
            except ValueError as error:
                wrong[name] = str(error)
    for name, value in values.items():
        try:
            canonical(value)
        except RecursionError:
            wrong[name] = "is nested too deep"
        except ValueError:
            wrong[name] = "holds a number or a sign that is none"
    whole: dict[str, str] = {}
    for path, what in faults(schema, {name: value for name, value in values.items() if name not in wrong}):
        (wrong if path else whole).setdefault(str(path[0]) if path else "inputs", _placed(path[1:], what))
    return {**dict.fromkeys(fields), **values}, wrong or whole


def _from_text(field: FieldType, value: Json, zone: str) -> Json:
    """The text of a form or terminal as the kind; what is inside a list or record is the schema's matter."""
    if not isinstance(value, str) or field.kind in ("text", "any"):
        return value
    return read_entry(replace(field, items=None, fields=None), value, zone=zone)


def _placed(path: tuple[str | int, ...], what: str) -> str:
    """The sentence behind its place in the field: `item 2: sku: is required and has no value`."""
    return ": ".join([*(f"item {part + 1}" if isinstance(part, int) else part for part in path), what])


# --- what does not fit, in our words -------------------------------------------------------------------------------

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
