"""Draft runs on the pages: what going live would send, filled in, and that nothing was sent."""

from __future__ import annotations

from runner.engine.starting import Wish
from runner.web.console import Console
from tests.web.ground import Browser, words_of

DRAFT = "DRAFT: nothing was sent"


async def drafted(console: Console, number: str) -> str:
    begun = await console.driver.start(
        "asking", Wish(given={"number": number}, key="k1", starter="person:anna", mode="draft")
    )
    await console.driver.engine.rest(begun.run)
    return begun.run


async def test_a_draft_shows_what_going_live_would_send(console: Console) -> None:
    run = await drafted(console, "<b>7</b>\nand more")
    browser = await Browser(console).sign_in("person:tom")
    page = await browser.get(f"/runs/{run}")
    said = words_of(page)
    assert DRAFT in said
    for words in (
        "What going live would send",
        "Adds a record",
        "number &lt;b&gt;7&lt;/b&gt; and more",
        "No draft was left.",
    ):
        assert words in said, words
    assert "<b>7</b>" not in page.text
    for path in (f"/handoffs/{run}/h1", f"/runs/{run}/order/stop"):
        assert DRAFT in words_of(await browser.get(path)), path


async def test_a_live_run_says_nothing_of_drafts(console: Console) -> None:
    begun = await console.driver.start("asking", Wish(given={"number": "7"}, key="k1", starter="person:anna"))
    await console.driver.engine.rest(begun.run)
    said = words_of(await (await Browser(console).sign_in("person:tom")).get(f"/runs/{begun.run}"))
    assert "DRAFT" not in said
    assert "going live" not in said
