"""What several engines on one PostgreSQL must hold to together: what a person holds, and the bounds of connections."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.engine.starting import Wish
from runner.language.project import Project
from runner.people.holds import Hold
from runner.store.lock import EngineLock
from tests.bench._ground import kinds, write_project
from tests.store.conftest import database, server
from tests.support.http_service import HttpService

__all__ = ["database", "server"]
ME = "person:root"


@contextlib.asynccontextmanager
async def driving(folder: Path, origin: str, database: str, bounds: str = "") -> AsyncIterator[OwnDriver]:
    """An engine in a folder of its own, as on a machine of its own. `bounds` stand in connections.yaml."""
    write_project(folder, origin, database, at_once=16)
    if bounds:
        lines = folder / "connections.yaml"
        lines.write_text(lines.read_text().replace("allow_private: true", f"allow_private: true, {bounds}"))
    driver = OwnDriver(Project.open(folder, kinds=kinds()), MachineClock(), EngineLock(folder))
    async with driver.running(settles=False):
        yield driver


async def until(is_so: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - others do it
            await asyncio.sleep(0.02)


CONNECTION, FLOW = Hold(kind="connection", name="service", by=ME), Hold(kind="flow", name="saga", by=ME)


@pytest.mark.parametrize(("hold", "is_heard"), [(CONNECTION, True), (FLOW, False)])
async def test_what_is_held_at_one_engine_stops_the_runs_of_the_other(
    tmp_path: Path, database: str, hold: Hold, is_heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the other one has not heard of it: then its intent is refused. The release sets them going."""
    async with (
        HttpService() as shop,
        driving(tmp_path / "one", shop.origin, database) as one,
        driving(tmp_path / "two", shop.origin, database) as two,
    ):
        limits = two.engine.limits
        if not is_heard:
            monkeypatch.setattr(two.engine, "_heed", lambda fence, what: None)
        await one.hold(hold)
        if is_heard:
            await until(lambda: limits.held == {hold.what: ME})
        else:
            assert not limits.held
        run = (await two.start_bundle(Project.open(tmp_path / "two", kinds=kinds()).bundle("saga"), Wish())).run
        await until(lambda: two.store.run(run).waiting_for.startswith("the release of"))
        assert not shop.requests
        assert limits.held == {hold.what: ME}
        monkeypatch.undo()
        await one.hold(Hold(kind=hold.kind, name=hold.name, by=ME, is_held=False))
        await until(lambda: two.store.run(run).status == "succeeded")
        assert not limits.held


async def test_the_collector_is_as_it_was_whichever_engine_ends_first(tmp_path: Path) -> None:
    async with HttpService() as shop, contextlib.AsyncExitStack() as first, contextlib.AsyncExitStack() as second:
        usual = gc.get_threshold()
        for name, opened in (("one", first), ("two", second)):
            await opened.enter_async_context(driving(tmp_path / name, shop.origin, ""))
        assert gc.get_threshold() != usual
        await first.aclose()
        await second.aclose()
        assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)
