"""choose and parallel, one case at a time: two calls out, two questions, a failure beside a call, both ways of undoing."""

from __future__ import annotations

import pytest

from runner.core import events as e
from runner.core.fold import fold
from runner.core.state import State
from runner.core.status import standing_of
from runner.engine.simulated import Calm, Result
from tests.core.stage import (
    BUSY,
    LOST,
    NOT_SENT,
    REFUSED,
    Fates,
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


def branches(*of: str, more: str = "", id: str = "both") -> str:
    """A parallel as YAML, its branches out of their steps."""
    named = "".join(f"      b{number}:\n{inside(steps)}" for number, steps in enumerate(of, 1))
    return f"  - id: {id}\n{more}    parallel:\n{named}"


def inside(steps: str, by: int = 6) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in steps.splitlines())


def choice(*of: tuple[str, str], id: str = "way", more: str = "") -> str:
    """A choose as YAML: (condition or nothing, steps)."""
    arms = "".join(
        f"      - when: ${{{{ {when} }}}}\n        steps:\n{inside(steps, 8)}"
        if when
        else f"      - steps:\n{inside(steps, 8)}"
        for when, steps in of
    )
    return f"  - id: {id}\n{more}    choose:\n{arms}"


ONCE = bundle_of(branches(do("a", "svc.once") + do("a2"), do("b", "svc.once") + do("b2")) + do("last"))
REVIEW = bundle_of(
    branches(do("a") + do("a2"), do("b", "svc.once") + do("b2")) + do("last"), top="on_failure: review\n"
)
ID = {"id": "1"}


def status(result: Result) -> str:
    assert result.end == "ended"
    return result.state.status


def sent(result: Result, purpose: str = "do") -> list[str]:
    return [event.step for event in facts(result, e.CallIntended) if event.purpose == purpose]


def both_out(state: State) -> bool:
    return sum(call.is_open for call in state.calls.values()) == 2


def both_asked(state: State) -> bool:
    return len(state.open_handoffs) == 2


# --- choose --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("amount", "taken"), [(200, "big"), (20, "mid"), (2, "small")])
def test_the_first_branch_that_fits_is_taken_and_the_others_are_skipped(amount: int, taken: str) -> None:
    steps = choice((f"{amount} > 100", do("big")), (f"{amount} > 10", do("mid")), ("", do("small")))
    result = run(bundle_of(steps + do("last")))
    assert status(result) == "succeeded"
    assert sent(result) == [taken, "last"]
    outcomes = {path: step.outcome for path, step in result.state.steps.items()}
    assert outcomes == dict.fromkeys(("big", "mid", "small"), "skipped") | {
        "way": "done", taken: "done", "last": "done",
    }  # fmt: skip
    assert [event.why for event in facts(result, e.StepSkipped)] == ["branch", "branch"]


def test_where_no_branch_fits_the_choose_is_skipped_with_all_that_is_in_it() -> None:
    inner = choice(("true", do("deep")), id="inner")
    result = run(bundle_of(choice(("1 > 2", do("a") + inner)) + do("last", with_="{ name: '${{ outcome.deep }}' }")))
    assert status(result) == "succeeded"
    assert [(event.step, event.why) for event in facts(result, e.StepSkipped)] == [
        ("way", "when"), ("a", "branch"), ("inner", "branch"), ("deep", "branch"),
    ]  # fmt: skip


def test_a_name_out_of_a_branch_that_was_not_taken_is_missing() -> None:
    result = run(bundle_of(choice(("1 > 2", do("a")), ("", do("b"))) + do("c", with_="{ name: '${{ steps.a.id }}' }")))
    assert (status(result), undone(result)) == ("compensated", ["b"])
    assert facts(result, e.StepFailed)[0].step == "c"


def test_a_branch_that_fails_is_made_good_with_what_was_before_it() -> None:
    result = run(bundle_of(do("first") + choice(("1 < 2", do("a") + do("b")))), {("b", "do"): [REFUSED]})
    assert (status(result), undone(result)) == ("compensated", ["a", "first"])


def test_a_choose_without_an_answer_is_left_out_with_all_that_is_in_it() -> None:
    """The steps inside had no outcome at all when a person left it out."""
    steps = choice(("inputs.note", do("a") + branches(do("p"), do("q"), id="pair")))
    bundle = bundle_of(
        steps + do("last", with_="{ name: '${{ outcome.q }}' }"),
        top="on_failure: review\ninputs: { note: text or empty }\n",
    )
    result = run(bundle, {}, [asked("retry", "way"), asked("skip", "way")])
    assert status(result) == "succeeded"
    assert [(event.step, event.why) for event in facts(result, e.StepSkipped)] == [
        ("way", "person"), ("a", "branch"), ("pair", "branch"), ("p", "branch"), ("q", "branch"),
    ]  # fmt: skip


def test_a_choose_in_a_branch_skips_what_it_does_not_take() -> None:
    """Only the first of what a branch decided was kept, and the rest had no outcome."""
    steps = branches(choice(("1 > 2", do("n1") + do("n2")), ("", do("y"))), do("b")) + do("last")
    result = run(bundle_of(steps))
    assert status(result) == "succeeded"
    assert [event.step for event in facts(result, e.StepSkipped)] == ["n1", "n2"]


# --- parallel: forward ---------------------------------------------------------------------------------------------


def test_branches_are_out_at_once_and_start_in_the_order_they_are_written() -> None:
    result = run(ONCE)
    assert status(result) == "succeeded"
    assert sent(result) == ["a", "b", "a2", "b2", "last"]
    assert [event.start_no for event in facts(result, e.CallIntended)] == [1, 2, 3, 4, 5]
    kinds = [type(event).__name__ for event in result.events]
    assert kinds[:4] == ["RunStarted", "ScopeStarted", "CallIntended", "CallIntended"]
    assert kinds.count("ScopeEnded") == 1


class OneByOne(Calm):
    """One call starts in a turn."""

    def slots(self) -> int:
        return 1


def test_branches_that_get_one_call_a_turn_keep_their_order_and_their_numbers() -> None:
    result = run(ONCE, weather=OneByOne())
    starts = [(event.step, event.start_no) for event in facts(result, e.CallIntended)]
    assert starts == [("a", 1), ("b", 2), ("a2", 3), ("b2", 4), ("last", 5)]


def test_a_parallel_that_is_left_out_skips_its_branches() -> None:
    result = run(bundle_of(branches(do("a"), do("b"), more="    when: ${{ 1 > 2 }}\n") + do("last")))
    assert (status(result), sent(result)) == ("succeeded", ["last"])
    assert [event.step for event in facts(result, e.StepSkipped)] == ["both", "a", "b"]


def test_a_branch_in_doubt_waits_and_the_one_beside_goes_on() -> None:
    result = run(ONCE, {("a", "do"): [LOST]})
    assert result.end == "rests"
    assert sent(result) == ["a", "b", "b2"]
    assert standing_of(result.state).status == "needs_person"


def test_two_questions_are_open_at_once_and_each_is_answered_by_itself() -> None:
    acts = [(both_asked, asked("did_not", "b")[1]), asked("happened", "a", output=ID)]
    result = run(ONCE, {("a", "do"): [LOST], ("b", "do"): [LOST]}, acts)
    assert status(result) == "succeeded"
    assert sent(result) == ["a", "b", "b", "a2", "b2", "last"]
    assert [event.step for event in facts(result, e.HandedOff)] == ["a", "b"]


def test_a_hand_off_in_a_branch_stops_that_branch_only() -> None:
    steps = branches("  - id: h\n    hand_off: team:ops\n" + do("a"), do("b") + do("b2")) + do("last")
    resting = run(bundle_of(steps))
    assert (resting.end, sent(resting)) == ("rests", ["b", "b2"])
    result = run(bundle_of(steps), {}, [asked("go_on", "h")])
    assert status(result) == "succeeded"
    closed = run(bundle_of(steps), {}, [(lambda state: "b2" in state.steps, asked("close", "h")[1])])
    assert (status(closed), words_of(closed)) == ("closed", {"b": "stands", "b2": "stands"})


# --- parallel: a failure in one branch -----------------------------------------------------------------------------


def test_a_failure_closes_forward_and_what_is_out_beside_is_settled_first() -> None:
    result = run(ONCE, {("a", "do"): [REFUSED], ("b", "do"): [LOST]}, [asked("happened", "b", output=ID)])
    assert (status(result), undone(result)) == ("compensated", ["b"])
    kinds = [type(event) for event in result.events]
    assert kinds.index(e.ForwardClosed) < kinds.index(e.CompensationBegun)
    assert (
        kinds.index(e.ForwardClosed) < kinds.index(e.CallSettled) < len(kinds) - kinds[::-1].index(e.CallIntended) - 1
    )
    assert sent(result) == ["a", "b"]


def test_a_call_beside_a_failure_that_is_applied_after_it_is_made_good() -> None:
    result = run(REVIEW, {("a", "do"): [REFUSED]}, [asked("compensate", "a")])
    assert (status(result), undone(result), sent(result)) == ("compensated", ["b"], ["a", "b"])


@pytest.mark.parametrize(("answer", "again"), [("retry", ["a", "a2"]), ("skip", ["a2"])])
def test_a_review_in_a_branch(answer: str, again: list[str]) -> None:
    result = run(REVIEW, {("a", "do"): [REFUSED]}, [asked(answer, "a")])
    assert status(result) == "succeeded"
    assert sorted(sent(result)) == sorted(["a", "b", *again, "b2", "last"])


def test_two_branches_that_fail_are_asked_about_one_after_the_other() -> None:
    script: Script = {("a", "do"): [REFUSED], ("b", "do"): [REFUSED]}
    result = run(REVIEW, script, [asked("skip", "a"), asked("retry", "b")])
    assert status(result) == "succeeded"
    assert [event.step for event in facts(result, e.HandedOff)] == ["a", "b"]
    assert result.state.steps["a"].outcome == "skipped"


def test_a_failure_is_asked_about_beside_a_doubt_and_the_doubt_may_be_answered_first() -> None:
    """The owner of the failure was asked only when the other branch's doubt was answered, which may take days."""
    script: Script = {("a2", "do"): [REFUSED], ("b", "do"): [LOST]}
    acts = [(both_asked, asked("did_not", "b")[1]), asked("skip", "a2")]
    result = run(REVIEW, script, acts)
    assert status(result) == "succeeded"
    assert [(event.step, event.kind) for event in facts(result, e.HandedOff)] == [("b", "unknown"), ("a2", "failure")]
    assert sent(result) == ["a", "b", "a2", "b", "b2", "last"]


@pytest.mark.parametrize("answers", ["b", "a2"])
def test_whoever_says_compensate_the_failure_is_what_it_is_told_for(answers: str) -> None:
    script: Script = {("a2", "do"): [REFUSED], ("b", "do"): [LOST]}
    acts = [(both_asked, asked("compensate", answers)[1]), asked("happened", "b", output=ID)]
    result = run(REVIEW, script, acts)
    assert (status(result), undone(result)) == ("compensated", ["b", "a"])
    closed = facts(result, e.ForwardClosed)[0]
    assert (closed.kind, closed.failed_step) == ("refused", "a2")


@pytest.mark.parametrize("beside", ["wait", "retry", "find"])
def test_a_timer_beside_a_failure_fires_once_and_starts_nothing(beside: str) -> None:
    """It was overdue while a person looked, and woke the run again and again."""
    steps = {
        "wait": "  - id: b\n    wait: 1 s\n" + do("b2"),
        "retry": do("b") + do("b2"),
        "find": do("b", "svc.findable", more='    find: { email: "a@x.test" }\n') + do("b2"),
    }[beside]
    script: Script = {("a", "do"): [REFUSED], ("b", "do"): [NOT_SENT], ("b", "find"): [BUSY]}
    bundle = bundle_of(branches(do("a0") + do("a"), steps) + do("last"), top="on_failure: review\n")
    resting = run(bundle, script)
    assert (resting.end, len(facts(resting, e.TimerFired))) == ("rests", 1)
    assert standing_of(resting.state).wake_at is None
    assert "b2" not in resting.state.steps
    fired = (lambda state: not any(call.due for call in state.calls.values()) and asking("a")(state)), asked("skip")[1]
    assert status(run(bundle, script, [fired])) == "succeeded"


# --- parallel: stopped, paused, taken over, crashed ----------------------------------------------------------------


def test_a_stop_with_two_calls_out() -> None:
    result = run(ONCE, {}, [once("stop", both_out)])
    assert (status(result), words_of(result)) == ("stopped", {"a": "stands", "b": "stands"})
    undoing = run(ONCE, {}, [once("stop_compensate", both_out)])
    assert (status(undoing), undone(undoing)) == ("compensated", ["b", "a"])


def test_a_stop_with_two_calls_out_that_are_lost_asks_about_both() -> None:
    script: Script = {("a", "do"): [LOST], ("b", "do"): [LOST]}
    acts = [once("stop", both_out), (both_asked, asked("happened", "b", output=ID)[1]), asked("did_not", "a")]
    result = run(ONCE, script, acts)
    assert (status(result), words_of(result)) == ("stopped", {"b": "stands"})


def test_a_pause_with_two_calls_out() -> None:
    paused = run(ONCE, {}, [once("pause", both_out)])
    assert (paused.end, sent(paused)) == ("rests", ["a", "b"])
    is_quiet = (
        (lambda state: state.is_paused and not any(c.is_open for c in state.calls.values())),
        once("resume", both_out)[1],
    )
    assert status(run(ONCE, {}, [once("pause", both_out), is_quiet])) == "succeeded"


def test_a_take_over_while_the_other_branch_is_out() -> None:
    is_asked_and_out = (lambda state: asking("a")(state) and calling("b2", "do")(state)), asked("take_over", "a")[1]
    result = run(ONCE, {("a", "do"): [LOST]}, [is_asked_and_out])
    assert status(result) == "closed"
    assert sent(result) == ["a", "b", "b2"]
    assert words_of(result) == {"b": "by_hand", "b2": "by_hand"}


def test_an_engine_that_dies_with_two_calls_out_asks_about_both() -> None:
    acts = [(both_asked, asked("happened", "a", output=ID)[1]), asked("did_not", "b")]
    result = run(ONCE, {}, acts, weather=Fates(crashes=[1]))
    assert status(result) == "succeeded"
    assert [event.step for event in facts(result, e.CallUnknown)] == ["a", "b"]
    assert (sent(result).count("a"), sent(result).count("b")) == (1, 2)


# --- parallel: made good -------------------------------------------------------------------------------------------

AT_ONCE = "    compensate_at_once: true\n"
PAIRS = branches(do("a") + do("a2"), do("b") + do("b2"))
LAST = do("last", "svc.once")
FAILS: Script = {("last", "do"): [REFUSED]}


def test_branches_are_made_good_newest_start_first() -> None:
    result = run(bundle_of(do("first") + PAIRS + LAST), FAILS)
    assert (status(result), undone(result)) == ("compensated", ["b2", "a2", "b", "a", "first"])
    assert not any(both_out(state) for state in states(result) if state.root.has_begun)


def test_branches_that_are_made_good_at_once() -> None:
    result = run(bundle_of(do("first") + PAIRS.replace("    parallel", f"{AT_ONCE}    parallel") + LAST), FAILS)
    assert status(result) == "compensated"
    assert sent(result, "undo") == ["b2", "a2", "b", "a", "first"]
    assert sum(both_out(state) for state in states(result) if state.root.has_begun) >= 2


def test_what_is_held_holds_what_is_older() -> None:
    """An inner branch that is made good at once ran ahead of a newer step outside of it."""
    inner = branches(do("a") + do("a2"), do("b"), more=AT_ONCE, id="inner")
    steps = branches(inner, do("c") + do("c2"), id="outer") + LAST
    result = run(bundle_of(steps), {**FAILS, ("a2", "undo"): [NOT_SENT]})
    assert [(event.step, event.start_no) for event in facts(result, e.CallIntended) if event.start_no][:5] == [
        ("a", 1), ("b", 2), ("c", 3), ("a2", 4), ("c2", 5),
    ]  # fmt: skip
    assert sent(result, "undo") == ["c2", "a2", "a2", "c", "b", "a"]


@pytest.mark.parametrize("words", ["go_on", "stop"])
def test_a_compensation_that_fails_in_one_branch(words: str) -> None:
    steps = branches(do("a") + do("a2"), do("b") + do("b2"), more=AT_ONCE)
    bundle = bundle_of(do("first") + steps + LAST, top=f"on_failure: {{ do: compensate, if_one_fails: {words} }}\n")
    result = run(bundle, {**FAILS, ("a2", "undo"): [REFUSED]})
    assert result.end == "rests"
    assert undone(result) == (["b2", "b"] if words == "stop" else ["b2", "b", "a", "first"])


def test_a_doubt_holds_what_is_older_in_every_branch_unless_at_once() -> None:
    script: Script = {("b2", "do"): [LOST], ("a2", "do"): [REFUSED]}
    for more, first in (("", []), (AT_ONCE, ["a"])):
        steps = branches(do("a") + do("a2"), do("b") + do("b2", "svc.once"), more=more)
        result = run(bundle_of(do("first") + steps), script)
        assert (result.end, undone(result)) == ("rests", first)


def states(result: Result) -> list[State]:
    """The state after each fact."""
    found = [State()]
    for event in result.events:
        found.append(fold(found[-1], event))
    return found


def test_a_draft_goes_through_its_branches() -> None:
    steps = branches(do("a"), "  - id: nap\n    wait: 3 days\n" + do("b")) + choice(("1 < 2", do("c")), ("", do("d")))
    result = run(bundle_of(steps, mode="draft"))
    assert status(result) == "drafted"
    assert [event.step for event in facts(result, e.DraftRecorded)] == ["a", "b", "c"]
    assert waiting("a", "do")(result.state) is False
