"""An OpenAPI document as it was given: `$ref` is resolved inside it alone, `allOf` is merged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from runner.contract import Json
from runner.errors import NotPossible
from runner.language.foreign import read_foreign

MOST_BYTES = 30_000_000
DEEPEST = 12
"""So many `$ref` or `allOf` in one another are followed."""
METHODS: Final = ("get", "post", "put", "patch", "delete", "head", "options", "trace")


_SHAPES: Final[Mapping[str, type]] = {
    "info": dict,
    "components": dict,
    "servers": list,
    "security": list,
    "paths": dict,
}


class Unsayable(Exception):
    """A part of the document that no connector file can say. `str(error)` says why."""


Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """The whole document, and how to read on in it."""

    data: Mapping[str, Any]

    def resolved(self, value: Json) -> Schema:
        """What stands there, or what it refers to. Raises Unsayable."""
        for _ in range(DEEPEST):
            if not isinstance(value, Mapping):
                return {}
            if "$ref" not in value:
                return value
            value = self._at(str(value["$ref"]))
        raise Unsayable("it refers to itself")

    def _at(self, pointer: str) -> Json:
        if not pointer.startswith("#/"):
            raise Unsayable(f"it refers to another document ({pointer[:80]})")
        found: Json = self.data
        for step in unquote(pointer[2:]).split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise Unsayable(f"it refers to {pointer[:80]}, which is not there")
        return found

    def schema(self, value: Json, depth: int = 0) -> Schema:
        """A schema with its `allOf` merged into it. Raises Unsayable."""
        found = self.resolved(value)
        parts = found.get("allOf")
        if not isinstance(parts, list):
            return found
        if depth > DEEPEST:
            raise Unsayable("it is made of itself")
        merged: dict[str, Any] = {}
        for part in (*parts, {key: inner for key, inner in found.items() if key != "allOf"}):
            _merge(merged, self.schema(part, depth + 1))
        return merged

    def credential_names(self) -> frozenset[str]:
        """What carries an API key, in small letters: it is the connection's to add."""
        schemes = (self.data.get("components") or {}).get("securitySchemes") or {}
        kinds = [one for one in schemes.values() if isinstance(one, Mapping) and one.get("type") == "apiKey"]
        return frozenset(str(one.get("name", "")).lower() for one in kinds)

    def operations(self) -> Iterator[Operation]:
        """Every operation under `paths`, in the document's order."""
        paths = self.data.get("paths")
        for path, item in paths.items() if isinstance(paths, Mapping) else ():
            try:
                stands = self.resolved(item)
            except Unsayable:
                continue
            for method in METHODS:
                told = stands.get(method)
                if isinstance(told, Mapping):
                    around = [one for one in (stands, told) if isinstance(one.get("parameters"), list)]
                    written = [one for each in around for one in each["parameters"]]
                    place = [one["servers"] for one in (stands, told) if one.get("servers")]
                    yield Operation(
                        method=method,
                        path=str(path),
                        told=told,
                        parameters=written,
                        servers=place[-1] if place else None,
                    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One operation: `told` is its own map, `parameters` those of its path too, `servers` if it has its own."""

    method: str
    path: str
    told: Mapping[str, Any]
    parameters: Sequence[Json]
    servers: Json = None

    @property
    def spoken(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def tags(self) -> tuple[str, ...]:
        tags = self.told.get("tags")
        return tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()


def _merge(into: dict[str, Any], more: Schema) -> None:
    for key, value in more.items():
        before = into.get(key)
        if key == "properties" and isinstance(before, Mapping) and isinstance(value, Mapping):
            into[key] = {**before, **value}
        elif key == "required" and isinstance(before, list) and isinstance(value, list):
            into[key] = list(dict.fromkeys([*before, *value]))
        else:
            into[key] = value


def read_document(text: str, file: str) -> Document:
    """The document. Raises NotPossible with one sentence that names the place."""
    if len(text) > MOST_BYTES:
        raise NotPossible(f"{file} has more than {MOST_BYTES // 1_000_000} MB, which is not read")
    try:
        data = json.loads(text) if text.lstrip().startswith("{") else read_foreign(text)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        raise NotPossible(f"{file}:{line}:{column} is neither JSON nor YAML that can be read") from None
    if not isinstance(data, Mapping) or not ("openapi" in data or "swagger" in data):
        raise NotPossible(f'{file} is no OpenAPI document: it has no line "openapi: 3…" at its top')
    version = str(data.get("openapi", data.get("swagger")))
    if not version.startswith("3."):
        raise NotPossible(f"{file} is of OpenAPI {version}, and 3.0 and 3.1 are read; convert it first")
    for key, kind in _SHAPES.items():
        if not isinstance(data.get(key) or kind(), kind):
            raise NotPossible(f'"{key}" of {file} is not written as OpenAPI has it')
    if not data.get("paths"):
        raise NotPossible(f'{file} has no "paths", so there is nothing to call')
    return Document(data=data)
