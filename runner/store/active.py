"""The one active version of each flow that starts by itself, with what keeps a newer text from taking its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from runner.core.events import FlowActivated
from runner.store.batch import Batch
from runner.store.log import encode
from runner.store.tables import active
from runner.store.work import Work


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveFlow:
    """A flow's active bundle (empty: none ever was fit), the problem of the text as it is now, and since when the flow
    starts by itself (ms), whatever its version."""

    flow: str
    bundle: str
    problem: str = ""
    at: int = 0


@dataclass(frozen=True, kw_only=True)
class ActivateWork(Work[None]):
    """Swaps versions, all at one instant. A flow without bundle and problem is taken out."""

    reads_first = True
    several: tuple[ActiveFlow, ...]

    def plan(self, batch: Batch) -> None:
        batch.alone("active")
        for each in self.several:
            batch.connection.execute(delete(active).where(active.c.flow == each.flow))
            if each.bundle or each.problem:
                row: tuple[Any, ...] = (each.flow, each.bundle, each.problem, each.at or batch.now)
                batch.connection.execute(insert(active).values(row))
            told = {"bundle": each.bundle, "problem": each.problem}
            batch.add_site(encode(FlowActivated(at=batch.now, name=each.flow, data=told)))


def active_flows(connection: Connection) -> Mapping[str, ActiveFlow]:
    """For `SqlStore.ask`: the active version of each flow that has one."""
    rows = connection.execute(select(active).order_by(active.c.flow))
    return {row.flow: ActiveFlow(flow=row.flow, bundle=row.bundle, problem=row.problem, at=row.at) for row in rows}
