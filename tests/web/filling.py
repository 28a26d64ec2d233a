"""A project with forms, and somebody who fills them in: as a browser does, with a page's hidden fields."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from runner.core.events import RunStarted
from runner.store.facts import RunFilter, RunView
from runner.web.console import Console
from tests.web.ground import ADDRESS, PEOPLE, Browser, console_at

NOTE = """\
steps:
  - id: note
    do: records.create
    with: { collection: notes, name: "${{ inputs.name }}" }
    compensate: cancel
"""
HEAD = "flow: {0}\ntitle: {1}\nowner: person:tom\nmode: live\nrun_key: ${{{{ trigger.id }}}}\n"
EXPENSE = (
    HEAD.format("expense", "経費の申請")
    + """\
trigger: { form: expense }
inputs:
  name: { text: null, label: お名前, personal: true }
  mail: { email: null, label: メール, personal: true }
  amount: { money: JPY, label: 金額, help: 税込みの金額 }
  day: { date: null, label: 日付 }
  agree: { yes_no: null, label: 同意 }
  plan: { choice: { basic: 基本, pro: 上級 }, label: プラン, default: basic }
  note: { text: { max: 1000 }, label: 備考, empty: true }
  lines: { list: { sku: text, qty: integer }, label: 明細 }
  receipt: { file: { kinds: [pdf, jpg], max: 2 KB }, label: 領収書, empty: true }
"""
    + NOTE
)
ASK = HEAD.format("ask", "Ask us") + "trigger: { form: ask }\ninputs: { name: text, mail: email or empty }\n" + NOTE
MEMBERS = (
    HEAD.format("members", "For us") + "trigger: { form: members, sign_in: true }\ninputs: { name: text }\n" + NOTE
)
FLOWS = {"expense": EXPENSE, "ask": ASK, "members": MEMBERS}
GIVEN = {
    "in.name": "佐藤 綾", "in.mail": "ａｙａ＠acme.test", "in.amount": "１２，０００", "in.day": "2026-09-01", "in.agree": "yes",
    "in.plan": "pro", "rows.lines": "2", "in.lines.0.sku": "A-1", "in.lines.0.qty": "２",
}  # fmt: skip
Files = Mapping[str, tuple[str, bytes, str]]
PDF = ("領収書.pdf", b"%PDF-1.7 a receipt", "application/pdf")


@asynccontextmanager
async def office(folder: Path, flows: dict[str, str] = FLOWS, *, public_url: str = ADDRESS) -> AsyncIterator[Console]:
    """The console of a project with these flows; nobody is too quick in it."""
    (folder / "flows").mkdir(parents=True)
    (folder / "amends.yaml").write_text("project: acme\nzone: Asia/Tokyo\n", encoding="utf-8")
    (folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
    for name, text in flows.items():
        (folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    async with console_at(folder, public_url) as console:
        await console.driver.triggers.active.look()
        console.forms.quickest = 0
        yield console


class Filler:
    """Somebody in front of a form. `page` is the last one that was shown."""

    def __init__(self, console: Console, form: str, *, browser: Browser | None = None, language: str = "en") -> None:
        self.browser = browser or Browser(console)
        self.path = f"/forms/{form}"
        self.language = language
        self.page: httpx.Response

    async def open(self) -> Filler:
        """The empty page."""
        self.page = await self.browser.get(self.path, **{"accept-language": self.language})
        assert self.page.status_code == 200, self.page.text
        return self

    @property
    def hidden(self) -> dict[str, str]:
        """What the page carries along, and what stands in its fields."""
        tags = re.findall(r"<input [^>]*>", self.page.text)
        values: dict[str, str] = {}
        for tag in tags:
            kept = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
            if kept.get("type") not in ("radio", "file") or "checked" in tag:
                values[kept["name"]] = unescape(kept.get("value", ""))
        for name, inner in re.findall(
            r'<select id="[^"]*" name="([^"]*)".*?>(.*?)</select>', self.page.text, re.DOTALL
        ):
            values[name] = "".join(re.findall(r'value="([^"]*)" selected', inner))
        for name, inner in re.findall(
            r'<textarea [^>]*?name="([^"]*)"[^>]*>\n(.*?)</textarea>', self.page.text, re.DOTALL
        ):
            values[name] = unescape(inner)
        return values

    async def send(self, typed: Mapping[str, str] = MappingProxyType({}), files: Files | None = None) -> httpx.Response:
        """Everything that stands on the page with what is `typed` over it, as `multipart/form-data`."""
        self.page = await self.post({**self.hidden, **typed}, files)
        return self.page

    async def post(self, fields: Mapping[str, str], files: Files | None = None) -> httpx.Response:
        """As a browser sends it from another site's page or from ours: without a word of where it comes from."""
        parts: dict[str, Any] = {name: (None, value) for name, value in fields.items()}
        return await self.browser.client.post(
            f"{self.path}/send", files={**parts, **(files or {})}, headers={"accept-language": self.language}
        )


def wrong_in(page: httpx.Response) -> dict[str, str]:
    """What stands at the fields that do not fit, by place."""
    return {place.replace("-", "."): unescape(text) for place, text in re.findall(
        r'<span class="wrong" id="wrong-in-([\w-]+)">(.*?)</span>', page.text)}  # fmt: skip


def runs_of(console: Console) -> list[RunView]:
    """All runs."""
    return list(console.store.runs(RunFilter(limit=1000)))


def began(console: Console, run: str = "") -> RunStarted:
    """How a run began; the only one there is."""
    (found,) = (view.run for view in runs_of(console) if run in ("", view.run))
    event = console.store.log(found)[0].event
    assert isinstance(event, RunStarted)
    return event
