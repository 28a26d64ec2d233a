"""From an action's input to the exact request: checked fields, filled-in templates, an encoded URL. Pure.

What an expression puts into a path or a query is percent-encoded. A value that stands alone and is nothing (an optional
field that was not given) is left out of query, JSON, form and headers; a `null` written in the file stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from connectors.model import METHODS, KeyModel, RequestModel
from connectors.service import checked_header
from runner.contract import Action, Json, missing
from runner.errors import EvaluationError, RequestError
from runner.language.expressions import evaluate
from runner.language.markers import Marker, pieces
from runner.language.types import check_fields
from runner.language.values import as_text, number_text

ZONE = "UTC"
_LONE_NAME = re.compile(r"^\s*\$\{\{\s*(input|connection)\.([A-Za-z]\w*)\s*\}\}\s*$")

NOW = 0
"""Connector files have no clock: the check refuses now() and today()."""


def checked_input(action: Action, input: Mapping[str, Json]) -> dict[str, Json]:
    """The input with every declared field (None where an optional one was not given). Raises RequestError."""
    given = {name: value for name, value in input.items() if value is not None or name not in action.input}
    unknown = [name for name in given if name not in action.input]
    if unknown and not action.open_input:
        known = ", ".join(action.input) or "none"
        raise RequestError(f'{action.name} has no field "{unknown[0]}"; its fields: {known}')
    absent = missing(action.input, list(given))
    if absent:
        raise RequestError(f'{action.name} needs the field "{absent[0]}"')
    declared = {name: given[name] for name in action.input if name in given}
    wrong = check_fields({name: action.input[name] for name in declared}, declared)
    if wrong:
        raise RequestError(f"{action.name}: {wrong[0]}")
    return {**dict.fromkeys(action.input), **given}


def answered(value: Json, scope: Mapping[str, Json]) -> Json:
    """The value with its markers answered. Raises EvaluationError."""
    return evaluate(value, scope, now=NOW, zone=ZONE)


def filled(value: Json, scope: Mapping[str, Json]) -> Json:
    """Like `answered`, but what is `left_out` does not appear."""
    if isinstance(value, Mapping):
        return {key: filled(item, scope) for key, item in value.items() if not is_left_out(item, scope)}
    if isinstance(value, list):
        return [filled(item, scope) for item in value if not is_left_out(item, scope)]
    return answered(value, scope)


def lone_name(value: Json) -> tuple[str, str] | None:
    """(root, name) where a value is one marker with one name: `${{ input.note }}`."""
    match = _LONE_NAME.match(value) if isinstance(value, str) else None
    return (match[1], match[2]) if match else None


def is_left_out(value: Json, scope: Mapping[str, Json]) -> bool:
    """Whether the value is the lone name of an optional field or setting that was not given."""
    name = lone_name(value)
    return name is not None and isinstance(scope.get(name[0]), Mapping) and scope[name[0]].get(name[1], "") is None


def path_of(template: str, scope: Mapping[str, Json]) -> str:
    """A path with its values percent-encoded. Raises RequestError for a value that would change the path's shape."""
    found: list[str] = []
    for part in pieces(template):
        if isinstance(part, Marker):
            found.append(quote(_path_value(part, scope), safe=""))
        else:
            found.append(part)
    return "".join(found)


def _path_value(marker: Marker, scope: Mapping[str, Json]) -> str:
    name = marker.source.strip()
    marked = f"${{{{{marker.source}}}}}"
    text = "" if is_left_out(marked, scope) else as_text(answered(marked, scope))
    if not text.strip() or text in (".", ".."):
        shown = f'"{text}"' if text else "empty"
        raise RequestError(f"{name} is {shown}, which cannot stand in a path")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestError(f"{name} holds half of a sign (a lone surrogate), which cannot be sent") from None
    return text


def query_of(fields: Mapping[str, Json]) -> str:
    """Query or form fields, encoded: a list gives the field several times, yes and no are true and false."""
    pairs: list[str] = []
    for name, value in fields.items():
        items = value if isinstance(value, list) else [value]
        pairs.extend(f"{quote(str(name), safe='')}={quote(_field_text(name, item), safe='')}" for item in items)
    return "&".join(pairs)


def _field_text(name: str, value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, str):
        return value
    raise RequestError(f'"{name}" must be a text, a number or a yes/no here')


def json_body(value: Json) -> str:
    """The JSON text of a body. Raises RequestError for what JSON cannot carry."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError):
        raise RequestError("the body holds a value that JSON cannot carry") from None
    return text


def render(
    model: RequestModel, scope: Mapping[str, Json], *, key: str, carrier: KeyModel | None, url: Callable[[str], str]
) -> dict[str, Json]:
    """The prepared request: `method url headers body`. `carrier` says where our key goes, if not into a header.

    Raises RequestError and EvaluationError.
    """
    method = next(name for name in METHODS if getattr(model, name) is not None)
    query: dict[str, Json] = dict(filled(model.query or {}, scope))
    body = filled(model.json_, scope) if model.json_ is not None else None
    form: dict[str, Json] | None = dict(filled(model.form, scope)) if model.form is not None else None
    if carrier is not None and carrier.query:
        query[carrier.query] = key
    if carrier is not None and carrier.field:
        if form is not None:
            form[carrier.field] = key
        else:
            body = {**(body if isinstance(body, Mapping) else {}), carrier.field: key}
    where = path_of(getattr(model, method), scope)
    try:
        added, content = query_of(query), query_of(form) if form is not None else ""
    except UnicodeEncodeError:
        raise RequestError("a field holds half of a sign (a lone surrogate), which cannot be sent") from None
    headers = rendered_headers(filled(model.headers or {}, scope))
    if form is not None:
        headers.setdefault("content-type", "application/x-www-form-urlencoded")
    elif model.json_ is not None or body is not None:
        headers.setdefault("content-type", "application/json")
        content = json_body(body)
    full = url(f"{where}{'&' if '?' in where else '?'}{added}" if added else where)
    return {"method": method.upper(), "url": full, "headers": headers, "body": content}


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
