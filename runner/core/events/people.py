"""Facts about people: approvals, hand-offs, notices, held and quarantined records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runner.contract import Json
from runner.core.events.kinds import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRequested(Event):
    """People are asked. `approval` is the path of the approve step, or that of a step with `:undo` behind it for its
    compensation. `asked` are people (`person:aya`), `by` the names as the flow writes them.

    `shown` has `question`, `shows` (path -> value) and `steps`: for each path in `covers` its `action`, `input`,
    `requests` (as they will be sent, without our key), `to` (where they go) and `hashes`; `item` is its item's digest.
    `hash` is that of all of them and of when it was asked. Times are ms since the epoch; `remind` and `half` are 0
    where nothing happens then.
    """

    approval: str
    round: int = 1
    covers: tuple[str, ...] = ()
    hash: str = ""
    due: int = 0
    asked: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    needs: int = 1
    remind: int = 0
    half: int = 0
    good_for: int = 0
    shown: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalDecided(Event):
    """One person's `answer`, yes or no, to what had this `hash`. `edited` maps the path of a covered step to what it
    sends now: `input` and `hashes`; `left_out` are covered steps of items that are not to be done.
    """

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
        return f"decision:{self.approval}:{self.round}:{self.by}:{self.hash}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalLapsed(Event):
    """A yes is no longer good: it was not used in time, or something changed. It is asked again."""

    approval: str
    round: int
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HandedOff(Event):
    """A person must look. `handoff` is unique in the run; `choices` are the words HandOffResolved may carry.

    `kind`: step (the flow says so), failure, unknown, several, compensation, compensation_failed,
    compensation_unknown, request (evaluation failed while compensating), erased (the run's personal data is gone).
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
    """Somebody looks at a hand-off, or (it is empty) has seen how the run has ended."""

    kind_of_fact: ClassVar[str] = "report"
    handoff: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Escalated(Event):
    """Silence is passed on: about an approval by a decision, about a hand-off or a run's end (empty) by a report of
    whoever tells people.
    """

    about: str
    to: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOffResolved(Event):
    """A person's answer.

    `choice`: go_on, compensate, close, retry, skip, happened, did_not, done, stands, take_over.
    """

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
    """A person was told `about` an approval (its `round`), a hand-off or the run (empty). `by` is mail or chat; `kind`:
    asked, joined, reminder, handed_off, escalated, told, unreached."""

    kind_of_fact: ClassVar[str] = "report"
    about: str
    to: str
    by: str = ""
    round: int = 0
    kind: str = ""

    @property
    def guard(self) -> str | None:
        return f"notice:{self.about}:{self.round}:{self.kind}:{self.to}:{self.by}" if self.kind else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordHeld(Event):
    record: str
    handoff: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordReleased(Event):
    record: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordLocked(Event):
    """The record is this run's until it ends, in every phase."""

    record: str

    @property
    def guard(self) -> str | None:
        return f"locked:{self.record}"


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
