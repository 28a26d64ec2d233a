"""Runs that have begun and that nobody has decided about yet: what waits in the store for its turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlalchemy import ColumnElement, Connection, func, select

from runner.store.tables import runs

_QUEUED = select(runs.c.run_id).where(runs.c.status == "queued")


class Queue(Protocol):
    """What a store answers about them, and about those that were begun."""

    def unfinished(self, *, paused: bool = True) -> Sequence[str]:
        """Runs that an engine left in the middle: moving, or reported about and not decided since; none is queued. With
        those that were paused, or without."""

    def queued_flows(self) -> Sequence[str]:
        """The flows that have such runs."""

    def queued(self, flow: str, at: int, limit: int) -> Sequence[str]:
        """Those of a flow, oldest first, without the first `at`."""


def flows(connection: Connection) -> list[str]:
    """See `Queue`. One step of an index for each flow, however many runs it has."""
    found: list[str] = []
    flow: str | None = ""
    while flow is not None:
        flow = connection.execute(select(func.min(runs.c.flow)).where(runs.c.flow > flow)).scalar()
        if flow is not None and connection.execute(_QUEUED.where(runs.c.flow == flow).limit(1)).first() is not None:
            found.append(flow)
    return found


def page(flow: str, at: int, limit: int, is_mine: ColumnElement[bool]) -> Callable[[Connection], list[str]]:
    """See `Queue`."""
    asked = (
        _QUEUED.where(runs.c.flow == flow, is_mine).order_by(runs.c.started_at, runs.c.run_id).limit(limit).offset(at)
    )
    return lambda connection: list(connection.execute(asked).scalars())
