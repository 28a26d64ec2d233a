"""Five steps of an action that does nothing, intent and outcome both durable: what the engine alone costs.

    python -m tests.bench noop [--size 1000] [--database postgresql] [--peer dbos] [--peer restate]

The figures count runs with their start; every fact is on disk before the run goes on.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from tests.bench import _ground as ground
from tests.bench import _peers as peers
from tests.bench import floor
from tests.bench._goals import Judged, bench, rate

RUNS, STEPS = 2000.0, 10_000.0


def measure(given: argparse.Namespace) -> Judged:
    """The engine, then the peers."""
    with ground.project(given.database) as folder:
        noop = asyncio.run(ground.play(folder, "noop", runs=given.size))
        wrong = ground.ended(folder, "noop", "succeeded", noop.calls)
    print(floor.told("noop: five empty steps", noop))
    beside = peers.measured(given.peer, "noop", given.size)
    return Judged(
        findings=[
            rate(f">= {RUNS:,.0f} runs/s", noop.figures, RUNS, "runs/s"),
            rate(f">= {STEPS:,.0f} steps/s", noop.figures, STEPS, "steps/s", ground.STEPS),
            *beside.findings,
        ],
        wrong=wrong + beside.wrong,
    )


def main(arguments: Sequence[str]) -> int:
    """Prints the engine's own figures."""
    summary = "Five steps that do nothing."
    return bench("noop", summary, arguments, measure, size=1000, of="runs a series", peers=True)
