"""Erasing personal data: the payloads that hold it go, with their salts and files; digests and hashes stay.

What is erased is found in the log of every run on a record (`find`), then taken away run by run (`EraseWork`), each in
one transaction with the entry that says so. Names that hold personal data (records, run keys, delivery ids) get another
one, the same for all of these runs, so that holds and locks go on to work.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, delete, or_, select, union, update

from runner.contract import Json, canonical
from runner.core.events import CallEvent, PersonalDataErased
from runner.errors import NotFound
from runner.store.batch import Batch
from runner.store.facts import LogEnd, LogRow
from runner.store.log import SITE, encode
from runner.store.personal import Personal, is_long, remains
from runner.store.tables import (
    arrivals,
    awaited,
    cursors,
    effects,
    handoffs,
    holds,
    kept_events,
    locks,
    log,
    quarantine,
    receipts,
    records,
    runs,
    waits,
)
from runner.store.views import STORED, Views, stored
from runner.store.work import Work

MOST = 100
"""Entries that one PersonalDataErased names, so that it stays in the log itself."""

_TEXTS: tuple[tuple[Table, str], ...] = (
    (runs, "title summary waiting_for"), (effects, "external_id note"), (handoffs, "summary"), (quarantine, "reason"),
)  # fmt: skip
_JSON: tuple[tuple[Table, str], ...] = ((quarantine, "content"),)
_NAMES: tuple[tuple[Table, str], ...] = (
    (runs, "record starter"), (holds, "record"), (locks, "record"), (waits, "record"), (quarantine, "record"),
)  # fmt: skip
_KEYS: tuple[tuple[Table, str], ...] = ((runs, "run_key"), (receipts, "delivery_id"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What one run (or `_site`) holds of it: in the entries `seqs`; `ids` are those whose outside id holds it too.

    `left` is what remains of each.
    """

    run: str
    status: str
    has_ended: bool
    personal: Personal
    seqs: tuple[int, ...]
    ids: tuple[int, ...] = ()
    left: Mapping[int, Mapping[str, Json]] = field(default_factory=dict)

    def events(self, *, at: int, by: str, reason: str) -> Iterator[PersonalDataErased]:
        """What is recorded."""
        for first in range(0, len(self.seqs), MOST):
            some = self.seqs[first : first + MOST]
            yield PersonalDataErased(
                at=at, by=by, seqs=some, reason=reason, ids=tuple(seq for seq in self.ids if seq in some),
                left={str(seq): self.left[seq] for seq in some if seq in self.left},
            )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """All that is held about a record. `records` are entries of our own tables, (collection, id); `files` the digests
    of files that are personal."""

    record: str
    token: str
    held: tuple[Held, ...]
    records: tuple[tuple[str, str], ...]
    files: tuple[str, ...]


def find(views: Views, record: str) -> Finding:
    """Looks for everything that is known about a record."""
    with views._read() as connection:
        on_it = _runs_on(connection, record)
    token = f"erased-{secrets.token_hex(4)}"
    name = record.partition("/")[2] or record
    known = [name] if is_long(name) else [record, name]
    found = {run: Personal(_texts_of(views, run), known).learn(row.event for row in views.log(run)) for run in on_it}
    values = list(dict.fromkeys(value for personal in found.values() for value in personal.values))
    held = [_held(views, run, personal.know(values), token) for run, personal in found.items()]
    site = Personal({}, values)
    with views._read() as connection:
        said = tuple(
            (row.collection, row.id)
            for row in connection.execute(select(records))
            if f"{row.collection}/{row.id}" == record or site.text(row.data) != row.data
        )
    files = tuple(value for value in values if len(value) == 64 and value.isalnum())
    held.append(_held(views, SITE, site, token))
    return Finding(record=record, token=token, held=tuple(held), records=said, files=files)


def _runs_on(connection: Connection, record: str) -> list[str]:
    """The runs that work on a record, hold it, lock it or wait for it, and those that clean up after one of them."""
    named = (
        select(runs.c.run_id).where(runs.c.record == record, runs.c.record != ""),
        *(select(table.c.run_id).where(table.c.record == record) for table in (holds, locks, waits)),
    )
    found = list(connection.execute(union(*named)).scalars())
    for run in found:
        later = connection.execute(select(runs.c.run_id).where(runs.c.continues == run)).scalars()
        found += [each for each in later if each not in found]
    return sorted(found)


def unnamed(views: Views, digests: Sequence[str]) -> list[str]:
    """The files among these that no entry of any log names any more."""
    with views._read() as connection:
        return [
            digest
            for digest in digests
            if not connection.execute(select(log.c.seq).where(log.c.data.contains(digest)).limit(1)).first()
        ]


def _texts_of(views: Views, run: str) -> Mapping[str, str]:
    try:
        return views.bundle(views.run(run).bundle)
    except NotFound:
        return {}


def _rows_of(views: Views, run: str) -> list[LogRow]:
    """A run's log, or the site's, without what says of other entries what became of them."""
    if run != SITE:
        return [row for row in views.log(run) if row.type not in _KEPT]
    with views._read() as connection:
        asked = STORED.where(log.c.run_id == SITE, log.c.type.not_in(_KEPT)).order_by(log.c.seq)
        found = connection.execute(asked).all()
    return [views._log_row(SITE, stored(row)) for row in found]


def _held(views: Views, run: str, personal: Personal, token: str) -> Held:
    rows = {row.seq: row.event for row in _rows_of(views, run) if row.event is not None and not row.erased}
    taken = {seq: event for seq, event in rows.items() if personal.event(event) != event}
    calls = {event.call[:2] for event in taken.values() if isinstance(event, CallEvent)}
    taken |= {seq: event for seq, event in rows.items() if isinstance(event, CallEvent) and event.call[:2] in calls}
    view = views.run(run) if run != SITE else None
    return Held(
        run=run, status=view.status if view else "", has_ended=view is None or view.ended_at is not None,
        personal=personal, seqs=tuple(sorted(taken)),
        ids=tuple(seq for seq, event in sorted(taken.items()) if personal.text(event.external_id) != event.external_id),
        left={seq: remains(event, renaming(personal, token)) for seq, event in taken.items()},
    )  # fmt: skip


_KEPT = frozenset({"PersonalDataErased", "Checkpoint", "RunsPruned"})
"""Entries that say of others what became of them."""


def renaming(personal: Personal, token: str) -> Callable[[str], str]:
    """What a name becomes: the same for all that hold the same data."""
    return lambda name: personal.text(name, token)


# --- taking it away --------------------------------------------------------------------------------------------------


class EraseWork(Work[LogEnd | None]):
    """Payloads go, in the transaction of the entries that say so; `personal` also cleans what the tables say."""

    reads_first = True

    def __init__(self, run: str, events: Sequence[PersonalDataErased], personal: Personal | None, token: str) -> None:
        self.run = "" if run == SITE else run
        self.events = events
        self.entries = tuple(encode(event) for event in events)
        self._personal = personal
        self._token = token

    def plan(self, batch: Batch) -> LogEnd | None:
        head = batch.head(self.run) if self.run else None
        batch.written = True
        for event in self.events:
            mine = log.c.run_id == (self.run or SITE)
            batch.connection.execute(update(log).where(mine, log.c.seq.in_(event.seqs)).values(salt=None, data=None))
            batch.connection.execute(update(log).where(mine, log.c.seq.in_(event.ids)).values(external_id=""))
        if head is None:
            for entry in self.entries:
                batch.add_site(entry)
            _clean_site(batch.connection, self._personal, self._token)
            return None
        if self._personal is not None:
            _clean(batch.connection, self.run, self._personal, self._token)
            head.record = renaming(self._personal, self._token)(head.record)
        return batch.add(head, self.entries)


def drop_records(connection: Connection, names: Sequence[tuple[str, str]]) -> None:
    """Entries of our own tables go."""
    for collection, name in names:
        connection.execute(delete(records).where(records.c.collection == collection, records.c.id == name))


def _clean(connection: Connection, run: str, personal: Personal, token: str) -> None:
    """What the tables beside the log say of a run, and what guards its entries: a lock bears its record's name."""
    renamed = renaming(personal, token)

    def page(text: str) -> str:
        return canonical(personal.json(json.loads(text))).decode()

    for changed, tables in ((personal.text, _TEXTS), (page, _JSON), (renamed, _NAMES)):
        for table, names in tables:
            for row in connection.execute(select(table).where(table.c.run_id == run)).all():
                _write(connection, table, row, {name: changed(getattr(row, name)) for name in names.split()})
    connection.execute(delete(awaited).where(awaited.c.run_id == run))
    guarded = select(log).where(log.c.run_id == run, log.c.guard.is_not(None), log.c.data.is_(None))
    for row in connection.execute(guarded).all():
        _write(connection, log, row, {"guard": renamed(row.guard)})
    for table, name in _KEYS:
        for number, row in enumerate(connection.execute(select(table).where(table.c.run_id == run)).all()):
            key = getattr(row, name)
            unnamed = f"{token}/{run}/{number}" if personal.text(key) != key else key
            # A digest of a mail address is as good as the address to whoever can guess it.
            _write(connection, table, row, {name: unnamed, "inputs_digest" if table is runs else "digest": ""})


def _write(connection: Connection, table: Table, row: Any, new: Mapping[str, str]) -> None:
    if all(getattr(row, name) == value for name, value in new.items()):
        return
    this = [column == getattr(row, column.name) for column in table.primary_key]
    connection.execute(update(table).where(*this).values(dict(new)))


def _clean_site(connection: Connection, personal: Personal | None, token: str) -> None:
    """Events that nobody waited for, what persons hold, and what is remembered of runs that are gone."""
    if personal is None:
        return
    for row in connection.execute(select(kept_events)).all():
        if personal.text(row.data) != row.data or personal.text(row.source) != row.source:
            connection.execute(delete(kept_events).where(kept_events.c.event_id == row.event_id))
    for row in connection.execute(select(holds)).all():
        _write(connection, holds, row, {"record": personal.text(row.record, token)})
    for value in personal.values:
        named = select(receipts).where(receipts.c.delivery_id.contains(value, autoescape=True))
        for row in connection.execute(named).all():
            name = secrets.token_hex(8) if personal.text(row.delivery_id) != row.delivery_id else row.delivery_id
            _write(connection, receipts, row, {"delivery_id": name, "digest": ""})
        texts = [arrivals.c[name].contains(value, autoescape=True) for name in _TOLD]
        for row in connection.execute(select(arrivals).where(or_(*texts))).all():
            name = secrets.token_hex(8) if personal.text(row.arrival) != row.arrival else row.arrival
            cleaned = {each: personal.text(getattr(row, each), token) for each in ("entity", "why")}
            content = row.content if personal.text(row.content) == row.content else ""
            _write(connection, arrivals, row, {"arrival": name, "digest": "", "content": content, **cleaned})
        about = cursors.c.name.contains(value, autoescape=True) | cursors.c.value.contains(value, autoescape=True)
        connection.execute(delete(cursors).where(cursors.c.name.startswith("entity:"), about))


_TOLD = ("arrival", "content", "entity", "why")
