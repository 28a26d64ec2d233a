"""Several engines of one project on one PostgreSQL: runs with compensations, each effect once, whoever drives."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.core import events as e
from runner.engine.embedded import Embedded
from runner.engine.starting import Wish
from runner.language.project import Project
from runner.store.lock import EngineLock
from tests.bench._ground import kinds, write_project
from tests.store.conftest import database, server
from tests.support.http_service import HttpService
from tests.support.says import refused

__all__ = ["database", "server"]
RUNS = 60


def has_intended(database: str, fence: int) -> bool:
    """Whether this engine has begun a call."""
    asked = "SELECT count(*) FROM log WHERE type = 'CallIntended' AND data::jsonb ->> 'fence' = %s"
    with psycopg.connect(database) as connection:
        row = connection.execute(asked, (str(fence),)).fetchone()
    return row is not None and row[0] > 0


async def test_engines_share_the_work_and_nothing_happens_twice(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three; twice one of them is taken for dead in the middle of it, and is refused what it decided before."""
    monkeypatch.setattr("runner.store.shared.BEAT", 50)
    async with HttpService() as shop, contextlib.AsyncExitStack() as opened:
        shop.script("POST /refused", always=refused())
        drivers = []
        for name in ("one", "two", "three"):
            folder = tmp_path / name
            write_project(folder, shop.origin, database, at_once=16)
            driver = OwnDriver(Project.open(folder, kinds=kinds()), MachineClock(), EngineLock(folder))
            await opened.enter_async_context(driver.running())
            drivers.append(driver)
        bundles = {flow: Project.open(tmp_path / "one", kinds=kinds()).bundle(flow) for flow in ("saga", "rollback")}

        async def start(number: int) -> str:
            driver = drivers[number % 3]
            started = await driver.start_bundle(bundles[("saga", "rollback")[number % 2]], Wish())
            if number in (20, 40):
                mine = driver.store.fence()
                while not has_intended(database, mine):  # noqa: ASYNC110 - it is a database
                    await asyncio.sleep(0.005)
                with psycopg.connect(database) as connection:  # as an engine does that finds its lease over
                    living = {fence for (fence,) in connection.execute("SELECT fence FROM engines")}
                    heir = next(one for one in drivers if one is not driver and one.store.fence() in living)
                    connection.execute("DELETE FROM engines WHERE fence = %s", (mine,))
                    connection.execute("UPDATE runs SET fence = %s WHERE fence = %s", (heir.store.fence(), mine))
                heir.engine.wake(started.run)
                assert isinstance(heir.engine, Embedded)
                heir.engine._hear(0, "left")
            return started.run

        runs = await asyncio.gather(*(start(number) for number in range(RUNS)))
        async with asyncio.timeout(50):
            for run in runs:
                while drivers[0].store.run(run).ended_at is None:  # noqa: ASYNC110 - others drive it
                    await asyncio.sleep(0.05)
        store = drivers[0].store
        assert Counter(store.run(run).status for run in runs) == {"succeeded": RUNS // 2, "compensated": RUNS // 2}
        assert not store.verify()
        assert not store.without_witness(MachineClock().now() + 10**9)
        keys = Counter(effect.key for effect in shop.world.effects)
        assert len(keys) > RUNS * 5
        assert not [key for key, times in keys.items() if times > 1]
        intents = [row.event for run in runs for row in store.log(run) if isinstance(row.event, e.CallIntended)]
        assert len({intent.fence for intent in intents}) >= 3
        assert max(driver.store.fence() for driver in drivers) >= 4
