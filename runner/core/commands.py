"""What `decide` asks for, in the imperative: record a fact, make a call, read something back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.contract import Json, Purpose
from runner.core.events import ApprovalRequested, Event
from runner.quick import quick


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """Write this fact. Its consequences are decided after it has been folded."""

    event: Event


@quick
@dataclass(frozen=True, kw_only=True)
class Send:
    """Make this attempt of this call: prepare the request (or take the frozen one), commit the intent, send.

    `input` is what the connector prepares from; `whole_input` is the step's input before fan-out, given with the first
    part only. `frozen` and `frozen_hash` are the request of an earlier attempt, to be sent again byte for byte.
    `records`: records that no other run may hold or have locked, checked in the intent's transaction; `lock` those of
    them that become this run's own with it.
    """

    step: str
    purpose: Purpose
    part: int
    parts: int
    generation: int
    attempt: int
    action: str
    key: str
    limit: int
    fans_out: bool = False
    start_no: int = 0
    input: Mapping[str, Json] = field(default_factory=dict)
    whole_input: Mapping[str, Json] = field(default_factory=dict)
    frozen: Mapping[str, Json] | None = None
    frozen_hash: str = ""
    records: tuple[str, ...] = ()
    lock: tuple[str, ...] = ()
    word: str = ""
    gates: tuple[tuple[str, str], ...] = ()
    """The approvals that cover it, and what was approved: (approval, hash)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Read ended items of lists back from the log, to be made good: these, or else the newest of `scope` whose effects
    stand below the start number `before` (None: the newest of all).
    """

    scope: str = ""
    before: int | None = None
    items: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cover:
    """One step that an approval is to cover: what it will send."""

    action: str
    input: Mapping[str, Json]
    parts: tuple[Mapping[str, Json], ...]
    purpose: Purpose = "do"
    item: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """Ask people whether this may be sent. Who they are, and where it goes, is known outside.

    `request` is the fact as it will be recorded, without `asked`, `hash` and what `shown` says of each of `covers`.
    """

    request: ApprovalRequested
    covers: Mapping[str, Cover]
    escalate_to: str = ""


Command = Record | Send | Recall | Ask
