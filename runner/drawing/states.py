"""How far a run is, step by step, for the picture of its flow."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core.state import State
from runner.language.flow import Flow
from runner.tongue import marked

STATES: Mapping[str, str] = {
    "failed": marked("failed"),
    "waiting": marked("waiting"),
    "undone": marked("made good"),
    "done": marked("done"),
    "skipped": marked("skipped"),
}
"""What each state is called; of several items of a list the first of these counts."""


def states_of(flow: Flow, state: State) -> dict[str, str]:
    """The state of each step of the flow itself that has begun; those of a called flow are not among them."""
    calls = {step.id for step in flow.every_step() if step.verb == "call"}
    found: dict[str, set[str]] = {}
    for path in state.steps:
        names = [part for part in path.split("/") if not part.isdigit()]
        if not calls.intersection(names[:-1]):
            found.setdefault(names[-1], set()).add(_of_one(state, path))
    return {name: next(word for word in STATES if word in words) for name, words in found.items()}


def _of_one(state: State, path: str) -> str:
    step, undo = state.steps[path], state.undo.get(path)
    if undo is not None and undo.status == "done":
        return "undone"
    is_faulty = step.status in ("refused", "failed") or (state.failure is not None and state.failure.step == path)
    if is_faulty or (undo is not None and undo.status in ("failed", "handed_off")):
        return "failed"
    if step.status == "open":
        return "skipped" if state.has_ended else "waiting"
    return "skipped" if step.status == "skipped" else "done"
