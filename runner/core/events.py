"""The vocabulary of the action log: everything that can ever have happened, in the past tense.

A fact is an `Event` at a place in a run's log (its `seq`, counted from 1). Events are read for ever: a new field gets a
default, a meaning never changes, a rename is a new event. *Decisions* are recorded by the engine that holds the fence;
*reports* come from anywhere (outcomes, people, the outside) and are guarded by `guard`, a text unique within the run.

Every call event names its call by `step` (the path), `purpose`, `part` (fan-out), `generation` and `attempt`.
Times are ms since the epoch, durations ms. `external_id` is the id the outside service gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from runner.contract import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One fact. `step` is a path (`contact`, `invoices/3/send`) or empty for the run as a whole."""

    kind_of_fact: ClassVar[str] = "decision"

    at: int
    step: str = ""
    external_id: str = ""

    @property
    def guard(self) -> str | None:
        """A text that may stand once in a run's log, or None where repetition is harmless."""
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallEvent(Event):
    """A fact about one attempt of one call."""

    purpose: str
    part: int = 0
    generation: int = 0
    attempt: int = 1

    @property
    def call(self) -> tuple[str, str, int]:
        """(path, purpose, part): which call this is about."""
        return (self.step, self.purpose, self.part)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeEvent(CallEvent):
    """What became of an attempt. Written once: a later one is kept as EvidenceLate."""

    kind_of_fact: ClassVar[str] = "report"

    @property
    def guard(self) -> str | None:
        return f"outcome:{self.step}:{self.purpose}:{self.part}:{self.generation}:{self.attempt}"


# --- the run -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStarted(Event):
    """`trigger` has id, at and by. `continues` names the stopped run that this one cleans up after."""

    run: str
    flow: str
    mode: str
    bundle: str
    owner: str = ""
    record: str = ""
    run_key: str = ""
    rerun: int = 0
    starter: str = ""
    inputs: Mapping[str, Json] = field(default_factory=dict)
    trigger: Mapping[str, Json] = field(default_factory=dict)
    continues: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHeld(Event):
    """A run may not go on for now. `why`: record, flow, connection, limit."""

    why: str
    name: str = ""
    by_run: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPaused(Event):
    kind_of_fact: ClassVar[str] = "report"
    by: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResumed(Event):
    kind_of_fact: ClassVar[str] = "report"
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequested(Event):
    """Stop here, or stop and compensate."""

    kind_of_fact: ClassVar[str] = "report"
    by: str
    compensate: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunMoved(Event):
    bundle: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalDataErased(Event):
    kind_of_fact: ClassVar[str] = "report"
    by: str
    seqs: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinished(Event):
    """`stands` lists the paths of effects that stand at the end, in start order."""

    status: str
    summary: str = ""
    outputs: Mapping[str, Json] = field(default_factory=dict)
    stands: tuple[str, ...] = ()


# --- steps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSkipped(Event):
    """`why`: when (its condition was no) or person (then `by`, `reason` and `reference` say who and why)."""

    why: str
    by: str = ""
    reason: str = ""
    reference: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFailed(Event):
    """`kind`: refused, not_sent, not_applied, unknown, evaluation, request, late, no. `summary` is one sentence.

    `goes_on`: the flow said `if_refused: continue`, so this ends the step and not the run.
    """

    kind: str
    summary: str
    goes_on: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchChosen(Event):
    branch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeStarted(Event):
    kind: str
    name: str = ""
    value: Json = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeEnded(Event):
    kind: str
    outcome: str
    output: Json = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemSetAside(Event):
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftRecorded(Event):
    """A step of a draft run: what would have been sent, and the sample it was answered with."""

    action: str
    input: Mapping[str, Json] = field(default_factory=dict)
    output: Mapping[str, Json] = field(default_factory=dict)


# --- calls ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class CallIntended(CallEvent):
    """Durable before the first byte leaves.

    `request` is the prepared request; it stands in the first intent of a generation and is empty in later ones, whose
    `request_hash` is the same. `start_no` numbers the forward calls that may have an effect, from 1. `limit` is the
    longest the attempt may take. `input` is the step's whole input, in the first part's first intent: kept for retries,
    look-ups and the people who read the log. `word` is the compensation's word where this is an undo.
    """

    action: str
    key: str
    request_hash: str
    request: Mapping[str, Json] = field(default_factory=dict)
    input: Mapping[str, Json] = field(default_factory=dict)
    parts: int = 1
    start_no: int = 0
    limit: int = 30_000
    fence: int = 0
    word: str = ""

    @property
    def guard(self) -> str | None:
        return f"intent:{self.step}:{self.purpose}:{self.part}:{self.generation}:{self.attempt}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallApplied(OutcomeEvent):
    """The service did it (or, for reads and look-ups, answered). `count` is how many records a look-up found."""

    output: Mapping[str, Json] = field(default_factory=dict)
    count: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRefused(OutcomeEvent):
    """The service said no, and nothing happened. `retry_after` is ms from `at`."""

    reason: str
    summary: str = ""
    retry_after: int | None = None
    evidence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallNotSent(OutcomeEvent):
    """Provably no byte of the request left."""

    reason: str
    summary: str = ""
    retry_after: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallUnknown(OutcomeEvent):
    """A byte may have left and no complete valid answer came. `take_over`: the engine that sent it is gone."""

    reason: str
    summary: str = ""
    evidence: str = ""
    retry_after: int | None = None
    take_over: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSettled(CallEvent):
    """An unknown outcome became known. `result`: applied or not_applied. `by`: lookup, evidence, or a person.

    `adopted`: the record was found by the business's fields after our own attempt, so it is ours but uncertain.
    """

    result: str
    by: str
    adopted: bool = False
    output: Mapping[str, Json] = field(default_factory=dict)
    summary: str = ""

    @property
    def guard(self) -> str | None:
        return f"settled:{self.step}:{self.purpose}:{self.part}:{self.generation}:{self.attempt}:{self.by}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceLate(CallEvent):
    """An outcome that came when the matter was settled. Kept, never overwriting."""

    kind_of_fact: ClassVar[str] = "report"
    result: str
    summary: str = ""
    output: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordFound(Event):
    """`find` met a record before our first attempt: it is not ours, and nothing of it is ever compensated."""

    output: Mapping[str, Json] = field(default_factory=dict)


# --- timers and events ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerSet(Event):
    """`timer`: wait, retry, lookup … `due` is ms since the epoch. `purpose` and `part` name the call it is for."""

    timer: str
    due: int
    purpose: str = ""
    part: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerFired(Event):
    timer: str
    due: int
    purpose: str = ""
    part: int = 0

    @property
    def guard(self) -> str | None:
        return f"timer:{self.step}:{self.timer}:{self.purpose}:{self.part}:{self.due}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EventAwaited(Event):
    event: str
    match: Mapping[str, Json] = field(default_factory=dict)
    due: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EventReceived(Event):
    kind_of_fact: ClassVar[str] = "report"
    event: str
    event_id: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)

    @property
    def guard(self) -> str | None:
        return f"event:{self.step}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Emitted(Event):
    event: str
    data: Mapping[str, Json] = field(default_factory=dict)


# --- approvals -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequested(Event):
    approval: str
    round: int = 1
    covers: tuple[str, ...] = ()
    hash: str = ""
    due: int = 0
    asked: tuple[str, ...] = ()
    shown: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalDecided(Event):
    kind_of_fact: ClassVar[str] = "report"
    approval: str
    round: int
    answer: str
    by: str
    hash: str = ""
    proof: str = ""
    comment: str = ""
    edited: Mapping[str, Json] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def guard(self) -> str | None:
        return f"decision:{self.approval}:{self.round}:{self.by}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalLapsed(Event):
    approval: str
    round: int
    why: str


# --- failing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardClosed(Event):
    """No forward call in this scope (`step` is its path) from here on.

    `cause`: failure, stop, person. `kind summary by` describe it as `failure.*` shows it; `failed_step` is where.
    `compensate` says what follows: compensation, or the end.
    """

    cause: str
    compensate: bool
    kind: str = ""
    summary: str = ""
    by: str = ""
    failed_step: str = ""

    @property
    def guard(self) -> str | None:
        return f"closed:{self.step}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompensationBegun(Event):
    """No forward call of the scope is open; its effects are answered newest start first."""

    @property
    def guard(self) -> str | None:
        return f"begun:{self.step}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompensationSkipped(Event):
    """Nothing is to be done about this effect: a reasoned none, a stop, or a person's word (`by`)."""

    part: int = 0
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompensationFailed(Event):
    """A compensation gave up. It is visible until a person has resolved it."""

    part: int = 0
    kind: str = ""
    summary: str = ""


# --- people --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class HandedOff(Event):
    """A person must look. `handoff` is unique in the run; `choices` are the words HandOffResolved may carry.

    `kind`: step (the flow says so), failure, unknown, several, compensation, compensation_failed,
    compensation_unknown, request (evaluation failed while compensating).
    """

    handoff: str
    kind: str
    owner: str
    choices: tuple[str, ...]
    summary: str = ""
    say: str = ""
    purpose: str = ""
    part: int = 0
    show: Mapping[str, Json] = field(default_factory=dict)

    @property
    def guard(self) -> str | None:
        return f"handoff:{self.handoff}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOffAcknowledged(Event):
    kind_of_fact: ClassVar[str] = "report"
    handoff: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Escalated(Event):
    about: str
    to: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOffResolved(Event):
    """A person's answer. `choice`: go_on, compensate, close, retry, skip, happened, did_not, done, stands, take_over."""

    kind_of_fact: ClassVar[str] = "report"
    handoff: str
    choice: str
    by: str
    reason: str = ""
    reference: str = ""
    output: Mapping[str, Json] = field(default_factory=dict)

    @property
    def guard(self) -> str | None:
        return f"resolved:{self.handoff}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeSent(Event):
    kind_of_fact: ClassVar[str] = "report"
    about: str
    to: str
    by: str = ""


# --- records -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordHeld(Event):
    record: str
    handoff: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordReleased(Event):
    record: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordQuarantined(Event):
    record: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineReleased(Event):
    kind_of_fact: ClassVar[str] = "report"
    record: str
    by: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineDiscarded(Event):
    kind_of_fact: ClassVar[str] = "report"
    record: str
    by: str
    reason: str = ""


# --- facts of no run: the chain of run id `_site` -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteEvent(Event):
    """A fact of the installation. `name` is the flow, connection, schedule or source it is about."""

    kind_of_fact: ClassVar[str] = "report"
    name: str = ""
    by: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotMissed(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotSkipped(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryIgnored(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryConflict(SiteEvent):
    """The same run key or delivery id came with other content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventKept(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionHeld(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionReleased(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowHeld(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowReleased(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowActivated(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored(SiteEvent):
    """The database stands below its anchor: it was restored or copied."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint(SiteEvent):
    """Ties the chains of the runs together."""


_ABSTRACT = ("Event", "CallEvent", "OutcomeEvent", "SiteEvent")

VOCABULARY: dict[str, type[Event]] = {
    name: kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, Event) and name not in _ABSTRACT
}
"""Every event by the name it has in the log."""

_OUTSIDE_PAYLOAD = frozenset({"at", "step", "external_id"})
_DEFAULTS: dict[type[Event], tuple[tuple[str, Any], ...]] = {}


def _payload_fields(kind: type[Event]) -> tuple[tuple[str, Any], ...]:
    known = _DEFAULTS.get(kind)
    if known is None:
        known = tuple(
            (f.name, f.default_factory() if callable(f.default_factory) else f.default)
            for f in fields(kind)
            if f.name not in _OUTSIDE_PAYLOAD
        )
        _DEFAULTS[kind] = known
    return known


def payload(event: Event) -> dict[str, Json]:
    """The event's own fields as JSON; a field that has its default is left out."""
    found: dict[str, Json] = {}
    for name, default in _payload_fields(type(event)):
        value = getattr(event, name)
        if value != default:
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


def restore(type_name: str, *, at: int, step: str, external_id: str, data: Mapping[str, Json]) -> Event:
    """The event that was written. Unknown fields of a newer version are an error, not a guess."""
    kind = VOCABULARY[type_name]
    given = {
        name: tuple(value) if isinstance(value, list) and name in _TUPLES else value for name, value in data.items()
    }
    return kind(at=at, step=step, external_id=external_id, **given)


_TUPLES = frozenset(f.name for kind in VOCABULARY.values() for f in fields(kind) if str(f.type).startswith("tuple"))
