"""Events between runs and from outside: kept until somebody waits for them, each fed to one waiter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, literal, select, tuple_, update

from runner.contract import Json, canonical
from runner.core.events import EventKept, EventReceived
from runner.errors import RunKeyConflict
from runner.store.batch import KEPT_FOR, Batch, match_digest
from runner.store.log import encode
from runner.store.tables import awaited, kept_events
from runner.store.work import Work

MOST = 200
"""Events that are read at once."""
_OPEN = kept_events.c.fed_to == ""
_WAITERS = select(awaited)


@dataclass(frozen=True, kw_only=True)
class KeepWork(Work[bool]):
    """An event from outside. False where it had come before, an error where other data came under its id."""

    reads_first = True
    event_id: str
    event: str
    source: str
    data: Mapping[str, Json]

    def plan(self, batch: Batch) -> bool | RunKeyConflict:
        batch.alone("events")
        _forget_old(batch)
        text = canonical(dict(self.data)).decode()
        known = select(kept_events.c.event, kept_events.c.data).where(kept_events.c.event_id == self.event_id)
        for before in batch.connection.execute(known):
            if (before.event, before.data) != (self.event, text):
                return RunKeyConflict(f"the event {self.event_id} came before as another one; give it an id of its own")
            return False
        row = (self.event_id, self.event, self.source, text, batch.now, batch.now + KEPT_FOR, "")
        batch.others.append((batch.words.kept_events, row))
        kept = EventKept(at=batch.now, name=self.event, by=self.source, data={"id": self.event_id})
        batch.add_site(encode(kept))
        return True


def _forget_old(batch: Batch) -> None:
    batch.connection.execute(delete(kept_events).where(kept_events.c.until <= batch.now))


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptEvent:
    """An event as it is kept; `at` is when it was committed, or a little earlier (ms)."""

    id: str
    name: str
    data: Mapping[str, Json]
    at: int


def kept_after(at: int, event_id: str, names: Sequence[str]) -> Callable[[Connection], Sequence[KeptEvent]]:
    """For `SqlStore.ask`: a page of the events of these names that came after this one, oldest first."""
    place = tuple_(kept_events.c.at, kept_events.c.event_id)
    asked = select(kept_events).where(kept_events.c.event.in_(names), place > tuple_(literal(at), literal(event_id)))
    ordered = asked.order_by(kept_events.c.at, kept_events.c.event_id).limit(MOST)
    return lambda connection: [
        KeptEvent(id=row.event_id, name=row.event, data=json.loads(row.data), at=row.at)
        for row in connection.execute(ordered)
    ]


@dataclass(frozen=True, kw_only=True)
class FeedWork(Work[tuple[str, ...]]):
    """Feeds one kept event to whoever waits for it, or one run with what is kept; the answer is the runs that were fed.

    The oldest event goes first, and to whoever has waited longest.
    """

    reads_first = True
    event_id: str = ""
    waiter: str = ""

    def plan(self, batch: Batch) -> tuple[str, ...]:
        batch.alone("events")
        _forget_old(batch)
        return tuple(self._to_waiter(batch) if self.waiter else self._to_anyone(batch))

    def _to_anyone(self, batch: Batch) -> list[str]:
        asked = select(kept_events.c.event, kept_events.c.data).where(kept_events.c.event_id == self.event_id, _OPEN)
        for event, text in batch.connection.execute(asked).all():
            data = json.loads(text)
            groups = select(awaited.c.fields).where(awaited.c.event == event).distinct()
            found = [
                row
                for fields in batch.connection.execute(groups).scalars().all()
                if (row := self._longest(batch, event, fields, data)) is not None
            ]
            if found:
                first = min(found, key=lambda row: row.at)
                return [self._feed(batch, first.run_id, first.path, self.event_id, event, data)]
        return []

    def _longest(self, batch: Batch, event: str, fields: str, data: Mapping[str, Json]) -> Any:
        """Who has waited longest for an event with these fields as they are in `data`."""
        names = json.loads(fields)
        if not all(name in data for name in names):
            return None
        fits = (
            awaited.c.event == event, awaited.c.fields == fields, awaited.c.digest == match_digest(names, data)
        )  # fmt: skip
        return batch.connection.execute(_WAITERS.where(*fits).order_by(awaited.c.at).limit(1)).first()

    def _to_waiter(self, batch: Batch) -> list[str]:
        fed: list[str] = []
        for run, path, event, fields, wanted, _ in batch.connection.execute(
            _WAITERS.where(awaited.c.run_id == self.waiter).order_by(awaited.c.at)
        ).all():
            names = json.loads(fields)
            asked = select(kept_events.c.event_id, kept_events.c.data).where(kept_events.c.event == event, _OPEN)
            for event_id, text in batch.connection.execute(asked.order_by(kept_events.c.at)):
                data = json.loads(text)
                if all(name in data for name in names) and match_digest(names, data) == wanted:
                    fed.append(self._feed(batch, run, path, event_id, event, data))
                    break
        return fed

    def _feed(self, batch: Batch, run: str, path: str, event_id: str, event: str, data: Mapping[str, Json]) -> str:
        batch.connection.execute(
            update(kept_events).where(kept_events.c.event_id == event_id).values(fed_to=f"{run}/{path}")
        )
        batch.connection.execute(delete(awaited).where(awaited.c.run_id == run, awaited.c.path == path))
        if run not in batch.heads:
            batch.load([run], (), {})
        received = EventReceived(at=batch.now, step=path, event=event, event_id=event_id, data=data)
        batch.add(batch.head(run), [encode(received)])
        batch.take(batch.head(run))
        batch.write()
        return run
