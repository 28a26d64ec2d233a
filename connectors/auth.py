"""How a request proves who we are. Credentials are put in here, at the send, and nowhere else.

What a way is told names values; `resolve` turns such a name into the value at the very moment, so nothing secret is
kept in between.

    bearer: token                                      Authorization: Bearer …
    header: { name: X-Api-Key, value: token }          any header; `prefix: "Token "` stands before the value
    basic:  { user: user, password: password }         Authorization: Basic …
    query:  { name: api_key, value: token }            a query field
    hmac:   { secret: key, header: X-Sign, sign: [time, body], time: X-Time }      a signature over what is sent
    oauth2: { grant: client_credentials, token_url: /token, client: id, secret: key }   a token (`connectors/oauth.py`)
    login:  { post: /session, json: …, user: user, password: password, token: …, header: X-Session }      a session
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from connectors.wire import Wire
from runner.clock import SECOND, MachineClock
from runner.contract import Json
from runner.errors import RequestError

Resolve = Callable[[Json], str]
"""From what stands in the spec to the value itself. Raises SecretMissing."""


Credentials = tuple[Mapping[str, str], Mapping[str, str]]
"""(headers, query fields) that are added to a request at the send."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthKind:
    """One way. `fields` are the keys of its spec (name to whether it must be there); a spec that is a single value has
    the one field "". `values` are the fields that stand for a value to be resolved, the others are plain words."""

    fields: Mapping[str, bool]
    values: tuple[str, ...]
    make: Callable[[Mapping[str, Json], Resolve, Wire], Credentials]
    plain: tuple[str, ...] = ()
    """Those of `values` that need not be secret."""
    settings: Mapping[str, Json] = field(default_factory=dict)
    """Further settings of a connection: name to type. What they say counts more than the spec."""
    check: Callable[[Mapping[str, Json]], Iterator[str]] = lambda told: iter(())
    """What is wrong with a spec that has all its fields."""


AUTH: dict[str, AuthKind] = {}
"""Every way by its name."""

GRANTS = ("client_credentials", "refresh_token", "authorization_code")
"""How OAuth2 gives a token."""

_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_HEADER_NAME = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")


def is_header_name(name: str) -> bool:
    """Whether a text can be the name of a header."""
    return bool(_HEADER_NAME.match(name))


def header_value(value: str, what: str) -> str:
    """The value, if a header can carry it. Raises RequestError, which never holds the value."""
    if not _HEADER_VALUE.fullmatch(value):
        raise RequestError(f"{what} holds a character that no header can carry (a line break, or not ASCII)")
    return value


def checked_header(name: str, value: str) -> tuple[str, str]:
    """A header of a prepared request, name lower-case. Raises RequestError."""
    if not is_header_name(name):
        raise RequestError(f'"{name}" cannot be the name of a header')
    return name.lower(), header_value(value, f"the header {name}")


def faults(spec: Json) -> tuple[str, ...]:
    """What is wrong with an `auth` spec, a sentence each; empty if it can be used."""
    if not isinstance(spec, Mapping) or len(spec) != 1:
        return (f"auth names one way: {', '.join(AUTH)}",)
    name, told = next(iter(spec.items()))
    kind = AUTH.get(str(name))
    if kind is None:
        return (f'there is no auth "{name}"; there are {", ".join(AUTH)}',)
    if "" in kind.fields:
        return () if isinstance(told, str | Mapping) and told else (f"auth {name} needs the name of a setting",)
    if not isinstance(told, Mapping):
        return (f"auth {name} needs {', '.join(kind.fields)}",)
    wrong = [f'auth {name} has no "{key}"' for key in told if key not in kind.fields]
    wrong += [f"auth {name} needs {key}" for key, needed in kind.fields.items() if needed and not told.get(key)]
    if name == "header" and not is_header_name(str(told.get("name", ""))):
        wrong.append(f'"{told.get("name", "")}" cannot be the name of a header')
    return tuple(wrong or kind.check(told))


def named_values(spec: Mapping[str, Json]) -> dict[str, Json]:
    """The settings that a spec of a connector file stands on: name to type."""
    if not spec:
        return {}
    name, told = next(iter(spec.items()))
    kind = AUTH[name]
    named = {told if word == "" else told.get(word): "text" if word in kind.plain else "secret" for word in kind.values}
    return {**{setting: type_ for setting, type_ in named.items() if isinstance(setting, str)}, **kind.settings}


def secret_values(spec: Mapping[str, Json]) -> dict[str, Json]:
    """What stands in a spec for a secret, by the words in which a message names it."""
    found: dict[str, Json] = {}
    for name, told in spec.items():
        kind = AUTH[name]
        for word in kind.values:
            if word not in kind.plain and (word == "" or word in told):
                found[f"auth {name} {word}".rstrip()] = told if word == "" else told[word]
    return found


def credentials(spec: Mapping[str, Json], resolve: Resolve, wire: Wire) -> Credentials:
    """What a request gets. Raises SecretMissing, RequestError."""
    if not spec:
        return {}, {}
    name, told = next(iter(spec.items()))
    return AUTH[name].make({"": told} if "" in AUTH[name].fields else told, resolve, wire)


def with_query(url: str, query: Mapping[str, str]) -> str:
    """The URL with further query fields, percent-encoded."""
    if not query:
        return url
    fields = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items())
    return f"{url}{'&' if '?' in url else '?'}{fields}"


def _bearer(told: Mapping[str, Json], resolve: Resolve, wire: Wire) -> Credentials:
    return {"authorization": "Bearer " + header_value(resolve(told[""]), "the bearer token")}, {}


def _header(told: Mapping[str, Json], resolve: Resolve, wire: Wire) -> Credentials:
    name = str(told["name"])
    value = str(told.get("prefix") or "") + resolve(told["value"])
    return {name.lower(): header_value(value, f"the value of the header {name}")}, {}


def _basic(told: Mapping[str, Json], resolve: Resolve, wire: Wire) -> Credentials:
    pair = f"{resolve(told['user'])}:{resolve(told['password'])}"
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}, {}


def _query(told: Mapping[str, Json], resolve: Resolve, wire: Wire) -> Credentials:
    return {}, {str(told["name"]): resolve(told["value"])}


_SIGNED: Mapping[str, Callable[[Wire, str], bytes]] = {
    "time": lambda wire, time: time.encode(),
    "method": lambda wire, time: wire.method.encode(),
    "path": lambda wire, time: urlsplit(wire.url).path.encode(),
    "query": lambda wire, time: urlsplit(wire.url).query.encode(),
    "url": lambda wire, time: wire.url.encode(),
    "body": lambda wire, time: wire.body,
    "body_hash": lambda wire, time: hashlib.sha256(wire.body).hexdigest().encode(),
}
"""What a signature may cover. Time is seconds since 1970, at the send."""
_ENCODINGS: Mapping[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda raw: base64.b64encode(raw).decode(),
}


def _hmac(told: Mapping[str, Json], resolve: Resolve, wire: Wire) -> Credentials:
    time = str(MachineClock().now() // SECOND)
    signed = str(told.get("between") or "").encode().join(_SIGNED[part](wire, time) for part in told["sign"])
    raw = hmac.digest(resolve(told["secret"]).encode(), signed, told.get("hash") or "sha256")
    text = _ENCODINGS[told.get("encoding") or "hex"](raw)
    headers = {str(told["header"]).lower(): str(told.get("prefix") or "") + text}
    if told.get("time"):
        headers[str(told["time"]).lower()] = time
    if told.get("id"):
        headers[str(told["id_header"]).lower()] = header_value(resolve(told["id"]), "the id of the key")
    return headers, {}


def _hmac_faults(told: Mapping[str, Json]) -> Iterator[str]:
    sign = told["sign"]
    for part in sign if isinstance(sign, list) else ["?"]:
        if part not in _SIGNED:
            yield f'auth hmac cannot sign "{part}"; sign is a list of {", ".join(_SIGNED)}'
    for word, known in (("hash", ("sha256", "sha512", "sha1")), ("encoding", tuple(_ENCODINGS))):
        if told.get(word, known[0]) not in known:
            yield f'auth hmac {word} "{told[word]}" must be one of {", ".join(known)}'
    for word in ("header", "time", "id_header"):
        if word in told and not is_header_name(str(told[word])):
            yield f'"{told[word]}" cannot be the name of a header'
    if ("id" in told) != ("id_header" in told):
        yield "auth hmac has id and id_header together or neither"


def _oauth2_faults(told: Mapping[str, Json]) -> Iterator[str]:
    grant, needed = told["grant"], {"refresh_token": "refresh_token", "authorization_code": "authorize_url"}
    if grant not in GRANTS:
        yield f'auth oauth2 grant "{grant}" must be one of {", ".join(GRANTS)}'
    elif grant in needed and not told.get(needed[grant]):
        yield f"auth oauth2 with grant {grant} needs {needed[grant]}"
    elif grant != "authorization_code" and not told.get("secret"):
        yield f"auth oauth2 with grant {grant} needs secret"
    for word in ("token_url", "authorize_url"):
        if word in told and not str(told[word]).startswith(("/", "https://")):
            yield f'auth oauth2 {word} "{told[word]}" must begin with https:// (or /, at the origin)'
    if told.get("send", "basic") not in ("basic", "post"):
        yield f'auth oauth2 send "{told["send"]}" must be basic or post'
    for word in ("more", "ask"):
        if not isinstance(told.get(word, {}), Mapping):
            yield f"auth oauth2 {word} is a map of further fields"


def _login_faults(told: Mapping[str, Json]) -> Iterator[str]:
    if not str(told["post"]).startswith("/"):
        yield f'auth login post "{told["post"]}" must begin with /, at the origin'
    if not is_header_name(str(told["header"])):
        yield f'"{told["header"]}" cannot be the name of a header'
    if told.get("encode", "base64") != "base64":
        yield f'auth login encode "{told["encode"]}" must be base64'
    if "response" not in str(told["token"]):
        yield "auth login token is read out of the answer, by an expression over response"


def _given_later(told: Mapping[str, Json], resolve: Resolve, wire: Wire) -> Credentials:
    """The token is added by whoever has it: it takes a request of its own."""
    return {}, {}


AUTH |= {
    "bearer": AuthKind(fields={"": True}, values=("",), make=_bearer),
    "header": AuthKind(fields={"name": True, "value": True, "prefix": False}, values=("value",), make=_header),
    "basic": AuthKind(
        fields={"user": True, "password": True}, values=("user", "password"), make=_basic, plain=("user",)
    ),
    "query": AuthKind(fields={"name": True, "value": True}, values=("value",), make=_query),
    "hmac": AuthKind(
        fields={"secret": True, "header": True, "sign": True}
        | dict.fromkeys(("between", "hash", "encoding", "prefix", "time", "id", "id_header"), False),
        values=("secret", "id"),
        make=_hmac,
        plain=("id",),
        check=_hmac_faults,
    ),
    "oauth2": AuthKind(
        fields={"grant": True, "token_url": True, "client": True}
        | dict.fromkeys(("secret", "refresh_token", "authorize_url", "scope", "send", "more", "ask"), False),
        values=("client", "secret", "refresh_token"),
        make=_given_later,
        plain=("client",),
        settings=dict.fromkeys(("token_url", "authorize_url", "scope"), "text or empty"),
        check=_oauth2_faults,
    ),
    "login": AuthKind(
        fields=dict.fromkeys(("post", "json", "user", "password", "token", "header"), True)
        | dict.fromkeys(("prefix", "encode"), False),
        values=("user", "password"),
        make=_given_later,
        plain=("user",),
        check=_login_faults,
    ),
}
