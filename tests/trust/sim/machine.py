"""One engine process: the real store and the real engine, which may die, stall, wake too late, or meet a bad disk."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from sqlalchemy import Connection, Engine

from runner.core import events as e
from runner.core import recall, scopes
from runner.engine import starting
from runner.engine.driven import Desk, Outside
from runner.engine.embedded import Embedded
from runner.errors import AmendsError, EngineBusy, StoreUnwritable
from runner.store import log as store_log
from runner.store import sql
from runner.store.batch import Moved
from runner.store.callers import Waiting, settle
from runner.store.facts import NewRun
from runner.store.lock import EngineLock
from runner.store.sql import SqlStore, open_store
from runner.store.sqlite import SqliteFile
from runner.store.work import AppendWork, T, Work
from runner.store.writer import TAKEN_OVER, Writer
from tests.laws.play import FEW_IN_DOUBT, SMALL_PAGE
from tests.trust.sim.loop import Died, SimLoop

Fate = Literal["kept", "error_kept", "error_lost", "crash_kept", "crash_lost", "full"]
"""What becomes of a commit; `full`: the disk has no room."""
Weather = Callable[[], Fate]
_CODES = {"full": "SQLITE_FULL"}


class BadDisk(SqliteFile):
    """The real file, whose commits meet their fate. `weather` is set once the engine writes."""

    def __init__(self, path: Path, busy: int = 0) -> None:
        super().__init__(path, busy)
        self.weather: Weather = _fine

    def writer(self) -> Engine:
        """See `database.Database`; a statement is compiled once for all seeds."""
        return _knowing(super().writer())

    def readers(self, size: int = 8) -> Engine:
        """See `database.Database`."""
        return _knowing(super().readers(size))

    def end(self, connection: Connection, *, commit: bool) -> None:
        """See `database.Database`."""
        fate = self.weather() if commit else "kept"
        super().end(connection, commit=commit and fate in ("kept", "error_kept", "crash_kept"))
        if fate.startswith("crash"):
            raise Died
        if fate != "kept":
            broken = sqlite3.OperationalError("the disk is bad")
            broken.sqlite_errorname = _CODES.get(fate, "SQLITE_IOERR")
            raise broken


def _fine() -> Fate:
    return "kept"


_COMPILED: dict[Any, Any] = {}
_DIALECTS: list[Any] = []


def _knowing(engine: Engine) -> Engine:
    """Statements are compiled for a dialect, and are known again by it."""
    engine._compiled_cache = _COMPILED
    if not _DIALECTS:
        engine.connect().close()
        _DIALECTS.append(engine.dialect)
    engine.dialect = _DIALECTS[0]
    return engine


class InlineWriter(Writer):
    """The real writer without its thread: what is put in one turn of the loop is one group."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self._line: list[Waiting] = []
        self.is_mute = False
        self.has_intended = False
        """A call was intended in the last group: it has not left yet."""

    def start(self) -> None:
        """See `Writer`."""
        try:
            self._connected()
        except Moved:
            raise EngineBusy(TAKEN_OVER) from None

    async def put(self, work: Work[T]) -> T:
        """See `Writer`."""
        if self.is_mute:
            raise StoreUnwritable("the process is dead")
        loop = asyncio.get_running_loop()
        waiting = Waiting(work=work, loop=loop, future=loop.create_future())
        self._line.append(waiting)
        if len(self._line) == 1:
            loop.call_soon(self._flush)
        answer: T = await waiting.future
        return answer

    def _flush(self) -> None:
        group, self._line = self._line, []
        if self.is_mute:
            for waiting in group:
                waiting.answer = StoreUnwritable("the process is dead")
        else:
            self._commit_group(group)
            self.has_intended = any(_intends(waiting.work) for waiting in group)
        settle(group)

    def close(self) -> None:
        """Gives the connection back; nothing is written any more."""
        self.is_mute = True
        self._drop_connection()

    def take_leave(self) -> None:
        """What an orderly end writes last."""
        self._finish()


def _intends(work: Work[Any]) -> bool:
    return isinstance(work, AppendWork) and any(isinstance(event, e.CallIntended) for event in work.append.events)


class _HeldLock(EngineLock):
    """Who is the engine here is the world's business."""

    @property
    def held(self) -> bool:
        """Always."""
        return True


class MachineTime:
    """The clock of one machine: the wall clock may be wrong, the monotonic one is not."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.skew = 0

    def now(self) -> int:
        """See `clock.Clock`."""
        return self._now() + self.skew

    def monotonic(self) -> int:
        """See `clock.Clock`."""
        return self._now()


class Machine:
    """An engine process, from its start to its death. `state`: up, stalled, gone."""

    def __init__(self, name: str, folder: Path, now: Callable[[], int], weather: Weather) -> None:
        self.name = name
        self.state = "up"
        self.has_failed = False
        self.loop = SimLoop(now)
        self.clock = MachineTime(now)
        asyncio._set_running_loop(self.loop)
        try:
            self.store: SqlStore = open_store(folder, clock=self.clock, writable=True, lock=_HeldLock(folder), floor=0)
        finally:
            asyncio._set_running_loop(None)
        assert isinstance(self.store._writer, InlineWriter)
        self.writer = self.store._writer
        self.fence = self.writer.site.fence
        file = self.store._file
        assert isinstance(file, BadDisk)
        file.weather = weather

    def begin(self, outside: Outside, desk: Desk, workers: int) -> None:
        """The engine starts, and takes up what was left open."""
        self.engine = Embedded(self.store, outside, self.clock, workers=workers, desk=desk)
        self.spawn(self._started())

    async def _started(self) -> None:
        """An engine that cannot begin ends; whoever looks after it starts another one."""
        try:
            await self.engine.start()
        except AmendsError:
            self.has_failed = True

    def spawn(self, coroutine: Any) -> None:
        """Something that this process does."""
        self.loop.create_task(self._quietly(coroutine))

    async def _quietly(self, coroutine: Any) -> None:
        try:
            await coroutine
        except AmendsError as refused:
            self.loop.unhandled.append(f"told: {refused}")

    async def start_run(self, new: NewRun, event: e.RunStarted) -> None:
        """As the app starts one."""
        self.engine.begin(await self.store.start(new), event)

    async def leave(self) -> None:
        """An orderly end, while calls may be out."""
        await self.engine.stop(1.0)
        self.writer.take_leave()

    def die(self) -> None:
        """From here on it does nothing."""
        self.state = "gone"
        self.writer.is_mute = True

    def bury(self) -> None:
        """Throws it away: its tasks end, and nothing of them is written."""
        self.die()
        if hasattr(self, "engine"):
            self.engine._is_stopping = True  # no more tries
        with suppress(Died):
            self.loop.drain()
        self.writer.close()
        self.store._readers.dispose()


@contextmanager
def simulated() -> Iterator[None]:
    """Inside of it stores have no thread and bad disks, ids and salts are the same each time, pages are small."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as quiet:
        logging.disable(logging.CRITICAL)
        quiet.callback(logging.disable, logging.NOTSET)
        patch.setattr(sql, "Writer", InlineWriter)
        patch.setattr(sql, "SqliteFile", BadDisk)
        patch.setattr(store_log, "_salt", lambda: "0" * 32)
        patch.setattr(starting, "new_run_id", lambda now: f"r{now}")
        patch.setattr(recall, "PAGE", SMALL_PAGE)
        patch.setattr(scopes, "MOST_IN_DOUBT", FEW_IN_DOUBT)
        yield
