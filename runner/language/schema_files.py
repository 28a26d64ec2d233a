"""A JSON Schema that a file of the project holds for a flow's inputs: only what is really checked is accepted.

A validator passes over keywords and formats that it does not know, so a misspelled one would check nothing; here they
are refused when the flow loads, with their place. What is accepted has every `$ref` filled in, so it surely ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote

from runner.contract import Json
from runner.errors import Problem
from runner.language import validity
from runner.language.fields import FieldType, is_field_name
from runner.language.nearest import did_you_mean, nearest
from runner.language.schemas import DIALECT
from runner.language.source import MOST_BYTES, Path, Place, Source, problem_at, read
from runner.language.values import is_currency, shown

MOST_LEVELS = 30
MOST_PARTS = 2_000

_NOTES = frozenset("$comment title description default examples deprecated readOnly writeOnly".split())
_PLAIN = frozenset(
    "$schema $id type enum const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength "
    "minItems maxItems uniqueItems minContains maxContains minProperties maxProperties required dependentRequired "
    "format pattern $ref".split()
)
_ONE = frozenset("additionalProperties items contains not if then else propertyNames".split())
_MANY = frozenset("oneOf anyOf allOf prefixItems".split())
_NAMED = frozenset("properties $defs dependentSchemas".split())
_KNOWN = _NOTES | _PLAIN | _ONE | _MANY | _NAMED


def read_schema(text: str, file: str) -> tuple[dict[str, Json] | None, tuple[Problem, ...]]:
    """The schema in a JSON or YAML text, every `$ref` filled in; None where anything is wrong with it."""
    data: Json = None
    if file.endswith(".json") and len(text) <= MOST_BYTES:
        text = text.removeprefix("\ufeff").replace("\t", " ")
        try:
            data = json.loads(text)
        except RecursionError:
            pass  # `read` says where it is too deep
        except ValueError as error:
            place = Place(line=getattr(error, "lineno", 1), column=getattr(error, "colno", 1))
            return None, (problem_at(file, place, "FL004", "this is not JSON from here on"),)
    source, problems = read(text, file)
    if source is None or problems:
        return None, problems
    reading = _Reading(source, source.data if data is None else data)
    schema = reading.whole_schema()
    return (None, tuple(dict.fromkeys(reading.problems))) if reading.problems else (schema, ())


class _Reading:
    """One reading of one file."""

    def __init__(self, source: Source, root: Json) -> None:
        self.source = source
        self.root = root
        self.problems: list[Problem] = []
        self.parts = 0

    def wrong(self, path: Path, what: str, hint: str = "", code: str = "FL006") -> None:
        on_key = code == "FL003" or (path not in self.source.scalars and path in self.source.keys)
        self.problems.append(self.source.problem(code, path, what, hint, on="key" if on_key else "value"))

    def whole_schema(self) -> dict[str, Json]:
        if not isinstance(self.root, Mapping) or self.root.get("type") != "object" or not self.root.get("properties"):
            self.wrong(
                (), "this is not the schema of inputs", 'it has "type": "object" and the inputs under "properties"'
            )
            return {}
        if self.root.get("$schema", DIALECT) != DIALECT:
            self.wrong(
                ("$schema",), f"the schema is in another dialect, {shown(self.root['$schema'])}", f"use {DIALECT}"
            )
        for path, what in validity.faults(validity.STANDARD, self.root):
            self.wrong(path, f'"{path[-1] if path else "schema"}" {what}')
        found: dict[str, Json] = self.whole(self.root, (), ())
        if found.get("additionalProperties", False) is not False:
            hint = "take it out: a flow has the inputs under properties and no others"
            self.wrong(("additionalProperties",), "further inputs cannot be named in a flow", hint)
        for name in found["properties"]:
            if not is_field_name(name):
                self.wrong(("properties", name), f'"{name}" is not a name', "use letters, digits and _, a letter first")
        for name, part in {} if self.problems else found["properties"].items():
            for _, what in (
                validity.faults(part, part["default"]) if isinstance(part, dict) and "default" in part else ()
            ):
                self.wrong(("properties", name, "default"), f"the default does not fit: {what}")
        return {key: value for key, value in found.items() if key != "$id"}

    def whole(self, part: Json, path: Path, via: tuple[Path, ...], depth: int = 1) -> Json:
        """The part with every `$ref` in it filled in; `via` are the places that were filled in on the way."""
        self.parts += 1
        if not isinstance(part, Mapping):
            return part
        if depth > MOST_LEVELS or self.parts > MOST_PARTS:
            most = f"{MOST_LEVELS} levels" if depth > MOST_LEVELS else f"{MOST_PARTS:,} parts"
            if not any(found.code == "FL004" for found in self.problems):
                self.wrong(path, f"with every $ref filled in, the schema has more than {most}", code="FL004")
            return True
        found: dict[str, Json] = {}
        for key, value in part.items():
            here = (*path, key)
            found[key] = value
            if key in _ONE:
                found[key] = self.whole(value, here, via, depth + 1)
            elif key in _NAMED and isinstance(value, Mapping):
                found[key] = {name: self.whole(inner, (*here, name), via, depth + 1) for name, inner in value.items()}
            elif key in _MANY and isinstance(value, list):
                found[key] = [self.whole(inner, (*here, at), via, depth + 1) for at, inner in enumerate(value)]
            else:
                self.check_word(key, value, here)
        found.pop("$defs", None)
        self.check_required(found, path)
        return self.filled(found, path, via, depth) if isinstance(found.get("$ref"), str) else found

    def check_word(self, key: str, value: Json, here: Path) -> None:
        """Whether a keyword is known, and its format or pattern one that is checked."""
        if key not in _KNOWN:
            close = nearest(key, _KNOWN)
            hint = f'did you mean "{close}"?' if close else "take it out: what is not checked is not accepted"
            self.wrong(here, f'"{key}" is not checked here', hint, "FL003")
        elif key == "format" and value not in validity.FORMATS:
            self.wrong(
                here, f'the format "{value}" is not checked here', did_you_mean(str(value), validity.FORMATS, "formats")
            )
        elif key == "pattern" and isinstance(value, str):
            try:
                validity.pattern_matcher(value)
            except ValueError as error:
                self.wrong(
                    here, str(error), "write it without look-ahead, look-behind and back references, brackets closed"
                )

    def check_required(self, found: Mapping[str, Json], path: Path) -> None:
        """What is required must be a name that can be there."""
        properties, required = found.get("properties"), found.get("required")
        if (
            isinstance(properties, dict)
            and isinstance(required, list)
            and (not path or found.get("additionalProperties") is False)
        ):
            for at, name in enumerate(required):
                if name not in properties:
                    hint = did_you_mean(str(name), properties, "there are")
                    self.wrong((*path, "required", at), f'"{name}" is required and is no property', hint)

    def filled(self, found: dict[str, Json], path: Path, via: tuple[Path, ...], depth: int) -> Json:
        reference, here = str(found.pop("$ref")), (*path, "$ref")
        target, there = self.target_of(reference)
        if not isinstance(there, Mapping | bool) or not reference.startswith("#"):
            hint = "a reference names a place of the same file, such as #/$defs/line"
            self.wrong(here, f'"{reference}" does not lead to a schema in this file', hint)
        elif target in via:
            self.wrong(here, f'"{reference}" leads back to itself', "write out the levels that are needed")
        else:
            other = self.whole(there, target, (*via, target), depth + 1)
            if isinstance(other, dict) and _NOTES.issuperset(found):
                return {**other, **found}
            found["allOf"] = [*found.get("allOf", ()), other]
        return found

    def target_of(self, reference: str) -> tuple[Path, Json]:
        """The place that `#/$defs/line` names and what stands there; None where nothing does."""
        path: list[str | int] = []
        there = self.root
        for written in reference.split("/")[1:]:
            part = unquote(written).replace("~1", "/").replace("~0", "~")
            path.append(int(part) if isinstance(there, list) and part.isdecimal() else part)
            try:
                there = there[path[-1]]
            except (KeyError, IndexError, TypeError):
                return (), None
        return tuple(path), there


# --- as field types ------------------------------------------------------------------------------------------------

_TYPES = {"number": "number", "integer": "integer", "boolean": "yes_no"}
_STORED_FILE = {"name", "size", "kind", "sha256"}


def fields_of(schema: Mapping[str, Json]) -> dict[str, FieldType]:
    """What expressions see of a schema that was read: its properties as fields.

    Where a property has no plain type its kind is `any`: the schema alone knows what it may be.
    """
    required = schema.get("required", ())
    return {name: _field(part, is_required=name in required) for name, part in schema["properties"].items()}


def _field(part: Json, *, is_required: bool) -> FieldType:
    part = part if isinstance(part, Mapping) else {}
    forms = [form for form in part.get("anyOf", ()) if form != {"type": "null"}]
    is_nullable = len(forms) == len(part.get("anyOf", ())) - 1
    inner = forms[0] if is_nullable and len(forms) == 1 and isinstance(forms[0], Mapping) else part
    written = inner.get("type", ())
    types = {written} if isinstance(written, str) else set(written)
    default = part.get("default")
    is_optional = is_nullable or "null" in types or not (is_required or default is not None)
    kind, shape = _kind_of(types - {"null"}, inner)
    return FieldType(kind=kind, optional=is_optional, default=default, **shape)


def _kind_of(types: set[str], part: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    """(kind, what more a field of it says)."""
    word = next(iter(types)) if len(types) == 1 else ""
    choices, properties = part.get("enum"), part.get("properties", {})
    if choices is not None:
        is_plain = all(isinstance(one, str | int) and not isinstance(one, bool) and one != "" for one in choices)
        return ("choice", {"choices": {one: str(one) for one in choices}}) if choices and is_plain else ("any", {})
    if word == "string":
        return validity.FORMATS.get(part.get("format", ""), "text"), {}
    if word == "array":
        items = part.get("items")
        return "list", {"items": _field(items, is_required=True) if isinstance(items, Mapping) else None}
    if word != "object":
        return _TYPES.get(word, "any"), {}
    if part.get("additionalProperties") is not False:
        return "record", {}
    inside = fields_of({**part, "properties": properties})
    if set(inside) == {"value", "currency"} and inside["value"].kind in ("number", "integer"):
        currency = properties["currency"].get("const", "") if isinstance(properties["currency"], Mapping) else ""
        return "money", {"currency": currency if isinstance(currency, str) and is_currency(currency) else ""}
    return ("file", {}) if set(inside) == _STORED_FILE else ("record", {"fields": inside})
