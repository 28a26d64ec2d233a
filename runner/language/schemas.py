"""JSON Schema 2020-12: what inputs must be, for programs and for people. The only home of jsonschema.

`schema_of` writes the types of a flow's inputs as a schema, for forms and other programs. `read_inputs` reads what a
run is given: by the types, or by the schema of a project's file (`schema_files` says what is accepted). The validator
is made stricter where it is lax: formats are checked, 19.99 is a multiple of 0.01, a pattern takes a time that grows
with the text alone, and every refusal is a sentence of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from runner.contract import Json, canonical
from runner.errors import InputsInvalid
from runner.language import validity
from runner.language.fields import FieldType, field_types
from runner.language.types import is_missing, no_such_field, read_entries, read_entry
from runner.language.values import LARGEST_NUMBER

DIALECT = "https://json-schema.org/draft/2020-12/schema"

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
    for path, what in validity.faults(schema, {name: value for name, value in values.items() if name not in wrong}):
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
