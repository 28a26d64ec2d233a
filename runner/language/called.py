"""Other flows of the project that a flow names: those it calls, and the one that follows its failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from runner.errors import InvalidFlow, Problem
from runner.language.facts import ProjectFacts
from runner.language.flow import Flow
from runner.language.load import load_flow
from runner.language.source import Place, Source, problem_at


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedFlow:
    """One flow and everything that is wrong with it. `text` is the file's text, for showing lines."""

    file: str
    text: str
    flow: Flow | None
    source: Source | None
    problems: tuple[Problem, ...]

    @property
    def is_fit_to_run(self) -> bool:
        """Whether there is no error."""
        return self.flow is not None and not any(found.level == "error" for found in self.problems)


def named_flow(facts: ProjectFacts, name: str) -> CheckedFlow | None:
    """Another flow of the project with the problems of its shape; None where there is none."""
    file = facts.flows.get(name, "")
    found = facts.read_file(file) if file else None
    if found is None:
        return None
    text, unreadable = found
    if unreadable is not None:
        return CheckedFlow(file=file, text="", flow=None, source=None, problems=(unreadable,))
    flow, source, problems = load_flow(text, file, facts.read_file)
    return CheckedFlow(file=file, text=text, flow=flow, source=source, problems=problems)


def calls_of(flow: Flow) -> Iterator[str]:
    """The flows that a flow calls itself."""
    yield from (step.flow for step in flow.every_step() if step.verb == "call")


def every_called(flow: Flow, facts: ProjectFacts) -> dict[str, tuple[Flow, str]]:
    """Every flow that is called, directly or by another one, with its text. Raises InvalidFlow."""
    found: dict[str, tuple[Flow, str]] = {}
    waiting = [*calls_of(flow)]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = fit_flow(flow, name, facts)
            waiting += calls_of(found[name][0])
    for name, (other, _) in found.items():
        for further in calls_of(other):
            ring = ring_of(name, further, lambda one: calls_of(found[one][0]))
            if ring:
                raise InvalidFlow((_no_flow(flow, f"the flows call each other without end: {' -> '.join(ring)}"),), {})
    return found


def every_part(flow: Flow, facts: ProjectFacts) -> Iterator[Flow]:
    """The flow, those it calls, and what follows its failure with those. Raises InvalidFlow."""
    yield flow
    yield from (called for called, _ in every_called(flow, facts).values())
    if flow.on_failure.then_run:
        yield from every_part(fit_flow(flow, flow.on_failure.then_run, facts)[0], facts)


def fit_flow(flow: Flow, name: str, facts: ProjectFacts) -> tuple[Flow, str]:
    """The flow that `flow` names, with its text. Raises InvalidFlow where there is none, or its shape is wrong."""
    other = named_flow(facts, name)
    if other is None:
        raise InvalidFlow((_no_flow(flow, f'there is no flow "{name}"'),), {})
    if other.flow is None or not other.is_fit_to_run:
        raise InvalidFlow(other.problems, {other.file: other.text})
    return other.flow, other.text


def _no_flow(flow: Flow, what: str) -> Problem:
    return problem_at(flow.file, Place(line=1, column=1), "FL101", what)


def ring_of(start: str, through: str, next_of: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """The shortest way from `start` through `through` back to `start`; empty where none leads back."""
    ways: list[tuple[str, ...]] = [(start, through)]
    seen = {through}
    while ways:
        way = ways.pop(0)
        if way[-1] == start:
            return way
        further = [name for name in dict.fromkeys(next_of(way[-1])) if name not in seen]
        seen.update(further)
        ways += [(*way, name) for name in further]
    return ()
