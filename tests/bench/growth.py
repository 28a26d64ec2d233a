"""What things cost by the number of runs that have ended: a run, a list page, one run's page, the next of the queue.

    python -m tests.bench growth [--size 100000] [--database postgresql]

The number of ended runs grows from 1,000 by tens up to the size; `--size 1000000` is the size of the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from pathlib import Path

from runner.app import Amends
from runner.store.facts import RunFilter
from runner.telling.story import story_of
from tests.bench import _copies as copies
from tests.bench import _ground as ground
from tests.bench._goals import Finding, Judged, bench

FLAT = 1.2
FIRST, REPEATS, RUNS = 1_000, 40, 200


def cost(folder: Path, run: str) -> dict[str, float]:
    """CPU ms of a run; medians of ms of a page, a run's story, and the next of the queue."""
    played = asyncio.run(ground.play(folder, "noop", runs=RUNS, repeats=3, alone=1))
    amends = Amends.open(folder)
    try:
        store = amends.store
        asked = {
            "list": lambda: store.runs(RunFilter(flow="noop")),
            "show": lambda: story_of(amends, run, "UTC"),
            "claim": lambda: store.queued("noop", 0, 500),
        }
        return {"run": played.spread[0]} | {
            name: statistics.median(copies.times(ask, REPEATS)[: REPEATS // 2]) for name, ask in asked.items()
        }
    finally:
        amends.close()


def measure(given: argparse.Namespace) -> Judged:
    """Each size, from the smallest on."""
    sizes = [FIRST]
    while sizes[-1] * 10 <= given.size:
        sizes.append(sizes[-1] * 10)
    found: dict[int, dict[str, float]] = {}
    with ground.project(given.database) as folder:
        run, at = copies.first_ended(folder, "noop"), 1
        for size in sizes:
            copies.copy(folder, run, at, size)
            at = size
            found[size] = cost(folder, run)
            told = ", ".join(f"{name} {ms:.2f} ms" for name, ms in found[size].items())
            print(f"{size:>9,} ended runs: {told}", flush=True)
        wrong = ground.ended(
            folder, "noop", "succeeded", sizes[-1] + len(sizes) * (RUNS * 3 + min(RUNS, 2 * ground.AT_ONCE) + 1)
        )
    small, large = found[sizes[0]], found[sizes[-1]]
    return Judged(
        findings=[
            Finding(
                goal=f"{name}: flat within 20 %", is_met=large[name] <= small[name] * FLAT,
                measured=f"{small[name]:.2f} ms with {sizes[0]:,}, {large[name]:.2f} ms with {sizes[-1]:,}",
            )
            for name in small
        ],
        wrong=wrong,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints the times by size."""
    return bench("growth", "Costs by the number of ended runs.", arguments, measure, size=100_000, of="ended runs")
