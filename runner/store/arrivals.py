"""What came to triggers: each business event once for each flow, in one transaction with the run that it starts.

A row stays for as long as its run, or 30 days. Whatever has no run keeps its content, so that a person can look at it
and take it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, exists, func, insert, literal, select, tuple_, update

from runner.contract import Json
from runner.core.events import (
    DeliveryConflict,
    DeliveryIgnored,
    DeliveryRetaken,
    SiteEvent,
    SlotMissed,
    SlotSkipped,
)
from runner.store.batch import Batch
from runner.store.facts import Started
from runner.store.log import encode
from runner.store.restored import restorations
from runner.store.tables import arrivals, cursors, runs
from runner.store.work import StartWork, Work

SEEN_BEFORE = "started", "joined", "ignored", "superseded", "skipped", "conflict"
"""What the same event again leaves as it is. `refused`, `unreadable`, `queued` and `missed` are taken anew."""
STATUSES = (*SEEN_BEFORE, "refused", "unreadable", "queued", "missed")
"""Everything that becomes of an arrival."""
WENT_WRONG = "failed", "compensated", "stopped", "closed"
"""How a run has ended that did not go through: whatever joins it is `joined`, and somebody is told."""
LOST = "refused", "unreadable", "conflict"
"""What should have led to a run."""
TROUBLE = "trouble:"
MOST_CONTENT = 64_000
"""Characters of what is kept of an event without a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """One business event as it came to one flow. `source` is `kind:name` of the trigger, `digest` that of the content.

    `position` is the answer of `order_by` for `entity`: an event before the last one of its entity is superseded.
    `by` is who has it taken again, for this `reason`; it was kept under the id `was`.
    """

    flow: str
    source: str
    id: str
    digest: str
    at: int
    status: str = "started"
    why: str = ""
    content: str = ""
    entity: str = ""
    position: Json = None
    run: str = ""
    by: str = ""
    was: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrived:
    """What became of an arrival. `started` tells of the run that was started or joined; `is_new`: not seen before."""

    flow: str
    status: str
    run: str = ""
    why: str = ""
    is_new: bool = True
    started: Started | None = None


@dataclass(frozen=True, kw_only=True)
class ArriveWork(Work[tuple[Arrived, ...]]):
    """Arrivals, the runs that they start, and where their trigger stands after them: all or nothing."""

    reads_first = True
    several: tuple[tuple[Arrival, StartWork | None], ...]
    cursor: tuple[str, str] | None = None

    def plan(self, batch: Batch) -> tuple[Arrived, ...]:
        found = []
        for arrival, start in self.several:
            found.append(_take(batch, arrival, start))
            if arrival.by:
                if arrival.was != arrival.id:
                    batch.connection.execute(delete(arrivals).where(*_this(replace(arrival, id=arrival.was))))
                batch.add_site(encode(_retaken(batch, arrival, found[-1])))
            batch.write()
        if self.cursor is not None:
            _move(batch, *self.cursor)
        return tuple(found)


def _retaken(batch: Batch, arrival: Arrival, became: Arrived) -> DeliveryRetaken:
    told: dict[str, Json] = {"source": arrival.source, "id": arrival.id, "reason": arrival.reason}
    told |= {"status": became.status, "run": became.run}
    return DeliveryRetaken(at=batch.now, name=arrival.flow, by=arrival.by, data=told)


def _take(batch: Batch, arrival: Arrival, start: StartWork | None) -> Arrived:
    known = batch.connection.execute(select(arrivals).where(*_this(arrival))).first()
    if known is not None:
        if known.digest not in ("", arrival.digest):
            return _keep_apart(batch, arrival, known)
        if known.status in SEEN_BEFORE and (not arrival.by or known.status == "started"):
            return Arrived(flow=arrival.flow, status=known.status, run=known.run_id, why=known.why, is_new=False)
        batch.connection.execute(delete(arrivals).where(*_this(arrival)))
    if arrival.entity:
        batch.alone(_entity(arrival))
    if start is not None and (late := _why_late(batch, arrival)):
        arrival, start = replace(arrival, status="superseded", why=late), None
    if start is None:
        return _keep(batch, arrival)
    begun = start.plan(batch)
    if not isinstance(begun, Started):
        return _keep(batch, replace(arrival, status="conflict", why=start.without_key(begun)), is_told=True)
    if begun.joined and begun.status in WENT_WRONG:
        why = f"the run for this had ended ({begun.status}), so nothing was started; start it anew: run {begun.run}"
        return _keep(batch, replace(arrival, status="joined", run=begun.run, why=why))
    if arrival.entity and arrival.position is not None:
        _move(batch, _entity(arrival), json.dumps(arrival.position))
    _keep(batch, replace(arrival, content="", run=begun.run))
    return Arrived(flow=arrival.flow, status="started", run=begun.run, is_new=not begun.joined, started=begun)


def _this(arrival: Arrival) -> Any:
    return (
        arrivals.c.flow == arrival.flow, arrivals.c.source == arrival.source, arrivals.c.arrival == arrival.id
    )  # fmt: skip


def _keep(batch: Batch, arrival: Arrival, *, is_told: bool = False) -> Arrived:
    row = (
        arrival.flow, arrival.source, arrival.id, arrival.digest, arrival.run, arrival.status, arrival.why,
        arrival.content[:MOST_CONTENT], arrival.entity, arrival.at,
    )  # fmt: skip
    batch.connection.execute(insert(arrivals).values(row))
    batch.written = True
    fact = _FACTS.get(arrival.status)
    if fact is not None and not is_told:
        told: dict[str, Json] = {"source": arrival.source, "id": arrival.id, "status": arrival.status}
        batch.add_site(encode(fact(at=batch.now, name=arrival.flow, data={**told, "why": arrival.why})))
    return Arrived(flow=arrival.flow, status=arrival.status, run=arrival.run, why=arrival.why)


_FACTS: Mapping[str, type[SiteEvent]] = {
    "ignored": DeliveryIgnored, "superseded": DeliveryIgnored, "refused": DeliveryIgnored, "joined": DeliveryIgnored,
    "unreadable": DeliveryIgnored, "conflict": DeliveryConflict, "missed": SlotMissed, "skipped": SlotSkipped,
}  # fmt: skip


def _keep_apart(batch: Batch, arrival: Arrival, known: Any) -> Arrived:
    """The same id with other content is a row of its own, once."""
    name = f"{arrival.id}#{arrival.digest[:12]}"
    before = f"led to run {known.run_id}" if known.run_id else f"was {known.status}"
    why = f"{arrival.id} came before with other content and {before}; a new event needs an id of its own"
    apart = replace(arrival, id=name, status="conflict", why=why, run=known.run_id)
    if batch.connection.execute(select(arrivals.c.at).where(*_this(apart))).first() is not None:
        return Arrived(flow=arrival.flow, status="conflict", run=known.run_id, why=why, is_new=False)
    return _keep(batch, apart)


# --- order ---------------------------------------------------------------------------------------------------------


def _entity(arrival: Arrival) -> str:
    return f"entity:{arrival.flow}:{arrival.entity}"


def _why_late(batch: Batch, arrival: Arrival) -> str:
    """Why an event is not acted on: its entity has a newer one."""
    if not arrival.entity or arrival.position is None:
        return ""
    text = cursor(_entity(arrival))(batch.connection)
    last = json.loads(text) if text else None
    if last is None or not _is_before(arrival.position, last):
        return ""
    return f"{arrival.entity} has a newer event: {last} came before {arrival.position}"


def _is_before(one: Json, other: Json) -> bool:
    """Numbers as numbers, instants as instants, anything else as text."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one < other
    try:
        return datetime.fromisoformat(str(one)) < datetime.fromisoformat(str(other))
    except (TypeError, ValueError):
        return str(one) < str(other)


# --- where a trigger stands ----------------------------------------------------------------------------------------


def cursor(name: str) -> Callable[[Connection], str]:
    """For `SqlStore.ask`: where a trigger stands; empty where it has not begun."""
    return lambda connection: connection.execute(select(cursors.c.value).where(cursors.c.name == name)).scalar() or ""


def cursors_of(prefix: str) -> Callable[[Connection], Mapping[str, str]]:
    """For `SqlStore.ask`: where each trigger stands whose cursor's name begins so. Entities have cursors too."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    asked = select(cursors.c.name, cursors.c.value).where(cursors.c.name >= prefix, cursors.c.name < end)
    return lambda connection: {row.name: row.value for row in connection.execute(asked)}


def restored_after(at: int) -> Callable[[Connection], int]:
    """For `SqlStore.ask`: when the database was last put back from a copy, if that is later than `at`; else 0."""
    return lambda connection: max((each.at for each in restorations(connection) if each.at > at), default=0)


def troubles(connection: Connection) -> Mapping[str, str]:
    """For `SqlStore.ask`: why triggers that wait by themselves cannot go on just now, by `mail:NAME` and
    `poll:CONNECTION.ACTION:FLOW`."""
    found = sorted(cursors_of(TROUBLE)(connection).items())
    return {name.removeprefix(TROUBLE): why for name, why in found if why}


def _move(batch: Batch, name: str, value: str) -> None:
    batch.written = True
    move(name, value, batch.now)(batch.connection)


def move(name: str, value: str, at: int) -> Callable[[Connection], None]:
    """For `SqlStore.write`: where a trigger stands now."""

    def write(connection: Connection) -> None:
        moved = update(cursors).where(cursors.c.name == name).values(value=value, at=at)
        if not connection.execute(moved).rowcount:
            connection.execute(insert(cursors).values((name, value, at)))

    return write


# --- reading -------------------------------------------------------------------------------------------------------

Place = tuple[int, str, str, str]
"""Where an arrival stands among all: at, flow, source, id."""
_PLACE = (arrivals.c.at, arrivals.c.flow, arrivals.c.source, arrivals.c.arrival)


def listed(
    *, flow: str = "", source: str = "", status: Sequence[str] = (), before: Place | None = None, limit: int = 50
) -> Callable[[Connection], Sequence[Arrival]]:
    """For `SqlStore.ask`: arrivals, newest first; `before` is the place of one to page on from."""
    asked = select(arrivals).order_by(*(column.desc() for column in _PLACE)).limit(limit)
    for column, value in ((arrivals.c.flow, flow), (arrivals.c.source, source)):
        asked = asked.where(column == value) if value else asked
    asked = asked.where(arrivals.c.status.in_(status)) if status else asked
    asked = asked.where(tuple_(*_PLACE) < tuple_(*map(literal, before))) if before else asked
    return lambda connection: [_arrival(row) for row in connection.execute(asked)]


def led_to(source: str) -> Callable[[Connection], Sequence[str]]:
    """For `SqlStore.ask`: the runs that a trigger has started or joined and that are kept, oldest first, each once."""
    asked = select(arrivals.c.run_id).join(runs, runs.c.run_id == arrivals.c.run_id)
    asked = asked.where(arrivals.c.source == source, arrivals.c.status == "started")
    asked = asked.order_by(arrivals.c.at, arrivals.c.arrival)
    return lambda connection: list(dict.fromkeys(connection.execute(asked).scalars()))


def found(arrival: str, *, flow: str = "") -> Callable[[Connection], Sequence[Arrival]]:
    """For `SqlStore.ask`: the arrivals with this id or, where there is none, whose id begins so; a few of them."""
    asked = select(arrivals).where(arrivals.c.arrival.startswith(arrival, autoescape=True)).limit(20)
    asked = asked.order_by(arrivals.c.arrival != arrival, arrivals.c.at.desc())
    asked = asked.where(arrivals.c.flow == flow) if flow else asked

    def ask(connection: Connection) -> Sequence[Arrival]:
        rows = [_arrival(row) for row in connection.execute(asked)]
        return [row for row in rows if row.id == arrival] or rows

    return ask


def strays(flow: str, source: str, since: int, status: Sequence[str]) -> Callable[[Connection], tuple[int, int, str]]:
    """For `SqlStore.ask`: how many arrivals after `since` became this, when the newest came, and the run that all of
    them belong to (empty where it is not one)."""
    run = arrivals.c.run_id
    asked = select(func.count(), func.max(arrivals.c.at), func.min(run), func.max(run)).where(
        arrivals.c.flow == flow, arrivals.c.at > since, arrivals.c.source == source, arrivals.c.status.in_(status)
    )

    def ask(connection: Connection) -> tuple[int, int, str]:
        count, newest, first, last = connection.execute(asked).one()
        return count, newest or 0, (first or "") if first == last else ""

    return ask


def skipped_behind(flow: str, source: str) -> Callable[[Connection], tuple[str, int]]:
    """For `SqlStore.ask`: the run of a flow's schedules that has not ended (empty for none), and how many slots of this
    one were skipped since it began."""

    def ask(connection: Connection) -> tuple[str, int]:
        run = still_going(flow, "schedule:")(connection)
        began = select(func.min(arrivals.c.at)).where(arrivals.c.run_id == run, arrivals.c.run_id != "")
        asked = select(func.count()).where(
            arrivals.c.flow == flow, arrivals.c.at >= began.scalar_subquery(), arrivals.c.source == source,
            arrivals.c.status == "skipped",
        )  # fmt: skip
        return run, connection.execute(asked).scalar_one() if run else 0

    return ask


def ends_of(several: Sequence[Arrival]) -> Callable[[Connection], Mapping[str, str]]:
    """For `SqlStore.ask`: the status of each run that these led to; a removed one is left out."""
    asked = select(runs.c.run_id, runs.c.status).where(runs.c.run_id.in_({each.run for each in several if each.run}))
    return lambda connection: {row.run_id: row.status for row in connection.execute(asked)}


def still_going(flow: str, source: str, but: str = "") -> Callable[[Connection], str]:
    """For `SqlStore.ask`: a run of a flow that has not ended, started by a source that begins so, by another arrival
    than `but`; empty for none."""
    began = exists().where(
        arrivals.c.run_id == runs.c.run_id, arrivals.c.run_id != "", arrivals.c.arrival != but,
        arrivals.c.source.startswith(source, autoescape=True), arrivals.c.status == "started",
    )  # fmt: skip
    of_flow = runs.c.flow.concat("") == flow  # no index is used for it, so only the open runs are walked
    asked = select(runs.c.run_id).where(runs.c.ended_at.is_(None), of_flow, began)
    asked = asked.order_by(runs.c.started_at, runs.c.run_id).limit(1)
    return lambda connection: connection.execute(asked).scalar() or ""


def _arrival(row: Any) -> Arrival:
    return Arrival(
        flow=row.flow, source=row.source, id=row.arrival, digest=row.digest, at=row.at, status=row.status, why=row.why,
        content=row.content, entity=row.entity, run=row.run_id,
    )  # fmt: skip
