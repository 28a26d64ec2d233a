"""A flow test from its file to what became of each case."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.drill.world import Connect, Preparing
from runner.errors import AmendsError, InvalidFlow, Problem
from runner.language.bundle import Bundle
from runner.language.project import Project
from runner.language.rehearsed import Rehearsed, load_flow_test
from runner.language.source import read_bytes
from runner.rehearsal.compare import Comparison, Difference
from runner.rehearsal.coverage import Coverage
from runner.rehearsal.script import Reader
from runner.rehearsal.stage import Stage

Connecting = Callable[[Bundle], Connect]
"""The connectors of a bundle; only what prepares a request is used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What became of one case. `line` is where it stands; `differences` have their lines too."""

    case: str
    line: int
    seconds: float
    differences: Sequence[tuple[int, Difference]] = ()

    @property
    def is_green(self) -> bool:
        """Everything was as expected."""
        return not self.differences


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one file. With `problems` no case of it was played."""

    file: str
    flow: str
    text: str = ""
    problems: Sequence[Problem] = ()
    texts: dict[str, str] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    missed: Sequence[str] = ()
    """What of the flow no case has reached; empty where only some cases were played."""

    @property
    def is_green(self) -> bool:
        """Every case is."""
        return not self.problems and all(verdict.is_green for verdict in self.verdicts)


def rehearse(project: Project, file: Path, connecting: Connecting, only: str = "") -> Outcome:
    """Plays the cases of one file; `only` those whose name has this text in it."""
    name = project.name_of(file)
    text, unreadable = read_bytes(file, name)
    test = load_flow_test(text, name)
    problems = [unreadable] if unreadable is not None else list(test.problems)
    flow = test.model.test if test.model is not None else name
    texts = {name: text}
    if problems or test.model is None or test.source is None:
        return Outcome(file=name, flow=flow, problems=problems, texts=texts)
    try:
        bundle = project.bundle(flow)
        stage = Stage(project=project, bundle=bundle, preparing=Preparing(connecting(bundle)))
    except InvalidFlow as wrong:
        return Outcome(file=name, flow=flow, problems=wrong.problems, texts={**texts, **wrong.sources})
    except AmendsError as error:
        problem = test.source.problem("FL101", ("test",), str(error))
        return Outcome(file=name, flow=flow, problems=[problem], texts=texts)
    return _played(project, test, stage, only, texts)


def faults(project: Project, file: Path, connecting: Connecting) -> Outcome:
    """What is wrong with a flow test as it is written; no case of it is played."""
    return rehearse(project, file, connecting, only="\0")


def _played(project: Project, test: Rehearsed, stage: Stage, only: str, texts: dict[str, str]) -> Outcome:
    model, source = test.model, test.source
    assert model is not None
    assert source is not None
    reader = Reader(model, source, stage.bundle)
    ready = []
    for number, case in enumerate(model.cases):
        script = reader.script(number)
        ready.append((script, Comparison(reader, case.expect, script.path, project.people)))
    if reader.problems:
        problems = sorted(dict.fromkeys(reader.problems), key=lambda one: (one.line, one.column))
        return Outcome(file=test.file, flow=model.test, problems=problems, texts=texts)
    coverage, verdicts = Coverage(stage.bundle), []
    for script, comparison in ready:
        if only not in script.name:
            continue
        began = time.perf_counter()
        played = stage.play(script)
        coverage.see(played.events)
        found = [(source.at(each.path).line, each) for each in comparison.differences(played.happened)]
        verdicts.append(Verdict(
            case=script.name, line=source.at((*script.path, "case")).line, differences=found,
            seconds=time.perf_counter() - began,
        ))  # fmt: skip
    return Outcome(
        file=test.file, flow=model.test, texts=texts, verdicts=verdicts, missed=() if only else coverage.missed()
    )  # fmt: skip
