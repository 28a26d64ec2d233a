"""Steps that call nobody: events that come in time, late or never, and those that are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from runner.clock import SECOND
from runner.core import events as e
from runner.core.state import State
from runner.engine.simulated import Result
from runner.language.bundle import Bundle
from tests.core.stage import Act, Crowd, asked, bundle_of, do, facts, once, run, undone

HOUR = 3_600 * SECOND


def wait_for(more: str = "") -> str:
    return f"  - id: got\n    wait_for: paid\n    match: {{ no: 7 }}\n{more}"


WITHIN = "    within: 1 hour\n"


class Sender(Crowd):
    """Sends one event after a while, to whoever waits; then people act."""

    def __init__(self, after: int, acts: Sequence[Act] = ()) -> None:
        super().__init__(acts)
        self.after = after
        self.began = 0

    def next_at(self, state: State, now: int) -> int | None:
        if not any(step.event for step in state.steps.values()):
            return super().next_at(state, now)
        self.began = self.began or now
        times = [self.began + self.after, super().next_at(state, now)]
        return min(at for at in times if at is not None)

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        for path, step in state.steps.items():
            if step.event and self.began and now >= self.began + self.after:
                data = {**step.match, "more": "yes"}
                return (e.EventReceived(at=now, step=path, event=step.event, event_id="e1", data=data),)
        return super().acts(bundle, state, now)


def waited(steps: str, after: int, acts: Sequence[Act] = (), **words: Any) -> Result:
    return run(bundle_of(steps, **words), people=Sender(after, acts))


def test_an_event_that_comes_in_time_is_the_steps_output() -> None:
    result = waited(wait_for(WITHIN) + do("after", with_='{ name: "${{ steps.got.more }}" }'), HOUR - 1)
    assert result.state.status == "succeeded"
    assert facts(result, e.EventAwaited)[0].due == facts(result, e.EventAwaited)[0].at + HOUR
    assert facts(result, e.CallIntended)[0].input == {"name": "yes"}
    assert not facts(result, e.TimerFired)


@pytest.mark.parametrize(
    ("word", "status", "outcome"), [("fail", "failed", "failed"), ("continue", "succeeded", "late")]
)
def test_what_is_late_is_as_the_flow_says(word: str, status: str, outcome: str) -> None:
    result = waited(wait_for(f"{WITHIN}    if_late: {word}\n"), 2 * HOUR)
    assert result.state.status == status
    assert result.state.steps["got"].outcome == outcome
    failed = facts(result, e.StepFailed)[0]
    assert (failed.kind, failed.summary, failed.goes_on) == ("late", "paid did not come in time.", word == "continue")
    assert [event.timer for event in facts(result, e.TimerFired)] == ["late"]


@pytest.mark.parametrize(
    ("choice", "status"), [("go_on", "succeeded"), ("compensate", "compensated"), ("close", "closed")]
)
def test_what_is_late_may_be_handed_over(choice: str, status: str) -> None:
    steps = do("first") + wait_for(f"{WITHIN}    if_late: hand_off\n")
    result = waited(steps, 2 * HOUR, [asked(choice, "got")])
    assert result.state.status == status
    assert [event.kind for event in facts(result, e.HandedOff)] == ["late"]
    assert undone(result) == (["first"] if choice == "compensate" else [])


def test_a_stop_withdraws_what_is_awaited() -> None:
    steps = do("first") + wait_for()
    waits = once("stop_compensate", lambda state: any(step.event for step in state.steps.values()))
    result = waited(steps, 100 * HOUR, [waits])
    assert result.state.status == "compensated"
    assert result.state.steps["got"].event == ""
    assert facts(result, e.EventAwaited)[0].due == 0


def test_a_draft_waits_for_nothing_and_sends_nothing() -> None:
    sends = "  - { id: told, emit: told, with: { no: '${{ steps.got.no }}' } }\n"
    result = run(bundle_of(wait_for() + sends, mode="draft"))
    assert result.state.status == "drafted"
    assert result.state.steps["got"].output == {"no": 7}
    assert [event.input for event in facts(result, e.DraftRecorded)] == [{"no": 7}]
    assert not facts(result, e.Emitted, e.EventAwaited)


def test_an_event_is_sent_once_and_passed_over_where_the_flow_says() -> None:
    steps = "  - { id: told, emit: told, with: { no: 7 } }\n  - { id: not, emit: told, when: '${{ 1 > 2 }}' }\n"
    steps += wait_for("    when: '${{ 1 > 2 }}'\n") + "  - { id: nap, wait: 1 s, when: '${{ 1 > 2 }}' }\n"
    result = run(bundle_of(steps))
    assert [(event.step, event.data, event.id_in("r1")) for event in facts(result, e.Emitted)] == [
        ("told", {"no": 7}, "r1/told")
    ]
    assert {path: step.outcome for path, step in result.state.steps.items()} == {
        "told": "done", "not": "skipped", "got": "skipped", "nap": "skipped"
    }  # fmt: skip
