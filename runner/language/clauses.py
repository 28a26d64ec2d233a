"""The smaller clauses of a flow as they are read: durations, retry, compensation, on_failure, triggers.

Strict models: no unknown key, nothing converted. Title, description and examples are the manual, because the JSON
Schema that editors use is made out of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Union, Unpack

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    PydanticUndefinedAnnotation,
    Tag,
    model_validator,
)
from pydantic_core import CoreSchema

from runner.language.flow import PLAIN_UNITS, Duration, Unit

_DURATION = re.compile(r"^([0-9]{1,9}) ?(ms|s|sec|second|min|minute|h|hour|day|week|business day|business hour)s?$")
_RATE = re.compile(r"^([1-9]\d{0,5}) per (?:([1-9]\d{0,3}) )?(s|min|hour|day)$")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_UNITS: dict[str, Unit] = {
    **{unit: unit for unit in PLAIN_UNITS},
    "sec": "s",
    "second": "s",
    "minute": "min",
    "h": "hour",
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


def rate(text: str) -> tuple[int, int]:
    """`100 per 10 s` as (how many, in how many ms). Raises ValueError with a sentence."""
    match = _RATE.match(text)
    if match is None:
        raise ValueError(f'"{text}" is not a rate; it is written 100 per 10 s, or 5 per min')
    return int(match[1]), duration(f"{match[2] or 1} {match[3]}").ms


def _checked_rate(text: str) -> str:
    rate(text)
    return text


def _checked_origin(text: str) -> str:
    if _ORIGIN.fullmatch(text) is None:
        raise ValueError(f'"{text}" is not a site; write it without a path, as https://www.example.test')
    return text


class Model(BaseModel):
    """Root of the models of the language. `spoken` is how messages call it; the title is its name in schemas."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
    spoken: ClassVar[str] = "this map"

    def __init_subclass__(cls, *, spoken: str = "", **config: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**config)
        cls.spoken = spoken or cls.spoken


def optional(description: str, *examples: Any, **limits: Any) -> Any:
    """A key that may be left out. Written with nothing after it, it is a fault: None is only what is not there."""
    return Field(default=None, description=description, examples=list(examples) or None, **limits)


def required(description: str, *examples: Any, **limits: Any) -> Any:
    """A key that must be there."""
    return Field(description=description, examples=list(examples) or None, **limits)


def given(model: Any, *names: str) -> dict[str, Any]:
    """What was written of these keys: for everything else the reader has its own default."""
    found = {name: getattr(model, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def tag_of(form: Any) -> str:
    """What pydantic puts into an error's place for a form of a value: `<record>`, `<text>`."""
    is_model = isinstance(form, type) and issubclass(form, Model)
    return f"<{form.model_config.get('title')}>" if is_model else "<form>"


def by_tag(*models: type[Model]) -> dict[str, type[Model]]:
    """Models by their tags."""
    return {tag_of(model): model for model in models}


class Forms:
    """The forms that one value may have, as the annotation of a key.

    Which one it is says the kind of what is written (`text=`, `list=`, `map=` …), or the one word out of `words` that
    a map has. `words` may be filled later: until then no model that needs it is complete.
    """

    def __init__(self, words: Mapping[str, type[Model]] | None = None, **kinds: Any) -> None:
        self.words = words
        self.kinds = kinds
        self._by_word: dict[str, str] = {}
        self._by_type: dict[type, str] = {}

    def _tag(self, value: Any) -> str | None:
        if self._by_word and isinstance(value, dict):
            found = [tag for word, tag in self._by_word.items() if word in value]
            return found[0] if len(found) == 1 else None
        return self._by_type.get(type(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self.words is not None and not self.words:
            raise PydanticUndefinedAnnotation("words", "not filled yet")
        words = self.words or {}
        tags = {kind: tag_of(form) if kind == "map" else f"<{kind}>" for kind, form in self.kinds.items()}
        self._by_word = {word: tag_of(model) for word, model in words.items()}
        self._by_type = {type_: tags[kind] for type_, kind in _KINDS.items() if kind in tags}
        forms = by_tag(*words.values()) | {tags[kind]: form for kind, form in self.kinds.items()}
        union: Any = Union[tuple(Annotated[form, Tag(tag)] for tag, form in forms.items())]  # noqa: UP007 (at run time)
        return handler.generate_schema(Annotated[union, Discriminator(self._tag)])


Origin = Annotated[str, AfterValidator(_checked_origin)]

_KINDS = {str: "text", dict: "map", list: "list", bool: "switch"}

DurationText = Annotated[str, AfterValidator(_checked_duration)]
PlainDuration = Annotated[str, AfterValidator(_checked_plain)]
RateText = Annotated[str, AfterValidator(_checked_rate)]
Sentence = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
WHO = r"^(person|team):[A-Za-z0-9_]+$"
WHO_IF_ANY = r"^(nobody|(person|team):[A-Za-z0-9_]+)$"
APPROVER = r"^((person|team):[A-Za-z0-9_]+|manager_of:starter)$"
Who = Annotated[str, Field(pattern=WHO)]
WhoIfAny = Annotated[str, Field(pattern=WHO_IF_ANY)]
Approver = Annotated[str, Field(pattern=APPROVER)]
ActionName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*$")]
Values = dict[str, Any]
Approvers = Annotated[Any, Forms(text=Approver, list=Annotated[list[Approver], Field(min_length=1)])]
RetryWord = Literal["not_sent", "rate_limited", "unavailable", "in_progress", "unknown"]


class RetryModel(Model, title="Retry", spoken="retry"):
    """How often and how fast a call is tried again."""

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


class CancelModel(_CompensationModel, title="cancel", spoken="a cancel compensation"):
    """Take it back; a refund too."""

    cancel: ActionName = required("The action that takes it back.", "tasks.close")
    with_: Values = optional(
        "The action's input; in reach: everything of the flow, `output` and `failure`.",
        {"id": "${{ output.id }}"},
        alias="with",
    )


class MarkModel(_CompensationModel, title="mark", spoken="a mark compensation"):
    """Leave it, and flag it for a person."""

    mark: ActionName = required("The action that flags it.", "crm.update_contact")
    with_: Values = optional("The action's input.", {"id": "${{ output.id }}", "status": "needs_review"}, alias="with")


class CorrectModel(_CompensationModel, title="correct", spoken="a correct compensation"):
    """Send or write the right thing after it."""

    correct: ActionName = required("The action that puts it right.", "mail.send")
    with_: Values = optional("The action's input.", {"template": "correction"}, alias="with")


class QuarantineModel(_CompensationModel, title="quarantine", spoken="a quarantine compensation"):
    """Set it aside, out of reports: an action, or a name in our own list."""

    quarantine: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)?$")] = required(
        "An action, or the name under which our own list keeps it.", "customer", "crm.set_aside"
    )
    with_: Values = optional("The action's input.", {"id": "${{ output.id }}"}, alias="with")


class HandOffModel(_CompensationModel, title="hand_off", spoken="a hand_off compensation"):
    """Nothing automatic; a person decides."""

    hand_off: Who = required("Who decides.", "team:finance")
    say: Sentence = optional(
        "What that person should know.", "Compare our amount with the bank before changing anything."
    )
    show: ActionName = optional(
        "A read action, named to that person: where to look. It is not read for them.",
        "billing.get_payment",
    )


class NoneModel(Model, title="none", spoken="a none compensation"):
    """Nothing is to be done; the reason is required."""

    none: Sentence = required("Why nothing needs to be done.", "Writing a cache is harmless.")


COMPENSATION_MODELS: dict[str, type[Model]] = {
    "cancel": CancelModel,
    "mark": MarkModel,
    "correct": CorrectModel,
    "quarantine": QuarantineModel,
    "hand_off": HandOffModel,
    "none": NoneModel,
}
CompensationField = Annotated[Any, Forms(COMPENSATION_MODELS, text=Literal["cancel"])]


class OnFailureModel(Model, title="on_failure", spoken="on_failure"):
    """What follows a failure, in full."""

    do: Literal["compensate", "review"] = optional("compensate, or review: stop, and a person chooses.", "compensate")
    tell: WhoIfAny = optional(
        "People of ours who are told, always. Default: the owner, of runs that nobody started by hand.",
        "team:ops",
        "nobody",
    )
    within: DurationText = optional("How long they have to answer.", "4 hours")
    escalate_to: Who = optional("Who is told when they do not.", "person:cto")
    if_one_fails: Literal["go_on", "stop"] = optional("What a compensation that gives up does to the rest.", "stop")
    then_run: Name = optional("A flow that is run once when compensation has ended.", "order_failed")
    with_: Values = optional("That flow's inputs.", {"reason": "${{ failure.summary }}"}, alias="with")


class RecordModel(Model, title="record", spoken="record"):
    """The business record a run works on, in full."""

    id: Sentence = required("The record.", "customer/${{ inputs.email }}")
    one_at_a_time: bool = optional("Healthy runs on it are kept in line too.", True)


class LockModel(Model, title="lock", spoken="lock"):
    """A record that other runs keep off until this run ends."""

    record: Name = required("The kind of record.", "invoice")
    id: Any = required("Which one.", "${{ inputs.invoice }}")


# --- triggers ------------------------------------------------------------------------------------------------------


class _TriggerModel(Model):
    id: Sentence = optional("The event's business id.", "${{ body.event_id }}")
    only_if: Sentence = optional("The rest is ignored, and logged so.", "${{ body.type == 'order.paid' }}")
    fill: Values = optional("How the inputs are filled.", {"order_no": "${{ body.order.no }}"})
    entity: Sentence = optional("What the event is about.", "${{ body.order.no }}")
    order_by: Sentence = optional("Older events of one entity are set aside.", "${{ body.at }}")


class FormModel(_TriggerModel, title="form", spoken="a form trigger"):
    """A page made out of the inputs."""

    form: Name = required("The form's name in its address.", "signup")
    sign_in: bool = optional("Only people who have signed in may send it.", True)
    embed: list[Origin] = optional("The sites whose pages may show it inside.", ["https://www.example.test"])

    @model_validator(mode="after")
    def _has_one_of_both(self) -> FormModel:
        if self.sign_in and self.embed:
            raise ValueError('"embed" does not go with sign_in: nobody signs in inside another page; write two forms')
        return self


class WebhookModel(_TriggerModel, title="webhook", spoken="a webhook trigger"):
    """A delivery from a service."""

    webhook: Name = required("The hook's name in its address.", "orders")
    signed_by: Sentence = optional("The connection that holds the secret.", "shop")


class _SlotModel(_TriggerModel):
    zone: Sentence = optional("A region name.", "Asia/Tokyo")
    missed: Literal["latest", "skip", "all"] = optional("What becomes of slots missed while nothing ran.", "latest")
    overlap: Literal["skip", "queue", "allow"] = optional("What happens while the last run still goes.", "skip")


class ScheduleModel(_SlotModel, title="schedule", spoken="a schedule trigger"):
    """Times in words."""

    schedule: Sentence = required(
        "When.", "every weekday at 09:00", "every last day of the month at 18:00", "every 15 min"
    )


class CronModel(_SlotModel, title="cron", spoken="a cron trigger"):
    """Times as a cron line; 0 and 7 are Sunday."""

    cron: Sentence = required("Five fields.", "0 9 * * 1-5")


class MailboxModel(_TriggerModel, title="mail", spoken="a mail trigger"):
    """A mail that arrives."""

    mail: Sentence = required("The mailbox connection.", "orders")


class PollModel(_TriggerModel, title="poll", spoken="a poll trigger"):
    """Something new in a service, asked for again and again."""

    poll: Annotated[str, Field(pattern=r"^[A-Za-z]\w*\.[A-Za-z]\w*$")] = required(
        "The read action that lists.", "crm.new_contacts"
    )
    every: PlainDuration = optional("How often.", "10 min")
    seen_by: Sentence = optional("What tells one item from another.", "${{ item.id }}")
    with_: Values = optional("The action's input.", {"since": "${{ trigger.at }}"}, alias="with")


class EventModel(_TriggerModel, title="event", spoken="an event trigger"):
    """An event that another flow or service sends."""

    event: Sentence = required("The event's name.", "payment.received")


class ManualModel(Model, title="manual", spoken="a manual trigger"):
    """Started by a person."""

    manual: Literal[True] = required("Started by hand.", True)


TRIGGER_MODELS: dict[str, type[Model]] = {
    "form": FormModel,
    "webhook": WebhookModel,
    "schedule": ScheduleModel,
    "cron": CronModel,
    "mail": MailboxModel,
    "poll": PollModel,
    "event": EventModel,
    "manual": ManualModel,
}
Trigger = Annotated[Any, Forms(TRIGGER_MODELS, text=Literal["manual"])]
