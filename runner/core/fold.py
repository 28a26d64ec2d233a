"""`fold(state, event)`: reads one more fact into the state. Total: any log that was written can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from runner.contract import Json
from runner.core import events as e
from runner.core.state import Call, Disposition, Effect, Failure, HandOff, Scope, State, StepState, UndoState, replace

K = TypeVar("K")
V = TypeVar("V")
FORWARD = frozenset({"do", "read"})
_ASKS_ABOUT = {"lookup": "do", "find": "do", "undo_lookup": "undo"}


def fold(state: State, event: e.Event) -> State:
    """The state after this event. `seq` and `at` move on with every event."""
    read = _READERS.get(type(event))
    after = read(state, event) if read else state
    return replace(after, seq=state.seq + 1, at=max(state.at, event.at))


def fold_all(events: Iterable[e.Event], state: State | None = None) -> State:
    """The state after a whole log."""
    state = state or State()
    for event in events:
        state = fold(state, event)
    return state


def _put(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return {**mapping, key: value}


def _set_call(state: State, event: e.CallEvent, call: Call) -> State:
    return replace(state, calls=_put(state.calls, event.call, call))


# --- the run -------------------------------------------------------------------------------------------------------


def _run_started(state: State, event: e.RunStarted) -> State:
    if event.continues:
        return _continued(state, event)
    return replace(
        state, run=event.run, flow=event.flow, mode=event.mode, bundle=event.bundle, owner=event.owner,
        record=event.record, starter=event.starter, started_at=event.at, inputs=event.inputs, trigger=event.trigger,
    )  # fmt: skip


def _continued(state: State, event: e.RunStarted) -> State:
    """A clean-up run: what stood at the stop is pending again, questions nobody answered are asked anew."""
    state = replace(
        state, run=event.run, starter=event.starter, started_at=event.at, continues=event.continues, status="",
        summary="", stands=(), stop=None, is_paused=False, is_taken_over=event.clean_up == "take_over",
        scopes=_put(state.scopes, "", replace(state.root, closed=True, compensates=True, cause="person")),
        handoffs={id_: handoff for id_, handoff in state.handoffs.items() if handoff.choice},
        undo={path: undo for path, undo in state.undo.items() if undo.status in ("done", "skipped")},
        effects={
            no: replace(effect, disposition="pending") if effect.disposition == "stands" else effect
            for no, effect in state.effects.items()
        },
    )  # fmt: skip
    return replace(
        state,
        calls={
            name: replace(call, renew=True) if name[1] == "undo" and call.last in ("refused", "not_sent") else call
            for name, call in state.calls.items()
        },
    )


def _run_held(state: State, event: e.RunHeld) -> State:
    return replace(state, held_by=event.by_run or event.name, held_for=event.why)


def _run_paused(state: State, event: e.RunPaused) -> State:
    return replace(state, is_paused=True)


def _run_resumed(state: State, event: e.RunResumed) -> State:
    return replace(state, is_paused=False)


def _run_moved(state: State, event: e.RunMoved) -> State:
    return replace(state, bundle=event.bundle)


def _stop_requested(state: State, event: e.StopRequested) -> State:
    summary = event.reason or "stopped by " + event.by
    stop = Failure(kind="stop", step="", summary=summary, at=event.at, by=event.by)
    return replace(state, is_paused=False, stop=stop, stop_compensates=event.compensate)


def _run_finished(state: State, event: e.RunFinished) -> State:
    rest: Disposition = "by_hand" if event.status == "closed" and state.is_taken_over else "stands"
    effects = {
        no: replace(effect, disposition=rest) if effect.disposition == "pending" else effect
        for no, effect in state.effects.items()
    }
    return replace(
        state, status=event.status, summary=event.summary, outputs=event.outputs, stands=event.stands, effects=effects
    )


# --- steps ---------------------------------------------------------------------------------------------------------


def _set_step(state: State, path: str, **changes: Any) -> State:
    step = replace(state.steps.get(path, StepState()), **changes)
    return replace(state, steps=_put(state.steps, path, step))


def _step_skipped(state: State, event: e.StepSkipped) -> State:
    state = _set_step(state, event.step, status="skipped", outcome="skipped")
    if state.failure and state.failure.step == event.step:
        return replace(state, failure=None)
    return state


def _step_failed(state: State, event: e.StepFailed) -> State:
    if event.goes_on:
        output = part_outputs(state, event.step, "do")
        return _set_step(state, event.step, status="refused", outcome="refused", output=output)
    failure = Failure(kind=event.kind, step=event.step, summary=event.summary, at=event.at)
    if event.step:
        state = _set_step(state, event.step, status="failed", outcome="failed")
    return replace(state, failure=state.failure or failure)


def _draft_recorded(state: State, event: e.DraftRecorded) -> State:
    return _set_step(state, event.step, status="done", outcome="done", output=event.output)


def _record_found(state: State, event: e.RecordFound) -> State:
    return _set_step(state, event.step, status="found", outcome="found", output=event.output)


# --- calls ---------------------------------------------------------------------------------------------------------


def _call_intended(state: State, event: e.CallIntended) -> State:
    before = state.calls.get(event.call)
    fresh = before is None or before.generation != event.generation
    if before is None or fresh:
        call = Call(
            action=event.action, key=event.key, word=event.word, start_no=event.start_no, parts=event.parts,
            generation=event.generation, first_at=event.at, request=event.request, request_hash=event.request_hash,
        )  # fmt: skip
    else:
        call = before
    asked_about = state.calls.get((event.step, _ASKS_ABOUT.get(event.purpose, ""), event.part))
    asked_anew = asked_about is not None and call.intended_seq < asked_about.intended_seq
    call = replace(
        call, attempt=event.attempt, tries=1 if asked_anew else call.tries + 1, is_open=True, fence=event.fence,
        intended_at=event.at, intended_seq=state.seq + 1, limit=event.limit, last="", reason="", summary="",
        retry_after=None, take_over=False, settled="", due=None, due_for="", fired="", renew=False, count=None,
    )  # fmt: skip
    state = replace(_set_call(state, event, call), held_by="", held_for="")
    if event.start_no >= state.next_start:
        state = replace(state, next_start=event.start_no + 1)
    if event.purpose == "undo":
        undo = UndoState(input=event.input or state.undo.get(event.step, UndoState()).input)
        return replace(state, undo=_put(state.undo, event.step, undo))
    if event.purpose == "undo_lookup":
        return state
    step = state.steps.get(event.step, StepState())
    if event.input and event.purpose in FORWARD:
        step = replace(step, input=event.input)
    return replace(state, steps=_put(state.steps, event.step, step))


def _close_attempt(state: State, event: e.OutcomeEvent, **changes: Any) -> tuple[State, Call]:
    call = replace(state.calls[event.call], is_open=False, last_at=event.at, **changes)
    return _set_call(state, event, call), call


def _call_applied(state: State, event: e.CallApplied) -> State:
    state, call = _close_attempt(
        state, event, last="applied", output=event.output, external_id=event.external_id, count=event.count,
        request={}, may_have_happened=False,
    )  # fmt: skip
    return _after_applied(state, event, call)


def _after_applied(state: State, event: e.CallEvent, call: Call) -> State:
    if event.purpose == "do":
        effect = Effect(path=event.step, part=event.part, action=call.action, external_id=call.external_id)
        state = replace(state, effects=_put(state.effects, call.start_no, effect))
    if event.purpose in FORWARD and _every_part(state, event.step, event.purpose, call.parts):
        output = part_outputs(state, event.step, event.purpose)
        return _set_step(state, event.step, status="done", outcome="done", output=output)
    if event.purpose == "undo" and _every_part(state, event.step, "undo", call.parts):
        disposition: Disposition = "undone" if call.word == "cancel" else "answered"
        return set_disposition(_set_undo(state, event.step, "done"), event.step, disposition, call.external_id)
    return state


def _every_part(state: State, path: str, purpose: str, parts: int) -> bool:
    calls = [state.calls.get((path, purpose, part)) for part in range(parts)]
    return all(call is not None and call.is_applied for call in calls)


def part_outputs(state: State, path: str, purpose: str) -> Mapping[str, Json]:
    """The output of a step's applied calls: of one its own; of several the first one's fields, lists joined."""
    outputs = [
        call.output for name, call in sorted(state.calls.items()) if name[:2] == (path, purpose) and call.is_applied
    ]
    if len(outputs) == 1:
        return outputs[0]
    joined: dict[str, Json] = {}
    for output in outputs:
        for name, value in output.items():
            if isinstance(value, list):
                joined[name] = [*joined.get(name, []), *value]
            else:
                joined.setdefault(name, value)
    return joined


def _call_refused(state: State, event: e.CallRefused) -> State:
    return _close_attempt(
        state, event, last="refused", reason=event.reason, summary=event.summary, retry_after=event.retry_after
    )[0]


def _call_not_sent(state: State, event: e.CallNotSent) -> State:
    return _close_attempt(
        state, event, last="not_sent", reason=event.reason, summary=event.summary, retry_after=event.retry_after
    )[0]


def _call_unknown(state: State, event: e.CallUnknown) -> State:
    return _close_attempt(
        state, event, last="unknown", reason=event.reason, summary=event.summary, retry_after=event.retry_after,
        take_over=event.take_over, may_have_happened=True,
    )[0]  # fmt: skip


def _call_settled(state: State, event: e.CallSettled) -> State:
    by_person = event.by not in ("lookup", "find", "evidence")
    call = replace(
        state.calls[event.call], settled=event.result, settled_by=event.by, adopted=event.adopted, due=None, due_for="",
        fired="", may_have_happened=False, renew=by_person and event.result == "not_applied",
    )  # fmt: skip
    if event.result != "applied":
        return _set_call(state, event, call)
    call = replace(call, output=event.output, external_id=event.external_id, request={})
    return _after_applied(_set_call(state, event, call), event, call)


def _evidence_late(state: State, event: e.EvidenceLate) -> State:
    return replace(state, late=state.late + 1)


# --- timers --------------------------------------------------------------------------------------------------------


def _timer_set(state: State, event: e.TimerSet) -> State:
    if not event.purpose:
        return _set_step(state, event.step, due=event.due)
    name = (event.step, event.purpose, event.part)
    call = replace(state.calls[name], due=event.due, due_for=event.timer, fired="")
    return replace(state, calls=_put(state.calls, name, call))


def _timer_fired(state: State, event: e.TimerFired) -> State:
    if not event.purpose:
        return _set_step(state, event.step, due=None, status="done", outcome="done")
    name = (event.step, event.purpose, event.part)
    call = replace(state.calls[name], due=None, due_for="", fired=event.timer)
    return replace(state, calls=_put(state.calls, name, call))


# --- failing -------------------------------------------------------------------------------------------------------


def _forward_closed(state: State, event: e.ForwardClosed) -> State:
    failure = Failure(kind=event.kind, step=event.failed_step, summary=event.summary, at=event.at, by=event.by)
    scope = Scope(closed=True, compensates=event.compensate, cause=event.cause, failure=failure)
    calls = {
        name: replace(call, due=None, due_for="", fired="") if name[1] in FORWARD and call.due_for == "retry" else call
        for name, call in state.calls.items()
    }
    steps = {path: replace(step, due=None) if step.due else step for path, step in state.steps.items()}
    return replace(state, scopes=_put(state.scopes, event.step, scope), calls=calls, steps=steps)


def _compensation_begun(state: State, event: e.CompensationBegun) -> State:
    scope = replace(state.scopes[event.step], has_begun=True)
    return replace(state, scopes=_put(state.scopes, event.step, scope))


def _set_undo(state: State, path: str, status: str, summary: str = "") -> State:
    before = state.undo.get(path, UndoState())
    undo = replace(before, status=status, summary=summary)  # type: ignore[arg-type]
    return replace(state, undo=_put(state.undo, path, undo))


def set_disposition(state: State, path: str, disposition: Disposition, note: str = "") -> State:
    """The effects of a step get their disposition, those that have none yet."""
    effects = {
        no: replace(effect, disposition=disposition, note=note)
        if effect.path == path and effect.disposition == "pending"
        else effect
        for no, effect in state.effects.items()
    }
    return replace(state, effects=effects)


def _compensation_skipped(state: State, event: e.CompensationSkipped) -> State:
    state = _set_undo(state, event.step, "skipped", event.reason)
    return set_disposition(state, event.step, "stands" if event.by else "accepted", event.reason)


def _compensation_failed(state: State, event: e.CompensationFailed) -> State:
    return _set_undo(state, event.step, "failed", event.summary)


# --- people --------------------------------------------------------------------------------------------------------


def _handed_off(state: State, event: e.HandedOff) -> State:
    handoff = HandOff(
        id=event.handoff, step=event.step, kind=event.kind, owner=event.owner, opened_at=event.at,
        opened_seq=state.seq + 1, choices=event.choices, summary=event.summary, say=event.say,
        purpose=event.purpose, part=event.part, show=event.show,
    )  # fmt: skip
    state = replace(state, handoffs=_put(state.handoffs, handoff.id, handoff))
    if event.kind in ("compensation", "compensation_unknown", "request"):
        return _set_undo(state, event.step, "handed_off", event.summary)
    if event.kind == "step":
        return _set_step(state, event.step)
    return state


def _acknowledged(state: State, event: e.HandOffAcknowledged) -> State:
    handoff = replace(state.handoffs[event.handoff], acknowledged_by=event.by)
    return replace(state, handoffs=_put(state.handoffs, event.handoff, handoff))


def _resolved(state: State, event: e.HandOffResolved) -> State:
    handoff = replace(
        state.handoffs[event.handoff], choice=event.choice, by=event.by, reason=event.reason,
        reference=event.reference, output=event.output, external_id=event.external_id,
    )  # fmt: skip
    state = replace(state, handoffs=_put(state.handoffs, handoff.id, handoff))
    answer = _ANSWERS.get(event.choice)
    return answer(state, handoff) if answer else state


def _answer_take_over(state: State, handoff: HandOff) -> State:
    return replace(state, is_taken_over=True)


def _answer_retry(state: State, handoff: HandOff) -> State:
    if handoff.kind == "failure":
        steps = {path: step for path, step in state.steps.items() if path != handoff.step}
        return replace(_renew(state, handoff.step, ("do", "read", "find")), steps=steps, failure=None)
    undo = {path: each for path, each in state.undo.items() if path != handoff.step}
    return replace(_renew(state, handoff.step, ("undo",)), undo=undo)


def _renew(state: State, path: str, purposes: tuple[str, ...]) -> State:
    calls = {
        name: replace(call, renew=True) if name[0] == path and name[1] in purposes and not call.is_applied else call
        for name, call in state.calls.items()
    }
    return replace(state, calls=calls)


def _answer_go_on(state: State, handoff: HandOff) -> State:
    if handoff.kind == "step":
        return _set_step(state, handoff.step, status="done", outcome="done")
    return state


def _answer_fact(state: State, handoff: HandOff) -> State:
    return _set_undo(state, handoff.step, "open") if handoff.purpose == "undo" else state


def _answer_done(state: State, handoff: HandOff) -> State:
    note = handoff.reference or handoff.reason
    return set_disposition(_set_undo(state, handoff.step, "done"), handoff.step, "by_hand", note)


def _answer_stands(state: State, handoff: HandOff) -> State:
    return set_disposition(_set_undo(state, handoff.step, "skipped"), handoff.step, "stands", handoff.reason)


_ANSWERS: Mapping[str, Callable[[State, HandOff], State]] = {
    "take_over": _answer_take_over,
    "happened": _answer_fact,
    "did_not": _answer_fact,
    "retry": _answer_retry,
    "go_on": _answer_go_on,
    "done": _answer_done,
    "stands": _answer_stands,
}


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
    e.RunFinished: _run_finished,
    e.StepSkipped: _step_skipped,
    e.StepFailed: _step_failed,
    e.DraftRecorded: _draft_recorded,
    e.RecordFound: _record_found,
    e.CallIntended: _call_intended,
    e.CallApplied: _call_applied,
    e.CallRefused: _call_refused,
    e.CallNotSent: _call_not_sent,
    e.CallUnknown: _call_unknown,
    e.CallSettled: _call_settled,
    e.EvidenceLate: _evidence_late,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.ForwardClosed: _forward_closed,
    e.CompensationBegun: _compensation_begun,
    e.CompensationSkipped: _compensation_skipped,
    e.CompensationFailed: _compensation_failed,
    e.HandedOff: _handed_off,
    e.HandOffAcknowledged: _acknowledged,
    e.HandOffResolved: _resolved,
    e.RecordHeld: _record_held,
    e.RecordReleased: _record_released,
}
