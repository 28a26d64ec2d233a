"""Runs that wait for a person: their disk and memory, the engine's idle CPU, a restart, and approvals one after the other.

    python -m tests.bench wait [--size 10000] [--database postgresql] [--peer dbos] [--peer restate]

`--size 50000` is the size of the goal. A fifth of the runs is approved; each must then have done its step once.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.app import OwnDriver
from runner.engine.starting import Wish
from runner.people.approvals import Decision
from runner.store.facts import RunFilter
from tests.bench import _ground as ground
from tests.bench import _peers as peers
from tests.bench import floor
from tests.bench._goals import Finding, Judged, bench, most

DISK, IDLE, APPROVALS, RESTART = 3.0, 2.0, 1000.0, 5.0
GROUP, IDLE_FOR = 500, 4.0


def resident() -> float:
    """KB that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4.0


async def fill(driver: OwnDriver, size: int) -> tuple[float, float]:
    """Starts the runs and waits until each asks. KB in memory after the first fifth and at the end."""
    early = 0.0
    for first in range(0, size, GROUP):
        wishes = [Wish(given={"number": f"N{at}"}) for at in range(first, min(first + GROUP, size))]
        for one in await driver.start_many("asked", wishes):
            if isinstance(one, Exception):
                raise one
            await driver.engine.rest(one.run)
        if not early and first >= size / 5:
            early = resident()
    return early, resident()


async def disk(driver: OwnDriver) -> int:
    """Bytes of the database, once what waits beside it is in it."""
    await driver.store.tidy()
    return int(driver.store.about()["bytes"])


async def idle() -> float:
    """% of a core that the engine uses while nothing happens."""
    used, began = floor.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(IDLE_FOR)
    return (floor.cpu_seconds() - used) / (time.perf_counter() - began) * 100


async def approve(driver: OwnDriver, runs: Sequence[str]) -> floor.Figures:
    """Approves them, 64 at once, until each run has ended."""
    gates: dict[str, Any] = {}
    for run in runs:
        gates[run] = next(iter((await driver.engine.past.read(run))[0].gates.values()))

    async def one(number: int) -> None:
        run = runs[number]
        gate = gates[run]
        decision = Decision(
            approval="go", round=gate.round, hash=gate.hash, answer="yes", by="person:ann", proof="token"
        )
        await driver.record(run, decision)
        await driver.engine.rest(run)

    return await floor.timed(one, runs=len(runs), at_once=ground.AT_ONCE)


async def play(folder: Path, size: int) -> Judged:
    """Fills, idles, ends; begins anew, approves."""
    async with ground.engine(folder) as driver:
        empty, bare = resident(), await disk(driver)
        early, late = await fill(driver, size)
        each = (await disk(driver) - bare) / size / 1024
        share = await idle()
    began = time.perf_counter()
    async with ground.engine(folder) as driver:
        waiting = [view.run for view in driver.store.runs(RunFilter(status=("waiting",), limit=max(size // 5, 1)))]
        await approve(driver, waiting[:1])
        restart = time.perf_counter() - began
        figures = await approve(driver, waiting[1:])
        counts = driver.store.counts()
    wrong = [] if counts == {"waiting": size - len(waiting), "succeeded": len(waiting)} else [f"runs ended {counts}"]
    rate, held = figures.runs_per_second, 1000 / figures.cpu_ms_per_run
    grown = late - early
    return Judged(
        findings=[
            most(f"<= {DISK:.0f} KB of disk each", each, DISK, "KB"),
            Finding(
                goal="memory flat", is_met=grown <= max(0.1 * (late - empty), 4096),
                measured=f"{empty / 1024:.0f} MB, {early / 1024:.0f} MB after a fifth, {late / 1024:.0f} MB with all",
            ),
            most(f"idle CPU <= {IDLE:.0f} % of a core", share, IDLE, "%"),
            most(f"restart to first progress <= {RESTART:.0f} s", restart, RESTART, "s"),
            Finding(
                goal=f">= {APPROVALS:,.0f} approvals/s, each to its run's end",
                measured=f"{rate:,.0f}/s ({held:,.0f} by its CPU)", is_met=rate >= APPROVALS,
            ),
        ],
        wrong=wrong,
    )  # fmt: skip


def measure(given: argparse.Namespace) -> Judged:
    """The engine, then the peers."""
    with ground.project(given.database) as folder:
        found = asyncio.run(play(folder, given.size))
    beside = peers.measured(given.peer, "wait", given.size)
    return Judged(findings=[*found.findings, *beside.findings], wrong=found.wrong + beside.wrong)


def main(arguments: Sequence[str]) -> int:
    """Prints what waiting costs."""
    summary = "Runs that wait for a person."
    return bench("wait", summary, arguments, measure, size=10_000, of="waiting runs", peers=True)
