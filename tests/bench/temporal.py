"""What a Temporal cluster costs: runs that wait for a person, and five HTTP steps, beside the embedded engine and plain
Temporal.

    python -m tests.bench temporal [--size 10000]

The cluster is the dev server on a file, the log is in PostgreSQL (for the embedded engine as well). Every engine has a
process of its own, which also starts and approves the runs. A run that waits has two steps behind it that do nothing,
and three before it; a tenth is approved. A twentieth of so many runs make the five HTTP steps: once with an activity of
the cluster for each stretch of a run, as the engine does it, once with one for each step.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle

from runner.app import OwnDriver
from runner.core.commands import Send
from runner.core.state import State
from runner.engine import advance
from runner.engine.driven import Bell, Rest
from runner.engine.starting import Wish
from runner.engine.temporal.engine import TemporalEngine
from runner.people.approvals import Decision
from runner.store.facts import RunFilter
from tests.bench import _ground as ground
from tests.bench._goals import Finding, Judged, bench
from tests.bench._peers.poster import calm, cpu, disk, memory
from tests.support.temporal import TemporalServer, running_temporal

GROUP, LIMIT = 500, 3_600
IDLE_FOR = 60.0
"""Seconds: what comes once a minute is in it."""
LOOK = 0.25
"""Seconds from one question how many are where to the next; each is paid by who is measured."""
PLAIN = Path(__file__).parent / "_peers" / "temporal_app.py"
EMBEDDED, OURS, STEPWISE, BARE = "embedded engine", "on Temporal", "an activity a step", "plain Temporal"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an engine works, for a process of its own. `server` is the process of the cluster, 0: none."""

    folder: Path
    server: int = 0
    files: Path | None = None
    is_stepwise: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Runs a second, and ms of CPU of a run. `events`: what the cluster has of one of them then."""

    rate: float
    worker: float
    server: float
    database: float = 0.0
    events: int = 0

    def told(self) -> str:
        """Its place in the table."""
        parts = {"worker": self.worker, "Temporal": self.server, "PostgreSQL": self.database}
        each = ", ".join(f"{name} {ms:.1f}" for name, ms in parts.items() if ms)
        found = f"{self.rate:,.0f} runs/s; {sum(parts.values()):.1f} ms of CPU a run ({each})"
        return found + (f"; {self.events} events" if self.events else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Waited:
    """What runs that wait cost: to come to wait, to go on; KB each; % of a core while nothing happens."""

    waits: Cost
    approved: Cost
    idle: float
    memory: Mapping[str, float]
    disk: Mapping[str, float]


class Stepwise(TemporalEngine):
    """Has the cluster pay for every step: after one call the run goes back to it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._called = set[str]()

    async def carry(self, run: str, woken: Bell) -> Rest:
        """As the engine's, with its calls counted anew."""
        self._called.discard(run)
        return await super().carry(run, woken)

    def _admit(self) -> advance.Admit | None:
        def admit(state: State, sends: tuple[Send, ...]) -> tuple[Send, ...]:
            if state.run in self._called:
                self._elsewhere[state.run] = self._queue
                return ()
            self._called.add(state.run)
            return sends

        return admit


class Meter:
    """What is used from now on: this process, the cluster's, and all of the database."""

    def __init__(self, place: Place, driver: OwnDriver) -> None:
        asked = "SELECT pg_backend_pid()"
        backend = driver.store.ask(lambda connection: connection.exec_driver_sql(asked).scalar_one())
        self._database = _parent(backend)
        self._server = place.server
        self._began, self._used = time.perf_counter(), self._now()

    def _now(self) -> tuple[float, float, float]:
        return cpu(os.getpid()), cpu(self._server) if self._server else 0.0, _of_all(self._database)

    def cost(self, runs: int) -> Cost:
        """Of each of so many runs."""
        took = time.perf_counter() - self._began
        worker, server, database = ((b - a) / runs * 1000 for a, b in zip(self._used, self._now(), strict=True))
        return Cost(rate=runs / took, worker=worker, server=server, database=database)

    def used(self) -> float:
        """Seconds of CPU so far, worker and cluster."""
        return sum(self._now()[:2])

    def share(self) -> float:
        """% of a core, worker and cluster."""
        return (self.used() - sum(self._used[:2])) / (time.perf_counter() - self._began) * 100


def _words(process: str) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _parent(process: int) -> int:
    return int(_words(str(process))[1])


def _of_all(parent: int) -> float:
    """Seconds of CPU of a process and its children, those that have ended too."""
    used = sum(map(int, _words(str(parent))[11:15]))
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = _words(each.name)
        except OSError:  # it has ended
            continue
        if int(words[1]) == parent:
            used += int(words[11]) + int(words[12])
    return used / os.sysconf("SC_CLK_TCK")


# --- in the engine's own process -------------------------------------------------------------------------------------


def _engine_of(place: Place) -> None:
    if place.is_stepwise:
        setattr(sys.modules["runner.engine.temporal.engine"], "TemporalEngine", Stepwise)  # noqa: B010


async def _start(driver: OwnDriver, flow: str, size: int) -> None:
    for first in range(0, size, GROUP):
        wishes = [
            Wish(given={"number": f"N{at}"} if flow == "amid" else {}) for at in range(first, min(first + GROUP, size))
        ]
        for one in await driver.start_many(flow, wishes):
            if isinstance(one, Exception):
                raise one


async def _until(driver: OwnDriver, status: str, count: int) -> None:
    end = time.monotonic() + LIMIT
    await ground.until(lambda: driver.store.counts().get(status, 0) >= count, end, LOOK)


async def _approve(driver: OwnDriver, runs: Sequence[str]) -> None:
    left = iter(runs)

    async def some() -> None:
        for run in left:
            gate = next(iter((await driver.engine.past.read(run))[0].gates.values()))
            told = Decision(
                approval="go", round=gate.round, hash=gate.hash, answer="yes", by="person:ann", proof="token"
            )
            await driver.record(run, told)

    await asyncio.gather(*(some() for _ in range(ground.AT_ONCE)))


async def _wait(place: Place, size: int) -> tuple[Waited, list[str]]:
    async with ground.engine(place.folder) as driver:
        held, kept = _memory(place), await _disk(place, driver)
        meter = Meter(place, driver)
        await _start(driver, "amid", size)
        await _until(driver, "waiting", size)
        waits = meter.cost(size)
        more, files = _memory(place), await _disk(place, driver)
        await calm(meter.used, IDLE_FOR / 30)
        meter = Meter(place, driver)
        await asyncio.sleep(IDLE_FOR)
        idle = meter.share()
        waiting = [view.run for view in driver.store.runs(RunFilter(status=("waiting",), limit=max(size // 10, 1)))]
        meter = Meter(place, driver)
        await _approve(driver, waiting)
        await _until(driver, "succeeded", len(waiting))
        approved, counts = meter.cost(len(waiting)), driver.store.counts()
        approved = replace(approved, events=await _events(driver, waiting[0]))
    wanted = {"waiting": size - len(waiting), "succeeded": len(waiting)}
    found = Waited(
        waits=waits, approved=approved, idle=idle,
        memory={part: (more[part] - was) / size for part, was in held.items()},
        disk={part: (files[part] - was) / size / 1024 for part, was in kept.items()},
    )  # fmt: skip
    return found, [] if counts == wanted else [f"{counts} runs, and {wanted} were to be"]


async def _events(driver: OwnDriver, run: str) -> int:
    """How many the cluster has of a run in the end."""
    if not isinstance(driver.engine, TemporalEngine):
        return 0
    handle: WorkflowHandle[Any, Any] = driver.engine._reached().get_workflow_handle(run)
    await handle.result()
    return (await handle.describe()).history_length


def _memory(place: Place) -> dict[str, float]:
    server = {"server": memory(place.server)} if place.server else {}
    return {"worker": memory(os.getpid()), **server}


async def _disk(place: Place, driver: OwnDriver) -> dict[str, float]:
    await driver.store.tidy()
    server = {"server": float(disk(str(place.files)))} if place.files else {}
    return {**server, "database": float(driver.store.about()["bytes"])}


async def _saga(place: Place, size: int) -> tuple[Cost, list[str]]:
    async with ground.engine(place.folder) as driver:
        meter = Meter(place, driver)
        await _start(driver, "saga", size)
        await _until(driver, "succeeded", size)
        cost, counts = meter.cost(size), driver.store.counts()
        run = driver.store.runs(RunFilter(limit=1))[0].run
        cost = replace(cost, events=await _events(driver, run))
    return cost, [] if counts == {"succeeded": size} else [f"{size} runs of saga ended {counts}"]


def _alone(work: str, place: Place, size: int) -> Any:
    """In a process of its own, whose memory nothing else has touched."""
    _engine_of(place)
    return asyncio.run({"wait": _wait, "saga": _saga}[work](place, size))


# --- one after the other ---------------------------------------------------------------------------------------------


def ours(name: str, work: str, size: int, origin: str) -> tuple[Any, list[str]]:
    """An engine of ours at this work, and what is wrong."""
    with ground.project("postgresql", origin) as folder, ProcessPoolExecutor(1, get_context("spawn")) as apart:
        if name == EMBEDDED:
            return _named(name, apart.submit(_alone, work, Place(folder=folder), size).result())
        with running_temporal() as server:
            with (folder / "amends.yaml").open("a") as settings:
                settings.write(f'engine: {{ temporal: "{server.address}", queue: bench }}\n')
            place = Place(folder=folder, server=_process(server), files=server.folder, is_stepwise=name == STEPWISE)
            return _named(name, apart.submit(_alone, work, place, size).result())


def _named(name: str, found: tuple[Any, list[str]]) -> tuple[Any, list[str]]:
    return found[0], [f"{name}: {wrong}" for wrong in found[1]]


def _process(server: TemporalServer) -> int:
    assert server.process is not None
    return server.process.pid


def bare(work: str, size: int, origin: str) -> Any:
    """Plain Temporal at this work. Raises RuntimeError with what it said where it failed."""
    with running_temporal() as server:
        words = [work, str(size), origin, server.address, str(_process(server)), str(server.folder)]
        told = {**os.environ, "IDLE_FOR": str(IDLE_FOR)}
        program = [sys.executable, str(PLAIN), *words]
        done = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT, check=False, env=told)
    if done.returncode:
        raise RuntimeError(f"{BARE} ended with {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if work == "saga":
        return Cost(**found)
    return Waited(**{**found, "waits": Cost(**found["waits"]), "approved": Cost(**found["approved"])})


def measure(given: argparse.Namespace) -> Judged:
    """Waiting, then five steps."""
    judged = Judged(findings=[], wrong=[])
    waited = {BARE: bare("wait", given.size, "-")}
    for name in (EMBEDDED, OURS):
        waited[name], wrong = ours(name, "wait", given.size, "http://127.0.0.1:1")
        judged.wrong += wrong
    for name in (EMBEDDED, OURS, BARE):
        judged.findings += _told(name, waited[name], given.size)
    few = max(given.size // 20, 1)
    with ground.service() as service:
        for name in (EMBEDDED, OURS, STEPWISE):
            cost, wrong = ours(name, "saga", few, service.origin)
            judged.findings.append(Finding(goal=f"{few:,} of five HTTP steps: {name}", measured=cost.told()))
            judged.wrong += wrong
        cost = bare("saga", few, service.origin)
        judged.findings.append(Finding(goal=f"{few:,} of five HTTP steps: {BARE}", measured=cost.told()))
        judged.wrong += ground.effects(service, effects=4 * few * ground.STEPS)
    return judged


def _told(name: str, found: Waited, size: int) -> list[Finding]:
    of = {"worker": "worker", "server": "Temporal", "database": "PostgreSQL"}
    held, kept = (
        ", ".join(f"{of[part]} {kb:.1f}" for part, kb in figures.items() if kb)
        for figures in (found.memory, found.disk)
    )
    each = f"{held} KB of memory, {kept} KB of disk; {found.idle:.1f} % of a core for all"
    return [
        Finding(goal=f"until {size:,} wait for a person: {name}", measured=found.waits.told()),
        Finding(goal=f"one that waits: {name}", measured=each),
        Finding(goal=f"{max(size // 10, 1):,} approved, to their end: {name}", measured=found.approved.told()),
    ]


def main(arguments: Sequence[str]) -> int:
    """Prints what the cluster costs."""
    summary = "Runs on a Temporal cluster."
    return bench(
        "temporal", summary, arguments, measure, size=10_000, of="waiting runs", databases=False, kept="postgresql"
    )
