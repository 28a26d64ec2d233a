"""What a flow test may hold, key by key: `flows/x.test.yaml` beside `flows/x.yaml`, read and fitted to strict models.

Three voices answer in a case: `services` (what the outside says to a step), `people` (who says yes, or what happened),
`events` (what comes from elsewhere). Where nothing is said a service does what it is asked, and people are silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import Field

from runner.errors import Problem
from runner.language.clauses import (
    DurationText,
    Forms,
    Model,
    Name,
    Sentence,
    Values,
    Who,
    by_tag,
    optional,
    required,
)
from runner.language.fitting import FORM_WORDS, fit, value_at
from runner.language.project import flow_of
from runner.language.source import Source, read

Refusal = Literal["invalid", "forbidden", "not_found", "conflict", "rate_limited", "unavailable"]
Said = Literal[
    "yes", "no", "silence", "go_on", "compensate", "close", "happened", "did_not", "retry", "skip", "done", "stands",
    "again", "take_over",
]  # fmt: skip
End = Literal["succeeded", "drafted", "failed", "compensated", "stopped", "closed", "needs_person", "waiting", "paused"]
Outcome = Literal["done", "found", "skipped", "refused", "late", "yes", "no", "left_out", "failed"]


class _AnswerModel(Model):
    say: Sentence = optional("What the service says with it, in one sentence.", "The card was declined.")
    times: int = optional("How many tries in a row are answered so. Default 1.", 3, ge=1, le=1000)
    always: bool = optional("Every try is answered so.", True)


class GivesModel(_AnswerModel, title="gives", spoken="an answer"):
    """It goes well, and these are the fields that matter; the others are made up."""

    gives: Values = required("Fields of the action's output.", {"label": "Basic", "price": 12000})


class RefusedModel(_AnswerModel, title="refused", spoken="an answer"):
    """The service says no, and nothing happened."""

    refused: Refusal = required("Why.", "invalid")


class NotSentModel(_AnswerModel, title="not_sent", spoken="an answer"):
    """The service could not be reached."""

    not_sent: Sentence = required("Why, in one sentence.", "Nobody listens there.")


class UnknownModel(_AnswerModel, title="unknown", spoken="an answer"):
    """No answer comes. Whether it happened is what a look-up finds, and what a person sees who looks."""

    unknown: Literal["happened", "did not happen"] = required("What is so outside.", "happened")
    output: Values = optional("The fields that a look-up finds.", {"id": "pay_7"})


class FoundModel(_AnswerModel, title="found", spoken="an answer"):
    """`find` meets a record before the first try: it is not ours."""

    found: Values = required("Fields of the record.", {"id": "c_9"})


ANSWER_MODELS: dict[str, type[Model]] = {
    "gives": GivesModel,
    "refused": RefusedModel,
    "not_sent": NotSentModel,
    "unknown": UnknownModel,
    "found": FoundModel,
}
ServiceWord = Literal["done", "not_sent", "nothing_found", "several_found"]
_OneAnswer = Annotated[Any, Forms(ANSWER_MODELS, text=ServiceWord)]
ServiceField = Annotated[
    Any, Forms(ANSWER_MODELS, text=ServiceWord, list=Annotated[list[_OneAnswer], Field(min_length=1)])
]


class SaysModel(Model, title="says", spoken="what a person says"):
    """One answer of one person, in full."""

    say: Said = required("The answer.", "yes", "happened")
    by: Who = optional("Who says it. Default: the first who may.", "person:tom")
    after: DurationText = optional("How long they take. Default 1 min.", "3 hours")
    why: Sentence = optional("The comment, the reason or the reference.", "BANK-77")
    changes: Sentence = optional("With no: what should be changed.", "Name the price.")
    output: Values = optional("With happened: what came of it.", {"id": "pay_7"})
    edit: dict[Name, Values] = optional("With yes: new texts, by step and field.", {"answer": {"text": "Dear …"}})
    leave_out: list[int] = optional("With yes: the numbers of the items that are not to be done.", [2])


_OneSaying = Annotated[Any, Forms(text=Said, map=SaysModel)]
PersonField = Annotated[Any, Forms(text=Said, map=SaysModel, list=Annotated[list[_OneSaying], Field(min_length=1)])]


class ComesModel(Model, title="comes", spoken="an event"):
    """The event that a step waits for."""

    carries: Values = optional("Its fields; those of `match` are there by themselves.", {"condition": "good"})
    after: DurationText = optional("How long it takes. Default 1 min.", "3 days")


EventField = Annotated[Any, Forms(text=Literal["comes", "never"], map=ComesModel)]


class VoicesModel(Model):
    inputs: Values = optional("The flow's inputs.", {"email": "kato@customer.test"})
    now: Sentence = optional("When it starts, in the project's zone.", "2026-09-01 09:00")
    by: Who = optional("Who starts it. Default person:me.", "person:aya")
    key: Sentence = optional("What `trigger.id` is.", "signup-1")
    trigger: Values = optional("What else `trigger` has.", {"form": "signup"})
    mode: Literal["live", "draft"] = optional("Default live, whatever the flow says.", "draft")
    services: dict[Sentence, ServiceField] = optional(
        "What services say, by step; `undo pay` is the compensation of pay.", {"pay": {"refused": "invalid"}}
    )
    people: dict[Sentence, PersonField] = optional("What people say, by the step they are asked about.", {"go": "yes"})
    events: dict[Sentence, EventField] = optional("What comes, by the step that waits.", {"parcel": "comes"})


_Entry = Annotated[Any, Forms(text=Sentence, map=dict[Sentence, Values])]


class AtLeastModel(Model, title="at_least", spoken="at_least"):
    """These, in this order; others may stand between."""

    at_least: list[_Entry] = required("Steps.", ["welcome", {"paid": {"amount": 12000}}])


Entries = Annotated[Any, Forms(list=list[_Entry], map=AtLeastModel)]


class ExpectModel(Model, title="Expect", spoken="expect"):
    """What is expected. What is not mentioned may be as it likes; a list that is there is the whole list."""

    end: End = optional("How the run ends, or rests.", "compensated")
    because: Sentence = optional("A part of the sentence that says why it failed.", "card was declined")
    calls: Entries = optional("What was sent, in order: do steps, each with fields that it must have.", ["contact"])
    compensations: Entries = optional("What was made good by a call, in order.", ["task", "contact"])
    reads: Entries = optional("What was asked, in order.", [{"plan": {"code": "basic"}}])
    tries: dict[Sentence, int] = optional("How many tries a step took in all; 0: it was never sent.", {"pay": 1})
    outcomes: dict[Sentence, Outcome] = optional("What became of steps, as `outcome.x` says it.", {"contact": "found"})
    outputs: Values = optional("The flow's outputs, as far as they are named.", {"contact_id": "c_9"})
    stands: list[Sentence] = optional("The steps whose effect stands at the end, in any order.", ["pay"])
    in_doubt: list[Sentence] = optional("The steps of which nobody knows whether they happened.", ["pay"])
    asked: Entries = optional(
        "What people were asked, in order: approvals and hand-offs, with `of`, `question`, `say`, `why`, `show`.",
        ["go", {"undo paid": {"of": "team:finance"}}],
    )
    told: list[Who] = optional("Everybody who gets a message, in any order.", ["team:finance"])
    emits: Entries = optional("The events that were sent, in order.", [{"return.expected": {"order": "A-1"}}])
    set_aside: list[Sentence] = optional("The items of lists that were set aside, by name.", ["INV-2"])
    holds: list[Sentence] = optional("The records that other runs are kept off at the end.", ["payment/pay-1"])
    then: dict[Name, Values] = optional("The flow that follows, with inputs.", {"return_failed": {"order": "A-1"}})


class CaseModel(VoicesModel, title="Case", spoken="a case"):
    """One case: what is given, and what is expected."""

    case: Sentence = required("One sentence that tells this case from the others.", "The payment is refused")
    expect: ExpectModel = required("What is expected.", {"end": "succeeded"})


class GivenModel(VoicesModel, title="given", spoken="given"):
    """What holds in every case."""


class FlowTestModel(Model, title="Flow test", spoken="the flow test"):
    """The cases of one flow, in a file beside it: `signup.test.yaml` tests `signup.yaml`."""

    test: Name = required("The flow's id.", "signup_to_paid")
    given: GivenModel = optional("What holds in every case; a case may say otherwise.", {"now": "2026-09-01 09:00"})
    cases: list[CaseModel] = required("The cases.", min_length=1)


FORMS = by_tag(*ANSWER_MODELS.values(), SaysModel, ComesModel, AtLeastModel)
FORM_WORDS.update(services=tuple(ANSWER_MODELS))


@dataclass(frozen=True, kw_only=True, slots=True)
class Rehearsed:
    """A flow test that was read. `model` is there as far as anything could be made of it, even with problems."""

    file: str
    text: str
    model: FlowTestModel | None
    source: Source | None
    problems: tuple[Problem, ...]


def load_flow_test(text: str, file: str) -> Rehearsed:
    """Reads a flow test; all problems of reading and shape come back, by line."""
    source, problems = read(text, file)
    if source is None:
        return Rehearsed(file=file, text=text, model=None, source=None, problems=problems)
    stem = flow_of(file)
    fitted = fit(FlowTestModel, source, forms=FORMS, fill={"test": stem, "cases": []})
    found = [*problems, *(one for one in fitted.problems if one.line not in source.mended)]
    written = value_at(source.data, ("test",))
    if isinstance(written, str) and written != stem:
        what = f'the test is of "{written}" and its file "{PurePath(file).name}"'
        found.append(
            source.problem("FL006", ("test",), what, f"call the file {written}.test.yaml, or write test: {stem}")
        )
    found += _of_cases(fitted.model, source) if fitted.model is not None and not found else ()
    found.sort(key=lambda one: (one.line, one.column, one.code))
    return Rehearsed(file=file, text=text, model=fitted.model, source=source, problems=tuple(found))


def _of_cases(model: FlowTestModel, source: Source) -> Iterator[Problem]:
    """Cases that are called alike, and cases that cannot fail."""
    seen: dict[str, int] = {}
    for number, case in enumerate(model.cases):
        path = ("cases", number)
        if case.case in seen:
            first = source.at(("cases", seen[case.case], "case")).line
            what = f'another case is called "{case.case}" (line {first})'
            yield source.problem("FL001", (*path, "case"), what, "say what tells them apart")
        seen.setdefault(case.case, number)
        if not case.expect.model_fields_set:
            yield source.problem("FL005", (*path, "expect"), "nothing is expected here", "for example end: succeeded")
