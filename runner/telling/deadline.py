"""Until when an open approval can be decided."""

from __future__ import annotations

from collections.abc import Callable

from runner.core.consents import UNDO
from runner.core.state import State
from runner.language.bundle import Bundle
from runner.tongue import _, point


def time_to_decide(bundle: Bundle, state: State, zone: str, named: Callable[[str], str]) -> str:
    """When silence is a no, and who is asked too before that; of the first that is open, empty where none is."""
    name, gate = next(((name, one) for name, one in state.gates.items() if one.status == "open"), ("", None))
    if gate is None:
        return ""
    until = point(gate.due, zone, exact=True)
    approval = bundle.step(name).approval if gate.half and not name.endswith(UNDO) else None
    if approval is None:
        return until
    asked = _("{who} is asked too at {time}", who=named(approval.escalate_to), time=point(gate.half, zone, exact=True))
    return f"{until}; {asked}"
