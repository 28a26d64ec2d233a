"""Cases B1 and B2 with the whole engine: letters and refunds that must not be sent twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from runner.app import Amends
from runner.core import events as e
from runner.errors import NotPossible
from runner.people.operations import Order
from runner.telling.consequences import consequence
from runner.telling.questions import completed
from runner.telling.story import story_of
from tests.cases.ground import Engine, Ground, flow, intents, kinds_of, opened, until
from tests.support.says import DROP_AFTER, RESET, failing
from tests.support.smtp_service import SmtpScript

LETTER = flow(
    "letter",
    """  - id: note
    do: shop.deal
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
  - id: letter
    do: mail.send
    timeout: 700 ms
    retry: { tries: 4, pause: 20 ms, growth: none }
    with: { to: aya@acme.example, subject: "Hello ${{ inputs.name }}", text: Hello }
    unattended: It only says hello.
    accept_order: A correction is ready.
    compensate:
      correct: mail.send
      with: { to: aya@acme.example, subject: Sorry, text: Sorry }
      unattended: It only says sorry.
  - id: after
    do: shop.log
    with: { note: "${{ steps.letter.message_id }}" }
    compensate: { none: It only counts. }
""",
)
REFUND = flow(
    "refund",
    """  - id: charge
    do: shop.charge
    with: { note: "${{ inputs.name }}", amount: 100 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}", amount: 40 } }
  - id: ticket
    do: shop.ticket
    with: { note: "${{ steps.charge.id }}" }
    compensate: { none: It only counts. }
""",
)
PART = flow(
    "part",
    """  - id: refund
    do: shop.refund
    with: { note: "${{ inputs.name }}", of: charge-1, amount: 40 }
    compensate: { none: It is a goodwill payment. }
""",
)


@pytest.mark.parametrize("told", ["delay 2000", "drop", "reset"])
async def test_b1_a_letter_whose_reply_is_late_or_lost_is_never_sent_again(tmp_path: Path, told: str) -> None:
    async with opened(tmp_path, LETTER, script=SmtpScript(after_dot=[told])) as ground:
        async with ground.engine() as engine:
            view = await engine.run("letter", "k1", name="Aya")
            assert (view.status, view.at_step, view.needs) == ("needs_person", "letter", "person:me")
            question = engine.state(view.run).open_handoffs[0]
            assert (question.kind, question.choices[:2]) == ("unknown", ("happened", "did_not"))
            assert ground.asked("/log") == 0, "what comes after an unknown outcome does not go on"
        async with ground.engine() as engine:
            assert (await engine.rest(view.run)).status == "needs_person", "a restart sends nothing"
            assert len(ground.post.mails) == 1
            frozen = intents(engine.events(view.run), "letter")[0].request["message_id"]
            assert frozen == ground.post.mails[0].message_id, "a person can match the letter with what is in the log"
            with pytest.raises(NotPossible, match="message_id"):
                await engine.act(view.run, "happened")
            last = await engine.order(view.run, "happened", output={"message_id": frozen})
            assert last.status == "succeeded"
            engine.holds(view.run)
        assert ground.post.copies == {(frozen, "aya@acme.example"): 1}
        assert ground.shop.world.effects[-1].body["note"] == frozen


async def test_b1_did_not_sends_it_once_more_as_a_new_letter(tmp_path: Path) -> None:
    async with opened(tmp_path, LETTER, script=SmtpScript(after_dot=["drop"])) as ground, ground.engine() as engine:
        view = await engine.run("letter", "k1", name="Aya")
        assert len(ground.post.mails) == 1
        last = await engine.order(view.run, "did_not", reason="It is not in the mailbox.")
        assert last.status == "succeeded"
        first, second = (mail.message_id for mail in ground.post.mails)
        assert first != second, "a letter that a person has sent anew is another letter"
        assert [one.generation for one in intents(engine.events(view.run), "letter")] == [0, 1]
        engine.holds(view.run)


@pytest.mark.parametrize(
    "script",
    [SmtpScript(at_ehlo=["delay 2000", "drop"]), SmtpScript(at_connect=["drop", "drop"])],
    ids=["ehlo", "connect"],
)
async def test_b1_what_breaks_before_data_is_tried_again(tmp_path: Path, script: SmtpScript) -> None:
    async with opened(tmp_path, LETTER, script=script) as ground, ground.engine() as engine:
        view = await engine.run("letter", "k1", name="Aya")
        assert view.status == "succeeded"
        events = engine.events(view.run)
        assert kinds_of([one for one in events if one.step == "letter"]).count("CallNotSent") == 2
        assert (len(ground.post.mails), ground.post.data_commands) == (1, 1)
        assert len({one.key for one in intents(events, "letter")}) == 1
        engine.holds(view.run)


async def test_b1_a_letter_in_doubt_can_be_made_good_with_a_correction(tmp_path: Path) -> None:
    async with opened(tmp_path, LETTER, script=SmtpScript(after_dot=["drop"])) as ground, ground.engine() as engine:
        run = (await engine.run("letter", "k1", name="Aya")).run
        resting = await engine.order(run, "compensate")
        assert resting.status == "needs_person"
        assert ground.asked("/undo_deal") == 0, "what is older waits until it is known whether the letter went out"
        last = await engine.order(run, "happened")
        assert last.status == "compensated"
        assert [mail.subject for mail in ground.post.mails] == ["Hello Aya", "Sorry"]
        assert engine.dispositions(run) == {"note": "undone", "letter": "answered"}
        engine.holds(run)


BARE = flow(
    "bare",
    """  - id: charge
    do: shop.post
    with: { note: x }
    unattended: It only counts.
    compensate: { hand_off: person:me }
  - id: after
    do: shop.log
    with: { note: "${{ steps.charge.id }}" }
    compensate: { none: It only counts. }
""",
)


async def test_b1_what_is_said_of_a_call_without_a_key_names_none_and_keeps_the_id_of_the_service(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, BARE) as ground, ground.engine() as engine:
        ground.shop.script("POST /post", DROP_AFTER)
        run = (await engine.run("bare", "k1", name="Aya")).run
        with closing(Amends.open(ground.folder)) as reader:
            story = story_of(reader, run, "UTC")
            (asked,) = story.state.open_handoffs
            assert asked.kind == "unknown"
            assert consequence(story, "did_not", asked).startswith("It is sent again. If it did happen")
            order = Order(action="happened", by="person:me", handoff=asked.id, output={"id": "B1"})
            await engine.driver.act(run, completed(story, order))
            assert (await engine.rest(run)).status == "succeeded"
            told = story_of(reader, run, "UTC")
        assert [each.external_id for each in told.effects if each.path == "charge"] == ["B1"]
        assert any("B1" in line.text for line in told.lines), "what happened names it too"


def waits(engine: Engine, run: str, attempt: int) -> str:
    """What the refund waits for after so many attempts."""
    call = engine.state(run).calls.get(("charge", "undo", 0))
    return call.due_for if call is not None and call.attempt == attempt else ""


def _broken(ground: Ground) -> None:
    ground.shop.script("POST /ticket", failing(422))
    ground.shop.script("POST /refund", DROP_AFTER, RESET)


async def test_b2_a_refund_whose_answer_is_lost_is_retried_with_its_key(tmp_path: Path) -> None:
    async with opened(tmp_path, REFUND, PART) as ground, ground.engine() as engine:
        _broken(ground)
        view = await engine.run("refund", "k1", name="Aya")
        assert view.status == "compensated"
        sent = [seen for seen in ground.shop.requests if seen.path == "/refund"]
        assert len(sent) == 3
        assert len({(seen.key, seen.body) for seen in sent}) == 1, "the same key and the same request, every time"
        assert ground.made("/refund") == ["refund-1"], "the money left once"
        forward = {one.key for one in engine.events(view.run) if isinstance(one, e.CallIntended)}
        assert len(forward) == 3, "forward and compensation never share a key"
        again = await engine.run("part", "k2", name="Aya")
        assert again.status == "succeeded"
        assert ground.made("/refund") == ["refund-1", "refund-2"], "a second refund that is meant does happen"
        assert len({effect.key for effect in ground.shop.world.effects if effect.path == "/refund"}) == 2
        engine.holds(view.run)


async def test_b2_the_key_stays_when_the_engine_begins_anew_between_two_attempts(tmp_path: Path) -> None:
    text = REFUND.replace("amount: 40 } }", "amount: 40 }, retry: { tries: 4, pause: 400 ms, growth: none } }")
    async with opened(tmp_path, text) as ground:
        _broken(ground)
        async with ground.engine() as engine:
            run = await engine.start("refund", "k1", name="Aya")
            await until(lambda: "retry" in waits(engine, run, 1))
        async with ground.engine() as engine:
            assert ground.asked("/refund") == 1
            await until(lambda: "retry" in waits(engine, run, 2))
        async with ground.engine() as engine:
            assert (await engine.rest(run)).status == "compensated"
            engine.holds(run)
        assert ground.asked("/refund") == 3
        assert len({seen.key for seen in ground.shop.requests if seen.path == "/refund"}) == 1
        assert ground.made("/refund") == ["refund-1"]
