"""The one writer: a thread with a connection of its own that commits whatever is ready as one group.

Callers put a work and wait. A group is planned and written together; when the database refuses it, it is done again
with a savepoint for each work, so that one refused write takes no other with it. Answers are given after COMMIT, all in
one turn of the caller's loop. A caller alone never waits for company. When COMMIT fails nothing of the group counts.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from runner.clock import MINUTE, SECOND, Clock
from runner.core.events import Checkpoint
from runner.errors import AmendsError, EngineBusy, SequenceConflict, StoreError, StoreUnwritable
from runner.store.anchor import Anchor, reserved, write_anchor
from runner.store.batch import Batch, Head, Moved, Site, Statements
from runner.store.log import encode
from runner.store.sqlite import SqliteFile
from runner.store.tables import meta
from runner.store.work import Work, explain

log = logging.getLogger("amends.store")

BOUND = 4_096
"""Works that may wait; a caller beyond that waits for a place first."""

GROUP = 512
HEADS = 20_000
"""Runs whose place is remembered; what is remembered is only believed when the conditional update agrees."""

CHECKPOINT_COMMITS = 1_000
CHECKPOINT_RUNS = 400
CHECKPOINT_AFTER = 10 * MINUTE
ANCHOR_AFTER = 10 * SECOND


@dataclass(eq=False, kw_only=True, slots=True)
class _Waiting:
    work: Work
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[object]
    answer: object = None


def read_site(connection: Connection) -> Site:
    """The meta row."""
    row = connection.execute(select(meta).where(meta.c.id == 1)).one()
    return Site(
        database_id=row.database_id,
        commit_no=row.commit_no,
        fence=row.fence,
        site_seq=row.site_seq,
        site_head=row.site_head,
        checkpointed=row.checkpointed,
        restored_at=row.restored_at,
    )


class Writer:
    """Owns the writing connection. `start` begins the thread, `close` ends it after all that waits is written."""

    def __init__(
        self, *, file: SqliteFile, engine: Engine, site: Site, anchor: Anchor, place: Path, clock: Clock
    ) -> None:
        self.site = site
        self._file = file
        self._engine = engine
        self._anchor = anchor
        self._anchored_at = clock.monotonic()
        self._place = place
        self._clock = clock
        self._statements = Statements(file)
        self._ready: deque[_Waiting] = deque()
        self._signal = threading.Condition()
        self._closing = False
        self._room: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._connection: Connection | None = None
        self._heads: dict[str, Head] = {}
        self._changed: dict[str, tuple[int, str]] = {}
        self._changed_since: int | None = None
        self._thread = threading.Thread(target=self._drive, name="amends-writer", daemon=True)

    # -- the callers' side --

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    async def put(self, work: Work) -> object:
        """Writes it and returns its answer after COMMIT, or raises; then nothing of it was written.

        A caller that is cancelled while it waits does not know: it reads the log again.
        """
        loop = asyncio.get_running_loop()
        room = self._room.get(loop)
        if room is None:
            room = self._room[loop] = asyncio.Semaphore(BOUND)
        async with room:
            waiting = _Waiting(work=work, loop=loop, future=loop.create_future())
            with self._signal:
                if self._closing:
                    raise StoreUnwritable("the database is being closed; start the engine again to write")
                self._ready.append(waiting)
                self._signal.notify()
            return await waiting.future

    def close(self) -> None:
        """Writes what waits, then a checkpoint and the exact anchor, and ends the thread."""
        with self._signal:
            if self._closing:
                return
            self._closing = True
            self._signal.notify()
        self._thread.join()

    def remember(self, changed: Iterable[tuple[str, int, str]]) -> None:
        """Chains that no checkpoint has yet: (run, seq, hash). Before `start`."""
        self._changed = {run: (seq, head) for run, seq, head in changed}
        self._changed_since = self._clock.monotonic() if self._changed else None

    # -- the thread --

    def _drive(self) -> None:
        while True:
            with self._signal:
                while not self._ready and not self._closing:
                    self._signal.wait()
                group = [self._ready.popleft() for _ in range(min(len(self._ready), GROUP))]
            if not group:
                break
            self._commit_group(group)
            self._answer(group)
            self._keep_anchor()
        self._finish()

    def _answer(self, group: list[_Waiting]) -> None:
        loops = {waiting.loop for waiting in group}
        for loop in loops:
            mine = group if len(loops) == 1 else [waiting for waiting in group if waiting.loop is loop]
            try:
                loop.call_soon_threadsafe(_settle, mine)
            except RuntimeError:
                log.debug("a caller's loop ended before its %d writes were answered", len(mine))

    def _commit_group(self, group: list[_Waiting]) -> None:
        """Sets every answer; never raises."""
        try:
            if not self._commit_together(group):
                self._heads.clear()
                self._transact(group, self._plan_alone)
        except DBAPIError as error:
            self._fail(group, self._file.translate(error))
        except Moved:
            self._fail(
                group, EngineBusy("another engine has taken over this database; this one must not write any more")
            )
        except AmendsError as error:
            self._fail(group, error)
        except Exception as error:
            log.exception("a group of %d writes failed", len(group))
            self._fail(group, StoreError(f"a write failed inside the store ({type(error).__name__}); nothing was kept"))

    def _commit_together(self, group: list[_Waiting]) -> bool:
        """The quick way. False: one of the works does not fit, and nothing was written."""
        try:
            self._transact(group, self._plan_together)
        except StoreError:
            raise
        except Exception as refused:
            if _spoils_everything(refused):
                raise
            return False
        return True

    def _fail(self, group: list[_Waiting], error: AmendsError) -> None:
        self._drop_connection()
        for waiting in group:
            waiting.answer = error

    def _transact(self, group: list[_Waiting], plan: Callable[[Connection, list[_Waiting]], Batch]) -> None:
        connection = self._connected()
        transaction = connection.begin()
        try:
            batch = plan(connection, group)
            if not batch.written:
                transaction.rollback()
                return
            self._reserve(batch.site)
            site = batch.seal()
            transaction.commit()
        except BaseException:
            if transaction.is_active:
                transaction.rollback()
            raise
        self.site = site
        self._note_changes(batch)
        if len(self._heads) > HEADS:
            self._heads.clear()
        self._heads |= batch.heads

    def _plan_together(self, connection: Connection, group: list[_Waiting]) -> Batch:
        batch = self._batch(connection, [waiting.work for waiting in group], self.site)
        for waiting in group:
            if waiting.work.reads_first:
                batch.write()
            try:
                waiting.answer = waiting.work.plan(batch)
            except AmendsError as refused:
                waiting.answer = refused
        self._add_checkpoint(batch)
        batch.write()
        return batch

    def _plan_alone(self, connection: Connection, group: list[_Waiting]) -> Batch:
        """Each work in a savepoint of its own; what one did the next one sees."""
        whole = self._batch(connection, [], self.site)
        for waiting in group:
            batch = self._batch(connection, [waiting.work], whole.site)
            refused: Exception | None = None
            point = connection.begin_nested()
            try:
                waiting.answer = waiting.work.plan(batch)
                batch.write()
                point.commit()
            except Exception as error:
                if _spoils_everything(error):
                    raise
                refused = error
            if refused is not None:
                point.rollback()
                if isinstance(refused, Moved):
                    refused = SequenceConflict(
                        "the log moved on while it was written to; read it again and decide again"
                    )
                elif isinstance(refused, DBAPIError):
                    refused = explain(waiting.work, connection)
                waiting.answer = refused
                continue
            whole.site = batch.site
            whole.heads |= batch.heads
            whole.written |= batch.written
        return whole

    def _batch(self, connection: Connection, works: list[Work], site: Site) -> Batch:
        batch = Batch(connection=connection, statements=self._statements, site=site, now=self._clock.now())
        ids = (run for work in works for run in work.runs)
        batch.load(ids, (name for work in works for name in work.records), self._heads)
        return batch

    # -- the connection --

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
            with self._connection.begin():
                found = read_site(self._connection)
            if found.fence != self.site.fence:
                raise Moved
            self.site = found
        return self._connection

    def _drop_connection(self) -> None:
        """After an error nothing that was believed counts: the next group connects and reads anew."""
        self._heads.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except DBAPIError:
                connection.invalidate()

    # -- anchor and checkpoints --

    def _reserve(self, site: Site) -> None:
        if site.commit_no + 1 > self._anchor.end:
            self._write_anchor(site.commit_no, site.fence)

    def _keep_anchor(self) -> None:
        if self._clock.monotonic() - self._anchored_at < ANCHOR_AFTER or self.site.commit_no < self._anchor.start:
            return
        try:
            self._write_anchor(self.site.commit_no, self.site.fence)
        except StoreUnwritable:
            self._anchored_at = self._clock.monotonic()

    def _write_anchor(self, commit_no: int, fence: int) -> None:
        anchor = reserved(self.site.database_id, commit_no, fence)
        try:
            write_anchor(self._place, anchor)
        except OSError as problem:
            raise StoreUnwritable(
                f"{self._place / 'anchor'} cannot be written: {problem.strerror}; nothing of this write was kept"
            ) from None
        self._anchor = anchor
        self._anchored_at = self._clock.monotonic()

    def _note_changes(self, batch: Batch) -> None:
        if batch.site.checkpointed > batch.site.commit_no:
            self._changed, self._changed_since = {}, None
        for head in batch.heads.values():
            known = self._changed.get(head.run)
            if known is None or known[0] != head.seq:
                self._changed[head.run] = (head.seq, head.hash)
        if self._changed and self._changed_since is None:
            self._changed_since = self._clock.monotonic()

    def _add_checkpoint(self, batch: Batch, at_once: bool = False) -> None:
        """Ties the chains that changed until the last commit into the site's chain, when it is time."""
        if self._changed_since is None or (batch.is_empty and not batch.written and not at_once):
            return
        commits = batch.site.commit_no - batch.site.checkpointed
        age = self._clock.monotonic() - self._changed_since
        full = len(self._changed) >= CHECKPOINT_RUNS or commits >= CHECKPOINT_COMMITS or age >= CHECKPOINT_AFTER
        if not (full or at_once):
            return
        runs = list(self._changed.items())
        for first in range(0, len(runs), CHECKPOINT_RUNS):
            heads = {run: [seq, head] for run, (seq, head) in runs[first : first + CHECKPOINT_RUNS]}
            data = {"commit": batch.site.commit_no, "heads": heads}
            batch.add_site(encode(Checkpoint(at=batch.now, data=data)))
        batch.site = replace(batch.site, checkpointed=batch.site.commit_no + 1)

    def _finish(self) -> None:
        try:
            self._transact([], self._plan_last)
            self._write_anchor(self.site.commit_no, self.site.fence)
        except (DBAPIError, Moved, AmendsError):
            log.warning("the database was closed without a checkpoint; nothing is lost")
        self._drop_connection()

    def _plan_last(self, connection: Connection, group: list[_Waiting]) -> Batch:
        batch = self._batch(connection, [], self.site)
        self._add_checkpoint(batch, at_once=True)
        batch.write()
        return batch


def _spoils_everything(error: Exception) -> bool:
    """Whether it is the database that failed (full, locked, damaged), and not one of the works."""
    return isinstance(error, OperationalError) or type(error) is DatabaseError


def _settle(group: list[_Waiting]) -> None:
    for waiting in group:
        if waiting.future.done():
            continue
        if isinstance(waiting.answer, BaseException):
            waiting.future.set_exception(waiting.answer)
        else:
            waiting.future.set_result(waiting.answer)
