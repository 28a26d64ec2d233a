"""Serving a project until it is told to stop: its runs are driven, with a door open or without one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from runner.app import Amends, OwnDriver
from runner.driver import Door
from runner.engine.neighbours import Observer
from runner.engines import busy, told_to_stop
from runner.errors import NotPossible, StoreUnwritable
from runner.reading import database_url
from runner.store.database import is_address
from runner.store.lock import EngineLock
from runner.store.pages import served_at
from runner.store.sql import SqlStore
from runner.triggers.active import Active
from runner.triggers.running import running

LOOKS_AGAIN = 0.2
"""Seconds between two looks whether a database that was put back from a copy may go on."""


async def serve(
    amends: Amends, on_ready: Callable[[Active], None], on_turn: Observer, door: Door | None, only: Sequence[str] = (),
    on_rest: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Drives the project's runs, with a door open, until SIGTERM or SIGINT. Raises EngineBusy if another does, and
    they are in a file.

    `on_turn` is told of every run's new facts, `on_ready` of what starts by itself. Without a door it is a worker:
    nothing starts by itself here, and `only` may name the connections that it reaches. With one, a database that was
    put back from a copy rests behind it until a person has answered; `on_rest` is told.
    """
    lock = EngineLock(amends.folder)
    if not lock.acquire() and not is_address(database_url(amends.folder, amends.settings)):
        raise busy(lock, amends.folder)
    try:
        if door is not None:
            door.bind()
    except NotPossible:
        lock.release()
        raise
    stopped, driver = told_to_stop(), OwnDriver(amends.project, amends.clock, lock)
    may_rest = door is not None
    async with contextlib.AsyncExitStack() as opened:
        if door is not None:  # first: what is mailed from the start on leads to it
            opened.enter_context(served_at(amends.folder, door.address))
        await opened.enter_async_context(driver.running(settles=False, only=only, may_rest=may_rest))
        driver.engine.observers.append(on_turn)
        triggers, has_rested = driver.triggers, driver.rests
        if has_rested and door is not None:
            await opened.enter_async_context(door.serving(driver))
            on_rest()
            if not await answered(driver.store, stopped):
                return
            await driver.begin()
        if door is not None:
            for part in (triggers.active.watching(), running(triggers)):
                await opened.enter_async_context(part)
            if not has_rested:
                await opened.enter_async_context(door.serving(driver))
        on_ready(triggers.active)
        await stopped.wait()


async def answered(store: SqlStore, stopped: asyncio.Event) -> bool:
    """Returns when a person has let it go on, here or at another engine; False where it is to stop."""
    while True:
        with contextlib.suppress(StoreUnwritable):
            if not store.restored:
                return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOKS_AGAIN):
                await stopped.wait()
                return False
