"""Drills and simulations of a project's own flows: its connectors prepare, its people are asked, nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.clock import MachineClock
from runner.contract import Json, Outcome, Request
from runner.core import events as e
from runner.drill.persons import Persons
from runner.drill.situations import situation_of
from runner.drill.table import Drill, Driller
from runner.drill.world import Ask, Preparing, World
from runner.engine.perform import perform
from runner.engine.simulated import Result, Simulation
from runner.engine.starting import Wish, new_run
from runner.language.bundle import Bundle
from runner.language.project import Project
from runner.outside import ProjectOutside
from runner.people.desk import ProjectDesk


def driller_of(project: Project, flow: str) -> Driller:
    """Who drills a flow as it stands now. Raises NotFound, InvalidFlow."""
    outside = ProjectOutside(project)
    return Driller(project.bundle(flow), Preparing(outside.present), ProjectDesk(lambda: project))


def drill_of(project: Project, flow: str, given: Sequence[tuple[str, Mapping[str, Json]]] = ()) -> Drill:
    """The failure table of a flow as it stands now. Raises NotFound, InvalidFlow, NotPossible."""
    return driller_of(project, flow).drill(given)


class RealReads:
    """Answers reads and finds with the services' own word; models are not asked, and our own tables have samples."""

    def __init__(self, bundle: Bundle, outside: ProjectOutside, runner: asyncio.Runner) -> None:
        self._bundle = bundle
        self._outside = outside
        self._runner = runner

    def __call__(self, intent: e.CallIntended, request: Request, given: Mapping[str, Json]) -> Outcome | None:
        """See `world.Ask`."""
        action = self._bundle.actions[intent.action]
        if intent.purpose not in ("read", "find") or action.own or action.from_ai or action.is_agent:
            return None
        connection = intent.action.partition(".")[0]
        return self._runner.run(perform(self._outside.present(connection), intent, request))


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulated:
    """A run that sent nothing: what it would have sent, and where it came to."""

    bundle: Bundle
    world: World
    result: Result


def simulate(project: Project, flow: str, wish: Wish, reads: str, recording: Sequence[e.Event] = ()) -> Simulated:
    """One run of a flow as it stands now, with nothing sent: approvals are a yes, waits are over at once, events come.

    `reads`: real, or anything else for samples; what a `recording` answers comes before samples, for writes too.
    Raises NotFound, InvalidFlow, InputsInvalid, NotPossible.
    """
    driller, outside = driller_of(project, flow), ProjectOutside(project)
    bundle = driller.bundle
    _, started = new_run(bundle, wish, now=MachineClock().now())
    situation = situation_of(driller.places, started.inputs, ())
    with asyncio.Runner() as runner:
        ask: Ask = RealReads(bundle, outside, runner) if reads == "real" else recorded(recording)
        script = {name: said for name, said in situation.script.items() if name.purpose != "read" or reads == "none"}
        world = World(bundle, driller.preparing, script, ask)
        simulation = Simulation(
            bundle, world, started, people=Persons(situation.plan), observe=world.watch,
            desk=ProjectDesk(lambda: project), patience=2_000,
        )  # fmt: skip
        try:
            result = simulation.run()
        finally:
            runner.run(outside.close())
    return Simulated(bundle=bundle, world=world, result=result)


def recorded(events: Sequence[e.Event]) -> Ask:
    """Answers as an earlier run was answered, at the same place of the flow."""
    known: dict[tuple[str, str, int], e.CallApplied | e.CallSettled] = {}
    for event in events:
        if isinstance(event, e.CallApplied) or (isinstance(event, e.CallSettled) and event.result == "applied"):
            known[event.call] = event

    def ask(intent: e.CallIntended, request: Request, given: Mapping[str, Json]) -> Outcome | None:
        event = known.get(intent.call)
        if event is None:
            return None
        count = event.count if isinstance(event, e.CallApplied) else None
        return Outcome(result="applied", output=event.output, external_id=event.external_id, count=count)

    return ask
