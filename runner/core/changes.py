"""Small changes of a state that several facts have in common: setting one call, one step, one compensation, the
dispositions of effects; taking away timers and questions that no longer matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from runner.contract import Json
from runner.core import events as e
from runner.core.state import (
    WITHDRAWN,
    Call,
    CallName,
    Disposition,
    Failure,
    HandOff,
    State,
    StepState,
    UndoState,
    replace,
)

K = TypeVar("K")
V = TypeVar("V")


def put(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """The mapping with one more value."""
    return {**mapping, key: value}


def call_of(state: State, name: CallName) -> Call:
    """A call that has begun; an empty one where that was in an ended item, which is not read back yet."""
    return state.calls.get(name) or Call(action="", key="")


def set_call(state: State, event: e.CallEvent, call: Call) -> State:
    """The state with the call that the event is about."""
    return replace(state, calls=put(state.calls, event.call, call))


def set_step(state: State, path: str, **changes: Any) -> State:
    """The step with changes, begun if it had not been."""
    step = replace(state.steps.get(path, StepState()), **changes)
    return replace(state, steps=put(state.steps, path, step))


def waits_no_more(step: StepState) -> StepState:
    """The step without its timer, and without the event that it waits for."""
    return step if step.due is None and not step.event else replace(step, due=None, event="")


def not_held(state: State, *paths: str) -> State:
    """The steps go on, or are over: nothing keeps them any more."""
    if not state.held or state.held.keys().isdisjoint(paths):
        return state
    return replace(state, held={path: held for path, held in state.held.items() if path not in paths})


def set_undo(state: State, path: str, status: str, summary: str = "") -> State:
    """The compensation of a step with its status."""
    before = state.undo.get(path, UndoState())
    undo = replace(before, status=status, summary=summary)
    return replace(state, undo=put(state.undo, path, undo))


def set_disposition(state: State, path: str, disposition: Disposition, note: str = "") -> State:
    """The effects of a step get their disposition, those that have none yet."""
    effects = {
        no: replace(effect, disposition=disposition, note=note)
        if effect.path == path and effect.disposition == "pending"
        else effect
        for no, effect in state.effects.items()
    }
    return replace(state, effects=effects)


def _parts(state: State, path: str, purpose: str) -> list[tuple[int, Call]]:
    found = [(name[2], call) for name, call in state.calls.items() if name[:2] == (path, purpose)]
    return sorted(found, key=lambda part: part[0])


def part_outputs(state: State, path: str, purpose: str) -> Mapping[str, Json]:
    """The output of a step's applied calls: of one its own; of several the first one's fields, lists joined.

    Where the action fans out, `each` lists the outputs of the parts that were applied.
    """
    first = state.calls.get((path, purpose, 0))
    parts = [(0, first)] if first is not None and first.parts == 1 else _parts(state, path, purpose)
    calls = [call for _, call in parts if call.is_applied]
    outputs = [call.output for call in calls]
    fans_out = any(call.fans_out for call in calls)
    if len(outputs) == 1 and not fans_out:
        return outputs[0]
    joined: dict[str, Json] = {"each": [dict(output) for output in outputs]} if fans_out else {}
    for output in outputs:
        for name, value in output.items():
            if isinstance(value, list):
                joined[name] = [*joined.get(name, []), *value]
            else:
                joined.setdefault(name, value)
    return joined


def withdraw(state: State, is_meant: Callable[[HandOff], bool]) -> State:
    """The open questions that are meant no longer matter: nobody has to answer them."""
    if not state.handoffs:
        return state
    handoffs = {
        name: replace(handoff, choice=WITHDRAWN) if not handoff.choice and is_meant(handoff) else handoff
        for name, handoff in state.handoffs.items()
    }
    return replace(state, handoffs=handoffs)


def without_timers(state: State, is_meant: Callable[[str, str, Call], bool]) -> State:
    """The timers of calls that are meant, by (path, purpose, call), are gone, and what had fired with them."""
    calls = {
        name: replace(call, due=None, due_for="", fired="") if is_meant(name[0], name[1], call) else call
        for name, call in state.calls.items()
    }
    return replace(state, calls=calls)


def stop_here(state: State) -> State:
    """No compensation is tried again, and only what became of a call is still asked."""
    state = without_timers(state, lambda _, purpose, call: purpose == "undo" and call.waits_to_retry)
    state = withdraw(state, lambda handoff: not handoff.asks_what_became)
    handoffs = {
        name: replace(each, choices=tuple(choice for choice in each.choices if choice != "go_on"))
        for name, each in state.handoffs.items()
    }
    return replace(state, handoffs=handoffs)


def fail_scope(state: State, scope: str, failure: Failure) -> State:
    """The run, or an item that may fail alone, has failed. The first failure is the one."""
    if not scope:
        return replace(state, failure=state.failure or failure)
    inside = state.scopes[scope]
    return replace(state, scopes=put(state.scopes, scope, replace(inside, failure=inside.failure or failure)))
