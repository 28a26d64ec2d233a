"""What the log says of approvals: asked, decided, lapsed, late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner.clock import iso
from runner.contract import digest
from runner.core import events as e
from runner.core.changes import put, set_step
from runner.core.paths import is_in
from runner.core.state import Covered, Gate, State, Yes, replace

UNDO = ":undo"
"""Behind a step's path: the approval of its compensation."""


def _set_gate(state: State, name: str, gate: Gate) -> State:
    return replace(state, gates=put(state.gates, name, gate))


def read_requested(state: State, event: e.ApprovalRequested) -> State:
    before = state.gates.get(event.approval)
    steps = event.shown.get("steps", {})  # gone where the personal data was erased
    covers = {
        path: Covered(
            action=steps[path]["action"], input=steps[path]["input"], hashes=tuple(steps[path]["hashes"]),
            item=steps[path].get("item", ""),
        )
        for path in event.covers
        if path in steps
    }  # fmt: skip
    used = before.used - covers.keys() if before is not None else frozenset()
    kept = {path: before.covers[path] for path in used} if before is not None else {}
    gate = Gate(
        round=event.round, covers={**kept, **covers}, hash=event.hash,
        due=event.due, asked=event.asked, by=event.by, needs=event.needs, remind=event.remind, half=event.half,
        good_for=event.good_for, opened_at=event.at, opened_seq=state.seq + 1,
        used=used,
    )  # fmt: skip
    state = _set_gate(state, event.approval, gate)
    if event.approval.endswith(UNDO) or event.step in state.steps:
        return state
    return set_step(state, event.step, status="open", outcome="")


def read_decided(state: State, event: e.ApprovalDecided) -> State:
    """An answer. One to something else than is asked now, or that comes too late, changes nothing."""
    gate = state.gates.get(event.approval)
    is_meant = gate is not None and gate.status == "open" and (gate.round, gate.hash) == (event.round, event.hash)
    if gate is None or not is_meant or event.at >= gate.due or any(yes.by == event.by for yes in gate.yes):
        return replace(state, late=state.late + 1)
    if event.answer != "yes":
        return _set_gate(state, event.approval, replace(gate, status="no", no_by=event.by, comment=event.comment))
    yes = Yes(by=event.by, at=event.at, comment=event.comment)
    gate = replace(gate, yes=(*gate.yes, yes), left_out=gate.left_out | frozenset(event.left_out))
    if event.edited:
        gate = _edited(gate, event.edited, yes)
    if len(gate.yes) < gate.needs:
        return _set_gate(state, event.approval, gate)
    gate = replace(gate, status="yes", until=event.at + gate.good_for)
    state = _set_gate(state, event.approval, gate)
    if event.approval.endswith(UNDO):
        return state
    comment = " ".join(each.comment for each in gate.yes if each.comment)
    output = {"by": ", ".join(each.by for each in gate.yes), "at": iso(event.at), "comment": comment}
    return set_step(state, event.step, status="done", outcome="yes", output=output)


def _edited(gate: Gate, edited: Any, yes: Yes) -> Gate:
    """Whoever edits approves what it is then; those who approved it before did not."""
    covers = {
        path: replace(covered, input=edited[path]["input"], hashes=tuple(edited[path]["hashes"]))
        if path in edited
        else covered
        for path, covered in gate.covers.items()
    }
    hashes = {path: list(covered.hashes) for path, covered in covers.items()}
    return replace(gate, covers=covers, hash=digest([gate.hash, hashes]), yes=(yes,))


def read_lapsed(state: State, event: e.ApprovalLapsed) -> State:
    gate = state.gates[event.approval]
    return _set_gate(state, event.approval, replace(gate, status="lapsed", yes=()))


def read_escalated(state: State, event: e.Escalated) -> State:
    gate = state.gates.get(event.about)
    if gate is None:
        return state
    return _set_gate(state, event.about, replace(gate, half=0, by=(*gate.by, event.to)))


def read_timer(state: State, event: e.TimerFired) -> State:
    """A reminder goes out, or nobody has answered in time."""
    name = event.step + (UNDO if event.purpose == "undo" else "")
    gate = state.gates[name]
    changed = replace(gate, remind=0) if event.timer == "remind" else replace(gate, status="late")
    return _set_gate(state, name, changed)


def use(state: State, path: str, purpose: str) -> State:
    """A covered step begins: the approval is used for it."""
    gates = {
        name: replace(gate, used=gate.used | {path})
        if path in gate.covers and gate.status == "yes" and name.endswith(UNDO) == (purpose == "undo")
        else gate
        for name, gate in state.gates.items()
    }
    return replace(state, gates=gates)


def withdraw_gates(state: State, is_meant: Callable[[str], bool]) -> State:
    """The open approvals that are meant, by their names, are not asked any more."""
    if not state.gates:
        return state
    gates = {
        name: replace(gate, status="withdrawn") if gate.status == "open" and is_meant(name) else gate
        for name, gate in state.gates.items()
    }
    return replace(state, gates=gates)


def forward_in(scope: str) -> Callable[[str], bool]:
    """Whether an approval, by its name, is one of the way forward in a scope."""
    return lambda name: not name.endswith(UNDO) and is_in(name, scope)
