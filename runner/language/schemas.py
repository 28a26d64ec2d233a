"""A JSON Schema that somebody hands us as a flow's inputs: only what is really checked is accepted.

A validator ignores keywords and formats that it does not know, so a misspelled one would check nothing. Here they are
refused when the file loads, and so are patterns that could run for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runner.contract import Json
from runner.language.nearest import did_you_mean
from runner.language.values import shown

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
            yield from _inner(key, value, root, path, depth)


def _inner(key: str, value: Json, root: Mapping[str, Json], path: str, depth: int) -> Iterator[str]:
    wanted = Mapping if key in _NAMED else list
    if not isinstance(value, wanted):
        yield f'"{path}/{key}" is a {"record" if key in _NAMED else "list"} of schemas, not {shown(value)}'
        return
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, part in pairs:
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
