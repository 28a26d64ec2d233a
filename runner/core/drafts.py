"""A draft run: what a step does instead of its action. Whatever it leaves outside is a draft, and can be removed.

Its drafts are the `do` calls of the run, of the action that leaves them and under keys of their own; the run's effects
are the drafts that are left. Any other `do` is only written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runner.contract import Action, Json
from runner.core import events as e
from runner.core.calls import CallPlan
from runner.core.changes import part_outputs
from runner.core.place import Place
from runner.core.retry import policy
from runner.core.state import State
from runner.language.samples import sample_output


def drafts_left(state: State) -> int:
    """How many drafts of a draft run are at the services now."""
    there = ("pending", "stands", "by_hand")
    return state.left(*there) + sum(effect.disposition in there for effect in state.effects.values())


def drafting(place: Place) -> tuple[str, Action] | None:
    """The action that leaves a draft in the place of a step's own; None where it has no draft form."""
    draft = place.bundle.actions[place.step.action].draft
    if draft is None:
        return None
    name = f"{place.step.action.partition('.')[0]}.{draft.action}"
    return name, place.bundle.actions[name]


def draft_input(place: Place, whole: Mapping[str, Json]) -> Mapping[str, Json]:
    """What the draft is made of, out of what would have been sent. Raises EvaluationError."""
    draft, found = place.bundle.actions[place.step.action].draft, drafting(place)
    assert draft is not None
    assert found is not None
    alike = {name: value for name, value in whole.items() if name in found[1].input}
    return {**alike, **place.value(dict(draft.with_), {"input": whole})}


def as_draft(place: Place, plan: CallPlan) -> CallPlan:
    """The call that leaves the draft. It keeps no record from other runs, and is covered by nothing: it sends nothing.

    Raises EvaluationError.
    """
    found = drafting(place)
    if found is None:
        return plan
    name, action = found
    return replace(
        plan, action_name=name, action=action, input=draft_input(place, plan.input), whole=plan.input,
        retry=policy(action, place.step.retry, "do"), limit=place.step.timeout or action.timeout,
        asks_by="lookup" if action.has_lookup else None, author_key="", records=(), lock=(), gates=(),
    )  # fmt: skip


def write_down(place: Place, whole: Mapping[str, Json], why: str = "") -> e.DraftRecorded:
    """What would have been sent, answered by the sample; what the draft answered under the same names is true.

    `why` no draft could be left: what it is made of may be a sample too, so this fails no draft run.
    """
    action = place.bundle.actions[place.step.action]
    told = part_outputs(place.state, place.path, "do")
    true = {name: value for name, value in told.items() if name in action.output}
    output = {**sample_output(action, whole), **true}
    return e.DraftRecorded(at=place.now, step=place.path, action=place.step.action, input=whole, output=output, why=why)
