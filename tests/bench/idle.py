"""One run of five HTTP steps while nothing else runs, beside the same calls with no engine.

python -m tests.bench idle [--size 200] [--database postgresql]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from tests.bench import _ground as ground
from tests.bench import floor
from tests.bench._goals import Judged, bench, most

LIMIT = 10.0


def measure(given: argparse.Namespace) -> Judged:
    """The floor, then the engine: one run at a time."""
    with ground.service() as service, ground.project(given.database, service.origin) as folder:
        bare = asyncio.run(floor.measure(service.origin, runs=20, at_once=1, repeats=1, alone=given.size))
        saga = asyncio.run(ground.play(folder, "saga", runs=20, repeats=1, alone=given.size))
        wrong = ground.ended(folder, "saga", "succeeded", saga.calls)
        wrong += ground.effects(service, effects=bare.calls + saga.calls * ground.STEPS)
    unit = f"ms (the calls alone {bare.alone_p50:.1f} ms)"
    return Judged(findings=[most(f"p50 <= {LIMIT:.0f} ms", saga.alone_p50, LIMIT, unit)], wrong=wrong)


def main(arguments: Sequence[str]) -> int:
    """Prints how long one run takes."""
    return bench("idle", "One run alone, five HTTP steps.", arguments, measure, size=200, of="runs alone")
