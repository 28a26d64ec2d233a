"""What things cost by the number of runs that have ended: a run, a list page, one run's page, the next of the queue.

    python -m tests.bench growth [--size 100000] [--database postgresql]

The number of ended runs grows by tens up to the size; `--size 1000000` is the size of the goal. A project with 1,000 of
them is measured in turns with the large one, so that what else the machine does is felt by both. Times are CPU where the
database works in this process (SQLite), else the quickest.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from runner.app import Amends
from runner.store.facts import RunFilter
from runner.telling.story import story_of
from tests.bench import _copies as copies
from tests.bench import _ground as ground
from tests.bench._goals import Finding, Judged, bench

FLAT = 1.2
FIRST, REPEATS, RUNS, TURNS = 1_000, 40, 200, 3


def quickest(ask: Callable[[], object], clock: Callable[[], float]) -> float:
    """ms of the quickest of several."""
    found = []
    for _ in range(REPEATS):
        began = clock()
        ask()
        found.append((clock() - began) * 1000)
    return min(found)


def cost(folder: Path, run: str, clock: Callable[[], float]) -> dict[str, float]:
    """CPU ms of a run; ms of a page, a run's story, and the next of the queue."""
    played = asyncio.run(ground.play(folder, "noop", runs=RUNS, repeats=1, alone=1))
    amends = Amends.open(folder)
    try:
        store = amends.store
        asked = {
            "list": lambda: store.runs(RunFilter(flow="noop")),
            "show": lambda: story_of(amends, run, "UTC"),
            "claim": lambda: store.queued("noop", 0, 500),
        }
        return {"run": played.spread[0]} | {name: quickest(ask, clock) for name, ask in asked.items()}
    finally:
        amends.close()


def measure(given: argparse.Namespace) -> Judged:
    """Each size beside the smallest."""
    sizes = [FIRST * 10]
    while sizes[-1] * 10 <= given.size:
        sizes.append(sizes[-1] * 10)
    clock = time.thread_time if given.database == "sqlite" else time.perf_counter
    with ground.project(given.database) as small, ground.project(given.database) as large:
        runs = {folder: copies.first_ended(folder, "noop") for folder in (small, large)}
        copies.copy(small, runs[small], 1, FIRST)
        at, found = 1, dict[Path, dict[str, float]]()
        for size in sizes:
            copies.copy(large, runs[large], at, size)
            at, found = size, {small: {}, large: {}}
            for folder in [small, large] * TURNS:
                for name, ms in cost(folder, runs[folder], clock).items():
                    found[folder][name] = min(ms, found[folder].get(name, ms))
            told = ", ".join(f"{name} {ms:.2f} ms ({found[small][name]:.2f})" for name, ms in found[large].items())
            print(f"{size:>9,} ended runs (beside {FIRST:,}): {told}", flush=True)
        played = len(sizes) * TURNS * (RUNS + min(RUNS, 2 * ground.AT_ONCE) + 1)
        wrong = ground.ended(large, "noop", "succeeded", sizes[-1] + played)
    return Judged(
        findings=[
            Finding(
                goal=f"{name}: flat within 20 %", is_met=found[large][name] <= few * FLAT,
                measured=f"{few:.2f} ms with {FIRST:,}, {found[large][name]:.2f} ms with {sizes[-1]:,}",
            )
            for name, few in found[small].items()
        ],
        wrong=wrong,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints the times by size."""
    return bench("growth", "Costs by the number of ended runs.", arguments, measure, size=100_000, of="ended runs")
