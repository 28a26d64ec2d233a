"""What a connector file says once for all its actions, and keys in the form that a service wants."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from connectors.declarative import kind_from_text
from runner.contract import Connector, Outcome
from tests.connectors.httpserver import HttpServer, Script, answer, http_server
from tests.connectors.tools import Lent

CHAT = """
connector: chat
title: A chat
auth: { bearer: token }
settings: { team: text or empty }
headers: { X-Version: "2", X-Team: "${{ connection.team }}" }
failures:
  - { when: "${{ response.json.error == 'slow' }}", is: rate_limited, say: "${{ response.json.error }}" }
  - { when: "${{ response.status == 409 }}", is: conflict }
actions:
  say:
    title: Says something.
    writes: keyed
    key: { header: X-Retry-Key, form: uuid, life: 1 hour, replayed: "${{ response.status == 409 and given(response.json.before) }}" }
    cannot_undo: What was said was said.
    input: { text: text }
    request: { post: /say, json: { text: "${{ input.text }}" } }
    output: { id: text }
    external_id: ${{ response.json.id }}
    lookup:
      request: { get: /said, query: { key: "${{ key }}" }, headers: { X-Version: "3" } }
      count: ${{ response.json.n }}
      output: { id: "${{ response.json.id }}" }
      external_id: ${{ response.json.id }}
    failures:
      - { when: "${{ response.json.error == 'slow' and response.status == 400 }}", is: invalid }
  put:
    writes: keyed
    key: { field: nonce, form: short, life: 1 min }
    request: { put: /put }
"""


def connect(server: HttpServer | None = None) -> Connector:
    kind, problems = kind_from_text(CHAT, "chat.yaml")
    assert problems == ()
    assert kind is not None
    place: dict[str, Any] = {"origin": "https://chat.example.test", "team": "ops"}
    place |= {"origin": server.origin, "allow_private": True} if server is not None else {}
    return kind.connect("chat", {"token": {"secret": "TOKEN"}, **place}, Lent(TOKEN="tok-3n"))


async def say(script: Script) -> tuple[Outcome, HttpServer]:
    async with http_server() as server:
        server.on("*", script)
        mine = connect(server)
        request = mine.prepare("say", {"text": "hi"}, key="am_1", purpose="do")
        outcome = await mine.send("say", request, key="am_1", purpose="do", limit=5_000)
        await mine.close()
        return outcome, server


def test_headers_stand_in_every_request_and_its_own_come_first() -> None:
    said = connect().prepare("say", {"text": "hi"}, key="am_1", purpose="do").body["headers"]
    assert (said["x-version"], said["x-team"]) == ("2", "ops")
    asked = connect().prepare("say", {"text": "hi"}, key="am_1", purpose="lookup").body["headers"]
    assert (asked["x-version"], asked["x-team"]) == ("3", "ops")
    assert connect().prepare("put", {}, key="am_1", purpose="do").body["headers"]["x-team"] == "ops"


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (200, {"error": "slow"}, "rate_limited"),
        (400, {"error": "slow"}, "invalid"),  # the action's own line comes first
        (409, {"error": "other"}, "conflict"),
    ],
)
async def test_failures_of_all_actions_come_after_their_own(status: int, content: Any, reason: str) -> None:
    outcome, _ = await say(answer(status, content))
    assert (outcome.result, outcome.reason) == ("refused", reason)


async def test_a_key_in_its_form_is_the_same_each_time_and_is_looked_up_in_that_form() -> None:
    outcome, server = await say(answer(200, {"id": "m_1"}))
    key = server.got[0].headers["x-retry-key"]
    assert (outcome.result, str(UUID(key))) == ("applied", key)
    assert (await say(answer(200, {"id": "m_1"})))[1].got[0].headers["x-retry-key"] == key
    asked = connect().prepare("say", {"text": "hi"}, key="am_1", purpose="lookup")
    assert asked.body["url"].endswith(f"?key={key}")
    other = connect().prepare("say", {"text": "hi"}, key="am_2", purpose="lookup")
    assert asked.body["url"] != other.body["url"]
    short = connect().prepare("put", {}, key="am_1", purpose="do").body["body"]
    assert len(short) == len('{"nonce":""}') + 24


async def test_an_answer_that_our_key_was_carried_out_before_counts_as_done() -> None:
    outcome, _ = await say(answer(409, {"before": True, "id": "m_1"}))
    assert (outcome.result, dict(outcome.output), outcome.external_id) == ("applied", {"id": "m_1"}, "m_1")
    outcome, _ = await say(answer(409, {"before": True}))
    assert (outcome.result, outcome.reason) == ("unknown", "unreadable")


@pytest.mark.parametrize(
    ("old", "new", "code", "what"),
    [
        ('X-Version: "2"', 'Authorization: "2"', "FL401", 'the header "Authorization" is not written here'),
        ("connection.team", "connection.token", "FL101", 'there is no "connection.token" here'),
        ("connection.team", "input.text", "FL101", 'there is no "input.text" here'),
        ("response.json.error == 'slow' }}\", is: r", "respons.json == 'slow' }}\", is: r", "FL101", 'there is no "respons.json" here'),
        ("response.json.error == 'slow' }}\", is: r", "response.json | slo }}\", is: r", "FL007", 'there is no filter "slo"'),
        ('"${{ response.status == 409 }}", is: c', '"no", is: c', "FL103", '"when" must be one expression'),
        ("form: uuid", "form: uid", "FL006", '"form" cannot be "uid"'),
        ('"${{ response.status == 409 and given(response.json.before) }}"', '"409"', "FL103", '"replayed" must be one expression'),
    ],
)  # fmt: skip
def test_mistakes_are_told(old: str, new: str, code: str, what: str) -> None:
    assert old in CHAT
    kind, problems = kind_from_text(CHAT.replace(old, new, 1), "chat.yaml")
    assert kind is None
    assert [problem.code for problem in problems] == [code]
    assert problems[0].what.startswith(what)
