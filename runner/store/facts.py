"""What goes into the store and what comes out: the shapes, and the obligations of whoever implements `Store`.

One writer, group commit. Every `await` below returns after COMMIT (synchronous FULL) or raises, and then nothing of
that one write has happened; other writes of the same group are not touched by it. Readers use connections of their own
and never block the writer. Times are ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal, Protocol

from runner.contract import Json, Outcome
from runner.core.events import Event, SiteEvent
from runner.errors import AmendsError, NotPossible, StoreError
from runner.quick import quick
from runner.store.company import Company
from runner.store.messages import Message
from runner.store.queue import Queue

Disposition = Literal["pending", "undone", "answered", "accepted", "by_hand", "stands"]
"""`pending` while the run goes on; at the end every applied effect has one of the other five."""

PLACE, RELEASE = "a place at ", "the release of "
"""How `waiting_for` begins where a run waits for its turn at a connection, or for what a person holds."""


class AlreadyReported(StoreError):
    """This report (or one with the same guard) is in the log already."""


class RecordIsHeld(NotPossible):
    """Another keeps the record from a run: `by_run`, a run's id or a person. `why`: record (held until somebody has
    answered) or lock (that run works on it, or comes first). `circle`: to wait would be for ever, because each of
    these runs waits for a record that the next one works on: (run, record, next run).
    """

    def __init__(
        self, record: str, by_run: str, why: str = "record", circle: tuple[tuple[str, str, str], ...] = ()
    ) -> None:
        does = "is locked by" if why == "lock" else "is held by"
        waits = ", which waits for a person" if why == "record" and ":" not in by_run else ""
        super().__init__(f"{record} {does} {by_run if ':' in by_run else f'run {by_run}'}{waits}")
        self.record = record
        self.by_run = by_run
        self.why = why
        self.circle = circle


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class RunColumns:
    """What the runs table says of a run beside its log: derived from the state, written with the events."""

    status: str
    phase: str
    wake_at: int | None = None
    waiting_for: str = ""
    at_step: str = ""
    needs: str = ""
    """Who must act, when a person must: `team:finance`."""
    ended_at: int | None = None
    summary: str = ""


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class EffectChange:
    """An applied forward call and what has become of its effect. Upsert on (run, start_no)."""

    start_no: int
    path: str
    part: int
    action: str
    disposition: Disposition
    external_id: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOffChange:
    """A hand-off opened, acknowledged or resolved. Upsert on (run, handoff)."""

    handoff: str
    step: str
    kind: str
    owner: str
    status: Literal["open", "acknowledged", "resolved"]
    opened_at: int
    summary: str = ""
    choices: tuple[str, ...] = ()
    resolved_by: str = ""
    choice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """An event that a step of a run waits for, and since when: its name, and the fields it must have."""

    path: str
    event: str
    match: Mapping[str, Json] = field(default_factory=dict)
    since: int = 0


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Append:
    """Decisions of the run's one decider (and outcomes it brings itself), in order.

    Refused with SequenceConflict unless the run stands at `seq` and `fence` is the engine's current fence; with
    RecordIsHeld if another keeps one of `records` from it, or where `waits` closes a circle; with HeldByPerson where
    one of `passes` (`connection:crm`) is. `events` may be empty (columns alone change). RecordHeld / RecordReleased
    among `events` write and delete rows of the holds table in the same transaction, RecordLocked those of the locks
    table, RecordQuarantined the quarantine list, RunMoved the run's bundle. `frees` are the locks of a run that ends.
    `waits` are the records that the run stands in line for by now, None as before; its place there is when it began
    (`since`). `previous_hash` is the chain's end the caller knows.
    """

    run: str
    seq: int
    fence: int
    events: tuple[Event, ...]
    columns: RunColumns
    previous_hash: str
    effects: tuple[EffectChange, ...] = ()
    handoffs: tuple[HandOffChange, ...] = ()
    records: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    frees: tuple[str, ...] = ()
    waits: tuple[str, ...] | None = None
    since: int = 0
    awaited: tuple[Awaited, ...] | None = None
    """All that the run waits for from now on; None = as before."""
    rest: Disposition | None = None
    """What every effect of the run that is still pending becomes."""
    follow: NewRun | None = None
    """A run that is started in the same transaction, or joined."""
    messages: tuple[Message, ...] = ()
    """What people are told of it once it is committed."""
    rests: bool = False
    """The run is left to whoever wakes it: no call is out, and there is nothing more to do now."""


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class LogEnd:
    """Where a run's log ends: last seq and the chain's hash there (hex; the run id's own hash before the first)."""

    seq: int
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRun:
    """Everything one start writes in one transaction: receipt, run, RunStarted, queue row (status `queued`).

    Unique on (flow, mode, run_key, rerun). `receipt` is (source, id); `inputs_digest` decides whether a joiner brings
    the same inputs. `event` is the RunStarted.
    """

    run: str
    flow: str
    mode: str
    run_key: str
    rerun: int
    bundle: str
    title: str
    owner: str
    record: str
    inputs_digest: str
    event: Event
    receipt: tuple[str, str] | None = None
    starter: str = ""
    continues: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The run that now stands for the business event. `joined`: it was there before, its status is told.

    `end` is where a new run's log stands; None for one that was joined.
    """

    run: str
    joined: bool
    status: str
    rerun: int
    end: LogEnd | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRow:
    """One row of a run's log as read back. `event` is what is left of it where the payload was `erased`, and None where
    it cannot be read.
    """

    run: str
    seq: int
    type: str
    at: int
    step: str
    external_id: str
    event: Event | None
    hash: str
    erased: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """One run as lists and shows see it."""

    run: str
    flow: str
    title: str
    mode: str
    run_key: str
    rerun: int
    bundle: str
    status: str
    phase: str
    seq: int
    owner: str
    record: str
    starter: str
    started_at: int
    updated_at: int
    ended_at: int | None
    wake_at: int | None
    waiting_for: str
    at_step: str
    needs: str
    summary: str
    continues: str
    stands: int
    """How many effects stand (disposition pending or stands)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFilter:
    """Which runs a list wants; empty means any. `before` is the run id to page on from (newest first).

    `changed_since`: something happened in it since then. `at_step`: it rests or waits at this step (its id, or a whole
    path), or asks a person about it, or about items that were set aside (its log says at which step). `open_only`: it
    has not ended.
    """

    flow: str = ""
    status: tuple[str, ...] = ()
    record: str = ""
    since: int | None = None
    changed_since: int | None = None
    at_step: str = ""
    open_only: bool = False
    before: str = ""
    limit: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionView:
    """One text of a flow that ran: when a run was first and last put on it, how many were ever and how many are now.

    `open_runs` are those on it that have not ended.
    """

    flow: str
    bundle: str
    first_at: int
    last_at: int
    runs: int
    open_runs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOffView(HandOffChange):
    """One hand-off as lists see it."""

    run: str
    flow: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectView(EffectChange):
    """One effect as lists see it."""

    run: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineView:
    """One record that was set aside. `status`: set_aside, released, discarded. `answered_by`: person or `run <id>`."""

    run: str
    record: str
    step: str
    reason: str
    content: Mapping[str, Json]
    status: str
    at: int
    answered_by: str
    answered_at: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainFault:
    """Where a chain does not hold. `seq` 0 = the run as a whole. `unknown_key`: the signer, where nobody named it."""

    run: str
    seq: int
    what: str
    unknown_key: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnOperation:
    """An action on our own tables, carried out in the transaction that records its outcome.

    `action` is `records.create` and so on; `key` makes the ids it assigns the same at every attempt.
    """

    run: str
    step: str
    action: str
    key: str
    input: Mapping[str, Json] = field(default_factory=dict)


class Logs(Protocol):
    """Where the logs of runs are read."""

    def log(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[LogRow]:
        """The log after a seq, in order, or the first `limit` rows of it. Raises NotFound."""


class Store(Logs, Queue, Company, Protocol):
    """The log and its tables. One implementation on SQLAlchemy Core for SQLite and PostgreSQL."""

    # -- writing (from the one event loop of the engine that holds the lock) --

    async def append(self, append: Append) -> LogEnd:
        """Decisions. Raises SequenceConflict, RecordIsHeld, StoreUnwritable."""

    async def report(self, run: str, event: Event, seq: int | None = None, messages: Sequence[Message] = ()) -> LogEnd:
        """A report: takes the next seq whatever it is. Raises AlreadyReported if its guard stands in the run's log
        already, NotFound if there is no such run. Never refused because the run has ended: the caller decides by the
        state whether to write the event itself or an EvidenceLate. With `seq` (a person's order, checked against the
        state there) it is refused with SequenceConflict where the run has moved on. `messages` are written with it."""

    async def carry_out(self, operation: OwnOperation, event: Callable[[Outcome], Event]) -> tuple[LogEnd, Event]:
        """Carries out an action on our own tables and reports the outcome in the same transaction, exactly once by the
        event's guard. Raises AlreadyReported; then nothing was done again."""

    async def start(self, new: NewRun) -> Started:
        """Starts a run or joins the one that has the key. Raises RunKeyConflict (and records it) for other inputs."""

    async def start_many(self, several: Sequence[NewRun]) -> Sequence[Started | AmendsError]:
        """The same for many in one commit: what became of each."""

    async def keep_bundle(self, digest: str, texts: Mapping[str, str]) -> None:
        """Stores a bundle's texts once."""

    async def site(self, event: SiteEvent) -> None:
        """A fact of no run. ConnectionHeld/Released and FlowHeld/Released also write the site's hold table."""

    async def write_columns(self, run: str, seq: int, columns: RunColumns) -> None:
        """Columns alone, if the run still stands at `seq`; else nothing."""

    async def keep_event(self, event_id: str, event: str, data: Mapping[str, Json], source: str) -> bool:
        """Keeps an event from outside for 24 hours. False where this id had come before."""

    async def feed(self, *, event_id: str = "", waiter: str = "") -> Sequence[str]:
        """Feeds one kept event to the run that waits for it, or one run with what is kept; the runs that were fed.
        An event feeds one waiter: EventReceived is reported in the same transaction."""

    # -- reading (from any thread, any process) --

    def log_end(self, run: str) -> LogEnd:
        """Where it ends. Raises NotFound."""

    def run(self, run: str) -> RunView:
        """One run by id or by an unambiguous beginning of it. Raises NotFound."""

    def run_of_key(self, flow: str, mode: str, run_key: str) -> tuple[RunView, str] | None:
        """The newest run of a business event, and the digest of its inputs; None where there is none."""

    def runs(self, wanted: RunFilter) -> Sequence[RunView]:
        """Runs, newest first."""

    def counts(self) -> Mapping[str, int]:
        """Runs by status."""

    def open_runs(self) -> Sequence[str]:
        """Ids of runs that have not ended, oldest first."""

    def in_line(self, begun: bool = False) -> Sequence[str]:
        """Runs that wait for a place at a connection, or for a release; with `begun` those that are not queued."""

    def due(self, now: int, limit: int | None = None) -> Sequence[str]:
        """Open runs whose wake_at has come."""

    def next_due(self) -> int | None:
        """The earliest wake_at of an open run."""

    def next_in_line(self, record: str) -> str:
        """The run that waits for this record and may have it now: the first that began of those in line; or empty."""

    def keeper(self, record: str, run: str) -> RecordIsHeld | None:
        """Who keeps the record from this run (empty: from any), and why."""

    def site_holds(self) -> Mapping[str, str]:
        """`connection:crm` / `flow:signup` / `record:invoice/7` -> the person who holds it."""

    def bundle(self, digest: str) -> Mapping[str, str]:
        """The texts of a bundle. Raises NotFound."""

    def versions(self, flow: str = "") -> Sequence[VersionView]:
        """Every version that ran, of one flow or of all, the one that was used last first."""

    def open_events(self) -> Sequence[str]:
        """Ids of kept events that have fed nobody, oldest first."""

    def newest_effects(
        self, runs: Sequence[str], scope: str, before: int | None, limit: int
    ) -> Sequence[tuple[int, str]]:
        """The effects of the first of these runs in a scope that are not made good, (start number, path), below
        `before`, newest first. Those after it clean up after it, and had let stand what they have not decided."""

    def facts_about(self, run: str, items: Sequence[str], *, whole: bool) -> Mapping[str, Sequence[tuple[int, Event]]]:
        """For each of these items of lists what the log has about it and in it, (seq, fact), in order: up to where it
        ended, or the whole."""

    def being_made_good(self, run: str) -> AbstractSet[str]:
        """The scopes of a run whose compensation has begun; "" is the run itself."""

    def effects(self, run: str) -> Sequence[EffectView]:
        """The run's effects by start number."""

    def handoffs(self, *, run: str = "", open_only: bool = True) -> Sequence[HandOffView]:
        """Hand-offs, oldest first."""

    def quarantined(self, *, open_only: bool = True) -> Sequence[QuarantineView]:
        """The quarantine list, oldest first."""

    def verify(self, run: str = "") -> Sequence[ChainFault]:
        """Checks the chain of one run, or of all and `_site`; empty when all hold."""

    def without_witness(self, now: int) -> Sequence[str]:
        """Open runs that nothing would ever wake; the figure must be 0."""
