"""Connectors written in YAML: from a file to requests, and from answers to outcomes."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.declarative import DECLARATIVE, kind_from_text
from runner.contract import Outcome, Purpose, Retry, Undo
from runner.errors import EvaluationError, RequestError, SettingsError
from tests.connectors.httpserver import HttpServer, Script, answer, drop, html, http_server, late, message, raw
from tests.connectors.tools import Lent

BILLING = """
connector: billing
title: The billing service
auth: { bearer: token }
settings: { account: text or empty }
actions:
  get_plan:
    reads: true
    input: { code: text }
    request: { get: "/plans/${{ input.code }}" }
    output: { id: text, label: text, price: number, note: text or empty }
    failures:
      - { when: "${{ response.json.error == 'gone' }}", is: not_found }
  pay:
    title: Takes a payment
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    undo: { action: refund, with: { charge: "${{ output.id }}", why: "${{ input.note | default('no') }}" } }
    input: { customer: text, amount: number, note: text or empty }
    request:
      post: /payments
      query: { account: "${{ connection.account }}", dry: false }
      json:
        customer: ${{ input.customer }}
        amount: ${{ input.amount }}
        note: ${{ input.note }}
        fixed: null
        lines: [ { text: "for ${{ input.customer }}" } ]
    success: ${{ response.status == 201 }}
    output: { id: text, total: number }
    result: { id: "${{ response.json.data.id }}", total: "${{ response.json.data.total }}" }
    external_id: ${{ response.json.data.id }}
    lookup:
      request: { get: /payments, query: { reference: "${{ key }}" } }
      count: ${{ response.json.items | length }}
      output: { id: "${{ response.json.items[0].id }}", total: "${{ response.json.items[0].total }}" }
      external_id: ${{ response.json.items[0].id }}
      delay: 2 s
    find:
      by: [customer]
      request: { get: /payments, query: { customer: "${{ input.customer }}" } }
      count: ${{ 0 if response.status == 404 else 1 }}
      output: { id: "${{ response.json.id }}", total: "${{ response.json.total }}" }
      external_id: ${{ response.json.id }}
    failures:
      - { when: "${{ response.json.code == 'dup' }}", is: already_there }
      - { when: "${{ response.json.code == 'busy' }}", is: in_progress }
      - { when: "${{ response.status == 503 }}", is: unavailable }
      - { when: "${{ response.status == 409 }}", is: conflict, say: "${{ input.customer }}: ${{ response.json.message }}" }
      - { when: "${{ response.status == 429 }}", is: rate_limited }
    timeout: 5 s
    retry: { tries: 7, pause: 2 s }
  refund:
    writes: once
    input: { charge: text, why: text or empty }
    request: { post: "/refunds", form: { charge: "${{ input.charge }}", why: "${{ input.why }}" } }
    cannot_undo: A refund is not taken back.
  tag:
    writes: lookup
    key: { field: reference }
    input: { id: text }
    request: { put: "/tags/${{ input.id }}" }
    lookup:
      request: { get: "/tags/${{ input.id }}", query: { reference: "${{ key }}" } }
      count: ${{ response.json.n }}
"""


def connect(server: HttpServer | None = None, **settings: Any) -> Any:
    kind, problems = kind_from_text(BILLING, "billing.yaml")
    assert problems == ()
    assert kind is not None
    line = {"origin": "https://pay.example.test", "token": {"secret": "TOKEN"}, **settings}
    if server is not None:
        line |= {"origin": server.origin, "allow_private": True}
    return kind.connect("pay", line, Lent(TOKEN="tok-3n"))


async def call(
    server: HttpServer, action: str, input: dict[str, Any], purpose: Purpose = "do", limit: int = 2_000
) -> Outcome:
    mine = connect(server)
    request = mine.prepare(action, input, key="key-1", purpose=purpose)
    found: Outcome = await mine.send(action, request, key="key-1", purpose=purpose, limit=limit)
    await mine.close()
    return found


def test_what_the_engine_is_told() -> None:
    actions = connect().actions
    pay = actions["pay"]
    assert (pay.effect, pay.key_life, pay.has_lookup, pay.lookup_delay, pay.find_by) == (
        "keyed",
        86_400_000,
        True,
        2_000,
        ("customer",),
    )
    assert pay.undo == Undo(
        action="refund", with_={"charge": "${{ output.id }}", "why": "${{ input.note | default('no') }}"}
    )
    assert pay.retry == Retry(tries=7, pause=2_000, growth="double", longest=300_000)
    assert pay.timeout == 5_000
    assert actions["get_plan"].effect == "read"
    assert actions["get_plan"].output["found"] == "yes_no"
    assert (actions["refund"].effect, actions["refund"].cannot_undo) == ("once", "A refund is not taken back.")
    assert (actions["tag"].effect, actions["tag"].key_life) == ("lookup", 0)


def test_a_request_is_frozen_without_credentials_and_the_same_each_time() -> None:
    mine = connect(account="A&1")
    input = {"customer": '日本 "x"', "amount": 12.5}
    request = mine.prepare("pay", input, key="key-1", purpose="do")
    assert request.body == {
        "method": "POST",
        "url": "https://pay.example.test/payments?account=A%261&dry=false",
        "headers": {"content-type": "application/json"},
        "body": '{"customer":"日本 \\"x\\"","amount":12.5,"fixed":null,"lines":[{"text":"for 日本 \\"x\\""}]}',
        "input": input,
    }
    assert request == mine.prepare("pay", input, key="key-1", purpose="do")
    assert request == connect(account="A&1").prepare("pay", input, key="another", purpose="do")
    assert (
        connect().prepare("pay", input, key="k", purpose="do").body["url"]
        == "https://pay.example.test/payments?dry=false"
    )
    undo = mine.prepare("refund", {"charge": "c/1"}, key="k", purpose="undo")
    assert (undo.body["body"], undo.body["headers"]) == (
        "charge=c%2F1",
        {"content-type": "application/x-www-form-urlencoded"},
    )
    tag = mine.prepare("tag", {"id": "a"}, key="k-9", purpose="do")
    assert (tag.body["body"], tag.body["method"]) == ('{"reference":"k-9"}', "PUT")
    asked = mine.prepare("tag", {"id": "a"}, key="k-9", purpose="undo_lookup")
    assert (asked.body["url"], asked.body["body"]) == ("https://pay.example.test/tags/a?reference=k-9", "")


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("basic", "basic"),
        ("a/b", "a%2Fb"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
        ("a b?c#d%", "a%20b%3Fc%23d%25"),
        ("..x", "..x"),
    ],
)
def test_path_values_are_encoded(code: str, path: str) -> None:
    request = connect().prepare("get_plan", {"code": code}, key="k", purpose="read")
    assert request.body["url"] == f"https://pay.example.test/plans/{path}"


@pytest.mark.parametrize(
    ("action", "input", "sentence"),
    [
        ("get_plan", {}, 'get_plan needs the field "code"'),
        ("get_plan", {"code": ""}, "input.code is empty, which cannot stand in a path"),
        ("get_plan", {"code": "  "}, 'input.code is "  ", which cannot stand in a path'),
        ("get_plan", {"code": ".."}, 'input.code is "..", which cannot stand in a path'),
        ("get_plan", {"code": "\ud800"}, "input.code holds half of a sign (a lone surrogate), which cannot be sent"),
        ("get_plan", {"code": "x", "cod": "y"}, 'get_plan has no field "cod"; its fields: code'),
        ("pay", {"customer": "c", "amount": "12"}, None),
        ("nothing", {}, 'pay has no action "nothing"; it has: get_plan, pay, refund, tag'),
    ],
)
def test_requests_that_cannot_be_made(action: str, input: dict[str, Any], sentence: str | None) -> None:
    with pytest.raises((RequestError, EvaluationError)) as refused:
        connect().prepare(action, input, key="k", purpose="do")
    assert sentence is None or str(refused.value) == sentence


@given(st.text(min_size=1, max_size=30))
def test_a_path_value_never_changes_the_path(code: str) -> None:
    try:
        body = connect().prepare("get_plan", {"code": code}, key="k", purpose="read").body
    except (RequestError, EvaluationError):
        return
    path = urlsplit(body["url"])
    assert (path.query, path.fragment, path.netloc) == ("", "", "pay.example.test")
    assert path.path.count("/") == 2
    assert unquote(path.path.removeprefix("/plans/")) == code


def test_a_key_that_no_header_can_carry() -> None:
    with pytest.raises(RequestError, match="Idempotency-Key holds a character that no header can carry"):
        connect().prepare("pay", {"customer": "c", "amount": 1}, key="注文7", purpose="do")


async def test_a_write_is_sent_as_it_was_frozen_with_what_is_added() -> None:
    async with http_server() as server:
        server.on("/payments", answer(201, {"data": {"id": 17, "total": 3}}))
        found = await call(server, "pay", {"customer": "c", "amount": 3, "note": "n"})
        assert found == Outcome(result="applied", output={"id": "17", "total": 3}, external_id="17")
        got = server.got[0]
        frozen = (
            connect(server).prepare("pay", {"customer": "c", "amount": 3, "note": "n"}, key="key-1", purpose="do").body
        )
    assert got.body.decode() == frozen["body"]
    assert server.origin + got.target == frozen["url"]
    assert got.headers["authorization"] == "Bearer tok-3n"
    assert got.headers["idempotency-key"] == "key-1"


OK = {"data": {"id": "p_1", "total": 3}}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (answer(201, OK), ("applied", "")),
        (raw(message(201, b'\xef\xbb\xbf{"data": {"id": "p", "total": 1}}')), ("applied", "")),
        (answer(200, OK), ("unknown", "unknown")),
        (answer(201, {"data": {"id": "p_1"}}), ("unknown", "unreadable")),
        (answer(201, {"data": {"id": "p_1", "total": "3"}}), ("unknown", "unreadable")),
        (answer(201, {"data": {"id": None, "total": 3}}), ("unknown", "unreadable")),
        (answer(201, []), ("unknown", "unreadable")),
        (answer(201), ("unknown", "unreadable")),
        (answer(204), ("unknown", "unknown")),
        (html(201), ("unknown", "unreadable")),
        (answer(201, {"code": "dup"}), ("unknown", "already_there")),
        (answer(409, {"code": "dup"}), ("unknown", "already_there")),
        (answer(409, {"code": "busy"}), ("unknown", "in_progress")),
        (answer(409, {"message": "other amount"}), ("refused", "conflict")),
        (answer(503, {}), ("refused", "unavailable")),
        (answer(502, {}), ("unknown", "unknown")),
        (answer(500, {}), ("unknown", "unknown")),
        (html(500), ("unknown", "unknown")),
        (answer(429, {}, Retry_After="3"), ("refused", "rate_limited")),
        (answer(400, {}), ("refused", "invalid")),
        (answer(401, {}), ("refused", "forbidden")),
        (answer(404, {}), ("refused", "not_found")),
        (answer(302, None, Location="https://elsewhere.test/"), ("unknown", "redirect")),
        (answer(408, {}), ("unknown", "timeout")),
        (drop(), ("unknown", "connection")),
        (late(3, answer(201, OK)), ("unknown", "timeout")),
    ],
)
async def test_outcomes_of_a_write(script: Script, expected: tuple[str, str]) -> None:
    async with http_server() as server:
        server.on("/payments", script)
        found = await call(server, "pay", {"customer": "c", "amount": 3}, limit=300)
        assert len(server.got) == 1
    assert (found.result, found.reason) == expected
    assert (found.result == "applied") == (found.output != {})
    if found.reason == "conflict":
        assert found.summary == "c: other amount"
    if found.reason == "redirect":
        assert "elsewhere.test" in found.summary
    if found.reason == "rate_limited":
        assert found.retry_after == 3_000


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            answer(200, {"id": "p", "label": "Pro", "price": 9}),
            {"id": "p", "label": "Pro", "price": 9, "note": None, "found": True},
        ),
        (answer(404, {}), {"found": False}),
        (html(404), {"found": False}),
        (answer(400, {"error": "gone"}), {"found": False}),
        (answer(200, {"error": "gone"}), {"found": False}),
        (answer(200, {"id": "p"}), ("unknown", "unreadable")),
        (html(200), ("unknown", "unreadable")),
        (answer(500, {}), ("unknown", "unknown")),
        (answer(403, {}), ("refused", "forbidden")),
        (answer(429, {}), ("refused", "rate_limited")),
    ],
)
async def test_outcomes_of_a_read(script: Script, expected: Any) -> None:
    async with http_server() as server:
        server.on("/plans/pro", script)
        found = await call(server, "get_plan", {"code": "pro"}, "read")
    if isinstance(expected, dict):
        assert (found.result, found.output) == ("applied", expected)
    else:
        assert (found.result, found.reason) == expected


@pytest.mark.parametrize(
    ("script", "result", "count"),
    [
        (answer(200, {"items": []}), "applied", 0),
        (answer(200, {"items": [{"id": 4, "total": 3}]}), "applied", 1),
        (answer(200, {"items": [{}, {}]}), "applied", 2),
        (answer(200, {"items": [{"id": 4}]}), "unknown", None),
        (answer(200, {"items": None}), "unknown", None),
        (answer(200, {}), "unknown", None),
        (html(200), "unknown", None),
        (answer(404, {}), "refused", None),
        (answer(500, {}), "unknown", None),
        (answer(302, None, Location="https://x.test/"), "unknown", None),
    ],
)
async def test_look_ups(script: Script, result: str, count: int | None) -> None:
    async with http_server() as server:
        server.on("/payments", script)
        found = await call(server, "pay", {"customer": "c", "amount": 3}, "lookup")
        assert server.got[0].query == {"reference": "key-1"}
        assert server.got[0].method == "GET"
        assert "idempotency-key" not in server.got[0].headers
    assert (found.result, found.count) == (result, count)
    if count == 1:
        assert (found.output, found.external_id) == ({"id": "4", "total": 3}, "4")


async def test_finds() -> None:
    async with http_server() as server:
        server.on("/payments", answer(200, {"id": "p", "total": 1}), answer(404, {}), answer(500, {}))
        found = await call(server, "pay", {"customer": "c"}, "find")
        assert (found.count, found.output, found.external_id) == (1, {"id": "p", "total": 1}, "p")
        assert server.got[0].query == {"customer": "c"}
        none = await call(server, "pay", {"customer": "c"}, "find")
        assert (none.result, none.count) == ("applied", 0)
        assert (await call(server, "pay", {"customer": "c"}, "find")).result == "unknown"
    with pytest.raises(RequestError, match='pay cannot be found by "amount"; it can be found by customer'):
        connect().prepare("pay", {"amount": 3}, key="k", purpose="find")
    with pytest.raises(RequestError, match="refund says nothing about how it is looked up"):
        connect().prepare("refund", {"charge": "c"}, key="k", purpose="lookup")


async def test_writes_of_class_once_have_a_connection_of_their_own() -> None:
    async with http_server() as server:
        server.on("*", answer(200, {}))
        mine = connect(server)
        for action, input in (
            ("tag", {"id": "1"}),
            ("tag", {"id": "2"}),
            ("refund", {"charge": "c"}),
            ("refund", {"charge": "c"}),
        ):
            request = mine.prepare(action, input, key="k", purpose="do")
            assert (await mine.send(action, request, key="k", purpose="do", limit=1_000)).result == "applied"
        await mine.close()
    assert [one.connection for one in server.got] == [1, 1, 2, 3]


async def test_what_is_echoed_of_a_secret_is_taken_out() -> None:
    async with http_server() as server:
        server.on("/plans/a", answer(200, {"id": "tok-3n", "label": "Bearer tok-3n", "price": 1}))
        server.on("/plans/b", answer(403, {"message": "tok-3n is no good"}))
        seen = await call(server, "get_plan", {"code": "a"}, "read")
        refused = await call(server, "get_plan", {"code": "b"}, "read")
    assert seen.output["label"] == "Bearer [secret]"
    assert "tok-3n" not in repr((seen, refused))


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"tokn": 1}, 'has no "tokn"'),
        ({"token": "tok-3n"}, "token holds the value itself"),
        ({"token": {"env": "X"}}, "token must be { secret: NAME }"),
        ({"account": 5}, "account"),
        ({"origin": "nope"}, 'origin "nope" must be like'),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError) as refused:
        connect(**settings)
    assert part in str(refused.value)
    assert "tok-3n" not in str(refused.value)


def test_settings_that_are_missing() -> None:
    kind, _ = kind_from_text(BILLING, "billing.yaml")
    assert kind is not None
    assert kind.settings()["token"] == "secret"
    with pytest.raises(SettingsError, match="pay: a connection to billing needs origin"):
        kind.connect("pay", {"token": {"secret": "TOKEN"}}, Lent())
    with pytest.raises(SettingsError, match="pay: a connection to billing needs token"):
        kind.connect("pay", {"origin": "https://x.test"}, Lent())


def test_what_is_shipped_loads() -> None:
    for name, text in DECLARATIVE.shipped().items():
        kind, problems = kind_from_text(text, f"connectors/{name}.yaml")
        assert problems == ()
        assert kind is not None
        assert kind.name == name
