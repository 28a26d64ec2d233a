"""A project that asks for approvals, with a real mail server: for the review pages and for who attacks them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import text

from runner.core.state import Gate
from runner.engine.starting import Wish
from runner.store import notices
from runner.store.tables import metadata
from runner.web.console import Console
from tests.support.smtp_service import SmtpService
from tests.web.ground import ADDRESS, Browser, console_at

PEOPLE = """\
people:
  aya: { name: 佐藤 綾, mail: aya@acme.test }
  tom: { name: Tom Ito, mail: tom@acme.test, role: approver }
  eve: { name: Eve Else, mail: eve@acme.test, role: viewer }
  anna: { name: Anna Author, mail: anna@acme.test, role: author }
  adam: { name: Adam Admin, mail: adam@acme.test, role: admin }
teams:
  leads: { members: [aya, tom, anna] }
  alone: { members: [tom] }
"""
HEAD = """\
flow: {name}
title: {title}
owner: person:adam
mode: live
run_key: ${{{{ trigger.id }}}}
"""
PAY = (
    HEAD.format(name="pay", title="A customer is told and paid")
    + """\
inputs:
  name: text
  to: text
  amount: { money: JPY }
  paper: text or empty
steps:
  - id: note
    do: records.create
    with: { collection: notes, name: "${{ inputs.name }}" }
    compensate: cancel
  - id: go
    approve: Pay ${{ inputs.name }} and tell them?
    covers: [letter, paid]
    shows: [inputs.name, inputs.paper]
    by: team:leads
    within: 2 days
MORE
  - id: letter
    do: mail.send
    with:
      to: ${{ inputs.to }}
      subject: Paid, ${{ inputs.name }}
      text: "Dear ${{ inputs.name }}\\nyou are paid."
      html: "<p style='color:green'>You are <b>paid</b>.</p>"
    accept_order: It may go out first.
    compensate: { none: A letter cannot be taken back. }
  - id: paid
    do: records.create
    with: { collection: payments, name: "${{ inputs.name }}", amount: "${{ inputs.amount }}" }
    compensate: cancel
"""
)
REMIND = (
    HEAD.format(name="remind", title="Reminders go out")
    + """\
inputs:
  bills: { list: { number: text, amount: { money: JPY }, to: email } }
steps:
  - id: go
    approve: Remind them all?
    covers: [letter]
    by: team:leads
MORE
  - id: bills
    each: ${{ inputs.bills }}
    named: ${{ item.number }}
    steps:
      - id: letter
        do: mail.send
        with: { to: "${{ item.to }}", subject: "Bill ${{ item.number }}", text: "Please pay ${{ item.amount }}." }
        compensate: { none: A letter cannot be taken back. }
"""
)
BEN = {"name": "Ben", "to": "ben@client.test", "amount": {"value": 12000, "currency": "JPY"}}
BILLS = [
    {"number": f"B{n}", "amount": {"value": 1000 * n, "currency": "JPY"}, "to": f"c{n}@client.test"} for n in (1, 2, 3)
]


def make_project(folder: Path, port: int, *, more: str = "", settings: str = "") -> Path:
    """The project's files; `more` are further words of the approvals, in one line each."""
    (folder / "flows").mkdir(parents=True)
    (folder / "amends.yaml").write_text(f"project: acme\nzone: UTC\ntell_by: mail\n{settings}", encoding="utf-8")
    (folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
    (folder / "connections.yaml").write_text(
        f"mail: {{ connector: email, host: 127.0.0.1, port: {port}, from: hello@acme.test, allow_private: true, "
        "security: none, allow_insecure: true }\n",
        encoding="utf-8",
    )
    words = "".join(f"    {line}\n" for line in more.splitlines())
    for name, flow in (("pay", PAY), ("remind", REMIND)):
        (folder / "flows" / f"{name}.yaml").write_text(flow.replace("MORE\n", words), encoding="utf-8")
    return folder


@dataclass(frozen=True, kw_only=True)
class Office:
    """The console and the mail server of one test."""

    console: Console
    mail: SmtpService
    browsers: dict[str, Browser] = field(default_factory=dict)

    async def ask(self, flow: str = "pay", starter: str = "person:anna", key: str = "k1", **inputs: Any) -> str:
        """A run that has come to its question; its id."""
        given = {**BEN, **inputs} if flow == "pay" else inputs
        begun = await self.console.driver.start(flow, Wish(given=given, key=key, starter=starter))
        await self.console.driver.engine.rest(begun.run)
        await self.console.driver.notifier.send_due()
        return begun.run

    def locator(self, run: str, person: str = "person:tom", number: int = 1) -> str:
        """Where a person finds the question."""
        found = self.console.store.ask(notices.of_run(run, "go", number))
        return next(one.locator for one in found if one.person == person)

    def gate(self, run: str) -> Gate:
        return self.console.amends.state(run)[1].gates["go"]

    def codes(self, address: str) -> list[str]:
        """The codes that were mailed there, newest last."""
        mails = [mail.body() for mail in self.mail.mails if address in mail.to and "code" in mail.subject.lower()]
        return [found[1] for body in mails if (found := re.search(r"\b(\w{4}-\w{4})\b", body))]

    def letters(self) -> list[str]:
        """To whom anything went outside."""
        return [to for mail in self.mail.mails for to in mail.to if to.endswith("@client.test")]

    async def proved(self, run: str, person: str = "person:tom", number: int = 1) -> Browser:
        """A browser that has opened the link and typed the code."""
        browser, locator = Browser(self.console), self.locator(run, person, number)
        assert (await browser.press(f"/review/{locator}", f"/review/{locator}/code")).status_code == 303
        address = person.replace("person:", "") + "@acme.test"
        typed = await browser.press(f"/review/{locator}", f"/review/{locator}/open", code=self.codes(address)[-1])
        assert typed.status_code == 303, typed.text
        return browser

    async def rested(self, run: str) -> str:
        await self.console.driver.engine.rest(run)
        return self.console.store.run(run).status

    def rows(self) -> dict[str, list[Any]]:
        """Every row of every table."""
        return all_rows(self.console)


def all_rows(console: Console) -> dict[str, list[Any]]:
    """Every row of every table."""

    def read(connection: Any) -> dict[str, list[Any]]:
        return {name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}")))) for name in metadata.tables}

    return console.store.ask(read)


@asynccontextmanager
async def office_at(folder: Path, public_url: str = ADDRESS, **words: str) -> AsyncIterator[Office]:
    """A project with its servers at work."""
    async with SmtpService() as mail, console_at(make_project(folder, mail.port, **words), public_url) as console:
        yield Office(console=console, mail=mail)


def fields_of(page: httpx.Response) -> dict[str, str]:
    """The hidden and ticked fields of the form that decides."""
    form = page.text.partition("/decide")[2]
    found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    found |= dict.fromkeys(re.findall(r'type="checkbox" name="([\w.]+)" checked', form), "on")
    return found
