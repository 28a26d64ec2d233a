"""Input types: from what the author wrote to JSON Schema, and from what somebody gave to values that can be trusted.

The door to three smaller files: `fields` reads a type, `entries` reads a value, `schemas` judges a schema from outside.
Text stays exactly the characters written; a field that is missing and may be is present as None.
"""

# ruff: noqa: TRY004 (a wrong kind in what somebody wrote is a wrong value)
from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Iterator, Mapping
from email.headerregistry import Address
from email.utils import parseaddr
from typing import Any

import email_validator
from email_validator import EmailNotValidError, validate_email
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend

from runner.contract import Json
from runner.errors import EvaluationError, InputsInvalid
from runner.language import dates
from runner.language.entries import (
    MISSING,
    READERS,
    is_web_address,
    prints_as,
    read_entries,
    read_entry,
    sample_entry,
)
from runner.language.fields import KINDS, FieldType, field_type, field_types, read_size
from runner.language.nearest import did_you_mean
from runner.language.schemas import FORMATS, is_safe_pattern, schema_faults
from runner.language.values import exact, is_number, read_number, shown

__all__ = [
    "KINDS",
    "MISSING",
    "FieldType",
    "check_fields",
    "email_address",
    "field_type",
    "field_types",
    "is_safe_pattern",
    "mailbox",
    "prints_as",
    "read_entry",
    "read_inputs",
    "read_size",
    "sample",
    "schema_faults",
    "schema_of",
]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TIME = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2})?$"
_LONGEST_PATTERN_TEXT = 1_000
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")

for _name in ("local", "localhost", "test"):
    # Mail inside one house or one test goes to such hosts; whether they exist is the mail server's to say.
    if _name in email_validator.SPECIAL_USE_DOMAIN_NAMES:
        email_validator.SPECIAL_USE_DOMAIN_NAMES.remove(_name)


# --- mail addresses ------------------------------------------------------------------------------------------------


def email_address(text: str) -> str:
    """The bare address `aya@acme.example`. Raises ValueError with a sentence; line breaks and names are refused."""
    if _BREAKS.search(text):
        raise ValueError("a mail address stands on one line, without line breaks or control signs")
    address = text.strip()
    if "<" in address or "," in address or ";" in address:
        raise ValueError(f"{shown(text)} is not one bare mail address: write it as name@example.test")
    if not address.isascii():
        raise ValueError(
            f"{shown(text)} has letters that mail servers do not carry in an address{_ascii_hint(address)}"
        )
    try:
        found = validate_email(address, check_deliverability=False, allow_smtputf8=False, globally_deliverable=False)
    except EmailNotValidError as error:
        raise ValueError(f"{shown(text)} is not a mail address: write it as name@example.test") from error
    if "." not in found.domain and found.domain != "localhost":
        raise ValueError(f"{shown(text)} has no domain behind the @: write it as name@example.test")
    if len(found.local_part) > 64:
        raise ValueError(f"{shown(text)} has more than 64 characters before the @, no mail address has")
    return address


def _ascii_hint(address: str) -> str:
    if not address.rpartition("@")[0].isascii():
        return ""
    try:
        return f": write it as {validate_email(address, check_deliverability=False).ascii_email}"
    except EmailNotValidError:
        return ""


def mailbox(text: str) -> tuple[str, str]:
    """(name, address) of `Ops <ops@example.test>` or a bare address: for `from` and `reply_to` of a connection.

    Raises ValueError with a sentence.
    """
    if _BREAKS.search(text):
        raise ValueError("a mail address stands on one line, without line breaks or control signs")
    if "<" not in text:
        return "", email_address(text)
    name, address = parseaddr(text)
    address = email_address(address)
    rest = text.strip()
    if not rest.endswith(f"<{address}>") or rest.count("<") != 1:
        raise ValueError(f"{shown(text)} is not a mail address with a name: write it as Ops <ops@example.test>")
    Address(display_name=name, addr_spec=address)
    return name, address


def _read_email(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    if not isinstance(value, str):
        raise ValueError(f"must be a mail address, not {shown(value)}")
    return email_address(value)


READERS["email"] = _read_email


# --- JSON Schema ---------------------------------------------------------------------------------------------------


def schema_of(inputs: Mapping[str, Json]) -> dict[str, Json]:
    """The inputs as JSON Schema 2020-12, closed against further fields. Raises ValueError."""
    if _given_schema(inputs) is not None:
        return dict(inputs["schema"])
    return {"$schema": _DIALECT, **_object_schema(field_types(inputs))}


def _object_schema(fields: Mapping[str, FieldType]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {name: _field_schema(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if not field.optional and field.default is None],
        "additionalProperties": False,
    }


def _field_schema(field: FieldType) -> dict[str, Json]:
    schema = _kind_schema(field)
    if field.optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    for key, value in (("title", field.label), ("description", field.help), ("default", field.default)):
        if value not in ("", None):
            schema[key] = value
    return schema


def _kind_schema(field: FieldType) -> dict[str, Json]:
    kind = field.kind
    if kind == "choice":
        return {"enum": list(field.choices)}
    if kind == "list":
        return {"type": "array", **({"items": _field_schema(field.items)} if field.items else {})}
    if kind == "record":
        return {"type": "object"} if field.fields is None else _object_schema(field.fields)
    if kind == "money":
        currency = {"const": field.currency} if field.currency else {"type": "string", "pattern": "^[A-Z]{3}$"}
        return _closed({"value": {"type": "number"}, "currency": currency})
    if kind == "file":
        text = {"type": "string"}
        size: dict[str, Json] = {"type": "integer", "minimum": 0}
        if field.most is not None:
            size["maximum"] = field.most
        return _closed({"name": text, "size": size, "kind": text, "sha256": {**text, "pattern": "^[0-9a-f]{64}$"}})
    schema = dict(_KIND_SCHEMAS[kind])
    low, high = ("minLength", "maxLength") if kind == "text" else ("minimum", "maximum")
    bounds = {low: field.least, high: field.most}
    return {**schema, **{key: bound for key, bound in bounds.items() if bound is not None}}


def _closed(properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_KIND_SCHEMAS: Mapping[str, dict[str, Json]] = {
    "text": {"type": "string", "minLength": 1},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "pattern": _TIME},
    "datetime": {"type": "string", "format": "date-time"},
    "yes_no": {"type": "boolean"},
    "email": {"type": "string", "format": "email"},
    "phone": {"type": "string", "minLength": 4},
    "url": {"type": "string", "format": "uri"},
    "any": {},
}


# --- reading inputs ------------------------------------------------------------------------------------------------


def read_inputs(inputs: Mapping[str, Json], given: Mapping[str, Json], *, zone: str = "UTC") -> dict[str, Json]:
    """The values of a run's inputs. Raises `InputsInvalid` with one sentence per field.

    Text from a form or a terminal becomes the field's kind; defaults are filled in; a missing optional field is None.
    """
    schema = _given_schema(inputs)
    if schema is not None:
        found, wrong = _read_by_schema(schema, given)
    else:
        found, wrong = read_entries(field_types(inputs), given, zone=zone)
    if wrong:
        raise InputsInvalid(wrong)
    return found


def check_fields(fields: Mapping[str, Json], given: Mapping[str, Json]) -> tuple[str, ...]:
    """What is wrong with an action's input, one sentence per field; nothing is converted here."""
    _, wrong = read_entries(field_types(fields), given, strict=True)
    return tuple(f"{name}: {what}" for name, what in wrong.items())


def sample(fields: Mapping[str, Json]) -> dict[str, Json]:
    """An answer made out of output types, for drafts; the same each time."""
    return {name: sample_entry(name, field) for name, field in field_types(fields).items()}


def _given_schema(inputs: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """The parsed schema of `{ schema: … }`; None when `schema` is an ordinary input or there is none."""
    schema = inputs.get("schema") if len(inputs) == 1 else None
    return schema if isinstance(schema, Mapping) and ("properties" in schema or "$schema" in schema) else None


def _read_by_schema(schema: Mapping[str, Json], given: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, str]]:
    refused = schema_faults(schema)
    if refused:
        return {}, {"schema": refused[0]}
    properties = schema.get("properties", {})
    values = {name: _from_text(properties.get(name, {}), value) for name, value in given.items() if value is not None}
    for name, part in properties.items():
        if name not in values and isinstance(part, Mapping) and "default" in part:
            values[name] = part["default"]
    wrong: dict[str, str] = {}
    try:
        for error in _Validator(schema, format_checker=_CHECKER).iter_errors(values):
            for name, what in _sentences(error, properties):
                wrong.setdefault(name, what)
    except RecursionError:
        wrong["schema"] = "the schema refers to itself without an end"
    return {**dict.fromkeys(properties), **values}, wrong


def _from_text(part: Json, value: Json) -> Json:
    """A form's text as the number or switch that the schema wants; unchanged when it is neither."""
    wanted = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(value, str):
        return value
    try:
        if wanted in ("number", "integer"):
            return read_number(value)
        if wanted == "boolean":
            return read_entry(FieldType(kind="yes_no"), value)
    except ValueError:
        return value
    return value


def _sentences(error: ValidationError, properties: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """(field, sentence) for one refusal of the validator, in our words."""
    path = [str(part) for part in error.absolute_path]
    word, value = str(error.validator), error.instance
    wanted: Any = error.validator_value
    if word == "required" and isinstance(value, Mapping):
        yield from ((".".join([*path, name]), MISSING) for name in wanted if name not in value)
        return
    if word == "additionalProperties" and isinstance(value, Mapping):
        known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
        for name in value:
            if name not in known:
                yield (
                    ".".join([*path, str(name)]),
                    f"there is no such field, {did_you_mean(str(name), known, 'there are')}",
                )
        return
    yield ".".join(path) or "inputs", _sentence(word, wanted, value)


def _sentence(word: str, wanted: Any, value: Json) -> str:
    if word == "type":
        kinds = wanted if isinstance(wanted, list) else [wanted]
        return f"must be {' or '.join(_TYPE_WORDS.get(str(kind), str(kind)) for kind in kinds)}, not {shown(value)}"
    if word == "enum" and isinstance(wanted, list):
        return f"must be one of {', '.join(map(str, wanted))}, not {shown(value)}"
    pattern = _WORD_SENTENCES.get(word, 'does not fit "{word}" of the schema, {value} was given')
    return pattern.format(word=word, wanted=wanted, value=shown(value))


_TYPE_WORDS: Mapping[str, str] = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no",
    "array": "a list",
    "object": "a record",
    "null": "empty",
}
_WORD_SENTENCES: Mapping[str, str] = {
    "const": "must be {wanted}, not {value}",
    "format": "{value} does not fit the format {wanted}",
    "pattern": "{value} does not fit the pattern {wanted}",
    "minLength": "{value} is shorter than {wanted} characters",
    "maxLength": "{value} is longer than {wanted} characters",
    "minimum": "must be at least {wanted}, not {value}",
    "maximum": "must be at most {wanted}, not {value}",
    "exclusiveMinimum": "must be more than {wanted}, not {value}",
    "exclusiveMaximum": "must be less than {wanted}, not {value}",
    "multipleOf": "must be a multiple of {wanted}, not {value}",
    "minItems": "must have at least {wanted} items",
    "maxItems": "must have at most {wanted} items",
    "uniqueItems": "must not have an item twice",
}


# --- what the validator does not do by itself ----------------------------------------------------------------------


def _multiple_of(validator: Any, step: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """In decimals, so that 19.99 is a multiple of 0.01."""
    if is_number(value) and is_number(step) and step > 0 and exact(value) % exact(step) != 0:
        yield ValidationError("not a multiple")


def _pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and (len(value) > _LONGEST_PATTERN_TEXT or not re.search(pattern, value)):
        yield ValidationError("no match")


_Validator: type[Draft202012Validator] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"multipleOf": _multiple_of, "pattern": _pattern}
)
_CHECKER = FormatChecker(formats=())


def _fits_format(name: str, value: str) -> bool:
    try:
        if name == "email":
            return bool(email_address(value))
        if name == "uri":
            return is_web_address(value)
        if name == "uuid":
            return str(uuid.UUID(value)) == value.lower()
        if name in ("ipv4", "ipv6"):
            return ipaddress.ip_address(value).version == int(name[-1])
        if name == "time":
            return bool(dates.read_time(value))
        when = dates.read(value, "UTC")
    except (ValueError, EvaluationError):
        return False
    has_time = hasattr(when, "hour")
    return has_time and (value[-1] == "Z" or value[-6] in "+-") if name == "date-time" else not has_time


def _register(name: str) -> None:
    @_CHECKER.checks(name)
    def check(value: object) -> bool:
        return not isinstance(value, str) or _fits_format(name, value)


for _name in FORMATS:
    _register(_name)
