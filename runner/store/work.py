"""The kinds of writing: each plans itself into a batch, or raises the one sentence why it cannot be.

`plan` first looks and then changes the batch, so that a work that is refused leaves nothing behind in it. What `plan`
returns is the caller's answer; an exception that it returns (instead of raising) is raised to the caller after the
batch is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from sqlalchemy import Connection, bindparam, delete, select

from runner.contract import Outcome
from runner.core.events import (
    ConnectionHeld,
    ConnectionReleased,
    DeliveryConflict,
    Event,
    FlowHeld,
    FlowReleased,
    PersonalDataErased,
    RecordHeld,
    RecordReleased,
    RunHeld,
    SiteEvent,
)
from runner.errors import AmendsError, RunKeyConflict, SequenceConflict, StoreError
from runner.store.batch import Batch, Head
from runner.store.facts import (
    AlreadyReported,
    Append,
    LogEnd,
    NewRun,
    OwnOperation,
    RecordIsHeld,
    RunColumns,
    Started,
)
from runner.store.log import Entry, encode, first_hash
from runner.store.records import carry_out
from runner.store.tables import log, payloads, receipts, runs


class Work:
    """One write. `runs` and `records` are what the batch must have read before `plan`."""

    reads_first: ClassVar[bool] = False
    """Whether `plan` asks the tables, so that what the batch holds must be written before."""

    runs: tuple[str, ...] = ()
    records: tuple[str, ...] = ()

    def plan(self, batch: Batch) -> object:
        """Puts its rows into the batch and returns the answer."""
        raise NotImplementedError

    def guards(self) -> list[tuple[str, str]]:
        """The (run, guard) pairs it wants to write."""
        return []


def _guards(run: str, entries: tuple[Entry, ...]) -> list[tuple[str, str]]:
    return [(run, entry.guard) for entry in entries if entry.guard is not None]


class AppendWork(Work):
    """Decisions of the run's one decider."""

    def __init__(self, append: Append, entries: tuple[Entry, ...]) -> None:
        self.append = append
        self.entries = entries
        self.runs = (append.run,)
        held = tuple(e.record for e in append.events if isinstance(e, RecordHeld | RecordReleased))
        self.records = held + ((append.free_record,) if append.free_record else ())

    def plan(self, batch: Batch) -> LogEnd:
        append = self.append
        if append.fence != batch.site.fence:
            raise SequenceConflict(
                f"run {append.run}: this engine's turn is over (fence {append.fence}, now {batch.site.fence})"
            )
        head = batch.head(append.run)
        if head.seq != append.seq or (append.events and append.previous_hash != head.hash):
            raise SequenceConflict(
                f"run {append.run} stands at entry {head.seq}, not {append.seq} as it was decided on"
            )
        if append.free_record:
            _refuse_held(batch, append.free_record, append.run)
        end = batch.add(head, self.entries)
        _note_waiting(head, append.events)
        batch.set_columns(head, append.columns)
        batch.set_effects(append.run, append.effects)
        batch.set_handoffs(append.run, append.handoffs)
        for event in append.events:
            batch.set_lists(append.run, event)
        return end

    def guards(self) -> list[tuple[str, str]]:
        return _guards(self.append.run, self.entries)


def _refuse_held(batch: Batch, record: str, run: str) -> None:
    for holder in batch.holders.get(record, []):
        if holder != run:
            raise RecordIsHeld(record, holder)


def _note_waiting(head: Head, events: tuple[Event, ...]) -> None:
    for event in events:
        if isinstance(event, RunHeld) and event.why == "record":
            head.held_on = event.name or head.record


class ReportWork(Work):
    """A report: takes the next seq, whatever it is."""

    def __init__(self, run: str, event: Event, entry: Entry) -> None:
        self.run = run
        self.event = event
        self.entry = entry
        self.runs = (run,)

    def plan(self, batch: Batch) -> LogEnd:
        head = batch.head(self.run)
        end = batch.add(head, (self.entry,))
        batch.set_lists(self.run, self.event)
        return end

    def guards(self) -> list[tuple[str, str]]:
        return _guards(self.run, (self.entry,))


class EraseWork(ReportWork):
    """A report that payloads were erased, with the erasing."""

    reads_first = True

    def __init__(self, run: str, event: PersonalDataErased, entry: Entry) -> None:
        super().__init__(run, event, entry)
        self.seqs = event.seqs

    def plan(self, batch: Batch) -> LogEnd:
        head = batch.head(self.run)
        batch.connection.execute(delete(payloads).where(payloads.c.run_id == self.run, payloads.c.seq.in_(self.seqs)))
        return batch.add(head, (self.entry,))


class OwnWork(Work):
    """An action on our own tables together with its outcome. `settle` makes the outcome's event."""

    reads_first = True

    def __init__(
        self,
        operation: OwnOperation,
        settle: Callable[[Outcome], Event],
        store: Callable[[Event], tuple[Event, Entry]],
    ) -> None:
        self.operation = operation
        self.settle = settle
        self.store = store
        self.runs = (operation.run,)

    def plan(self, batch: Batch) -> tuple[LogEnd, Event]:
        run = self.operation.run
        head = batch.head(run)
        with batch.connection.begin_nested():
            event, entry = self.store(self.settle(carry_out(batch, self.operation)))
            if entry.guard is not None:
                refuse_reported(batch.connection, [(run, entry.guard)])
            end = batch.add(head, (entry,))
            # Written inside the savepoint: what cannot be written takes the action with it.
            batch.write()
        return end, event


def refuse_reported(connection: Connection, guards: list[tuple[str, str]]) -> None:
    """Raises AlreadyReported when one of these stands in the log."""
    for run, guard in guards:
        there = select(log.c.seq).where(log.c.run_id == run, log.c.guard == guard)
        seq = connection.execute(there).scalar()
        if seq is not None:
            raise AlreadyReported(f"run {run} has this already, as entry {seq} of its log ({guard})")


class ColumnsWork(Work):
    """Columns alone, if the run still stands at `seq`."""

    def __init__(self, run: str, seq: int, columns: RunColumns) -> None:
        self.run = run
        self.seq = seq
        self.columns = columns
        self.runs = (run,)

    def plan(self, batch: Batch) -> None:
        head = batch.heads.get(self.run)
        if head is not None and head.seq == self.seq:
            batch.set_columns(head, self.columns)


class SiteWork(Work):
    """A fact of no run."""

    def __init__(self, event: SiteEvent, entry: Entry) -> None:
        self.event = event
        self.entry = entry

    def plan(self, batch: Batch) -> None:
        event = self.event
        batch.add_site(self.entry)
        kind = "connection" if isinstance(event, ConnectionHeld | ConnectionReleased) else "flow"
        if isinstance(event, ConnectionHeld | FlowHeld):
            batch.hold_site(f"{kind}:{event.name}", event.by, event.at)
        elif isinstance(event, ConnectionReleased | FlowReleased):
            batch.free_site(f"{kind}:{event.name}")


class ContinueWork(Work):
    """A person's word that a restored database may be worked with."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def plan(self, batch: Batch) -> None:
        batch.add_site(self.entry)
        batch.forget_restored()


class BundleWork(Work):
    """A bundle's texts, each stored once."""

    def __init__(self, digest: str, named: Mapping[str, str], digests: Mapping[str, str]) -> None:
        self.digest = digest
        self.named = named
        self.digests = digests

    def plan(self, batch: Batch) -> None:
        for name in sorted(self.named):
            text_digest = self.digests[name]
            batch.others.append((batch.statements.texts, {"digest": text_digest, "content": self.named[name]}))
        for name in sorted(self.named):
            row = {"digest": self.digest, "name": name, "text_digest": self.digests[name]}
            batch.others.append((batch.statements.bundles, row))


_RECEIPT = (
    select(receipts.c.digest, runs.c.run_id, runs.c.status, runs.c.rerun)
    .join(runs, runs.c.run_id == receipts.c.run_id)
    .where(receipts.c.source == bindparam("source"), receipts.c.delivery_id == bindparam("delivery"))
)
_SAME_KEY = (
    select(runs.c.run_id, runs.c.status, runs.c.rerun, runs.c.inputs_digest)
    .where(runs.c.flow == bindparam("flow"), runs.c.mode == bindparam("mode"), runs.c.run_key == bindparam("key"))
    .order_by(runs.c.rerun)
)


class StartWork(Work):
    """Receipt, run and RunStarted; or joining the run that stands for the same business event."""

    def __init__(self, new: NewRun, entry: Entry) -> None:
        self.new = new
        self.entry = entry

    def plan(self, batch: Batch) -> object:
        new = self.new
        key = ("key", new.flow, new.mode, new.run_key)
        receipt = ("receipt", *new.receipt) if new.receipt else None
        if key in batch.starting or receipt in batch.starting:
            batch.write()
        answer = self._by_receipt(batch.connection)
        if isinstance(answer, Started):
            return answer
        answer = answer or self._by_key(batch.connection)
        if isinstance(answer, RunKeyConflict):
            self._tell_conflict(batch, str(answer))
            return answer
        batch.starting.add(key)
        if receipt is not None:
            batch.starting.add(receipt)
        if answer is not None:
            self._keep_receipt(batch, answer.run)
            return answer
        end = self._begin(batch)
        return Started(run=new.run, joined=False, status="queued", rerun=new.rerun, end=end)

    def _by_receipt(self, connection: Connection) -> Started | RunKeyConflict | None:
        """The same delivery again: always the run that it led to."""
        if self.new.receipt is None:
            return None
        source, delivery = self.new.receipt
        row = connection.execute(_RECEIPT, {"source": source, "delivery": delivery}).first()
        if row is None:
            return None
        if row.digest != self.new.inputs_digest:
            return RunKeyConflict(
                f"delivery {delivery} from {source} came before with other content and led to run {row.run_id}; a new "
                "event needs an id of its own"
            )
        return Started(run=row.run_id, joined=True, status=row.status, rerun=row.rerun)

    def _by_key(self, connection: Connection) -> Started | RunKeyConflict | None:
        """The same business event: the newest run for it."""
        new = self.new
        rows = connection.execute(_SAME_KEY, {"flow": new.flow, "mode": new.mode, "key": new.run_key}).all()
        if not rows or rows[-1].rerun < new.rerun:
            return None
        newest = rows[-1]
        if new.inputs_digest not in [row.inputs_digest for row in rows]:
            return RunKeyConflict(
                f'the run key "{new.run_key}" of {new.flow} belongs to run {newest.run_id}, which was started with '
                "other inputs; give this start a key of its own"
            )
        return Started(run=newest.run_id, joined=True, status=newest.status, rerun=newest.rerun)

    def _tell_conflict(self, batch: Batch, what: str) -> None:
        new = self.new
        event = DeliveryConflict(
            at=batch.now,
            name=new.flow,
            by=new.starter,
            data={
                "run_key": new.run_key,
                "mode": new.mode,
                "receipt": list(new.receipt or ()),
                "inputs_digest": new.inputs_digest,
                "what": what,
            },
        )
        batch.add_site(encode(event))

    def _keep_receipt(self, batch: Batch, run: str) -> None:
        if self.new.receipt is None:
            return
        batch.receipt_rows.append((*self.new.receipt, self.new.inputs_digest, run, batch.now))

    def _begin(self, batch: Batch) -> LogEnd:
        new = self.new
        head = Head(
            run=new.run, was=0, seq=0, hash=first_hash(new.run), record=new.record, indexed=("queued", None, None, "")
        )
        end = batch.add(head, (self.entry,))
        head.was, head.dirty = head.seq, False
        batch.heads[new.run] = head
        self._keep_receipt(batch, new.run)
        row = {
            "run_id": new.run, "flow": new.flow, "mode": new.mode, "run_key": new.run_key, "rerun": new.rerun,
            "bundle": new.bundle, "title": new.title, "owner": new.owner, "record": new.record,
            "starter": new.starter, "continues": new.continues, "inputs_digest": new.inputs_digest,
            "seq": end.seq, "head": end.hash, "status": "queued", "phase": "forward",
            "started_at": new.event.at, "updated_at": batch.now, "ended_at": None, "wake_at": None,
            "waiting_for": "", "at_step": "", "needs": "", "summary": "", "held_on": "",
            "decided": end.seq, "commit_no": batch.site.commit_no + 1,
        }  # fmt: skip
        batch.run_rows.append(tuple(row[column.name] for column in runs.c))
        return end


def explain(work: Work, connection: Connection) -> AmendsError:
    """Why the database refused this work's rows."""
    try:
        refuse_reported(connection, work.guards())
    except AlreadyReported as found:
        return found
    if isinstance(work, StartWork):
        return StoreError(f"the run id {work.new.run} is taken; a new run needs a new id")
    return StoreError("the database refused a row that contradicts what it holds; nothing of this write was kept")
