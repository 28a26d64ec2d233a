"""The failure table of a flow: every step, every way it can fail, and what each leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runner.contract import Json, digest
from runner.core import events as e
from runner.drill.persons import Persons
from runner.drill.places import Places
from runner.drill.rows import ENDED_WELL, Row, row_of
from runner.drill.situations import SEVERAL, Seen, Situation, situations
from runner.drill.ways import CALM, WAYS, Course, Death, Trial, pattern_of, trials
from runner.drill.world import Preparing, World
from runner.engine.driven import OPEN_DESK, Desk
from runner.engine.simulated import Calm, Result, Simulation
from runner.engine.starting import Wish, new_run
from runner.errors import InputsInvalid, NotPossible
from runner.language.bundle import Bundle

BEGINS = 1_788_220_800_000
"""When a drill begins, ms since the epoch: 2026-09-01 00:00 UTC."""
STARTER = "person:starter"
PATIENCE = 5_000
"""How often time moves on before a run counts as never through."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreached:
    """A step, or a branch (`size#1`) or length of a list (`letters*3`), that no situation led to."""

    step: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Drill:
    """The whole table. `trials` is how many runs it took, `seconds` how long; `left_out` counts the rows that were not
    tried for lack of time. `calm` are the runs in which nothing goes wrong.
    """

    flow: str
    title: str
    digest: str
    rows: tuple[Row, ...]
    situations: tuple[Situation, ...]
    unreached: tuple[Unreached, ...]
    trials: int
    seconds: float
    left_out: int = 0
    calm: tuple[Row, ...] = ()

    @property
    def untold(self) -> tuple[Row, ...]:
        """The rows that leave an effect of which nobody is told."""
        return tuple(row for row in self.rows if row.is_untold)

    @property
    def failing(self) -> tuple[Row, ...]:
        """The runs that do not end well though nothing goes wrong; an approval that is meant to be a no is none."""
        return tuple(row for row in self.calm if row.end not in ENDED_WELL and not self._is_meant(row))

    def _is_meant(self, row: Row) -> bool:
        """A no or a refusal that the situation begins with is where it fails."""
        chosen = (choice.origin for number in row.situations for choice in self.situations[number].choices)
        return ("outcome", row.failed_at) in chosen


class Driller:
    """Runs the trials of one flow; nothing ever leaves."""

    def __init__(self, bundle: Bundle, preparing: Preparing, desk: Desk = OPEN_DESK) -> None:
        self.bundle = bundle
        self.places = Places.of(bundle)
        self.preparing = preparing
        self._desk = desk
        self._starts: dict[str, e.RunStarted] = {}
        self.runs = 0
        self.wrong: list[str] = []
        """Why inputs were not taken."""

    def drill(self, given: Sequence[tuple[str, Mapping[str, Json]]] = (), within: float = math.inf) -> Drill:
        """The table, for inputs of the author's (with their names) or for made ones; no trial begins later than
        `within` seconds. Raises NotPossible where no inputs are taken.
        """
        began = time.perf_counter()
        found = situations(self.places, given, self._seen)
        courses = [course for situation in found if (course := self.course(situation)) is not None]
        if not courses:
            why = self.wrong[0] if self.wrong else "no run could be begun"
            raise NotPossible(
                f"the drill found no inputs for flow {self.bundle.flow.id} ({why}); give some: --inputs FILE"
            )
        calm = tuple(self._calm(courses))
        rows, left_out = self._rows(courses, began + within)
        return Drill(
            flow=self.bundle.flow.id, title=self.bundle.flow.title, digest=self.bundle.digest, rows=tuple(rows),
            situations=tuple(found), unreached=tuple(self._unreached(courses, calm)), trials=self.runs,
            seconds=time.perf_counter() - began, left_out=left_out, calm=calm,
        )  # fmt: skip

    def _rows(self, courses: Sequence[Course], until: float) -> tuple[list[Row], int]:
        """Rows that say the same of several situations are one; with how many were left out."""
        merged: dict[Row, list[int]] = {}
        left_out = 0
        for number, course in enumerate(courses):
            for trial in trials(self.bundle, course):
                if time.perf_counter() >= until:
                    left_out += 1
                    continue
                merged.setdefault(self.row(trial), []).append(number)
        order = {pattern: place for place, pattern in enumerate(self.places.stands)}
        kept = sorted(merged, key=lambda row: (order[row.step], WAYS.index(row.way), merged[row]))
        return [replace(row, situations=tuple(merged[row])) for row in kept], left_out

    def _calm(self, courses: Sequence[Course]) -> Iterator[Row]:
        merged: dict[Row, list[int]] = {}
        for number, course in enumerate(courses):
            merged.setdefault(self.row(Trial(step="", way=CALM, situation=course.situation)), []).append(number)
        return (replace(row, situations=tuple(numbers)) for row, numbers in merged.items())

    def row(self, trial: Trial) -> Row:
        """One trial, run."""
        world, result = self.run(trial.situation, trial)
        return row_of(self.bundle, trial, world, result)

    def course(self, situation: Situation) -> Course | None:
        """The run without a fault; None where its inputs are not taken."""
        try:
            _, result = self.run(situation)
        except (InputsInvalid, NotPossible) as error:
            self.wrong.append(str(error))
            return None
        return Course(situation=situation, events=result.events, state=result.state)

    def run(self, situation: Situation, trial: Trial | None = None) -> tuple[World, Result]:
        """A simulated run. Raises InputsInvalid, NotPossible."""
        self.runs += 1
        world = World(self.bundle, self.preparing, situation.script)
        dies_at = trial.dies_at if trial is not None else None
        simulation = Simulation(
            self.bundle, world, self._started(situation.inputs), people=Persons(situation.plan), observe=world.watch,
            weather=Death(world, dies_at) if dies_at is not None else Calm(), desk=self._desk,
            patience=PATIENCE,
        )  # fmt: skip
        return world, simulation.run()

    def _started(self, inputs: Mapping[str, Json]) -> e.RunStarted:
        name = digest(dict(inputs))
        if name not in self._starts:
            wish = Wish(given=inputs, key="drill", source="drill", starter=STARTER, mode="live", told=self._told)
            self._starts[name] = replace(new_run(self.bundle, wish, now=BEGINS)[1], run="drill")
        return self._starts[name]

    @property
    def _told(self) -> Mapping[str, Json]:
        """What started it: a person, where one may."""
        kinds = [next(iter(trigger), "manual") for trigger in self.bundle.flow.trigger]
        return {} if "manual" in kinds or not kinds else {kinds[0]: "drill"}

    def _seen(self, situation: Situation) -> Seen | None:
        course = self.course(situation)
        return None if course is None else seen_in(course)

    def _unreached(self, courses: Sequence[Course], calm: Sequence[Row]) -> Iterator[Unreached]:
        came = [seen_in(course) for course in courses]
        steps = frozenset().union(*(one.steps for one in came))
        ways = frozenset().union(*(one.ways for one in came))
        failed = {row.failed_at for row in calm}
        for pattern, stand in self.places.stands.items():
            if pattern not in steps and pattern in failed:
                yield Unreached(step=pattern, why="failed")
            elif pattern not in steps:
                yield Unreached(step=pattern, why=self._why(pattern, steps))
            elif stand.step.verb == "choose":
                numbers = range(len(stand.step.branches))
                yield from (
                    Unreached(step=f"{pattern}#{n}", why="branch") for n in numbers if f"{pattern}#{n}" not in ways
                )
            elif stand.step.verb == "each" and isinstance(stand.step.each, str):
                counts = (0, 1, SEVERAL)
                yield from (
                    Unreached(step=f"{pattern}*{n}", why="list") for n in counts if f"{pattern}*{n}" not in ways
                )

    def _why(self, pattern: str, steps: frozenset[str]) -> str:
        stand = self.places.stands[pattern]
        if stand.guards:
            return "condition"
        before = [other for other in self.places.stands if other not in steps]
        return "condition" if before and before[0] != pattern else "before"


def seen_in(course: Course) -> Seen:
    """What a run without a fault came by."""
    skipped = {event.step for event in course.events if isinstance(event, e.StepSkipped) and event.why != "no"}
    begun: set[str] = set()
    ways: set[str] = set()
    failed: set[str] = set()
    for event in course.events:
        if isinstance(event, e.StepFailed | e.ForwardClosed):
            failed.add(pattern_of(event.step))
        elif event.step and event.step not in skipped:
            begun.add(pattern_of(event.step))
        if isinstance(event, e.BranchChosen):
            ways.add(f"{pattern_of(event.step)}#{event.branch}")
        elif isinstance(event, e.ScopeStarted) and event.kind == "each":
            count = len(event.value)
            ways.add(f"{pattern_of(event.step)}*{min(count, SEVERAL)}")
    return Seen(steps=frozenset(begun), ways=frozenset(ways), fell=frozenset(failed - begun))
