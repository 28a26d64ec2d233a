"""Messages by apprise to a real receiver on this machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connectors.chat import KIND
from runner.contract import Connector, Outcome
from runner.errors import RequestError, SettingsError
from tests.connectors.httpserver import answer, http_server, late, redirect, reset
from tests.connectors.tools import Lent


def connect(address: str, **settings: Any) -> Connector:
    line = {"address": {"secret": "ROOM"}, "allow_private": True, **settings}
    made: Connector = KIND.connect("room", line, Lent(ROOM=address) if address else Lent())
    return made


async def sent(mine: Connector, limit: int = 5_000) -> Outcome:
    request = mine.prepare("send", {"text": "書類 are ready", "title": "Order 7"}, key="k", purpose="do")
    assert "ROOM" not in json.dumps(request.body)
    return await mine.send("send", request, key="k", purpose="do", limit=limit)


async def test_a_message_arrives() -> None:
    async with http_server() as server:
        server.on("/room", answer(200))
        found = await sent(connect(f"json://127.0.0.1:{server.port}/room"))
        assert (found.result, found.output) == ("applied", {"accepted": True})
        [got] = server.got
        assert (got.json()["title"], got.json()["message"]) == ("Order 7", "書類 are ready")


@pytest.mark.parametrize("said", [answer(500), answer(404), reset(), redirect(302, "/other"), late(3.0, answer(200))])
async def test_what_failed_is_unknown_and_sent_once(said: Any) -> None:
    async with http_server() as server:
        server.on("/room", said)
        found = await sent(connect(f"json://127.0.0.1:{server.port}/room"), limit=1_500)
        assert found.result == "unknown"
        assert len(server.got) == 1


async def test_what_does_not_leave() -> None:
    unset = await sent(connect(""))
    assert (unset.result, unset.summary) == ("not_sent", "room: the secret ROOM is not set")
    unknown = await sent(connect("nochat://token-3n"))
    assert (unknown.result, unknown.reason) == ("refused", "invalid")
    async with http_server() as server:
        found = await sent(connect(f"json://127.0.0.1:{server.port}/room", allow_private=False))
        assert (found.result, found.reason) == ("not_sent", "forbidden")
        assert server.connections == 0


def test_what_cannot_be() -> None:
    with pytest.raises(SettingsError, match="address holds the value itself") as told:
        KIND.connect("room", {"address": "slack://token-3n"}, Lent())
    assert "token-3n" not in str(told.value)
    with pytest.raises(RequestError, match="it cannot be asked"):
        connect("json://x").prepare("send", {"text": "a"}, key="k", purpose="lookup")
    with pytest.raises(RequestError, match='room has no action "post"'):
        connect("json://x").prepare("post", {"text": "a"}, key="k", purpose="do")
