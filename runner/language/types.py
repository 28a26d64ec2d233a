"""Input types: from what somebody gave to values that can be trusted.

The door to two smaller files: `fields` reads a type, `entries` a value. A JSON Schema given as a flow's inputs is
judged here: a validator ignores keywords and formats that it does not know, so a misspelled one would check nothing.
They are refused, and so are patterns that could run for ever.
Text stays exactly the characters written; a field that is missing and may be is present as None.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Iterator, Mapping
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
    WAYS,
    Way,
    is_web_address,
    needs_text,
    read_entries,
    read_entry,
    sample_entry,
)
from runner.language.fields import FieldType, field_type, field_types
from runner.language.nearest import did_you_mean
from runner.language.values import exact, is_number, read_number, shown

__all__ = ["FieldType", "check_fields", "email_address", "field_type", "read_inputs", "sample", "schema_faults"]

FORMATS = ("date", "date-time", "time", "email", "uri", "uuid", "ipv4", "ipv6")
"""The formats that are checked."""

_PLAIN = frozenset(
    "$schema $id $comment title description default examples deprecated readOnly writeOnly type enum const "
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems "
    "minProperties maxProperties required dependentRequired minContains maxContains".split()
)
_ONE = frozenset("additionalProperties items contains not if then else propertyNames".split())
_MANY = frozenset("oneOf anyOf allOf prefixItems".split())
_NAMED = frozenset("properties $defs dependentSchemas".split())
_SPECIAL = frozenset({"format", "pattern", "$ref"})
_KNOWN = _PLAIN | _ONE | _MANY | _NAMED | _SPECIAL
_DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft/2020-12/schema")
_ATOM = re.compile(r"(\[\^?(?:[^\[\]\\]|\\[\w\\\]\[.-])+\]|\\[dDwWsS.+*?()\[\]{}|^$/-]|[^\\\[\](){}.*+?|^$]|\.)")
_REPEAT = re.compile(r"[*+?]|\{[0-9]{1,3}(,([0-9]{1,3})?)?\}")
_MOST_REPEATS = 2
_DEEPEST = 30
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


WAYS["email"] = Way(
    read=lambda field, value, zone, strict: email_address(needs_text(value, "a mail address")),
    called="a mail address",
    sample="draft@example.test",
)


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


# --- a schema from outside -----------------------------------------------------------------------------------------


def schema_faults(schema: Json) -> tuple[str, ...]:
    """One sentence for each thing in the schema that would not be checked; none when all of it is."""
    if not isinstance(schema, Mapping):
        return (f"a schema is a record, not {shown(schema)}",)
    if schema.get("type") != "object":
        return ('the schema of inputs has "type": "object"',)
    dialect = schema.get("$schema", _DIALECTS[0])
    if dialect not in _DIALECTS:
        return (f"the schema is written in another dialect, {shown(dialect)}: use {_DIALECTS[0]}",)
    return tuple(_walk(schema, schema, "", 1))


def _walk(schema: Json, root: Mapping[str, Json], path: str, depth: int) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    where = f"in {path}: " if path else ""
    if not isinstance(schema, Mapping):
        yield f"{where}a schema is a record, not {shown(schema)}"
        return
    if depth > _DEEPEST:
        yield f"{where}the schema is nested too deep"
        return
    for key, value in schema.items():
        if key not in _KNOWN:
            yield f'{where}"{key}" is not checked here: {did_you_mean(str(key), _KNOWN) or "leave it out"}'
        elif key in _SPECIAL:
            yield from (f"{where}{what}" for what in _special(key, value, root))
        elif key in _ONE:
            yield from _walk(value, root, f"{path}/{key}", depth + 1)
        elif key in _MANY or key in _NAMED:
            if not isinstance(value, Mapping if key in _NAMED else list):
                yield f'"{path}/{key}" is a {"record" if key in _NAMED else "list"} of schemas, not {shown(value)}'
                continue
            for name, part in value.items() if isinstance(value, Mapping) else enumerate(value):
                yield from _walk(part, root, f"{path}/{key}/{name}", depth + 1)


def _special(key: str, value: Json, root: Mapping[str, Json]) -> Iterator[str]:
    if not isinstance(value, str):
        yield f'"{key}" is a text, not {shown(value)}'
    elif key == "format" and value not in FORMATS:
        yield f'the format "{value}" is not checked here: {did_you_mean(value, FORMATS, "formats")}'
    elif key == "pattern" and not is_safe_pattern(value):
        yield f'the pattern "{value}" could run for ever: write it without groups, such as [A-Z]{{3}}[0-9]+'
    elif key == "$ref" and not _is_reachable(value, root):
        yield f'"$ref": "{value}" does not lead to a place under $defs of this file'


def _is_reachable(reference: str, root: Mapping[str, Json]) -> bool:
    parts = reference.split("/")
    defined = root.get("$defs")
    return len(parts) == 3 and parts[:2] == ["#", "$defs"] and isinstance(defined, Mapping) and parts[2] in defined


def is_safe_pattern(pattern: str) -> bool:
    """Whether the pattern is a plain row of signs and classes, at most two of them repeated without an end."""
    at, endless = 0, 0
    body = pattern.removeprefix("^")
    if body.endswith("$") and not body.endswith("\\$"):
        body = body[:-1]
    while at < len(body):
        atom = _ATOM.match(body, at)
        if atom is None:
            return False
        at = atom.end()
        repeat = _REPEAT.match(body, at)
        if repeat is not None:
            at = repeat.end()
            endless += repeat[0] in ("*", "+") or repeat[0].endswith(",}")
    try:
        re.compile(pattern)
    except re.error:
        return False
    return endless <= _MOST_REPEATS and len(pattern) <= 200


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
