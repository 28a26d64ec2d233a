"""Five HTTP steps of which the fifth is refused, then four compensations, beside the same nine calls with no engine.

python -m tests.bench rollback [--size 1000] [--database postgresql] [--peer dbos] [--peer restate]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from tests.bench import _ground as ground
from tests.bench import _peers as peers
from tests.bench import floor
from tests.bench._goals import Judged, bench, most, rate

RATIO, RATE = 1.5, 210.0
CALLS = ("effects",) * 4 + ("refused",) + ("undone",) * 4


def measure(given: argparse.Namespace) -> Judged:
    """The floor, then the engine, then the peers."""
    with ground.service() as service, ground.project(given.database, service.origin) as folder:
        bare = asyncio.run(floor.measure(service.origin, runs=given.size, at_once=ground.AT_ONCE, paths=CALLS))
        back = asyncio.run(ground.play(folder, "rollback", runs=given.size))
        wrong = ground.ended(folder, "rollback", "compensated", back.calls)
        both = (bare.calls // len(CALLS) + back.calls) * 4
        wrong += ground.effects(service, effects=both, undone=both, refused=0)
        print(floor.told("floor: the calls, no engine", bare))
        print(floor.told("rollback: 5 + 4 HTTP calls", back))
        beside = peers.measured(given.peer, "rollback", given.size, service)
    ratio = back.figures.cpu_ms_per_run / bare.figures.cpu_ms_per_run
    ours = back.figures.cpu_ms_per_run
    return Judged(
        findings=[
            most(f"CPU a run <= {RATIO} x the floor", ratio, RATIO, f"({ours:.2f} of {bare.figures.cpu_ms_per_run:.2f} ms)", 2),
            rate(f">= {RATE:.0f} runs/s on one core", back.figures, RATE, "runs/s"),
            *beside.findings,
        ],
        wrong=wrong + beside.wrong,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints floor and engine side by side."""
    summary = "Four steps, a refusal, four compensations."
    return bench("rollback", summary, arguments, measure, size=1000, of="runs a series", peers=True)
