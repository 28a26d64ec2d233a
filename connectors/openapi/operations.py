"""One operation as an action of a connector file: its lines, what a person must decide about it, or why it cannot be
said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connectors.checks import CREDENTIALS
from connectors.openapi import paging
from connectors.openapi.document import Document, Operation, Schema, Unsayable
from connectors.openapi.shapes import (
    action_name,
    as_field,
    choices_of,
    field_name,
    is_file,
    kinds_of,
    properties_of,
    takes_null,
    word_of,
)
from runner.contract import Json

SENDABLE: Final = ("get", "post", "put", "patch", "delete")
_KEY = re.compile(r"idempoten|dedup|^(x-)?request[-_]?id$|client[-_]?(request|token)", re.IGNORECASE)
_PLACED = re.compile(r"\{([^{}/]+)\}")
_JSON = re.compile(r"application/(?:[\w.-]+\+)?json\b|\*/\*")
_ACCOUNT = frozenset({"accept", "content-type", "user-agent", *CREDENTIALS})
ID_NAMES = ("id", "gid", "sid", "uuid", "key", "number")


@dataclass(kw_only=True)
class Said:
    """An action while it is put together: its parts by their key in the file, and what is to be decided."""

    name: str
    title: str
    reads: bool
    input: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    pages: dict[str, Any] = field(default_factory=dict)
    success: str = ""
    output: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    external_id: str = ""
    failures: list[Any] = field(default_factory=list)
    decide: list[tuple[str, str]] = field(default_factory=list)
    """(topic, sentence)."""


def said_of(document: Document, operation: Operation) -> Said:
    """The operation as an action. Raises Unsayable."""
    told = operation.told
    if operation.method not in SENDABLE:
        raise Unsayable(f"{operation.method.upper()} is no method of a connector")
    if "?" in operation.path or "#" in operation.path:
        raise Unsayable("its path holds a query")
    if operation.servers is not None and operation.servers != document.data.get("servers"):
        raise Unsayable("it is on a server of its own")
    name = action_name(str(told.get("operationId") or f"{operation.method} {operation.path}"))
    title = sentence(told.get("summary") or told.get("description")) or operation.spoken
    said = Said(name=name, title=title, reads=operation.method == "get")
    if told.get("deprecated"):
        said.decide.append(("old", "the vendor says that this is deprecated"))
    _read_answers(document, operation, said)
    _read_parameters(document, operation, said)
    if "requestBody" in told:
        _read_body(document, operation, said)
    return said


def sentence(text: Json) -> str:
    """The first sentence of a description, in one line and without markup."""
    plain = re.sub(r"<[^>]*>|[*`#]|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "", str(text or ""))
    first = re.split(r"(?<=[.!?])\s|\n\s*\n", " ".join(plain.split()) if "\n\n" not in plain else plain.strip())[0]
    clean = " ".join("".join(sign for sign in first if sign.isprintable() or sign.isspace()).split()).rstrip(".")
    return clean if len(clean) <= 100 else clean[:100].rsplit(" ", 1)[0] + " …"


# --- what it takes -------------------------------------------------------------------------------------------------


def _read_parameters(document: Document, operation: Operation, said: Said) -> None:
    parts: dict[str, dict[str, Any]] = {"query": {}, "header": {}}
    placed: dict[str, str] = {}
    leaders = paging.leaders(document, operation) if said.pages else {}
    proofs = document.credential_names()
    for (place, name), told in _parameters(document, operation).items():
        if name.lower() in proofs or (place == "header" and name.lower() in _ACCOUNT):
            continue
        if place == "query" and name in leaders:
            continue
        needed, schema = bool(told.get("required")) or place == "path", told.get("schema") or _content(told)
        try:
            word = _flat(document, schema, told)
        except Unsayable as error:
            _leave_out(said, name, needed, str(error))
            continue
        if place == "cookie":
            _leave_out(said, name, needed, "it goes into a cookie")
        elif place == "header" and _KEY.search(name):
            _note_key(said, name, f"header: {name}")
            if needed:
                parts["header"][name] = "${{ key }}"
        elif place == "path":
            placed[name] = _input(said, name, word, optional=False)
        elif place in parts:
            sent = f"{name}[]" if told.get("style") == "deepObject" and _is_list(word) else name
            parts[place][sent] = _input(said, name, word, optional=not needed)
    said.request[operation.method] = _PLACED.sub(
        lambda found: placed.get(found[1]) or _input(said, found[1], "text", optional=False), operation.path
    )
    for place, key in (("query", "query"), ("header", "headers")):
        if parts[place]:
            said.request[key] = parts[place]


def _parameters(document: Document, operation: Operation) -> dict[tuple[str, str], Schema]:
    """Those of the operation over those of its path."""
    found = {}
    for written in operation.parameters:
        told = document.resolved(written)
        found[str(told.get("in")), str(told.get("name"))] = told
    return found


def _content(told: Schema) -> Json:
    content = told.get("content")
    return {"type": "object"} if content else {"type": "string"}


def _flat(document: Document, value: Json, told: Schema) -> Any:
    """The type of what goes into a path, query or header. Raises Unsayable."""
    word = word_of(document, value)
    kind = next(iter(word)) if isinstance(word, Mapping) else word
    if kind == "record":
        raise Unsayable("it is a map")
    if kind == "list" and (told.get("in") != "query" or told.get("explode") is False):
        return "text"
    return "text" if kind == "any" else word


def _is_list(word: Any) -> bool:
    return word == "list" or (isinstance(word, Mapping) and "list" in word)


def _input(said: Said, name: str, word: Any, *, optional: bool, prefix: str = "body") -> str:
    """Declares an input field; answers the expression that stands for it."""
    own = field_name(name)
    while own in said.input:
        own = f"{prefix}_{own}" if not own.startswith(prefix) else f"{own}_2"
    said.input[own] = as_field(word, optional=optional)
    return f"${{{{ input.{own} }}}}"


def _leave_out(said: Said, name: str, needed: bool, why: str) -> None:
    what = "its body" if name == "" else f'"{name}"'
    if needed:
        raise Unsayable(f"{what} cannot be said: {why}")
    said.decide.append(("fields", f"{what} is left out: {why}"))


def _note_key(said: Said, name: str, carrier: str) -> None:
    if not said.reads:
        way = f"writes: keyed and key: {{ {carrier}, life: … }}"
        said.decide.append(("key", f'the document names "{name}"; does the service dedupe by it? then {way}'))


def _read_body(document: Document, operation: Operation, said: Said) -> None:
    told = document.resolved(operation.told["requestBody"])
    content = told.get("content") or {}
    kinds = [(kind, told) for kind, told in content.items() if isinstance(told, Mapping)]
    carrier, schema = next(
        (("json", one.get("schema")) for kind, one in kinds if _JSON.match(kind)),
        next(
            (
                ("form" if "urlencoded" in kind else "multipart", one.get("schema"))
                for kind, one in kinds
                if kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data"))
            ),
            ("", None),
        ),
    )
    needed = bool(told.get("required"))
    if operation.method == "get" and content:
        return _leave_out(said, "", needed, "a get has no body")
    if not carrier:
        why = f"it is {', '.join(map(str, content)) or 'of no type'}"
        return _leave_out(said, "", needed or operation.method == "post", why)
    try:
        _say_body(document, said, carrier, schema, needed)
    except Unsayable as error:
        _leave_out(said, "", needed, str(error))
    return None


def _say_body(document: Document, said: Said, carrier: str, value: Json, needed: bool) -> None:
    schema = document.schema(value)
    properties, must, is_one_of = properties_of(document, schema)
    if is_one_of:
        said.decide.append(("fields", "its body is one of several shapes; the fields of all of them are here"))
    if not properties:
        if carrier != "json":
            raise Unsayable("it is a form without named fields")
        word = word_of(document, schema)
        if word != "any" or needed:
            # a body that is not given is no body, which one expression cannot say
            said.request["json"] = _input(said, "items" if _is_list(word) else "body", word, optional=False)
        return
    body: dict[str, Any] = {}
    for name, inner in properties.items():
        is_needed = name in must and needed
        try:
            found = document.schema(inner)
            if not found.get("readOnly"):
                _say_field(document, said, body, name, found, carrier, is_needed)
        except Unsayable as error:
            _leave_out(said, name, is_needed, str(error))
    if body:
        said.request[carrier] = body


def _say_field(
    document: Document, said: Said, body: dict[str, Any], name: str, schema: Schema, carrier: str, needed: bool
) -> None:
    fixed = choices_of(schema)
    if needed and len(fixed) == 1 and not takes_null(schema):
        body[name] = fixed[0]
        return
    if _KEY.search(name) and kinds_of(schema) == ["string"]:
        _note_key(said, name, f"field: {name}")
        if needed:
            body[name] = "${{ key }}"
            return
    word = "file" if carrier == "multipart" and is_file(schema) else word_of(document, schema)
    if carrier != "json":
        if word in ("record", "list") or (word == "any" and kinds_of(schema) == ["object"]):
            raise Unsayable("a map inside a form")
        word = "text" if word == "any" else word
        name_sent = f"{name}[]" if _is_list(word) and carrier == "form" else name
    else:
        name_sent = name
    body[name_sent] = _input(said, name, word, optional=not needed)


# --- what it answers -----------------------------------------------------------------------------------------------


def _read_answers(document: Document, operation: Operation, said: Said) -> None:
    answers = {str(status): told for status, told in (operation.told.get("responses") or {}).items()}
    good = {status: document.resolved(told) for status, told in answers.items() if status[:1] == "2"}
    schema, is_json = _answer_schema(good or {status: document.resolved(one) for status, one in answers.items()})
    exact = sorted(int(status) for status in good if status.isdigit())
    if schema is not None:
        _say_output(document, said, schema)
    if said.reads:
        said.pages = paging.pages_of(document, operation, said.output)
        if said.pages:
            said.output[said.pages["of"]] = paging.whole_list(said.output[said.pages["of"]])
            said.decide.append(("pages", "how the list goes on is guessed; try it with more than one page"))
    elif exact and exact != [200] and len(exact) == len(good):
        test = f"== {exact[0]}" if len(exact) == 1 else f"in {exact}"
        said.success = f"${{{{ response.status {test} }}}}"
    if said.reads and not is_json and exact:
        said.success, said.output = f"${{{{ response.status == {exact[0]} }}}}", {"text": "text"}
        said.result = {"text": "${{ response.text }}"}
    if not said.reads:
        if 202 in exact:
            said.decide.append(("answer", "202 means that it was accepted, and maybe not done yet"))
        if "409" in answers:
            what = "409 counts as unknown; if it says that nothing was done: failures, is: conflict"
            said.decide.append(("conflict", what))
    _say_failures(document, said, answers)


def _answer_schema(good: Mapping[str, Schema]) -> tuple[Json, bool]:
    """(the schema of the first JSON answer, whether no answer is of another kind)."""
    others = False
    for told in good.values():
        content = told.get("content") or {}
        for kind, inner in content.items():
            if _JSON.match(kind) and isinstance(inner, Mapping):
                return inner.get("schema"), True
        others = others or bool(content)
    return None, not others


def _say_output(document: Document, said: Said, value: Json) -> None:
    try:
        schema = document.schema(value)
        kinds = kinds_of(schema)
        if kinds == ["array"]:
            said.output["items"] = word_of(document, schema, answers=True)
            said.result["items"] = "${{ response.json }}"
            return
        properties, must, _ = properties_of(document, schema)
    except Unsayable:
        return
    for name, inner in properties.items():
        own = field_name(name)
        own = f"its_{own}" if own in ("found", "incomplete") else own
        if own in said.output or "'" in name or "\\" in name:
            continue
        try:
            found = document.schema(inner)
            if found.get("writeOnly"):
                continue
            word, optional = word_of(document, found, answers=True), name not in must or takes_null(found)
        except Unsayable:
            word, optional = "any", True
        said.output[own] = as_field(word, optional=optional)
        if own != name:
            said.result[own] = f"${{{{ response.json['{name}'] }}}}"
    if not properties and kinds == ["object"]:
        said.output["answer"], said.result["answer"] = "record", "${{ response.json }}"
    _say_id(said, properties)


def _say_id(said: Said, properties: Mapping[str, Json]) -> None:
    own = next((name for name in ID_NAMES if name in properties and name in said.output), "")
    if said.reads or not own:
        return
    if said.output[own] in ("text", "integer", "number"):
        said.external_id = f"${{{{ response.json.{own} }}}}"
    elif str(said.output[own]).startswith(("text", "integer", "number")):
        what = f"external_id: ${{{{ response.json.{own} }}}}, if the answer always has it; the document does not say so"
        said.decide.append(("id", what))


def _say_failures(document: Document, said: Said, answers: Mapping[str, Json]) -> None:
    """The vendor's own sentence for what was refused; what the status means stays as it is."""
    by_source: dict[str, list[int]] = {}
    for status, told in answers.items():
        if status in ("400", "422"):
            for source in _message(document, told):
                by_source.setdefault(source, []).append(int(status))
    for source, statuses in by_source.items():
        test = f"== {statuses[0]}" if len(statuses) == 1 else f"in {statuses}"
        said.failures.append(
            {"when": f"${{{{ response.status {test} }}}}", "is": "invalid", "say": f"${{{{ response.json.{source} }}}}"}
        )


def _message(document: Document, told: Json) -> Iterator[str]:
    try:
        value, _ = _answer_schema({"": document.resolved(told)})
        schema = document.schema(value)
        properties = schema.get("properties") or {}
        for outer in ("", "error"):
            inside = document.schema(properties.get(outer)).get("properties") or {} if outer else properties
            for name in ("message", "detail", "error_description", "title"):
                if name in inside and kinds_of(document.schema(inside[name])) == ["string"]:
                    yield f"{outer}.{name}" if outer else name
                    return
    except Unsayable:
        return
