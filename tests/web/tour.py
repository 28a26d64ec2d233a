"""One project in which much has happened, and every page of it as an admin sees it in a language."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

from runner.people.access import new_access
from runner.people.operations import Order
from runner.store import notices
from runner.web.console import Console
from tests.web.ground import FLOWS, PEOPLE, Browser, console_at, make_project, started

TOP = "owner: team:ops\nmode: live\nrun_key: ${{ trigger.id }}\n"
NOTE = "do: records.create\n    with: { collection: notes, number: '7' }\n    compensate: "
MISSING = """\
do: records.update
    with: { collection: notes, id: nobody, text: two }
    compensate: { none: 害はありません。 }
    unattended: 自社の表です。
"""
BILLS = [{"number": f"B{n}", "amount": {"value": 12000 * n, "currency": "JPY"}} for n in (1, 2)]
MORE = {
    "failing": f"""\
flow: failing
title: 失敗
{TOP}steps:
  - id: note
    {NOTE}cancel
  - id: kept
    {NOTE}{{ none: 害はありません。 }}
  - id: missing
    {MISSING}""",
    "stuck": f"""\
flow: stuck
title: 停滞
{TOP}steps:
  - id: note
    {NOTE}{{ hand_off: team:ops, say: 片付けてください。 }}
  - id: missing
    {MISSING}""",
    "deciding": f"""\
flow: deciding
title: 承認
{TOP}inputs:
  bills: {{ list: {{ number: text, amount: {{ money: JPY }} }} }}
steps:
  - id: note
    {NOTE}cancel
  - id: go
    approve: 支払いますか？
    covers: [one, paid]
    shows: [inputs.bills]
    by: [person:tom, team:ops]
    may_leave_out: inputs.bills
    within: 2 days
  - id: one
    {NOTE}cancel
  - id: bills
    each: ${{{{ inputs.bills }}}}
    named: ${{{{ item.number }}}}
    steps:
      - id: paid
        do: records.create
        with: {{ collection: payments, number: "${{{{ item.number }}}}", amount: "${{{{ item.amount }}}}" }}
        compensate: cancel
""",
    "ways": f"""\
flow: ways
title: 分岐
{TOP}inputs: {{ size: integer }}
steps:
  - id: size
    choose:
      - when: ${{{{ inputs.size > 5 }}}}
        steps:
          - {{ id: long_pause, wait: 1 day }}
      - steps:
          - id: small
            {NOTE.replace("    ", "            ")}cancel
  - id: never
    when: ${{{{ inputs.size > 100 }}}}
    {NOTE}cancel
  - id: both
    parallel:
      stock:
        - id: stock_note
          {NOTE.replace("    ", "          ")}cancel
      score:
        - id: score_note
          {NOTE.replace("    ", "          ")}cancel
""",
}

OURS = {
    "A note is made, a person looks at it": "確認", "A note is made, then it waits": "待機",
    "A record is set aside": "隔離", "The amounts differ": "金額相違", "A second note harms nobody": "害はありません",
    "Setting aside harms nobody": "害はありません", "It is our own table": "自社の表です",
    'Is note ${{ inputs.number }} right for ${{ inputs.name | default("nobody") }}?': "${{ inputs.number }} は正しいですか？",
}  # fmt: skip
"""What authors wrote in English, so that it is not taken for ours."""


def _rewritten(text: str) -> str:
    for english, own in OURS.items():
        text = text.replace(english, own)
    return text


ALL = {**{name: _rewritten(text) for name, text in FLOWS.items()}, **MORE}


@asynccontextmanager
async def toured(folder: Path) -> AsyncIterator[Tour]:
    """The project with its runs."""
    make_project(folder, PEOPLE.replace("Mia Member", "美亜"))
    for name, text in ALL.items():
        (folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    async with console_at(folder) as console:
        yield await Tour(console).begin()


class Tour:
    """`paths` are the pages; `page` shows one in a language."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.browser = Browser(console)
        self.paths: list[str] = []

    async def begin(self) -> Tour:
        """Has everything happen."""
        console = self.console
        runs = {
            name: await started(console, flow, "" if flow == "doubting" else name, **given)
            for name, flow, given in (
                ("asked", "asking", {"number": "7", "name": "Ben"}), ("answered", "asking", {"number": "8"}),
                ("closed", "asking", {"number": "9"}), ("waiting", "waiting", {}), ("paused", "waiting", {}),
                ("stopped", "waiting", {}), ("undone", "waiting", {}), ("aside", "doubting", {"record": "customer/7"}),
                ("failed", "failing", {}), ("stuck", "stuck", {}), ("small", "ways", {"size": 3}),
                ("decide", "deciding", {"bills": BILLS}), ("refused", "deciding", {"bills": BILLS[:1]}),
            )
        }  # fmt: skip
        for name, order in (
            ("answered", Order(action="acknowledge", by="person:mia")),
            ("answered", Order(action="go_on", by="person:mia", reason="良い")),
            ("closed", Order(action="close", by="person:tom")),
            ("paused", Order(action="pause", by="person:olga")), ("stopped", Order(action="stop", by="person:olga")),
            ("undone", Order(action="compensate", by="person:olga")),
        ):  # fmt: skip
            await console.act(runs[name], order)
        await self.browser.sign_in("person:tom")
        locators = {name: self._locator(runs[name]) for name in ("decide", "refused")}
        fields = dict(
            re.findall(
                r'name="(round|hash)" value="(\w+)"', (await self.browser.get(f"/review/{locators['refused']}")).text
            )
        )
        told = await self.browser.press(
            f"/review/{locators['refused']}", f"/review/{locators['refused']}/decide", answer="no", comment="高い", **fields
        )  # fmt: skip
        assert told.status_code == 303, told.text
        secret, row = new_access("link", "person:vera", now=console.now)
        await console.driver.admit(row)
        self.paths = [
            "/", "/runs", "/runs?status=closed", "/handoffs", "/handoffs?everything=1", "/quarantine", "/flows",
            "/people", "/log", "/me", "/sign-in", f"/enter/{secret}", "/nothing", "/flows/asking/start",
            "/flows/asking/drill",
            f"/log/{runs['asked']}", f"/runs/{runs['waiting']}?said=pause", f"/runs/{runs['asked']}?said=started",
            f"/quarantine/{runs['aside']}/release?record=customer/7",
            f"/quarantine/{runs['aside']}/discard?record=customer/7",
            *(f"/runs/{run}" for run in runs.values()),
            *(f"/runs/{runs['waiting']}/order/{order}" for order in ("stop", "stop_compensate", "compensate")),
            *(f"/runs/{runs['failed']}/order/{order}" for order in ("rerun", "stop")),
            *(f"/review/{locator}" for locator in (*locators.values(), self._locator(runs["decide"], "person:mia"))),
            *(f"/flows/{flow}" for flow in ALL),
        ]  # fmt: skip
        for view in console.store.handoffs(open_only=False):
            place = f"/handoffs/{view.run}/{view.handoff}"
            asked = console.story(view.run).state.handoffs[view.handoff]
            self.paths += [place, *(f"{place}/{choice}" for choice in asked.choices)]
        return self

    def _locator(self, run: str, person: str = "person:tom") -> str:
        found = self.console.store.ask(notices.of_run(run, "go", 1))
        return next(one.locator for one in found if one.person == person)

    async def pages(self, language: str) -> Mapping[str, str]:
        """Every page, as its HTML."""
        return {path: (await self.browser.get(path, **{"accept-language": language})).text for path in self.paths}


def said(html: str) -> str:
    """What a page says to whoever looks or listens: its text, its labels, what its pictures are called."""
    body = re.sub(r"<(script|style|pre|code)\b.*?</\1>", " ", html, flags=re.DOTALL)
    labels = re.findall(r'(?:aria-label|placeholder|alt)="([^"]*)"', body)
    return unescape(" ".join([re.sub(r"<[^>]+>", " ", body), *labels]))
