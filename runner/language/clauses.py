"""The smaller clauses of a flow as they are read: durations, retry, compensation, on_failure, triggers.

Strict models: no unknown key, nothing converted. Title, description and examples are the manual, because the JSON
Schema that editors use is made out of them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from runner.language.flow import Duration, Unit

_DURATION = re.compile(r"^([0-9]{1,9}) ?(ms|s|sec|second|min|minute|h|hour|day|week|business day|business hour)s?$")
_UNITS: dict[str, Unit] = {
    "ms": "ms",
    "s": "s",
    "sec": "s",
    "second": "s",
    "min": "min",
    "minute": "min",
    "h": "hour",
    "hour": "hour",
    "day": "day",
    "week": "week",
    "business day": "business_day",
    "business hour": "business_hour",
}
DURATION_WORDS = "a duration is a number and a unit: 30 s, 10 min, 4 hours, 1 day, 2 weeks, 2 business days"


def duration(text: str) -> Duration:
    """`2 business days` as a value. Raises ValueError with a sentence."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError(f'"{text}" is not a duration; {DURATION_WORDS}')
    return Duration(amount=int(match[1]), unit=_UNITS[match[2]])


def _checked_duration(text: str) -> str:
    duration(text)
    return text


def _checked_plain(text: str) -> str:
    if duration(text).unit in ("business_day", "business_hour"):
        raise ValueError(f'"{text}" needs a calendar; here a duration is in s, min, hours, days or weeks')
    return text


class Model(BaseModel):
    """Root of the models of the language. `spoken` is how messages call it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    spoken: ClassVar[str] = "this map"


def optional(description: str, *examples: Any, **limits: Any) -> Any:
    """A key that may be left out. Written with nothing after it, it is a fault: None is only what is not there."""
    return Field(default=None, description=description, examples=list(examples) or None, **limits)


def required(description: str, *examples: Any, **limits: Any) -> Any:
    """A key that must be there."""
    return Field(description=description, examples=list(examples) or None, **limits)


def tagged(**by_kind: str) -> Discriminator:
    """Chooses a form by the kind of what is written: `text=`, `map=`, `list=`, `switch=`, `number=`."""

    def choose(value: Any) -> str | None:
        if isinstance(value, bool):
            return by_kind.get("switch")
        kinds = {str: "text", dict: "map", list: "list", int: "number", float: "number"}
        return by_kind.get(kinds.get(type(value), ""))

    return Discriminator(choose)


DurationText = Annotated[str, AfterValidator(_checked_duration)]
PlainDuration = Annotated[str, AfterValidator(_checked_plain)]
Sentence = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
Who = Annotated[str, Field(pattern=r"^(person|team):[A-Za-z0-9_]+$")]
Approver = Annotated[str, Field(pattern=r"^((person|team):[A-Za-z0-9_]+|manager_of:starter)$")]
ActionName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*$")]
Values = dict[str, Any]
Approvers = Annotated[
    Annotated[Approver, Tag("<one>")] | Annotated[list[Approver], Tag("<several>")],
    tagged(text="<one>", list="<several>"),
]
RetryWord = Literal["not_sent", "rate_limited", "unavailable", "in_progress", "unknown"]


class RetryModel(Model):
    """How often and how fast a call is tried again."""

    spoken: ClassVar[str] = "retry"
    model_config = ConfigDict(title="Retry")

    tries: int = optional("How many tries in all, the first included.", 4, ge=1, le=1000)
    pause: PlainDuration = optional("The wait before the second try.", "10 s")
    growth: Literal["none", "linear", "double"] = optional("How the wait grows from try to try.", "double")
    longest: PlainDuration = optional("No wait is longer than this.", "5 min")
    never_on: list[RetryWord] = optional("Answers after which there is no further try.", ["rate_limited"])


class _CompensationModel(Model):
    retry: RetryModel = optional("How often the compensation itself is tried.", {"tries": 10, "pause": "1 min"})
    timeout: PlainDuration = optional("How long one try may take.", "30 s")
    approve_by: Approvers = optional("Who says yes before the compensation is sent.", "team:sales_leads")
    unattended: Sentence = optional("Why nobody is asked before it is sent.", "A refund is always right here.")


class CancelModel(_CompensationModel):
    """Take it back; a refund too."""

    spoken: ClassVar[str] = "a cancel compensation"
    model_config = ConfigDict(title="cancel")

    cancel: ActionName = required("The action that takes it back.", "tasks.close")
    with_: Values = optional(
        "The action's input; in reach: everything of the flow, `output` and `failure`.",
        {"id": "${{ output.id }}"},
        alias="with",
    )


class MarkModel(_CompensationModel):
    """Leave it, and flag it for a person."""

    spoken: ClassVar[str] = "a mark compensation"
    model_config = ConfigDict(title="mark")

    mark: ActionName = required("The action that flags it.", "crm.update_contact")
    with_: Values = optional("The action's input.", {"id": "${{ output.id }}", "status": "needs_review"}, alias="with")


class CorrectModel(_CompensationModel):
    """Send or write the right thing after it."""

    spoken: ClassVar[str] = "a correct compensation"
    model_config = ConfigDict(title="correct")

    correct: ActionName = required("The action that puts it right.", "mail.send")
    with_: Values = optional("The action's input.", {"template": "correction"}, alias="with")


class QuarantineModel(_CompensationModel):
    """Set it aside, out of reports: an action, or a name in our own list."""

    spoken: ClassVar[str] = "a quarantine compensation"
    model_config = ConfigDict(title="quarantine")

    quarantine: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)?$")] = required(
        "An action, or the name under which our own list keeps it.", "customer", "crm.set_aside"
    )
    with_: Values = optional("The action's input.", {"id": "${{ output.id }}"}, alias="with")


class HandOffModel(_CompensationModel):
    """Nothing automatic; a person decides."""

    spoken: ClassVar[str] = "a hand_off compensation"
    model_config = ConfigDict(title="hand_off")

    hand_off: Who = required("Who decides.", "team:finance")
    say: Sentence = optional(
        "What that person should know.", "Compare our amount with the bank before changing anything."
    )
    show: ActionName = optional("A read action: the outside's value is put beside ours.", "billing.get_payment")


class NoneModel(Model):
    """Nothing is to be done; the reason is required."""

    spoken: ClassVar[str] = "a none compensation"
    model_config = ConfigDict(title="none")

    none: Sentence = required("Why nothing needs to be done.", "Writing a cache is harmless.")


WORDS = ("cancel", "mark", "correct", "quarantine", "hand_off", "none")
COMPENSATION_MODELS: dict[str, type[Model]] = {
    "<cancel>": CancelModel,
    "<mark>": MarkModel,
    "<correct>": CorrectModel,
    "<quarantine>": QuarantineModel,
    "<hand_off>": HandOffModel,
    "<none>": NoneModel,
}


def one_key(value: Any, keys: tuple[str, ...]) -> str | None:
    """The tag of the one key that says which form a map has; None if there is none or more than one."""
    found = [key for key in keys if isinstance(value, dict) and key in value]
    return f"<{found[0]}>" if len(found) == 1 else None


def _which_word(value: Any) -> str | None:
    return "<cancel word>" if isinstance(value, str) else one_key(value, WORDS)


CompensationField = Annotated[
    Annotated[Literal["cancel"], Tag("<cancel word>")]
    | Annotated[CancelModel, Tag("<cancel>")]
    | Annotated[MarkModel, Tag("<mark>")]
    | Annotated[CorrectModel, Tag("<correct>")]
    | Annotated[QuarantineModel, Tag("<quarantine>")]
    | Annotated[HandOffModel, Tag("<hand_off>")]
    | Annotated[NoneModel, Tag("<none>")],
    Discriminator(_which_word),
]


class OnFailureModel(Model):
    """What follows a failure, in full."""

    spoken: ClassVar[str] = "on_failure"
    model_config = ConfigDict(title="on_failure")

    do: Literal["compensate", "review"] = optional("compensate, or review: stop, and a person chooses.", "compensate")
    tell: Who = optional("People of ours who are told, always.", "team:ops")
    within: DurationText = optional("How long they have to answer.", "4 hours")
    escalate_to: Who = optional("Who is told when they do not.", "person:cto")
    if_one_fails: Literal["go_on", "stop"] = optional("What a compensation that gives up does to the rest.", "stop")
    then_run: Name = optional("A flow that is run once when compensation has ended.", "order_failed")
    with_: Values = optional("That flow's inputs.", {"reason": "${{ failure.summary }}"}, alias="with")


class RecordModel(Model):
    """The business record a run works on, in full."""

    spoken: ClassVar[str] = "record"
    model_config = ConfigDict(title="record")

    id: Sentence = required("The record.", "customer/${{ inputs.email }}")
    one_at_a_time: bool = optional("Healthy runs on it are kept in line too.", True)


class LockModel(Model):
    """A record that other runs keep off until this run ends."""

    spoken: ClassVar[str] = "lock"
    model_config = ConfigDict(title="lock")

    record: Name = required("The kind of record.", "invoice")
    id: Any = required("Which one.", "${{ inputs.invoice }}")
