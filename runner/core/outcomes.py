"""What the log says of calls: intended, and what became of them."""

from __future__ import annotations

from typing import Any

from runner.core import events as e
from runner.core.changes import call_of, not_held, part_outputs, put, set_call, set_disposition, set_step, set_undo
from runner.core.consents import use
from runner.core.retry import LATE
from runner.core.state import Call, Disposition, Effect, State, StepState, UndoState, replace

FORWARD = frozenset({"do", "read"})
NOT_BEGUN, NEW_CALL = StepState(), Call(action="", key="")
_ASKS_ABOUT = {"lookup": "do", "find": "do", "undo_lookup": "undo"}


def read_intended(state: State, event: e.CallIntended) -> State:
    before = state.calls.get(event.call)
    if before is None or before.generation != event.generation:
        call = replace(
            NEW_CALL, action=event.action, key=event.key, word=event.word, start_no=event.start_no, parts=event.parts,
            fans_out=event.fans_out, generation=event.generation, first_at=event.at, request=event.request,
            request_hash=event.request_hash, attempt=event.attempt, tries=1, is_open=True, fence=event.fence,
            intended_at=event.at, intended_seq=state.seq + 1, limit=event.limit,
        )  # fmt: skip
    else:
        about = state.calls.get((event.step, _ASKS_ABOUT.get(event.purpose, ""), event.part))
        is_anew = about is not None and before.intended_seq < max(about.intended_seq, about.again_seq)
        call = replace(
            before, attempt=event.attempt, tries=1 if is_anew else before.tries + 1, is_open=True, fence=event.fence,
            intended_at=event.at, intended_seq=state.seq + 1, limit=event.limit, last="", reason="", summary="",
            retry_after=None, settled="", due=None, due_for="", fired="", renew=False, count=None,
        )  # fmt: skip
    state = not_held(set_call(state, event, call), "", event.step)
    if state.gates and event.purpose in ("do", "undo"):
        state = use(state, event.step, event.purpose)
    if event.start_no >= state.next_start:
        state = replace(state, next_start=event.start_no + 1)
    if event.purpose == "undo":
        undo = UndoState(input=event.input or state.undo.get(event.step, UndoState()).input)
        return replace(state, undo=put(state.undo, event.step, undo))
    if event.purpose == "undo_lookup":
        return state
    step = state.steps.get(event.step) or NOT_BEGUN
    if event.input and event.purpose in FORWARD:
        step = replace(step, input=event.input)
    if event.purpose == "find" and event.input:
        step = replace(step, find=event.input)
    return replace(state, steps=put(state.steps, event.step, step))


def _close_attempt(state: State, event: e.OutcomeEvent, **changes: Any) -> tuple[State, Call]:
    call = replace(state.calls[event.call], is_open=False, last_at=event.at, **changes)
    return set_call(state, event, call), call


def read_applied(state: State, event: e.CallApplied) -> State:
    state, call = _close_attempt(
        state, event, last="applied", output=event.output, external_id=event.external_id, count=event.count,
        request={}, may_have_happened=False,
    )  # fmt: skip
    return _after_applied(state, event, call)


def _after_applied(state: State, event: e.CallEvent, call: Call) -> State:
    if event.purpose == "do":
        effect = Effect(path=event.step, part=event.part, action=call.action, external_id=call.external_id)
        state = replace(state, effects=put(state.effects, call.start_no, effect))
    is_draft = event.purpose == "do" and state.mode == "draft"  # the step ends with DraftRecorded
    if event.purpose in FORWARD and not is_draft and _every_part(state, event.step, event.purpose, call.parts):
        output = part_outputs(state, event.step, event.purpose)
        return set_step(state, event.step, status="done", outcome="done", output=output)
    if event.purpose == "undo" and _every_part(state, event.step, "undo", call.parts):
        disposition: Disposition = "undone" if call.word == "cancel" else "answered"
        return set_disposition(set_undo(state, event.step, "done"), event.step, disposition, call.external_id)
    return state


def _every_part(state: State, path: str, purpose: str, parts: int) -> bool:
    for part in range(parts):
        call = state.calls.get((path, purpose, part))
        if call is None or not call.is_applied:
            return False
    return True


def read_refused(state: State, event: e.CallRefused) -> State:
    return _close_attempt(
        state, event, last="refused", reason=event.reason, summary=event.summary, retry_after=event.retry_after
    )[0]


def read_not_sent(state: State, event: e.CallNotSent) -> State:
    """An attempt that the engine came to too late is given back."""
    return _close_attempt(
        state, event, last="not_sent", reason=event.reason, summary=event.summary, retry_after=event.retry_after,
        tries=state.calls[event.call].tries - (event.reason == LATE),
    )[0]  # fmt: skip


def read_unknown(state: State, event: e.CallUnknown) -> State:
    return _close_attempt(
        state, event, last="unknown", reason=event.reason, summary=event.summary, retry_after=event.retry_after,
        take_over=event.take_over or state.calls[event.call].take_over, may_have_happened=True, doubt=event.summary,
    )[0]  # fmt: skip


def read_settled(state: State, event: e.CallSettled) -> State:
    by_person = event.by not in ("lookup", "find", "evidence")
    call = call_of(state, event.call)
    is_lost = call.take_over and not by_person
    call = replace(
        call, settled=event.result, settled_by=event.by, adopted=event.adopted, due=None, due_for="", fired="",
        may_have_happened=is_lost and event.result == "not_applied",
        renew=by_person and event.result == "not_applied",
    )  # fmt: skip
    if event.result != "applied":
        return set_call(state, event, call)
    call = replace(call, output=event.output, external_id=event.external_id, request={})
    return _after_applied(set_call(state, event, call), event, call)


def read_evidence(state: State, event: e.EvidenceLate) -> State:
    return replace(state, late=state.late + 1)
