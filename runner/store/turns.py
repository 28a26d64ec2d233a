"""Whose turn it is: runs that go on, are queued, are due or wait in line, and those that nothing would wake."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, exists, func, or_, select, true

from runner.clock import MINUTE
from runner.errors import NotFound
from runner.store import queue
from runner.store.facts import PLACE, RELEASE
from runner.store.record_locks import read_uses
from runner.store.tables import handoffs, log, runs, waits
from runner.store.views import Views

SETTLES = MINUTE
"""How long a run may be between two witnesses, ms: the engine is at work on it."""

MOVING: tuple[str, ...] = ("running", "compensating", "paused")
RESTING: tuple[str, ...] = ("waiting", "needs_person")
"""Statuses of open runs: a call may be open in the first; those that are queued are neither."""
_OPEN = runs.c.ended_at.is_(None)
_IN_LINE = or_(runs.c.waiting_for.startswith(PLACE), runs.c.waiting_for.startswith(RELEASE))


class Turns(Views):
    """Views, and whose turn it is. Where several engines write, each is told of its own runs and of nobody's."""

    def _is_mine(self) -> ColumnElement[bool]:
        """Whether a run is not another engine's."""
        return true()

    def fence_of(self, run: str) -> int:
        found = self._rows(select(runs.c.fence).where(runs.c.run_id == run))
        if not found:
            raise NotFound(f"there is no run {run}")
        return int(found[0].fence)

    def unfinished(self, *, paused: bool = True) -> Sequence[str]:
        left = or_(runs.c.status.in_(MOVING if paused else MOVING[:-1]), runs.c.decided != runs.c.seq)
        found = select(runs.c.run_id).where(runs.c.status.in_((*MOVING, *RESTING)), left, self._is_mine())
        return self._ids(found.order_by(runs.c.started_at, runs.c.run_id))

    def queued_flows(self) -> Sequence[str]:
        return self.ask(queue.flows)

    def queued(self, flow: str, at: int, limit: int) -> Sequence[str]:
        return self.ask(queue.page(flow, at, limit, self._is_mine()))

    def in_line(self, begun: bool = False) -> Sequence[str]:
        is_open = runs.c.status.in_((*MOVING, *RESTING)) if begun else _OPEN
        found = select(runs.c.run_id).where(is_open, _IN_LINE, self._is_mine())
        return self._ids(found.order_by(runs.c.started_at, runs.c.run_id))

    def due(self, now: int, limit: int | None = None) -> Sequence[str]:
        is_due = (_OPEN, runs.c.wake_at <= now, self._is_mine())
        asked = select(runs.c.run_id).where(*is_due).order_by(runs.c.wake_at)
        return self._ids(asked.limit(limit))

    def next_due(self) -> int | None:
        waits = (_OPEN, runs.c.wake_at.is_not(None), self._is_mine())
        asked = select(runs.c.wake_at).where(*waits).order_by(runs.c.wake_at).limit(1)
        return next((row.wake_at for row in self._rows(asked)), None)

    # -- the sweeper --

    def without_witness(self, now: int) -> Sequence[str]:
        """Open runs that nothing would ever wake; the figure must be 0.

        Witnesses: a due time, a queue row (status queued), a pause, an open hand-off, an open call, something that is
        waited for (the engine itself looks after those in line). A run that was changed within the last minute is being
        worked on.
        """
        handed = exists().where(handoffs.c.run_id == runs.c.run_id, handoffs.c.status != "resolved")
        asked = (
            select(runs.c.run_id, runs.c.waiting_for)
            .where(
                runs.c.status.in_(("running", "compensating", *RESTING)),
                self._is_mine(),
                runs.c.wake_at.is_(None),
                runs.c.updated_at <= now - SETTLES,
                ~handed,
                ~_IN_LINE,
            )
            .order_by(runs.c.started_at, runs.c.run_id)
        )
        with self._read() as connection:
            return [
                row.run_id
                for row in connection.execute(asked).all()
                if not _call_is_open(connection, row.run_id) and not _is_kept(connection, row.run_id, row.waiting_for)
            ]


def _call_is_open(connection: Connection, run: str) -> bool:
    outcome = log.alias("outcome")
    answered = exists().where(
        outcome.c.run_id == log.c.run_id, outcome.c.guard == func.replace(log.c.guard, "intent:", "outcome:")
    )
    asked = select(log.c.seq).where(log.c.run_id == run, log.c.type == "CallIntended", ~answered).limit(1)
    return connection.execute(asked).first() is not None


def _is_kept(connection: Connection, run: str, waiting_for: str) -> bool:
    """It waits for something: in a line, for records that all are kept from it; or else for what the column says."""
    records = list(connection.execute(select(waits.c.record).where(waits.c.run_id == run)).scalars())
    if not records:
        return bool(waiting_for)
    return all(use.keeper(run) is not None for use in read_uses(connection, records).values())
