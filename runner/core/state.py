"""What the log of a run means: `fold` reads one event after another into a `State`.

The state is a tree of scopes: a step is known by its path (`contact`, `invoices/3/send`), a scope by the path it stands
under ("" is the run itself). A call is known by (path, purpose, part).

Items of a list that have ended are not in the state: of them there are counters, and what their effects need to be made
good is read back from the log (`Recall`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from runner.clock import iso
from runner.contract import Json
from runner.core.items import Items
from runner.quick import quick

T = TypeVar("T")
CallName = tuple[str, str, int]
StepStatus = Literal["open", "done", "found", "skipped", "refused", "failed"]
WITHDRAWN = "withdrawn"
Disposition = Literal["pending", "undone", "answered", "accepted", "by_hand", "stands"]
"""What became of an applied effect; `pending` while the run goes on."""


@quick
@dataclass(frozen=True, kw_only=True)
class Call:
    """One call: all attempts of one generation, and what is known of its effect.

    `tries` counts the attempts that `retry` bounds (a look-up starts anew each time it is needed), `attempt` numbers
    them in the log. `last` is the last attempt's outcome, empty while it is open. `settled` says what an unknown turned
    out to be. `take_over`: the sender of one of its attempts was lost. `due` is a running timer; `fired` the one that
    has just fired. `renew`: a person raised the generation. `doubt` is what was seen of the attempt that may have
    happened; `again_seq` and `again_at` say when a person last had the service asked once more.
    """

    action: str
    key: str
    word: str = ""
    start_no: int = 0
    parts: int = 1
    fans_out: bool = False
    generation: int = 0
    attempt: int = 0
    tries: int = 0
    is_open: bool = False
    fence: int = 0
    first_at: int = 0
    intended_at: int = 0
    intended_seq: int = 0
    limit: int = 0
    request: Mapping[str, Json] = field(default_factory=dict)
    request_hash: str = ""
    last: Literal["", "applied", "refused", "not_sent", "unknown"] = ""
    last_at: int = 0
    reason: str = ""
    summary: str = ""
    retry_after: int | None = None
    take_over: bool = False
    may_have_happened: bool = False
    doubt: str = ""
    again_seq: int = 0
    again_at: int = 0
    settled: str = ""
    settled_by: str = ""
    adopted: bool = False
    due: int | None = None
    due_for: str = ""
    fired: str = ""
    renew: bool = False
    output: Mapping[str, Json] = field(default_factory=dict)
    external_id: str = ""
    count: int | None = None

    @property
    def is_applied(self) -> bool:
        """It is known to have been done."""
        return self.last == "applied" or self.settled == "applied"

    @property
    def is_unsettled(self) -> bool:
        """An attempt may have had an effect, and nobody knows."""
        return self.may_have_happened and not self.is_applied

    @property
    def is_over(self) -> bool:
        """Nothing is on its way and nothing was done, as far as is known: it may be tried from the beginning."""
        return not (self.is_open or self.is_applied or self.is_unsettled)

    @property
    def waits_to_retry(self) -> bool:
        """A timer for the next attempt runs or has fired."""
        return "retry" in (self.due_for, self.fired)


@quick
@dataclass(frozen=True, kw_only=True)
class StepState:
    """One step that has begun. `outcome` is the word `outcome.<id>` shows, `find` what was looked for at first.

    `event` and `match` are what it waits for, `since` since when; `due` is when it goes on, or is late.
    `begun_after`: how much an agent had done when it last began, so that a person's "retry" gives it its limits anew.
    """

    status: StepStatus = "open"
    outcome: str = ""
    branch: int = 0
    output: Mapping[str, Json] = field(default_factory=dict)
    input: Mapping[str, Json] = field(default_factory=dict)
    find: Mapping[str, Json] = field(default_factory=dict)
    due: int | None = None
    event: str = ""
    match: Mapping[str, Json] = field(default_factory=dict)
    since: int = 0
    begun_after: int = 0


@dataclass(frozen=True, kw_only=True)
class UndoState:
    """How far the compensation of one step is. `failed` and `handed_off` wait for a person."""

    status: Literal["open", "done", "skipped", "failed", "handed_off"] = "open"
    input: Mapping[str, Json] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class HandOff:
    """A question to a person, and the answer when there is one (`choice`); WITHDRAWN when it no longer matters."""

    id: str
    step: str
    kind: str
    owner: str
    opened_at: int
    opened_seq: int
    choices: tuple[str, ...]
    summary: str = ""
    say: str = ""
    purpose: str = ""
    part: int = 0
    show: Mapping[str, Json] = field(default_factory=dict)
    acknowledged_by: str = ""
    choice: str = ""
    by: str = ""
    reason: str = ""
    reference: str = ""
    output: Mapping[str, Json] = field(default_factory=dict)
    external_id: str = ""

    @property
    def asks_what_became(self) -> bool:
        """It asks about an effect that may stand outside, so that it has to be answered whatever the run does."""
        return self.purpose in ("do", "undo") and self.kind in ("unknown", "several", "compensation_unknown")


@quick
@dataclass(frozen=True, kw_only=True)
class Effect:
    """An applied forward call and what has become of its effect."""

    path: str
    part: int
    action: str
    external_id: str
    disposition: Disposition = "pending"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why forward ended, as `failure.*` shows it."""

    kind: str
    step: str
    summary: str
    at: int
    by: str = ""

    def as_names(self) -> dict[str, Json]:
        """The names in reach of expressions."""
        return {"kind": self.kind, "step": self.step, "summary": self.summary, "by": self.by, "at": iso(self.at)}


@quick
@dataclass(frozen=True, kw_only=True)
class Scope:
    """One scope: the run, an item of a list, a called flow, or what an agent did: a turn of its model, a tool's call.

    `name` is how people see an item, the called flow, or the tool; `inputs` are that flow's, or what the tool is given
    (`input`) and why it is not called (`wrong`). `catches`: a failure inside ends
    this item and not the run. Every call inside begins with `generation`. `failure` is why the scope fails; `closed` is
    set by ForwardClosed, `compensates` says what follows, `has_begun` by CompensationBegun. `is_recalled`: an item that
    had ended and is read back to be made good; `recalled`: the start number down to which that was done in this scope;
    `newest`: that of the newest effect inside that was made good and is not in the state any more.
    """

    kind: Literal["run", "item", "call", "turn", "tool"] = "run"
    name: str = ""
    inputs: Mapping[str, Json] = field(default_factory=dict)
    catches: bool = False
    generation: int = 0
    closed: bool = False
    compensates: bool = False
    has_begun: bool = False
    cause: str = ""
    failure: Failure | None = None
    is_recalled: bool = False
    recalled: int | None = None
    newest: int = 0


@dataclass(frozen=True, kw_only=True)
class Aside:
    """An item that was set aside, because of the step at this path. Resumed, its calls begin with `generation`.
    `stands`: how many of its effects were left standing, by a person's word."""

    name: str
    reason: str
    generation: int
    stands: int = 0
    step: str = ""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """How far an `each` is. Items are numbered from 1.

    `started` have begun in order, `again` were set aside and wait to begin anew; `open` are under way. `accepted` were
    set aside and stay so. `left` counts the effects of ended items by their disposition; `top` is the highest
    generation any of them had.
    """

    items: Items
    catches: bool = False
    started: int = 0
    done: int = 0
    open: tuple[int, ...] = ()
    again: tuple[tuple[int, int], ...] = ()
    aside: Mapping[int, Aside] = field(default_factory=dict)
    accepted: frozenset[int] = frozenset()
    left: Mapping[str, int] = field(default_factory=dict)
    top: int = 0


@dataclass(frozen=True, kw_only=True)
class Held:
    """Why a step may not go on for now. `why`: record (held until somebody has answered), lock (another run works on
    it), flow, connection, limit. `by` is a run, or a person."""

    why: str
    name: str
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class Covered:
    """One step that an approval covers, as it was shown. `hashes` are those of its parts, one where it is one call;
    `item` is the digest of the list's item it is for, or empty.
    """

    action: str
    input: Mapping[str, Json]
    hashes: tuple[str, ...]
    item: str = ""


@dataclass(frozen=True, kw_only=True)
class Yes:
    """One person's yes."""

    by: str
    at: int
    comment: str = ""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """An approval that was asked for. Decided when `needs` people have said yes, or one no; `late` when nobody did.

    `until` is when a yes ends for steps that have not begun; `used` are those that have. `edited`: what is sent is not
    what the flow made.
    """

    round: int
    covers: Mapping[str, Covered]
    hash: str
    due: int
    asked: tuple[str, ...]
    by: tuple[str, ...] = ()
    needs: int = 1
    remind: int = 0
    half: int = 0
    good_for: int = 0
    opened_at: int = 0
    opened_seq: int = 0
    status: Literal["open", "yes", "no", "late", "lapsed", "withdrawn"] = "open"
    yes: tuple[Yes, ...] = ()
    no_by: str = ""
    comment: str = ""
    until: int = 0
    left_out: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()

    @property
    def wakes_at(self) -> int:
        """When something happens to it by itself."""
        return min(at for at in (self.remind, self.half, self.due) if at)


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything a run's log says, as far as the next decision needs it.

    `asked` counts the hand-offs there ever were, `accepted` the items that a person left set aside.
    """

    seq: int = 0
    at: int = 0
    run: str = ""
    flow: str = ""
    mode: str = "draft"
    bundle: str = ""
    owner: str = ""
    record: str = ""
    starter: str = ""
    started_at: int = 0
    inputs: Mapping[str, Json] = field(default_factory=dict)
    trigger: Mapping[str, Json] = field(default_factory=dict)
    continues: str = ""
    scopes: Mapping[str, Scope] = field(default_factory=lambda: {"": Scope()})
    steps: Mapping[str, StepState] = field(default_factory=dict)
    calls: Mapping[CallName, Call] = field(default_factory=dict)
    undo: Mapping[str, UndoState] = field(default_factory=dict)
    handoffs: Mapping[str, HandOff] = field(default_factory=dict)
    effects: Mapping[int, Effect] = field(default_factory=dict)
    lists: Mapping[str, Listing] = field(default_factory=dict)
    gates: Mapping[str, Gate] = field(default_factory=dict)
    asked: int = 0
    accepted: int = 0
    next_start: int = 1
    failure: Failure | None = None
    is_paused: bool = False
    stop: Failure | None = None
    stop_compensates: bool = False
    is_taken_over: bool = False
    held: Mapping[str, Held] = field(default_factory=dict)
    """What keeps steps from going on, by their paths ("" = the run itself)."""
    locks: frozenset[str] = frozenset()
    holds_record: bool = False
    late: int = 0
    is_erased: bool = False
    status: str = ""
    summary: str = ""
    seen_by: str = ""
    """Who has seen how it ended."""
    outputs: Mapping[str, Json] = field(default_factory=dict)
    stands: tuple[str, ...] = ()

    @property
    def root(self) -> Scope:
        """The run's own scope."""
        return self.scopes[""]

    @property
    def has_ended(self) -> bool:
        """RunFinished is in the log."""
        return self.status != ""

    @property
    def stops_here(self) -> bool:
        """What was done stays: an operator stopped here, a person closed the run or took it over."""
        closed_for_good = self.root.closed and not self.root.compensates
        return self.is_taken_over or closed_for_good or (self.stop is not None and not self.stop_compensates)

    @property
    def open_handoffs(self) -> tuple[HandOff, ...]:
        """The questions without an answer, oldest first."""
        return tuple([h for h in self.handoffs.values() if not h.choice]) if self.handoffs else ()

    def left(self, *dispositions: str) -> int:
        """How many effects of ended items have one of these dispositions."""
        return sum(listing.left.get(name, 0) for listing in self.lists.values() for name in dispositions)

    def handoff_about(self, step: str, purpose: str, part: int) -> HandOff | None:
        """The newest hand-off about this call (or about this step, with an empty purpose)."""
        found = None
        for handoff in self.handoffs.values():
            if (handoff.step, handoff.purpose, handoff.part) == (step, purpose, part):
                found = handoff
        return found


class Thawed(State):
    """A state while a fact is read into it, by `fold` alone: `replace` changes this one and makes no copy."""


def thaw(state: State) -> Thawed:
    """A copy that `replace` changes."""
    copy = object.__new__(Thawed)
    _set(copy, "__dict__", state.__dict__.copy())
    return copy


def freeze(state: State) -> State:
    """The same as a state that nobody changes."""
    _set(state, "__class__", State)
    return state


def replace(value: T, **changes: Any) -> T:
    """`dataclasses.replace` for the frozen classes of this file, ten times as fast: every event makes a few copies."""
    kind = value.__class__
    if kind is Thawed:
        value.__dict__.update(changes)
        return value
    copy = _new(kind)
    fields = value.__dict__.copy()
    fields.update(changes)
    _set(copy, "__dict__", fields)
    return copy


_new, _set = object.__new__, object.__setattr__
