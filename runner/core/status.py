"""What a run's state is called, and what it waits for: derived from the state, never stored in it."""

from __future__ import annotations

from dataclasses import dataclass

from runner.core.paths import is_in
from runner.core.state import Call, Held, State
from runner.quick import quick

EVENT, APPROVAL = "the event ", "an approval "
"""How `waiting_for` begins where a step waits for an event, or for people."""
WAITS = "waits for "
"""How it begins where others keep a record from the run."""
WAIT_FOR_PERSON = " for a person"
"""How it ends where it is about items of a list."""


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A run as lists show it. `wake_at`: the next timer, ms since the epoch. `needs`: who must act."""

    status: str
    phase: str
    wake_at: int | None
    waiting_for: str
    at_step: str
    needs: str


def standing_of(state: State) -> Standing:
    """The run's status, and why it is not going on if it is not."""
    dues = _dues(state)
    opened = [name[0] for name, call in state.calls.items() if call.is_open]
    wake_at = min(dues.values()) if dues and not state.is_paused else None
    status = _status(state, has_timer=bool(dues), is_out=bool(opened))
    at_step, waiting_for = (opened[0], "an answer") if opened else _waits(state, dues, status)
    needs = ""
    if (state.handoffs or state.gates) and not state.has_ended:
        asked = [one.owner for one in state.open_handoffs]
        asked += [one.by[0] for one in state.gates.values() if one.status == "open"]
        needs = asked[0] if asked else ""
    return Standing(
        status=status, phase="compensating" if state.root.closed else "forward",
        wake_at=None if state.has_ended else wake_at, waiting_for=waiting_for, at_step=at_step, needs=needs,
    )  # fmt: skip


def _status(state: State, *, has_timer: bool, is_out: bool) -> str:
    if state.has_ended:
        return state.status
    if state.is_paused:
        return "paused"
    if state.root.closed and (has_timer or is_out):
        return "compensating"
    if not is_out and state.open_handoffs:
        return "needs_person"
    if state.root.closed:
        return "compensating"
    if has_timer or state.held or any(step.event for step in state.steps.values()):
        return "waiting"
    return "running" if state.seq > 1 else "queued"


def waits_for(held: Held, flow: str = "", needs: str = "") -> str:
    """What a step waits for, and for whom. Of the other run, if known: its `flow`, and who must act there."""
    by = held.by if ":" in held.by else f"run {held.by}" + (f" ({flow})" if flow else "")
    if held.why == "lock":
        return f"{WAITS}{held.name}, which {by} works on{f'; that one waits for {needs}' if needs else ''}"
    if held.why == "record":
        return f"{WAITS}{held.name}, which {by} holds{f' until {needs} has answered' if needs else ''}"
    return f"{held.why} held by {held.by or held.name}"


def _dues(state: State) -> dict[str, int]:
    found = {path: step.due for path, step in state.steps.items() if step.due is not None}
    for (path, _, _), call in state.calls.items():
        if call.due is not None and _is_live(call):
            found[path] = min(call.due, found.get(path, call.due))
    for name, gate in state.gates.items():
        if gate.status == "open":
            found[name.partition(":")[0]] = gate.wakes_at
    return found


def _is_live(call: Call) -> bool:
    return not call.is_applied


def _waits(state: State, dues: dict[str, int], status: str) -> tuple[str, str]:
    if status == "needs_person":
        return _asks(state)
    for path, held in state.held.items():
        return path, waits_for(held)
    for name, gate in state.gates.items():
        if gate.status == "open":
            return name.partition(":")[0], f"{APPROVAL}by {' or '.join(gate.by)}"
    for path, step in state.steps.items():
        if step.event:
            return path, f"{EVENT}{step.event}"
    if dues:
        at = min(dues, key=lambda path: dues[path])
        return at, "a timer"
    return "", ""


def _asks(state: State) -> tuple[str, str]:
    """What a person is asked; where it is about several items of one list, about how many."""
    asked = [handoff.step for handoff in state.open_handoffs]
    for path, listing in state.lists.items():
        items = {step[len(path) + 1 :].partition("/")[0] for step in asked if is_in(step, path)}
        if len(items) > 1 and all(is_in(step, path) for step in asked):
            return asked[0], f"{len(items)} of {listing.items.count} items of {path} wait{WAIT_FOR_PERSON}"
    return asked[0], state.open_handoffs[0].summary
