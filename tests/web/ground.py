"""A real project behind its real pages: its own tables are the outside, so that nothing but this process is needed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from runner.app import Amends, OwnDriver
from runner.engine.starting import Wish
from runner.people.access import new_access
from runner.store.lock import EngineLock
from runner.web.application import served
from runner.web.console import Console

PORT = 8484
ADDRESS = f"http://127.0.0.1:{PORT}"

FLOWS = {
    "asking": """\
flow: asking
title: A note is made, a person looks at it
owner: team:ops
mode: live
run_key: ${{ trigger.id }}
record: note/${{ inputs.number }}
inputs:
  number: text
  name: { text: {}, personal: true, empty: true }
steps:
  - id: note
    do: records.create
    with: { collection: notes, number: "${{ inputs.number }}", name: "${{ inputs.name | default('nobody') }}" }
    compensate: cancel
  - id: look
    hand_off: team:ops
    say: Is note ${{ inputs.number }} right for ${{ inputs.name | default("nobody") }}?
  - id: more
    do: records.create
    with: { collection: notes, number: "${{ inputs.number }}" }
    compensate: { none: A second note harms nobody. }
""",
    "waiting": """\
flow: waiting
title: A note is made, then it waits
owner: person:tom
mode: live
run_key: ${{ trigger.id }}
steps:
  - id: note
    do: records.create
    with: { collection: notes, text: one }
    compensate:
      mark: records.update
      with: { collection: notes, id: "${{ output.id }}", text: marked }
      unattended: It is our own table.
  - { id: pause, wait: 2 days }
""",
    "doubting": """\
flow: doubting
title: A record is set aside
owner: person:tom
mode: live
run_key: ${{ inputs.record }}
inputs: { record: text }
steps:
  - id: aside
    do: quarantine.add
    with: { record: "${{ inputs.record }}", reason: The amounts differ, content: { amount: 12 } }
    compensate: { none: Setting aside harms nobody. }
""",
}
PEOPLE = """\
people:
  tom: { name: Tom Ito, mail: tom@acme.test, role: admin }
  olga: { name: Olga Ops, mail: olga@acme.test, role: operator }
  vera: { name: Vera View, mail: vera@acme.test, role: viewer }
  anna: { name: Anna Author, mail: anna@acme.test, role: author }
  paul: { name: Paul Plain, mail: paul@acme.test }
  mia: { name: Mia Member, mail: mia@acme.test }
posts: { cfo: tom }
teams:
  ops: { members: [mia], escalate_to: [person:cfo] }
"""


def make_project(folder: Path, people: str = PEOPLE) -> Path:
    """The project's files."""
    (folder / "flows").mkdir(parents=True)
    (folder / "amends.yaml").write_text("project: shop\nzone: UTC\n", encoding="utf-8")
    if people:
        (folder / "people.yaml").write_text(people, encoding="utf-8")
    for name, text in FLOWS.items():
        (folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


@asynccontextmanager
async def console_at(folder: Path, public_url: str = ADDRESS) -> AsyncIterator[Console]:
    """The project's console, with its engine at work."""
    amends = Amends.open(folder)
    lock = EngineLock(folder)
    assert lock.acquire()
    driver = OwnDriver(amends.project, amends.clock, lock)
    try:
        async with driver.running(settles=False):
            yield Console(amends, driver, public_url=public_url, port=PORT)
    finally:
        amends.close()


class Browser:
    """One browser: it keeps cookies, and sends forms as browsers do."""

    def __init__(self, console: Console, address: str = ADDRESS) -> None:
        self.console = console
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app=served(console)), base_url=address)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """A page."""
        return await self.client.get(path, headers=headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """A form as it is given here."""
        sent = {"origin": "null", "sec-fetch-site": "same-origin", **headers}
        return await self.client.post(path, data=fields, headers=sent)

    async def token(self, page: str) -> str:
        """The token of the forms of a page."""
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', (await self.get(page)).text)
        assert found is not None, page
        return found[1]

    async def press(self, page: str, path: str = "", /, **fields: str) -> httpx.Response:
        """Opens a page and sends its form (to `path`, where that is another one)."""
        return await self.post(path or page, {"csrf": await self.token(page), **fields})

    async def sign_in(self, person: str) -> Browser:
        """Comes in by a link, as this person."""
        secret, row = new_access("link", person, now=self.console.now)
        await self.console.driver.admit(row)
        answer = await self.press(f"/enter/{secret}")
        assert answer.status_code == 303, answer.text
        return self

    async def sign_in_truly(self, person: str) -> Browser:
        """Is signed in as after a password or a provider."""
        secret, row = new_access("session", person, now=self.console.now)
        await self.console.driver.admit(row)
        self.client.cookies.set("amends_session", secret)
        return self


async def started(console: Console, flow: str, key: str = "k1", **inputs: Any) -> str:
    """A run that has come to rest; its id."""
    begun = await console.driver.start(flow, Wish(given=inputs, key=key, starter="person:anna"))
    await console.driver.engine.rest(begun.run)
    return begun.run


def words_of(answer: httpx.Response) -> str:
    """What a page says, without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())
