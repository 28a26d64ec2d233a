"""Several engines that serve one project on one PostgreSQL: each slot is one run, whoever deals with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.bench._ground import write_project
from tests.store.conftest import database, server
from tests.support.http_service import HttpService
from tests.support.processes import ROOT

__all__ = ["database", "server"]
FLOW = """flow: daily
title: A slot each day
owner: person:me
mode: live
run_key: ${{ trigger.id }}
trigger:
  - schedule: every day at 09:00
    zone: Asia/Tokyo
    missed: all
    overlap: allow
steps:
  - id: make
    do: service.make
    with: { run: "${{ run.id }}", step: 1 }
    unattended: It only counts.
    compensate: { none: It only counts. }
"""
BEGIN = "2026-09-01T08:00:00+09:00"


class Beside:
    """One engine in a process of its own, as on a machine of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def tell(self, moment: str, **more: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps({'moment': moment, **more})}\n".encode())

    async def says(self) -> str:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 120)
        return line.decode().strip()

    async def answer(self, moment: str, **more: Any) -> dict[str, Any]:
        self.tell(moment, **more)
        said: dict[str, Any] = json.loads(await self.says())
        return said


@contextlib.asynccontextmanager
async def two_engines(folder: Path, origin: str, database: str) -> AsyncIterator[tuple[Beside, Beside]]:
    async with contextlib.AsyncExitStack() as opened:
        found = []
        for name in ("one", "two"):
            write_project(folder / name, origin, database)
            (folder / name / "flows" / "daily.yaml").write_text(FLOW)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.triggers.slots_shared", str(folder / name), BEGIN, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            opened.push_async_callback(end, process)
            found.append(Beside(process))
            assert await found[-1].says() == "ready"
        yield found[0], found[1]


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def started(database: str) -> list[str]:
    """The slots that have a run, each once for each of its runs; and the others, with what became of them."""
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT status || ' ' || arrival FROM arrivals ORDER BY arrival").fetchall()
        runs = connection.execute("SELECT 'run ' || run_key FROM runs ORDER BY run_key").fetchall()
    return [str(row[0]) for row in (*rows, *runs)]


def slots(first: int, last: int) -> list[str]:
    days = [f"2026-09-{day:02}T09:00:00+09:00" for day in range(first, last + 1)]
    return [f"{word} {day}" for word in ("started", "run") for day in days]


async def until_ended(database: str) -> None:
    async with asyncio.timeout(60):
        with psycopg.connect(database, autocommit=True) as connection:
            asked = "SELECT count(*) FROM runs WHERE status <> 'succeeded'"
            while connection.execute(asked).fetchone() != (0,):  # noqa: ASYNC110 - it is a database
                await asyncio.sleep(0.05)


@pytest.mark.timeout(240)
async def test_a_slot_is_one_run_whoever_fires_it(tmp_path: Path, database: str) -> None:
    """First neither asks whose duty it is, and both have every slot before them when the first one is taken. Then the
    one that has the schedules is killed in the middle of them, and the other one takes them over."""
    async with HttpService() as shop, two_engines(tmp_path, shop.origin, database) as (one, two):
        for each in (one, two):
            each.tell("2026-09-12T08:00:00+09:00", everybody=True)
        assert [await each.says() for each in (one, two)] == ["due", "due"]
        for each in (one, two):
            each.tell("on")
        told = [json.loads(await each.says()) for each in (one, two)]
        assert told == [{"duty": True, "slots": 11}, {"duty": False, "slots": 11}]
        assert started(database) == slots(1, 11)

        assert await two.answer("2026-09-13T08:00:00+09:00") == {"duty": False, "slots": 0}
        assert await one.answer("2026-09-13T08:00:00+09:00") == {"duty": True, "slots": 1}
        one.tell("2026-09-18T08:00:00+09:00", point="after", nth=2)
        assert await asyncio.wait_for(one.process.wait(), 60) == -signal.SIGKILL
        assert started(database) == slots(1, 14)
        async with asyncio.timeout(90):
            while not (said := await two.answer("2026-09-18T08:00:00+09:00"))["slots"]:
                assert started(database) == slots(1, 14)
        assert said == {"duty": True, "slots": 3}
        assert started(database) == slots(1, 17)
        await until_ended(database)
        assert set(Counter(effect.key for effect in shop.world.effects).values()) == {1}
        assert len(shop.world.effects) == 17
