"""How a request proves who we are. Credentials are put in here, at the send, and nowhere else.

What a way is told names values; `resolve` turns such a name into the value at the very moment, so nothing secret is
kept in between.

    bearer: token                                      Authorization: Bearer …
    header: { name: X-Api-Key, value: token }          any header; `prefix: "Token "` stands before the value
    basic:  { user: user, password: password }         Authorization: Basic …
    query:  { name: api_key, value: token }            a query field
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

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
    make: Callable[[Mapping[str, Json], Resolve], Credentials]


AUTH: dict[str, AuthKind] = {}
"""Every way by its name."""

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
    return tuple(wrong)


def named_values(spec: Mapping[str, Json]) -> tuple[str, ...]:
    """The names of the settings that a spec of a connector file stands on."""
    if not spec:
        return ()
    name, told = next(iter(spec.items()))
    values = (told if field_name == "" else told.get(field_name) for field_name in AUTH[name].values)
    return tuple(value for value in values if isinstance(value, str))


def credentials(spec: Mapping[str, Json], resolve: Resolve) -> Credentials:
    """What a request gets. Raises SecretMissing, RequestError."""
    if not spec:
        return {}, {}
    name, told = next(iter(spec.items()))
    return AUTH[name].make(told if isinstance(told, Mapping) and "secret" not in told else {"": told}, resolve)


def with_query(url: str, query: Mapping[str, str]) -> str:
    """The URL with further query fields, percent-encoded."""
    if not query:
        return url
    fields = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items())
    return f"{url}{'&' if '?' in url else '?'}{fields}"


def _bearer(told: Mapping[str, Json], resolve: Resolve) -> Credentials:
    return {"authorization": "Bearer " + header_value(resolve(told[""]), "the bearer token")}, {}


def _header(told: Mapping[str, Json], resolve: Resolve) -> Credentials:
    name = str(told["name"])
    value = str(told.get("prefix") or "") + resolve(told["value"])
    return {name.lower(): header_value(value, f"the value of the header {name}")}, {}


def _basic(told: Mapping[str, Json], resolve: Resolve) -> Credentials:
    pair = f"{resolve(told['user'])}:{resolve(told['password'])}"
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}, {}


def _query(told: Mapping[str, Json], resolve: Resolve) -> Credentials:
    return {}, {str(told["name"]): resolve(told["value"])}


AUTH |= {
    "bearer": AuthKind(fields={"": True}, values=("",), make=_bearer),
    "header": AuthKind(fields={"name": True, "value": True, "prefix": False}, values=("value",), make=_header),
    "basic": AuthKind(fields={"user": True, "password": True}, values=("user", "password"), make=_basic),
    "query": AuthKind(fields={"name": True, "value": True}, values=("value",), make=_query),
}
