"""The kinds of writing: each plans itself into a batch, or raises the one sentence why it cannot be.

`plan` first looks and then changes the batch, so that a work that is refused leaves nothing behind in it. What `plan`
returns is the caller's answer; an exception that it returns (instead of raising) is raised to the caller after the
batch is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Connection

from runner.contract import Outcome
from runner.core.events import (
    ConnectionHeld,
    ConnectionReleased,
    DeliveryConflict,
    Event,
    FlowHeld,
    FlowReleased,
    HoldLifted,
    HoldPlaced,
    RecordLocked,
    SiteEvent,
)
from runner.errors import AmendsError, RunKeyConflict, SequenceConflict, StoreError
from runner.store.batch import Batch, Head, records_of
from runner.store.company import HOLDS, HeldByPerson, RunTaken
from runner.store.database import Database, Tidied
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
from runner.store.messages import Message
from runner.store.record_locks import find_circle, read_uses
from runner.store.records import carry_out

T = TypeVar("T")
ERASED = ""
"""The digest of inputs that were erased: whatever comes under their key joins."""


class Work(Generic[T]):
    """One write. `T` is its answer."""

    stands_apart: bool = False
    """Whether it is done outside any transaction, by `tend`, once what came before it is written."""

    holds: Literal["", "asks", "sets"] = ""
    """Whether it asks what a person holds at the site, or changes that."""

    reads_first: bool = False
    """Whether `plan` asks the tables, so that what the batch holds must be written before."""

    run: str = ""
    """The run it writes to: the batch must know where that stands before `plan`."""

    entries: tuple[Entry, ...] = ()

    def records(self) -> tuple[str, ...]:
        """The records whose holders the batch must know."""
        return ()

    def plan(self, batch: Batch) -> T | AmendsError:
        """Puts its rows into the batch and returns the answer."""
        raise NotImplementedError

    def tend(self, file: Database, cursor: Any) -> T:
        """Does what is done outside any transaction, in a short time: nothing is written meanwhile."""
        raise NotImplementedError


class AppendWork(Work[LogEnd]):
    """Decisions of the run's one decider."""

    def __init__(self, append: Append, entries: tuple[Entry, ...], follow: StartWork | None = None) -> None:
        self.run = append.run
        self.append = append
        self.entries = entries
        self.reads_first = bool(append.waits)
        self.holds = "asks" if append.passes else ""
        self.follow = follow

    def records(self) -> tuple[str, ...]:
        append = self.append
        return (*records_of(append.events), *append.records, *append.frees, *(append.waits or ()))

    def plan(self, batch: Batch) -> LogEnd:
        append, run = self.append, self.run
        if append.fence != batch.site.fence:
            over = f"run {run}: this engine's turn is over (fence {append.fence}, now {batch.site.fence})"
            raise SequenceConflict(over) if batch.shared is None else RunTaken(over)
        head = batch.head_at(run, append.seq)
        if batch.shared is not None and head.fence not in (0, append.fence):
            raise RunTaken(f"run {run} is driven by another engine by now (fence {head.fence}, not {append.fence})")
        if head.seq != append.seq or (append.events and append.previous_hash != head.hash):
            raise SequenceConflict(f"run {run} stands at entry {head.seq}, not {append.seq} as it was decided on")
        self._refuse_held(batch)
        end = batch.add(head, self.entries)
        if batch.shared is not None:
            head.fence = 0 if append.rests else append.fence
        for event in append.events:
            batch.set_lists(head, event)
        if append.waits is not None:
            batch.set_waits(run, append.waits, append.since)
        if append.frees:
            batch.free_locks(run, append.frees)
        self._write_beside(batch, head)
        return end

    def _refuse_held(self, batch: Batch) -> None:
        append, run = self.append, self.run
        for record in append.records:
            if (kept := batch.use(record).keeper(run, append.since)) is not None:
                raise kept
        for name in append.passes:
            if by := batch.held.get(name):
                raise HeldByPerson(name, by)
        if append.waits:
            batch.alone("waits")
            circle = find_circle(batch.connection, run, append.waits, locked_by(append))
            if circle:
                raise RecordIsHeld(circle[0][1], circle[0][2], "lock", circle)

    def _write_beside(self, batch: Batch, head: Head) -> None:
        """The tables beside the log."""
        append, run = self.append, self.run
        batch.set_columns(head, append.columns)
        batch.set_effects(run, append.effects)
        batch.set_handoffs(run, append.handoffs)
        if append.awaited is not None:
            batch.set_awaited(run, append.awaited)
        batch.set_messages(run, append.messages)
        if append.rest is not None:
            batch.rest_effects(run, append.rest)
        if self.follow is not None:
            self.follow.plan(batch)


def locked_by(append: Append) -> tuple[str, ...]:
    """The records that a turn locks."""
    return tuple(event.record for event in append.events if isinstance(event, RecordLocked))


class ReportWork(Work[LogEnd]):
    """A report: takes the next seq, whatever it is; with `seq` only where the run still stands there."""

    def __init__(
        self, run: str, event: Event, entry: Entry, seq: int | None = None, messages: Sequence[Message] = ()
    ) -> None:
        self.run = run
        self.seq = seq
        self.messages = messages
        self.event = event
        self.entries = (entry,)

    def plan(self, batch: Batch) -> LogEnd:
        head = batch.head(self.run) if self.seq is None else batch.head_at(self.run, self.seq)
        if self.seq not in (None, head.seq):
            raise SequenceConflict(f"run {self.run} stands at entry {head.seq}, not {self.seq} as it was looked at")
        end = batch.add(head, self.entries)
        batch.take(head)
        batch.set_lists(head, self.event)
        batch.set_messages(self.run, self.messages)
        return end


class CheckpointWork(Work[None]):
    """A checkpoint now, of every chain that has changed since the last one."""

    def plan(self, batch: Batch) -> None:
        batch.asks_checkpoint = True


class TidyWork(Work[Tidied]):
    """Gives disk back: at most so many free pages, or all there are by building the file anew (`whole`)."""

    stands_apart = True

    def __init__(self, pages: int = 0, whole: bool = False) -> None:
        self._pages = pages
        self._whole = whole

    def tend(self, file: Database, cursor: Any) -> Tidied:
        if self._whole:
            file.build_anew(cursor)
        return file.give_back(cursor, self._pages)


@dataclass(frozen=True, kw_only=True)
class OwnWork(Work[tuple[LogEnd, Event]]):
    """An action on our own tables together with its outcome. `settle` makes the outcome's event, `store` its entry."""

    reads_first = True
    operation: OwnOperation
    settle: Callable[[Outcome], Event]
    store: Callable[[Event], tuple[Event, Entry]]
    run: str

    def plan(self, batch: Batch) -> tuple[LogEnd, Event]:
        head = batch.head(self.run)
        batch.alone(f"own:{self.operation.input.get('collection') or self.operation.input.get('record')}")
        with batch.connection.begin_nested():
            event, entry = self.store(self.settle(carry_out(batch, self.operation)))
            refuse_reported(batch, self.run, (entry,))
            end = batch.add(head, (entry,))
            # Written inside the savepoint: what cannot be written takes the action with it.
            batch.write()
        return end, event


def refuse_reported(batch: Batch, run: str, entries: tuple[Entry, ...]) -> None:
    """Raises AlreadyReported when the guard of one of these stands in the log."""
    for guard in (entry.guard for entry in entries if entry.guard is not None):
        for (seq,) in batch.ask(batch.words.by_guard, run, guard):
            raise AlreadyReported(f"run {run} has this already, as entry {seq} of its log ({guard})")


@dataclass(frozen=True, kw_only=True)
class ColumnsWork(Work[None]):
    """Columns alone, if the run still stands at `seq`."""

    seq: int
    columns: RunColumns
    run: str

    def plan(self, batch: Batch) -> None:
        head = batch.heads.get(self.run)
        if head is not None and head.seq == self.seq:
            batch.set_columns(head, self.columns)


@dataclass(frozen=True, kw_only=True)
class SiteWork(Work[None]):
    """A fact of no run. `go_on`: it is a person's word that a restored database may be worked with."""

    event: SiteEvent
    entry: Entry
    go_on: bool = False

    @property
    def holds(self) -> Literal["", "sets"]:  # type: ignore[override]
        """Records are asked for by their names."""
        return "sets" if isinstance(self.event, _AT_SITE) else ""

    def records(self) -> tuple[str, ...]:
        return (self.event.name,) if isinstance(self.event, HoldPlaced | HoldLifted) else ()

    def plan(self, batch: Batch) -> None:
        event, words = self.event, batch.words
        batch.add_site(self.entry)
        name = f"{'connection' if isinstance(event, ConnectionHeld | ConnectionReleased) else 'flow'}:{event.name}"
        if self.holds:
            batch.told.add((0, HOLDS))
        if isinstance(event, ConnectionHeld | FlowHeld):
            batch.others.append((words.site_holds, (name, event.by, event.at)))
            batch.held[name] = event.by
        elif isinstance(event, ConnectionReleased | FlowReleased):
            batch.others.append((words.free_site, (name,)))
            batch.held.pop(name, None)
        elif isinstance(event, HoldPlaced):
            batch.others.append((words.holds, (event.name, event.by, "", event.at)))
            batch.use(event.name).holds.append(event.by)
        elif isinstance(event, HoldLifted):
            use = batch.use(event.name)
            for holder in [holder for holder in use.holds if ":" in holder]:
                batch.others.append((words.free, (event.name, holder)))
                use.holds.remove(holder)
        if self.go_on:
            batch.site = replace(batch.site, restored_at=None)


_AT_SITE = (ConnectionHeld, ConnectionReleased, FlowHeld, FlowReleased)


@dataclass(frozen=True, kw_only=True)
class BesideWork(Work[T]):
    """A write to a table that no log speaks of."""

    reads_first = True
    do: Callable[[Connection], T]

    def plan(self, batch: Batch) -> T:
        batch.alone("beside")
        batch.written = True
        return self.do(batch.connection)


@dataclass(frozen=True, kw_only=True)
class BundleWork(Work[None]):
    """A bundle's texts, each stored once."""

    digest: str
    named: Mapping[str, str]

    def plan(self, batch: Batch) -> None:
        batch.alone("beside")  # not while unused ones are dropped
        for name, text in sorted(self.named.items()):
            digest = sha256(text.encode()).hexdigest()
            batch.others.append((batch.words.texts, (digest, text)))
            batch.others.append((batch.words.bundles, (self.digest, name, digest)))


class StartWork(Work[Started]):
    """Receipt, run and RunStarted; or joining the run that stands for the same business event."""

    def __init__(self, new: NewRun, entry: Entry) -> None:
        self.new = new
        self.entries = (entry,)

    @property
    def keys(self) -> set[tuple[str, ...]]:
        """What names it: no other run may have it."""
        own: set[tuple[str, ...]] = {("key", self.new.flow, self.new.mode, self.new.run_key)}
        return {*own, ("receipt", *self.new.receipt)} if self.new.receipt else own

    def plan(self, batch: Batch, is_fresh: bool = False) -> Started | RunKeyConflict:
        """`is_fresh`: the tables have nothing of this name."""
        new, key = self.new, self.keys
        if not key.isdisjoint(batch.starting):
            batch.write()
            is_fresh = False
        answer = None if is_fresh else self._by_receipt(batch)
        if isinstance(answer, Started):
            return answer
        answer = answer or (None if is_fresh else self._by_key(batch))
        if isinstance(answer, RunKeyConflict):
            self._tell_conflict(batch, self.without_key(answer))
            return answer
        batch.starting |= key
        if answer is None:
            end = self._begin(batch)
            answer = Started(run=new.run, joined=False, status="queued", rerun=new.rerun, end=end)
        if new.receipt is not None:
            batch.receipt_rows.append((*new.receipt, new.inputs_digest, answer.run, batch.now))
        return answer

    def _by_receipt(self, batch: Batch) -> Started | RunKeyConflict | None:
        """The same delivery again: always the run that it led to."""
        if self.new.receipt is None:
            return None
        for digest, run, status, rerun in batch.ask(batch.words.by_receipt, *self.new.receipt):
            if status is None:
                return _is_removed(f"delivery {self.new.receipt[1]} from {self.new.receipt[0]}", run)
            if digest in (self.new.inputs_digest, ERASED):
                return Started(run=run, joined=True, status=status, rerun=rerun)
            source, delivery = self.new.receipt
            return RunKeyConflict(
                f"delivery {delivery} from {source} came before with other content and led to run {run}; a new event "
                "needs an id of its own"
            )
        return None

    def _by_key(self, batch: Batch) -> Started | RunKeyConflict | None:
        """The same business event: the newest run for it."""
        new = self.new
        rows = batch.ask(batch.words.by_key, new.flow, new.mode, new.run_key)
        if not rows:
            removed = batch.ask(batch.words.by_receipt, key_source(new.flow, new.mode), new.run_key)
            return _is_removed(f'the run key "{new.run_key}" of {new.flow}', removed[0][1]) if removed else None
        if rows[-1][3] < new.rerun:
            return None
        _, run, status, rerun = rows[-1]
        if {new.inputs_digest, ERASED}.isdisjoint(row[0] for row in rows):
            return RunKeyConflict(
                f'the run key "{new.run_key}" of {new.flow} belongs to run {run}, which was started with other inputs; '
                "give this start a key of its own"
            )
        return Started(run=run, joined=True, status=status, rerun=rerun)

    def without_key(self, conflict: RunKeyConflict) -> str:
        """What is kept of it: a key may be made of personal data."""
        return str(conflict).replace(f'the run key "{self.new.run_key}" of', "the run key of", 1)

    def _tell_conflict(self, batch: Batch, what: str) -> None:
        new = self.new
        told = {
            "mode": new.mode, "receipt": list(new.receipt or ()), "inputs_digest": new.inputs_digest, "what": what,
        }  # fmt: skip
        batch.add_site(encode(DeliveryConflict(at=batch.now, name=new.flow, by=new.starter, data=told)))

    def _begin(self, batch: Batch) -> LogEnd:
        new = self.new
        head = Head(run=new.run, was=0, hash=first_hash(new.run), record=new.record, indexed=("queued", None, None))
        end = batch.add(head, self.entries)
        head.was, head.dirty = head.seq, False
        if batch.shared is not None:
            head.held_by = head.fence = batch.shared.mine
            if not head.fence:
                batch.told.add((0, new.run))
        batch.heads[new.run] = head
        # The columns of the runs table, in their order.
        batch.run_rows.append(
            (
                new.run, new.flow, new.mode, new.run_key, new.rerun, new.bundle, new.title, new.owner, new.record,
                new.starter, new.continues, new.inputs_digest, end.seq, end.hash, "queued", "forward", new.event.at,
                batch.now, None, None, "", "", "", "", end.seq, batch.site.commit_no + 1, head.fence,
            )
        )  # fmt: skip
        return end


def key_source(flow: str, mode: str) -> str:
    """The source under which the run keys of removed runs are remembered among the receipts."""
    return f"key:{flow}:{mode}"


def _is_removed(what: str, run: str) -> RunKeyConflict:
    return RunKeyConflict(
        f"{what} came before and led to run {run}, which ended and was removed after its time; nothing was started "
        "again: a new event needs an id of its own"
    )


def explain(work: Work[Any], batch: Batch) -> AmendsError:
    """Why the database refused this work's rows."""
    try:
        refuse_reported(batch, work.run, work.entries)
    except AlreadyReported as found:
        return found
    if isinstance(work, AppendWork):
        for use in read_uses(batch.connection, locked_by(work.append)).values():
            if (kept := use.keeper(work.run, work.append.since)) is not None:
                return kept
    if isinstance(work, StartWork):
        return StoreError(f"the run id {work.new.run} is taken; a new run needs a new id")
    return StoreError("the database refused a row that contradicts what it holds; nothing of this write was kept")
