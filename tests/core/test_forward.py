"""Going forward: reads and writes, look-ups and finds, questions, reviews, drafts, holds, pauses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.core import events as e
from runner.core.status import standing_of
from runner.engine.simulated import Calm, Result
from tests.core.stage import (
    BUSY,
    CANNOT,
    LOST,
    NONE,
    NOT_SENT,
    ONE,
    REFUSED,
    TWO,
    asked,
    asking,
    bundle_of,
    calling,
    do,
    facts,
    once,
    run,
    waiting,
)
from tests.laws.flows import corpus
from tests.laws.play import STARTED_AT

PAIR = bundle_of(do("a", "svc.once") + do("b"), top="outputs: { x: '${{ steps.a.id }}' }\n")
LOOKED = bundle_of(do("a", "svc.looked") + do("b"))
FIND = '    find: { email: "a@x.test" }\n'
FOUND = bundle_of(do("a", "svc.findable", more=FIND) + do("b", with_="{ name: '${{ steps.a.id }}' }"))
REVIEW = bundle_of(do("a") + do("b", "svc.once") + do("c"), top="on_failure: review\n")


class OneByOne(Calm):
    """One call starts in a turn."""

    def slots(self) -> int:
        return 1


FAN = bundle_of(
    do("m", "svc.letter", with_="{ to: [x, y, z] }") + do("b", with_="{ name: '${{ outcome.m }}' }"),
    top="on_failure: review\n",
)


def status(result: Result) -> str:
    assert result.end == "ended"
    return result.state.status


def attempts(result: Result, step: str, purpose: str = "do") -> list[tuple[int, int, int]]:
    """(part, generation, attempt) of each."""
    sent = [event for event in facts(result, e.CallIntended) if (event.step, event.purpose) == (step, purpose)]
    return [(event.part, event.generation, event.attempt) for event in sent]


def test_a_run_succeeds_with_its_outputs() -> None:
    result = run(PAIR)
    assert status(result) == "succeeded"
    assert result.state.outputs == {"x": "a-0"}
    assert [event.start_no for event in facts(result, e.CallIntended)] == [1, 2]


def test_busy_with_no_pause_at_all() -> None:
    """Retry-After: 0, answered at once: each timer is a fact of its own."""
    result = run(PAIR, {("a", "do"): [BUSY, BUSY, BUSY]})
    assert status(result) == "succeeded"
    assert attempts(result, "a") == [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4)]


def test_a_busy_engine_costs_no_tries() -> None:
    """Ten attempts that the engine itself came to too late, of which `retry` would allow four; nor does it haste."""
    late = replace(NOT_SENT, reason="late")
    result = run(PAIR, {("a", "do"): [late] * 10})
    assert status(result) == "succeeded"
    assert len(attempts(result, "a")) == 11
    pauses = [event.due - event.at for event in facts(result, e.TimerSet)]
    for pause, least in zip(pauses, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30], strict=True):
        assert least * 1_000 <= pause <= least * 1_250
    refused = run(PAIR, {("a", "do"): [late] * 3 + [NOT_SENT] * 4})
    assert status(refused) == "failed"
    assert len(attempts(refused, "a")) == 7


# --- doubt ---------------------------------------------------------------------------------------------------------


def test_did_not_twice_is_a_new_generation_each_time() -> None:
    result = run(PAIR, {("a", "do"): [LOST, LOST]}, [asked("did_not"), asked("did_not")])
    assert status(result) == "succeeded"
    assert attempts(result, "a") == [(0, 0, 1), (0, 1, 1), (0, 2, 1)]
    assert len({event.key for event in facts(result, e.CallIntended)}) == 4


def test_happened_without_what_the_flow_needs_fails_where_it_is_used() -> None:
    bundle = bundle_of(
        do("a", "svc.once", "{ none: harmless }") + do("b", with_="{ name: '${{ steps.a.id | upper }}' }")
    )
    result = run(bundle, {("a", "do"): [LOST]}, [asked("happened", output={"id": None})])
    assert status(result) == "compensated"
    assert facts(result, e.StepFailed)[0].kind == "evaluation"


def test_a_look_up_finds_or_finds_nothing_or_several() -> None:
    found = run(LOOKED, {("a", "do"): [LOST], ("a", "lookup"): [ONE]})
    assert (status(found), attempts(found, "a")) == ("succeeded", [(0, 0, 1)])
    none = run(LOOKED, {("a", "do"): [LOST], ("a", "lookup"): [NONE]})
    assert (status(none), attempts(none, "a")) == ("succeeded", [(0, 0, 1), (0, 0, 2)])
    several = run(LOOKED, {("a", "do"): [LOST], ("a", "lookup"): [TWO]}, [asked("did_not")])
    assert (status(several), attempts(several, "a")) == ("succeeded", [(0, 0, 1), (0, 1, 1)])


def test_a_look_up_that_gives_up_asks() -> None:
    result = run(
        LOOKED,
        {("a", "do"): [LOST], ("a", "lookup"): [BUSY, NOT_SENT, REFUSED]},
        [asked("happened", output={"id": "1"})],
    )
    assert status(result) == "succeeded"
    assert attempts(result, "a", "lookup") == [(0, 0, 1), (0, 0, 2), (0, 0, 3)]


def test_a_look_up_that_cannot_be_built_asks() -> None:
    """It was the step's failure, which looked up again, which could not be built, without end."""
    result = run(LOOKED, {("a", "do"): [LOST], ("any", "lookup"): [CANNOT]}, [asked("happened", output={"id": "1"})])
    assert status(result) == "succeeded"
    closed = run(
        LOOKED,
        {("a", "do"): [LOST], ("any", "lookup"): [CANNOT]},
        [once("stop_compensate", calling("a", "do")), asked("did_not")],
    )
    assert status(closed) == "failed"


# --- find ----------------------------------------------------------------------------------------------------------


def test_a_record_that_is_there_is_found_and_left_alone() -> None:
    result = run(FOUND, {("a", "find"): [ONE], ("b", "do"): [REFUSED]})
    assert status(result) == "failed"
    assert attempts(result, "a") == []


@pytest.mark.parametrize(("answer", "sent"), [("happened", 0), ("did_not", 1)])
def test_several_records_go_to_a_person(answer: str, sent: int) -> None:
    result = run(FOUND, {("a", "find"): [TWO]}, [asked(answer, output={"id": "7"})])
    assert status(result) == "succeeded"
    assert len(attempts(result, "a")) == sent


@pytest.mark.parametrize("how", ["stop", "stop_compensate"])
def test_a_question_about_a_find_is_withdrawn_by_a_stop(how: str) -> None:
    result = run(FOUND, {("a", "find"): [TWO]}, [once(how, asking("a"))])
    assert status(result) == ("stopped" if how == "stop" else "failed")


def test_a_find_that_waits_is_over_when_the_run_is_stopped() -> None:
    """Its timer woke the run without end while a compensation waited for a person."""
    bundle = bundle_of(do("z", undo="svc.once") + do("a", "svc.findable", more=FIND))
    script = {("a", "find"): [NOT_SENT], ("z", "undo"): [REFUSED]}
    result = run(bundle, script, [once("stop_compensate", waiting("a", "find"))])
    assert result.end == "rests"
    assert standing_of(result.state).wake_at is None
    assert standing_of(result.state).status == "needs_person"


def test_a_find_that_gives_up_fails_its_step_and_can_be_asked_for_again() -> None:
    bundle = replace(FOUND, flow=replace(FOUND.flow, on_failure=replace(FOUND.flow.on_failure, do="review")))
    result = run(bundle, {("a", "find"): [REFUSED, NONE, NONE], ("a", "do"): [LOST]}, [asked("retry", "a")])
    assert status(result) == "succeeded"
    assert attempts(result, "a", "find") == [(0, 0, 1), (0, 1, 1), (0, 1, 2)]


@pytest.mark.parametrize("written", ["inputs.note", "inputs.note | default('')"])
def test_a_find_needs_its_fields(written: str) -> None:
    find = f'    find: {{ email: "${{{{ {written} }}}}" }}\n'
    result = run(bundle_of(do("a", "svc.findable", more=find), top="inputs: { note: text or empty }\n"))
    assert status(result) == "failed"
    assert attempts(result, "a", "find") == []


def test_a_find_whose_request_cannot_be_built() -> None:
    assert status(run(FOUND, {("any", "find"): [CANNOT]})) == "failed"


# --- a person chooses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ends"),
    [("retry", "succeeded"), ("skip", "succeeded"), ("compensate", "compensated"), ("take_over", "closed")],
)
def test_a_review(answer: str, ends: str) -> None:
    result = run(REVIEW, {("b", "do"): [REFUSED]}, [asked(answer, "b")])
    assert status(result) == ends
    assert attempts(result, "b") == [(0, 0, 1), (0, 1, 1)][: 2 if answer == "retry" else 1]


def test_a_review_is_asked_again_when_it_fails_again() -> None:
    result = run(REVIEW, {("b", "do"): [REFUSED, REFUSED]}, [asked("retry", "b"), asked("skip", "b")])
    assert status(result) == "succeeded"
    assert len(facts(result, e.HandedOff)) == 2


def test_a_review_of_an_error_evaluates_again() -> None:
    result = run(corpus()["reviews_errors"], {}, [asked("retry", "b"), asked("skip", "b"), asked("compensate", "c")])
    assert status(result) == "compensated"
    outputs = bundle_of(do("a"), top="on_failure: review\noutputs: { x: '${{ steps.a.nothing }}' }\n")
    assert status(run(outputs, {}, [asked("compensate")])) == "compensated"


def test_a_review_withdrawn_by_a_stop() -> None:
    result = run(REVIEW, {("b", "do"): [REFUSED]}, [once("stop_compensate", asking("b"))])
    assert status(result) == "compensated"


def test_a_part_that_went_stays_when_the_step_is_tried_again() -> None:
    result = run(FAN, {("m", "do"): [REFUSED]}, [asked("retry", "m")])
    assert status(result) == "succeeded"
    assert attempts(result, "m") == [(0, 0, 1), (1, 0, 1), (2, 0, 1), (0, 1, 1)]
    assert facts(result, e.StepFailed)[0].summary == "1 of 3 were refused: no"


def test_a_retry_that_is_held_up_and_then_stopped_is_made_good() -> None:
    """Between the answer and the next attempt the step has no state of its own; its effects have."""
    acts = [once("pause", asking("m")), asked("retry", "m"), once("stop_compensate", lambda state: state.is_paused)]
    result = run(FAN, {("m", "do"): [REFUSED]}, acts)
    assert status(result) == "compensated"


def test_a_step_that_fails_settles_its_other_parts_before_anybody_chooses() -> None:
    """The second request cannot be written while the first letter is out, and lost."""
    bundle = bundle_of(do("m", "svc.letter", with_="{ to: [x, bad] }"), top="on_failure: review\n")
    acts = [asked("happened", "m", output={"id": "1"}), asked("skip", "m")]
    result = run(bundle, {("m", "do"): [LOST]}, acts, weather=OneByOne())
    assert status(result) == "succeeded"
    assert [question.kind for question in facts(result, e.HandedOff)] == ["unknown", "failure"]


def test_refusals_that_may_be() -> None:
    bundle = bundle_of(
        do("m", "svc.letters", with_="{ to: [x, y] }", more="    if_refused: continue\n")
        + do("b", with_="{ name: '${{ outcome.m }}' }")
    )
    refused = run(bundle, {("m", "do"): [REFUSED]})
    assert status(refused) == "succeeded"
    assert refused.state.steps["m"].output == {
        "id": "m-1",
        "rows": ["m-1"],
        "each": [{"id": "m-1", "rows": ["m-1"]}],
    }
    assert facts(refused, e.CallIntended)[-1].input == {"name": "refused"}
    both = run(bundle)
    each = [{"id": "m-0", "rows": ["m-0"]}, {"id": "m-1", "rows": ["m-1"]}]
    assert both.state.steps["m"].output == {"id": "m-0", "rows": ["m-0", "m-1"], "each": each}
    lost = run(bundle, {("m", "do"): [REFUSED, NOT_SENT, NOT_SENT, NOT_SENT, NOT_SENT]})
    assert status(lost) == "failed"


# --- values --------------------------------------------------------------------------------------------------------


def test_a_mail_is_rendered_when_it_is_first_sent() -> None:
    steps = do("m", "svc.mail", "{ none: harmless }", with_="{ to: a@x.test, template: hello, values: { name: Aya } }")
    bundle = replace(bundle_of(steps), templates={"hello.txt": "subject: Hello\nDear ${{ values.name }}"})
    sent = facts(run(bundle), e.CallIntended)[0].input
    assert (sent["to"], sent["subject"]) == ("a@x.test", "Hello")
    assert "Dear Aya" in sent["text"]
    plain = run(bundle_of(do("m", "svc.mail", "{ none: harmless }", with_="{ to: a@x.test, subject: Hi }")))
    assert facts(plain, e.CallIntended)[0].input == {"to": "a@x.test", "subject": "Hi"}


@pytest.mark.parametrize("key", ["' '", "'${{ inputs.note }}'", "'${{ true }}'", "'${{ 1.5 }}'"])
def test_a_key_of_the_authors_is_a_text_or_a_whole_number(key: str) -> None:
    bundle = bundle_of(do("a", more=f"    key: {key}\n"), top="inputs: { note: text or empty }\n")
    result = run(bundle)
    assert status(result) == "failed"
    said = "inputs.note has no value" if "note" in key else "the key of step a is empty"
    assert facts(result, e.StepFailed)[0].summary.startswith(said)


def test_a_draft_sends_nothing() -> None:
    result = run(corpus()["drafts"], {}, [asked("go_on", "h")])
    assert status(result) == "drafted"
    assert {event.purpose for event in facts(result, e.CallIntended)} == {"read", "find"}
    assert [event.output for event in facts(result, e.DraftRecorded)][-1] == {"id": "sample"}


@pytest.mark.parametrize("until", ["2030-01-01", "2030-01-01T12:00:00Z"])
def test_a_wait_until_a_day_or_an_hour(until: str) -> None:
    result = run(bundle_of(f'  - id: w\n    wait: {{ until: "{until}" }}\n'))
    assert status(result) == "succeeded"
    assert facts(result, e.TimerFired)[0].due == 1_893_456_000_000 + (43_200_000 if "T" in until else 0)


# --- holds and pauses ----------------------------------------------------------------------------------------------


def test_a_pause_holds_timers_back_and_a_resume_fires_them_once() -> None:
    acts = [once("pause", waiting("a", "do")), once("resume", lambda state: state.is_paused)]
    result = run(PAIR, {("a", "do"): [NOT_SENT]}, acts)
    assert status(result) == "succeeded"
    assert len(facts(result, e.TimerFired)) == 1


def test_an_outcome_is_taken_in_during_a_pause() -> None:
    result = run(PAIR, {}, [once("pause", calling("a", "do"))])
    assert (result.end, standing_of(result.state).status) == ("rests", "paused")
    assert len(facts(result, e.CallApplied)) == 1


def test_a_broken_run_holds_its_record_until_it_is_answered() -> None:
    result = run(corpus()["holds"], {("b", "do"): [LOST]}, [asked("did_not", "b"), asked("go_on", "h")])
    assert status(result) == "succeeded"
    order = [
        type(event).__name__ for event in facts(result, e.HandedOff, e.HandOffResolved, e.RecordHeld, e.RecordReleased)
    ]
    assert order == ["HandedOff", "RecordHeld", "HandOffResolved", "RecordReleased"] * 2


def test_an_acknowledgement_is_kept() -> None:
    result = run(PAIR, {("a", "do"): [LOST]}, [once("acknowledge", asking("a"))])
    assert result.state.handoffs["h1"].acknowledged_by == "person:ops"


# --- locks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ['"  "', "[1]", "null"])
def test_a_lock_without_an_id_fails_its_step(id: str) -> None:
    result = run(bundle_of(do("a", more=f"    lock: {{ record: invoice, id: {id} }}\n")), {})
    failed = facts(result, e.StepFailed)[0]
    assert (failed.kind, failed.summary) == ("evaluation", "lock of step a: the id of the invoice is empty")
    assert facts(result, e.CallIntended) == []


def test_a_step_that_waits_goes_on_waiting_alone() -> None:
    """Of a parallel whose branches need different records, only the one whose record is kept is held."""
    one = do("a", more="    lock: { record: invoice, id: 1 }\n").replace("\n", "\n      ")
    two = do("b", more="    lock: { record: invoice, id: 2 }\n").replace("\n", "\n      ")
    bundle = bundle_of(f"  - id: both\n    parallel:\n      one:\n      {one}\n      two:\n      {two}\n")

    class Kept(Calm):
        def holder(self, record: str, now: int) -> tuple[str, int] | None:
            return ("other", STARTED_AT + 5_000) if record == "invoice/1" and now < STARTED_AT + 5_000 else None

    result = run(bundle, {}, weather=Kept())
    assert status(result) == "succeeded"
    assert [(each.step, each.at - STARTED_AT) for each in facts(result, e.CallIntended)] == [("b", 0), ("a", 5_000)]
    assert [(each.step, each.record) for each in facts(result, e.RecordLocked)] == [
        ("b", "invoice/2"),
        ("a", "invoice/1"),
    ]
    assert [(each.step, each.name) for each in facts(result, e.RunHeld)] == [("a", "invoice/1")]
