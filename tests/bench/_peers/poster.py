"""What a peer's steps call with: httpx as its users would, at most 16 calls at once. And what a measurement needs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

AT_ONCE = 16
CALM, LONGEST = 0.03, 120.0
FORWARD, BACK = ("effects",) * 5, ("effects",) * 4 + ("refused",) + ("undone",) * 4


class Rejected(Exception):
    """The service said no."""


class Poster:
    """One client for all steps."""

    def __init__(self, origin: str) -> None:
        limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
        self._client = httpx.AsyncClient(base_url=origin, limits=limits, timeout=60, trust_env=False)
        self._door = asyncio.Semaphore(AT_ONCE)

    async def post(self, path: str, key: str, step: int) -> dict[str, object]:
        """One effect. Raises Rejected for a 422."""
        async with self._door:
            answer = await self._client.post(f"/{path}", json={"step": step}, headers={"Idempotency-Key": key})
        if answer.status_code == 422:
            raise Rejected(answer.text)
        answer.raise_for_status()
        found: dict[str, object] = answer.json()
        return found


async def together(one: Callable[[int], Awaitable[object]], number: int, at_once: int = 100) -> float:
    """Does it so many times, so many at once. Seconds."""
    door = asyncio.Semaphore(at_once)

    async def turn(at: int) -> None:
        async with door:
            await one(at)

    began = time.perf_counter()
    await asyncio.gather(*(turn(at) for at in range(number)))
    return time.perf_counter() - began


async def calm(used: Callable[[], float], look: float) -> None:
    """Waits until what was begun is over: less than `CALM` of a core is used in `look` seconds; `LONGEST` at the most."""
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        began, before = time.monotonic(), used()
        await asyncio.sleep(look)
        if used() - before < CALM * (time.monotonic() - began):
            break


async def floor(origin: str, paths: tuple[str, ...], number: int) -> float:
    """ms of CPU of a run's calls with no engine. Its effects go to a path that nobody counts."""
    poster, used = Poster(origin), time.process_time()

    async def one(at: int) -> None:
        for call, path in enumerate(paths):
            try:
                await poster.post("floor" if path != "refused" else path, f"floor-{os.getpid()}-{at}-{call}", call)
            except Rejected:
                continue

    await together(one, number)
    return (time.process_time() - used) / number * 1000


def cpu(*pids: int) -> float:
    """Seconds of CPU of these processes, all threads."""
    used = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(words[11]) + int(words[12])
    return used / os.sysconf("SC_CLK_TCK")


def memory(*pids: int) -> float:
    """KB that these processes have in memory."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4.0 for pid in pids)


def disk(folder: str) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
