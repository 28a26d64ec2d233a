"""Facts about a run, its steps, its timers and the events it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runner.contract import Json
from runner.core.events.kinds import Event


def again(generation: int) -> str:
    """What tells the guard of a resumed item's facts from that of the same facts before."""
    return f":{generation}" if generation else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStarted(Event):
    """`trigger` has id, at and by. `continues` names the stopped run that this one cleans up after, by `clean_up`:
    compensate or take_over.
    """

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
    clean_up: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHeld(Event):
    """A step (or the run) may not go on for now. `why`: record, lock, flow, connection, limit."""

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
    """From here on the run is decided by another version of its flow; `before` is the one that it leaves.

    `inputs` are those that the new version has and the run lacked, each with its default.
    """

    kind_of_fact: ClassVar[str] = "report"
    bundle: str
    by: str
    before: str = ""
    inputs: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalDataErased(Event):
    """The payloads of the entries `seqs` are gone. `left` is what remains of each, by its seq: all but its content.

    `ids` are the entries whose outside id was erased with them.
    """

    kind_of_fact: ClassVar[str] = "report"
    by: str
    seqs: tuple[int, ...] = ()
    reason: str = ""
    left: Mapping[str, Json] = field(default_factory=dict)
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinished(Event):
    """`stands` lists the paths of effects that stand at the end, in start order (a list's own path for its items').

    `then` is the flow that is started in the same transaction, with `then_inputs`.
    """

    status: str
    summary: str = ""
    outputs: Mapping[str, Json] = field(default_factory=dict)
    stands: tuple[str, ...] = ()
    then: str = ""
    then_inputs: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSkipped(Event):
    """`why`: when (its condition was no), branch (its branch was not taken) or person.

    With a person, `by`, `reason` and `reference` say who and why.
    """

    why: str
    by: str = ""
    reason: str = ""
    reference: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFailed(Event):
    """`kind`: refused, not_sent, not_applied, unknown, evaluation, request, late, no, deadlock, limit. `summary` is
    one sentence.

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
    """`kind`: parallel; each (`value` is the list, `catches` says that one item's failure does not end the others);
    item (`step` is its path, `name` how people see it); call (`name` is the flow, `value` its inputs); agent (`value`
    is its goal and context); and what it does, in numbered scopes: turn (of its model), tool (`name` is what the model
    called, `value` has the whole `input`, and in `wrong` why the tool is not called).
    """

    kind: str
    name: str = ""
    value: Json = None
    catches: bool = False
    generation: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeEnded(Event):
    """`kind` as ScopeStarted's but turn and tool, and choose. `outcome` is done; ended (by a no); compensated, or
    stopped: an item that had ended was made good later, wholly or in part. Then `effects` counts its effects by their
    disposition, and `newest` is the start number of the newest.
    """

    kind: str
    outcome: str
    output: Json = None
    effects: Mapping[str, int] = field(default_factory=dict)
    newest: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemSetAside(Event):
    """An item failed alone and was made good. It waits for a person: resumed, or left as it is."""

    reason: str
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemResumed(Event):
    """A person has the item done anew, with new keys."""

    kind_of_fact: ClassVar[str] = "report"
    by: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemAccepted(Event):
    """A person leaves the item set aside."""

    kind_of_fact: ClassVar[str] = "report"
    by: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftRecorded(Event):
    """A step of a draft run: what would have been sent, and the sample it was answered with. `why` it left no draft
    although it has a draft form."""

    action: str
    input: Mapping[str, Json] = field(default_factory=dict)
    output: Mapping[str, Json] = field(default_factory=dict)
    why: str = ""


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
    generation: int = 0

    @property
    def guard(self) -> str | None:
        return f"timer:{self.step}:{self.timer}:{self.purpose}:{self.part}:{self.due}{again(self.generation)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EventAwaited(Event):
    """`match` are fields of the event and their values. `due` is when it is late, in ms; 0 = never."""

    event: str
    match: Mapping[str, Json] = field(default_factory=dict)
    due: int = 0
    generation: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EventReceived(Event):
    kind_of_fact: ClassVar[str] = "report"
    event: str
    event_id: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)
    generation: int = 0

    @property
    def guard(self) -> str | None:
        return f"event:{self.step}:{self.event_id}{again(self.generation)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Emitted(Event):
    """The event is kept in the same transaction, and fed to whoever waits for it."""

    event: str
    data: Mapping[str, Json] = field(default_factory=dict)
    generation: int = 0

    @property
    def guard(self) -> str | None:
        return f"emitted:{self.step}{again(self.generation)}"

    def id_in(self, run: str) -> str:
        """The event's id, the same whenever it is asked for."""
        return f"{run}/{self.step}" + (f"/{self.generation}" if self.generation else "")


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
    generation: int = 0

    @property
    def guard(self) -> str | None:
        return f"closed:{self.step}{again(self.generation)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompensationBegun(Event):
    """No forward call of the scope is open; its effects are answered newest start first."""

    generation: int = 0

    @property
    def guard(self) -> str | None:
        return f"begun:{self.step}{again(self.generation)}"


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
