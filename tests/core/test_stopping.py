"""Stop, close and take over, in every phase: forward, in doubt, while compensating, while a compensation is in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.core import events as e
from runner.core.fold import fold_all
from runner.engine.simulated import Result
from tests.core.stage import (
    BUSY,
    LOST,
    NOT_SENT,
    REFUSED,
    Act,
    Script,
    asked,
    asking,
    bundle_of,
    calling,
    do,
    facts,
    once,
    run,
    undone,
    waiting,
    words_of,
)

THREE = bundle_of(do("a") + do("b", "svc.once") + do("c", "svc.looked"))
ONCE_UNDO = bundle_of(do("a", undo="svc.once") + do("b", undo="svc.once") + do("c", "svc.refuses"))
FAILS: Script = {("c", "do"): [REFUSED]}


def finish(result: Result) -> tuple[str, tuple[str, ...]]:
    assert result.end == "ended"
    return result.state.status, result.state.stands


FORWARD: list[tuple[str, Script, list[Act]]] = [
    ("a call is out", {}, [once("stop", calling("b", "do"))]),
    ("a retry waits", {("b", "do"): [NOT_SENT]}, [once("stop", waiting("b", "do"))]),
    ("a question is open", {("b", "do"): [LOST]}, [once("stop", asking("b")), asked("happened", output={"id": "1"})]),
]


@pytest.mark.parametrize(("name", "script", "acts"), FORWARD, ids=[row[0] for row in FORWARD])
def test_stop_here_leaves_what_was_done(name: str, script: Script, acts: list[Act]) -> None:
    result = run(THREE, script, acts)
    done = ("a",) if name == "a retry waits" else ("a", "b")
    assert finish(result) == ("stopped", done)
    assert undone(result) == []
    assert set(words_of(result).values()) == {"stands"}


@pytest.mark.parametrize(("name", "script", "acts"), FORWARD, ids=[row[0] for row in FORWARD])
def test_stop_and_compensate_settles_first(name: str, script: Script, acts: list[Act]) -> None:
    acts = [(when, replace(order, action=order.action.replace("stop", "stop_compensate"))) for when, order in acts]
    result = run(THREE, script, acts)
    assert finish(result) == ("compensated", ())
    assert undone(result) == (["a"] if name == "a retry waits" else ["b", "a"])
    failure = result.state.root.failure
    assert failure is not None
    assert (failure.kind, failure.by) == ("stop", "person:ops")


def test_an_operator_may_stop_while_it_compensates() -> None:
    result = run(THREE, FAILS, [once("stop", calling("b", "undo"))])
    assert finish(result) == ("stopped", ("a",))
    assert words_of(result) == {"a": "stands", "b": "undone"}


def test_a_compensation_that_waits_is_not_tried_again_after_a_stop() -> None:
    result = run(THREE, {**FAILS, ("b", "undo"): [NOT_SENT]}, [once("stop", waiting("b", "undo"))])
    assert finish(result) == ("stopped", ("a", "b"))


def test_an_undo_in_doubt_is_settled_before_the_stop_ends() -> None:
    script: Script = {("c", "do"): [REFUSED], ("b", "undo"): [LOST]}
    result = run(ONCE_UNDO, script, [once("stop", asking("b")), asked("did_not")])
    assert finish(result) == ("stopped", ("b",))
    again = run(ONCE_UNDO, script, [once("stop", calling("b", "undo")), asked("happened")])
    assert finish(again) == ("stopped", ("a",))
    assert words_of(again) == {"a": "stands", "b": "undone"}


@pytest.mark.parametrize(("answer", "word"), [("done", "by_hand"), ("stands", "stands")])
def test_what_a_person_has_answered_is_not_asked_again_by_a_stop(answer: str, word: str) -> None:
    """`done` on a compensation in doubt, then a stop while another question is open."""
    script: Script = {("c", "do"): [REFUSED], ("b", "undo"): [LOST], ("a", "undo"): [LOST]}
    acts = [asked(answer, "b"), once("stop", lambda state: state.handoffs["h1"].choice != ""), asked("did_not", "a")]
    result = run(ONCE_UNDO, script, acts)
    assert result.state.status == "stopped"
    assert words_of(result) == {"a": "stands", "b": word}
    assert len(facts(result, e.HandedOff)) == 2


def test_a_stop_twice_is_one_stop() -> None:
    result = run(THREE, {}, [once("stop_compensate", calling("b", "do")), once("stop", calling("b", "do"))])
    assert finish(result) == ("stopped", ("a", "b"))
    assert len(facts(result, e.ForwardClosed)) == 1


def test_a_stop_ends_a_pause() -> None:
    is_paused = once("stop_compensate", lambda state: state.is_paused)
    result = run(THREE, {}, [once("pause", calling("b", "do")), is_paused])
    assert finish(result) == ("compensated", ())


def test_a_go_on_does_not_bind_a_stop() -> None:
    """The owner let the rest go on, then the run is stopped here: the doubt is asked about once more."""
    script: Script = {("b", "do"): [LOST], ("a", "undo"): [NOT_SENT]}
    acts = [asked("compensate", "b"), asked("go_on", "b"), once("stop", waiting("a", "undo")), asked("did_not", "b")]
    result = run(THREE, script, acts)
    assert finish(result) == ("stopped", ("a",))


# --- take over and close -------------------------------------------------------------------------------------------


def test_a_take_over_of_a_doubt_ends_the_run() -> None:
    result = run(THREE, {("b", "do"): [LOST]}, [asked("take_over")])
    assert finish(result) == ("closed", ())
    assert words_of(result) == {"a": "by_hand"}


def test_a_take_over_waits_for_nothing_but_open_calls() -> None:
    """One part is asked about, another's retry waits, a third is out: the answer ends all but the third."""
    fan = bundle_of(do("a") + do("m", "svc.letter", with_="{ to: [x, y] }"))
    result = run(fan, {("m", "do"): [LOST, NOT_SENT]}, [asked("take_over", "m")])
    assert finish(result) == ("closed", ())
    assert len(facts(result, e.CallIntended)) == 3


def test_a_take_over_while_compensating_leaves_the_rest_to_the_person() -> None:
    result = run(THREE, {**FAILS, ("b", "undo"): [REFUSED], ("a", "undo"): [NOT_SENT]}, [asked("take_over", "b")])
    assert finish(result) == ("closed", ())
    assert words_of(result) == {"a": "by_hand", "b": "by_hand"}


@pytest.mark.parametrize(("choice", "status"), [("close", "closed"), ("compensate", "compensated")])
def test_a_step_that_hands_over(choice: str, status: str) -> None:
    bundle = bundle_of(do("a") + "  - id: h\n    hand_off: team:ops\n" + do("b"))
    result = run(bundle, {}, [asked(choice)])
    assert finish(result) == (status, ("a",) if choice == "close" else ())
    on = run(bundle, {}, [asked("go_on")])
    assert finish(on) == ("succeeded", ())


def test_a_stop_withdraws_the_question_of_a_step() -> None:
    """Nobody has to answer what does not matter any more."""
    bundle = bundle_of(do("a") + "  - id: h\n    hand_off: team:ops\n" + do("b"))
    result = run(bundle, {}, [once("stop_compensate", asking("h"))])
    assert finish(result) == ("compensated", ())
    assert result.state.handoffs["h1"].choice == "withdrawn"


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    """It was written between the decision that withdrew the question and the look at the state."""
    bundle = bundle_of(do("a") + "  - id: h\n    hand_off: team:ops\n" + do("b"))
    result = run(bundle, {("a", "undo"): [BUSY]}, [once("stop_compensate", asking("h"))])
    late = e.HandOffResolved(at=result.now, step="h", handoff="h1", choice="take_over", by="person:owner")
    at = [type(event) for event in result.events].index(e.ForwardClosed) + 1
    stopped = [*result.events[:at], late]
    state = fold_all(stopped)
    assert (state.handoffs["h1"].choice, state.is_taken_over, state.late) == ("withdrawn", False, 1)
