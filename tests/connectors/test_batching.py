"""Calls that share one request: one row each, with an outcome each; only failed rows are sent again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.declarative import kind_from_text
from runner.contract import Outcome
from tests.cli.terminal import amends
from tests.connectors.httpserver import Got, HttpServer, Script, answer, drop, html, http_server, late, message
from tests.connectors.tools import Lent

CRM = """
connector: crm
title: The contacts
auth: { bearer: token }
actions:
  add:
    writes: keyed
    key: { field: ref, life: 1 day }
    input: { email: email, note: text or empty }
    request: { post: /batch, query: { mode: each }, headers: { X-Team: ops } }
    rows:
      of: { email: "${{ input.email }}", note: "${{ input.note }}" }
      into: data.inputs
      most: 3
      answer: ${{ response.json.results }}
      match: ${{ row.ref }}
      status: ${{ row.status }}
    output: { id: text }
    external_id: ${{ response.json.id }}
    failures:
      - { when: "${{ response.json.error == 'dup' }}", is: already_there }
      - { when: "${{ response.status == 422 }}", is: invalid, say: "${{ response.json.error }}" }
    cannot_undo: By hand.
  tag:
    writes: once
    input: { id: text }
    request: { put: "/tags" }
    rows: { of: { id: "${{ input.id }}" }, answer: "${{ response.json }}" }
    success: ${{ response.json.ok }}
    output: { id: text }
    cannot_undo: By hand.
"""


def connect(server: HttpServer) -> Any:
    kind, problems = kind_from_text(CRM, "crm.yaml")
    assert kind is not None, problems
    line = {"origin": server.origin, "allow_private": True, "token": {"secret": "TOKEN"}}
    return kind.connect("crm", line, Lent(TOKEN="tok-3n"))


async def send(crm: Any, action: str, key: str, limit: int = 3_000, **input: Any) -> Outcome:
    request = crm.prepare(action, input, key=key, purpose="do")
    found: Outcome = await crm.send(action, request, key=key, purpose="do", limit=limit)
    return found


async def add(crm: Any, *names: str) -> list[Outcome]:
    return await asyncio.gather(*[send(crm, "add", f"k-{name}", email=f"{name}@x.test") for name in names])


def told(choose: Callable[[dict[str, Any]], Any], status: int = 207) -> Script:
    """Answers each batch with what is chosen for each row, the last one first."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        rows = [choose(row) for row in reversed(got.json()["data"]["inputs"])]
        writer.write(message(status, json.dumps({"results": [row for row in rows if row is not None]}).encode()))
        await writer.drain()

    return script


def done(row: dict[str, Any]) -> dict[str, Any]:
    return {"ref": row["ref"], "status": 201, "id": row["email"][0]}


def but(**others: Any) -> Callable[[dict[str, Any]], Any]:
    """Done, but for these."""
    return lambda row: {"ref": row["ref"], **others[row["email"][0]]} if row["email"][0] in others else done(row)


async def test_rows_that_leave_together_share_a_request_and_each_has_its_answer() -> None:
    async with http_server() as server:
        server.on("/batch", told(done))
        crm = connect(server)
        found = await add(crm, *"abcdefg")
        assert [(one.result, one.output, one.external_id) for one in found] == [
            ("applied", {"id": name}, name) for name in "abcdefg"
        ]
        assert [len(got.json()["data"]["inputs"]) for got in server.got] == [3, 3, 1]
        assert server.got[0].json()["data"]["inputs"][0] == {"email": "a@x.test", "ref": "k-a"}
        assert (server.got[0].query, server.got[0].headers["x-team"]) == ({"mode": "each"}, "ops")
        await crm.close()


async def test_only_the_rows_that_failed_are_sent_again_under_their_own_keys() -> None:
    async with http_server() as server:
        server.on("/batch", told(but(b={"status": 429}, c={"status": 503})), told(done))
        crm = connect(server)
        found = await add(crm, "a", "b", "c")
        assert [(one.result, one.reason) for one in found] == [
            ("applied", ""), ("refused", "rate_limited"), ("unknown", "unknown"),
        ]  # fmt: skip
        again = await add(crm, "b", "c")
        assert [one.result for one in again] == ["applied", "applied"]
        assert [row["ref"] for row in server.got[1].json()["data"]["inputs"]] == ["k-b", "k-c"]
        await crm.close()


async def test_a_row_is_frozen_by_itself() -> None:
    async with http_server() as server:
        crm = connect(server)
        one = crm.prepare("add", {"email": "a@x.test"}, key="k-a", purpose="do")
        assert one.body["row"] == {"email": "a@x.test", "ref": "k-a"}
        assert one == crm.prepare("add", {"email": "a@x.test"}, key="k-a", purpose="do")
        assert one.hash != crm.prepare("add", {"email": "b@x.test"}, key="k-a", purpose="do").hash
        await crm.close()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"status": 201}, ("unknown", "unreadable")),
        ({"status": "201", "id": 4}, ("applied", "")),
        ({"status": 409, "error": "dup"}, ("unknown", "already_there")),
        ({"status": 422, "error": "no address"}, ("refused", "invalid")),
        ({"status": 500}, ("unknown", "unknown")),
        ({"status": True, "id": 4}, ("unknown", "unreadable")),
        ({"status": "done", "id": 4}, ("unknown", "unreadable")),
        ({"id": 4}, ("unknown", "unreadable")),
        ({"status": 201, "id": 4, "ref": "k-another"}, ("unknown", "unreadable")),
        ({"status": 201, "id": 4, "ref": "k-a"}, ("unknown", "unreadable")),
        (None, ("unknown", "unreadable")),
    ],
)
async def test_what_is_said_of_one_row_is_said_of_no_other(row: Any, expected: tuple[str, str]) -> None:
    async with http_server() as server:
        server.on(
            "/batch", told(lambda one: done(one) if one["email"][0] != "b" else row and {"ref": one["ref"], **row})
        )
        crm = connect(server)
        found = await add(crm, "a", "b", "c")
        assert (found[1].result, found[1].reason) == expected
        if (row or {}).get("ref") == "k-a":
            assert found[0].summary.endswith("and it speaks of this row 2 times")
        elif expected[1] != "unreadable" or row is None or "status" in row:
            assert [found[0].result, found[2].result] == ["applied", "applied"]
        if expected == ("refused", "invalid"):
            assert found[1].summary == "no address"
        await crm.close()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (answer(429, {}, Retry_After="3"), ("refused", "rate_limited")),
        (answer(401, {}), ("refused", "forbidden")),
        (answer(500, {}), ("unknown", "unknown")),
        (answer(422, {"error": "none of it"}), ("refused", "invalid")),
        (answer(207, {"results": {}}), ("unknown", "unreadable")),
        (answer(207, {}), ("unknown", "unreadable")),
        (html(200), ("unknown", "unreadable")),
        (drop(), ("unknown", "connection")),
        (late(2, answer(207, {"results": []})), ("unknown", "timeout")),
    ],
)
async def test_what_is_said_of_the_whole_request_is_said_of_each_row(script: Script, expected: tuple[str, str]) -> None:
    async with http_server() as server:
        server.on("/batch", script)
        crm = connect(server)
        found = await asyncio.gather(
            *[
                send(crm, "add", f"k-{name}", email=f"{name}@x.test", limit=limit)
                for name, limit in (("a", 3_000), ("b", 300))
            ]
        )
        assert [(one.result, one.reason) for one in found] == [expected] * 2
        assert len(server.got) == 1
        await crm.close()


async def test_answers_in_the_order_of_the_rows() -> None:
    async with http_server() as server:
        server.on(
            "/tags", answer(200, [{"ok": True, "id": "1"}, {"ok": False}]), answer(200, [{"ok": True, "id": "1"}])
        )
        crm = connect(server)
        found: list[Outcome] = []
        for expected in (["applied", "unknown"], ["unknown", "unknown"]):
            found = await asyncio.gather(*[send(crm, "tag", f"k-{name}", id=name) for name in "12"])
            assert [one.result for one in found] == expected
        assert server.got[0].json() == [{"id": "1"}, {"id": "2"}]
        assert found[0].summary.endswith("and it speaks of 1 rows, and 2 were sent")
        await crm.close()


async def test_who_is_stopped_before_the_request_leaves_is_not_in_it() -> None:
    async with http_server() as server:
        server.on("/batch", told(done))
        crm = connect(server)
        one, other = (asyncio.create_task(send(crm, "add", f"k-{name}", email=f"{name}@x.test")) for name in "ab")
        await asyncio.sleep(0)
        one.cancel()
        assert (await other).result == "applied"
        assert [row["ref"] for row in server.got[0].json()["data"]["inputs"]] == ["k-b"]
        await crm.close()


async def test_who_is_stopped_does_not_stop_the_others() -> None:
    async with http_server() as server:
        server.on("/batch", late(0.2, told(done)))
        crm = connect(server)
        one, other = (asyncio.create_task(send(crm, "add", f"k-{name}", email=f"{name}@x.test")) for name in "ab")
        await asyncio.sleep(0.05)
        one.cancel()
        assert (await other).result == "applied"
        assert [row["ref"] for row in server.got[0].json()["data"]["inputs"]] == ["k-a", "k-b"]
        await crm.close()


FLOW = """
flow: adds
title: Adds people
owner: person:me
mode: live
run_key: ${{ trigger.id }}
steps:
  - id: people
    each: [{ n: a }, { n: b }, { n: c }]
    named: ${{ item.n }}
    at_once: 3
    steps:
      - id: add
        do: crm.add
        with: { email: "${{ item.n }}@x.test" }
        retry: { pause: 100 ms }
        unattended: Nobody is asked here.
        compensate: { none: It may stay. }
"""


async def test_a_list_of_a_flow_goes_out_together_and_only_the_failed_row_again(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/batch", told(but(b={"status": 429})), told(done))
        line = f"origin: '{server.origin}', allow_private: true, token: {{ secret: TOKEN }}"
        files = {
            "connectors/crm.yaml": CRM,
            "flows/adds.yaml": FLOW,
            "connections.yaml": f"crm: {{ connector: crm, {line} }}\n",
            ".env": "TOKEN=tok-3n-long\n",
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        said = await asyncio.to_thread(amends, "run", "adds", folder=tmp_path)
        assert said.code == 0, said
        batches = [[row["email"] for row in got.json()["data"]["inputs"]] for got in server.got]
        assert sorted(batches[0]) == ["a@x.test", "b@x.test", "c@x.test"]
        assert batches[1:] == [["b@x.test"]]
        refs = [row["ref"] for got in server.got for row in got.json()["data"]["inputs"]]
        assert len(set(refs)) == 3


MISTAKES = [
    ("    key: { field: ref, life: 1 day }", "    key: { header: Ref, life: 1 day }", "several rows share the request, so a key goes into its row"),
    ("    key: { field: ref, life: 1 day }", "    key: { header: Ref, life: 1 day }", "no row carries our key, by which answers are matched"),
    ("headers: { X-Team: ops } }", "json: { a: 1 } }", "the rows are the body; it stands under rows: of, and not in request"),
    ("{ post: /batch,", "{ get: /batch,", "the rows are the body; it stands under rows: of, and not in request"),
    ("    success: ${{ response.json.ok }}\n", "", "nothing says which rows were done"),
    ("answer: ${{ response.json.results }}", "answer: results", '"answer" must be one expression'),
    ("${{ row.status }}", "${{ input.email }}", 'there is no "input" here'),
    ("{ response.json.results", "{ row.results", 'there is no "row" here'),
    ('{ email: "${{ input.email }}", note', '{ email: "${{ input.emial }}", note', 'there is no input "emial"'),
    ('{ email: "${{ input.email }}", note', '{ email: "${{ response.json }}", note', 'there is no "response" here'),
    ("most: 3", "most: 0", '"most" must be at least 1, and 0 is not'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "what"), MISTAKES, ids=[one[2] for one in MISTAKES])
def test_mistakes_are_told(old: str, new: str, what: str) -> None:
    assert old in CRM
    kind, problems = kind_from_text(CRM.replace(old, new, 1), "crm.yaml")
    assert kind is None
    assert what in [one.what for one in problems], problems
