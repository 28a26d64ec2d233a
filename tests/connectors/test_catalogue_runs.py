"""Files of the catalogue in a run of the engine, against services that lose their answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from connectors.declarative import shipped
from runner.app import Amends
from tests.connectors.httpserver import Got, HttpServer, answer, drop, http_server
from tests.flows.stage import play, project_of

FLOW = """
flow: won
title: A deal is made, told and paid for
owner: team:ops
mode: live
run_key: ${{ inputs.customer }}
inputs: { customer: text, amount: integer }
steps:
  - id: deal
    do: crm.create_record
    with: { object: deals, properties: { dealname: "${{ inputs.customer }}" } }
    unattended: It is only a deal.
    compensate: cancel
  - id: notice
    do: chat.push
    with: { to: U1, text: "A deal for ${{ inputs.customer }}" }
    retry: { pause: 50 ms, growth: none }
    unattended: It goes to ourselves.
    accept_order: What is told too early is put right by ourselves.
    compensate: { none: Who has read it has read it. }
  - id: payment
    do: pay.take_payment
    with: { customer: cus_1, payment_method: pm_1, amount: "${{ inputs.amount }}", currency: jpy }
    unattended: The customer has agreed to it.
    compensate: cancel
"""


class Services:
    """HubSpot, LINE and Stripe, as far as they are asked here; each first answer is lost after its effect."""

    def __init__(self) -> None:
        self.deals: dict[str, str] = {}
        self.archived: list[str] = []
        self.pushed: set[str] = set()
        self.asked: list[str] = []

    async def deal(self, got: Got, writer: asyncio.StreamWriter) -> None:
        self.asked.append("made")
        self.deals[got.json()["inputs"][0]["id"]] = f"d_{len(self.deals) + 1}"
        await drop()(got, writer)

    async def found(self, got: Got, writer: asyncio.StreamWriter) -> None:
        name = got.path.rpartition("/")[2]
        if got.method == "DELETE":
            self.archived.append(name)
            await answer(204)(got, writer)
            return
        self.asked.append("looked up")
        assert got.query == {"idProperty": "amends_reference"}
        there = self.deals.get(name)
        await (answer(200, {"id": there}) if there else answer(404, {"message": "not there"}))(got, writer)

    async def push(self, got: Got, writer: asyncio.StreamWriter) -> None:
        key = got.headers["x-line-retry-key"]
        if key in self.pushed:
            await answer(409, {"message": "already accepted"}, x_line_accepted_request_id="1")(got, writer)
            return
        self.pushed.add(key)
        await drop()(got, writer)

    async def anything(self, got: Got, writer: asyncio.StreamWriter) -> None:
        if got.path.startswith("/crm/v3/objects/deals/batch"):
            await self.deal(got, writer)
        elif got.path.startswith("/crm/"):
            await self.found(got, writer)
        elif got.path == "/v2/bot/message/push":
            await self.push(got, writer)
        else:
            declined = {"error": {"type": "card_error", "message": "Your card was declined."}}
            await answer(402, declined)(got, writer)


def project(folder: Path, server: HttpServer) -> Path:
    place = f'origin: "{server.origin}", allow_private: true, token: {{ secret: TOKEN }}'
    (folder / "connectors").mkdir(parents=True)
    quick = shipped()["hubspot"].replace("delay: 10 s", "delay: 50 ms")
    quick = quick.replace("    writes: lookup  #", "    timeout: 1 s\n    writes: lookup  #")
    (folder / "connectors" / "hubspot.yaml").write_text(quick, encoding="utf-8")
    (folder / "won.yaml").write_text(FLOW, encoding="utf-8")
    (folder / "people.yaml").write_text(
        "people:\n  aya: { name: Aya, mail: aya@ops.test }\nteams:\n  ops: { members: [aya] }\n", encoding="utf-8"
    )
    lines = [
        f"{name}: {{ connector: {kind}, {place} }}"
        for name, kind in (("crm", "hubspot"), ("chat", "line"), ("pay", "stripe"))
    ]
    (folder / "connections.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / ".env").write_text("TOKEN=tok-3n-s3cret\n", encoding="utf-8")
    return folder


async def test_lost_answers_are_made_out_and_what_was_made_is_taken_back(tmp_path: Path) -> None:
    services = Services()
    async with http_server() as server:
        server.on("*", services.anything)
        amends = Amends(project_of(project(tmp_path / "p", server)))
        try:
            async with asyncio.timeout(30), amends.driver() as driver:
                view = await play(driver, "won", {"customer": "Kato", "amount": 500})
            calls: Any = amends.state(view.run)[1].calls
        finally:
            amends.close()
    # the deal was made once and found by our reference, the message went out once and its repeat counted as done
    assert services.asked == ["made", "looked up"]
    assert len(services.pushed) == 1
    assert len(server.at("/v2/bot/message/push")) == 2
    # the card was declined, so the deal is taken back
    assert services.archived == ["d_1"]
    assert view.status == "compensated", json.dumps({name: str(call) for name, call in calls.items()}, indent=1)[:3000]
