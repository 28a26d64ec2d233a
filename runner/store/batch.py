"""What one group commit writes: rows collected from many works, checked in memory, written in few statements.

The batch loads where the runs of the group stand, works are planned against that, and `write` makes it true: every
change of a run is conditional on the `seq` it was planned at. `Moved` says that something was not as planned; then the
writer does the group again, each work by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, bindparam, select

from runner.clock import HOUR
from runner.contract import Json, canonical, digest
from runner.core.events import (
    ApprovalRequested,
    Emitted,
    Event,
    QuarantineDiscarded,
    QuarantineReleased,
    RecordHeld,
    RecordLocked,
    RecordQuarantined,
    RecordReleased,
    RunMoved,
)
from runner.errors import NotFound
from runner.store.facts import Awaited, EffectChange, HandOffChange, LogEnd, RunColumns
from runner.store.log import SITE, Entry, chained
from runner.store.messages import ASKS, Message
from runner.store.notices import notices_of
from runner.store.outbox import row_of
from runner.store.record_locks import Use, read_uses
from runner.store.shared import Shared, Told
from runner.store.site import Site, read_site
from runner.store.statements import INDEXED, Rows, Statements, Values
from runner.store.tables import meta, runs


class Moved(Exception):
    """A run or the meta row was not where the batch had read it."""


@dataclass(kw_only=True, slots=True)
class Head:
    """Where a run stands inside the batch. `was` is the seq that the runs table has, `fence` the engine that drives it
    (0: none), `held_by` that of the table.
    """

    run: str
    was: int
    hash: str
    record: str
    indexed: Values
    """What the table has in the columns that stand in indexes."""
    held_by: int = 0
    fence: int = 0
    seq: int = 0
    columns: RunColumns | None = None
    dirty: bool = False

    def __post_init__(self) -> None:
        self.seq, self.fence = self.was, self.held_by

    @property
    def has_ended(self) -> bool:
        """As the table says."""
        return self.indexed[-1] is not None


_HEADS = select(*(runs.c[name] for name in ("run_id", "seq", "head", "record", "fence", *INDEXED))).where(
    runs.c.run_id.in_(bindparam("ids", expanding=True))
)
_LOCKED = _HEADS.order_by(runs.c.run_id).with_for_update(key_share=True)


@dataclass(kw_only=True, slots=True)
class Batch:
    """The rows of one transaction (or of one savepoint of it). `now` is ms since the epoch.

    `cursor` is the driver's own, for what is written all the time; `connection` the same transaction for the rest.
    """

    connection: Connection
    cursor: Any
    words: Statements
    site: Site
    now: int
    heads: dict[str, Head] = field(default_factory=dict)
    uses: dict[str, Use] = field(default_factory=dict)
    starting: set[tuple[str, ...]] = field(default_factory=set)
    log_rows: list[Values] = field(default_factory=list)
    run_rows: list[Values] = field(default_factory=list)
    receipt_rows: list[Values] = field(default_factory=list)
    effect_rows: dict[tuple[str, int], Values] = field(default_factory=dict)
    handoff_rows: dict[tuple[str, str], Values] = field(default_factory=dict)
    others: list[tuple[Rows | str, Values]] = field(default_factory=list)
    written: bool = False
    asks_checkpoint: bool = False
    shared: Shared | None = None
    """This engine among the others that write to the database; None where it is the only one."""
    site_is_read: bool = False
    told: set[Told] = field(default_factory=set)
    held: dict[str, str] = field(default_factory=dict)
    """What persons hold at the site, and who, for works that ask."""

    # -- reading --

    def load(
        self, ids: Iterable[str], names: Iterable[str], known: Mapping[str, Head], holds: AbstractSet[str] = frozenset()
    ) -> None:
        """Learns where these runs stand (from `known`, else the table), who uses these records, and what is held."""
        wanted: list[str] = []
        shared = self.shared
        if shared is not None and holds & {"asks", "sets"}:  # first: whoever waits here keeps no run from others
            self.held = shared.held(self.cursor, sets="sets" in holds)
        for run in ids:
            head = known.get(run)
            if head is None or (shared is not None and head.held_by != shared.fence):
                wanted.append(run)
            else:
                self.heads[run] = head
        if wanted:
            self._read_heads(wanted)
        named = dict.fromkeys(names)
        self.alone(*named)
        self.uses |= read_uses(self.connection, named)

    def _read_heads(self, wanted: Sequence[str]) -> None:
        asked = _HEADS if self.shared is None else _LOCKED
        for run, seq, link, record, fence, *indexed in self.connection.execute(asked, {"ids": wanted}):
            self.heads[run] = Head(run=run, was=seq, hash=link, record=record, indexed=tuple(indexed), held_by=fence)

    def head_at(self, run: str, seq: int) -> Head:
        """As `head`; where it is remembered at another seq, others may have reported since, and it is read again."""
        head = self.head(run)
        if self.shared is not None and head.seq != seq and not head.dirty:
            self._read_heads([run])
            head = self.heads[run]
        return head

    def alone(self, *names: str) -> None:
        """No other engine decides about these until COMMIT."""
        if self.shared is not None and names:
            self.shared.alone(self.cursor, names)

    def head(self, run: str) -> Head:
        """Where a run stands. Raises NotFound."""
        found = self.heads.get(run)
        if found is None:
            raise NotFound(f"there is no run {run}")
        return found

    def ask(self, text: str, *values: Any) -> list[Values]:
        """The rows that answer one of the statements' questions."""
        self.cursor.execute(text, values)
        found: list[Values] = self.cursor.fetchall()
        return found

    # -- planning --

    def add(self, head: Head, entries: Iterable[Entry]) -> LogEnd:
        """Puts entries at the end of a run's chain."""
        for entry in entries:
            head.seq += 1
            head.hash = self._place(head.run, head.seq, head.hash, entry)
        head.dirty = True
        return LogEnd(seq=head.seq, hash=head.hash)

    def read_site(self) -> None:
        """Where other engines write too: how far the site's chain is now, which is this one's until COMMIT."""
        if self.shared is not None and not self.site_is_read:
            self.site_is_read = True
            self.connection.execute(select(meta.c.id).with_for_update())
            found = read_site(self.connection)
            self.site = replace(
                self.site, site_seq=found.site_seq, site_head=found.site_head, restored_at=found.restored_at
            )

    def add_site(self, entry: Entry) -> None:
        """Puts an entry at the end of the site's chain."""
        self.read_site()
        seq = self.site.site_seq + 1
        self.site = replace(self.site, site_seq=seq, site_head=self._place(SITE, seq, self.site.site_head, entry))

    def _place(self, run: str, seq: int, previous: str, entry: Entry) -> str:
        kind, at, step, external_id, guard, digest, salt, data, _ = entry
        link = chained(previous, run, seq, at, kind, step, external_id, digest)
        self.log_rows.append((run, seq, at, kind, step, external_id, digest, link, guard, salt, data))
        return link

    def take(self, head: Head) -> None:
        """Something was reported: this engine drives the run on where nobody does, else whoever does is told."""
        shared = self.shared
        if shared is None or head.fence == shared.fence:
            return
        if head.fence == 0 and not head.has_ended:
            head.fence = shared.mine
        if head.fence != shared.fence:
            self.told.add((head.fence, head.run))

    def set_columns(self, head: Head, columns: RunColumns) -> None:
        """What the runs table will say of the run."""
        head.columns = columns
        head.dirty = True

    def set_effects(self, run: str, changes: Iterable[EffectChange]) -> None:
        """Rows of the effects table."""
        for it in changes:
            row = (run, it.start_no, it.path, it.part, it.action, it.disposition, it.external_id, it.note)
            self.effect_rows[run, it.start_no] = row

    def set_handoffs(self, run: str, changes: Iterable[HandOffChange]) -> None:
        """Rows of the hand-offs table."""
        for it in changes:
            choices = canonical(list(it.choices)).decode()
            begun = (run, it.handoff, it.step, it.kind, it.owner, it.status, it.opened_at, it.summary, choices)
            self.handoff_rows[run, it.handoff] = (*begun, it.resolved_by, it.choice)

    def set_waits(self, run: str, records: Iterable[str], since: int) -> None:
        """The run stands in line for exactly these records."""
        self.others.append((self.words.leave, (run,)))
        for use in self.uses.values():
            use.line.pop(run, None)
        for record in records:
            self.others.append((self.words.waits, (record, run, since)))
            self.use(record).line[run] = since

    def free_locks(self, run: str, records: Iterable[str]) -> None:
        """A run that ends gives its records back."""
        self.others.append((self.words.unlock, (run,)))
        for record in records:
            self.use(record).lock = ""

    def use(self, record: str) -> Use:
        """Who uses a record that was asked for in `load`."""
        return self.uses.setdefault(record, Use(record=record))

    def set_awaited(self, run: str, waits: Iterable[Awaited]) -> None:
        """Rows of all that the run waits for."""
        self.others.append((self.words.await_nothing, (run,)))
        self.others.extend((self.words.awaited, awaited_row(run, one)) for one in waits)

    def set_messages(self, run: str, messages: Iterable[Message]) -> None:
        """Rows of the outbox. Whoever is asked has a locator."""
        for it in messages:
            self.others.append((self.words.outbox, row_of(run, it)))
            if it.kind in ASKS:
                rows = notices_of(run, it.about, it.round, [it.person], it.at)
                self.others.extend((self.words.notices, row) for row in rows)

    def rest_effects(self, run: str, disposition: str) -> None:
        """What every pending effect of the run becomes."""
        self.others.append((self.words.rest, (disposition, run)))

    def set_lists(self, head: Head, event: Event) -> None:
        """What an event means for the lists of held, locked and quarantined records."""
        listed = _LISTED.get(type(event))
        if listed is not None:
            listed(self, head, event)

    # -- writing --

    @property
    def is_empty(self) -> bool:
        """Whether nothing was planned since the last `write`."""
        rows = self.log_rows or self.run_rows or self.receipt_rows or self.others
        return not rows and not any(head.dirty for head in self.heads.values())

    def write(self) -> None:
        """Writes what was planned. Raises Moved, or the driver's own errors (an IntegrityError for a guard)."""
        if self.is_empty:
            return
        self.written = True
        words, cursor = self.words, self.cursor
        words.runs.run(cursor, self.run_rows)
        self._write_heads()
        words.log.run(cursor, self.log_rows)
        if words.receipts.run(cursor, self.receipt_rows) != len(self.receipt_rows) and self.shared is not None:
            raise Moved  # another engine has just taken the same delivery
        words.effects.run(cursor, list(self.effect_rows.values()))
        words.handoffs.run(cursor, list(self.handoff_rows.values()))
        for statement, values in self.others:
            if isinstance(statement, Rows):
                statement.run(cursor, [values])
            else:
                cursor.execute(statement, values)
        for done in (self.run_rows, self.log_rows, self.receipt_rows, self.others, self.effect_rows, self.handoff_rows):
            done.clear()

    def _write_heads(self) -> None:
        light: list[Values] = []
        middle: list[Values] = []
        full: list[Values] = []
        commit, is_shared = self.site.commit_no + 1, self.shared is not None
        for head in self.heads.values():
            if not head.dirty:
                continue
            told, seq = head.columns, head.seq
            row: Values = (seq, head.hash, self.now, commit)
            place: Values = (head.run, head.was)
            if is_shared:
                row, place = (*row, head.fence), (*place, head.held_by)
                head.held_by = head.fence
            if told is None:
                light.append(row + place)
            else:
                row += (told.phase, told.waiting_for, told.at_step, told.needs, told.summary, seq)
                indexed = (told.status, told.wake_at, told.ended_at)
                if indexed == head.indexed:
                    middle.append(row + place)
                else:
                    head.indexed = indexed
                    full.append(row + indexed + place)
            head.was, head.columns, head.dirty = seq, None, False
        words = self.words
        for statement, rows in ((words.light, light), (words.middle, middle), (words.full, full)):
            if statement.run(self.cursor, rows) != len(rows):
                raise Moved

    def seal(self) -> Site:
        """Writes the meta row of this commit; the last thing before COMMIT. Raises Moved when the fence was raised."""
        site, commit = self.site, self.site.commit_no + 1
        if self.shared is not None:
            if self.site_is_read:
                self.cursor.execute(self.words.seal_shared, (site.site_seq, site.site_head, site.restored_at))
            if site.checkpointed == commit:
                self.cursor.execute(self.words.tied, (commit, site.fence))
            if self.told:
                self.shared.tell(self.cursor, sorted(self.told))
            return replace(site, commit_no=commit)
        said = (commit, site.site_seq, site.site_head, site.checkpointed, site.restored_at, site.fence, site.commit_no)
        self.cursor.execute(self.words.seal, said)
        if self.cursor.rowcount != 1:
            raise Moved
        return replace(site, commit_no=commit)


# --- events that are waited for --------------------------------------------------------------------------------------

KEPT_FOR = 24 * HOUR


def awaited_row(run: str, waits: Awaited) -> Values:
    """The row of something that is waited for: found again by the names and values that the event must have."""
    names = sorted(waits.match)
    return (run, waits.path, waits.event, canonical(names).decode(), match_digest(names, waits.match), waits.since)


def match_digest(names: Sequence[str], data: Mapping[str, Json]) -> str:
    """What stands for the values of these fields."""
    return digest([data[name] for name in names])


def emitted_row(run: str, event: Emitted) -> Values:
    """The row of an event that a run sent."""
    data = canonical(dict(event.data)).decode()
    return (event.id_in(run), event.event, f"run {run}", data, event.at, event.at + KEPT_FOR, "")


# --- what events mean for the lists ----------------------------------------------------------------------------------


def set_aside(run: str, record: str, step: str, reason: str, at: int, content: str = "{}") -> Values:
    """A row of the quarantine list."""
    return (record, run, step, reason, content, "set_aside", at, "", None)


def _hold(batch: Batch, head: Head, event: RecordHeld) -> None:
    batch.others.append((batch.words.holds, (event.record, head.run, event.handoff, event.at)))
    use = batch.use(event.record)
    if head.run not in use.holds:
        use.holds.append(head.run)


def _release(batch: Batch, head: Head, event: RecordReleased) -> None:
    batch.others.append((batch.words.free, (event.record, head.run)))
    use = batch.use(event.record)
    use.holds = [other for other in use.holds if other != head.run]


def _lock(batch: Batch, head: Head, event: RecordLocked) -> None:
    batch.others.append((batch.words.locks, (event.record, head.run, event.at)))
    batch.use(event.record).lock = head.run


def _set_aside(batch: Batch, head: Head, event: RecordQuarantined) -> None:
    row = set_aside(head.run, event.record, event.step, event.reason, event.at)
    batch.others.append((batch.words.quarantine, row))


def _answer(batch: Batch, head: Head, event: QuarantineReleased | QuarantineDiscarded) -> None:
    status = "released" if isinstance(event, QuarantineReleased) else "discarded"
    values = (status, event.by, event.at, event.record, head.run, "set_aside")
    batch.others.append((batch.words.answer, values))


def _keep_event(batch: Batch, head: Head, event: Emitted) -> None:
    batch.others.append((batch.words.kept_events, emitted_row(head.run, event)))


def _ask(batch: Batch, head: Head, event: ApprovalRequested) -> None:
    rows = notices_of(head.run, event.approval, event.round, event.asked, event.at)
    batch.others.extend((batch.words.notices, row) for row in rows)


def _move(batch: Batch, head: Head, event: RunMoved) -> None:
    batch.others.append((batch.words.move, (event.bundle, head.run)))


_LISTED: dict[type[Event], Callable[[Batch, Head, Any], None]] = {
    RecordHeld: _hold,
    RecordReleased: _release,
    RecordLocked: _lock,
    RecordQuarantined: _set_aside,
    QuarantineReleased: _answer,
    QuarantineDiscarded: _answer,
    Emitted: _keep_event,
    RunMoved: _move,
    ApprovalRequested: _ask,
}


def records_of(events: Sequence[Event]) -> tuple[str, ...]:
    """The records that these events hold, lock or release."""
    return tuple(event.record for event in events if isinstance(event, _HOLDING))


_HOLDING = (RecordHeld, RecordReleased, RecordLocked)
