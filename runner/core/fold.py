"""`fold(state, event)`: reads one more fact into the state. Total: any log that was written can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runner.core import events as e
from runner.core.changes import (
    call_of,
    fail_scope,
    not_held,
    part_outputs,
    put,
    set_disposition,
    set_step,
    set_undo,
    stop_here,
    waits_no_more,
    withdraw,
    without_timers,
)
from runner.core.consents import (
    UNDO,
    forward_in,
    read_decided,
    read_escalated,
    read_lapsed,
    read_requested,
    read_timer,
    withdraw_gates,
)
from runner.core.listings import read_accepted, read_ended, read_resumed, read_set_aside, read_started
from runner.core.outcomes import (
    FORWARD,
    read_applied,
    read_evidence,
    read_intended,
    read_not_sent,
    read_refused,
    read_settled,
    read_unknown,
)
from runner.core.paths import catcher_of, is_in
from runner.core.questions import read_acknowledged, read_handed_off, read_resolved
from runner.core.state import (
    Disposition,
    Failure,
    HandOff,
    Held,
    Listing,
    Scope,
    State,
    freeze,
    replace,
    thaw,
)


def fold(state: State, event: e.Event) -> State:
    """The state after this event. `seq` and `at` move on with every event."""
    after: State = thaw(state)
    read = _READERS.get(type(event))
    if read is not None:
        after = read(after, event)
    return freeze(replace(after, seq=state.seq + 1, at=max(state.at, event.at)))


def fold_all(events: Iterable[e.Event], state: State | None = None) -> State:
    """The state after a whole log."""
    state = state or State()
    for event in events:
        state = fold(state, event)
    return state


# --- the run -------------------------------------------------------------------------------------------------------


def _run_started(state: State, event: e.RunStarted) -> State:
    if event.continues:
        return _continued(state, event)
    return replace(
        state, run=event.run, flow=event.flow, mode=event.mode, bundle=event.bundle, owner=event.owner,
        record=event.record, starter=event.starter, started_at=event.at, inputs=event.inputs, trigger=event.trigger,
    )  # fmt: skip


def _continued(state: State, event: e.RunStarted) -> State:
    """A clean-up run: what stood at the stop is pending again, and made good from the beginning.

    The old log's places say nothing in the new one, so its look-ups and its questions do not go over.
    """
    effects = {
        no: replace(effect, disposition="pending") if effect.disposition == "stands" else effect
        for no, effect in state.effects.items()
    }
    again = {effect.path for effect in effects.values() if effect.disposition == "pending"}
    calls = {
        name: replace(call, intended_seq=0, due=None, due_for="", fired="", renew=name[1] == "undo" and call.is_over)
        for name, call in state.calls.items()
        if name[1] in ("do", "read", "undo")
    }
    root = replace(state.root, closed=True, compensates=True, cause="person", recalled=None)
    return replace(
        state, run=event.run, starter=event.starter, started_at=event.at, continues=event.continues, status="",
        summary="", stands=(), stop=None, is_paused=False, is_taken_over=event.clean_up == "take_over",
        scopes=put(state.scopes, "", root), handoffs={}, asked=0, lists=_all_left(state, "stands", "pending"),
        undo={path: undo for path, undo in state.undo.items() if path not in again}, effects=effects, calls=calls,
        held={}, locks=frozenset(), gates={name: gate for name, gate in state.gates.items() if not name.endswith(UNDO)},
    )  # fmt: skip


def _all_left(state: State, before: str, after: str) -> Mapping[str, Listing]:
    """The lists, what is left of their ended items with another disposition."""
    found = {}
    for path, listing in state.lists.items():
        left = dict(listing.left)
        moved = left.pop(before, 0)
        found[path] = replace(listing, left={**left, after: left.get(after, 0) + moved} if moved else left)
    return found


def _run_held(state: State, event: e.RunHeld) -> State:
    held = Held(why=event.why, name=event.name, by=event.by_run)
    return replace(state, held=put(state.held, event.step, held))


def _record_locked(state: State, event: e.RecordLocked) -> State:
    return replace(state, locks=state.locks | {event.record})


def _run_paused(state: State, event: e.RunPaused) -> State:
    return replace(state, is_paused=True)


def _run_resumed(state: State, event: e.RunResumed) -> State:
    return replace(state, is_paused=False)


def _run_moved(state: State, event: e.RunMoved) -> State:
    return replace(state, bundle=event.bundle, inputs={**state.inputs, **event.inputs})


def _stop_requested(state: State, event: e.StopRequested) -> State:
    if state.is_erased:
        return replace(state, late=state.late + 1)
    summary = event.reason or "stopped by " + event.by
    stop = Failure(kind="stop", step="", summary=summary, at=event.at, by=event.by)
    state = replace(state, is_paused=False, stop=stop, stop_compensates=event.compensate)
    if state.root.closed and state.stops_here:
        state = withdraw_gates(stop_here(state), lambda name: True)
    return state


def _data_erased(state: State, event: e.PersonalDataErased) -> State:
    """What is left cannot be worked with: nothing is waited for, and only the whole run is put before a person."""
    if state.has_ended:
        return replace(state, is_erased=True)
    state = withdraw(without_timers(state, lambda path, purpose, call: True), lambda handoff: True)
    state = withdraw_gates(state, lambda name: True)
    steps = {path: waits_no_more(step) for path, step in state.steps.items()}
    return replace(state, is_erased=True, steps=steps, stop=None)


def _run_finished(state: State, event: e.RunFinished) -> State:
    rest: Disposition = "by_hand" if event.status == "closed" and state.is_taken_over else "stands"
    effects = {
        no: replace(effect, disposition=rest) if effect.disposition == "pending" else effect
        for no, effect in state.effects.items()
    }
    state = withdraw_gates(withdraw(state, lambda handoff: True), lambda name: True)
    steps = {path: waits_no_more(step) for path, step in state.steps.items()}
    return replace(
        state, status=event.status, summary=event.summary, outputs=event.outputs, stands=event.stands, effects=effects,
        lists=_all_left(state, "pending", rest), steps=steps,
    )  # fmt: skip


# --- steps ---------------------------------------------------------------------------------------------------------


def _step_skipped(state: State, event: e.StepSkipped) -> State:
    outcome = "left_out" if event.why == "left_out" else "skipped"
    state = not_held(set_step(state, event.step, status="skipped", outcome=outcome), event.step)
    if state.failure and state.failure.step == event.step:
        return replace(state, failure=None)
    return state


def _step_failed(state: State, event: e.StepFailed) -> State:
    if event.goes_on and event.kind == "late":
        return set_step(state, event.step, status="skipped", outcome="late")
    if event.goes_on:
        output = part_outputs(state, event.step, "do")
        return set_step(state, event.step, status="refused", outcome="refused", output=output)
    failure = Failure(kind=event.kind, step=event.step, summary=event.summary, at=event.at)
    state = not_held(state, event.step)
    if event.step:
        state = set_step(state, event.step, status="failed", outcome="failed")
        state = without_timers(state, lambda path, _, call: path == event.step and call.waits_to_retry)
    return fail_scope(state, catcher_of(state, event.step), failure)


def _draft_recorded(state: State, event: e.DraftRecorded) -> State:
    return set_step(state, event.step, status="done", outcome="done", input=event.input, output=event.output)


def _branch_chosen(state: State, event: e.BranchChosen) -> State:
    return set_step(state, event.step, branch=event.branch)


def _record_found(state: State, event: e.RecordFound) -> State:
    return set_step(state, event.step, status="found", outcome="found", output=event.output)


# --- timers --------------------------------------------------------------------------------------------------------


def _timer_set(state: State, event: e.TimerSet) -> State:
    if not event.purpose:
        return set_step(state, event.step, due=event.due)
    name = (event.step, event.purpose, event.part)
    call = replace(call_of(state, name), due=event.due, due_for=event.timer, fired="")
    return replace(state, calls=put(state.calls, name, call))


def _timer_fired(state: State, event: e.TimerFired) -> State:
    if event.timer in ("approval", "remind"):
        return read_timer(state, event)
    if event.timer == "late":
        return set_step(state, event.step, due=None, event="")
    if not event.purpose:
        return set_step(state, event.step, due=None, status="done", outcome="done")
    name = (event.step, event.purpose, event.part)
    call = replace(call_of(state, name), due=None, due_for="", fired=event.timer)
    return replace(state, calls=put(state.calls, name, call))


# --- events of others ----------------------------------------------------------------------------------------------


def _event_awaited(state: State, event: e.EventAwaited) -> State:
    return set_step(state, event.step, event=event.event, match=event.match, since=event.at, due=event.due or None)


def _event_received(state: State, event: e.EventReceived) -> State:
    return set_step(state, event.step, event="", due=None, status="done", outcome="done", output=event.data)


def _emitted(state: State, event: e.Emitted) -> State:
    return set_step(state, event.step, status="done", outcome="done")


# --- failing -------------------------------------------------------------------------------------------------------


def _forward_closed(state: State, event: e.ForwardClosed) -> State:
    at, inside = event.step, state.scopes.get(event.step, Scope())
    failure = Failure(kind=event.kind, step=event.failed_step, summary=event.summary, at=event.at, by=event.by)
    scope = replace(inside, closed=True, compensates=event.compensate, cause=event.cause, failure=failure)
    in_doubt = {name[0] for name, call in state.calls.items() if name[1] == "do" and call.is_unsettled}
    state = without_timers(
        state,
        lambda path, purpose, call: (
            is_in(path, at)
            and ((purpose in FORWARD and call.waits_to_retry) or (purpose == "find" and path not in in_doubt))
        ),
    )
    steps = {path: waits_no_more(step) if is_in(path, at) else step for path, step in state.steps.items()}
    state = replace(state, scopes=put(state.scopes, at, scope), steps=steps)
    state = not_held(state, *(path for path in state.held if is_in(path, at)))
    state = withdraw_gates(state, forward_in(at))
    state = withdraw(
        state,
        lambda handoff: is_in(handoff.step, at) and (handoff.kind in FORWARD_QUESTIONS or handoff.purpose == "find"),
    )
    handoffs = {
        name: replace(each, choices=_closed_choices(state, each)) if is_in(each.step, at) else each
        for name, each in state.handoffs.items()
    }
    state = replace(state, handoffs=handoffs)
    return withdraw_gates(stop_here(state), lambda name: True) if state.stops_here else state


FORWARD_QUESTIONS = ("step", "failure", "outputs", "late", "set_aside")
"""Kinds of hand-offs that do not matter any more once forward is closed."""


def _closed_choices(state: State, handoff: HandOff) -> tuple[str, ...]:
    """What may be answered once forward is closed: that is decided, and the rest may go on without this answer."""
    if handoff.choice or handoff.purpose != "do":
        return handoff.choices
    kept = tuple(choice for choice in handoff.choices if choice not in ("compensate", "take_over"))
    return (*kept, "take_over") if state.stops_here else (*kept, "go_on", "take_over")


def _compensation_begun(state: State, event: e.CompensationBegun) -> State:
    scope = replace(state.scopes.get(event.step, Scope()), has_begun=True)
    return replace(state, scopes=put(state.scopes, event.step, scope))


def _compensation_skipped(state: State, event: e.CompensationSkipped) -> State:
    state = set_undo(state, event.step, "skipped", event.reason)
    return set_disposition(state, event.step, "stands" if event.by else "accepted", event.reason)


def _compensation_failed(state: State, event: e.CompensationFailed) -> State:
    return set_undo(state, event.step, "failed", event.summary)


def _record_held(state: State, event: e.RecordHeld) -> State:
    return replace(state, holds_record=True)


def _record_released(state: State, event: e.RecordReleased) -> State:
    return replace(state, holds_record=False)


_READERS: Mapping[type[e.Event], Callable[[State, Any], State]] = {
    e.RunStarted: _run_started,
    e.RunHeld: _run_held,
    e.RunPaused: _run_paused,
    e.RunResumed: _run_resumed,
    e.RunMoved: _run_moved,
    e.StopRequested: _stop_requested,
    e.PersonalDataErased: _data_erased,
    e.RunFinished: _run_finished,
    e.StepSkipped: _step_skipped,
    e.StepFailed: _step_failed,
    e.BranchChosen: _branch_chosen,
    e.ScopeStarted: read_started,
    e.ScopeEnded: read_ended,
    e.ItemSetAside: read_set_aside,
    e.ItemResumed: read_resumed,
    e.ItemAccepted: read_accepted,
    e.EventAwaited: _event_awaited,
    e.EventReceived: _event_received,
    e.Emitted: _emitted,
    e.DraftRecorded: _draft_recorded,
    e.RecordFound: _record_found,
    e.CallIntended: read_intended,
    e.CallApplied: read_applied,
    e.CallRefused: read_refused,
    e.CallNotSent: read_not_sent,
    e.CallUnknown: read_unknown,
    e.CallSettled: read_settled,
    e.EvidenceLate: read_evidence,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.ForwardClosed: _forward_closed,
    e.CompensationBegun: _compensation_begun,
    e.CompensationSkipped: _compensation_skipped,
    e.CompensationFailed: _compensation_failed,
    e.ApprovalRequested: read_requested,
    e.ApprovalDecided: read_decided,
    e.ApprovalLapsed: read_lapsed,
    e.Escalated: read_escalated,
    e.HandedOff: read_handed_off,
    e.HandOffAcknowledged: read_acknowledged,
    e.HandOffResolved: read_resolved,
    e.RecordLocked: _record_locked,
    e.RecordHeld: _record_held,
    e.RecordReleased: _record_released,
}
