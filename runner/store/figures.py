"""Figures over all runs that have not ended, for `SqlStore.ask`: how many, and since when the oldest waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from runner.core.status import APPROVAL, EVENT
from runner.store.facts import PLACE, RELEASE
from runner.store.notices import HANDOFF
from runner.store.tables import notices, runs

_KIND = case(
    (runs.c.waiting_for.startswith(APPROVAL), "approval"),
    (runs.c.waiting_for.startswith(EVENT), "event"),
    (runs.c.waiting_for.startswith(PLACE), "place"),
    (runs.c.waiting_for.startswith(RELEASE), "release"),
    (runs.c.waiting_for == "a timer", "timer"),
    else_="",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenRuns:
    """Open runs alike: `count` of one status that wait for one kind of thing (empty: for none of those told apart).

    `since` is when the one that has stood longest last changed, or was asked for its approval; ms since the epoch.
    """

    status: str
    kind: str
    count: int
    since: int


def open_runs(connection: Connection) -> Sequence[OpenRuns]:
    """All kinds there are."""
    kind = _KIND.label("kind")
    asked = select(func.max(notices.c.at)).where(
        notices.c.run_id == runs.c.run_id, ~notices.c.about.startswith(HANDOFF)
    )
    is_approval = runs.c.waiting_for.startswith(APPROVAL)  # reminders change the run, which has waited all the same
    since = case((is_approval, func.coalesce(asked.scalar_subquery(), runs.c.updated_at)), else_=runs.c.updated_at)
    found = select(runs.c.status, kind, func.count(), func.min(since)).where(runs.c.ended_at.is_(None))
    rows = connection.execute(found.group_by(runs.c.status, kind).order_by(runs.c.status, kind))
    return [OpenRuns(status=status, kind=kind, count=count, since=since) for status, kind, count, since in rows]
