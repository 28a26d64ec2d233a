"""What a person must know about a flow: what each step does to the world, how often it is tried, how it is made good,
and who is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.contract import Action
from runner.core.retry import policy
from runner.language.flow import Compensation, Duration, Flow, Step
from runner.telling.times import span

CLASSES: Mapping[str, str] = {
    "read": "changes nothing",
    "keyed": "once, by its key",
    "lookup": "once, looked up",
    "once": "never sent twice",
}
"""What an action's class means for one that reads the table."""

FINAL = "cannot be undone"


@dataclass(frozen=True, kw_only=True, slots=True)
class Duty:
    """One step. `depth` is how many steps it stands in; what does not apply is empty."""

    step: str
    depth: int
    does: str
    effect: str
    tried: str
    made_good: str
    asked: str


def duties(flow: Flow, actions: Mapping[str, Action]) -> tuple[Duty, ...]:
    """Every step of a flow in the order it is written. `actions` as `connection.action`."""
    known = {step.id: step for step in flow.every_step()}
    return tuple(_below(flow.steps, 0, known, actions))


def _below(
    steps: tuple[Step, ...], depth: int, known: Mapping[str, Step], actions: Mapping[str, Action]
) -> Iterator[Duty]:
    for step in steps:
        action = actions.get(step.action)
        yield Duty(
            step=step.id,
            depth=depth,
            does=_does(step),
            effect=_effect(step, action),
            tried=_tried(step, action),
            made_good=_made_good(step, action),
            asked="; ".join(_asked(step, known)),
        )
        for branch in step.branches:
            yield from _below(branch.steps, depth + 1, known, actions)


def _does(step: Step) -> str:
    what = step.action or step.flow or step.event or (_length(step.wait) if isinstance(step.wait, Duration) else "")
    return f"{step.verb} {what}".rstrip()


def _effect(step: Step, action: Action | None) -> str:
    if action is None or step.verb not in ("read", "do"):
        return ""
    return ", ".join([CLASSES[action.effect], *([FINAL] if step.verb == "do" and action.cannot_undo else [])])


def _tried(step: Step, action: Action | None) -> str:
    if action is None or step.verb not in ("read", "do"):
        return ""
    found = policy(action, step.retry, step.verb)
    if found.tries == 1:
        return "once"
    growth = {"none": "", "linear": " growing", "double": " doubling"}[found.growth]
    longest = f" to {span(found.longest)}" if growth and found.longest > found.pause else ""
    return f"{found.tries} times, {span(found.pause)}{growth}{longest}"


def _made_good(step: Step, action: Action | None) -> str:
    words = step.compensate
    if words is None:
        return "it is not said how" if step.verb == "do" else ""
    if words.word == "none":
        return f"not at all: {words.reason}"
    is_own = words.word == "cancel" and not words.action and action is not None and action.undo is not None
    undo = f"{step.action.partition('.')[0]}.{action.undo.action}" if is_own and action and action.undo else ""
    return " ".join(filter(None, (words.word, words.action or undo or words.target)))


def _asked(step: Step, known: Mapping[str, Step]) -> Iterator[str]:
    if step.approval is not None:
        needs = f"{step.approval.needs} of " if step.approval.needs > 1 else ""
        yield f"{needs}{_names(step.approval.by)}, within {_length(step.approval.within)}"
    for gate in step.covered_by:
        found = known.get(gate)
        yield f'{_names(found.approval.by) if found is not None and found.approval is not None else "?"} at "{gate}"'
    if step.unattended:
        yield f"nobody: {step.unattended}"
    if step.hand_off_to:
        yield step.hand_off_to
    if step.compensate is not None:
        yield from _asked_to_make_good(step.compensate)


def _asked_to_make_good(words: Compensation) -> Iterator[str]:
    if words.approve_by:
        yield f"before it is made good: {_names(words.approve_by)}"
    if words.unattended:
        yield f"before it is made good nobody: {words.unattended}"


def _names(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _length(length: Duration) -> str:
    unit = length.unit.replace("_", " ")
    return f"{length.amount} {unit}{'' if length.amount == 1 or unit in ('ms', 's', 'min') else 's'}"
