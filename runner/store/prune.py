"""Removing ended runs whose time is over, in small portions that never keep the writer long.

A portion of runs goes in two steps. One transaction removes their rows and names them in the site's chain with the last
hash of each (RunsPruned): from then on they are pruned, and not stolen. Their files and the entries of their logs
follow in pieces; whoever is killed in between is finished by the next pass. Keys and delivery ids are remembered for
REMEMBERED after that, so that a late delivery does not start its work again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, or_, select, update

from runner.clock import DAY
from runner.core.events import RunsPruned
from runner.store.batch import Batch
from runner.store.log import SITE, decode, encode
from runner.store.tables import (
    active,
    arrivals,
    bundles,
    holds,
    locks,
    log,
    metadata,
    quarantine,
    receipts,
    runs,
    texts,
    waits,
)
from runner.store.views import STORED, Views, stored
from runner.store.work import Work, key_source

PORTION = 50
"""Runs that one transaction removes."""
PIECE, PIECE_BYTES = 2_000, 1_000_000
"""Entries that one transaction removes, and how many bytes they may have."""
REMEMBERED = 30 * DAY
"""How long keys and delivery ids of removed runs are remembered, ms."""

_FILE = re.compile(r'"sha256":"([0-9a-f]{64})"')
_later = runs.alias("later")


@dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """How long ended runs are kept, ms: `flows` by id, `other` for the rest. Those of `unread` flows stay."""

    other: int
    flows: Mapping[str, int] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()

    def over(self, now: int) -> ColumnElement[bool]:
        """Which runs' time is over."""
        own = [and_(runs.c.flow == flow, runs.c.ended_at <= now - kept) for flow, kept in self.flows.items()]
        known = [*self.flows, *self.unread]
        return or_(*own, and_(runs.c.flow.not_in(known), runs.c.ended_at <= now - self.other))


@dataclass(frozen=True, kw_only=True, slots=True)
class Portion:
    """Runs that are to go: (run, seq, hash) where each log ends."""

    ends: tuple[tuple[str, int, str], ...]

    @property
    def entries(self) -> int:
        """How many entries they have."""
        return sum(seq for _, seq, _ in self.ends)


def due(views: Views, keep: Keep, now: int, most: int | None = PORTION) -> Portion:
    """Ended runs whose time is over, oldest first: none that holds or locks a record, none with something in
    quarantine, none that another run cleans up after (that one goes first)."""
    tied = [exists().where(table.c.run_id == runs.c.run_id) for table in (holds, locks, waits)]
    aside = exists().where(quarantine.c.run_id == runs.c.run_id, quarantine.c.status == "set_aside")
    cleaned = exists().where(
        _later.c.flow == runs.c.flow, _later.c.mode == runs.c.mode, _later.c.run_key == "clean-up/" + runs.c.run_id
    )
    asked = (
        select(runs.c.run_id, runs.c.seq, runs.c.head)
        .where(runs.c.ended_at.is_not(None), keep.over(now), ~or_(*tied, aside, cleaned))
        .order_by(runs.c.started_at, runs.c.run_id)
        .limit(most)
    )
    with views._read() as connection:
        return Portion(ends=tuple((row.run_id, row.seq, row.head) for row in connection.execute(asked)))


class PruneWork(Work[int]):
    """The rows of a portion go, and the site's chain names them. Its answer: how many runs went."""

    reads_first = True

    def __init__(self, portion: Portion, by: str, at: int) -> None:
        self._portion = portion
        self._by = by
        self._at = at

    def plan(self, batch: Batch) -> int:
        asked = select(runs.c.run_id, runs.c.seq).where(runs.c.run_id.in_([run for run, _, _ in self._portion.ends]))
        stand = {row.run_id: row.seq for row in batch.connection.execute(asked)}
        gone = {run: [seq, head] for run, seq, head in self._portion.ends if stand.get(run) == seq}
        if gone:
            _remember(batch.connection, list(gone), self._at)
            for table in metadata.sorted_tables[::-1]:
                if "run_id" in table.c and table.name not in ("log", "receipts", "arrivals"):
                    batch.connection.execute(delete(table).where(table.c.run_id.in_(list(gone))))
            batch.add_site(encode(RunsPruned(at=self._at, by=self._by, data={"runs": gone})))
        return len(gone)


def _remember(connection: Connection, gone: Sequence[str], at: int) -> None:
    """Their delivery ids stay a while, and their keys beside them."""
    for table in (receipts, arrivals):
        connection.execute(update(table).where(table.c.run_id.in_(gone)).values(at=at))
    asked = select(runs.c.run_id, runs.c.flow, runs.c.mode, runs.c.run_key, runs.c.inputs_digest)
    for row in connection.execute(asked.where(runs.c.run_id.in_(gone), runs.c.run_key != runs.c.run_id)).all():
        where = {"source": key_source(row.flow, row.mode), "delivery_id": row.run_key}
        this = [receipts.c[name] == value for name, value in where.items()]
        if not connection.execute(select(receipts.c.at).where(*this)).first():
            values = {**where, "digest": row.inputs_digest, "run_id": row.run_id, "at": at}
            connection.execute(insert(receipts).values(values))


# --- the rest, in pieces ---------------------------------------------------------------------------------------------


def unfinished(views: Views) -> list[str]:
    """Runs that were pruned and whose logs are still there: those of the last RunsPruned, if anything broke off."""
    with views._read() as connection:
        asked = STORED.where(log.c.run_id == SITE, log.c.type == "RunsPruned").order_by(log.c.seq.desc()).limit(1)
        row = connection.execute(asked).first()
        event = decode(stored(row)) if row is not None else None
        named = list(event.data["runs"]) if isinstance(event, RunsPruned) else []
        return list(connection.execute(select(log.c.run_id).where(log.c.run_id.in_(named)).distinct()).scalars())


def files_of(views: Views, gone: Sequence[str]) -> tuple[set[str], set[str]]:
    """(the files that hold their entries, the files that their entries name: others may name these too)."""
    own: set[str] = set()
    named: set[str] = set()
    with views._read() as connection:
        asked = select(log.c.data).where(log.c.run_id.in_(gone), log.c.data.is_not(None))
        for data in connection.execution_options(yield_per=500).execute(asked).scalars():
            if data.startswith('{"artifact":"'):
                own.add(json.loads(data)["artifact"])
            else:
                named.update(_FILE.findall(data))
    return own, {digest for digest in named if views.artifacts.has(digest)}


def pieces(views: Views, gone: Sequence[str]) -> Iterator[ColumnElement[bool]]:
    """Which entries go together: at most PIECE, and at most PIECE_BYTES of them."""
    asked = select(log.c.run_id, log.c.seq, func.coalesce(func.length(log.c.data), 0).label("size"))
    ranges: dict[str, tuple[int, int]] = {}
    count = size = 0
    with views._read() as connection:
        rows = connection.execution_options(yield_per=1_000).execute(
            asked.where(log.c.run_id.in_(gone)).order_by(log.c.run_id, log.c.seq)
        )
        for row in rows:
            if count and (count >= PIECE or size + row.size > PIECE_BYTES):
                yield _within(ranges)
                ranges, count, size = {}, 0, 0
            ranges[row.run_id] = (ranges.get(row.run_id, (row.seq, 0))[0], row.seq)
            count, size = count + 1, size + row.size
    if ranges:
        yield _within(ranges)


def _within(ranges: Mapping[str, tuple[int, int]]) -> ColumnElement[bool]:
    return or_(*(and_(log.c.run_id == run, log.c.seq.between(*ends)) for run, ends in ranges.items()))


def drop_entries(connection: Connection, wanted: ColumnElement[bool]) -> None:
    """Removes entries of a log."""
    connection.execute(delete(log).where(wanted))


def forget_receipts(connection: Connection, now: int) -> None:
    """Delivery ids and keys of removed runs whose time to be remembered is over."""
    known = exists().where(runs.c.run_id == receipts.c.run_id)
    connection.execute(delete(receipts).where(receipts.c.at < now - REMEMBERED, ~known))
    led_to_one = exists().where(runs.c.run_id == arrivals.c.run_id)
    connection.execute(delete(arrivals).where(arrivals.c.at < now - REMEMBERED, ~led_to_one))


def unused_bundles(views: Views, kept: Iterable[str]) -> list[str]:
    """Versions that no run is or was on, that none of these follows, and that are not among `kept`."""
    with views._read() as connection:
        every = list(connection.execute(select(bundles.c.digest).distinct()).scalars())
        used = {*kept, *connection.execute(select(runs.c.bundle).distinct().union(select(active.c.bundle))).scalars()}
        for row in connection.execute(STORED.where(log.c.type == "RunMoved")):
            event: Any = decode(stored(row))
            used |= {getattr(event, "before", ""), getattr(event, "bundle", "")}
    waiting = [digest for digest in every if digest in used]
    while waiting:
        follows = json.loads(views.bundle(waiting.pop()).get("project", "{}")).get("follows", "")
        if follows in every and follows not in used:
            used.add(follows)
            waiting.append(follows)
    return [digest for digest in every if digest not in used]


def drop_bundles(connection: Connection, digests: Sequence[str]) -> None:
    """Removes versions, if still no run is on them, and the texts that only they had."""
    for digest in digests:
        taken = exists().where(runs.c.bundle == digest)
        connection.execute(delete(bundles).where(bundles.c.digest == digest, ~taken))
    connection.execute(delete(texts).where(~exists().where(bundles.c.text_digest == texts.c.digest)))
