"""A flow's failure table in the console, and the page that stands alone."""

from __future__ import annotations

import re

import pytest

from runner.drill.ways import WAYS
from runner.telling import drilled
from runner.tongue import speaking
from runner.web import drill
from runner.web.console import Console
from runner.web.drill_page import printed
from tests.drill.ground import demo
from tests.web.ground import Browser, words_of


async def test_a_flow_s_page_leads_to_what_is_left_when_it_fails(console: Console) -> None:
    browser = await Browser(console).sign_in("person:vera")
    assert "/flows/waiting/drill" in (await browser.get("/flows/waiting")).text
    said = words_of(await browser.get("/flows/waiting/drill"))
    assert "whatever is left outside, somebody is told of it" in said
    assert re.search(r"stopped and made good by hand note marked note \(marked\) who stopped it compensated", said)


async def test_a_drill_in_the_console_has_an_end(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drill, "WITHIN", 0.0)
    drill._kept.clear()
    browser = await Browser(console).sign_in("person:vera")
    said = words_of(await browser.get("/flows/waiting/drill"))
    drill._kept.clear()
    assert re.search(r"0 rows, and \d+ were left out for lack of time", said)


async def test_a_flow_with_errors_is_not_drilled(console: Console) -> None:
    flow = console.amends.folder / "flows" / "waiting.yaml"
    flow.write_text(flow.read_text(encoding="utf-8").replace("records.create", "records.creat"), encoding="utf-8")
    browser = await Browser(console).sign_in("person:vera")
    assert "has errors, so it cannot run" in words_of(await browser.get("/flows/waiting/drill"))


def test_the_page_that_stands_alone_needs_nothing_else() -> None:
    found = demo().drill()
    page = printed(found, "2026-09-01T09:00:00+00:00")
    assert not re.search(r"(src|href)=|@import|url\(", page)
    assert page.count("<tr class=") == len(drilled.shown_lines(found))
    assert found.digest in page
    with speaking("ja"):
        assert "外部に残るもの" in printed(found, "")


def test_every_way_has_words() -> None:
    assert drilled.WAYS.keys() == set(WAYS)
