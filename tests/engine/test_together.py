"""What several engines on one PostgreSQL must hold to together: what a person holds, and the bounds of connections."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.core import events as e
from runner.engine.limits import Begun, Limits
from runner.engine.starting import Wish
from runner.language.project import Project
from runner.people.holds import Hold
from runner.store.lock import EngineLock
from tests.bench._ground import kinds, write_project
from tests.store.conftest import database, server
from tests.support.http_service import HttpService
from tests.support.says import Say
from tests.support.temporal import TemporalServer
from tests.support.world import Seen

__all__ = ["database", "server"]
ME = "person:root"


@contextlib.asynccontextmanager
async def driving(
    folder: Path, origin: str, database: str, bounds: str = "", settings: str = ""
) -> AsyncIterator[OwnDriver]:
    """An engine in a folder of its own, as on a machine of its own. `bounds` stand in connections.yaml, `settings` in
    amends.yaml."""
    write_project(folder, origin, database, at_once=16)
    with (folder / "amends.yaml").open("a") as lines_too:
        lines_too.write(settings)
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


class Counted(HttpService):
    """Counts how many calls are here at once, and knows when each came (ms of the monotonic clock)."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[int] = []

    def note(self, seen: Seen) -> None:
        self.came.append(MachineClock().monotonic())
        super().note(seen)


def most_in(times: Sequence[int], ms: int) -> int:
    """The most of these in any stretch of so many ms."""
    return max(sum(begin <= at < begin + ms for at in times) for begin in times)


async def play(shop: Counted, drivers: Sequence[OwnDriver], runs: int) -> list[str]:
    """So many sagas at each engine, until all have ended."""
    bundle = drivers[0].outside.bundle(await drivers[0].pin("saga"))
    started = [await driver.start_bundle(bundle, Wish()) for _ in range(runs) for driver in drivers]
    store = drivers[0].store
    await until(lambda: all(store.run(one.run).ended_at for one in started), 150)
    assert {store.run(one.run).status for one in started} == {"succeeded"}
    return [one.run for one in started]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("is_cluster", [False, True], ids=["embedded", "temporal"])
async def test_calls_at_once_are_bounded_over_all_engines(
    tmp_path: Path, database: str, temporal: TemporalServer, is_cluster: bool
) -> None:
    """Three places, and at both engines somebody waits; then one of them leaves, and the other has them all."""
    queue = f"q{secrets.token_hex(6)}"
    settings = f'engine: {{ temporal: "{temporal.address}", queue: {queue} }}\n' if is_cluster else ""
    async with (
        Counted() as shop,
        driving(tmp_path / "one", shop.origin, database, "at_once: 3", settings) as one,
        contextlib.AsyncExitStack() as opened,
    ):
        shop.script("POST /effects", always=Say(delay=20))
        two = await opened.enter_async_context(driving(tmp_path / "two", shop.origin, database, "at_once: 3", settings))
        runs = await play(shop, (one, two), 4)
        assert len(shop.world.effects) == 40
        assert shop.most_busy <= 3
        rows = [row.event for run in runs for row in one.store.log(run)]
        made = Counter(event.fence for event in rows if isinstance(event, e.CallIntended))
        assert set(made) == {one.store.fence(), two.store.fence()}
        await opened.aclose()
        await play(shop, (one,), 3)
        assert shop.most_busy == 3


@pytest.mark.timeout(240)
async def test_the_rate_of_calls_is_bounded_over_all_engines(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly where they begin; at the service as far as the way there does not push them together."""
    begun: list[int] = []
    begin = Limits.begin

    def note(limits: Limits, connection: str, run: str) -> Begun | None:
        begun.append(MachineClock().monotonic())
        return begin(limits, connection, run)

    monkeypatch.setattr(Limits, "begin", note)
    async with (
        Counted() as shop,
        driving(tmp_path / "one", shop.origin, database, "rate: 12 per 1 s") as one,
        driving(tmp_path / "two", shop.origin, database, "rate: 12 per 1 s") as two,
    ):
        await play(shop, (one, two), 4)
        assert len(shop.world.effects) == len(begun) == 40
        assert most_in(begun, 999) <= 12
        assert most_in(shop.came, 500) <= 12
