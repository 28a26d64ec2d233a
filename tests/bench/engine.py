"""The engine: five-step runs through the whole embedded engine, beside the floor measured in the same run.

    python -m tests.bench engine [--runs 1000] [--at-once 64] [--repeats 3]

`saga`: five HTTP writes of class keyed, each intent and each outcome durable (synchronous FULL), every effect counted at
the service afterwards. `noop`: five steps of an action that does nothing and costs nothing, so that only the engine is
left. Starting the runs is part of both.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools
from runner.engine.starting import Wish
from runner.language.connections import installed
from runner.language.project import Project
from runner.store.lock import EngineLock
from tests.bench import floor
from tests.support.processes import HttpProcess

STEPS = 5

CONNECTOR = """connector: service
title: The measuring service
actions:
  make:
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    cannot_undo: It only counts.
    input: { run: text, step: integer }
    request:
      post: /effects
      json: { run: "${{ input.run }}", step: "${{ input.step }}" }
    output: { id: text or empty }
"""


def write_project(folder: Path, origin: str) -> None:
    """A project with two flows of five steps: `saga` over HTTP and `noop`."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    (folder / "amends.yaml").write_text("limits: { runs_at_once: 64 }\n")
    (folder / "connectors" / "service.yaml").write_text(CONNECTOR)
    (folder / "connections.yaml").write_text(
        f'service: {{ connector: service, origin: "{origin}", allow_private: true }}\nnothing: {{ connector: nothing }}\n'
    )
    for flow, action, extra in (("saga", "service.make", "run: '${{ run.id }}', "), ("noop", "nothing.make", "")):
        steps = "\n".join(
            f"  - id: s{number}\n    do: {action}\n    with: {{ {extra}step: {number} }}\n"
            "    unattended: It only counts.\n    compensate: { none: It only counts. }"
            for number in range(STEPS)
        )
        (folder / "flows" / f"{flow}.yaml").write_text(
            f"flow: {flow}\ntitle: Measured\nowner: person:me\nmode: live\nrun_key: ${{{{ trigger.id }}}}\nsteps:\n{steps}\n"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Nothing:
    """A connection whose one action does nothing, at no cost."""

    actions: Mapping[str, Action]

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        return Request.of({"do": "nothing", "input": dict(input)})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        return Outcome(result="applied")

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return "nothing:"


class NothingKind:
    """The connector of `Nothing`."""

    name = "nothing"
    title = "Does nothing"

    def settings(self) -> Mapping[str, Json]:
        return {}

    def actions(self) -> Mapping[str, Action]:
        make = Action(
            name="make", effect="keyed", key_life=86_400_000, input={"step": "integer"}, cannot_undo="Nothing was done."
        )
        return {"make": make}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        return Nothing(actions=self.actions())


async def measure(folder: Path, flow: str, *, runs: int, at_once: int, repeats: int) -> floor.Measured:
    """The same measures as the floor's, with every call made by a run."""
    kinds = installed()
    kinds.python = {**kinds.python, "nothing": NothingKind()}
    project = Project.open(folder, kinds=kinds)
    driver = OwnDriver(project, MachineClock(), EngineLock(folder))
    async with driver.running():
        bundle = project.bundle(flow)

        async def one_run(number: int) -> None:
            started = await driver.start_bundle(bundle, Wish())
            await driver.engine.rest(started.run)

        warm = min(runs, 2 * at_once)
        await floor.timed(one_run, runs=warm, at_once=at_once)
        found = [await floor.timed(one_run, runs=runs, at_once=at_once) for _ in range(repeats)]
        single = []
        for number in range(floor.ALONE):
            began = time.perf_counter()
            await one_run(number)
            single.append(time.perf_counter() - began)
        total = warm + runs * repeats + floor.ALONE
        ended = driver.store.counts().get("succeeded", 0)
        assert ended == total or flow != "saga", f"{total} runs were started and {ended} succeeded"
    found.sort(key=lambda each: each.cpu)
    return floor.Measured(
        figures=found[len(found) // 2],
        calls=STEPS * total,
        alone_p50=statistics.median(single) * 1000,
        spread=(found[0].cpu_ms_per_run, found[-1].cpu_ms_per_run),
    )


def main(arguments: list[str]) -> int:
    """Prints floor and engine side by side."""
    asked = argparse.ArgumentParser(prog="python -m tests.bench engine", description="What the engine adds to calls.")
    asked.add_argument("--runs", type=int, default=1000)
    asked.add_argument("--at-once", type=int, default=64)
    asked.add_argument("--repeats", type=int, default=3)
    given = asked.parse_args(arguments)
    wanted = {"runs": given.runs, "at_once": given.at_once, "repeats": given.repeats}
    with HttpProcess(keep_requests=False) as service, tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "bench"
        write_project(folder, service.origin)
        bare = asyncio.run(floor.measure(service.origin, **wanted))
        saga = asyncio.run(measure(folder, "saga", **wanted))
        noop = asyncio.run(measure(folder, "noop", **wanted))
        effects = len(service.ledger()["effects"])
    print(f"{floor.machine()}; {given.runs} runs of {STEPS} steps, {given.at_once} at once, median of {given.repeats}")
    print(floor.told("floor: the calls, no engine", bare))
    print(floor.told("saga: five HTTP steps", saga))
    print(floor.told("noop: five empty steps", noop))
    ratio = saga.figures.cpu_ms_per_run / bare.figures.cpu_ms_per_run
    steps = noop.figures.runs_per_second * STEPS
    print(f"saga, CPU to the floor {ratio:.2f}; noop {steps:.0f} steps/s; synchronous FULL throughout")
    if effects != bare.calls + saga.calls:
        print(f"The service saw {effects} effects of {bare.calls + saga.calls} calls: the figures are worth nothing.")
        return 1
    return 0
