"""A flow as the rest of the house sees it: frozen, checked, with every default filled in.

`Flow` is made by `language.load` out of a file; nobody else makes one, tests included. Values that may hold expressions
(`with_`, `when`, `outputs` …) are kept as the author wrote them and evaluated by `language.expressions`.
Durations are `Duration` values, because business days need a calendar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from runner.contract import Json

Verb = Literal[
    "read", "do", "approve", "wait", "wait_for", "choose", "each", "parallel", "call", "emit", "hand_off", "agent"
]  # fmt: skip
Word = Literal["cancel", "mark", "correct", "quarantine", "hand_off", "none"]
Unit = Literal["ms", "s", "min", "hour", "day", "week", "business_day", "business_hour"]

NUMBERED = frozenset({"each", "agent"})
"""Verbs whose inner steps run in numbered scopes: items of a list, turns and tool calls of an agent."""
MODEL = "model"
"""What a turn of an agent's model is called in its path: `handle/1/model`."""

PLAIN_UNITS: Mapping[Unit, int] = {
    "ms": 1,
    "s": 1_000,
    "min": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Duration:
    """`30 s`, `2 business days`. Plain units have a length in ms; business units need a calendar."""

    amount: int
    unit: Unit

    @property
    def ms(self) -> int:
        """Length in ms. A business unit raises KeyError: ask the calendar."""
        return self.amount * PLAIN_UNITS[self.unit]


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryWords:
    """What the author wrote under `retry`; None means: the default of the action's class."""

    tries: int | None = None
    pause: int | None = None
    growth: Literal["none", "linear", "double"] | None = None
    longest: int | None = None
    never_on: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Compensation:
    """How a step is made good.

    `action` is empty for `hand_off`, `none`, a bare `cancel` (the action's own undo) and `quarantine: name`
    (then `target` is the name). `reason` belongs to `none`.
    """

    word: Word
    action: str = ""
    with_: Mapping[str, Json] = field(default_factory=dict)
    target: str = ""
    reason: str = ""
    say: str = ""
    show: Mapping[str, Json] = field(default_factory=dict)
    retry: RetryWords = RetryWords()
    timeout: int | None = None
    approve_by: tuple[str, ...] = ()
    unattended: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """`lock: { record: invoice, id: x }`: the record `invoice/x` is this run's until it ends. `id` as written."""

    record: str
    id: Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """What an `approve` step asks. `shows`, `may_edit` and `may_leave_out` are paths as written (`inputs.receipt`)."""

    question: str
    covers: tuple[str, ...]
    by: tuple[str, ...]
    shows: tuple[str, ...] = ()
    needs: int = 1
    within: Duration = Duration(amount=2, unit="business_day")
    remind: Duration | None = None
    escalate_to: str = ""
    may_edit: tuple[str, ...] = ()
    may_leave_out: str = ""
    if_no: Literal["compensate", "end", "continue"] = "compensate"
    good_for: Duration = Duration(amount=24, unit="hour")
    proof: Literal["", "code", "sign_in"] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How far an agent may go by itself: tool calls, ms at work, and money (None: as much as its connection may)."""

    calls: int
    within: int
    cost: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """One arm of `choose` or `parallel`, or one tool of an agent; `when` is None for the otherwise."""

    steps: tuple[Step, ...]
    name: str = ""
    when: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step. `line` is where it stands in its file, from 1.

    `action` is `connection.action` for `read`, `do` and `agent`. `wait` is a Duration, or an expression (`until`).
    `branches` are the arms of `choose` and `parallel`; `each` has one, what is done with an item; `agent` one for each
    tool: its approval, if there is one, and the tool. `flow` is the flow that `call` runs. `event` is the event's name,
    of `wait_for` and `emit`; `match` and `within` say which one and how long. Of a tool, `tool_of` is the agent,
    `about` what its model is told, and `with_` what the author has fixed.
    """

    id: str
    verb: Verb
    line: int = 0
    when: str | None = None
    action: str = ""
    with_: Mapping[str, Json] = field(default_factory=dict)
    find: Mapping[str, Json] | None = None
    key: str | None = None
    retry: RetryWords = RetryWords()
    timeout: int | None = None
    owner: str = ""
    compensate: Compensation | None = None
    rule: str = ""
    unattended: str = ""
    accept_order: str = ""
    if_refused: Literal["fail", "continue"] = "fail"
    wait: Duration | str | None = None
    hand_off_to: str = ""
    say: str = ""
    show: Mapping[str, Json] = field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    compensate_at_once: bool = False
    lock: Lock | None = None
    each: Json = None
    named: str = ""
    at_once: int = 1
    if_one_fails: Literal["stop", "continue"] = "stop"
    flow: str = ""
    event: str = ""
    match: Mapping[str, Json] = field(default_factory=dict)
    within: Duration | None = None
    if_late: Literal["fail", "continue", "hand_off"] = "fail"
    approval: Approval | None = None
    covered_by: tuple[str, ...] = ()
    """The approve steps that cover it."""
    limits: Limits | None = None
    tool_of: str = ""
    about: str = ""

    @property
    def turn(self) -> Step:
        """Of an agent: what one turn of its model asks."""
        return replace(self, id=MODEL, verb="read", when=None, branches=(), limits=None, tool_of=self.id)


NOBODY = "nobody"


@dataclass(frozen=True, kw_only=True, slots=True)
class OnFailure:
    """What follows a failure. `do`: compensate, or review (a person chooses). `tell` may be NOBODY. `then_run`: the
    flow that is started once when compensation has ended, with `then_with` as its inputs."""

    do: Literal["compensate", "review"] = "compensate"
    tell: str = ""
    within: Duration | None = None
    escalate_to: str = ""
    if_one_fails: Literal["go_on", "stop"] = "go_on"
    then_run: str = ""
    then_with: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """One flow. `inputs` maps each name to its type as written; `trigger` is the list of triggers as written.

    Where a file holds the JSON Schema of the inputs, `schema_file` is its path from the project folder, `schema` what
    it says, and `inputs` its properties as `fields.FieldType`.
    """

    id: str
    title: str
    owner: str
    file: str = ""
    mode: Literal["draft", "live"] = "draft"
    run_key: str = "${{ trigger.id }}"
    record: str | None = None
    one_at_a_time: bool = False
    trigger: tuple[Mapping[str, Json], ...] = ({"manual": True},)
    inputs: Mapping[str, Json] = field(default_factory=dict)
    schema_file: str = ""
    schema: Mapping[str, Json] | None = None
    steps: tuple[Step, ...] = ()
    on_failure: OnFailure = OnFailure()
    outputs: Mapping[str, Json] = field(default_factory=dict)
    keep: Duration | None = None

    def every_step(self) -> Iterator[Step]:
        """All steps, nested ones included, in the order they are written."""
        yield from every_step(self.steps)

    def branch_names(self) -> dict[str, str]:
        """For each step inside a parallel: the name of its branch, an inner one's behind a slash."""
        found: dict[str, str] = {}
        for parallel in self.every_step():
            for branch in parallel.branches if parallel.verb == "parallel" else ():
                for step in every_step(branch.steps):
                    found[step.id] = f"{found[step.id]}/{branch.name}" if step.id in found else branch.name
        return found

    def lanes(self) -> dict[str, dict[str, int]]:
        """For each step inside a parallel that compensates at once: which branch of it (by the parallel's id)."""
        found: dict[str, dict[str, int]] = {}
        for parallel in self.every_step():
            for number, branch in enumerate(parallel.branches if parallel.compensate_at_once else ()):
                for step in every_step(branch.steps):
                    found.setdefault(step.id, {})[parallel.id] = number
        return found


def every_step(steps: tuple[Step, ...]) -> Iterator[Step]:
    """These steps and those inside them, in the order they are written."""
    for step in steps:
        yield step
        for branch in step.branches:
            yield from every_step(branch.steps)
