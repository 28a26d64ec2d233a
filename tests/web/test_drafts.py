"""Draft runs on the pages: what going live would send, filled in, and that nothing was sent."""

from __future__ import annotations

from runner.core.state import Disposition, Effect, State
from runner.engine.starting import Wish
from runner.people.letters import nothing_was_sent
from runner.tongue import speaking
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


def test_drafts_that_are_left_are_counted_in_each_language() -> None:
    def effect(disposition: Disposition) -> Effect:
        return Effect(path="a", part=0, action="mail.draft", external_id="m", disposition=disposition)

    state = State(mode="draft", effects={1: effect("stands"), 2: effect("undone"), 3: effect("pending")})
    assert nothing_was_sent(State(mode="draft", effects={1: effect("undone")})) == DRAFT
    assert nothing_was_sent(state) == "DRAFT: 2 drafts were left at the services, nothing was sent"
    with speaking("ja"):
        assert nothing_was_sent(state) == "下書き：サービスに下書きを 2 件残しました。何も送信していません"
    with speaking("zh-TW"):
        assert nothing_was_sent(state) == "草稿：在各服務留下 2 份草稿，未送出任何內容"
