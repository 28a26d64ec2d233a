"""The kinds of facts: what every event has, and what the events about calls and about the installation share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

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


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteEvent(Event):
    """A fact of the installation. `name` is the flow, connection, schedule or source it is about."""

    kind_of_fact: ClassVar[str] = "report"
    name: str = ""
    by: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)
