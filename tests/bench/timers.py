"""Timers that are all due in one second: how late the last one is, and that none goes off twice.

python -m tests.bench timers [--size 10000] [--database postgresql]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import func, select

from runner.app import OwnDriver
from runner.clock import iso
from runner.engine.starting import Wish
from runner.store.sql import SqlStore
from runner.store.tables import log, runs
from tests.bench import _ground as ground
from tests.bench import floor
from tests.bench._goals import Finding, Judged, bench

LIMIT, PATIENCE = 10.0, 120.0
GROUP = 500


async def begin(driver: OwnDriver, size: int, due: int) -> None:
    """Starts runs that wait until the second that begins at `due` (ms)."""
    for first in range(0, size, GROUP):
        some = range(first, min(first + GROUP, size))
        wishes = [Wish(given={"at": iso(due + at * 1000 // size)}) for at in some]
        for one in await driver.start_many("later", wishes):
            if isinstance(one, Exception):
                raise one
            await driver.engine.rest(one.run)


async def play(folder: Path, size: int) -> Judged:
    """Sets the timers with an engine, and lets them go off under another, which begins before they are due."""
    now = time.time_ns() // 1_000_000_000 * 1_000  # a due time is told in whole seconds
    async with ground.engine(folder) as driver:
        due = now + 3_600_000
        await begin(driver, size, due)
    driver_clock = Turned(due - 1_000)
    async with ground.engine(folder, clock=driver_clock) as driver:
        used = floor.cpu_seconds()
        await ground.until(lambda: driver.store.counts().get("succeeded", 0) >= size, time.monotonic() + PATIENCE, 0.5)
        used = floor.cpu_seconds() - used
        late = driver.store.ask(lambda it: it.execute(select(func.max(runs.c.ended_at))).scalar() or 0)
        times, of = fired(driver.store)
        counts = driver.store.counts()
    wrong = [] if counts == {"succeeded": size} else [f"runs ended {counts}"]
    wrong += [] if times == of == size else [f"{times:,} timers went off in {of:,} runs"]
    took = (late - due) / 1000
    return Judged(
        findings=[
            Finding(
                goal=f"all within {LIMIT:.0f} s, none twice", is_met=took <= LIMIT,
                measured=f"{took:.1f} s ({used:.1f} s of CPU), {times - of} twice",
            )
        ],
        wrong=wrong,
    )  # fmt: skip


def fired(store: SqlStore) -> tuple[int, int]:
    """How many timers went off, and in how many runs."""
    asked = select(func.count(), func.count(log.c.run_id.distinct())).where(log.c.type == "TimerFired")
    row = store.ask(lambda it: it.execute(asked).one())
    return row[0], row[1]


class Turned:
    """The machine's clock, set to another time."""

    def __init__(self, at: int) -> None:
        self._ahead = at - time.time_ns() // 1_000_000

    def now(self) -> int:
        """ms since the epoch."""
        return time.time_ns() // 1_000_000 + self._ahead

    def monotonic(self) -> int:
        """ms."""
        return time.monotonic_ns() // 1_000_000


def measure(given: argparse.Namespace) -> Judged:
    """One series."""
    with ground.project(given.database) as folder:
        return asyncio.run(play(folder, given.size))


def main(arguments: Sequence[str]) -> int:
    """Prints how late the last one was."""
    return bench("timers", "Timers due in one second.", arguments, measure, size=10_000, of="timers in one second")
