"""Very many queued runs of one flow: how long it takes to take the next one, to list a page, and to begin a small flow.

    python -m tests.bench queue [--size 200000] [--database postgresql]

`--size 2000000` is the size of the goal. The engine works on the huge flow meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.engine.embedded import Embedded
from runner.engine.line import Line
from runner.engine.starting import Wish
from runner.store.facts import RunFilter
from tests.bench import _copies as copies
from tests.bench import _ground as ground
from tests.bench._goals import Finding, Judged, bench, most

CLAIM, PAGE, START, RESTART = 10.0, 100.0, 5.0, 5.0
TAKEN, PAGES, PATIENCE = 2_000, 40, 60.0


async def play(folder: Path, size: int) -> Judged:
    """The engine begins, works, begins a small flow, and is asked for pages."""
    taken: list[float] = []
    following = Line._next

    def timed(line: Line) -> str:
        began = time.perf_counter()
        run = following(line)
        taken.append((time.perf_counter() - began) * 1000)
        return run

    began = time.perf_counter()
    wanted = min(TAKEN, size // 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Line, "_next", timed)
        async with ground.engine(folder) as driver:
            end = time.monotonic() + PATIENCE
            await ground.until(lambda: driver.store.counts().get("succeeded", 0) > 0, end)
            restart = time.perf_counter() - began
            at = time.perf_counter()
            small = (await driver.start("small", Wish())).run
            await ground.until(lambda: driver.store.run(small).status == "succeeded", end)
            start = time.perf_counter() - at
            await ground.until(lambda: len(taken) >= wanted, end)
            assert isinstance(driver.engine, Embedded)
            held = len(driver.engine._line._known)
            page = copies.times(lambda: driver.store.runs(RunFilter(flow="noop")), PAGES // 2)
            page += copies.times(lambda: driver.store.runs(RunFilter(status=("queued",))), PAGES // 2)
            counts = driver.store.counts()
    taken.sort()
    page.sort()
    wrong = [] if sum(counts.values()) == size + 1 else [f"there are {sum(counts.values()):,} runs, not {size + 1:,}"]
    wrong += [] if set(counts) <= {"queued", "running", "succeeded"} else [f"runs ended {counts}"]
    return Judged(
        findings=[
            most(f"claim p99 <= {CLAIM:.0f} ms", taken[len(taken) * 99 // 100], CLAIM, f"ms (the longest {taken[-1]:.1f} ms)", 3),
            most(f"list page p95 <= {PAGE:.0f} ms", page[len(page) * 95 // 100], PAGE, "ms"),
            most(f"a small flow beside it ends <= {START:.0f} s", start, START, "s", 2),
            most(f"restart to first end <= {RESTART:.0f} s", restart, RESTART, "s"),
            Finding(goal="in memory only what is next", measured=f"{held:,} of {size:,} queued runs", is_met=held < 5_000),
        ],
        wrong=wrong,
    )  # fmt: skip


def measure(given: argparse.Namespace) -> Judged:
    """Fills the queue with copies, then has it worked on."""
    with ground.project(given.database) as folder:
        copies.copy(folder, copies.first_queued(folder, "noop"), 1, given.size)
        return asyncio.run(play(folder, given.size))


def main(arguments: Sequence[str]) -> int:
    """Prints the times."""
    return bench("queue", "Very many queued runs.", arguments, measure, size=200_000, of="queued runs of one flow")
