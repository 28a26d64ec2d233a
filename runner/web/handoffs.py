"""Hand-offs: the list, the packet of one with everything its owner needs, and a page for each answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.contract import Json
from runner.core.state import HandOff
from runner.errors import NotFound, NotPossible
from runner.language.fields import typed_value
from runner.people.operations import Order
from runner.recorded import retold
from runner.store import outbox
from runner.telling import sent, words
from runner.telling.consequences import MAKES_GOOD, consequence, made_good
from runner.telling.questions import asks, call_of, completed, label_of, to_give, what_was_sent
from runner.telling.story import Clock, Story, chosen
from runner.tongue import _
from runner.web.console import Console, console_of
from runner.web.guard import Caller, Refused, SignedIn, form_of
from runner.web.lists import effects, mine_of, notice, rows_of, standing
from runner.web.render import go, page

ROUTES = APIRouter()
NEEDS_WORDS = ("skip", "done", "stands")
"""Answers that need a reason or a reference."""
LONGEST = 1_000


@ROUTES.get("/handoffs")
def handoffs(request: Request, caller: SignedIn, everything: bool = False) -> Response:
    """Open questions, oldest first; everybody's for those who may see them."""
    console = console_of(request)
    found = console.store.handoffs(open_only=not everything)
    mine = mine_of(console, caller, found)
    others = [each for each in found if each not in mine] if caller.sees else []
    return page(
        request, caller, "handoffs", mine=rows_of(console, mine), others=rows_of(console, others),
        everything=everything,
    )  # fmt: skip


@ROUTES.get("/handoffs/{run}/{handoff}")
def show(request: Request, caller: SignedIn, run: str, handoff: str, said: str = "", reveal: bool = False) -> Response:
    """The packet: what was done, where it stopped and why, what stands, the rule, the choices."""
    console = console_of(request)
    story, asked = _asked(console, caller, run, handoff)
    may_answer = _may_answer(console, caller, run, handoff)
    if reveal and may_answer:
        story = console.story(run, reveal=True)
        asked = story.state.handoffs[handoff]
    step = story.bundle.steps.get(asked.step.rpartition("/")[2])
    is_of_flow = asked.kind == "step"
    return page(
        request, caller, "handoff", story=story, view=story.view, asked=asked, question=question(story, asked),
        is_open=asked in story.state.open_handoffs and story.is_asked, status=standing(console, story),
        clock=Clock(story), rule=words.sentence(step.rule) if step is not None else "",
        why="" if is_of_flow else words.sentence(retold(asked.summary)),
        note="" if is_of_flow else words.sentence(asked.say),
        known=what_was_sent(story, asked), unknown=story.unknown, effects=effects(story), notice=notice(said),
        show=[(name, sent.value(value)) for name, value in asked.show.items()], choices=choices(story, asked),
        lines=chosen(story), answer=words.answered(asked.choice),
        may_answer=may_answer,
    )  # fmt: skip


def question(story: Story, asked: HandOff) -> str:
    """What is asked: in the author's words where the flow itself hands over."""
    return words.capital(words.plain(asked.say) if asked.kind == "step" and asked.say else asks(story, asked))


def choices(story: Story, handoff: HandOff) -> Sequence[dict[str, str]]:
    """The answers, each with what it will do."""
    return [
        {
            "name": name,
            "label": words.capital(label_of(story, handoff, name)),
            "does": consequence(story, name, handoff),
        }
        for name in handoff.choices
    ]


@ROUTES.post("/handoffs/{run}/{handoff}/acknowledge")
async def acknowledge(request: Request, caller: SignedIn, run: str, handoff: str) -> Response:
    """Somebody is looking at it."""
    console = console_of(request)
    _answering(console, caller, run, handoff)
    await console.act(run, Order(action="acknowledge", by=caller.person, handoff=handoff))
    return go(request, f"/handoffs/{run}/{handoff}?said=seen")


@ROUTES.get("/handoffs/{run}/{handoff}/{choice}")
def ask(request: Request, caller: SignedIn, run: str, handoff: str, choice: str) -> Response:
    """One answer: what it will do, what it needs, and its button."""
    story, asked = _answering(console_of(request), caller, run, handoff, choice)
    return _form(request, caller, story, asked, choice, {}, "")


@ROUTES.post("/handoffs/{run}/{handoff}/{choice}")
async def answer(request: Request, caller: SignedIn, run: str, handoff: str, choice: str) -> Response:
    """Gives the answer."""
    console, form = console_of(request), await form_of(request)
    story, asked = _answering(console, caller, run, handoff, choice)
    given = {name: words.plain(form.get(name, ""))[:LONGEST] for name in ("reason", "reference", "external_id")}
    if choice in NEEDS_WORDS and not (given["reason"] or given["reference"]):
        return _form(request, caller, story, asked, choice, form, _("Say why, or where it can be looked up."))
    output = _output(story, asked, form) if choice == "happened" else {}
    try:
        order = Order(action=choice, by=caller.person, handoff=handoff, output=output, **given)
        order = completed(console.story(run, reveal=True), order) if choice == "happened" else order
        await console.act(run, order)
    except NotPossible as error:
        if asked not in console.story(run).state.open_handoffs:
            raise
        return _form(request, caller, story, asked, choice, form, words.sentence(retold(str(error))))
    return go(request, f"/handoffs/{run}/{handoff}?said={choice}")


def _form(
    request: Request, caller: Caller, story: Story, asked: HandOff, choice: str, given: Mapping[str, str], text: str
) -> Response:
    label = words.capital(label_of(story, asked, choice))
    call = call_of(story, asked)[1]
    action = story.bundle.actions.get(call.action) if call is not None else None
    return page(
        request, caller, "answer", story=story, view=story.view, asked=asked, choice=choice, label=label, given=given,
        question=question(story, asked), does=consequence(story, choice, asked), text=text,
        fields=to_give(story, asked) if choice == "happened" else [], needs_words=choice in NEEDS_WORDS,
        takes_id=choice == "happened" and action is not None, code=422 if text else 200,
        good=made_good(story) if choice in MAKES_GOOD else (),
    )  # fmt: skip


def _output(story: Story, asked: HandOff, form: Mapping[str, str]) -> dict[str, Json]:
    """The fields of the answer, as their types want them."""
    call = call_of(story, asked)[1]
    action = story.bundle.actions.get(call.action) if call is not None else None
    fields = action.output if action is not None else {}
    given = {name: form.get(f"field.{name}", "").strip() for name in to_give(story, asked)}
    return {name: typed_value(text, fields.get(name, "text")) for name, text in given.items() if text}


def _asked(console: Console, caller: Caller, run: str, handoff: str) -> tuple[Story, HandOff]:
    """The run and the question. Raises NotFound, and Refused for somebody whom it does not concern."""
    view = next((each for each in console.store.handoffs(run=run, open_only=False) if each.handoff == handoff), None)
    if view is None:
        raise NotFound(_("There is no such question."))
    was_told = (run, handoff) in console.store.ask(outbox.told_of(caller.person))
    if not caller.sees and not was_told and not mine_of(console, caller, [view]):
        raise Refused(403, _("This is asked of somebody else."))
    story = console.story(run)
    return story, story.state.handoffs[handoff]


def _may_answer(console: Console, caller: Caller, run: str, handoff: str) -> bool:
    found = [each for each in console.store.handoffs(run=run, open_only=False) if each.handoff == handoff]
    return caller.operates or bool(mine_of(console, caller, found))


def _answering(console: Console, caller: Caller, run: str, handoff: str, choice: str = "") -> tuple[Story, HandOff]:
    """The same, for somebody who may answer it now. Raises NotPossible where it is answered already."""
    story, asked = _asked(console, caller, run, handoff)
    if not _may_answer(console, caller, run, handoff):
        raise Refused(403, _("This is asked of {owner}; only they or an operator can answer.", owner=asked.owner))
    if asked not in story.state.open_handoffs or story.state.has_ended:
        said = words.answered(asked.choice) or _("by the end of the run")
        raise NotPossible(_("This is answered already: {what}", what=said) + (f" ({asked.by})" if asked.by else ""))
    if choice and choice not in asked.choices:
        raise NotFound(_("There is no such answer to this question."))
    return story, asked
