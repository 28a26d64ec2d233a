"""The writer's statements, worded once by SQLAlchemy for the database and then given to the driver as text.

The driver gives up the interpreter at every step of a statement and has to win it back from a busy event loop, so a
group's rows go together: a group of any size takes a handful of steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import ClauseElement, Column, MetaData, Table, bindparam, delete, select, text, update

from runner.store.database import Database
from runner.store.tables import (
    awaited,
    bundles,
    effects,
    engines,
    handoffs,
    holds,
    kept_events,
    locks,
    log,
    meta,
    notices,
    outbox,
    quarantine,
    receipts,
    runs,
    site_holds,
    texts,
    waits,
)

Values = tuple[Any, ...]
MOST = 128
"""Rows that one statement carries."""

_MOVED = ("seq", "head", "updated_at", "commit_no")
_TAKEN = ("fence",)
"""Whose the run is, where several engines write to the database."""
_TOLD = ("phase", "waiting_for", "at_step", "needs", "summary", "decided")
INDEXED = ("status", "wake_at", "ended_at")
"""Columns of a run that stand in indexes: written only when one of them changes."""


class Rows:
    """One statement over any number of rows; its text is `begin`, the rows' marks, `end`."""

    def __init__(self, begin: str, row: str, end: str) -> None:
        self._begin, self._row, self._end = begin, row, end
        self._texts: dict[int, str] = {}

    def run(self, cursor: Any, rows: Sequence[Values]) -> int:
        """Runs it for all rows, in order; how many rows of the table it hit."""
        hit = at = 0
        while at < len(rows):
            some = rows[at : at + _size(len(rows) - at)]
            size = len(some)
            text = self._texts.get(size)
            if text is None:
                text = self._texts[size] = self._begin + ", ".join([self._row] * size) + self._end
            cursor.execute(text, some[0] if size == 1 else tuple(chain.from_iterable(some)))
            hit += cursor.rowcount
            at += size
        return hit


def _size(left: int) -> int:
    """How many of the rows left go together: few different numbers, because each is a text the driver prepares."""
    if left <= 8:
        return left
    return MOST if left >= MOST else 1 << (left.bit_length() - 1) | (left & 1 << (left.bit_length() - 2))


class Statements:
    """The statements of a batch. Those that are not `Rows` are texts; their values come in the order written here."""

    def __init__(self, file: Database) -> None:
        self._file = file
        moved = _MOVED + _TAKEN if file.is_shared else _MOVED
        self.light = self._update_runs(moved)
        self.middle = self._update_runs(moved + _TOLD)
        self.full = self._update_runs(moved + _TOLD + INDEXED)
        self.runs, self.log = self._insert(runs), self._insert(log)
        self.effects, self.handoffs = self._insert(effects, "change"), self._insert(handoffs, "change")
        self.receipts, self.texts = self._insert(receipts, "keep"), self._insert(texts, "keep")
        self.bundles, self.holds = self._insert(bundles, "keep"), self._insert(holds, "keep")
        self.quarantine, self.site_holds = self._insert(quarantine, "change"), self._insert(site_holds, "change")
        self.locks, self.waits = self._insert(locks), self._insert(waits)
        self.awaited, self.kept_events = self._insert(awaited), self._insert(kept_events, "keep")
        self.notices, self.outbox = self._insert(notices, "keep"), self._insert(outbox, "change")
        self.await_nothing = self._text(delete(awaited).where(*_equal(awaited, "run_id")))
        pending = text("disposition = 'pending'")
        self.rest = self._text(
            update(effects).values(disposition=bindparam("disposition")).where(*_equal(effects, "run_id"), pending)
        )
        self.free = self._text(delete(holds).where(*_equal(holds, "record", "run_id")))
        self.unlock = self._text(delete(locks).where(*_equal(locks, "run_id")))
        self.leave = self._text(delete(waits).where(*_equal(waits, "run_id")))
        self.free_site = self._text(delete(site_holds).where(*_equal(site_holds, "name")))
        self.move = self._text(update(runs).values(bundle=bindparam("bundle")).where(*_equal(runs, "run_id")))
        answered = ("status", "answered_by", "answered_at")
        self.answer = self._text(
            update(quarantine)
            .values({name: bindparam(name) for name in answered})
            .where(*_equal(quarantine, "record", "run_id"), quarantine.c.status == bindparam("b_status"))
        )
        sealed = ("commit_no", "site_seq", "site_head", "checkpointed", "restored_at")
        self.seal = self._text(
            update(meta)
            .values({name: bindparam(name) for name in sealed})
            .where(meta.c.fence == bindparam("b_fence"), meta.c.commit_no == bindparam("b_was"))
        )
        self.seal_shared = self._text(
            update(meta).values({name: bindparam(name) for name in ("site_seq", "site_head", "restored_at")})
        )
        self.tied = self._text(
            update(engines).values(checkpointed=bindparam("checkpointed")).where(*_equal(engines, "fence"))
        )
        self.by_receipt = self._text(
            select(receipts.c.digest, receipts.c.run_id, runs.c.status, runs.c.rerun)
            .outerjoin(runs, runs.c.run_id == receipts.c.run_id)
            .where(*_equal(receipts, "source", "delivery_id"))
        )
        self.by_key = self._text(
            select(runs.c.inputs_digest, runs.c.run_id, runs.c.status, runs.c.rerun)
            .where(*_equal(runs, "flow", "mode", "run_key"))
            .order_by(runs.c.rerun)
        )
        self.by_guard = self._text(select(log.c.seq).where(*_equal(log, "run_id", "guard")))

    def _text(self, statement: ClauseElement) -> str:
        return str(statement.compile(dialect=self._file.dialect))

    def _row(self, columns: Iterable[Column[Any]]) -> str:
        return f"({', '.join(self._file.mark(column) for column in columns)})"

    def _insert(self, table: Table, if_there: str = "") -> Rows:
        """INSERT of whole rows, in the order of the table's columns. A row that is there: `change` it, `keep` it."""
        words = self._file.insert(table)
        keys = [column.name for column in table.primary_key]
        if if_there == "change":
            new = {column.name: words.excluded[column.name] for column in table.c if column.name not in keys}
            words = words.on_conflict_do_update(index_elements=keys, set_=new)
        elif if_there:
            words = words.on_conflict_do_nothing()
        begin, end = re.split(r"VALUES \([^)]*\)", self._text(words))
        return Rows(f"{begin}VALUES ", self._row(table.c), end)

    def _update_runs(self, changed: Sequence[str]) -> Rows:
        """UPDATE of many runs, each with its own values: rows of `changed`, then the run and the seq it stands at (and
        whose it is).
        """
        place = ("run_id", "seq", *(_TAKEN if self._file.is_shared else ()))
        names = [*changed, *place]
        given = Table("given", MetaData(), *(Column(f"column{at}") for at in range(1, len(names) + 1)))
        pairs = list(zip(names, given.c, strict=True))
        new, old = pairs[: len(changed)], pairs[len(changed) :]
        words = update(runs).values(dict(new)).where(*(runs.c[name] == value for name, value in old))
        begin, end = self._text(words).split("FROM given")
        return Rows(f"{begin}FROM (VALUES ", self._row(runs.c[name] for name in names), f") AS given{end}")


_WORDED: dict[type[Database], Statements] = {}


def statements(file: Database) -> Statements:
    """The statements for this kind of database, worded once in a process: they name no file."""
    if type(file) not in _WORDED:
        _WORDED[type(file)] = Statements(file)
    return _WORDED[type(file)]


def _equal(table: Table, *names: str) -> list[Any]:
    return [table.c[name] == bindparam(f"b_{name}") for name in names]
