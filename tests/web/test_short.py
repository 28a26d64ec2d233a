"""The short way to a start answers what the library's way answers, whatever is odd about the request."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping

import httpx
import pytest
from fastapi.routing import APIRoute, request_response

from runner.people.access import new_access
from runner.web.application import application
from runner.web.console import Console
from runner.web.shell import Shell
from runner.web.short import ShortRoute
from tests.web.ground import ADDRESS

PLAIN = {"flow": "asking", "inputs": {"number": "1"}}
MANY = {
    "flow": "asking",
    "runs": [{"inputs": {"number": "1"}}, {"inputs": {}}, {"key": "k", "inputs": {"number": "2"}}],
}
ODD: dict[str, tuple[str, bytes, Mapping[str, str]]] = {
    "as it should be": ("runs", json.dumps(PLAIN).encode(), {}),
    "with a charset": ("runs", json.dumps(PLAIN).encode(), {"content-type": "application/json; charset=utf-8"}),
    "json of another kind": ("runs", json.dumps(PLAIN).encode(), {"content-type": "application/x+json"}),
    "no json": ("runs", json.dumps(PLAIN).encode(), {"content-type": "text/plain"}),
    "a broken kind": ("runs", json.dumps(PLAIN).encode(), {"content-type": "application/json/json"}),
    "no body": ("runs", b"", {}),
    "nothing": ("runs", b"null", {}),
    "a list": ("runs", b"[]", {}),
    "a broken body": ("runs", b'{"flow": "asking"', {}),
    "not UTF-8": ("runs", b'{"flow": "\xff"}', {}),
    "half a letter": ("runs", b'{"flow": "\\ud800"}', {}),
    "without end": ("runs", b"[" * 100_000, {}),
    "a name of its own": ("runs", json.dumps(PLAIN | {"extra": 1}).encode(), {}),
    "a number for a name": ("runs", b'{"flow": 1}', {}),
    "a text for a yes": ("runs", b'{"flow": "asking", "draft": "yes"}', {}),
    "twice the same name": ("runs", b'{"flow": "none", "flow": "asking", "inputs": {"number": "1"}}', {}),
    "no number": ("runs", b'{"flow": "asking", "inputs": {"number": NaN}}', {}),
    "an unknown flow": ("runs", b'{"flow": "none"}', {}),
    "inputs that do not fit": ("runs", b'{"flow": "asking", "inputs": {"number": 1, "other": 2}}', {}),
    "a key": ("runs", json.dumps(PLAIN).encode(), {"idempotency-key": "k1"}),
    "an empty key": ("runs", json.dumps(PLAIN).encode(), {"idempotency-key": ""}),
    "a long key": ("runs", json.dumps(PLAIN).encode(), {"idempotency-key": "k" * 201}),
    "two keys": ("runs", json.dumps(PLAIN | {"key": "k"}).encode(), {"idempotency-key": "k1"}),
    "nobody": ("runs", json.dumps(PLAIN).encode(), {"authorization": ""}),
    "nobody, broken": ("runs", b"{", {"authorization": ""}),
    "nobody, odd": ("runs", b"{}", {"authorization": ""}),
    "a token of nobody": ("runs", json.dumps(PLAIN).encode(), {"authorization": "Bearer nobody"}),
    "somebody who may not": ("runs", json.dumps(PLAIN).encode(), {"authorization": "vera"}),
    "many": ("starts", json.dumps(MANY).encode(), {}),
    "none of many": ("starts", b'{"flow": "asking", "runs": []}', {}),
    "too many": ("starts", json.dumps({"flow": "asking", "runs": [{}] * 2001}).encode(), {}),
}


def shell_of(console: Console, *, is_short: bool) -> Shell:
    app = application(console)
    for at, route in enumerate(app.router.routes):
        if isinstance(route, ShortRoute) and not is_short:
            app.router.routes[at] = long = copy.copy(route)
            long.app = request_response(APIRoute.get_route_handler(route))
    return Shell(app, console)


async def ask(console: Console, what: str, tokens: Mapping[str, str], *, is_short: bool) -> tuple[int, object]:
    path, body, headers = ODD[what]
    sent = {"content-type": "application/json", "authorization": "olga"} | dict(headers)
    sent["authorization"] = f"Bearer {tokens[who]}" if (who := sent["authorization"]) in tokens else who
    transport = httpx.ASGITransport(app=shell_of(console, is_short=is_short))
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        answer = await client.post(f"/api/v1/{path}", content=body, headers=sent)
    return answer.status_code, without_ids(answer.json())


def without_ids(told: object) -> object:
    if isinstance(told, list):
        return [without_ids(one) for one in told]
    keep = ("error", "fields", "joined", "flow", "mode", "starter", "title", "owner", "record")
    return {name: told[name] for name in keep if name in told} if isinstance(told, dict) else told


async def test_both_ways_answer_the_same(console: Console) -> None:
    tokens = {}
    for person in ("olga", "vera"):
        tokens[person], row = new_access("token", f"person:{person}", now=console.now)
        await console.driver.admit(row)
    statuses = set()
    for what in ODD:
        first = await ask(console, what, tokens, is_short=True)
        second = await ask(console, what, tokens, is_short=False)
        if what in ("a key", "many"):  # the second joins what the first began
            first, second = (json.loads(json.dumps(each).replace("true", "false")) for each in (first, second))
        assert list(first) == list(second), what
        statuses.add(first[0])
    assert statuses >= {200, 201, 400, 401, 403, 404, 422}


async def test_the_plain_way_goes_by_the_short_one(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing above would be seen of it."""
    token, row = new_access("token", "person:olga", now=console.now)
    await console.driver.admit(row)

    def refuse(route: APIRoute) -> object:
        async def refused(request: object) -> None:
            raise AssertionError("the long way was gone")

        return refused

    monkeypatch.setattr(APIRoute, "get_route_handler", refuse)
    shell = shell_of(console, is_short=True)
    for at, route in enumerate(shell._app.router.routes):  # type: ignore[attr-defined]
        if isinstance(route, ShortRoute):
            shell._app.router.routes[at] = new = copy.copy(route)  # type: ignore[attr-defined]
            new.app = request_response(ShortRoute.get_route_handler(new))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=shell), base_url=ADDRESS) as client:
        client.headers["authorization"] = f"Bearer {token}"
        assert (await client.post("/api/v1/runs", json=PLAIN)).status_code == 201
        assert (await client.post("/api/v1/starts", json=MANY)).status_code == 200
