"""Planted mistakes about events and about what follows a failure. A law must see each."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest

from runner.core import decide, ending
from runner.core import events as e
from runner.core.commands import Record
from runner.core.state import State, replace
from tests.laws.planted import after, mistake
from tests.laws.planted_lists import reads, verb


@mistake("what is closed goes on waiting", "event_never_late", "events_rows", "rows_wait")
def not_withdrawn(patch: pytest.MonkeyPatch) -> None:
    reads(patch, e.ForwardClosed, lambda after, before, event: replace(after, steps=before.steps))


@mistake("whoever has got its event goes on waiting", "event_fail")
def waits_on(patch: pytest.MonkeyPatch) -> None:
    def wrong(after: State, before: State, event: e.EventReceived) -> State:
        waits = before.steps.get(event.step)
        if waits is None:
            return after
        step = replace(after.steps[event.step], event=waits.event, match=waits.match, due=waits.due)
        return replace(after, steps={**after.steps, event.step: step})

    reads(patch, e.EventReceived, wrong)


@mistake("any event of that name will do", "events_rows", "event_fail")
def any_event(patch: pytest.MonkeyPatch) -> None:
    reads(patch, e.EventAwaited, lambda after, before, event: _without_match(after, event.step))


def _without_match(state: State, path: str) -> State:
    return replace(state, steps={**state.steps, path: replace(state.steps[path], match={})})


@mistake("what is late is waited for all the same", "event_fail")
def never_late(patch: pytest.MonkeyPatch) -> None:
    verb(patch, "wait_for", lambda at: replaced(at, now=0) if at.known is not None and at.known.event else at)


@mistake("whoever is late goes on, whatever the flow says", "event_fail")
def late_goes_on(patch: pytest.MonkeyPatch) -> None:
    verb(patch, "wait_for", lambda at: replaced(at, step=replaced(at.step, if_late="continue")))


@mistake("nobody is asked about what is late", "event_hand_off")
def late_not_asked(patch: pytest.MonkeyPatch) -> None:
    verb(patch, "wait_for", lambda at: replaced(at, step=replaced(at.step, if_late="fail")))


@mistake("a draft waits, and sends its events", "rows_draft")
def draft_sends(patch: pytest.MonkeyPatch) -> None:
    verb(patch, "emit", lambda at: replaced(at, state=replace(at.state, mode="live")))


@mistake("what follows a failure also follows a stop", "then_runs")
def follows_a_stop(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, now: int) -> Any:
        follow = bundle.flow.on_failure.then_run
        if not commands or not isinstance(commands[0].event, e.RunFinished) or not follow:
            return commands
        return (Record(event=replaced(commands[0].event, then=follow)),)

    after(patch, decide, "finish", wrong)


@mistake("nothing follows a failure", "then_runs")
def nothing_follows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ending, "_inputs_of_next", lambda bundle, state, now: {})


@mistake("what follows has no inputs", "then_runs")
def follows_without_inputs(patch: pytest.MonkeyPatch) -> None:
    after(patch, ending, "_inputs_of_next", lambda given, *_: {**given, "then_inputs": {}})
