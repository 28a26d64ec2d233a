"""From an action's input to the exact request: checked fields, filled-in templates, an encoded URL. Pure.

What an expression puts into a path or a query is percent-encoded. A value that stands alone and is nothing (an optional
field that was not given) is left out of query, JSON, form and headers; a `null` written in the file stays.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode
from uuid import UUID

from connectors.auth import checked_header
from connectors.letter import address, freeze
from connectors.model import METHODS, KeyModel, RequestModel
from connectors.stored import boundary_of, stored_files
from runner.contract import Action, Json, missing
from runner.errors import EvaluationError, RequestError
from runner.language.expressions import condition, evaluate
from runner.language.fields import FieldType, field_types
from runner.language.markers import pieces
from runner.language.types import is_plain, read_entries, read_money
from runner.language.values import as_text, number_text

Scope = Mapping[str, Json]
Fill = Callable[[Scope], Json]

MULTIPART: Final = "multipart/form-data"
MAIL: Final = "message/rfc822"
ROW: Final = "row"

_LONE_NAME = re.compile(r"^\s*\$\{\{\s*(input|connection)\.([A-Za-z]\w*)\s*\}\}\s*$")
_LEFT_OUT: Final = object()
"""What `Fill` gives for the lone name of an optional field or setting that was not given."""

_NO_CLOCK: Final[dict[str, Any]] = {"now": 0, "zone": "UTC"}
"""Connector files have no clock: the check refuses now() and today()."""


def checked_input(
    action: Action, input: Mapping[str, Json], types: Mapping[str, FieldType] | None = None
) -> dict[str, Json]:
    """The input with every declared field (None where an optional one was not given). Raises RequestError.

    `types` are those of the action's input, where they have been read before.
    """
    names = action.input
    if types is not None and input.keys() == names.keys():
        plain = {name: input[name] for name in names if is_plain(types[name], input[name])}
        if len(plain) == len(names):
            return plain
    given = {name: value for name, value in input.items() if value is not None or name not in action.input}
    unknown = [name for name in given if name not in action.input]
    if unknown and not action.open_input:
        known = ", ".join(action.input) or "none"
        raise RequestError(f'{action.name} has no field "{unknown[0]}"; its fields: {known}')
    absent = missing(action.input, list(given))
    if absent:
        raise RequestError(f'{action.name} needs the field "{absent[0]}"')
    known_types = field_types(action.input) if types is None else types
    declared = {name: given[name] for name in action.input if name in given}
    _, wrong = read_entries({name: known_types[name] for name in declared}, declared, strict=True)
    for name, what in wrong.items():
        raise RequestError(f"{action.name}: {name}: {what}")
    amounts = {name: read_money(known_types[name], value, strict=True) for name, value in declared.items()}
    return {**dict.fromkeys(action.input), **given, **amounts}


def answered(value: Json, scope: Scope) -> Json:
    """The value with its markers answered. Raises EvaluationError."""
    return evaluate(value, scope, **_NO_CLOCK)


def holds(text: str, scope: Scope) -> bool:
    """The yes or no of a condition. Raises EvaluationError."""
    return condition(text, scope, **_NO_CLOCK)


def lone_name(value: Json) -> tuple[str, str] | None:
    """(root, name) where a value is one marker with one name: `${{ input.note }}`."""
    match = _LONE_NAME.match(value) if isinstance(value, str) else None
    return (match[1], match[2]) if match else None


def filling(value: Json) -> Fill:
    """The value as a function of the scope, read once: `answered`, but what is left out does not appear."""
    if isinstance(value, Mapping):
        fields = [(key, filling(item)) for key, item in value.items()]
        return lambda scope: {key: found for key, fill in fields if (found := fill(scope)) is not _LEFT_OUT}
    if isinstance(value, list):
        items = [filling(item) for item in value]
        return lambda scope: [found for fill in items if (found := fill(scope)) is not _LEFT_OUT]
    name = lone_name(value)
    if name is not None:
        return _lone(value, *name)
    if isinstance(value, str) and "${{" in value:
        return lambda scope: answered(value, scope)
    return lambda scope: value


def _lone(value: str, root: str, name: str) -> Fill:
    def fill(scope: Scope) -> Json:
        found = scope[root].get(name)
        if found is not None:
            return found
        return _LEFT_OUT if name in scope[root] else answered(value, scope)

    return fill


class Template:
    """One request of a connector file, read once; `render` fills it in. `key` says where our key goes, if not into a
    header; `row` is what of a body is this call's own, where calls share a request."""

    def __init__(self, model: RequestModel, key: KeyModel | None = None, row: Json = None) -> None:
        method = next(name for name in METHODS if getattr(model, name) is not None)
        self._method = method.upper()
        self._path = [
            part if isinstance(part, str) else (part.source.strip(), filling(f"${{{{{part.source}}}}}"))
            for part in pieces(getattr(model, method))
        ]
        self._query = filling(model.query or {})
        self._headers = filling(model.headers or {})
        self._key = key or KeyModel()
        self._kind = ""
        self._body: Fill = lambda scope: {}
        if row is not None:
            self._kind, self._body = ROW, filling(row)
        elif model.form is not None:
            self._kind, self._body = "application/x-www-form-urlencoded", filling(model.form)
        elif model.multipart is not None:
            self._kind, self._body = MULTIPART, filling(model.multipart)
        elif model.mail is not None:
            self._kind, self._body = MAIL, filling(model.mail)
        elif model.json_ is not None or self._key.field:
            self._kind = "application/json"
            if model.json_ is not None:
                self._body = filling(model.json_)

    def render(self, scope: Scope, *, key: str, url: Callable[[str], str]) -> dict[str, Json]:
        """The prepared request: `method url headers body`. Raises RequestError and EvaluationError."""
        query, body, headers = self._query(scope), self._body(scope), rendered_headers(self._headers(scope))
        if body is _LEFT_OUT:
            raise EvaluationError("the body is an optional field that has no value")
        if self._key.query:
            query[self._key.query] = key
        if self._key.field:
            body = {**(body if isinstance(body, Mapping) else {}), self._key.field: key}
        where = "".join([part if isinstance(part, str) else _path_part(*part, scope) for part in self._path])
        added, content = query_of(query), ""
        full = url(f"{where}{'&' if '?' in where else '?'}{added}" if added else where)
        if self._kind == ROW:
            json_body(body)
            headers["content-type"] = "application/json"
            return {"method": self._method, "url": full, "headers": headers, "body": "", "row": body}
        if self._kind == MULTIPART:
            parts = _parts(body)
            headers["content-type"] = f"{MULTIPART}; boundary={boundary_of(parts)}"
            return {"method": self._method, "url": full, "headers": headers, "body": "", "parts": parts}
        if self._kind == MAIL:
            letter = freeze(body, sender=address(body.get("from"), "from"), reply_to="", key=key)
            headers["content-type"] = MAIL
            return {"method": self._method, "url": full, "headers": headers, "body": "", "letter": letter}
        if self._kind:
            headers.setdefault("content-type", self._kind)
            content = json_body(body) if self._kind == "application/json" else query_of(body)
        return {"method": self._method, "url": full, "headers": headers, "body": content}


_FORMS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "uuid": lambda digest: str(UUID(bytes=digest[:16], version=4)),
    "short": lambda digest: digest[:12].hex(),
}


def formed(key: str, model: KeyModel | None) -> str:
    """Our key as the service wants it; always the same for the same key."""
    return key if model is None or model.form is None else _FORMS[model.form](hashlib.sha256(key.encode()).digest())


def _path_part(name: str, fill: Fill, scope: Scope) -> str:
    """A value of a path, percent-encoded. Raises RequestError for one that would change the path's shape."""
    value = fill(scope)
    text = "" if value is _LEFT_OUT else as_text(value)
    if not text.strip() or text in (".", ".."):
        shown = f'"{text}"' if text else "empty"
        raise RequestError(f"{name} is {shown}, which cannot stand in a path")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise RequestError(f"{name} holds half of a sign (a lone surrogate), which cannot be sent") from None


def _parts(fields: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The parts of a multipart body: a file is named by its digest. Raises RequestError."""
    found: list[dict[str, Json]] = []
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                found += [{"name": name, "file": file} for file in stored_files(item, f'"{name}"')]
            else:
                found.append({"name": name, "text": _field_text(name, item)})
    json_body(found)
    return found


def set_field(content: Json, name: str, value: Json) -> dict[str, Json]:
    """The map with one field set; a dot in the name goes one level down."""
    head, _, rest = name.partition(".")
    inside = dict(content) if isinstance(content, Mapping) else {}
    inside[head] = set_field(inside.get(head), rest, value) if rest else value
    return inside


def query_of(fields: Mapping[str, Json]) -> str:
    """Query or form fields, encoded: a list gives the field several times, yes and no are true and false.

    Raises RequestError."""
    if not fields:
        return ""
    texts = [
        (str(name), _field_text(name, item))
        for name, value in fields.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    try:
        return urlencode(texts, quote_via=quote, safe="")
    except UnicodeEncodeError:
        raise RequestError("a field holds half of a sign (a lone surrogate), which cannot be sent") from None


def _field_text(name: str, value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, str):
        return value
    raise RequestError(f'"{name}" must be a text, a number or a yes/no here')


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_body(value: Json) -> str:
    """The JSON text of a body. Raises RequestError for what JSON cannot carry."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except (TypeError, ValueError):
        raise RequestError("the body holds a value that JSON cannot carry") from None
    return text


def rendered_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    """Headers of a prepared request, names lower-case. Raises RequestError."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        try:
            text = as_text(value)
        except EvaluationError:
            raise RequestError(f"the header {name} must be a text") from None
        lower, checked = checked_header(str(name), text)
        found[lower] = checked
    return found
