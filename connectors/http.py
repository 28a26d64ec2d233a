"""Any HTTP service, without a connector of its own: the built-in connection `http`, and connections of this kind.

A write is of class `once` unless the connection says that the service dedupes a key of ours
(`key: { header: Idempotency-Key, life: 24 hours }`). What success looks like is each call's own to say:
`success: response.status == 201`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.answers import Seen, by_status, media_type
from connectors.auth import checked_header, faults, is_header_name, secret_values
from connectors.rendering import checked_input, holds, json_body, query_of, rendered_headers
from connectors.service import (
    HTTP_SETTINGS,
    Service,
    check_settings,
    no_such_action,
    read_place,
    resolver,
    secret_only,
    shown,
    token_source,
)
from runner.contract import Action, Connector, Effect, Json, Outcome, Purpose, Request, Tools
from runner.errors import EvaluationError, RequestError, SettingsError
from runner.language.clauses import duration
from runner.language.expressions import faults as expression_faults

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SHOWN_HEADERS = (
    "content-type", "content-language", "etag", "last-modified", "link", "location", "retry-after", "x-request-id",
    "x-total-count",
)  # fmt: skip
"""The headers of an answer that a flow can read."""

_ASKS: Mapping[str, Json] = {
    "url": "text",
    **dict.fromkeys(("query", "headers"), "record or empty"),
    "success": "text or empty",
}
_INPUT: Mapping[str, Json] = {**_ASKS, "json": "any or empty", "form": "record or empty", "text": "text or empty"}
_OUTPUT: Mapping[str, Json] = {"status": "integer", "headers": "record", "text": "text"}
_TITLES = {
    "get": "Asks a URL",
    **{method: f"Sends a {method.upper()}" for method in ("post", "put", "patch", "delete")},
    "request": "Sends a request with any method",
}


class HttpKind:
    """The kind `http`."""

    name = "http"
    title = "Any HTTP service"

    def settings(self) -> Mapping[str, Json]:
        return {**HTTP_SETTINGS, **dict.fromkeys(("headers", "auth", "key"), "record or empty")}

    def actions(self) -> Mapping[str, Action]:
        """The actions of a connection without a key: every write is of class once."""
        return _actions("once", 0)

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """The actions of a connection with these settings: with a `key` its writes are keyed. Raises SettingsError."""
        key = _read_key("http", settings.get("key"))
        return _actions("keyed", key[1]) if key else self.actions()

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        origin, client = read_place(name, settings, tools=tools)
        auth = settings.get("auth") or {}
        for wrong in faults(auth) if auth else ():
            raise SettingsError(f"{name}: {wrong}")
        for words, value in secret_values(auth).items():
            secret_only(name, words, value)
        plain, secret = _read_headers(name, settings.get("headers") or {})
        if (auth or secret) and not origin:
            raise SettingsError(f"{name}: a connection with credentials needs an origin, so that they go nowhere else")
        key = _read_key(name, settings.get("key"))
        return _Http(
            name=name,
            actions=_actions("keyed", key[1]) if key else self.actions(),
            place=origin,
            client=client,
            tools=tools,
            auth=auth,
            tokens=token_source(
                name, auth, settings, place=origin, client=client, tools=tools, resolve=resolver(tools)
            ),
            resolve=resolver(tools),
            secret_headers=secret,
            headers=plain,
            key_header=key[0] if key else "",
        )


def _actions(effect: Effect, life: int) -> dict[str, Action]:
    """The actions of a connection whose writes are of this class."""
    asks = {"effect": "read", "input": _ASKS, "output": {"found": "yes_no", **_OUTPUT}}
    sample = {"status": 200, "headers": {}, "text": "", "json": None}
    sends = {"effect": effect, "key_life": life, "input": _INPUT, "output": _OUTPUT, "sample": sample}
    kinds: dict[str, dict[str, Any]] = {"get": asks, "request": {**sends, "input": {"method": "text", **_INPUT}}}
    return {
        name: Action(name=name, title=title, open_output=True, **kinds.get(name, sends))
        for name, title in _TITLES.items()
    }


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


@dataclass(kw_only=True)
class _Http(Service):
    """One connection of the kind `http`. `key_header` carries our key, if the service dedupes by one."""

    headers: Mapping[str, str] = field(default_factory=dict)
    key_header: str = ""

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        declared = self.actions.get(action) or no_such_action(self.name, action, self.actions)
        if purpose in ("find", "lookup", "undo_lookup"):
            raise RequestError(f"{self.name} cannot be asked by a key; that takes a connector of its own")
        given = checked_input(declared, input)
        if self.key_header:
            checked_header(self.key_header, key)
        method = _method(action, given)
        headers = {**self.headers, **rendered_headers(given["headers"] or {})}
        if "authorization" in headers or "cookie" in headers:
            raise RequestError("credentials are not written in a flow; the connection adds them (auth)")
        body, kind = _body(given)
        if kind:
            headers.setdefault("content-type", kind)
        if body and method in ("GET", "HEAD"):
            raise RequestError(f"a {method} has no body; use query")
        url = self.url(_url(str(given["url"]), given["query"] or {}))
        prepared: dict[str, Json] = {"method": method, "url": url, "headers": headers, "body": body}
        if given["success"]:
            prepared["success"] = _success(str(given["success"]))
        return Request.of(prepared)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        reads = self.actions[action].effect == "read"
        extra = {self.key_header.lower(): key} if self.key_header and not reads else {}
        once = not reads and not self.key_header
        seen = await self.exchange(request.body, scope={}, extra=extra, reads=reads, once=once, limit=limit)
        return seen if isinstance(seen, Outcome) else _outcome(seen, str(request.body.get("success", "")), reads)


def _outcome(seen: Seen, success: str, reads: bool) -> Outcome:
    answer = seen.answer
    output: dict[str, Json] = {
        **seen.scope["response"],
        "headers": {name: answer.headers[name] for name in SHOWN_HEADERS if name in answer.headers},
    }
    if reads and answer.status == 404:
        return Outcome(result="applied", output={"found": False, **output})
    if by_status(answer)[0] != "applied":
        return seen.failed()
    kind = media_type(answer)
    if not seen.is_json and "json" in kind:
        return seen.doubtful("unreadable", "its body is not the JSON it says it is")
    if not seen.is_json and not success and "html" in kind:
        why = "its body is a web page; say what success looks like (success: …) if that is meant"
        return seen.doubtful("unreadable", why)
    try:
        if success and not holds(success, seen.scope):
            return seen.doubtful("unknown", "that does not pass the step's success test")
    except EvaluationError as error:
        return seen.doubtful("unreadable", f"the step's success test cannot be answered: {error}")
    return Outcome(result="applied", output={"found": True, **output} if reads else output)


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
    if said == ["json"]:
        return json_body(given["json"]), "application/json"
    if said == ["form"]:
        return query_of(given["form"]), "application/x-www-form-urlencoded"
    if said == ["text"]:
        json_body(given["text"])
        return str(given["text"]), "text/plain; charset=utf-8"
    return "", ""


def _success(text: str) -> str:
    """The success test as one marker. Raises RequestError for what is not in the language."""
    marked = text.strip() if "${{" in text else f"${{{{ {text.strip()} }}}}"
    wrong = expression_faults(marked)
    if wrong:
        raise RequestError(f"success: {wrong[0].what}")
    return marked


KIND: Any = HttpKind()
