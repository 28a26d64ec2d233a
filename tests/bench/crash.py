"""500 runs in flight, the engine killed (-9), another one begun: how long until all have ended, and what was called twice.

    python -m tests.bench crash [--size 500] [--database postgresql]

Each answer of the service takes 20 ms, so that calls are out when the engine dies. The service keeps keys: a call that
is repeated under its own key has no second effect, and every key must belong to one call of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from runner.engine.starting import Wish
from tests.bench import _ground as ground
from tests.bench._goals import Finding, Judged, bench
from tests.support.processes import ROOT, HttpProcess
from tests.support.says import Say

LIMIT, ANSWER, PATIENCE = 5.0, 20, 120.0


async def drive(folder: Path, size: int) -> None:
    """An engine with that many runs to drive; it is killed meanwhile."""
    async with ground.engine(folder) as driver:
        await driver.start_many("saga", [Wish() for _ in range(size)])
        print("begun", flush=True)
        await asyncio.sleep(PATIENCE)


async def go_on(folder: Path) -> tuple[float, Counter[str]]:
    """An engine that finds what was left. Seconds from its beginning to the last end, and how the runs stand."""
    began = time.perf_counter()
    async with ground.engine(folder) as driver:
        await ground.until(lambda: not driver.store.open_runs(), time.monotonic() + PATIENCE)
        return time.perf_counter() - began, Counter(driver.store.counts())


async def kill(folder: Path, size: int, service: HttpProcess) -> int:
    """Kills the engine once a third of the calls were made. How many were by then."""
    words = [sys.executable, "-m", "tests.bench.crash", "--drive", str(folder), str(size)]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"begun\n"
        third = size * ground.STEPS // 3
        await ground.until(lambda: service.ledger()["requests"] >= third, time.monotonic() + PATIENCE)
    finally:
        process.kill()
        await process.wait()
    return int(service.ledger()["requests"])


def measure(given: argparse.Namespace) -> Judged:
    """One kill."""
    size = given.size
    with ground.service() as service, ground.project(given.database, service.origin) as folder:
        service.script("POST /effects", always=Say(delay=ANSWER))
        at = asyncio.run(kill(folder, size, service))
        took, counts = asyncio.run(go_on(folder))
        wrong = ground.effects(service, effects=size * ground.STEPS)
        again = service.ledger()["requests"] - size * ground.STEPS
    lost = size - counts["succeeded"]
    return Judged(
        findings=[
            Finding(
                goal=f"all ended <= {LIMIT:.0f} s after the restart", is_met=took <= LIMIT,
                measured=f"{took:.1f} s, killed after {at:,} of {size * ground.STEPS:,} calls",
            ),
            Finding(goal="0 lost", measured=f"{lost} lost", is_met=not lost),
            Finding(
                goal="calls repeated only under their own key", is_met=not wrong,
                measured=f"{again} repeated, {len(wrong)} effects twice",
            ),
        ],
        wrong=wrong + ([f"{lost} runs did not succeed: {dict(counts)}"] if lost else []),
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints how long it took to go on."""
    if arguments[:1] == ["--drive"]:
        asyncio.run(drive(Path(arguments[1]), int(arguments[2])))
        return 0
    return bench("crash", "The engine is killed.", arguments, measure, size=500, of="runs in flight")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
