"""A person has the service asked once more, and a run whose report of itself has no answer."""

from __future__ import annotations

from runner.contract import Outcome
from runner.core import events as e
from runner.core.fold import fold, fold_all
from runner.core.state import State
from runner.engine.simulated import Result
from tests.core.stage import LOST, NONE, NOT_SENT, ONE, REFUSED, asked, bundle_of, do, facts, run


def status(result: Result) -> str:
    assert result.end == "ended"
    return result.state.status


BROKE = Outcome(result="unknown", reason="connection", summary="the connection broke")


def test_a_keyed_call_in_doubt_is_sent_again_under_its_key() -> None:
    """The question names the try that is in doubt, not the last one."""
    script = {("a", "do"): [BROKE, NOT_SENT, NOT_SENT, NOT_SENT]}
    result = run(bundle_of(do("a")), script, [asked("again", "a")])
    assert status(result) == "succeeded"
    question = facts(result, e.HandedOff)[0]
    assert (question.kind, question.summary) == ("unknown", "the connection broke")
    assert question.choices == ("again", "happened", "did_not", "compensate", "take_over")
    sent = facts(result, e.CallIntended)
    assert len({intent.key for intent in sent}) == 1
    assert [intent.attempt for intent in sent] == [1, 2, 3, 4, 5]


def test_a_retry_of_a_call_in_doubt_is_the_same_as_again() -> None:
    script = {("a", "do"): [LOST] * 4}
    result = run(bundle_of(do("a")), script, [asked("retry", "a")])
    assert status(result) == "succeeded"
    assert facts(result, e.HandOffResolved)[0].choice == "again"


def test_a_call_that_can_be_asked_about_is_looked_up_again() -> None:
    """The look-up gave up; asked once more it finds the record."""
    script = {("a", "do"): [LOST], ("a", "lookup"): [LOST] * 5 + [ONE]}
    result = run(bundle_of(do("a", "svc.looked")), script, [asked("again", "a")])
    assert status(result) == "succeeded"
    assert [settled.by for settled in facts(result, e.CallSettled)] == ["lookup"]
    assert len([intent for intent in facts(result, e.CallIntended) if intent.purpose == "do"]) == 1


def test_a_second_lookup_may_say_that_nothing_happened() -> None:
    script = {("a", "do"): [LOST], ("a", "lookup"): [LOST] * 5 + [NONE]}
    result = run(bundle_of(do("a", "svc.looked")), script, [asked("again", "a")])
    assert status(result) == "succeeded"
    assert [intent.attempt for intent in facts(result, e.CallIntended) if intent.purpose == "do"] == [1, 2]


def test_nobody_can_ask_again_where_the_service_can_neither_dedupe_nor_be_asked() -> None:
    result = run(bundle_of(do("a", "svc.once")), {("a", "do"): [LOST]})
    assert facts(result, e.HandedOff)[0].choices == ("happened", "did_not", "compensate", "take_over")


def test_a_final_no_after_a_doubt_is_not_asked_again() -> None:
    """The same request would get the same no; whether the first try happened is for a person to find out."""
    result = run(bundle_of(do("a")), {("a", "do"): [LOST, REFUSED]})
    assert "again" not in facts(result, e.HandedOff)[0].choices


def test_a_compensation_in_doubt_is_sent_again_too() -> None:
    script = {("b", "do"): [REFUSED], ("a", "undo"): [LOST] * 4}
    result = run(bundle_of(do("a") + do("b")), script, [asked("again", "a")])
    assert status(result) == "compensated"
    assert len({intent.key for intent in facts(result, e.CallIntended) if intent.purpose == "undo"}) == 1


OUTPUTS = 'outputs: { total: "${{ steps.a.id + 1 }}" }\n'


def test_outputs_without_an_answer_undo_nothing() -> None:
    result = run(bundle_of(do("a"), top=OUTPUTS), acts=[asked("go_on")])
    assert status(result) == "succeeded"
    question = facts(result, e.HandedOff)[0]
    assert (question.kind, question.step, question.choices) == ("outputs", "", ("go_on", "compensate", "take_over"))
    assert question.summary.startswith("outputs: ")
    assert facts(result, e.RunFinished)[0].outputs == {}


def test_outputs_without_an_answer_wait_for_a_person_who_may_compensate() -> None:
    bundle = bundle_of(do("a"), top=OUTPUTS)
    assert run(bundle).end != "ended"
    assert status(run(bundle, acts=[asked("compensate")])) == "compensated"


def test_a_draft_ends_without_its_outputs() -> None:
    text = "  - id: b\n    read: svc.get\n    with: { name: x }\n"
    result = run(bundle_of(text, top='outputs: { total: "${{ steps.b.label + 1 }}" }\n', mode="draft"))
    assert status(result) == "drafted"


def test_a_failure_of_the_run_itself_in_an_older_log_is_still_read() -> None:
    started = e.RunStarted(at=0, run="r", flow="f", mode="live", bundle="b")
    state = fold(fold_all([started], State()), e.StepFailed(at=1, kind="evaluation", summary="outputs: no answer"))
    assert state.failure is not None
    assert (state.failure.step, dict(state.steps)) == ("", {})
