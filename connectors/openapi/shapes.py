"""From a schema to a type of the flow language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from connectors.openapi.document import Document, Schema, Unsayable
from runner.contract import Json

MOST_CHOICES = 40
_PLAIN: Final = {"string": "text", "integer": "integer", "number": "number", "boolean": "yes_no", "object": "record"}
_BY_FORMAT: Final = {"date": "date", "date-time": "datetime", "email": "email", "uri": "url", "url": "url"}
_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


def field_name(text: str) -> str:
    """The vendor's own name where it is one here: X-Team-Id -> x_team_id, petId stays."""
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text) else action_name(text)


def action_name(text: str) -> str:
    """`repos/list-forUser` -> repos_list_for_user."""
    name = "_".join(part.lower() for part in _BREAK.split(text) if part)
    return name if name[:1].isalpha() else f"n_{name}" if name else "unnamed"


def kinds_of(schema: Schema) -> list[str]:
    """Its types without null; one is guessed where properties or items stand without it."""
    said = schema.get("type")
    kinds = [kind for kind in (said if isinstance(said, list) else [said]) if isinstance(kind, str) and kind != "null"]
    if not kinds:
        kinds = ["object"] if "properties" in schema else ["array"] if "items" in schema else []
    return kinds


def is_file(schema: Schema) -> bool:
    """Whether it is the content of a file."""
    return schema.get("format") == "binary" or "contentMediaType" in schema


def takes_null(schema: Schema) -> bool:
    """Whether null may stand there."""
    said, ways = schema.get("type"), [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    is_null = isinstance(said, list) and "null" in said
    return bool(schema.get("nullable")) or is_null or any(takes_null(way) for way in ways if isinstance(way, Mapping))


def choices_of(schema: Schema) -> list[str | int]:
    """The values of an enum that can be a choice; empty where there are none, or too many."""
    said = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(said, list):
        return []
    values = [one for one in said if one is not None and one != ""]
    if not values or len(values) > MOST_CHOICES or not all(type(one) in (str, int) for one in values):
        return []
    return list(dict.fromkeys(values))


def word_of(document: Document, value: Json, *, answers: bool = False, depth: int = 0) -> Any:
    """The type without its "or empty": a word, a choice, or a list of one. What an answer holds is not held to its
    choices: services add to them. Raises Unsayable."""
    schema = document.schema(value)
    ways = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(ways, list) and not kinds_of(schema):
        return _one_of(_words(document, ways, answers, depth))
    kinds, choices = kinds_of(schema), choices_of(schema)
    if len(kinds) != 1:
        return {"choice": choices} if choices and not answers else "any"
    if kinds == ["array"]:
        item = word_of(document, schema.get("items"), answers=answers, depth=depth + 1) if depth < 1 else "any"
        return {"list": item} if item not in ("any", "record", "list") else "list"
    if choices and not answers and kinds[0] in ("string", "integer"):
        return {"choice": choices}
    if kinds == ["string"]:
        return "text" if answers else _BY_FORMAT.get(str(schema.get("format")), "text")
    return _PLAIN.get(kinds[0], "any")


def _words(document: Document, ways: Iterable[Json], answers: bool, depth: int) -> list[Any]:
    if depth > 4:
        return ["any"]
    found = []
    for way in ways:
        inner = document.schema(way)
        if kinds_of(inner) or inner.get("enum") != [""]:
            is_nothing = inner.get("type") == "null" or inner.get("enum") in ([""], [None])
            found += [] if is_nothing else [word_of(document, inner, answers=answers, depth=depth + 1)]
    return found


def _one_of(words: list[Any]) -> Any:
    if not words:
        return "any"
    if all(word == words[0] for word in words):
        return words[0]
    are_texts = all(word in ("text", "date", "datetime", "email", "url") or "choice" in word for word in words)
    return "text" if are_texts else "any"


def as_field(word: Any, *, optional: bool) -> Any:
    """The type with its "or empty"."""
    if not optional:
        return word
    return {**word, "empty": True} if isinstance(word, Mapping) else f"{word} or empty"


def properties_of(document: Document, schema: Schema) -> tuple[dict[str, Json], frozenset[str], bool]:
    """(properties by name, those that must be there, whether it is one of several shapes). Read-only ones are the
    caller's matter. Raises Unsayable."""
    found = dict(schema.get("properties") or {})
    needed = set(schema.get("required") or ()) if isinstance(schema.get("required"), list) else set()
    ways = [document.schema(way) for way in schema.get("oneOf") or schema.get("anyOf") or ()]
    shapes = [way for way in ways if kinds_of(way) == ["object"]]
    if any(kinds_of(way) not in (["object"], []) for way in ways) and not found:
        raise Unsayable("its body is one of several shapes")
    for way in shapes:
        found = {**way.get("properties", {}), **found}
    in_all = set.intersection(*(set(way.get("required") or ()) for way in shapes)) if shapes else set()
    return found, frozenset(name for name in needed | in_all if name in found), len(shapes) > 1
