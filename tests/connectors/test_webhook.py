"""Signed deliveries that go out, judged by the library of Standard Webhooks."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import standardwebhooks

from connectors.webhook import KIND
from runner.clock import HOUR
from runner.contract import Connector, Outcome
from runner.errors import RequestError, SettingsError
from tests.connectors.httpserver import HttpServer, Script, answer, http_server, late, redirect, reset
from tests.connectors.tools import Lent

SECRET, OLD = (f"whsec_{base64.b64encode(text * 4).decode()}" for text in (b"new-one!", b"old-one!"))
LENT = Lent(HOOK=SECRET, HOOK_OLD=OLD, ODD="no base64, whatever it is")
LINE: dict[str, Any] = {"connector": "webhook", "scheme": "standard", "secret": {"secret": "HOOK"}}
EVENT = {"type": "order.paid", "data": {"no": "A-7", "total": 12.5, "note": "書類 ✓"}}
KEY = "am_0123456789abcdef0123456789abcdef"


def connected(url: str, tools: Lent = LENT, **settings: Any) -> Connector:
    line = {name: value for name, value in LINE.items() if name != "connector"}
    made: Connector = KIND.connect("shop", {**line, "send_to": url, "allow_private": True, **settings}, tools)
    return made


async def sent(mine: Connector, key: str = KEY, *, limit: int = 2_000) -> Outcome:
    request = mine.prepare("send", EVENT, key=key, purpose="do")
    try:
        return await mine.send("send", request, key=key, purpose="do", limit=limit)
    finally:
        await mine.close()


def judged(server: HttpServer, secret: str = SECRET, at: int = 0) -> Any:
    """What the receiver's library makes of a delivery. Raises where it does not believe it."""
    got = server.got[at]
    return standardwebhooks.Webhook(secret).verify(got.body, got.headers)


async def test_a_receiver_believes_it() -> None:
    async with http_server() as server:
        server.on("/in", answer(204))
        found = await sent(connected(f"{server.origin}/in?shop=1"))
        assert (found.result, found.output, found.external_id) == ("applied", {"id": KEY, "status": 204}, KEY)
        assert judged(server) == EVENT
        got = server.got[0]
        assert (got.target, got.headers["webhook-id"]) == ("/in?shop=1", KEY)
        assert got.headers["content-type"] == "application/json"
        for wrong in (got.body + b" ", got.body.replace(b"12.5", b"13.5")):
            with pytest.raises(standardwebhooks.WebhookVerificationError):
                standardwebhooks.Webhook(SECRET).verify(wrong, got.headers)
        assert SECRET not in repr((got, found))


async def test_while_the_secret_is_changed_either_will_do() -> None:
    async with http_server() as server:
        server.on("/in", answer(200, "taken, thanks"))
        found = await sent(connected(f"{server.origin}/in", old_secret={"secret": "HOOK_OLD"}))
        assert found.result == "applied"
        assert judged(server) == judged(server, OLD) == EVENT


async def test_every_attempt_has_the_same_id_and_its_own_time() -> None:
    async with http_server() as server:
        server.on("/in", answer(503), answer(204))
        mine = connected(f"{server.origin}/in", remembers="7 days")
        assert (await sent(mine)).result == "unknown"
        assert (await sent(mine)).result == "applied"
        assert {got.headers["webhook-id"] for got in server.got} == {KEY}
        assert judged(server, at=1) == EVENT
        await sent(mine, "order 7.1")
        await sent(mine, "order 7.1")
        ids = [got.headers["webhook-id"] for got in server.got[2:]]
        assert ids[0] == ids[1] != KEY
        assert ids[0].startswith("msg_")
        assert "." not in ids[0]


@pytest.mark.parametrize(
    ("said", "expected", "effects"),
    [
        (answer(400), ("refused", "invalid"), 1),
        (answer(401), ("refused", "forbidden"), 1),
        (answer(410), ("refused", "not_found"), 1),
        (answer(429, Retry_After="7"), ("refused", "rate_limited"), 1),
        (answer(500), ("unknown", "unknown"), 1),
        (redirect(302, "/other"), ("unknown", "redirect"), 1),
        (reset(), ("unknown", "connection"), 1),
        (late(1.0, answer(204)), ("unknown", "timeout"), 1),
    ],
)
async def test_what_an_answer_means(said: Script, expected: tuple[str, str], effects: int) -> None:
    async with http_server() as server:
        server.on("/in", said)
        found = await sent(connected(f"{server.origin}/in"), limit=400)
        assert (found.result, found.reason) == expected
        assert len(server.got) == effects
        assert found.retry_after == (7_000 if expected[1] == "rate_limited" else None)


async def test_nothing_leaves_without_a_secret_that_can_sign() -> None:
    async with http_server() as server:
        unset = await sent(connected(server.origin, tools=Lent()))
        assert (unset.result, unset.summary) == ("not_sent", "shop: the secret HOOK is not set")
        odd = await sent(connected(server.origin, secret={"secret": "ODD"}))
        assert odd.result == "not_sent"
        assert odd.summary.startswith("shop: its secret is not base64")
        assert server.connections == 0


def test_its_class_is_what_the_receiver_promises() -> None:
    assert KIND.actions()["send"].effect == "once"
    told = {**LINE, "send_to": "https://example.com/in"}
    assert KIND.actions_for(told)["send"].effect == "once"
    promised = KIND.actions_for({**told, "remembers": "36 hours"})["send"]
    assert (promised.effect, promised.key_life) == ("keyed", 36 * HOUR)
    assert KIND.actions_for(LINE) == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"send_to": "shop.example.com"}, 'shop: send_to "shop.example.com" must be like https://hooks.example.com/in'),
        ({"send_to": "https://10.0.0.1/in"}, "is not a public address"),
        ({"send_to": "https://a:b@example.com/in"}, "shop: send_to: a URL must not hold credentials"),
        ({"remembers": "7 days"}, "shop: remembers is for deliveries that are sent; say where to with send_to"),
        ({"send_to": "https://example.com/in", "remembers": "long"}, 'remembers "long" is not how long'),
        ({"scheme": "github", "send_to": "https://example.com/in"}, "send_to means nothing to scheme github; it is for standard"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as told:
        KIND.connect("shop", {**{key: LINE[key] for key in ("scheme", "secret")}, **settings}, LENT)
    assert said in str(told.value)


def test_requests_that_cannot_be() -> None:
    mine = connected("https://example.com/in")
    request = mine.prepare("send", {"type": "a", "data": 1}, key=KEY, purpose="do")
    assert json.loads(request.body["body"]) == {"type": "a", "data": 1}
    assert SECRET not in json.dumps(request.body)
    with pytest.raises(RequestError, match='send needs the field "type"'):
        mine.prepare("send", {"data": 1}, key=KEY, purpose="do")
    with pytest.raises(RequestError, match="it cannot be asked"):
        mine.prepare("send", EVENT, key=KEY, purpose="lookup")
    only_proves = KIND.connect("shop", {"scheme": "standard", "secret": {"secret": "HOOK"}}, LENT)
    assert only_proves.origin() == "webhook:shop"
    with pytest.raises(RequestError, match='shop has no action "send"'):
        only_proves.prepare("send", EVENT, key=KEY, purpose="do")
