"""The whole flow language as strict models: what a file may hold, key by key.

These models read files and make the JSON Schema that editors show; the rest of the house sees `flow.Flow` alone, which
`load` makes out of them. Every verb of the language is here, those that do not run yet too.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from runner.language.clauses import (
    COMPENSATION_MODELS,
    TRIGGER_MODELS,
    ActionName,
    Approver,
    Approvers,
    CompensationField,
    DurationText,
    Forms,
    LockModel,
    Model,
    Name,
    OnFailureModel,
    PlainDuration,
    RecordModel,
    RetryModel,
    Sentence,
    Trigger,
    Values,
    Who,
    by_tag,
    optional,
    required,
)

STEP_MODELS: dict[str, type[Model]] = {}
"""A step's model by its verb; filled below, because steps stand in steps."""

When = Annotated[Any, Forms(text=str, switch=bool)]
Shown = Annotated[Any, Forms(map=Values, list=list[Sentence])]
Record = Annotated[Any, Forms(text=Sentence, map=RecordModel)]
Triggers = Annotated[Any, Forms(text=Trigger, map=Trigger, list=list[Trigger])]
Following = Annotated[Any, Forms(text=Literal["compensate", "review"], map=OnFailureModel)]
_STEPS = [{"id": "plan", "read": "billing.get_plan", "with": {"code": "${{ inputs.plan }}"}}]
StepField = Annotated[Any, Forms(STEP_MODELS)]


class _StepModel(Model):
    id: Name = required("The step's name, unique in the whole flow; letters, digits and _.", "contact")
    when: When = optional("A yes or no; on no the step is skipped.", "${{ inputs.amount > 0 }}")
    timeout: PlainDuration = optional("How long one try may take.", "30 s")
    retry: RetryModel = optional("How often and how fast it is tried again.", {"tries": 4, "pause": "10 s"})
    owner: Who = optional("Who is asked when this step cannot go on.", "team:finance")


class ReadModel(_StepModel, title="read step", spoken="a read step"):
    """Asks, changes nothing; tried again freely. Nothing found is `found: false`, not a failure."""

    read: ActionName = required("connection.action", "billing.get_plan")
    with_: Values = optional("The action's input.", {"code": "${{ inputs.plan }}"}, alias="with")
    if_refused: Literal["continue"] = optional("A refusal is not a failure; `outcome` says refused.", "continue")


class DoModel(_StepModel, title="do step", spoken="a do step"):
    """Changes the world, so it must say how it is made good."""

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


class ApproveModel(_StepModel, title="approve step", spoken="an approve step"):
    """Asks people and waits."""

    approve: Sentence = required("The question.", "Welcome ${{ inputs.name }}?")
    covers: list[Name] = required("Later do steps, shown filled in.", ["welcome", "paid"], min_length=1)
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
    proof: Literal["code", "sign_in"] = optional(
        "How the person proves who it is. Default: code; where amends.yaml has sign_in, sign_in for money, permissions "
        "and deletion.",
        "code",
    )


class UntilModel(Model, title="until", spoken="wait"):
    """A moment to wait for."""

    until: Sentence = required("The moment.", "${{ inputs.day }}")


class WaitModel(_StepModel, title="wait step", spoken="a wait step"):
    """Sleeps, over restarts."""

    wait: Annotated[Any, Forms(text=DurationText, map=UntilModel)] = required("How long, or until when.", "3 days")


class WaitForModel(_StepModel, title="wait_for step", spoken="a wait_for step"):
    """Waits for an event."""

    wait_for: Sentence = required("The event's name.", "receipt.received")
    match: Values = optional("Which of them.", {"claim": "${{ run.id }}"})
    within: DurationText = optional("How long.", "30 days")
    if_late: Literal["fail", "continue", "hand_off"] = optional("What follows when it does not come.", "hand_off")


class ChooseBranchModel(Model, title="branch", spoken="a branch"):
    """One branch; without `when` it is the otherwise."""

    when: When = optional("A yes or no.", "${{ inputs.amount > 100000 }}")
    steps: list[StepField] = required("What is done then.", _STEPS)


class ChooseModel(_StepModel, title="choose step", spoken="a choose step"):
    """The first branch whose `when` is true."""

    choose: list[ChooseBranchModel] = required(
        "The branches, in order.", [{"when": "${{ inputs.amount > 100000 }}", "steps": []}], min_length=1
    )


class EachModel(_StepModel, title="each step", spoken="an each step"):
    """Once per item of a list."""

    each: Any = required("The list; `item` inside.", "${{ steps.overdue.rows }}")
    steps: list[StepField] = required("What is done with each item.", _STEPS)
    named: Sentence = optional("How people see an item; must differ.", "${{ item.number }}")
    at_once: int = optional("How many items at once.", 5, ge=1)
    if_one_fails: Literal["stop", "continue"] = optional("continue: set aside, and said so.", "continue")


class ParallelModel(_StepModel, title="parallel step", spoken="a parallel step"):
    """Named branches at once."""

    parallel: dict[Name, list[StepField]] = required("The branches by name.", {"stock": [], "score": []}, min_length=1)
    compensate_at_once: bool = optional("Compensations of the branches need no order.", True)


class CallModel(_StepModel, title="call step", spoken="a call step"):
    """Runs another flow as part of this one."""

    call: Name = required("The other flow.", "crm_log")
    with_: Values = optional("Its inputs.", {"email": "${{ inputs.email }}"}, alias="with")


class EmitModel(_StepModel, title="emit step", spoken="an emit step"):
    """Sends an event."""

    emit: Sentence = required("The event's name.", "order.shipped")
    with_: Values = optional("What it carries.", {"order": "${{ inputs.order_no }}"}, alias="with")


class HandOffStepModel(_StepModel, title="hand_off step", spoken="a hand_off step"):
    """Stops here and undoes nothing; a person chooses go on, compensate or close."""

    hand_off: Who = required("Who chooses.", "team:finance")
    say: Sentence = optional("What that person should know.", "Check the contract before you go on.")
    show: Shown = optional("What that person should see.", ["inputs.amount", "steps.plan.label"])


class ToolApprovalModel(Model, title="tool approval", spoken="approve"):
    """Who is asked, each time, before a tool's call leaves; they see exactly what would be sent."""

    by: Approvers = required("One name or a list, anyone of it.", "team:finance")
    question: Sentence = optional("The question; `input` is what would be sent.", "Refund ${{ input.amount }}?")
    needs: int = optional("How many different people.", 2, ge=1)
    within: DurationText = optional("Time to decide; at the end silence is a no.", "4 business hours")
    escalate_to: Who = optional("Who joins at half of it.", "person:cfo")


class _ToolModel(Model):
    id: Name = required("What the model calls it by; unique in the whole flow.", "find_contact")
    about: Sentence = optional("What the model is told of it. Default: the action's own title.", "Finds a contact.")
    with_: Values = optional(
        "What you fix of its input; the model gives the other fields and cannot change these.",
        {"list": "support"},
        alias="with",
    )
    timeout: PlainDuration = optional("How long one try may take.", "30 s")
    retry: RetryModel = optional("How often and how fast it is tried again.", {"tries": 4, "pause": "10 s"})
    owner: Who = optional("Who is asked when this tool cannot go on.", "team:finance")


class ReadToolModel(_ToolModel, title="read tool", spoken="a read tool"):
    """A tool that asks and changes nothing."""

    read: ActionName = required("connection.action", "crm.find_contact")


class DoToolModel(_ToolModel, title="do tool", spoken="a do tool"):
    """A tool that changes the world, so it must say how it is made good."""

    do: ActionName = required("connection.action", "crm.update_contact")
    find: Values = optional(
        "By what our business knows the record; `input` is what the tool is given.", {"email": "${{ input.email }}"}
    )
    lock: LockModel = optional("Keeps other runs off this record until the run ends.", {"record": "invoice", "id": "x"})
    compensate: CompensationField = optional("What is done about it when a later step fails.", "cancel")
    approve: Annotated[Any, Forms(text=Approver, map=ToolApprovalModel)] = optional(
        "Who is asked before each of its calls.", "team:finance", {"by": "team:finance", "within": "4 business hours"}
    )
    rule: Sentence = optional("One sentence for whoever picks the run up.", "Never refund more than was paid.")
    accept_order: Sentence = optional(
        "It cannot be undone, and this is why it may stand before a step that can fail.", "A correction is ready."
    )


TOOL_MODELS: dict[str, type[Model]] = {"read": ReadToolModel, "do": DoToolModel}


class AgentLimitsModel(Model, title="limits", spoken="limits"):
    """How far it may go by itself; then it stops, and a person looks at it."""

    calls: int = required("How many tool calls.", 10, ge=1, le=100)
    within: PlainDuration = required("How long it may work; waiting for people does not count.", "10 min")
    cost: float = optional("What its model may cost, in the money of the connection's prices.", 0.5, gt=0)


class AgentModel(_StepModel, title="agent", spoken="an agent step"):
    """A model that works towards a goal with the tools it is given; each tool is an ordinary action."""

    agent: ActionName = required("connection.action of a language model", "ai.agent")
    with_: Values = required("Its goal, and what it should know.", {"goal": "Answer this ticket."}, alias="with")
    tools: list[Annotated[Any, Forms(TOOL_MODELS)]] = required(
        "All that it may do.", [{"id": "find", "read": "crm.find_contact"}], min_length=1
    )
    limits: AgentLimitsModel = required("Where it stops by itself.", {"calls": 10, "within": "10 min"})


STEP_MODELS.update(
    {
        "read": ReadModel,
        "do": DoModel,
        "approve": ApproveModel,
        "wait": WaitModel,
        "wait_for": WaitForModel,
        "choose": ChooseModel,
        "each": EachModel,
        "parallel": ParallelModel,
        "call": CallModel,
        "emit": EmitModel,
        "hand_off": HandOffStepModel,
        "agent": AgentModel,
    }
)


class FlowModel(Model, title="Flow", spoken="the flow"):
    """One flow: one file that an ops person can read aloud."""

    flow: Name = required("The flow's id, the same as the file's name; letters, digits and _.", "signup_to_paid")
    title: Sentence = required("One sentence.", "New signup becomes a paying customer")
    owner: Who = required("Who is handed the run when it cannot go on.", "team:sales_ops", "person:me")
    mode: Literal["draft", "live"] = optional("In draft nothing is sent; live is for real. Default draft.", "draft")
    run_key: Sentence = optional(
        "Names the business event; the same value again joins the existing run.", "${{ trigger.id }}"
    )
    record: Record = optional("The business record a run works on.", "customer/${{ inputs.email }}")
    trigger: Triggers = optional("What starts a run. Default manual.", "manual", {"form": "signup"})
    inputs: dict[Name, Any] = optional(
        "name: type; or the file with their JSON Schema.",
        {"email": "email", "note": "text or empty"},
        {"schema": "schemas/signup.json"},
    )
    steps: list[StepField] = required("What is done, from top to bottom.", _STEPS, min_length=1)
    on_failure: Following = optional("What follows a failure. Default compensate.", "compensate")
    outputs: Values = optional("name: value", {"contact_id": "${{ steps.contact.id }}"})
    keep: PlainDuration = optional("How long ended runs are kept.", "400 days")


FORMS = by_tag(
    *STEP_MODELS.values(),
    *COMPENSATION_MODELS.values(),
    *TRIGGER_MODELS.values(),
    *TOOL_MODELS.values(),
    ToolApprovalModel,
    RecordModel,
    OnFailureModel,
    UntilModel,
)
"""Which model stands behind each tag that pydantic puts into an error's place."""

for _model in (ChooseBranchModel, ChooseModel, EachModel, ParallelModel, FlowModel):
    _model.model_rebuild()
