"""Which names an expression can see at a place in a run, and the values behind them."""

from __future__ import annotations

from collections.abc import Mapping

from runner.clock import iso
from runner.contract import Json
from runner.core.paths import list_of, number_of, outwards, scope_of
from runner.core.state import Failure, State


def names_in_reach(
    state: State, scope: str = "", *, output: Mapping[str, Json] | None = None, failure: Failure | None = None,
    wanted: frozenset[str] | None = None,
) -> dict[str, Json]:  # fmt: skip
    """The scope of FLOW-LANGUAGE's expressions: only plain data, only what has happened.

    An item sees what is around it; a called flow sees its own inputs and steps alone; an agent's tool what it is given
    (`input`). A step that was skipped or failed has no entry under `steps`, so that using it is a missing value.
    Where only some names are `wanted` the others may be left out.
    """
    if wanted is not None and wanted <= RUN_ALONE:
        return {"run": _run_names(state), "trigger": state.trigger} if wanted else {}
    seen, inputs, inner = _around(state, scope)
    steps: dict[str, Json] = {}
    outcome: dict[str, Json] = {}
    for path, step in state.steps.items():
        place = scope_of(path)
        if place not in seen:
            continue
        name = path[len(place) + 1 :] if place else path
        if step.status in ("done", "found", "refused"):
            is_covered = bool(state.gates) and step.input and any(path in gate.covers for gate in state.gates.values())
            steps[name] = {**step.output, "sent": step.input} if is_covered else step.output
        if step.outcome:
            outcome[name] = step.outcome
    names: dict[str, Json] = {
        "inputs": inputs,
        "steps": steps,
        "outcome": outcome,
        "run": _run_names(state),
        "trigger": state.trigger,
    }
    names |= inner
    if output is not None:
        names["output"] = output
    if failure is not None:
        names["failure"] = failure.as_names()
    return names


RUN_ALONE = frozenset({"run", "trigger"})
"""Names whose values are the same wherever they stand in a run."""


def _run_names(state: State) -> dict[str, Json]:
    return {"id": state.run, "flow": state.flow, "mode": state.mode, "started_at": iso(state.started_at)}


def _around(state: State, scope: str) -> tuple[set[str], Mapping[str, Json], dict[str, Json]]:
    """(the scopes whose steps are in reach, the inputs, what the innermost item and an agent's tool are named by)."""
    seen: set[str] = set()
    inner: dict[str, Json] = {}
    for around in outwards(scope):
        seen.add(around)
        each, inside = list_of(around), state.scopes.get(around)
        if each in state.lists:
            inner.setdefault("item", state.lists[each].items[number_of(around)])
        elif inside is not None and inside.kind == "tool":
            inner["input"] = inside.inputs["input"]
        elif inside is not None and inside.kind == "call":
            return seen, inside.inputs, inner
    return seen, state.inputs, inner
