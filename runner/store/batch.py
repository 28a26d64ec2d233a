"""What one group commit writes: rows collected from many works, checked in memory, written in few statements.

The batch loads where the runs of the group stand, works are planned against that, and `write` makes it true: every
change of a run is conditional on the `seq` it was planned at. `Moved` says that something was not as planned; then the
writer does the group again, each work by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlalchemy import Connection, Executable, Insert, Table, bindparam, delete, insert, select, update

from runner.contract import canonical
from runner.core.events import (
    Event,
    QuarantineDiscarded,
    QuarantineReleased,
    RecordHeld,
    RecordQuarantined,
    RecordReleased,
)
from runner.errors import NotFound
from runner.store.bulk import insert_rows, update_rows
from runner.store.facts import EffectChange, HandOffChange, LogEnd, RunColumns
from runner.store.log import SITE, Entry, chained
from runner.store.tables import (
    bundles,
    effects,
    handoffs,
    holds,
    log,
    meta,
    payloads,
    quarantine,
    receipts,
    runs,
    site_holds,
    texts,
)

Row = dict[str, Any]
Values = tuple[Any, ...]
"""A row in the order of its table's columns."""


class Moved(Exception):
    """A run or the meta row was not where the batch had read it."""


class Dialect(Protocol):
    """The words in which databases differ."""

    def upsert(self, table: Table, keys: tuple[str, ...], changed: tuple[str, ...]) -> Insert:
        """INSERT that changes the named columns where the key is there already."""

    def insert_new(self, table: Table) -> Insert:
        """INSERT that leaves a row alone that is there already."""


@dataclass(kw_only=True, slots=True)
class Head:
    """Where a run stands inside the batch. `was` is the seq that the runs table has."""

    run: str
    was: int
    seq: int
    hash: str
    record: str
    indexed: tuple[str, int | None, int | None, str]
    """status, wake_at, ended_at, held_on as the table has them: columns that stand in indexes."""
    held_on: str = ""
    columns: RunColumns | None = None
    dirty: bool = False

    def copy(self) -> Head:
        """The same place, for a batch that may yet fail."""
        return Head(
            run=self.run,
            was=self.was,
            seq=self.seq,
            hash=self.hash,
            record=self.record,
            indexed=self.indexed,
            held_on=self.held_on,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """The meta row: what is true of the database as a whole."""

    database_id: str
    commit_no: int
    fence: int
    site_seq: int
    site_head: str
    checkpointed: int
    restored_at: int | None


_MOVED = ("seq", "head", "updated_at", "commit_no")
_TOLD = ("phase", "waiting_for", "at_step", "needs", "summary", "decided")
_INDEXED = ("status", "wake_at", "ended_at", "held_on")


class Statements:
    """The statements of a batch, made once for a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        at_seq = (("b_run", "run_id"), ("b_was", "seq"))
        self.light = update_rows(runs, at_seq, _MOVED)
        self.middle = update_rows(runs, at_seq, _MOVED + _TOLD)
        self.full = update_rows(runs, at_seq, _MOVED + _TOLD + _INDEXED)
        self.runs = insert_rows(insert(runs), runs)
        self.log = insert_rows(insert(log), log)
        self.payloads = insert_rows(insert(payloads), payloads)
        self.effects = insert_rows(_upsert(dialect, effects), effects)
        self.handoffs = insert_rows(_upsert(dialect, handoffs), handoffs)
        self.receipts = insert_rows(dialect.insert_new(receipts), receipts)
        self.quarantine = _upsert(dialect, quarantine)
        self.site_holds = _upsert(dialect, site_holds)
        self.holds = dialect.insert_new(holds)
        self.texts = dialect.insert_new(texts)
        self.bundles = dialect.insert_new(bundles)


def _upsert(dialect: Dialect, table: Table) -> Insert:
    keys = tuple(column.name for column in table.primary_key)
    return dialect.upsert(table, keys, tuple(column.name for column in table.c if column.name not in keys))


_HEADS = (
    select(*(runs.c[name] for name in ("run_id", "seq", "head", "record", *_INDEXED)))
    .where(runs.c.run_id.in_(bindparam("ids", expanding=True)))
    .with_for_update()
)
_HOLDERS = (
    select(holds.c.record, holds.c.run_id)
    .where(holds.c.record.in_(bindparam("names", expanding=True)))
    .order_by(holds.c.record, holds.c.at, holds.c.run_id)
)
_FREE = delete(holds).where(holds.c.record == bindparam("b_record"), holds.c.run_id == bindparam("b_run"))
_ANSWER = (
    update(quarantine)
    .where(
        quarantine.c.record == bindparam("b_record"),
        quarantine.c.run_id == bindparam("b_run"),
        quarantine.c.status == "set_aside",
    )
    .values(status=bindparam("b_status"), answered_by=bindparam("b_by"), answered_at=bindparam("b_at"))
)
_SITE_FREE = delete(site_holds).where(site_holds.c.name == bindparam("b_name"))
_META = (
    update(meta)
    .where(meta.c.id == 1, meta.c.fence == bindparam("b_fence"), meta.c.commit_no == bindparam("b_was"))
    .values({name: bindparam(name) for name in ("commit_no", "site_seq", "site_head", "checkpointed", "restored_at")})
)


@dataclass(kw_only=True, slots=True)
class Batch:
    """The rows of one transaction (or of one savepoint of it). `now` is ms since the epoch."""

    connection: Connection
    statements: Statements
    site: Site
    now: int
    heads: dict[str, Head] = field(default_factory=dict)
    holders: dict[str, list[str]] = field(default_factory=dict)
    starting: set[tuple[str, ...]] = field(default_factory=set)
    log_rows: list[Values] = field(default_factory=list)
    payload_rows: list[Values] = field(default_factory=list)
    run_rows: list[Values] = field(default_factory=list)
    receipt_rows: list[Values] = field(default_factory=list)
    effect_rows: dict[tuple[str, int], Values] = field(default_factory=dict)
    handoff_rows: dict[tuple[str, str], Values] = field(default_factory=dict)
    others: list[tuple[Executable, Row]] = field(default_factory=list)
    written: bool = False

    # -- reading --

    def load(self, ids: Iterable[str], names: Iterable[str], known: Mapping[str, Head]) -> None:
        """Learns where these runs stand (from `known`, else the table) and who holds these records."""
        wanted: list[str] = []
        for run in dict.fromkeys(ids):
            head = known.get(run)
            if head is None:
                wanted.append(run)
            else:
                self.heads[run] = head.copy()
        if wanted:
            for row in self.connection.execute(_HEADS, {"ids": wanted}):
                self.heads[row.run_id] = Head(
                    run=row.run_id,
                    was=row.seq,
                    seq=row.seq,
                    hash=row.head,
                    record=row.record,
                    indexed=(row.status, row.wake_at, row.ended_at, row.held_on),
                    held_on=row.held_on,
                )
        records = list(dict.fromkeys(names))
        if records:
            self.holders.update((name, []) for name in records)
            for held in self.connection.execute(_HOLDERS, {"names": records}):
                self.holders[held.record].append(held.run_id)

    def head(self, run: str) -> Head:
        """Where a run stands. Raises NotFound."""
        found = self.heads.get(run)
        if found is None:
            raise NotFound(f"there is no run {run}")
        return found

    # -- planning --

    def add(self, head: Head, entries: Iterable[Entry]) -> LogEnd:
        """Puts entries at the end of a run's chain."""
        for entry in entries:
            head.seq += 1
            head.hash = self._place(head.run, head.seq, head.hash, entry)
        head.dirty = True
        return LogEnd(seq=head.seq, hash=head.hash)

    def add_site(self, entry: Entry) -> None:
        """Puts an entry at the end of the site's chain."""
        seq = self.site.site_seq + 1
        self.site = replace(self.site, site_seq=seq, site_head=self._place(SITE, seq, self.site.site_head, entry))

    def _place(self, run: str, seq: int, previous: str, entry: Entry) -> str:
        link = chained(
            previous,
            run,
            seq,
            at=entry.at,
            kind=entry.type,
            step=entry.step,
            external_id=entry.external_id,
            digest=entry.digest,
        )
        self.log_rows.append(
            (run, seq, entry.at, entry.type, entry.step, entry.external_id, entry.digest, link, entry.guard)
        )
        self.payload_rows.append((run, seq, entry.salt, entry.data))
        return link

    def set_columns(self, head: Head, columns: RunColumns) -> None:
        """What the runs table will say of the run."""
        head.columns = columns
        head.dirty = True
        if columns.ended_at is not None:
            head.held_on = ""

    def set_effects(self, run: str, changes: Iterable[EffectChange]) -> None:
        """Rows of the effects table."""
        for change in changes:
            self.effect_rows[run, change.start_no] = (
                run,
                change.start_no,
                change.path,
                change.part,
                change.action,
                change.disposition,
                change.external_id,
                change.note,
            )

    def set_handoffs(self, run: str, changes: Iterable[HandOffChange]) -> None:
        """Rows of the hand-offs table."""
        for change in changes:
            self.handoff_rows[run, change.handoff] = (
                run,
                change.handoff,
                change.step,
                change.kind,
                change.owner,
                change.status,
                change.opened_at,
                change.summary,
                canonical(list(change.choices)).decode(),
                change.resolved_by,
                change.choice,
            )

    def set_lists(self, run: str, event: Event) -> None:
        """What an event means for the lists of held and quarantined records."""
        if isinstance(event, RecordHeld):
            row = {"record": event.record, "run_id": run, "handoff": event.handoff, "at": event.at}
            self.others.append((self.statements.holds, row))
            holders = self.holders.setdefault(event.record, [])
            if run not in holders:
                holders.append(run)
        elif isinstance(event, RecordReleased):
            self.others.append((_FREE, {"b_record": event.record, "b_run": run}))
            self.holders[event.record] = [other for other in self.holders.get(event.record, []) if other != run]
        elif isinstance(event, RecordQuarantined):
            row = set_aside(run, record=event.record, step=event.step, reason=event.reason, at=event.at)
            self.others.append((self.statements.quarantine, row))
        elif isinstance(event, QuarantineReleased | QuarantineDiscarded):
            status = "released" if isinstance(event, QuarantineReleased) else "discarded"
            row = {"b_record": event.record, "b_run": run, "b_status": status, "b_by": event.by, "b_at": event.at}
            self.others.append((_ANSWER, row))

    def hold_site(self, name: str, by: str, at: int) -> None:
        """A row of the site's holds."""
        self.others.append((self.statements.site_holds, {"name": name, "held_by": by, "at": at}))

    def free_site(self, name: str) -> None:
        """The row of the site's holds goes."""
        self.others.append((_SITE_FREE, {"b_name": name}))

    def forget_restored(self) -> None:
        """The database counts as whole again."""
        self.site = replace(self.site, restored_at=None)

    # -- writing --

    @property
    def is_empty(self) -> bool:
        """Whether nothing was planned since the last `write`."""
        rows = (self.log_rows, self.run_rows, self.receipt_rows, self.others)
        return not any(rows) and not any(head.dirty for head in self.heads.values())

    def write(self) -> None:
        """Writes what was planned. Raises Moved, or the database's own errors (an IntegrityError for a guard)."""
        if self.is_empty:
            return
        self.written = True
        words, connection = self.statements, self.connection
        if self.run_rows:
            words.runs.run(connection, self.run_rows)
        self._write_heads()
        for statement, rows in (
            (words.log, self.log_rows),
            (words.payloads, self.payload_rows),
            (words.receipts, self.receipt_rows),
            (words.effects, list(self.effect_rows.values())),
            (words.handoffs, list(self.handoff_rows.values())),
        ):
            if rows:
                statement.run(connection, rows)
        self._write_others()
        for done in (self.run_rows, self.log_rows, self.payload_rows, self.receipt_rows, self.others):
            done.clear()
        self.effect_rows.clear()
        self.handoff_rows.clear()

    def _write_heads(self) -> None:
        light: list[Values] = []
        middle: list[Values] = []
        full: list[Values] = []
        commit = self.site.commit_no + 1
        for head in self.heads.values():
            if not head.dirty:
                continue
            row: Values = (head.run, head.was, head.seq, head.hash, self.now, commit)
            told = head.columns
            if told is None:
                light.append(row)
            else:
                row += (told.phase, told.waiting_for, told.at_step, told.needs, told.summary, head.seq)
                indexed = (told.status, told.wake_at, told.ended_at, head.held_on)
                if indexed == head.indexed:
                    middle.append(row)
                else:
                    head.indexed = indexed
                    full.append(row + indexed)
            head.was, head.columns, head.dirty = head.seq, None, False
        words = self.statements
        for statement, rows in ((words.light, light), (words.middle, middle), (words.full, full)):
            if rows and statement.run(self.connection, rows) != len(rows):
                raise Moved

    def _write_others(self) -> None:
        """In the order they were planned; neighbours of one kind go together."""
        at = 0
        while at < len(self.others):
            statement = self.others[at][0]
            end = at + 1
            while end < len(self.others) and self.others[end][0] is statement:
                end += 1
            self.connection.execute(statement, [row for _, row in self.others[at:end]])
            at = end

    def seal(self) -> Site:
        """Writes the meta row of this commit; the last thing before COMMIT. Raises Moved when the fence was raised."""
        row = {
            "b_fence": self.site.fence,
            "b_was": self.site.commit_no,
            "commit_no": self.site.commit_no + 1,
            "site_seq": self.site.site_seq,
            "site_head": self.site.site_head,
            "checkpointed": self.site.checkpointed,
            "restored_at": self.site.restored_at,
        }
        if self.connection.execute(_META, row).rowcount != 1:
            raise Moved
        return replace(self.site, commit_no=self.site.commit_no + 1)


def set_aside(run: str, *, record: str, step: str, reason: str, at: int, content: str = "{}") -> Row:
    """A row of the quarantine list."""
    return {
        "record": record, "run_id": run, "step": step, "reason": reason, "content": content,
        "status": "set_aside", "at": at, "answered_by": "", "answered_at": None,
    }  # fmt: skip
