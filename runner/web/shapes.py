"""What the API takes and answers, for its description. Answers are made as they are; these say what is in them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runner.people.operations import ORDERS

LONGEST = 1000
MOST_AT_ONCE = 2000
"""Runs that one request may start."""


class Shape(BaseModel):
    """Nothing else stands in it than what is said."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Start(Shape):
    """A run to start. `key` names the business event: the same again joins the same run."""

    flow: str
    inputs: dict[str, Any] = Field(default_factory=dict)
    key: str = ""
    draft: bool = False


class One(Shape):
    """One of many runs to start."""

    inputs: dict[str, Any] = Field(default_factory=dict)
    key: str = ""


class Many(Shape):
    """Runs of one flow to start at once, each for itself: one that is refused takes no other with it."""

    flow: str
    runs: list[One] = Field(min_length=1, max_length=MOST_AT_ONCE)
    draft: bool = False


class Given(Shape):
    """An order, or the answer to a hand-off. `output` are the fields of an answer `happened`."""

    action: str = Field(description=", ".join((*ORDERS, "rerun")))
    handoff: str = ""
    reason: str = Field("", max_length=LONGEST)
    reference: str = Field("", max_length=LONGEST)
    external_id: str = Field("", max_length=LONGEST)
    output: dict[str, Any] = Field(default_factory=dict)


class GoOn(Shape):
    """The answer for a project that rests: `go on` pauses each open run; `moved`: nobody goes on where it was."""

    answer: Literal["go on", "moved"]


class Resting(Shape):
    """Whether the project rests. `since`: what was done after it may be missing; `may_be_moved`: nothing is missing."""

    rests: bool
    why: str
    since: str | None
    may_be_moved: bool
    open_runs: int


class Deciding(Shape):
    """A decision; `changes` is a no whose `comment` says what should be changed.

    `round` and `hash` are those of what was shown; `edits` are path -> field -> text, and `seen` then
    comes from `look`, which decides nothing. `left_out` are paths of steps, whole items where the flow says so.
    """

    approval: str
    round: int
    hash: str
    answer: Literal["yes", "no", "changes"]
    comment: str = Field("", max_length=LONGEST)
    edits: dict[str, dict[str, str]] = Field(default_factory=dict)
    seen: str = ""
    left_out: list[str] = Field(default_factory=list)
    look: bool = False


class Told(Shape):
    """An error in one sentence; `fields` has one for each input that does not fit."""

    error: str
    fields: dict[str, str] = Field(default_factory=dict)


class RunRow(Shape):
    """A run as lists show it. Times are ISO 8601; `stands` counts effects that stand outside."""

    run: str
    flow: str
    title: str
    mode: str
    status: str
    run_key: str
    rerun: int
    record: str
    owner: str
    starter: str
    started_at: str
    updated_at: str
    ended_at: str | None
    wake_at: str | None
    waiting_for: str
    at_step: str
    needs: str
    summary: str
    continues: str
    bundle: str
    phase: str
    seq: int
    stands: int


class StartedRow(RunRow):
    """The run that stands for the event; `joined`: it was there before."""

    joined: bool


class ManyRow(Shape):
    """What became of one of many starts: the run that stands for it, or why there is none."""

    run: str = ""
    joined: bool = False
    error: str = ""
    fields: dict[str, str] = Field(default_factory=dict)


class HandOffRow(Shape):
    """A question to a person about a run."""

    run: str
    flow: str
    handoff: str
    step: str
    kind: str
    owner: str
    status: str
    opened_at: str
    summary: str
    choices: list[str]
    resolved_by: str
    choice: str


class Line(Shape):
    """One line of what happened."""

    at: str
    step: str
    sign: str
    text: str
    details: list[str]


class Story(RunRow):
    """All there is to tell of a run: what happened, what was done outside, what it asks, what can be done."""

    status_line: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    timeline: list[Line]
    effects: list[dict[str, Any]]
    unknown: list[str]
    handoffs: list[HandOffRow]
    can_do: list[str]


class Gate(Shape):
    """An open approval: who is asked, until when, and what would leave."""

    run: str
    approval: str
    round: int
    hash: str
    asked: list[str]
    needs: int
    yes: list[str]
    due: str
    shown: dict[str, Any]


class Decided(RunRow):
    """The run after the decision."""


class Seen(Shape):
    """With `look`: the requests that the edits would send, and their name."""

    seen: str
    requests: dict[str, Any]


class Kept(Shape):
    """An event that is kept: its id, and whether it came for the first time."""

    id: str
    is_new: bool


CODES = {
    400: "The body cannot be read.", 401: "No token, or none of ours.", 403: "The token may not do this.",
    404: "There is no such run.", 409: "It does not fit how things stand.", 422: "A field is missing or wrong.",
    503: "It cannot be kept now: try again later.",
}  # fmt: skip


def refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its description."""
    return {code: {"model": Told, "description": CODES[code]} for code in (400, 401, 403, *codes)}


def answer(model: Any, code: int = 200) -> dict[int | str, dict[str, Any]]:
    """What a route answers, for its description."""
    return {code: {"model": model}}
