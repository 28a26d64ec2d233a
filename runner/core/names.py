"""Which names an expression can see at a place in a run, and the values behind them."""

from __future__ import annotations

from collections.abc import Mapping

from runner.clock import iso
from runner.contract import Json
from runner.core.state import Failure, State


def names_in_reach(
    state: State, *, output: Mapping[str, Json] | None = None, failure: Failure | None = None
) -> dict[str, Json]:
    """The scope of FLOW-LANGUAGE's expressions: only plain data, only what has happened.

    A step that was skipped or failed has no entry under `steps`, so that using it is a missing value.
    """
    names: dict[str, Json] = {
        "inputs": state.inputs,
        "steps": {
            path: step.output for path, step in state.steps.items() if step.status in ("done", "found", "refused")
        },
        "outcome": {path: step.outcome for path, step in state.steps.items() if step.outcome},
        "run": {"id": state.run, "flow": state.flow, "mode": state.mode, "started_at": iso(state.started_at)},
        "trigger": state.trigger,
    }
    if output is not None:
        names["output"] = output
    if failure is not None:
        names["failure"] = failure.as_names()
    return names
