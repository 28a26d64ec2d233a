"""The floor: five POSTs one after the other per run, by the same HTTP client, and nothing else.

What a run costs here is the price of the calls themselves. The figure of an engine that makes the same calls is read
as a ratio to this one, measured on the same machine in the same minute.

    python -m tests.bench floor [--runs 1000] [--at-once 64] [--repeats 3]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from connectors.client import Client
from connectors.wire import DEFAULT_HEADERS, Answer, Wire
from runner.contract import Json
from runner.guard import Guard
from tests.support.processes import HttpProcess

CALLS = 5
PATHS = ("effects",) * CALLS
ALONE = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What one series of runs cost. Times are seconds; `cpu` is user and system time of this process alone."""

    runs: int
    at_once: int
    wall: float
    cpu: float

    @property
    def runs_per_second(self) -> float:
        return self.runs / self.wall

    @property
    def cpu_ms_per_run(self) -> float:
        return self.cpu / self.runs * 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The median series of several, and how long one run takes when nothing else runs (ms)."""

    figures: Figures
    calls: int
    """All calls that were made, warm-up and single runs included."""
    alone_p50: float
    spread: tuple[float, float]
    """CPU ms per run of the cheapest and the dearest series."""


def cpu_seconds() -> float:
    """User and system time that this process has used, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Caller:
    """The engine's own client, and no engine."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._client = Client(guard=Guard(allow_private=True))

    async def post(self, path: str, body: Mapping[str, Json], key: str) -> int:
        """The status; the answer is read as JSON."""
        headers = {**DEFAULT_HEADERS, "content-type": "application/json", "idempotency-key": key}
        sent = Wire(method="POST", url=f"{self._origin}/{path}", headers=headers, body=json.dumps(body).encode())
        answer = await self._client.exchange(sent, limit=60_000)
        assert isinstance(answer, Answer), answer
        json.loads(answer.body)
        return answer.status

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._client.close()


async def timed(one_run: Callable[[int], Awaitable[None]], *, runs: int, at_once: int) -> Figures:
    """Runs `one_run(0..runs-1)`, never more than `at_once` together, and says what it cost."""
    numbers = iter(range(runs))

    async def lane() -> None:
        for number in numbers:
            await one_run(number)

    gc.collect()
    began, used = time.perf_counter(), cpu_seconds()
    async with asyncio.TaskGroup() as lanes:
        for _ in range(min(at_once, runs)):
            lanes.create_task(lane())
    return Figures(runs=runs, at_once=at_once, wall=time.perf_counter() - began, cpu=cpu_seconds() - used)


async def measure(
    origin: str, *, runs: int = 1000, at_once: int = 64, repeats: int = 3, paths: Sequence[str] = PATHS,
    alone: int = ALONE,
) -> Measured:  # fmt: skip
    """The floor against the service at `origin`: `repeats` series of `runs`, then single runs alone.

    `paths` are the calls of a run; whatever is answered counts, but for `effects`.
    """
    async with contextlib.aclosing(Caller(origin)) as caller:
        series = iter(range(1_000_000))

        def fresh_runs() -> Callable[[int], Awaitable[None]]:
            prefix = f"floor-{os.getpid()}-{next(series)}"

            async def one_run(number: int) -> None:
                for call, path in enumerate(paths):
                    status = await caller.post(path, {"run": number, "step": call}, f"{prefix}-{number}-{call}")
                    assert status < 300 or path != "effects", f"/{path} answered {status}"

            return one_run

        warm = min(runs, 2 * at_once)
        await timed(fresh_runs(), runs=warm, at_once=at_once)
        found = [await timed(fresh_runs(), runs=runs, at_once=at_once) for _ in range(repeats)]
        single = []
        one_run = fresh_runs()
        for number in range(alone):
            began = time.perf_counter()
            await one_run(number)
            single.append(time.perf_counter() - began)
    found.sort(key=lambda each: each.cpu)
    return Measured(
        figures=found[len(found) // 2],
        calls=len(paths) * (warm + runs * repeats + alone),
        alone_p50=statistics.median(single) * 1000,
        spread=(found[0].cpu_ms_per_run, found[-1].cpu_ms_per_run),
    )


def machine() -> str:
    """One line about where the figures come from."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def told(name: str, measured: Measured) -> str:
    """One line of figures."""
    figures = measured.figures
    low, high = measured.spread
    return (
        f"{name:<28} {figures.runs_per_second:8.0f} runs/s {figures.cpu_ms_per_run:8.2f} ms CPU a run"
        f" ({low:.2f}-{high:.2f}) {measured.alone_p50:8.2f} ms one run alone, p50"
    )


def main(arguments: list[str]) -> int:
    """Prints the floor."""
    asked = argparse.ArgumentParser(prog="python -m tests.bench floor", description="What five calls cost alone.")
    asked.add_argument("--runs", type=int, default=1000)
    asked.add_argument("--at-once", type=int, default=64)
    asked.add_argument("--repeats", type=int, default=3)
    given = asked.parse_args(arguments)
    with HttpProcess(keep_requests=False) as service:
        measured = asyncio.run(measure(service.origin, runs=given.runs, at_once=given.at_once, repeats=given.repeats))
        effects = len(service.ledger()["effects"])
    print(f"{machine()}; {given.runs} runs of {CALLS} calls, {given.at_once} at once, median of {given.repeats}")
    print(told("floor, no engine", measured))
    if effects != measured.calls:
        print(f"The service saw {effects} effects of {measured.calls} calls: the figures above are not worth anything.")
        return 1
    return 0
