"""Where a step stands in its flow's text: in which branch, in which item, and in what order it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.language.bundle import Bundle
from runner.language.flow import MODEL, NUMBERED, Flow, Step


@dataclass(frozen=True, kw_only=True)
class Written:
    """A step in its file: its number, and the branches that it stands in, outermost first (of an `each` the only one)."""

    step: Step
    number: int
    branches: tuple[tuple[str, int], ...]

    def inmost(self, written: Mapping[str, Written]) -> tuple[tuple[str, int], ...]:
        """The branches inside the innermost `each` around it."""
        lists = [at for at, (id, _) in enumerate(self.branches) if written[id].step.verb in NUMBERED]
        return self.branches[lists[-1] + 1 :] if lists else self.branches


OLDER: dict[str, list[Flow]] = {}
"""By a bundle's digest: the texts that the run was moved away from, oldest first. What is not in the last is theirs."""
_FLOWS: dict[tuple[str, str], dict[str, Written]] = {}
_LANES: dict[tuple[str, str], dict[str, int]] = {}


def written(bundle: Bundle, flow: Flow) -> dict[str, Written]:
    """Every step of one flow, by its id."""
    key = (bundle.digest, flow.id)
    if key not in _FLOWS:
        found: dict[str, Written] = {}
        for text in (*OLDER.get(bundle.digest, ()), flow):
            if text.id == flow.id:
                _read(text.steps, (), found)
        _FLOWS[key] = found
    return _FLOWS[key]


def _read(steps: tuple[Step, ...], around: tuple[tuple[str, int], ...], found: dict[str, Written]) -> None:
    for step in steps:
        found[step.id] = Written(step=step, number=len(found), branches=around)
        if step.verb == "agent":
            found.setdefault(MODEL, Written(step=step.turn, number=len(found), branches=(*around, (step.id, 0))))
        for number, branch in enumerate(step.branches):
            _read(branch.steps, (*around, (step.id, number)), found)


def lanes(bundle: Bundle, path: str) -> dict[str, int]:
    """For every choose and parallel around a path the branch, for every list around it the item."""
    key = (bundle.digest, path)
    if key not in _LANES:
        _LANES[key] = dict(_lanes(bundle, path))
    return _LANES[key]


def _lanes(bundle: Bundle, path: str) -> Iterator[tuple[str, int]]:
    flow, scope, parts = bundle.flow, "", path.split("/")
    while parts:
        name = parts.pop(0)
        steps = written(bundle, flow)
        if name not in steps:  # the run was moved to a text that no longer has it
            return
        for id, branch in steps[name].inmost(steps):
            yield scope + id, branch
        step = steps[name].step
        if step.verb in NUMBERED and parts:
            yield scope + name, int(parts[0])
            scope += f"{name}/{parts.pop(0)}/"
        elif step.verb == "call":
            flow, scope = bundle.called[step.flow], f"{scope}{name}/"


def are_beside(bundle: Bundle, one: str, other: str, *, at_once: bool = False) -> bool:
    """They stand in different branches of one parallel or in different items of one list.

    With `at_once`: in different branches of a parallel that is made good at once.
    """
    theirs = lanes(bundle, other)
    for scope, number in lanes(bundle, one).items():
        step = bundle.step(scope)
        may_differ = step.compensate_at_once if at_once else step.verb in ("parallel", "each")
        if may_differ and theirs.get(scope, number) != number:
            return True
    return False


def standing_in(bundle: Bundle, scope: str, branch: int | None = None) -> list[str]:
    """The steps that stand in a scope itself: the run (""), an item, a called flow, or a choose or parallel (one branch
    of it, if given). What a list in it or a called flow holds is left out.
    """
    prefix, inside, flow = "", "", bundle.flow
    if scope.rpartition("/")[2].isdigit():
        prefix, inside = f"{scope}/", scope.split("/")[-2]
        flow = bundle.flow_at(scope)
    elif scope:
        step = bundle.step(scope)
        head = scope.rpartition("/")[0]
        flow = bundle.flow_at(scope if step.verb == "call" else head)
        prefix = f"{scope}/" if step.verb == "call" else f"{head}/" if head else ""
        inside = "" if step.verb == "call" else step.id
    steps = written(bundle, flow)
    found = []
    for id, each in steps.items():
        lists = [name for name, _ in each.branches if steps[name].step.verb in NUMBERED]
        inmost = dict(each.inmost(steps))
        if inside and steps[inside].step.verb in NUMBERED:
            is_in = bool(lists) and lists[-1] == inside
        elif inside:
            is_in = inside in inmost and branch in (None, inmost[inside])
        else:
            is_in = not lists
        if is_in:
            found.append(prefix + id)
    return found


def order_of(bundle: Bundle, path: str, begun: Mapping[str, int]) -> tuple[int, ...]:
    """Where a path comes among others in the order they are written; items in the order they have `begun`."""
    flow, scope, parts, found = bundle.flow, "", path.split("/"), []
    while parts:
        name = parts.pop(0)
        one = written(bundle, flow)[name]
        found.append(one.number)
        if one.step.verb in NUMBERED and parts:
            scope += f"{name}/{parts.pop(0)}"
            found.append(begun.get(scope, 0))
            scope += "/"
        elif one.step.verb == "call":
            flow, scope = bundle.called[one.step.flow], f"{scope}{name}/"
    return tuple(found)
