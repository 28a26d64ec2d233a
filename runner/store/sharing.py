"""What engines that share a database write about each other: whose a run is, who does what one does for all, and how
many places each has of a connection's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, text

from runner.store.batch import Batch
from runner.store.company import PLACES
from runner.store.dividing import Grant, Other, Wish, divide
from runner.store.shared import NOW
from runner.store.tables import duties, places
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


@dataclass(frozen=True, kw_only=True)
class PlacesWork(Work[Mapping[str, Grant]]):
    """Takes and gives back places of bounds, by their names; whoever waits for some, or has some, is told."""

    reads_first = True
    wishes: Mapping[str, Wish]

    def records(self) -> tuple[str, ...]:
        """Nobody else divides these meanwhile."""
        return tuple(self.wishes)

    def plan(self, batch: Batch) -> Mapping[str, Grant]:
        shared = batch.shared
        if shared is None:
            return {}
        now = batch.connection.execute(select(text(NOW))).scalar_one()
        asked = select(places).where(places.c.connection.in_(self.wishes))
        found: dict[str, dict[int, Other]] = {name: {} for name in self.wishes}
        gone = dict.fromkeys(self.wishes, 0)
        for row in batch.connection.execute(asked).all():
            if row.fence > 0:
                found[row.connection][row.fence] = Other(has=row.open, wants=row.wanted)
            elif row.begun + self.wishes[row.connection].lasts > now:
                gone[row.connection] += row.open
            else:
                batch.connection.execute(
                    delete(places).where(places.c.connection == row.connection, places.c.fence == row.fence)
                )
                batch.written = True
        return {name: self._settle(batch, name, found[name], gone[name], shared.fence) for name in self.wishes}

    def _settle(self, batch: Batch, name: str, found: dict[int, Other], gone: int, mine: int) -> Grant:
        wish, was = self.wishes[name], found.pop(mine, Other(has=0, wants=0))
        grant = divide(wish, was.has, [*found.values()], gone=gone)
        now = Other(has=grant.has, wants=wish.wants)
        if now != was:
            row = (places.c.connection == name, places.c.fence == mine)
            batch.connection.execute(delete(places).where(*row))
            if now.has or now.wants:
                words = {"connection": name, "fence": mine, "open": now.has, "wanted": now.wants, "begun": 0}
                batch.connection.execute(insert(places).values(**words))
            batch.written = True
        gives, asks = now.has < was.has, now.is_short and not was.is_short
        told = {fence for fence, other in found.items() if (gives and other.is_short) or (asks and other.has)}
        batch.told |= {(fence, PLACES) for fence in told}
        return grant
