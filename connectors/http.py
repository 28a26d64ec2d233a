"""Any HTTP service, without a connector of its own: the built-in connection `http`, and connections of this kind.

A write is of class `once` unless the connection says that the service dedupes a key of ours
(`key: { header: Idempotency-Key, life: 24 hours }`). What success looks like is each call's own to say:
`success: response.status == 201`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from connectors.answers import (
    by_status,
    evidence,
    media_type,
    response_scope,
    retry_after,
    say_status,
)
from connectors.auth import faults, is_header_name
from connectors.client import Answer
from connectors.rendering import NOW, ZONE, checked_input, json_body, query_of, rendered_headers
from connectors.service import HTTP_SETTINGS, Place, Service, checked_header, resolver, secret_only, shown
from runner.clock import MachineClock
from runner.contract import Action, Connector, Effect, Json, Outcome, Purpose, Request, Tools
from runner.errors import EvaluationError, RequestError, SettingsError
from runner.language.clauses import duration
from runner.language.expressions import condition
from runner.language.expressions import faults as expression_faults

WRITES = ("post", "put", "patch", "delete", "request")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SHOWN_HEADERS = (
    "content-type",
    "content-language",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-request-id",
    "x-total-count",
)
"""The headers of an answer that a flow can read."""

_ASKS: Mapping[str, Json] = {
    "url": "text",
    "query": "record or empty",
    "headers": "record or empty",
    "success": "text or empty",
}
_INPUT: Mapping[str, Json] = {**_ASKS, "json": "any or empty", "form": "record or empty", "text": "text or empty"}
_OUTPUT: Mapping[str, Json] = {"status": "integer", "headers": "record", "text": "text"}
_TITLES = {
    "get": "Asks a URL",
    "post": "Sends a POST",
    "put": "Sends a PUT",
    "patch": "Sends a PATCH",
    "delete": "Sends a DELETE",
    "request": "Sends a request with any method",
}


class HttpKind:
    """The kind `http`."""

    name = "http"
    title = "Any HTTP service"

    def settings(self) -> Mapping[str, Json]:
        return {
            **HTTP_SETTINGS,
            "headers": "record or empty",
            "auth": "record or empty",
            "key": "record or empty",
        }

    def actions(self) -> Mapping[str, Action]:
        """The actions of a connection without a key: every write is of class once."""
        return _actions("once", 0)

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """The actions of a connection with these settings: with a `key` its writes are keyed. Raises SettingsError."""
        key = _read_key("http", settings.get("key"))
        return _actions("keyed", key[1]) if key else self.actions()

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        known = self.settings()
        for setting in settings:
            if setting not in known:
                raise SettingsError(f'{name}: a connection of kind http has no "{setting}"; it has {", ".join(known)}')
        place = Place.read(name, settings)
        auth = settings.get("auth") or {}
        if auth:
            wrong = faults(auth)
            if wrong:
                raise SettingsError(f"{name}: {wrong[0]}")
            _check_auth_values(name, auth)
        plain, secret = _read_headers(name, settings.get("headers") or {})
        if (auth or secret) and not place.origin:
            raise SettingsError(f"{name}: a connection with credentials needs an origin, so that they go nowhere else")
        key = _read_key(name, settings.get("key"))
        service = Service(
            name=name, place=place, tools=tools, auth=auth, resolve=resolver(tools), secret_headers=secret
        )
        return _Http(service=service, headers=plain, key=key)


def _actions(effect: Effect, life: int) -> dict[str, Action]:
    found: dict[str, Action] = {}
    for name, title in _TITLES.items():
        reads = name == "get"
        found[name] = Action(
            name=name,
            title=title,
            effect="read" if reads else effect,
            key_life=0 if reads else life,
            input={"method": "text", **_INPUT} if name == "request" else _ASKS if reads else _INPUT,
            output={"found": "yes_no", **_OUTPUT} if reads else _OUTPUT,
            open_output=True,
            sample=None if reads else {"status": 200, "headers": {}, "text": "", "json": None},
        )
    return found


def _check_auth_values(name: str, auth: Mapping[str, Json]) -> None:
    way, told = next(iter(auth.items()))
    if way == "bearer":
        secret_only(name, "auth bearer", told)
    elif isinstance(told, Mapping):
        field = "password" if way == "basic" else "value"
        secret_only(name, f"auth {way} {field}", told.get(field))


def _read_headers(name: str, headers: Json) -> tuple[dict[str, str], dict[str, Json]]:
    """(plain headers, headers whose value is a secret)."""
    if not isinstance(headers, Mapping):
        raise SettingsError(f"{name}: headers must be a map of names and values")
    plain: dict[str, str] = {}
    secret: dict[str, Json] = {}
    for header, value in headers.items():
        if not is_header_name(header):
            raise SettingsError(f'{name}: "{header}" cannot be the name of a header')
        if isinstance(value, Mapping):
            secret[header.lower()] = secret_only(name, f"the header {header}", value)
        elif header.lower() in ("authorization", "proxy-authorization", "cookie"):
            secret_only(name, f"the header {header}", value)
        elif isinstance(value, str):
            try:
                lower, checked = checked_header(header, value)
            except RequestError as error:
                raise SettingsError(f"{name}: {error}") from None
            plain[lower] = checked
        else:
            raise SettingsError(f"{name}: the header {header} must be a text or {{ secret: NAME }}")
    return plain, secret


def _read_key(name: str, key: Json) -> tuple[str, int] | None:
    """(header, life in ms)."""
    if key is None:
        return None
    form = "key must be { header: Idempotency-Key, life: 24 hours }"
    if not isinstance(key, Mapping) or set(key) != {"header", "life"}:
        raise SettingsError(f"{name}: {form}")
    header, life = key["header"], key["life"]
    if not isinstance(header, str) or not is_header_name(header) or header.lower() == "authorization":
        raise SettingsError(f'{name}: "{header}" cannot be the header of a key; {form}')
    try:
        return header, duration(str(life)).ms
    except (ValueError, KeyError):
        raise SettingsError(f'{name}: "{life}" is not how long a service remembers a key; {form}') from None


class _Http:
    """One connection of the kind `http`."""

    def __init__(self, *, service: Service, headers: Mapping[str, str], key: tuple[str, int] | None) -> None:
        self._service = service
        self._headers = headers
        self._key = key
        self._clock = MachineClock()
        self._declared = _actions("keyed", key[1]) if key else _actions("once", 0)

    @property
    def actions(self) -> Mapping[str, Action]:
        return self._declared

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        declared = self._declared.get(action)
        if declared is None:
            raise RequestError(f'{self._service.name} has no action "{action}"; it has {", ".join(self._declared)}')
        if purpose in ("find", "lookup", "undo_lookup"):
            raise RequestError(f"{self._service.name} cannot be asked by a key; that takes a connector of its own")
        given = checked_input(declared, input)
        if self._key is not None:
            checked_header(self._key[0], key)
        method = _method(action, given)
        headers = {**self._headers, **rendered_headers(given["headers"] or {})}
        if "authorization" in headers or "cookie" in headers:
            raise RequestError("credentials are not written in a flow; the connection adds them (auth)")
        body, kind = _body(given)
        if kind:
            headers.setdefault("content-type", kind)
        if body and method in ("GET", "HEAD"):
            raise RequestError(f"a {method} has no body; use query")
        prepared: dict[str, Json] = {
            "method": method,
            "url": self._service.url(_url(str(given["url"]), given["query"] or {})),
            "headers": headers,
            "body": body,
        }
        if given["success"]:
            prepared["success"] = _success(str(given["success"]))
        return Request.of(prepared)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        reads = self._declared[action].effect == "read"
        extra = {self._key[0].lower(): key} if self._key is not None and not reads else {}
        found = await self._service.exchange(
            request.body, extra=extra, reads=reads, once=not reads and self._key is None, limit=limit
        )
        if isinstance(found, Outcome):
            return found
        return self._read(found, request.body, reads)

    async def close(self) -> None:
        await self._service.client.close()

    def origin(self) -> str:
        return self._service.place.origin

    def _read(self, answer: Answer, body: Mapping[str, Json], reads: bool) -> Outcome:
        host = self._service.host(body)
        scope, is_json = response_scope(answer)
        output: dict[str, Json] = {
            "status": answer.status,
            "headers": {name: answer.headers[name] for name in SHOWN_HEADERS if name in answer.headers},
            "text": scope["text"],
            "json": scope["json"],
        }
        if reads and answer.status == 404:
            return Outcome(result="applied", output={"found": False, **output})
        result, reason = by_status(answer)
        said = say_status(answer, host, str(body["url"]))
        if result == "applied":
            wrong = _not_a_success(answer, str(body.get("success", "")), scope, is_json)
            if wrong is None:
                return Outcome(result="applied", output={"found": True, **output} if reads else output)
            result, reason, said = "unknown", wrong[0], f"{said}, and {wrong[1]}"
        return Outcome(
            result=result,
            reason=reason,
            summary=said,
            retry_after=retry_after(answer, self._clock.now()),
            evidence=evidence(answer, self._service.tools.redact),
        )


def _not_a_success(
    answer: Answer, success: str, scope: Mapping[str, Json], is_json: bool
) -> tuple[Literal["unreadable", "unknown"], str] | None:
    """Why a 2xx is no success, or None."""
    kind = media_type(answer)
    if not is_json and "json" in kind:
        return "unreadable", "its body is not the JSON it says it is"
    if not is_json and not success and "html" in kind:
        return "unreadable", "its body is a web page; say what success looks like (success: …) if that is meant"
    if success:
        try:
            if not condition(success, {"response": scope}, now=NOW, zone=ZONE):
                return "unknown", "that does not pass the step's success test"
        except EvaluationError as error:
            return "unreadable", f"the step's success test cannot be answered: {error}"
    return None


def _method(action: str, given: Mapping[str, Json]) -> str:
    if action != "request":
        return action.upper()
    method = str(given["method"]).upper()
    if method not in METHODS:
        raise RequestError(f'"{given["method"]}" is not a method; there are {", ".join(METHODS)}')
    return method


def _url(url: str, query: Mapping[str, Json]) -> str:
    if "#" in url:
        raise RequestError(f'{shown(url)} holds a "#", which is never sent; leave it out')
    added = query_of({name: value for name, value in query.items() if value is not None})
    return f"{url}{'&' if '?' in url else '?'}{added}" if added else url


def _body(given: Mapping[str, Any]) -> tuple[str, str]:
    """(body, content type)."""
    said = [name for name in ("json", "form", "text") if given.get(name) is not None]
    if len(said) > 1:
        raise RequestError(f"a request has one body, and here are {' and '.join(said)}")
    if not said:
        return "", ""
    if said[0] == "json":
        return json_body(given["json"]), "application/json"
    if said[0] == "form":
        return query_of(given["form"]), "application/x-www-form-urlencoded"
    return str(json.loads(json_body(given["text"]))), "text/plain; charset=utf-8"


def _success(text: str) -> str:
    """The success test as one marker. Raises RequestError for what is not in the language."""
    marked = text.strip() if "${{" in text else f"${{{{ {text.strip()} }}}}"
    wrong = expression_faults(marked)
    if wrong:
        raise RequestError(f"success: {wrong[0].what}")
    return marked


KIND: Any = HttpKind()
