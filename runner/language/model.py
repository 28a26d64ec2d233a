"""The whole flow language as strict models: what a file may hold, key by key.

These models read files and make the JSON Schema that editors show; the rest of the house sees `flow.Flow` alone, which
`load` makes out of them. Every verb of the language is here, those that do not run yet too.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Discriminator, Tag

from runner.language.clauses import (
    COMPENSATION_MODELS,
    ActionName,
    Approvers,
    CompensationField,
    DurationText,
    LockModel,
    Model,
    Name,
    OnFailureModel,
    PlainDuration,
    RecordModel,
    RetryModel,
    Sentence,
    Values,
    Who,
    one_key,
    optional,
    required,
    tagged,
)
from runner.language.triggers import TRIGGER_MODELS, TriggerField


class _StepModel(Model):
    id: Name = required("The step's name, unique in the whole flow; letters, digits and _.", "contact")
    when: Annotated[
        Annotated[str, Tag("<text>")] | Annotated[bool, Tag("<switch>")], tagged(text="<text>", switch="<switch>")
    ] = optional("A yes or no; on no the step is skipped.", "${{ inputs.amount > 0 }}")
    timeout: PlainDuration = optional("How long one try may take.", "30 s")
    retry: RetryModel = optional("How often and how fast it is tried again.", {"tries": 4, "pause": "10 s"})
    owner: Who = optional("Who is asked when this step cannot go on.", "team:finance")


class ReadModel(_StepModel):
    """Asks, changes nothing; tried again freely. Nothing found is `found: false`, not a failure."""

    spoken: ClassVar[str] = "a read step"
    model_config = ConfigDict(title="read")

    read: ActionName = required("connection.action", "billing.get_plan")
    with_: Values = optional("The action's input.", {"code": "${{ inputs.plan }}"}, alias="with")
    if_refused: Literal["continue"] = optional("A refusal is not a failure; `outcome` says refused.", "continue")


class DoModel(_StepModel):
    """Changes the world, so it must say how it is made good."""

    spoken: ClassVar[str] = "a do step"
    model_config = ConfigDict(title="do")

    do: ActionName = required("connection.action", "crm.create_contact")
    with_: Values = optional("The action's input.", {"email": "${{ inputs.email }}"}, alias="with")
    find: Values = optional(
        "By what our business knows the record: looked up before the first and every later try.",
        {"email": "${{ inputs.email }}"},
    )
    key: Sentence = optional(
        "Replaces the reference we send, where the service demands our number.", "${{ inputs.order_no }}"
    )
    lock: LockModel = optional("Keeps other runs off this record until the run ends.", {"record": "invoice", "id": "x"})
    compensate: CompensationField = optional("What is done about it when a later step fails.", "cancel")
    rule: Sentence = optional("One sentence for whoever picks the run up.", "Never refund more than was paid.")
    unattended: Sentence = optional(
        "It cannot be undone, and this is why nobody is asked.", "A receipt may always go out."
    )
    accept_order: Sentence = optional(
        "It cannot be undone, and this is why it may stand before a step that can fail.", "A correction is ready."
    )
    if_refused: Literal["continue"] = optional("A refusal is not a failure; `outcome` says refused.", "continue")


class ApproveModel(_StepModel):
    """Asks people and waits."""

    spoken: ClassVar[str] = "an approve step"
    model_config = ConfigDict(title="approve")

    approve: Sentence = required("The question.", "Welcome ${{ inputs.name }}?")
    covers: list[Name] = required("Later do steps, shown filled in.", ["welcome", "paid"])
    by: Approvers = required("One name or a list, anyone of it.", "team:sales_leads")
    shows: list[Sentence] = optional("More to see, part of what is approved.", ["inputs.receipt"])
    needs: int = optional("How many different people.", 2, ge=1)
    within: DurationText = optional("Time to decide; at the end silence is a no.", "2 business days")
    escalate_to: Who = optional("Who joins at half of it.", "person:head_of_sales")
    remind: DurationText = optional("When a reminder goes out, once.", "1 day")
    may_edit: list[Sentence] = optional("What the approver may change.", ["reply.text"])
    may_leave_out: Sentence = optional("The list of which items may be unticked.", "steps.overdue.rows")
    if_no: Literal["compensate", "end", "continue"] = optional("What a no means.", "compensate")
    good_for: DurationText = optional("How long a yes holds.", "24 hours")
    proof: Literal["code", "sign_in"] = optional("How the person proves who it is.", "code")


class UntilModel(Model):
    """A moment to wait for."""

    spoken: ClassVar[str] = "wait"
    model_config = ConfigDict(title="until")

    until: Sentence = required("The moment.", "${{ inputs.day }}")


class WaitModel(_StepModel):
    """Sleeps, over restarts."""

    spoken: ClassVar[str] = "a wait step"
    model_config = ConfigDict(title="wait")

    wait: Annotated[
        Annotated[DurationText, Tag("<text>")] | Annotated[UntilModel, Tag("<until>")],
        tagged(text="<text>", map="<until>"),
    ] = required("How long, or until when.", "3 days")


class WaitForModel(_StepModel):
    """Waits for an event."""

    spoken: ClassVar[str] = "a wait_for step"
    model_config = ConfigDict(title="wait_for")

    wait_for: Sentence = required("The event's name.", "receipt.received")
    match: Values = optional("Which of them.", {"claim": "${{ run.id }}"})
    within: DurationText = optional("How long.", "30 days")
    if_late: Literal["fail", "continue", "hand_off"] = optional("What follows when it does not come.", "hand_off")


class ChooseBranchModel(Model):
    """One branch; without `when` it is the otherwise."""

    spoken: ClassVar[str] = "a branch"
    model_config = ConfigDict(title="branch")

    when: Annotated[
        Annotated[str, Tag("<text>")] | Annotated[bool, Tag("<switch>")], tagged(text="<text>", switch="<switch>")
    ] = optional("A yes or no.", "${{ inputs.amount > 100000 }}")
    steps: list[StepField] = required("What is done then.")


class ChooseModel(_StepModel):
    """The first branch whose `when` is true."""

    spoken: ClassVar[str] = "a choose step"
    model_config = ConfigDict(title="choose")

    choose: list[ChooseBranchModel] = required(
        "The branches, in order.", [{"when": "${{ inputs.amount > 100000 }}", "steps": []}], min_length=1
    )


class EachModel(_StepModel):
    """Once per item of a list."""

    spoken: ClassVar[str] = "an each step"
    model_config = ConfigDict(title="each")

    each: Any = required("The list; `item` inside.", "${{ steps.overdue.rows }}")
    steps: list[StepField] = required("What is done with each item.")
    named: Sentence = optional("How people see an item; must differ.", "${{ item.number }}")
    at_once: int = optional("How many items at once.", 5, ge=1)
    if_one_fails: Literal["stop", "continue"] = optional("continue: set aside, and said so.", "continue")


class ParallelModel(_StepModel):
    """Named branches at once."""

    spoken: ClassVar[str] = "a parallel step"
    model_config = ConfigDict(title="parallel")

    parallel: dict[Name, list[StepField]] = required("The branches by name.", {"stock": [], "score": []}, min_length=1)
    compensate_at_once: bool = optional("Compensations of the branches need no order.", True)


class CallModel(_StepModel):
    """Runs another flow as part of this one."""

    spoken: ClassVar[str] = "a call step"
    model_config = ConfigDict(title="call")

    call: Name = required("The other flow.", "crm_log")
    with_: Values = optional("Its inputs.", {"email": "${{ inputs.email }}"}, alias="with")


class EmitModel(_StepModel):
    """Sends an event."""

    spoken: ClassVar[str] = "an emit step"
    model_config = ConfigDict(title="emit")

    emit: Sentence = required("The event's name.", "order.shipped")
    with_: Values = optional("What it carries.", {"order": "${{ inputs.order_no }}"}, alias="with")


class HandOffStepModel(_StepModel):
    """Stops here and undoes nothing; a person chooses go on, compensate or close."""

    spoken: ClassVar[str] = "a hand_off step"
    model_config = ConfigDict(title="hand_off step")

    hand_off: Who = required("Who chooses.", "team:finance")
    say: Sentence = optional("What that person should know.", "Check the contract before you go on.")
    show: Annotated[
        Annotated[Values, Tag("<map>")] | Annotated[list[Sentence], Tag("<list>")], tagged(map="<map>", list="<list>")
    ] = optional("What that person should see.", ["inputs.amount", "steps.plan.label"])


VERBS = ("read", "do", "approve", "wait", "wait_for", "choose", "each", "parallel", "call", "emit", "hand_off")
STEP_MODELS: dict[str, type[Model]] = {
    "<read>": ReadModel,
    "<do>": DoModel,
    "<approve>": ApproveModel,
    "<wait>": WaitModel,
    "<wait_for>": WaitForModel,
    "<choose>": ChooseModel,
    "<each>": EachModel,
    "<parallel>": ParallelModel,
    "<call>": CallModel,
    "<emit>": EmitModel,
    "<hand_off step>": HandOffStepModel,
}


def _which_verb(value: Any) -> str | None:
    tag = one_key(value, VERBS)
    return "<hand_off step>" if tag == "<hand_off>" else tag


StepField = Annotated[
    Annotated[ReadModel, Tag("<read>")]
    | Annotated[DoModel, Tag("<do>")]
    | Annotated[ApproveModel, Tag("<approve>")]
    | Annotated[WaitModel, Tag("<wait>")]
    | Annotated[WaitForModel, Tag("<wait_for>")]
    | Annotated[ChooseModel, Tag("<choose>")]
    | Annotated[EachModel, Tag("<each>")]
    | Annotated[ParallelModel, Tag("<parallel>")]
    | Annotated[CallModel, Tag("<call>")]
    | Annotated[EmitModel, Tag("<emit>")]
    | Annotated[HandOffStepModel, Tag("<hand_off step>")],
    Discriminator(_which_verb),
]


class FlowModel(Model):
    """One flow: one file that an ops person can read aloud."""

    spoken: ClassVar[str] = "the flow"
    model_config = ConfigDict(title="Flow")

    flow: Name = required("The flow's id, the same as the file's name; letters, digits and _.", "signup_to_paid")
    title: Sentence = required("One sentence.", "New signup becomes a paying customer")
    owner: Who = required("Who is handed the run when it cannot go on.", "team:sales_ops", "person:me")
    mode: Literal["draft", "live"] = optional("In draft nothing leaves; live is for real. Default draft.", "draft")
    run_key: Sentence = optional(
        "Names the business event; the same value again joins the existing run.", "${{ trigger.id }}"
    )
    record: Annotated[
        Annotated[Sentence, Tag("<text>")] | Annotated[RecordModel, Tag("<record>")],
        tagged(text="<text>", map="<record>"),
    ] = optional("The business record a run works on.", "customer/${{ inputs.email }}")
    trigger: TriggerField = optional("What starts a run. Default manual.", "manual", {"form": "signup"})
    inputs: dict[Name, Any] = optional("name: type", {"email": "email", "note": "text or empty"})
    steps: list[StepField] = required("What is done, from top to bottom.", min_length=1)
    on_failure: Annotated[
        Annotated[Literal["compensate", "review"], Tag("<text>")] | Annotated[OnFailureModel, Tag("<on_failure>")],
        tagged(text="<text>", map="<on_failure>"),
    ] = optional("What follows a failure. Default compensate.", "compensate")
    outputs: Values = optional("name: value", {"contact_id": "${{ steps.contact.id }}"})
    keep: PlainDuration = optional("How long ended runs are kept.", "400 days")


FORMS: dict[str, type[Model]] = {
    **STEP_MODELS,
    **COMPENSATION_MODELS,
    **TRIGGER_MODELS,
    "<record>": RecordModel,
    "<on_failure>": OnFailureModel,
    "<until>": UntilModel,
}
"""Which model stands behind each tag that pydantic puts into an error's place."""

ChooseBranchModel.model_rebuild()
ChooseModel.model_rebuild()
EachModel.model_rebuild()
ParallelModel.model_rebuild()
FlowModel.model_rebuild()
