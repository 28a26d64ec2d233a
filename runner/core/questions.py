"""What the log says of people: questions handed off, acknowledged and answered, and what each answer changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runner.core import events as e
from runner.core.changes import (
    call_of,
    fail_scope,
    put,
    set_disposition,
    set_step,
    set_undo,
    waits_no_more,
    withdraw,
    without_timers,
)
from runner.core.consents import withdraw_gates
from runner.core.listings import settle_aside
from runner.core.paths import catcher_of
from runner.core.state import Disposition, Failure, HandOff, State, StepState, UndoState, replace


def read_handed_off(state: State, event: e.HandedOff) -> State:
    handoff = HandOff(
        id=event.handoff, step=event.step, kind=event.kind, owner=event.owner, opened_at=event.at,
        opened_seq=state.seq + 1, choices=event.choices, summary=event.summary, say=event.say,
        purpose=event.purpose, part=event.part, show=event.show,
    )  # fmt: skip
    state = replace(state, handoffs=put(state.handoffs, handoff.id, handoff), asked=state.asked + 1)
    if event.kind in ("compensation", "compensation_unknown", "request"):
        return set_undo(state, event.step, "handed_off", event.summary)
    if event.kind == "step":
        return set_step(state, event.step)
    return state


def read_acknowledged(state: State, event: e.HandOffAcknowledged) -> State:
    if not event.handoff:
        return replace(state, seen_by=event.by)
    handoff = state.handoffs.get(event.handoff)
    if handoff is None:
        return replace(state, late=state.late + 1)
    return replace(state, handoffs=put(state.handoffs, event.handoff, replace(handoff, acknowledged_by=event.by)))


def read_resolved(state: State, event: e.HandOffResolved) -> State:
    """An answer. One that comes when the question was withdrawn changes nothing."""
    handoff = state.handoffs.get(event.handoff)
    if handoff is None or handoff.choice:
        return replace(state, late=state.late + 1)
    handoff = replace(
        handoff, choice=event.choice, by=event.by, reason=event.reason,
        reference=event.reference, output=event.output, external_id=event.external_id,
    )  # fmt: skip
    state = replace(state, handoffs=put(state.handoffs, handoff.id, handoff), at=max(state.at, event.at))
    answer = _ANSWERS.get(event.choice)
    return answer(state, handoff) if answer else state


def _answer_take_over(state: State, handoff: HandOff) -> State:
    """Nothing is asked, waited for or tried any more."""
    state = withdraw_gates(withdraw(replace(state, is_taken_over=True), lambda other: True), lambda name: True)
    steps = {path: waits_no_more(step) for path, step in state.steps.items()}
    state = replace(state, steps=steps)
    return without_timers(state, lambda path, purpose, call: True)


def _answer_retry(state: State, handoff: HandOff) -> State:
    """From the beginning; but where a part has its effect the input stays, so that each part stays what it is."""
    path = handoff.step
    if handoff.kind == "set_aside":
        return settle_aside(state, path, tuple(state.lists[path].aside), is_resumed=True)
    if handoff.kind == "failure":
        return replace(_retry_step(state, path), failure=None)
    undo = {other: each for other, each in state.undo.items() if other != path}
    if _is_partly_applied(state, path, "undo"):
        undo[path] = UndoState(input=state.undo[path].input)
    return replace(_renew(state, path, ("undo",)), undo=undo)


def _retry_step(state: State, path: str) -> State:
    began = state.steps.get(path, StepState())
    steps = {other: step for other, step in state.steps.items() if other != path}
    if any(name[:2] == (path, "do") for name in state.calls):
        kept = began.input if _is_partly_applied(state, path, "do") else {}
        steps[path] = StepState(input=kept, find=began.find)
    return replace(_renew(state, path, ("do", "read", "find")), steps=steps)


def _is_partly_applied(state: State, path: str, purpose: str) -> bool:
    return any(name[:2] == (path, purpose) and call.is_applied for name, call in state.calls.items())


def _renew(state: State, path: str, purposes: tuple[str, ...]) -> State:
    calls = {
        name: replace(call, renew=True, due=None, due_for="", fired="")
        if name[0] == path and name[1] in purposes and call.is_over
        else call
        for name, call in state.calls.items()
    }
    return replace(state, calls=calls)


def _answer_go_on(state: State, handoff: HandOff) -> State:
    if handoff.kind == "step":
        return set_step(state, handoff.step, status="done", outcome="done")
    if handoff.kind == "late":
        return set_step(state, handoff.step, status="skipped", outcome="late")
    return state


def _answer_compensate(state: State, handoff: HandOff) -> State:
    """What may fail alone ends alone; else it is the run, which is decided then."""
    scope = catcher_of(state, handoff.step)
    if not scope:
        return state
    summary = handoff.reason or f"{handoff.by} chose compensate"
    return fail_scope(
        state, scope, Failure(kind=handoff.kind, step=handoff.step, summary=summary, at=state.at, by=handoff.by)
    )


def _answer_skip(state: State, handoff: HandOff) -> State:
    """Items stay set aside; for a failed step it is decided then."""
    if handoff.kind != "set_aside":
        return state
    return settle_aside(state, handoff.step, tuple(state.lists[handoff.step].aside), is_resumed=False)


def _answer_fact(state: State, handoff: HandOff) -> State:
    return set_undo(state, handoff.step, "open") if handoff.purpose == "undo" else state


def _answer_again(state: State, handoff: HandOff) -> State:
    """The service is asked once more: by the same request under the same key, or by a look-up."""
    name = (handoff.step, handoff.purpose, handoff.part)
    call = replace(
        call_of(state, name), tries=0, due=None, due_for="", fired="", again_seq=state.seq + 1, again_at=state.at
    )
    return _answer_fact(replace(state, calls=put(state.calls, name, call)), handoff)


def _answer_done(state: State, handoff: HandOff) -> State:
    return _end_undo(state, handoff, "done", "by_hand", handoff.reference or handoff.reason)


def _answer_stands(state: State, handoff: HandOff) -> State:
    return _end_undo(state, handoff, "skipped", "stands", handoff.reason)


def _end_undo(state: State, handoff: HandOff, status: str, disposition: Disposition, note: str) -> State:
    """A person ended the compensation: its calls are not tried, asked about or waited for any more."""
    path = handoff.step
    state = without_timers(state, lambda other, purpose, _: other == path and purpose in ("undo", "undo_lookup"))
    state = withdraw(state, lambda other: other.step == path and other.purpose == "undo")
    return set_disposition(set_undo(state, path, status), path, disposition, note)


_ANSWERS: Mapping[str, Callable[[State, HandOff], State]] = {
    "take_over": _answer_take_over,
    "compensate": _answer_compensate,
    "skip": _answer_skip,
    "again": _answer_again,
    "happened": _answer_fact,
    "did_not": _answer_fact,
    "retry": _answer_retry,
    "go_on": _answer_go_on,
    "done": _answer_done,
    "stands": _answer_stands,
}
