"""Facts about outside calls: the intent before, the outcome after, and how an unknown one was settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runner.contract import Json
from runner.core.events.kinds import CallEvent, Event, OutcomeEvent


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
    fans_out: bool = False
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
