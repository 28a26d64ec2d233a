"""Two versions of a flow beside each other: where each step stands, and what has changed, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher, unified_diff
from typing import Any, Literal

from runner.language.bundle import Bundle
from runner.language.flow import MODEL, NUMBERED, Branch, Compensation, Flow, Step

Kind = Literal["added", "removed", "moved", "changed"]
SHORT = 8
"""Signs of a version's digest that people are shown."""
SHOWN = ("flow", "template", "connector", "schema")
"""The texts of a bundle that a person wrote."""

_WORDS: Mapping[str, str] = {
    "with_": "with", "hand_off_to": "hand_off", "approval": "approve", "then_with": "with", "branches": "tools",
}  # fmt: skip
_OF_STEP = tuple(
    f.name for f in fields(Step) if f.name not in ("id", "line", "verb", "action", "branches", "compensate")
)
_OF_FLOW = ("title", "owner", "mode", "run_key", "record", "one_at_a_time", "trigger", "on_failure", "outputs", "keep")


Arm = tuple[tuple[str, str], ...]
"""The containers around a step, outermost first, each with its branch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One thing that is otherwise in the new version. `step` is empty for what concerns the flow as a whole."""

    kind: Kind
    step: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a step stands: the containers around it with their branch, outermost first, and the step before it."""

    path: str
    step: Step
    arm: Arm = ()
    after: str = ""

    def __str__(self) -> str:
        at = f"after {self.after}" if self.after else "at the beginning"
        return at + "".join(f" of {name} of {container}" for container, name in reversed(self.arm))


def places(bundle: Bundle) -> dict[str, Place]:
    """Every step by its path without the numbers of items (`invoices/send`, `log/mail`), as they are written."""
    return {place.path: place for place in _places(bundle, bundle.flow.steps, "", ())}


def _places(bundle: Bundle, steps: tuple[Step, ...], scope: str, arm: Arm) -> Iterator[Place]:
    before = ""
    for step in steps:
        here = scope + step.id
        yield Place(path=here, step=step, arm=arm, after=before)
        before = step.id
        if step.verb == "call":
            yield from _places(bundle, bundle.called[step.flow].steps, f"{here}/", (*arm, (here, f"flow {step.flow}")))
        if step.verb == "agent":
            yield Place(path=f"{here}/{MODEL}", step=step.turn, arm=(*arm, (here, "its model")))
        for number, branch in enumerate(step.branches):
            inside = f"{here}/" if step.verb in NUMBERED else scope
            yield from _places(bundle, branch.steps, inside, (*arm, (here, arm_name(step, number))))


def arm_name(step: Step, number: int) -> str:
    """What a container's branch is called: `branch stock`, `branch 2`, `each item`."""
    names = [branch.name for branch in step.branches]
    called = "tool" if step.verb == "agent" else "branch"
    return "each item" if step.verb == "each" else f"{called} {''.join(names[number : number + 1]) or number + 1}"


def pattern(path: str) -> str:
    """A path of a run's log without the numbers of items."""
    return "/".join(part for part in path.split("/") if not part.isdigit())


def short(digest: str) -> str:
    """A version as people are shown it."""
    return digest[:SHORT]


# --- what has changed ------------------------------------------------------------------------------------------------


def changes(old: Bundle, new: Bundle) -> tuple[Change, ...]:
    """Everything that is otherwise in the new version, steps first; empty where only comments or blanks changed."""
    return (*_of_steps(places(old), places(new)), *_of_flow(old.flow, new.flow), *_around(old, new))


def _of_steps(old: Mapping[str, Place], new: Mapping[str, Place]) -> Iterator[Change]:
    for name in (name for name in old if name not in new):
        yield Change(kind="removed", step=name, text=f"Step {name} is gone ({_does(old[name].step)}).")
    stayed = [name for name in new if name in old]
    in_order = _in_order([name for name in old if name in new], stayed)
    for name, place in new.items():
        if name not in old:
            yield Change(kind="added", step=name, text=f"Step {name} is new: {_does(place.step)}, {place}.")
            continue
        was = old[name]
        if place.arm != was.arm or name not in in_order:
            yield Change(kind="moved", step=name, text=f"Step {name} stands {place} now, not {was}.")
        for text in _of_step(name, was.step, place.step):
            yield Change(kind="changed", step=name, text=text)


def _in_order(old: list[str], new: list[str]) -> set[str]:
    """The names that stand in the same order in both."""
    same = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return {name for block in same for name in new[block.b : block.b + block.size]}


def _does(step: Step) -> str:
    return f"{step.verb} {step.action or step.flow or step.event}".strip()


def _of_step(name: str, old: Step, new: Step) -> Iterator[str]:
    if _does(old) != _does(new):
        yield f"Step {name} is {_does(new)} now, not {_does(old)}."
    if found := differing(old, new, _OF_STEP):
        yield f"Step {name}: {found} changed."
    was, now = old.compensate, new.compensate
    if made_good(was) != made_good(now):
        yield f"Step {name} is made good by {made_good(now)} now, not by {made_good(was)}."
    elif was is not None and now is not None and (found := differing(was, now, _OF_COMPENSATION)):
        yield f"Step {name}: {found} of its compensation changed."


_OF_COMPENSATION = tuple(f.name for f in fields(Compensation) if f.name not in ("word", "action", "target"))


def made_good(words: Compensation | None) -> str:
    """A compensation in a few words: `mark crm.update_contact`, `cancel`, `nothing`."""
    return f"{words.word} {words.action or words.target}".strip() if words is not None else "nothing"


def differing(old: Any, new: Any, names: tuple[str, ...]) -> str:
    """The fields that differ, as the author writes them, a map's by its keys; empty where none does."""
    found: list[str] = []
    for name in names:
        was, now = getattr(old, name), getattr(new, name)
        word = _WORDS.get(name, name)
        was, now = (_without_lines(was), _without_lines(now)) if name == "branches" else (was, now)
        if was == now:
            continue
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            found += [f"{word}.{key}" for key in {**was, **now} if was.get(key) != now.get(key)]
        else:
            found.append(word)
    return " and ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))


def _without_lines(branches: tuple[Branch, ...]) -> list[list[Step]]:
    """What stands in them, wherever in the file that is."""
    return [[replace(step, line=0) for step in branch.steps] for branch in branches]


def _of_flow(old: Flow, new: Flow) -> Iterator[Change]:
    for name in (name for name in old.inputs if name not in new.inputs):
        yield Change(kind="removed", step="", text=f"Input {name} is gone.")
    for name, kind in new.inputs.items():
        if name not in old.inputs:
            yield Change(kind="added", step="", text=f"Input {name} is new.")
        elif old.inputs[name] != kind:
            yield Change(kind="changed", step="", text=f"Input {name} is of another type.")
    for name in _OF_FLOW:
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            words = f"is {now} now, not {was}" if isinstance(was, str) and isinstance(now, str) else "changed"
            yield Change(kind="changed", step="", text=f"The flow's {name} {words}.")


def _around(old: Bundle, new: Bundle) -> Iterator[Change]:
    for name in dict.fromkeys((*old.texts, *new.texts)):
        kind, _, file = name.partition(":")
        if kind not in ("template", "connector", "schema") or old.texts.get(name) == new.texts.get(name):
            continue
        became: Kind = "added" if name not in old.texts else "removed" if name not in new.texts else "changed"
        words = {"added": "is new", "removed": "is gone", "changed": "changed"}[became]
        yield Change(kind=became, step="", text=f"The {kind} {file} {words}.")
    for name, action in new.actions.items():
        if name in old.actions and old.actions[name] != action:
            yield Change(kind="changed", step="", text=f"The connector says something else of {name}.")
    if old.follows != new.follows and old.flow.on_failure == new.flow.on_failure:
        yield Change(kind="changed", step="", text=f"The flow {new.flow.on_failure.then_run} that follows changed.")
    if old.calendar != new.calendar:
        yield Change(kind="changed", step="", text="The business calendar changed.")
    for word in ("zone", "language"):
        was, now = getattr(old, word), getattr(new, word)
        if was != now:
            yield Change(kind="changed", step="", text=f"The project's {word} is {now} now, not {was}.")


# --- the texts -------------------------------------------------------------------------------------------------------


def text_diff(old: Bundle, new: Bundle) -> str:
    """The unified diff of all that a person wrote: the flow, its templates, its connectors, its schema."""
    lines: list[str] = []
    for kind in SHOWN:
        for name in sorted(name for name in {*old.texts, *new.texts} if name.startswith(f"{kind}:")):
            was, now = (bundle.texts.get(name, "").splitlines() for bundle in (old, new))
            labels = [f"{name} ({short(bundle.digest)})" for bundle in (old, new)]
            lines += unified_diff(was, now, labels[0], labels[1], lineterm="")
    return "\n".join(lines)
