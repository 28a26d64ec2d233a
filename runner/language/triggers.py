"""What starts a run, as it is written: one strict model for each kind of trigger."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from runner.language.clauses import Model, PlainDuration, Sentence, Values, one_key, optional, required


class _TriggerModel(Model):
    id: Sentence = optional("The event's business id.", "${{ body.event_id }}")
    only_if: Sentence = optional("The rest is ignored, and logged so.", "${{ body.type == 'order.paid' }}")
    fill: Values = optional("How the inputs are filled.", {"order_no": "${{ body.order.no }}"})
    entity: Sentence = optional("What the event is about.", "${{ body.order.no }}")
    order_by: Sentence = optional("Older events of one entity are set aside.", "${{ body.at }}")


class FormModel(_TriggerModel):
    """A page made out of the inputs."""

    spoken: ClassVar[str] = "a form trigger"
    model_config = ConfigDict(title="form")

    form: Sentence = required("The form's name in its address.", "signup")
    sign_in: bool = optional("Only people who have signed in may send it.", True)


class WebhookModel(_TriggerModel):
    """A delivery from a service."""

    spoken: ClassVar[str] = "a webhook trigger"
    model_config = ConfigDict(title="webhook")

    webhook: Sentence = required("The hook's name in its address.", "orders")
    signed_by: Sentence = optional("The connection that holds the secret.", "shop")


class _SlotModel(_TriggerModel):
    zone: Sentence = optional("A region name.", "Asia/Tokyo")
    missed: Literal["latest", "skip", "all"] = optional("What becomes of slots missed while nothing ran.", "latest")
    overlap: Literal["skip", "queue", "allow"] = optional("What happens while the last run still goes.", "skip")


class ScheduleModel(_SlotModel):
    """Times in words."""

    spoken: ClassVar[str] = "a schedule trigger"
    model_config = ConfigDict(title="schedule")

    schedule: Sentence = required(
        "When.", "every weekday at 09:00", "every last day of the month at 18:00", "every 15 min"
    )


class CronModel(_SlotModel):
    """Times as a cron line; 0 and 7 are Sunday."""

    spoken: ClassVar[str] = "a cron trigger"
    model_config = ConfigDict(title="cron")

    cron: Sentence = required("Five fields.", "0 9 * * 1-5")


class MailboxModel(_TriggerModel):
    """A mail that arrives."""

    spoken: ClassVar[str] = "a mail trigger"
    model_config = ConfigDict(title="mail")

    mail: Sentence = required("The mailbox connection.", "orders")


class PollModel(_TriggerModel):
    """Something new in a service, asked for again and again."""

    spoken: ClassVar[str] = "a poll trigger"
    model_config = ConfigDict(title="poll")

    poll: Annotated[str, Field(pattern=r"^[A-Za-z]\w*\.[A-Za-z]\w*$")] = required(
        "The read action that lists.", "crm.new_contacts"
    )
    every: PlainDuration = optional("How often.", "10 min")
    seen_by: Sentence = optional("What tells one item from another.", "${{ item.id }}")
    with_: Values = optional("The action's input.", {"since": "${{ trigger.at }}"}, alias="with")


class EventModel(_TriggerModel):
    """An event that another flow or service sends."""

    spoken: ClassVar[str] = "an event trigger"
    model_config = ConfigDict(title="event")

    event: Sentence = required("The event's name.", "payment.received")


class ManualModel(Model):
    """Started by a person."""

    spoken: ClassVar[str] = "a manual trigger"
    model_config = ConfigDict(title="manual")

    manual: Literal[True] = required("Started by hand.", True)


TRIGGERS = ("form", "webhook", "schedule", "cron", "mail", "poll", "event", "manual")
TRIGGER_MODELS: dict[str, type[Model]] = {
    "<form>": FormModel,
    "<webhook>": WebhookModel,
    "<schedule>": ScheduleModel,
    "<cron>": CronModel,
    "<mail>": MailboxModel,
    "<poll>": PollModel,
    "<event>": EventModel,
    "<manual>": ManualModel,
}


def _which(value: Any) -> str | None:
    return "<manual word>" if isinstance(value, str) else one_key(value, TRIGGERS)


Trigger = Annotated[
    Annotated[Literal["manual"], Tag("<manual word>")]
    | Annotated[FormModel, Tag("<form>")]
    | Annotated[WebhookModel, Tag("<webhook>")]
    | Annotated[ScheduleModel, Tag("<schedule>")]
    | Annotated[CronModel, Tag("<cron>")]
    | Annotated[MailboxModel, Tag("<mail>")]
    | Annotated[PollModel, Tag("<poll>")]
    | Annotated[EventModel, Tag("<event>")]
    | Annotated[ManualModel, Tag("<manual>")],
    Discriminator(_which),
]


def _how_many(value: Any) -> str:
    return "<several>" if isinstance(value, list) else "<one>"


TriggerField = Annotated[
    Annotated[Trigger, Tag("<one>")] | Annotated[list[Trigger], Tag("<several>")], Discriminator(_how_many)
]
