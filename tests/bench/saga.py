"""Five HTTP steps, 64 runs at once, beside the same calls with no engine. `--peer` measures a peer on the same service.

    python -m tests.bench saga [--size 1000] [--database postgresql] [--peer dbos] [--peer restate]

Every intent and every outcome is durable before the run goes on; starting the runs is part of it. Every effect is
counted at the service afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from tests.bench import _ground as ground
from tests.bench import _peers as peers
from tests.bench import floor
from tests.bench._goals import Judged, bench, most, rate

RATIO, RATE = 1.5, 400.0


def measure(given: argparse.Namespace) -> Judged:
    """The floor, then the engine, then the peers."""
    with ground.service() as service, ground.project(given.database, service.origin) as folder:
        bare = asyncio.run(floor.measure(service.origin, runs=given.size, at_once=ground.AT_ONCE))
        saga = asyncio.run(ground.play(folder, "saga", runs=given.size))
        wrong = ground.ended(folder, "saga", "succeeded", saga.calls)
        wrong += ground.effects(service, effects=bare.calls + saga.calls * ground.STEPS)
        print(floor.told("floor: the calls, no engine", bare))
        print(floor.told("saga: five HTTP steps", saga))
        beside = peers.measured(given.peer, "saga", given.size, service)
    ratio = saga.figures.cpu_ms_per_run / bare.figures.cpu_ms_per_run
    ours = saga.figures.cpu_ms_per_run
    return Judged(
        findings=[
            most(f"CPU a run <= {RATIO} x the floor", ratio, RATIO, f"({ours:.2f} of {bare.figures.cpu_ms_per_run:.2f} ms)", 2),
            rate(f">= {RATE:.0f} runs/s on one core", saga.figures, RATE, "runs/s"),
            *beside.findings,
        ],
        wrong=wrong + beside.wrong,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints floor and engine side by side."""
    summary = "Five HTTP steps through the engine."
    return bench("saga", summary, arguments, measure, size=1000, of="runs a series", peers=True)
