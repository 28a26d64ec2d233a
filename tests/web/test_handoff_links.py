"""The link in the mail of a hand-off: an owner without any account puts a run right, and nobody else gets anywhere."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.core import events as e
from runner.core.state import HandOff
from runner.people.access import new_access
from runner.web.console import Console
from tests.support.smtp_service import SmtpService
from tests.web.approving import all_rows, make_project
from tests.web.ground import FLOWS, PEOPLE, Browser, console_at, started, words_of

CODE = re.compile(r"\b(\w{4}-\w{4})\b")


TWICE = (
    FLOWS["asking"]
    .replace("flow: asking", "flow: twice")
    .replace("  - id: more\n", "  - { id: then, hand_off: team:ops, say: And is it sent? }\n  - id: more\n")
)
"""It asks the same people once more after their first answer."""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A console, and the mails that went out."""

    console: Console
    mail: SmtpService

    async def handed(self, number: str = "7", flow: str = "asking") -> str:
        """A run that asks its owner, who was told."""
        run = await started(self.console, flow, f"k{number}", number=number, name="Keiko")
        await self.console.driver.notifier.send_due()
        return run

    def found(self, pattern: re.Pattern[str], address: str = "mia@acme.test") -> str:
        """The newest text like this that was mailed there."""
        bodies = [mail.body() for mail in self.mail.mails if address in mail.to]
        return [found[1] for body in bodies for found in pattern.finditer(body)][-1]

    def link(self, address: str = "mia@acme.test") -> str:
        return self.found(re.compile(r"8484(/handoff/[\w-]+)"), address)

    async def proved(self, path: str) -> Browser:
        browser = Browser(self.console)
        assert (await browser.press(path, f"{path}/code")).status_code == 303
        assert (await browser.press(path, f"{path}/open", code=self.found(CODE))).status_code == 303
        return browser

    def asked(self, run: str) -> HandOff:
        return self.console.amends.state(run)[1].handoffs["h1"]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_at(tmp_path / "acme") as made:
        yield made


@asynccontextmanager
async def desk_at(folder: Path) -> AsyncIterator[Desk]:
    async with SmtpService() as mail:
        make_project(folder, mail.port)
        (folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        for file in (folder / "flows").iterdir():
            file.unlink()
        (folder / "flows" / "asking.yaml").write_text(FLOWS["asking"], encoding="utf-8")
        (folder / "flows" / "twice.yaml").write_text(TWICE, encoding="utf-8")
        async with console_at(folder) as console:
            yield Desk(console=console, mail=mail)


async def test_the_whole_way_without_an_account(desk: Desk) -> None:
    run = await desk.handed()
    path, browser = desk.link(), Browser(desk.console)
    door = await browser.get(path)
    assert "A run needs a person It is asked of m•••@acme.test" in words_of(door)
    for hidden in ("note", "Keiko", run, "asking"):
        assert hidden not in words_of(door)
    browser = await desk.proved(path)
    packet = await browser.get(path)
    said = words_of(packet)
    for shown in ("Is note 7 right for •••?", "What stands outside now", "What shall be done?", "I am looking at it"):
        assert shown in said
    assert "Is note 7 right for Keiko?" in words_of(await browser.get(f"{path}?reveal=1"))
    assert "<nav" not in packet.text, "and nothing of the rest of the console"
    assert "live.js" not in packet.text
    assert set(re.findall(r'(?:href|action)="(/[^"?]*)', packet.text)) - {"/"} == {
        *re.findall(r'"(/static/[^"]*)"', packet.text), f"{path}/go_on", f"{path}/compensate", f"{path}/close",
        f"{path}/acknowledge",
    }  # fmt: skip
    seen = await browser.press(path, f"{path}/acknowledge")
    assert (seen.headers["location"], desk.asked(run).acknowledged_by) == (f"{path}?said=seen", "person:mia")
    form = await browser.get(f"{path}/go_on")
    assert f'href="{path}"' in form.text
    answer = await browser.press(f"{path}/go_on", reason="I looked")
    assert answer.headers["location"] == f"{path}?said=go_on"
    assert (desk.asked(run).choice, desk.asked(run).by) == ("go_on", "person:mia")
    assert desk.console.store.run(run).status == "succeeded"
    assert "Answered by Mia Member" in words_of(await browser.get(path))
    after = words_of(await Browser(desk.console).get(path))
    assert "This question is not open any more." in after


async def test_the_next_question_of_the_run_is_a_link_and_needs_no_second_code(desk: Desk) -> None:
    run = await desk.handed(flow="twice")
    path = desk.link()
    other = await desk.handed("8", "twice")
    elsewhere = desk.link()
    browser = await desk.proved(path)
    assert (await browser.press(f"{path}/go_on", reason="I looked")).status_code == 303
    await desk.console.driver.engine.rest(run)
    page = await browser.get(path)
    assert "Answered: Is note 7 right for •••?" in words_of(page)
    assert "A new question is open: And is it sent?" in words_of(page)
    (following,) = set(re.findall(r'href="(/handoff/[\w-]+)"', page.text)) - {path}
    await desk.console.driver.notifier.send_due()
    assert desk.link() == following, "the link of its own mail"
    packet = await browser.get(following)
    assert "What shall be done?" in words_of(packet)
    assert "What shall be done?" not in words_of(await Browser(desk.console).get(following))
    assert "Is note 8" not in words_of(await browser.get(elsewhere)), "another run needs another code"
    assert (await browser.press(f"{following}/go_on", reason="Yes")).status_code == 303
    assert desk.console.store.run(run).status == "succeeded"
    assert desk.console.store.run(other).status == "needs_person"
    olga = await Browser(desk.console).sign_in("person:olga")
    await olga.press(f"/handoffs/{other}/h1/go_on", reason="Yes")
    assert f'href="/handoffs/{other}/h2"' in (await olga.get(f"/handoffs/{other}/h1")).text


async def test_a_code_opens_this_one_question_alone(desk: Desk) -> None:
    run = await desk.handed()
    first = desk.link()
    other = await desk.handed("8")
    second = desk.link()
    browser = await desk.proved(first)
    assert "Is note 7" in words_of(await browser.get(first))
    assert "Is note 8" not in words_of(await browser.get(second))
    for page in ("/", "/runs", f"/runs/{run}", "/handoffs", f"/handoffs/{run}/h1", f"/log/{run}", "/me", "/live"):
        assert (await browser.get(page)).status_code == 303, page
    secret = next(one.value for one in browser.client.cookies.jar if one.name == "amends_review")
    thief = Browser(desk.console)
    thief.client.cookies.set("amends_review", str(secret))
    thief.client.cookies.set("amends_session", str(secret))
    assert "Is note 8" not in words_of(await thief.get(second))
    for choice in ("acknowledge", "go_on", "close"):
        token = await thief.token("/sign-in")
        assert (await thief.post(f"{second}/{choice}", {"csrf": token, "reason": "x"})).status_code == 403
    assert (desk.asked(other).choice, desk.asked(other).acknowledged_by) == ("", "")


async def test_a_link_proves_nothing(desk: Desk) -> None:
    run = await desk.handed()
    path = desk.link()
    before = all_rows(desk.console)
    for browser in (Browser(desk.console), await Browser(desk.console).sign_in("person:paul")):
        before = all_rows(desk.console)
        for place in ("", "/code", "/open", "/acknowledge", "/go_on", "/compensate", "/nothing"):
            for method in ("GET", "HEAD", "OPTIONS"):
                answer = await browser.client.request(method, f"{path}{place}", params={"reason": "x"})
                assert "Is note 7" not in answer.text
        assert all_rows(desk.console) == before
        for place in ("acknowledge", "go_on", "compensate", "close", "nothing"):
            refused = await browser.press(path, f"{path}/{place}", reason="x", person="mia", by="person:mia")
            assert (refused.status_code, "Is note 7" in refused.text) == (403, False)
        assert all_rows(desk.console) == before
    assert not [row for row in desk.console.store.log(run) if isinstance(row.event, e.HandOffResolved)]


async def test_one_who_looks_with_a_code_changes_nothing(desk: Desk) -> None:
    await desk.handed()
    path = desk.link()
    browser = await desk.proved(path)
    before = all_rows(desk.console)
    for place in ("", "?reveal=1", "/go_on", "/compensate", "/close"):
        for method in ("GET", "HEAD", "OPTIONS"):
            await browser.client.request(method, f"{path}{place}")
    assert all_rows(desk.console) == before


async def test_codes_and_forms_of_others(desk: Desk) -> None:
    run = await desk.handed()
    path = desk.link()
    asked = Browser(desk.console)
    await asked.press(path, f"{path}/code")
    code = desk.found(CODE)
    assert (await Browser(desk.console).press(path, f"{path}/open", code=code)).status_code == 403
    for typed in ("", "CCCC-CCCC", "' OR 1=1 --"):
        assert (await asked.press(path, f"{path}/open", code=typed)).status_code == 403
    assert (await asked.press(path, f"{path}/open", code=code.lower())).status_code == 303
    assert (await asked.press("/sign-in", f"{path}/open", code=code)).status_code == 403, "it is used up"
    token = await asked.token(path)
    for fields, headers in (
        ({"csrf": ""}, {}), ({"csrf": "0" * 64}, {}), ({"csrf": token}, {"sec-fetch-site": "cross-site"}),
        ({"csrf": token}, {"origin": "https://evil.test"}),
    ):  # fmt: skip
        assert (await asked.post(f"{path}/go_on", {**fields, "reason": "x"}, **headers)).status_code == 403
    assert desk.asked(run).choice == ""


async def test_links_of_the_two_kinds_are_not_mixed(desk: Desk) -> None:
    await desk.handed()
    locator = desk.link().rpartition("/")[2]
    browser = Browser(desk.console)
    assert (await browser.get(f"/review/{locator}")).status_code == 404
    for guess in (locator[:-1], locator.swapcase(), "h1", "handoff:h1", "%00"):
        assert (await browser.get(f"/handoff/{guess}")).status_code == 404
    for place in ("code", "open", "decide"):
        assert (await browser.press("/sign-in", f"/review/{locator}/{place}")).status_code == 404
    secret, row = new_access("token", "person:tom", now=desk.console.now)
    await desk.console.driver.admit(row)
    headers = {"authorization": f"Bearer {secret}"}
    assert (await browser.client.get("/api/v1/approvals", headers=headers)).json() == []


async def test_whoever_is_signed_in_goes_to_the_console(desk: Desk) -> None:
    run = await desk.handed()
    for person in ("person:mia", "person:olga", "person:vera"):
        browser = await Browser(desk.console).sign_in(person)
        assert (await browser.get(desk.link())).headers["location"] == f"/handoffs/{run}/h1"


async def test_whoever_has_left_is_let_in_no_more(desk: Desk) -> None:
    run = await desk.handed()
    path = desk.link()
    browser = await desk.proved(path)
    file = desk.console.amends.folder / "people.yaml"
    file.write_text(PEOPLE.replace("  mia:", "  gone:").replace("members: [mia]", "members: [gone]"))
    assert "Is note 7" not in words_of(await browser.get(path))
    assert (await browser.press("/sign-in", f"{path}/go_on", reason="x")).status_code == 403
    refused = await browser.press("/sign-in", f"{path}/code")
    assert (refused.status_code, "Sign in instead" in words_of(refused)) == (409, True)
    assert desk.asked(run).choice == ""


async def test_a_mail_that_is_sent_again_has_the_same_link(desk: Desk) -> None:
    run = await desk.handed()
    first = desk.link()
    await desk.console.store.write(lambda connection: connection.exec_driver_sql("UPDATE outbox SET status = 'due'"))
    await desk.console.driver.notifier.send_due()
    letters = [mail for mail in desk.mail.mails if "mia@acme.test" in mail.to]
    assert (len(letters), desk.link()) == (2, first)
    assert run not in first
