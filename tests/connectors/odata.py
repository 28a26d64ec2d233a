"""An OData metadata document (CSDL) as an OpenAPI one, as far as it is compared: the paths that a connector file asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

_EDM = "{http://docs.oasis-open.org/odata/ns/edm}"
_KINDS = {"Edm.String": "string", "Edm.Boolean": "boolean", "Edm.Int32": "integer", "Edm.DateTimeOffset": "string"}
_QUERY = ("$filter", "$top", "$skip", "$select", "$expand", "$orderby", "$count")


def _item(kind: str) -> str:
    """The type of one item of a collection."""
    return kind.removeprefix("Collection(").removesuffix(")")


def _schema(kind: str) -> Any:
    if kind.startswith("Collection("):
        return {"type": "array", "items": _schema(_item(kind))}
    if kind.startswith("Edm.") or kind == "graph.Json":
        return {"type": _KINDS[kind]} if kind in _KINDS else {}
    return {"$ref": f"#/types/{kind}"}


class Metadata:
    """The types, and what is bound to them, of one document."""

    def __init__(self, text: str) -> None:
        root = ElementTree.fromstring(text)
        self.types: dict[str, Any] = {}
        self.bound: dict[tuple[str, str], list[tuple[dict[str, str], str]]] = {}
        self.sets: dict[str, str] = {}
        for space in root.iter(f"{_EDM}Schema"):
            alias = space.get("Alias") or space.get("Namespace") or ""
            for one in space:
                self._add(alias, one, one.tag.removeprefix(_EDM))

    def _add(self, alias: str, one: ElementTree.Element, word: str) -> None:
        if word in ("EntityType", "ComplexType"):
            fields = {
                part.get("name") or part.get("Name") or "": _schema(part.get("Type") or "")
                for part in one
                if part.get("Type")
            }
            base = one.get("BaseType")
            self.types[f"{alias}.{one.get('Name')}"] = {
                "properties": fields,
                "allOf": [_schema(base)] if base else [],
            }
        elif word in ("Action", "Function"):
            binding, *given = [
                (part.get("Name") or "", part.get("Type") or "") for part in one.iter(f"{_EDM}Parameter")
            ]
            back = one.find(f"{_EDM}ReturnType")
            told = ({n[:1].lower() + n[1:]: t for n, t in given}, back.get("Type") or "" if back is not None else "")
            self.bound.setdefault((binding[1], one.get("Name") or ""), []).append(told)
        elif word == "EnumType":
            self.types[f"{alias}.{one.get('Name')}"] = {}
        elif word == "EntityContainer":
            for part in one:
                kind, name = part.get("EntityType"), part.get("Name") or ""
                self.sets[name] = f"Collection({kind})" if kind else part.get("Type") or ""

    def _field(self, kind: str, name: str) -> str | None:
        """The type of a field of a type or of what it stands on."""
        told = self.types.get(kind.replace("microsoft.graph.", "graph."), {})
        schema = told.get("properties", {}).get(name)
        if schema is None:
            for base in told.get("allOf", []):
                return self._field(base["$ref"].removeprefix("#/types/"), name)
            return None
        if "items" in schema:
            return f"Collection({schema['items'].get('$ref', '').removeprefix('#/types/')})"
        return str(schema.get("$ref", "")).removeprefix("#/types/")

    def walk(self, path: str) -> tuple[str, dict[str, str] | None] | None:
        """(the type at the end of a path, the fields of the action there or None); None where there is no such path."""
        first, *steps = path.strip("/").split("/")
        kind, action = self.sets.get(first, ""), None
        for step in steps:
            if step == "*" and kind.startswith("Collection("):
                kind = _item(kind)
                continue
            name, _, told = step.partition("(")
            names = {part.partition("=")[0] for part in told.rstrip(")").split(",") if part}
            found = self._field(kind.replace("microsoft.graph.", "graph."), name)
            if found is not None:
                kind = found
                continue
            ways = self.bound.get((kind.replace("microsoft.graph.", "graph."), name), [])
            fitting = [way for way in ways if not told or set(way[0]) == names]
            if not fitting:
                return None
            action, kind = (None if told else fitting[0][0]), fitting[0][1]
        return (kind, action) if kind or action is not None else None


def from_metadata(text: str, asked: Iterable[tuple[str, str]]) -> Any:
    """The document with those of the (method, path) that there are; `*` in a path is what is filled in."""
    metadata = Metadata(text)
    paths: dict[str, dict[str, Any]] = {}
    for method, path in asked:
        found = metadata.walk(path)
        if found is None:
            continue
        kind, action = found[0].replace("microsoft.graph.", "graph."), found[1]
        is_list = kind.startswith("Collection(")
        one = _schema(_item(kind) if is_list and method != "get" else kind) if kind else {}
        answer: Mapping[str, Any] = one
        if is_list and method == "get":
            answer = {"properties": {"value": _schema(kind), "@odata.nextLink": {}}}
        sent: Any = one if action is None else {"properties": {n: _schema(t) for n, t in action.items()}, "type": "x"}
        paths.setdefault(path.replace("*", "{x}"), {})[method] = {
            "parameters": [{"in": "query", "name": name} for name in _QUERY],
            "requestBody": {"content": {"json": {"schema": sent}}},
            "responses": {"200": {"schema": answer}},
        }
    return {"paths": paths, "types": metadata.types}
