"""Case H1 with the whole engine: each recipient has an outcome, a retry and at most one copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import events as e
from tests.cases.ground import Engine, flow, intents, opened, until
from tests.support.smtp_service import SmtpScript

GOOD, GONE, LATER = "good@acme.example", "gone@acme.example", "later@acme.example"
LETTER = """  - id: letter
    do: mail.send
    timeout: 2000 ms
    retry: { tries: 3, pause: 50 ms, growth: none }
    with: { to: TO, subject: Hello, text: Hello }
    unattended: It only says hello.
    accept_order: It may go first.
    compensate:
      correct: mail.send
      with: { to: "${{ output.to }}", subject: Sorry, text: Sorry }
      unattended: It only says sorry.
"""
AFTER = """  - id: after
    do: shop.log
    with: { note: "${{ outcome.letter }}" }
    compensate: { none: It only counts. }
"""
REPLIES = {GONE: "550 5.1.1 no such user", LATER: ["451 4.7.1 greylisted"]}


def letter(*to: str, more: str = "") -> str:
    return flow("letter", LETTER.replace("TO", f"[{', '.join(to)}]") + more + AFTER)


def tried(engine: Engine, run: str) -> dict[str, list[str]]:
    """The outcomes of each recipient's attempts, by address."""
    events = engine.events(run)
    to = [one.input["to"] for one in intents(events, "letter") if one.input]
    addresses = to[0] if isinstance(to[0], list) else [to[0]]
    told: dict[str, list[str]] = {address: [] for address in addresses}
    for one in events:
        if isinstance(one, e.OutcomeEvent) and (one.step, one.purpose) == ("letter", "do"):
            told[addresses[one.part]].append(type(one).__name__)
    return told


async def test_h1_good_gone_and_later_each_get_what_is_theirs(tmp_path: Path) -> None:
    text = letter(GOOD, GONE, LATER, more="    if_refused: continue\n")
    async with opened(tmp_path, text, script=SmtpScript(replies=REPLIES)) as ground, ground.engine() as engine:
        view = await engine.run("letter", "k1", name="Aya")
        assert view.status == "succeeded"
        assert tried(engine, view.run) == {
            GOOD: ["CallApplied"],
            GONE: ["CallRefused"],
            LATER: ["CallRefused", "CallApplied"],
        }
        assert sorted(ground.post.copies.values()) == [1, 1], "nobody gets a second copy"
        assert sorted(mail.to for mail in ground.post.mails) == [(GOOD,), (LATER,)]
        assert ground.shop.world.effects[0].body["note"] == "refused", "the flow can react to it"
        refused = [one for one in engine.events(view.run) if isinstance(one, e.StepFailed)]
        assert [one.goes_on for one in refused] == [True]
        assert "no such user" in refused[0].summary
        assert "1 of 3" in refused[0].summary
        engine.holds(view.run)


async def test_h1_one_that_is_gone_fails_the_step_and_those_who_got_it_are_told(tmp_path: Path) -> None:
    text = letter(GOOD, GONE, LATER)
    async with opened(tmp_path, text, script=SmtpScript(replies=REPLIES)) as ground, ground.engine() as engine:
        view = await engine.run("letter", "k1", name="Aya")
        assert view.status == "compensated"
        hello = [mail.to[0] for mail in ground.post.mails if mail.subject == "Hello"]
        assert sorted(hello) == [GOOD, LATER]
        assert ground.asked("/log") == 0
        assert {effect.disposition for effect in engine.store.effects(view.run)} == {"answered"}
        engine.holds(view.run)


async def test_h1_gone_alone_is_final_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, letter(GONE), script=SmtpScript(replies=REPLIES)) as ground, ground.engine() as engine:
        view = await engine.run("letter", "k1", name="Aya")
        assert (view.status, len(ground.post.mails)) == ("failed", 0), "nothing was ever applied"
        assert tried(engine, view.run) == {GONE: ["CallRefused"]}
        engine.holds(view.run)


async def test_h1_later_alone_is_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    replies = {LATER: ["451 later"] * 3}
    text = letter(LATER).replace("tries: 3, pause: 50 ms, growth: none", "tries: 4, pause: 50 ms, growth: double")
    async with opened(tmp_path, text, script=SmtpScript(replies=replies)) as ground, ground.engine() as engine:
        view = await engine.run("letter", "k1", name="Aya")
        assert view.status == "succeeded"
        timers = [one for one in engine.events(view.run) if isinstance(one, e.TimerSet)]
        pauses = [one.due - one.at for one in timers]
        assert [49 <= pauses[0] <= 63, 99 <= pauses[1] <= 125, 199 <= pauses[2] <= 250] == [True] * 3, pauses
        assert ground.post.copies == {(ground.post.mails[0].message_id, LATER): 1}
        engine.holds(view.run)


async def test_h1_one_late_answer_holds_up_no_other_recipient(tmp_path: Path) -> None:
    script = SmtpScript(replies={LATER: ["451 later"]}, after_dot=["held"])
    text = letter(GOOD, LATER).replace("2000 ms", "30 seconds")
    async with opened(tmp_path, text, script=script) as ground, ground.engine() as engine:
        run = await engine.start("letter", "k1", name="Aya")
        await until(lambda: [mail.to for mail in ground.post.mails] == [(GOOD,), (LATER,)])
        assert tried(engine, run)[GOOD] == [], "the first answer has not come yet"
        ground.post.release()
        assert (await engine.rest(run)).status == "succeeded"
        assert sorted(ground.post.copies.values()) == [1, 1]
        engine.holds(run)


@pytest.mark.parametrize("answer", ["happened", "did_not"])
async def test_h1_one_in_doubt_is_asked_about_and_the_others_stand(tmp_path: Path, answer: str) -> None:
    script = SmtpScript(after_dot=["drop"])
    async with opened(tmp_path, letter(GOOD, LATER), script=script) as ground, ground.engine() as engine:
        view = await engine.run("letter", "k1", name="Aya")
        assert (view.status, len(ground.post.mails)) == ("needs_person", 2)
        said = {"output": {"message_id": "x", "to": GOOD}} if answer == "happened" else {}
        assert (await engine.order(view.run, answer, **said)).status == "succeeded"
        assert len(ground.post.mails) == (2 if answer == "happened" else 3), "only a person can have a letter sent anew"
        assert ground.asked("/log") == 1
        engine.holds(view.run)
