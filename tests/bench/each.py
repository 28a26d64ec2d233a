"""A list in one run: time, items a second and peak memory by the number of items, beside the same calls with no engine.

    python -m tests.bench each [--items 10000,100000] [--at-once 50] [--kind http|records|wait|undone]

Each figure is a process of its own, with an empty database: a read gives the list, each item makes one keyed HTTP call
(or writes one entry of our own tables, or only waits a second), every fact durable. `undone` fails after the list, so
that every item is taken back by one more call. What the service truly saw is counted afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
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
from tests.support.processes import ROOT, HttpProcess

CONNECTOR = """connector: service
title: The measuring service
actions:
  make:
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    cannot_undo: It only counts.
    input: { number: text }
    request:
      post: /effects
      json: { number: "${{ input.number }}" }
    success: ${{ response.status == 201 }}
    output: { id: text or empty }
  never:
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    cannot_undo: It is never done.
    input: {}
    request: { delete: /nothing }
    output: {}
"""
FLOW = """flow: many
title: Measured
owner: person:me
mode: live
run_key: ${{ trigger.id }}
inputs: { count: integer }
steps:
  - { id: rows, read: source.rows, with: { count: "${{ inputs.count }}" } }
  - id: all
    each: ${{ steps.rows.rows }}
    named: ${{ item.number }}
    at_once: %s
    if_one_fails: continue
    steps:
      - id: send
%s
outputs: { done: "${{ steps.all.done }}" }
"""
STEPS = {
    "http": """        do: service.make
        with: { number: "${{ item.number }}" }
        unattended: It only counts.
        compensate: { none: It only counts. }""",
    "records": """        do: records.create
        with: { collection: sent, number: "${{ item.number }}" }
        compensate: cancel""",
    "wait": "        wait: 1 s",
    "undone": """        do: service.make
        with: { number: "${{ item.number }}" }
        compensate: { cancel: service.make, with: { number: "${{ output.id }}" } }
  - id: last
    do: service.never
    unattended: It is never done.
    compensate: { none: It is never done. }""",
}  # fmt: skip
ENDS = {"undone": ("compensated", 2)}
"""How a run ends where it does not succeed, and how many effects each item has then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A connection whose one action gives a list of so many rows."""

    actions: Mapping[str, Action]

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        return Request.of({"count": input["count"]})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        rows = [{"number": f"N{n:06}", "name": f"Customer number {n}"} for n in range(1, request.body["count"] + 1)]
        return Outcome(result="applied", output={"rows": rows})

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return "source:"


class SourceKind:
    """The connector of `Source`."""

    name = "source"
    title = "Gives a list"

    def settings(self) -> Mapping[str, Json]:
        return {}

    def actions(self) -> Mapping[str, Action]:
        rows = {"list": {"number": "text", "name": "text"}}
        return {"rows": Action(name="rows", effect="read", input={"count": "integer"}, output={"rows": rows})}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        return Source(actions=self.actions())


def write_project(folder: Path, origin: str, kind: str, at_once: int) -> None:
    """A project with the flow `many`."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    (folder / "amends.yaml").write_text("limits: { runs_at_once: 256 }\n")
    (folder / "connectors" / "service.yaml").write_text(CONNECTOR)
    (folder / "connections.yaml").write_text(
        f'service: {{ connector: service, origin: "{origin}", allow_private: true }}\nsource: {{ connector: source }}\n'
    )
    (folder / "flows" / "many.yaml").write_text(FLOW % (at_once, STEPS[kind]))


async def run_list(folder: Path, items: int) -> dict[str, Json]:
    """One run of the flow, until it rests: what it cost this process, and what is in its log."""
    kinds = installed()
    kinds.python = {**kinds.python, "source": SourceKind()}
    driver = OwnDriver(Project.open(folder, kinds=kinds), MachineClock(), EngineLock(folder))
    async with driver.running():
        slowest = asyncio.create_task(_slowest_turn())
        began, used = time.perf_counter(), floor.cpu_seconds()
        started = await driver.start("many", Wish(given={"count": items}))
        view = await driver.follow(started.run, lambda: None, patience=60_000)
        wall, cpu = time.perf_counter() - began, floor.cpu_seconds() - used
        slowest.cancel()
        facts = driver.store.run(started.run).seq
    held = HELD[len(HELD) // 5], HELD[-1]
    return {
        "wall": wall, "cpu": cpu, "status": view.status, "facts": facts, "late": max(LATE), "peak": _peak(),
        "held": held,
    }  # fmt: skip


LATE = [0.0]
HELD = [0.0]
"""MB in memory, 50 times a second."""


async def _slowest_turn() -> None:
    """How late the loop came back to somebody who slept, s, and what the process holds meanwhile."""
    page = resource.getpagesize() / 1024 / 1024
    with Path("/proc/self/statm").open() as said:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.02)
            LATE[0] = max(LATE[0], time.perf_counter() - began - 0.02)
            said.seek(0)
            HELD.append(int(said.read().split()[1]) * page)


async def call_only(origin: str, items: int, at_once: int) -> dict[str, Json]:
    """The floor: as many calls, as many at once, by the same client, and nothing else."""
    async with contextlib.aclosing(floor.Caller(origin)) as caller:

        async def one_call(number: int) -> None:
            key = f"floor-{os.getpid()}-{number}"
            assert await caller.post("effects", {"number": f"N{number:06}"}, key) < 300

        found = await floor.timed(one_call, runs=items, at_once=at_once)
    return {"wall": found.wall, "cpu": found.cpu, "status": "", "facts": 0, "late": 0.0, "peak": _peak()}


def _peak() -> float:
    """MB of memory that this process had at the most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(*words: str) -> dict[str, Json]:
    """One measurement in a process of its own."""
    program = [sys.executable, "-m", "tests.bench.each", "--one", *words]
    said = subprocess.run(program, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True).stdout
    found: dict[str, Json] = json.loads(said.splitlines()[-1])
    return found


def told(name: str, items: int, found: Mapping[str, Json]) -> str:
    """One line of figures."""
    line = (
        f"{name:<22} {found['wall']:8.1f} s {items / found['wall']:8.0f} items/s"
        f" {found['cpu'] / items * 1000:8.2f} ms CPU an item {found['peak']:8.0f} MB at the most"
    )
    if not found["facts"]:
        return line
    early, late = found["held"]
    return (
        f"{line} ({early:.0f} after a fifth of the time, {late:.0f} at the end), longest turn"
        f" {found['late'] * 1000:.0f} ms, {found['facts']} facts"
    )


def measure(items: int, kind: str, at_once: int) -> bool:
    """Prints one line for this many items, and one for the floor; False where the service saw something else."""
    with HttpProcess(keep_requests=False) as service, tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "bench"
        write_project(folder, service.origin, kind, at_once)
        found = apart("run", str(folder), str(items))
        print(told(f"{items} items, {kind}", items, found), flush=True)
        status, calls = ENDS.get(kind, ("succeeded", 1))
        is_right: bool = found["status"] == status
        if kind in ("http", "undone"):
            effects = len(service.ledger()["effects"])
            is_right = is_right and effects == items * calls
            service.reset()
            print(
                told("  floor, no engine", items, apart("floor", service.origin, str(items * calls), str(at_once))),
                flush=True,
            )
    if not is_right:
        print(f"The run ended {found['status']}, or the service saw something else: the figures are worth nothing.")
    return is_right


def main(arguments: list[str]) -> int:
    """Prints the figures of each size."""
    if arguments[:1] == ["--one"]:
        _, word, place, items, *at_once = arguments
        work = run_list(Path(place), int(items)) if word == "run" else call_only(place, int(items), int(at_once[0]))
        print(json.dumps(asyncio.run(work)))
        return 0
    asked = argparse.ArgumentParser(prog="python -m tests.bench each", description="A list by the number of its items.")
    asked.add_argument("--items", default="10000,100000")
    asked.add_argument("--at-once", type=int, default=50)
    asked.add_argument("--kind", default="http", choices=tuple(STEPS))
    given = asked.parse_args(arguments)
    print(f"{floor.machine()}; {given.at_once} items at once, synchronous FULL")
    sizes = [int(size) for size in given.items.split(",")]
    wrong = [size for size in sizes if not measure(size, given.kind, given.at_once)]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
