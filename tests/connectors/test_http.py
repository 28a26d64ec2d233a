"""The generic kind: what it prepares, what it refuses to prepare, and what it makes of answers."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.http import KIND
from runner.contract import Outcome, Purpose
from runner.errors import RequestError, SettingsError
from tests.connectors.httpserver import HttpServer, Script, answer, html, http_server, message, raw
from tests.connectors.tools import Lent

LENT = Lent(TOKEN="tok-3n", USER_PW="p:w é")


def connect(settings: dict[str, Any] | None = None) -> Any:
    return KIND.connect("shop", settings or {}, LENT)


async def call(
    server: HttpServer, action: str, input: dict[str, Any], purpose: Purpose = "do", **settings: Any
) -> Outcome:
    mine = connect({"origin": server.origin, "allow_private": True, **settings})
    request = mine.prepare(action, input, key="key-1", purpose=purpose)
    found: Outcome = await mine.send(action, request, key="key-1", purpose=purpose, limit=2_000)
    await mine.close()
    return found


async def test_a_read() -> None:
    async with http_server() as server:
        server.on("/a", answer(200, [1, 2], ETag="x", Set_Cookie="no=no"))
        found = await call(
            server,
            "get",
            {"url": "/a", "query": {"q": "a b&c", "n": 1.0, "on": True, "no": None, "l": ["x", "y"]}},
            "read",
        )
    assert server.got[0].target == "/a?q=a%20b%26c&n=1&on=true&l=x&l=y"
    assert found.result == "applied"
    assert found.output["found"] is True
    assert found.output["json"] == [1, 2]
    assert found.output["headers"] == {"content-type": "application/json", "etag": "x"}


async def test_a_read_that_finds_nothing() -> None:
    async with http_server() as server:
        server.on("/a", answer(404, {"message": "no"}))
        found = await call(server, "get", {"url": "/a"}, "read")
    assert (found.result, found.output["found"], found.output["status"]) == ("applied", False, 404)


async def test_writes() -> None:
    async with http_server() as server:
        server.on("/a", answer(201, {"id": 7}))
        for action, method in (("post", "POST"), ("put", "PUT"), ("patch", "PATCH"), ("delete", "DELETE")):
            found = await call(server, action, {"url": "/a", "json": {"名": "値", "n": None}})
            assert (found.result, found.output["status"]) == ("applied", 201)
            assert server.got[-1].method == method
            assert server.got[-1].body == '{"名":"値","n":null}'.encode()
            assert server.got[-1].headers["content-type"] == "application/json"
        await call(server, "request", {"url": "/a", "method": "patch", "form": {"a": "1 2", "b": [1, 2]}})
        assert (server.got[-1].method, server.got[-1].body) == ("PATCH", b"a=1%202&b=1&b=2")
        await call(server, "post", {"url": "/a", "text": "いろは"})
        assert server.got[-1].headers["content-type"] == "text/plain; charset=utf-8"
        assert len({one.connection for one in server.got}) == len(server.got)


@pytest.mark.parametrize(
    ("script", "success", "expected"),
    [
        (answer(200, {"ok": True}), "", ("applied", "")),
        (answer(204), "", ("applied", "")),
        (raw(message(200, b"ok", kind="text/plain")), "", ("applied", "")),
        (html(200), "", ("unknown", "unreadable")),
        (html(200), "response.status == 200", ("applied", "")),
        (raw(message(200, b"<oops>")), "", ("unknown", "unreadable")),
        (raw(message(200, b"<oops>")), "response.status == 200", ("unknown", "unreadable")),
        (answer(200, {"ok": False}), "${{ response.json.ok }}", ("unknown", "unknown")),
        (answer(200, {"ok": "yes"}), "response.json.ok", ("unknown", "unreadable")),
        (answer(200, {}), "response.json.ok", ("unknown", "unreadable")),
        (answer(302, None, Location="https://elsewhere.test/x"), "", ("unknown", "redirect")),
        (answer(409, {}), "", ("unknown", "conflict")),
        (answer(422, {}), "", ("refused", "invalid")),
        (answer(429, {}, Retry_After="2"), "", ("refused", "rate_limited")),
        (answer(503, {}, Retry_After="2"), "", ("unknown", "unknown")),
    ],
)
async def test_outcomes_of_a_write(script: Script, success: str, expected: tuple[str, str]) -> None:
    async with http_server() as server:
        server.on("/a", script)
        found = await call(server, "post", {"url": "/a", "json": {}, "success": success or None})
    assert (found.result, found.reason) == expected
    if found.result != "applied":
        assert found.evidence.startswith("HTTP ")
        assert found.summary
    if "429" in found.evidence or "503" in found.evidence:
        assert found.retry_after == 2_000


async def test_a_key_makes_writes_keyed() -> None:
    key = {"header": "Idempotency-Key", "life": "24 hours"}
    assert connect().actions["post"].effect == "once"
    assert KIND.actions()["post"].effect == "once"
    assert KIND.actions_for({"key": key})["post"].effect == "keyed"
    mine = connect({"key": key})
    assert (mine.actions["post"].effect, mine.actions["post"].key_life) == ("keyed", 86_400_000)
    assert mine.actions["get"].effect == "read"
    async with http_server() as server:
        server.on("/a", answer(200, {}))
        await call(server, "post", {"url": "/a"}, key=key)
        await call(server, "get", {"url": "/a"}, "read", key=key)
    assert server.got[0].headers["idempotency-key"] == "key-1"
    assert "idempotency-key" not in server.got[1].headers


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ({"bearer": {"secret": "TOKEN"}}, "authorization", "Bearer tok-3n"),
        ({"header": {"name": "X-Api-Key", "value": {"secret": "TOKEN"}}}, "x-api-key", "tok-3n"),
        (
            {"header": {"name": "Authorization", "value": {"secret": "TOKEN"}, "prefix": "Token "}},
            "authorization",
            "Token tok-3n",
        ),
        ({"basic": {"user": "ops", "password": {"secret": "USER_PW"}}}, "authorization", "Basic b3BzOnA6dyDDqQ=="),
    ],
)
async def test_credentials_are_added_at_the_send(auth: dict[str, Any], header: str, value: str) -> None:
    async with http_server() as server:
        server.on("/a", answer(200, {}))
        await call(server, "post", {"url": "/a"}, auth=auth, headers={"X-Team": "ops"})
        await call(server, "post", {"url": "/a"}, auth={"query": {"name": "k", "value": {"secret": "TOKEN"}}})
    assert server.got[0].headers[header] == value
    assert server.got[0].headers["x-team"] == "ops"
    assert server.got[1].target == "/a?k=tok-3n"


@pytest.mark.parametrize(
    ("input", "sentence"),
    [
        ({}, 'post needs the field "url"'),
        ({"url": "/a"}, 'shop has no origin, so "/a" must be a whole URL'),
        ({"url": "ftp://x.test/"}, '"ftp://x.test/" is not a URL that begins with http:// or https://'),
        ({"url": "https://a:b@x.test/"}, "a URL must not hold credentials; shop adds them itself"),
        (
            {"url": "https://x.test/a b"},
            '"https://x.test/a b" holds a space, a "#" or a sign that must be percent-encoded',
        ),
        (
            {"url": "https://x.test/日"},
            '"https://x.test/日" holds a space, a "#" or a sign that must be percent-encoded',
        ),
        ({"url": "https://x.test/a/../b"}, 'the path of https://x.test/a/../b holds a "." or ".." step'),
        ({"url": "https://x.test/a/%2E%2e/b"}, 'the path of https://x.test/a/%2E%2e/b holds a "." or ".." step'),
        ({"url": "https://x.test/#a"}, 'https://x.test/ holds a "#", which is never sent; leave it out'),
        (
            {"url": "https://x.test/", "jsn": 1},
            'post has no field "jsn"; its fields: url, query, headers, success, json, form, text',
        ),
        (
            {"url": "https://x.test/", "form": {"a": "\ud800"}},
            "a field holds half of a sign (a lone surrogate), which cannot be sent",
        ),
        ({"url": "https://x.test/", "json": {}, "form": {}}, "a request has one body, and here are json and form"),
        ({"url": "https://x.test/", "json": float("nan")}, "the body holds a value that JSON cannot carry"),
        (
            {"url": "https://x.test/", "headers": {"X-A": "a\r\nX-B: c"}},
            "the header X-A holds a character that no header can carry (a line break, or not ASCII)",
        ),
        ({"url": "https://x.test/", "headers": {"X A": "a"}}, '"X A" cannot be the name of a header'),
        (
            {"url": "https://x.test/", "headers": {"Authorization": "Bearer x"}},
            "credentials are not written in a flow; the connection adds them (auth)",
        ),
        ({"url": "https://x.test/", "success": "response.status ="}, None),
    ],
)
def test_requests_that_cannot_be_made(input: dict[str, Any], sentence: str | None) -> None:
    with pytest.raises(RequestError) as refused:
        connect().prepare("post", input, key="k", purpose="do")
    if sentence:
        assert str(refused.value) == sentence


def test_a_connection_with_an_origin_goes_nowhere_else() -> None:
    mine = connect({"origin": "https://api.example.test/v1/"})
    assert mine.prepare("get", {"url": "/a"}, key="k", purpose="read").body["url"] == "https://api.example.test/v1/a"
    assert mine.prepare("get", {"url": "https://api.example.test:443/b"}, key="k", purpose="read")
    with pytest.raises(
        RequestError, match="shop goes to https://api.example.test/v1 only, and not to https://evil.test/"
    ):
        mine.prepare("get", {"url": "https://evil.test/?q=1"}, key="k", purpose="read")
    with pytest.raises(RequestError):
        mine.prepare("get", {"url": "//evil.test/"}, key="k", purpose="read")


async def test_a_frozen_request_for_another_origin_is_not_sent() -> None:
    async with http_server() as server:
        old = connect({"origin": "http://old.example.test"})
        request = old.prepare("post", {"url": "/a"}, key="k", purpose="do")
        mine = connect({"origin": server.origin, "allow_private": True, "auth": {"bearer": {"secret": "TOKEN"}}})
        found = await mine.send("post", request, key="k", purpose="do", limit=1_000)
        assert (found.result, found.reason) == ("not_sent", "forbidden")
        assert "http://old.example.test:80" in found.summary
        assert server.got == []
        await mine.close()


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"orign": "x"}, 'has no "orign"'),
        ({"origin": "api.example.test"}, "must be like https://api.example.com"),
        ({"origin": "https://u:p@x.test"}, "credentials belong in .env"),
        ({"origin": "http://127.0.0.1:8000"}, "allow_private: true"),
        ({"origin": "http://169.254.169.254", "allow_private": True}, "never connected to"),
        ({"origin": "http://2130706433", "allow_private": True}, "odd spelling"),
        ({"allow_private": "yes"}, "must be true or false"),
        ({"auth": {"bearer": {"secret": "TOKEN"}}}, "needs an origin"),
        ({"origin": "https://x.test", "auth": {"bearer": "tok-3n"}}, "holds the value itself"),
        ({"origin": "https://x.test", "auth": {"oauth": {}}}, 'there is no auth "oauth"'),
        ({"origin": "https://x.test", "auth": {"header": {"name": "X-A"}}}, "auth header needs value"),
        ({"origin": "https://x.test", "headers": {"Authorization": "Bearer abc"}}, "holds the value itself"),
        ({"key": {"header": "K"}}, "key must be"),
        ({"key": {"header": "K", "life": "soon"}}, '"soon" is not how long'),
        ({"key": {"header": "K", "life": "2 business days"}}, "is not how long"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError) as refused:
        connect(settings)
    assert part in str(refused.value)
    assert str(refused.value).startswith("shop: ")
    assert "tok-3n" not in str(refused.value)


async def test_a_missing_or_unusable_secret_sends_nothing() -> None:
    async with http_server() as server:
        found = await call(server, "post", {"url": "/a"}, auth={"bearer": {"secret": "NOT_SET"}})
        assert (found.result, found.summary) == ("not_sent", "shop: the secret NOT_SET is not set")
        mine = KIND.connect(
            "shop",
            {"origin": server.origin, "allow_private": True, "auth": {"bearer": {"secret": "A"}}},
            Lent(A="x\ny"),
        )
        found = await mine.send(
            "post", mine.prepare("post", {"url": "/a"}, key="k", purpose="do"), key="k", purpose="do", limit=500
        )
        assert found.result == "not_sent"
        assert "x\ny" not in found.summary
        assert server.got == []
        await mine.close()
