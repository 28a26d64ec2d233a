"""Compares a connector file with the OpenAPI documents of its vendor, which are not kept here:

    python -m tests.connectors.against connectors/github.yaml api.github.com.json

Looked for in the documents: method and path of every request, the names in its query, what a query or body must have, the
fields of the body as deep as the file writes them, the fields of the answer that the action reads, and of which kind they are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

from tests.connectors.odata import from_metadata

MARKER = re.compile(r"\$\{\{.*?\}\}")
READ = re.compile(r"response\.json((?:\.\w+|\[\d+\]|\['[^']+'\])*)")
STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\['([^']+)'\]")
METHODS = ("get", "post", "put", "patch", "delete")
PLAIN = re.compile(r"^\$\{\{ response\.json((?:\.\w+|\[\d+\]|\['[^']+'\])*) \}\}$")
FITTING = {
    "text": {"string", "integer", "number"},
    "number": {"number", "integer"},
    "integer": {"integer", "number"},
    "yes_no": {"boolean"},
    "list": {"array"},
    "record": {"object"},
}
"""Which kinds of JSON a declared type takes; the others are texts."""


def load(path: str) -> Any:
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(text) if path.endswith(".json") else YAML(typ="safe").load(text)


def fits(step: str, wanted: str) -> bool:
    """Whether a step of a written path, `{id}` or `{range}:append`, can be the wanted one, in which `*` is filled in."""
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(step)), wanted) is not None


def from_discovery(data: Any) -> Any:
    """Google's discovery document as an OpenAPI one, as far as it is compared."""
    schemas = json.loads(json.dumps(data["schemas"]).replace('"$ref": "', '"$ref": "#/schemas/'))
    paths: dict[str, Any] = {}

    def walk(resource: Any) -> None:
        for method in (resource.get("methods") or {}).values():
            path = "/" + data["servicePath"] + method["path"].replace("{+", "{")
            upload = method.get("mediaUpload", {}).get("protocols", {}).get("simple", {}).get("path")
            operation = {
                "parameters": [
                    *({"name": n, "in": one["location"], **one} for n, one in method.get("parameters", {}).items()),
                    *([{"name": "uploadType", "in": "query"}] if upload else []),
                ],
                "requestBody": {"content": {"json": {"schema": {"$ref": f"#/schemas/{method['request']['$ref']}"}}}}
                if "request" in method
                else {},
                "responses": {
                    "200": {"schema": {"$ref": f"#/schemas/{method['response']['$ref']}"}}
                    if "response" in method
                    else {}
                },
            }
            for way in filter(None, (path, upload)):
                paths.setdefault(way, {})[method["httpMethod"].lower()] = operation
        for inner in (resource.get("resources") or {}).values():
            walk(inner)

    walk(data)
    return {"paths": paths, "schemas": schemas}


@dataclass
class Document:
    """One OpenAPI 3 or Swagger 2 document."""

    data: Any

    @property
    def base(self) -> str:
        """What stands before all of its paths."""
        servers = self.data.get("servers") or [{}]
        return str(self.data.get("basePath") or urlsplit(servers[0].get("url", "")).path).rstrip("/")

    def whole(self, value: Any) -> Any:
        """The value, followed through its references."""
        while isinstance(value, dict) and "$ref" in value:
            found = self.data
            for step in value["$ref"].removeprefix("#/").split("/"):
                found = found[step.replace("~1", "/").replace("~0", "~")]
            value = found
        return value

    def fields(self, schema: Any) -> tuple[dict[str, Any], set[str], bool]:
        """(properties, those that must be there, whether others are welcome) of a schema and its parts."""
        schema = self.whole(schema) or {}
        found, needed = dict(schema.get("properties") or {}), set(schema.get("required") or [])
        is_open = (not found and schema.get("type") in (None, "object")) or bool(schema.get("additionalProperties"))
        parts = [self.fields(part) for part in schema.get("allOf") or []]
        needed |= {name for part in parts for name in part[1]}
        choices = [self.fields(part) for word in ("oneOf", "anyOf") for part in schema.get(word) or []]
        for part in (*parts, *choices):
            found |= part[0]
        for target in (schema.get("discriminator") or {}).get("mapping", {}).values():
            kind = self.whole({"$ref": target})
            for part in (kind, *(kind.get("allOf") or ())):
                found |= part.get("properties") or {}
        if parts or choices:
            is_open = bool(schema.get("additionalProperties")) or any(part[2] and not part[0] for part in choices)
        return found, needed, is_open

    def kinds(self, schema: Any) -> set[str]:
        """The kinds of JSON that a schema takes, null too; empty where it does not say."""
        schema = self.whole(schema) or {}
        said = schema.get("type") or ()
        found = {said} if isinstance(said, str) else set(said)
        found |= {"null"} if schema.get("nullable") else set()
        for word in ("allOf", "oneOf", "anyOf"):
            for part in schema.get(word) or []:
                found |= self.kinds(part)
        return found - {""} if found - {"null"} else set()

    def items(self, schema: Any) -> Any:
        """The schema of a list's items, or None."""
        schema = self.whole(schema) or {}
        for part in (
            schema,
            *(self.whole(one) for word in ("oneOf", "anyOf", "allOf") for one in schema.get(word) or []),
        ):
            if "items" in part:
                return part["items"]
        return None

    def operation(self, method: str, path: str) -> tuple[Any, list[Any]] | None:
        """(the operation, its parameters) for a path in which `*` stands for what is filled in."""
        best: tuple[int, str] | None = None
        for written in self.data["paths"]:
            steps, wanted = written.strip("/").split("/"), path.strip("/").split("/")
            if len(steps) == len(wanted) and all(fits(a, b) for a, b in zip(steps, wanted, strict=True)):
                literal = sum(len(re.sub(r"\{\w+\}", "", step)) for step in steps)
                if method in self.data["paths"][written] and (best is None or literal > best[0]):
                    best = (literal, written)
        if best is None:
            return None
        item = self.data["paths"][best[1]]
        given = [self.whole(one) for one in (*(item.get("parameters") or ()), *(item[method].get("parameters") or ()))]
        return item[method], given


@dataclass
class Comparison:
    documents: list[Document]
    origin: str
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("requests", "sent", "read", "kinds"), 0))
    wrong: list[str] = field(default_factory=list)

    def request(self, where: str, request: Mapping[str, Any], key: Mapping[str, Any]) -> tuple[Document, Any] | None:
        method = next(one for one in METHODS if one in request)
        path = MARKER.sub("*", request[method]).partition("?")[0]
        for document in self.documents:
            ways = (path, urlsplit(self.origin).path.rstrip("/") + path, path.removeprefix(document.base))
            for way in ways:
                found = document.operation(method, way)
                if found is not None:
                    self.seen["requests"] += 1
                    self._query(
                        where,
                        found[1],
                        {**(request.get("query") or {}), **({key["query"]: 1} if "query" in key else {})},
                    )
                    self._body(where, document, *found, request, key)
                    headers = {str(one["name"]).lower() for one in found[1] if one.get("in") == "header"}
                    if headers and str(key.get("header", "")).lower() not in {"", *headers}:
                        self.wrong.append(f"{where}: no header {key['header']}")
                    return document, found[0]
        self.wrong.append(f"{where}: there is no {method.upper()} {path}")
        return None

    def _query(self, where: str, given: list[Any], query: Mapping[str, Any]) -> None:
        known = {one["name"].removesuffix("[]"): one for one in given if one.get("in") == "query"}
        sent = {name.partition("[")[0] for name in query}
        self.seen["sent"] += len(sent)
        self.wrong += [f"{where}: no query field {name}" for name in sent if name not in known]
        self.wrong += [
            f"{where}: lacks the query field {n}" for n, one in known.items() if one.get("required") and n not in sent
        ]

    def _body(self, where: str, document: Document, operation: Any, given: list[Any], request: Any, key: Any) -> None:
        body = request.get("json", request.get("form"))
        if "field" in key:
            body = {**(body or {}), key["field"]: "…"}
        content = (document.whole(operation.get("requestBody")) or {}).get("content") or {}
        schema = next((one.get("schema") for one in content.values()), None)
        in_body = [one for one in given if one.get("in") == "body"]
        schema = in_body[0]["schema"] if in_body else schema
        if schema is None and isinstance(body, Mapping):
            fields = {one["name"] for one in given if one.get("in") == "formData"}
            self.wrong += [f"{where}: no field {name}" for name in body if name not in fields]
            self.seen["sent"] += len(body)
        elif isinstance(body, Mapping):
            self._sent(where, document, schema, body)

    def _sent(self, where: str, document: Document, schema: Any, value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                self._sent(where, document, document.items(schema), one)
        if not isinstance(value, Mapping) or schema is None:
            return
        known, needed, is_open = document.fields(schema)
        names = {name.partition("[")[0]: item for name, item in value.items()}
        self.wrong += [f"{where}: lacks the field {name}" for name in sorted(needed) if name not in names]
        for name, item in names.items():
            self.seen["sent"] += 1
            if name in known:
                self._sent(f"{where}.{name}", document, known[name], item)
            elif not is_open:
                self.wrong.append(f"{where}: no field {name}")

    def answer(self, where: str, document: Document, operation: Any, reads: set[str]) -> list[Any]:
        """Looks for each path in the answers of an operation; gives their schemas."""
        answers = [document.whole(one) for code, one in operation["responses"].items() if str(code).startswith("2")]
        schemas = [one.get("schema") for one in answers]
        schemas += [content.get("schema") for one in answers for content in (one.get("content") or {}).values()]
        schemas = [one for one in schemas if one is not None]
        for read in sorted(reads):
            self.seen["read"] += 1
            if not any(self._at(document, schema, read) is not None for schema in schemas):
                self.wrong.append(f"{where}: the answer has no {read.lstrip('.') or 'body'}")
        return schemas

    def kinds(self, where: str, document: Document, schemas: list[Any], outputs: Any, sources: Any) -> None:
        """Whether what an action yields is of the kind that the document has."""
        for name, said in outputs.items():
            plain = PLAIN.match(str(sources.get(name, f"${{{{ response.json.{name} }}}}")))
            word = said if isinstance(said, str) else next(iter(said))
            may_be_empty = word.endswith(" or empty") or (isinstance(said, dict) and bool(said.get("empty")))
            for schema in schemas if plain else ():
                found = document.kinds(self._at(document, schema, plain[1]) if plain else None)
                if not found:
                    continue
                self.seen["kinds"] += 1
                if not found - {"null"} & FITTING.get(word.removesuffix(" or empty"), {"string"}):
                    self.wrong.append(f"{where}: {name} is {word}, and there {' or '.join(sorted(found))}")
                elif "null" in found and not may_be_empty:
                    self.wrong.append(f"{where}: {name} may be nothing there")

    def _at(self, document: Document, schema: Any, read: str) -> Any:
        """The schema at a path; None where there is no such place."""
        for name, index, quoted in STEP.findall(read):
            if index:
                schema = document.items(schema)
                if schema is None:
                    return None
                continue
            known, _, is_open = document.fields(schema)
            if (name or quoted) not in known:
                return {} if is_open else None
            schema = known[name or quoted]
        return {} if schema is None else schema


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from texts(one)


def reads_of(outputs: Mapping[str, Any], block: Mapping[str, Any], sources: Mapping[str, Any]) -> set[str]:
    """The paths below response.json that an action or a look-up reads."""
    said = [*texts(sources), *(str(block.get(word, "")) for word in ("success", "external_id", "count"))]
    return {match for text in said for match in READ.findall(text)} | {
        f".{name}" for name in outputs if name not in sources
    }


def compare(connector: Mapping[str, Any], documents: list[Any], skip: frozenset[str] = frozenset()) -> Comparison:
    """Everything of the file that the documents do not have."""
    done = Comparison([Document(one) for one in documents], connector.get("origin", ""))
    for name, action in connector["actions"].items():
        if name in skip:
            continue
        outputs = action.get("output") or {}
        for word in ("", "lookup", "find"):
            block = action if not word else action.get(word)
            if block is None:
                continue
            where, key = f"{name} {word}".strip(), action.get("key") or {} if not word else {}
            found = done.request(where, block["request"], key)
            if found is not None:
                sources = (block.get("output") if word else action.get("result")) or {}
                schemas = done.answer(where, *found, reads_of(outputs, block, sources))
                done.kinds(where, found[0], schemas, outputs, sources)
    return done


def asked_of(connector: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(method, path) of every request of a file; `*` is what is filled in."""
    blocks = [
        block for action in connector["actions"].values() for block in (action, *map(action.get, ("lookup", "find")))
    ]
    requests = [block["request"] for block in blocks if block]
    return [(m, MARKER.sub("*", one[m]).partition("?")[0]) for one in requests for m in METHODS if m in one]


def described(path: str, connector: Mapping[str, Any]) -> Any:
    """A vendor's document, whatever it is written in, as an OpenAPI one."""
    if path.endswith(".csdl"):
        return from_metadata(Path(path).read_text(encoding="utf-8"), asked_of(connector))
    data = load(path)
    return from_discovery(data) if "discoveryVersion" in data else data


if __name__ == "__main__":
    file = load(sys.argv[1])
    done = compare(file, [described(path, file) for path in sys.argv[2:]])
    for line in done.wrong:
        print(" ", line)
    print(Path(sys.argv[1]).name, done.seen, f"{len(done.wrong)} not in the documents")
