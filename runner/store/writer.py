"""The one writer: a thread with a connection of its own that commits whatever is ready as one group.

Callers put a work and wait. A group is planned and written together; when the database refuses it, it is done again
with a savepoint for each work, so that one refused write takes no other with it. Answers are given after COMMIT, all in
one turn of the caller's loop. A caller alone never waits for company; after a large group the next one is gathered for
half a millisecond. When COMMIT fails nothing of the group counts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from runner.clock import SECOND, Clock
from runner.errors import AmendsError, EngineBusy, SequenceConflict, StoreError, StoreUnwritable
from runner.store import shared as several
from runner.store.anchor import Anchor, keep_anchor, reserved
from runner.store.batch import Batch, Head, Moved
from runner.store.callers import Callers, Waiting, answer
from runner.store.checkpoints import Untied
from runner.store.company import Left
from runner.store.database import Database
from runner.store.opening import take_over
from runner.store.shared import Shared
from runner.store.signing import Signer
from runner.store.site import Site, read_site
from runner.store.statements import statements
from runner.store.work import T, Work, explain

log = logging.getLogger("amends.store")

GROUP = 512
CROWD = 8
GATHER = 0.0005
"""Seconds that a group is gathered after one of at least CROWD works: fewer commits, each with more in it. A caller
alone never waits."""
HEADS = 5_000
"""Runs whose place is remembered; what is remembered is only believed when the conditional update agrees."""
ANCHOR_AFTER = 10 * SECOND
TAKEN_OVER = "another engine has taken over this database; this one must not write any more"
TRIES = 3
"""How often a work that another engine got in the way of is planned."""


class Writer:
    """Owns the writing connection. `start` begins the thread, `close` ends it after all that waits is written."""

    def __init__(
        self, *, file: Database, engine: Engine, site: Site, anchor: Anchor, place: Path, clock: Clock, signer: Signer,
        shared: Shared | None = None,
    ) -> None:  # fmt: skip
        self.site = site
        self._file = file
        self._errors: tuple[type[Exception], ...] = (DBAPIError, *file.errors)
        self._failures: tuple[type[Exception], ...] = (AmendsError, *self._errors)
        self._engine = engine
        self._anchor = anchor
        self._anchored_at = clock.monotonic()
        self._place = place
        self._clock = clock
        self._words = statements(file)
        self.shared = shared
        self._beat_at = time.monotonic()
        self._ready: SimpleQueue[list[Waiting] | None] = SimpleQueue()
        self._callers = Callers(self._take)
        self._door = threading.Lock()
        self._closing = False
        self._connection: Connection | None = None
        self._cursor: Any = None
        self._heads: dict[str, Head] = {}
        self._untied = Untied(clock, signer)
        self.on_commit: Callable[[int, float], None] | None = None
        """Told of every COMMIT: how many writes shared it, and how long it took from BEGIN, in seconds."""
        self.on_left: Callable[[Left], object] | None = None
        """Told, in the writer's thread, of each engine that is gone, and of this one where others took it for that."""
        self._thread = threading.Thread(target=self._drive, name="amends-writer", daemon=True)

    # -- the callers' side --

    def start(self) -> None:
        """Begins to write. Raises EngineBusy where another engine has taken over meanwhile."""
        try:
            self._connected()
        except Moved:
            raise EngineBusy(TAKEN_OVER) from None
        if self.shared is not None and self.shared.mine:
            self._beat()
        self._thread.start()

    async def put(self, work: Work[T]) -> T:
        """Writes it and returns its answer after COMMIT, or raises; then nothing of it was written.

        A caller that is cancelled while it waits does not know: it reads the log again.
        """
        return await self._callers.put(work)

    def _take(self, gathered: list[Waiting]) -> bool:
        with self._door:
            if not self._closing:
                self._ready.put(gathered)
            return not self._closing

    def close(self) -> None:
        """Writes what waits, then a checkpoint and the exact anchor, and ends the thread."""
        with self._door:
            if not self._closing:
                self._ready.put(None)
            self._closing = True
        self._thread.join()

    def remember(self, changed: Iterable[tuple[str, int, str]]) -> None:
        """Chains that no checkpoint has yet: (run, seq, hash). Before `start`."""
        self._untied.learn(changed)

    # -- the thread --

    def _drive(self) -> None:
        more = self._next()
        company = 0
        while more is not None:
            if company >= CROWD:
                time.sleep(GATHER)
            group = more
            while len(group) < GROUP and not self._ready.empty() and (more := self._ready.get()) is not None:
                group += more
            company = len(group)
            if writing := [each for each in group if not each.work.stands_apart]:
                self._commit_group(writing)
            for each in group:
                if each.work.stands_apart:
                    self._tend(each)
            answer(group)
            self._keep_anchor()
            if more is not None:
                more = self._next()
        self._finish()

    def _next(self) -> list[Waiting] | None:
        """The next work; where there are other engines they hear of this one meanwhile."""
        if self.shared is None:
            return self._ready.get()
        while True:
            left = self._beat_at + several.BEAT / SECOND - time.monotonic()
            if left <= 0:
                self._beat()
                continue
            with suppress(Empty):
                return self._ready.get(timeout=left)

    def _beat(self) -> None:
        """Says that this engine is there, and looks for those that are not any more; never raises."""
        try:
            found = self._look_after_others()
        except Moved:
            self._rejoin()
        except self._failures as error:
            self._drop_connection()
            told = error if isinstance(error, AmendsError) else self._file.translate(error)
            log.warning("other engines could not be told that this one is there: %s", told)
        else:
            for left in found:
                self._inherit(left)
        self._beat_at = time.monotonic()  # from its end on: what waits has its turn however long it took

    def _look_after_others(self) -> Sequence[Left]:
        connection, mine = self._connected(), self.shared
        try:
            if mine is None or not mine.beat(self._cursor):
                raise Moved
            found = mine.bury(connection)
            self._file.end(connection, commit=True)
        except BaseException:
            self._file.end(connection, commit=False)
            raise
        return found

    def _inherit(self, left: Left) -> None:
        log.warning("engine %d (%s) is gone; %d of its runs go on here", left.fence, left.name, len(left.runs))
        self._untied.learn(left.changed)
        if self.on_left is not None:
            self.on_left(left)

    def _rejoin(self) -> bool:
        """Where others took this engine for dead it goes on as a new one: what it still decides under its old fence is
        refused, what it has to report is not. False where there is no way on."""
        mine, old = self.shared, self.site.fence
        self._drop_connection()
        if mine is None:
            return False
        try:
            with suppress(StoreUnwritable):
                self._write_anchor(self.site)
            connection = self._connect()
            self.site, self._anchor, _ = take_over(connection, self._file, self._place, self._clock, mine)
        except self._failures as error:
            log.warning("this engine could not join the others again: %s", error)
            self._drop_connection()
            return False
        log.warning(
            "this engine was held up for longer than its lease, so others have its runs; it goes on as engine %d",
            self.site.fence,
        )
        if self.on_left is not None:
            self.on_left(Left(fence=old, name="", runs=(), changed=()))
        return True

    def _tend(self, waiting: Waiting) -> None:
        """Sets the answer of a work that stands outside any transaction; never raises."""
        try:
            self._connected()
            waiting.answer = waiting.work.tend(self._file, self._cursor)
        except self._errors as error:
            waiting.answer = self._file.translate(error)
        except Moved:
            waiting.answer = EngineBusy(TAKEN_OVER)

    def _commit_group(self, group: list[Waiting]) -> None:
        """Sets every answer; never raises."""
        failed: AmendsError
        try:
            if not self._commit_together(group):
                self._heads.clear()
                self._transact(group, self._plan_alone)
            return
        except self._errors as error:
            if self._file.open_reserve(error):
                self._drop_connection()
                self._commit_group(group)
                return
            failed = self._file.translate(error)
        except Moved:
            if self._rejoin():
                self._commit_group(group)
                return
            failed = EngineBusy(TAKEN_OVER) if self.shared is None else StoreUnwritable(TAKEN_OVER)
        except AmendsError as error:
            failed = error
        except Exception as error:
            log.exception("a group of %d writes failed", len(group))
            failed = StoreError(f"a write failed inside the store ({type(error).__name__}); nothing was kept")
        self._drop_connection()
        for waiting in group:
            waiting.answer = failed

    def _commit_together(self, group: list[Waiting]) -> bool:
        """The quick way. False: one of the works does not fit, and nothing was written."""
        try:
            self._transact(group, self._plan_together)
        except StoreError:
            raise
        except Exception as refused:
            if self._file.spoils_everything(refused) and not self._file.is_passing(refused):
                raise
            return False
        return True

    def _transact(self, group: list[Waiting], plan: Callable[[Connection, list[Waiting]], Batch]) -> None:
        connection = self._connected()
        began, last = time.perf_counter(), self.site
        self._file.begin(self._cursor)
        try:
            if self.shared is not None:
                number = self.shared.begin(self._cursor)
                if number is None:
                    raise Moved
                self.site = replace(self.site, commit_no=number - 1)
            batch = plan(connection, group)
            if not batch.written:
                self.site = last  # its number was taken, and no commit has it
                self._file.end(connection, commit=False)
                return
            if batch.site.commit_no + 1 > self._anchor.end:
                self._write_anchor(batch.site)
            site = batch.seal()
            self._file.end(connection, commit=True)
        except BaseException:
            self.site = last
            self._file.end(connection, commit=False)
            raise
        self.site = site
        if self.on_commit is not None:
            self.on_commit(len(group), time.perf_counter() - began)
        self._untied.note(batch)
        if len(self._heads) > HEADS:
            self._heads.clear()
        self._heads |= batch.heads

    def _plan_together(self, connection: Connection, group: list[Waiting]) -> Batch:
        batch = self._batch(connection, [waiting.work for waiting in group], self.site)
        for waiting in group:
            if waiting.work.reads_first:
                batch.write()
            try:
                waiting.answer = waiting.work.plan(batch)
            except SequenceConflict as refused:
                if waiting.work.run in self._heads:  # remembered, and not what the table says now
                    raise Moved from refused
                waiting.answer = refused
            except AmendsError as refused:
                waiting.answer = refused
        self._untied.tie(batch, at_once=batch.asks_checkpoint)
        batch.write()
        return batch

    def _plan_alone(self, connection: Connection, group: list[Waiting]) -> Batch:
        """Each work in a savepoint of its own; what one did the next one sees."""
        whole = self._batch(connection, [], self.site)
        if self.shared is not None:  # all of them, in their order, so that no two engines wait for each other
            whole.load({each.work.run for each in group if each.work.run}, (), {}, {each.work.holds for each in group})
            whole.heads.clear()
        for waiting in group:
            for left in reversed(range(TRIES)):
                point = connection.begin_nested()
                batch = self._batch(connection, [], whole.site)
                batch.site_is_read = whole.site_is_read
                try:
                    self._load(batch, [waiting.work])
                    waiting.answer = waiting.work.plan(batch)
                    batch.write()
                    point.commit()
                except Exception as error:
                    if self._file.spoils_everything(error) and not self._file.is_passing(error):
                        raise
                    point.rollback()
                    if left and self.shared is not None and (isinstance(error, (Moved, *self._errors))):
                        continue
                    waiting.answer = self._why(error, waiting.work, batch)
                    break
                whole.site, whole.site_is_read = batch.site, batch.site_is_read
                whole.heads |= batch.heads
                whole.written |= batch.written
                whole.told |= batch.told
                break
        return whole

    def _why(self, error: Exception, work: Work[Any], batch: Batch) -> Exception:
        if isinstance(error, Moved):
            return SequenceConflict("the log moved on while it was written to; read it again and decide again")
        if isinstance(error, self._errors):
            return explain(work, batch)
        return error

    def _batch(self, connection: Connection, works: Sequence[Work[Any]], site: Site) -> Batch:
        batch = Batch(
            connection=connection, cursor=self._cursor, words=self._words, site=site, now=self._clock.now(),
            shared=self.shared,
        )  # fmt: skip
        self._load(batch, works)
        return batch

    def _load(self, batch: Batch, works: Sequence[Work[Any]]) -> None:
        names = (name for work in works for name in work.records())
        batch.load({work.run for work in works if work.run}, names, self._heads, {work.holds for work in works})

    # -- the connection --

    def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        connection = self._connect()
        with connection.begin():
            found = read_site(connection)
            last = None if self.shared is None else self.shared.last_commit(connection)
        if self.shared is None:
            if found.fence != self.site.fence:
                raise Moved
            self.site = found
        elif last is None or last < self.site.commit_no:
            raise Moved
        return connection

    def _connect(self) -> Connection:
        self._connection = connection = self._engine.connect()
        self._cursor = connection.connection.cursor()
        self._file.let_in(self._cursor)
        self._file.end(connection, commit=True)
        return connection

    def _drop_connection(self) -> None:
        """After an error nothing that was believed counts: the next group connects and reads anew."""
        self._heads.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            # Without a word to the other side first, which may be gone.
            with suppress(SQLAlchemyError):
                connection.invalidate()
            with suppress(SQLAlchemyError):
                connection.close()

    # -- anchor and checkpoints --

    def _keep_anchor(self) -> None:
        if self._clock.monotonic() - self._anchored_at >= ANCHOR_AFTER and self.site.commit_no >= self._anchor.start:
            with suppress(StoreUnwritable):
                self._write_anchor(self.site)

    def _write_anchor(self, site: Site) -> None:
        self._anchored_at = self._clock.monotonic()
        anchor = reserved(site.database_id, site.commit_no, site.fence)
        keep_anchor(self._place, anchor)
        self._anchor = anchor

    def _finish(self) -> None:
        try:
            self._transact([], self._plan_last)
            self._write_anchor(self.site)
            if self.shared is not None:
                self.shared.leave(self._connected())
        except Exception as problem:
            if not isinstance(problem, (*self._errors, Moved, AmendsError)):
                raise
            log.warning("the database was closed without a checkpoint; nothing is lost")
        self._drop_connection()

    def _plan_last(self, connection: Connection, group: list[Waiting]) -> Batch:
        batch = self._batch(connection, [], self.site)
        self._untied.tie(batch, at_once=True)
        batch.write()
        return batch
