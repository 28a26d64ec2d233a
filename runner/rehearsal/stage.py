"""Plays one case: the flow as it stands in its file, the real core, a made-up world, a clock of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from runner.clock import MINUTE
from runner.contract import Json, digest
from runner.core import events as e
from runner.core.state import State
from runner.drill.world import Answer, Preparing, World
from runner.engine.advance import Turn
from runner.engine.simulated import Simulation, VirtualClock
from runner.engine.starting import Wish, new_run
from runner.errors import EvaluationError, InputsInvalid, NotPossible
from runner.language.bundle import Bundle
from runner.language.dates import read, zone_of
from runner.language.fields import shape_of
from runner.language.people import Person
from runner.language.project import Project
from runner.people.desk import ProjectDesk
from runner.people.post import Channel
from runner.rehearsal.cast import Cast
from runner.rehearsal.happened import Happened, Watched, happened_in
from runner.rehearsal.names import Spot
from runner.rehearsal.script import Script

RUN = "rehearsed"
"""The id that every rehearsed run has, so that what is made out of it is the same each time."""
STARTED = "2026-09-01 09:00"
"""When a case starts that says nothing of it: a Tuesday."""
PATIENCE = 5_000


class _Made(World):
    """The world, where what is made has an id that says by which step: `contact-1`."""

    def __init__(self, bundle: Bundle, preparing: Preparing, script: Script) -> None:
        super().__init__(bundle, preparing, script.answers)
        self._numbers = Counter[str]()

    def _output(self, intent: e.CallIntended, answer: Answer, given: Mapping[str, Json]) -> Mapping[str, Json]:
        output = super()._output(intent, answer, given)
        action = self._bundle.actions[intent.action]
        is_said = "id" in action.input or "id" in (answer.output or {}) or "id" not in output
        if intent.purpose not in ("do", "undo") or is_said or not str(action.output.get("id", "")).startswith("text"):
            return output
        name = intent.step.rpartition("/")[2]
        self._numbers[name] += 1
        return {**output, "id": f"{name}-{self._numbers[name]}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """A case that was played: what happened, and its log."""

    happened: Happened
    events: Sequence[e.Event] = ()
    state: State = field(default_factory=State)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One flow, pinned, where its cases are played."""

    project: Project
    bundle: Bundle
    preparing: Preparing

    def play(self, script: Script) -> Played:
        """One case, from its start to where nothing moves any more."""
        try:
            started = self._started(script)
        except InputsInvalid as wrong:
            said = tuple(
                ((*script.path, "inputs", name), f"input {name} {why}") for name, why in wrong.problems.items()
            )
            return Played(happened=Happened(end="not started", trouble=said))
        except (NotPossible, EvaluationError) as no:
            return Played(happened=Happened(end="not started", trouble=((script.path, str(no)),)))
        world, watched, items = _Made(self.bundle, self.preparing, script), Watched(), dict[str, str]()
        desk = ProjectDesk(lambda: self.project, self._channels)
        cast = Cast(self.bundle, script.parts, world, desk, items)

        def observe(turn: Turn) -> None:
            world.watch(turn)
            watched.see(turn)
            items.update(_items(turn.events))

        simulation = Simulation(
            self.bundle, world, started, people=cast, clock=VirtualClock(started.at), patience=PATIENCE,
            observe=observe, desk=desk,
        )  # fmt: skip
        result = simulation.run()
        trouble = [*cast.trouble, *_unheard(script, world, cast)]
        if result.end == "exhausted":
            trouble.append((script.path, f"it does not come to its end: the clock was turned {PATIENCE:,} times"))
        happened = happened_in(self.bundle, result.events, result.state, watched)
        return Played(
            happened=replace(happened, trouble=tuple(trouble)), events=result.events, state=result.state
        )  # fmt: skip

    def _started(self, script: Script) -> e.RunStarted:
        bundle = self.bundle
        at = _moment(script.now or STARTED, bundle.zone)
        wish = Wish(
            given=_with_files(bundle, script.inputs),
            key=script.key,
            starter=script.by,
            source="test",
            mode=script.mode,
            told=script.trigger,
        )
        return replace(new_run(bundle, wish, now=at)[1], run=RUN)

    def _channels(self, person: Person) -> tuple[Channel, ...]:
        """How somebody would be told, were it real."""
        mail: tuple[Channel, ...] = ("mail",) if person.mail and self.project.settings.tell_by else ()
        return (*mail, "chat") if person.chat else mail


def _moment(text: str, zone: str) -> int:
    moment = read(text, zone)
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, 9, tzinfo=zone_of(zone))
    return int(moment.timestamp()) // 60 * MINUTE


def _with_files(bundle: Bundle, given: Mapping[str, Json]) -> dict[str, Json]:
    """The inputs, where a file may be given by its name alone."""
    files = {name for name, kind in bundle.flow.inputs.items() if (shape := shape_of(kind)) and shape.kind == "file"}
    return {name: _file(one) if name in files and isinstance(one, str) else one for name, one in given.items()}


def _file(name: str) -> dict[str, Json]:
    kind = name.rpartition(".")[2].lower()
    return {"name": name, "size": 1_000, "kind": kind, "sha256": digest(name)}


def _items(events: Sequence[e.Event]) -> dict[str, str]:
    return {one.step: one.name for one in events if isinstance(one, e.ScopeStarted) and one.kind == "item"}


def _unheard(script: Script, world: World, cast: Cast) -> list[tuple[tuple[str | int, ...], str]]:
    """What the case itself has somebody say that nobody asked."""
    unheard = {name for name in script.own if isinstance(name, Spot)} - cast.heard
    silent = unheard | {name for name in script.own if name in world.unasked}
    heard = {path for name, path in script.own.items() if name not in silent}
    paths = dict.fromkeys(path for name, path in script.own.items() if name in silent and path not in heard)
    return [(path, f'"{path[-1]}" says something here, and was never asked') for path in paths]
