"""The review page beside the demo's back office: what is there now, read when somebody looks, and never in the way."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner.demo import Servers, make_project, start_servers
from runner.demo.faults import Fault
from runner.store import notices
from runner.web.console import Console
from tests.web.ground import Browser, console_at, started, words_of

PEOPLE = """\
people:
  tom: { name: Tom Ito, mail: tom@acme.test, role: approver }
  anna: { name: Anna Author, mail: anna@acme.test, role: author }
  eve: { name: Eve Else, mail: eve@acme.test, role: approver }
  vera: { name: Vera View, mail: vera@acme.test, role: viewer }
"""
FLOW = """\
flow: review_contact
title: A contact is flagged, another one is made
owner: person:anna
mode: live
run_key: ${{ trigger.id }}
inputs: { id: text, email: email, note: text, missing: text }
steps:
  - id: go
    approve: Flag ${{ inputs.id }}?
    covers: [flag, ours, contact, other, close]
    by: [person:tom, person:eve]
  - id: flag
    do: crm.update_contact
    with: { id: "${{ inputs.id }}", status: blocked }
    compensate: { none: We flag it again by hand. }
  - id: ours
    do: records.update
    with: { collection: notes, id: "${{ inputs.note }}", text: new words, by: anna }
    compensate: { none: It is our own table. }
  - id: contact
    do: crm.create_contact
    find: { email: "${{ inputs.email }}" }
    with: { name: Ben, email: "${{ inputs.email }}" }
    compensate: { none: A contact harms nobody. }
  - id: other
    do: crm.update_contact
    with: { id: "${{ inputs.missing }}", status: blocked }
    compensate: { none: We flag it again by hand. }
  - id: close
    do: tasks.close
    with: { id: T-1 }
    compensate: { none: It is opened again by hand. }
"""
NOTE = """\
flow: note
title: A note of ours
owner: person:anna
mode: live
run_key: ${{ trigger.id }}
steps:
  - id: made
    do: records.create
    with: { collection: notes, id: n1, text: old words, size: 7 }
    compensate: cancel
"""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The console beside the back office."""

    console: Console
    servers: Servers

    async def asked(self, person: str = "person:tom", **inputs: Any) -> tuple[Browser, str, str]:
        """A browser of somebody, the run, and where its question is."""
        await started(self.console, "note")
        run = await started(self.console, "review_contact", **inputs)
        told = self.console.store.ask(notices.of_run(run, "go", 1))
        notice = next(one for one in told if one.person == person)
        return await Browser(self.console).sign_in(person), run, f"/review/{notice.locator}"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with start_servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
async def desk(tmp_path: Path, servers: Servers) -> AsyncIterator[Desk]:
    folder = tmp_path / "shop"
    make_project(folder, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
    (folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
    for name, text in (("review_contact", FLOW), ("note", NOTE)):
        (folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    with (folder / "amends.yaml").open("a", encoding="utf-8") as settings:
        settings.write("tell_by: mail\n")
    async with console_at(folder) as console:
        yield Desk(console=console, servers=servers)


def made(servers: Servers, email: str) -> str:
    """A contact that somebody else has made; its id."""
    body = {"name": "Aya Sato", "email": email, "note": "", "reference": f"r-{email}"}
    return str(servers.ask("POST", "/contacts", body)["id"])


async def test_the_page_shows_what_is_there_now_beside_what_is_new(desk: Desk) -> None:
    there = made(desk.servers, "aya@client.test")
    before = len(desk.servers.ledger()["effects"])
    browser, run, page = await desk.asked(id=there, email="aya@client.test", note="n1", missing="C-999")
    gate = desk.console.amends.state(run)[1].gates["go"]
    answer = await browser.get(page)
    flag, ours, contact, other, close = answer.text.split('<section class="sheet">')[1:]
    assert "<del>new</del>" in flag
    assert "<ins>blocked</ins>" in flag
    assert re.search(r"What else the record holds now.*Aya Sato", flag, re.DOTALL)
    assert '<del>old words</del></td><td class="text"><ins>new words</ins>' in ours
    assert re.search(r"What else the record holds now.*size.*7", ours, re.DOTALL)
    assert f"There is one already: {there}. The step takes it as it is, and sends nothing." in contact
    assert '<del>Aya Sato</del></td><td class="text"><ins>Ben</ins>' in contact
    assert "There is no such record now." in other
    assert "As it is now" not in close, "no action reads a to-do"
    assert "As it is now" not in words_of(await Browser(desk.console).get(page)), "the neutral page says nothing of it"
    state = desk.console.amends.state(run)[1]
    assert (state.gates["go"].hash, len(desk.servers.ledger()["effects"])) == (gate.hash, before), (
        "it is only looked at"
    )


async def test_what_cannot_be_read_is_said_and_holds_nobody_up(desk: Desk) -> None:
    there = made(desk.servers, "ben@client.test")
    browser, _run, page = await desk.asked(id=there, email="new@client.test", note="n2", missing="C-999")
    for fault in ("late", "error"):
        desk.servers.control(Fault(method="GET", path=f"/contacts/{there}", fault=fault, after_ms=4_000))
        began = time.monotonic()
        answer = await browser.get(page)
        assert time.monotonic() - began < 3.5
        assert "What is there now could not be read: " in answer.text.split('<section class="sheet">')[1]
        assert "There is no such record now." in answer.text.split('<section class="sheet">')[3]
        assert 'name="answer" value="yes"' in answer.text
    asked = desk.servers.ledger()["requests"]
    await (await Browser(desk.console).sign_in("person:vera")).get(page)
    assert desk.servers.ledger()["requests"] == asked, "nothing is asked for anybody else"
