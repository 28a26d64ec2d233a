"""What engines that share a database write about each other: whose a run is, and who does what one does for all."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, select

from runner.store.batch import Batch
from runner.store.tables import duties
from runner.store.work import Work


@dataclass(frozen=True, kw_only=True)
class TakeWork(Work[bool]):
    """Takes a run that nobody drives, or gives it back (`gives_back`). Answers whether it is this engine's then."""

    run: str
    gives_back: bool = False

    def plan(self, batch: Batch) -> bool:
        head, shared = batch.head(self.run), batch.shared
        if shared is None:
            return not self.gives_back
        if head.fence == shared.fence and self.gives_back:
            head.fence, head.dirty = 0, True
        elif head.fence == 0 and not self.gives_back and not head.has_ended:
            head.fence, head.dirty = shared.fence, True
        return head.fence == shared.fence


@dataclass(frozen=True, kw_only=True)
class DutyWork(Work[bool]):
    """Takes on what one engine does for all, as long as it lives. Answers whether it is this one."""

    reads_first = True
    name: str

    def plan(self, batch: Batch) -> bool:
        shared = batch.shared
        if shared is None:
            return True
        batch.alone("duties")
        had = batch.connection.execute(select(duties.c.fence).where(duties.c.name == self.name)).scalar()
        if had is None:
            batch.connection.execute(insert(duties).values(name=self.name, fence=shared.fence))
            batch.written = True
        return had in (None, shared.fence)


@dataclass(frozen=True, kw_only=True)
class TellWork(Work[None]):
    """Whichever engine drives the run looks at it again."""

    run: str

    def plan(self, batch: Batch) -> None:
        head, shared = batch.head(self.run), batch.shared
        if shared is not None and head.fence not in (0, shared.fence):
            batch.told.add((head.fence, self.run))
            batch.written = True
