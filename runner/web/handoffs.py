"""Hand-offs: the list, the packet of one with everything its owner needs, and a page for each answer.

Somebody who is signed in finds them by run; the link of a mail opens one of them to whoever has proved by a code to be
the person it was sent to, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.contract import Json
from runner.core.state import HandOff
from runner.errors import AlreadySo, NotFound, NotPossible
from runner.language.fields import typed_value
from runner.people.asked import first_failure
from runner.people.operations import NEEDS_WORDS, Order, alike
from runner.recorded import retold
from runner.store import notices, outbox
from runner.telling import sent, words
from runner.telling.ahead import to_come
from runner.telling.consequences import MAKES_GOOD, consequence, made_good
from runner.telling.questions import asks, call_of, completed, label_of, rule_of, to_give, what_was_sent
from runner.telling.story import Clock, Story, chosen
from runner.tongue import _, marked
from runner.web import proofs
from runner.web.console import Console, console_of
from runner.web.guard import Anyone, Caller, Refused, SignedIn, form_of, name_of
from runner.web.lists import effects, mine_of, notice, rows_of, standing
from runner.web.proofs import is_proved, notice_at
from runner.web.render import go, page

ROUTES = APIRouter()
GOES_ON = ("happened", "did_not", "again", "retry", "skip", "go_on")
"""Answers after which the run goes on."""
LOOK = marked(
    "Nobody knows whether it happened. Look there before you answer: for our reference, or for what was sent."
)
LOOK_BARE = marked(
    "Nobody knows whether it happened. Look there before you answer, for what was sent: this service gets no "
    "reference of ours."
)
PROVE = marked("Prove first who you are.")
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """How somebody has come to a question: `home` is its page for them, `caller` who they are, `door` who their browser
    is to the pages around it (nobody, for whoever came by a code)."""

    run: str
    handoff: str
    home: str
    caller: Caller
    door: Caller


def _signed_in(caller: Caller, run: str, handoff: str) -> Way:
    return Way(run=run, handoff=handoff, home=f"/handoffs/{run}/{handoff}", caller=caller, door=caller)


def _by_link(request: Request, caller: Caller, locator: str) -> Way | None:
    """The way of whoever has proved to be the person of a link; None for anybody else. Raises Refused."""
    console = console_of(request)
    notice = notice_at(console, locator, is_handoff=True)
    if not is_proved(request, notice):
        return None
    person = Caller(person=notice.person, name=name_of(console, notice.person))
    door = Caller(csrf=caller.csrf)
    return Way(run=notice.run, handoff=notice.handoff, home=f"/handoff/{locator}", caller=person, door=door)


# --- by a link --------------------------------------------------------------------------------------------------------


@ROUTES.get("/handoff/{locator}")
def open_link(request: Request, caller: Anyone, locator: str, said: str = "", reveal: bool = False) -> Response:
    """The neutral page; for whoever has proved to be the person, the packet."""
    notice = notice_at(console_of(request), locator, is_handoff=True)
    if caller.person == notice.person or caller.sees:
        return go(request, f"/handoffs/{notice.run}/{notice.handoff}")
    way = _by_link(request, caller, locator)
    return _packet(request, way, said, reveal) if way is not None else _door(request, caller, locator)


@ROUTES.post("/handoff/{locator}/code")
async def send_code(request: Request, caller: Anyone, locator: str) -> Response:
    """Mails a code to the person's address."""
    notice = notice_at(console_of(request), locator, is_handoff=True)
    return await proofs.send_code(request, caller, notice, f"/handoff/{locator}")


@ROUTES.post("/handoff/{locator}/open")
async def use_code(request: Request, caller: Anyone, locator: str) -> Response:
    """Takes a code: from here on this browser opens this hand-off."""
    notice = notice_at(console_of(request), locator, is_handoff=True)
    taken = await proofs.take_code(request, caller, notice, f"/handoff/{locator}")
    return taken if isinstance(taken, Response) else _door(request, caller, locator, taken)


@ROUTES.post("/handoff/{locator}/acknowledge")
async def acknowledge_by_link(request: Request, caller: Anyone, locator: str) -> Response:
    """Somebody is looking at it."""
    way = _by_link(request, caller, locator)
    return await _acknowledge(request, way) if way is not None else _door(request, caller, locator, PROVE)


@ROUTES.get("/handoff/{locator}/{choice}")
def ask_by_link(request: Request, caller: Anyone, locator: str, choice: str) -> Response:
    """One answer: what it will do, what it needs, and its button."""
    way = _by_link(request, caller, locator)
    return _asking(request, way, choice) if way is not None else _door(request, caller, locator)


@ROUTES.post("/handoff/{locator}/{choice}")
async def answer_by_link(request: Request, caller: Anyone, locator: str, choice: str) -> Response:
    """Gives the answer."""
    way = _by_link(request, caller, locator)
    return await _answer(request, way, choice) if way is not None else _door(request, caller, locator, PROVE)


def _door(request: Request, caller: Caller, locator: str, text: str = "") -> Response:
    """That somebody is asked, without a word of what; `text` says why it does not open."""
    console = console_of(request)
    notice = notice_at(console, locator, is_handoff=True)
    state = console.amends.state(notice.run)[1]
    asked = state.handoffs.get(notice.handoff)
    is_open = asked is not None and asked in state.open_handoffs and not state.has_ended
    about = (
        _("What it is about is shown once you have proved who you are.")
        if is_open
        else _("This question is not open any more. What became of it is shown once you have proved who you are.")
    )
    return proofs.door(
        request, caller, notice, f"/handoff/{locator}", _("A run needs a person"), about, text=_(text),
        code=403 if text else 200,
    )  # fmt: skip


# --- signed in --------------------------------------------------------------------------------------------------------


@ROUTES.get("/handoffs/{run}/{handoff}")
def show(request: Request, caller: SignedIn, run: str, handoff: str, said: str = "", reveal: bool = False) -> Response:
    """The packet: what was done, where it stopped and why, what stands, the rule, the choices."""
    return _packet(request, _signed_in(caller, run, handoff), said, reveal)


@ROUTES.post("/handoffs/{run}/{handoff}/acknowledge")
async def acknowledge(request: Request, caller: SignedIn, run: str, handoff: str) -> Response:
    """Somebody is looking at it."""
    return await _acknowledge(request, _signed_in(caller, run, handoff))


@ROUTES.get("/handoffs/{run}/{handoff}/{choice}")
def ask(request: Request, caller: SignedIn, run: str, handoff: str, choice: str) -> Response:
    """One answer: what it will do, what it needs, and its button."""
    return _asking(request, _signed_in(caller, run, handoff), choice)


@ROUTES.post("/handoffs/{run}/{handoff}/{choice}")
async def answer(request: Request, caller: SignedIn, run: str, handoff: str, choice: str) -> Response:
    """Gives the answer."""
    return await _answer(request, _signed_in(caller, run, handoff), choice)


# --- either way -------------------------------------------------------------------------------------------------------


def _packet(request: Request, way: Way, said: str, reveal: bool) -> Response:
    console = console_of(request)
    story, asked = _asked(console, way)
    may_answer = _may_answer(console, way)
    if reveal and may_answer:
        story = console.story(way.run, reveal=True)
        asked = story.state.handoffs[way.handoff]
    is_of_flow, is_open = asked.kind == "step", asked in story.state.open_handoffs and story.is_asked
    why, first = _why(asked), first_failure(story.state, asked)
    title = question(story, asked)
    nexts = [] if is_open else _nexts(console, way, story)
    form = marked("Answered: {question}") if asked.by else marked("Not asked any more: {question}")
    answer = page(
        request, way.door, "handoff", home=way.home, story=story, view=story.view, asked=asked,
        nexts=[(path, question(story, each), _why(each)) for path, each in nexts],
        question=title if is_open else _(form, question=title), is_open=is_open, status=standing(console, story),
        clock=Clock(story), rule=rule_of(story, asked),
        first=words.sentence(_("Step {step} failed: {why}", step=story.place(first.step), why=retold(first.summary)))
        if first else "",
        why=words.sentence(_("While that was made good: {why}", why=retold(asked.summary))) if first and why else why,
        hint=_look(story, asked),
        note="" if is_of_flow else words.sentence(asked.say),
        known=known_of(story, asked), unknown=story.unknown, effects=effects(story), notice=notice(said, asked.kind),
        show=[(name, sent.value(value)) for name, value in asked.show.items()], choices=choices(story, asked),
        lines=chosen(story), answer=words.answered(asked.choice, asked.kind),
        may_answer=may_answer,
    )  # fmt: skip
    if way.door is not way.caller:
        proofs.carry_over(request, answer, [path for path, _each in nexts if path])
    return answer


def _look(story: Story, asked: HandOff) -> str:
    """What to look for, where nobody knows what became of a call."""
    if asked.kind not in ("unknown", "compensation_unknown"):
        return ""
    return _(LOOK if story.reference(asked.step, call_of(story, asked)[0], asked.part) else LOOK_BARE)


def _why(asked: HandOff) -> str:
    """Why it is asked, where the question does not say it itself."""
    return "" if asked.kind == "step" else words.sentence(retold(asked.summary))


def _nexts(console: Console, way: Way, story: Story) -> list[tuple[str, HandOff]]:
    """The run's questions that are open now and asked of them, each with its page; that is empty as long as its mail
    is not on its way to somebody who came by a link."""
    views = console.store.handoffs(run=way.run) if story.is_asked else []
    mine = {view.handoff for view in (views if way.caller.operates else mine_of(console, way.caller, views))}
    found = [each for each in story.state.open_handoffs if each.id in mine]
    if way.door is way.caller:
        return [(f"/handoffs/{way.run}/{each.id}", each) for each in found]
    told = console.store.ask(notices.of_run(way.run))
    pages = {one.handoff: f"/handoff/{one.locator}" for one in told if one.person == way.caller.person}
    return [(pages.get(each.id, ""), each) for each in found]


def known_of(story: Story, asked: HandOff) -> Mapping[str, str]:
    """What one needs to look a call up, with what the call does in words."""
    found, name = what_was_sent(story, asked), _("Call")
    if found.get(name) in story.bundle.actions:
        title = words.action_title(story.bundle.actions, found[name])
        found[name] = _("{what} ({by})", what=title, by=found[name]) if title != found[name] else title
    return found


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


async def _acknowledge(request: Request, way: Way) -> Response:
    console = console_of(request)
    _answering(console, way)
    await console.act(way.run, Order(action="acknowledge", by=way.caller.person, handoff=way.handoff))
    return go(request, f"{way.home}?said=seen")


def _asking(request: Request, way: Way, choice: str) -> Response:
    story, asked = _answering(console_of(request), way, choice)
    return _form(request, way, story, asked, choice, {}, "")


async def _answer(request: Request, way: Way, choice: str) -> Response:
    console, form = console_of(request), await form_of(request)
    story, asked = _answering(console, way, choice)
    given = {name: words.plain(form.get(name, ""))[:LONGEST] for name in ("reason", "reference", "external_id")}
    if choice in NEEDS_WORDS and not (given["reason"] or given["reference"]):
        return _form(request, way, story, asked, choice, form, _("Say why, or where it can be looked up."))
    output = _output(story, asked, form) if choice == "happened" else {}
    try:
        order = Order(action=choice, by=way.caller.person, handoff=way.handoff, output=output, **given)
        order = completed(console.story(way.run, reveal=True), order) if choice == "happened" else order
        others = {each.id for each in _others(console, way, story, asked, choice)}
        await console.act(way.run, order)
        await _answer_too(console, way, order, [each for each in form.get("alike", "").split() if each in others])
    except NotPossible as error:
        if asked not in console.story(way.run).state.open_handoffs:
            raise
        return _form(request, way, story, asked, choice, form, words.sentence(retold(str(error))))
    if way.door is not way.caller:
        for _path, each in _nexts(console, way, console.story(way.run)):
            name = f"{notices.HANDOFF}{each.id}"
            await console.store.write(notices.tell(way.run, name, 1, [way.caller.person], console.now))
    return go(request, f"{way.home}?said={choice}")


async def _answer_too(console: Console, way: Way, order: Order, others: Sequence[str]) -> None:
    """The same answer to these questions, each for itself. Raises NotPossible where that fits one no more."""
    wrong = []
    for each in others:
        try:
            await console.act(way.run, replace(order, handoff=each))
        except AlreadySo:
            continue
        except NotPossible as error:
            wrong.append(retold(str(error)))
    if wrong:
        raise NotPossible(_("{count} of the others were not answered: {why}", count=len(wrong), why=wrong[0]))


def _others(console: Console, way: Way, story: Story, asked: HandOff, choice: str) -> list[HandOff]:
    """The questions that the same answer may be given to; none for whoever came by the link of this one."""
    found = alike(story.state, asked, choice) if way.door is way.caller else []
    views = console.store.handoffs(run=way.run) if found and not way.caller.operates else []
    mine = {view.handoff for view in mine_of(console, way.caller, views)}
    return [each for each in found if way.caller.operates or each.id in mine]


def _form(
    request: Request, way: Way, story: Story, asked: HandOff, choice: str, given: Mapping[str, str], text: str
) -> Response:
    label = words.capital(label_of(story, asked, choice))
    call = call_of(story, asked)[1]
    return page(
        request, way.door, "answer", home=way.home, story=story, view=story.view, asked=asked, choice=choice,
        label=label, given=given,
        question=question(story, asked), does=consequence(story, choice, asked), text=text,
        fields=to_give(story, asked) if choice == "happened" else [], needs_words=choice in NEEDS_WORDS,
        takes_id=choice == "happened" and call is not None and not sent.own_answer(call.request),
        code=422 if text else 200, ahead=to_come(story) if choice in GOES_ON else (),
        good=made_good(story) if choice in MAKES_GOOD else (),
        others=[
            (each.id, story.place(each.step), ", ".join(what_was_sent(story, each).values()))
            for each in _others(console_of(request), way, story, asked, choice)
        ],
    )  # fmt: skip


def _output(story: Story, asked: HandOff, form: Mapping[str, str]) -> dict[str, Json]:
    """The fields of the answer, as their types want them."""
    call = call_of(story, asked)[1]
    action = story.bundle.actions.get(call.action) if call is not None else None
    fields = action.output if action is not None else {}
    given = {name: form.get(f"field.{name}", "").strip() for name in to_give(story, asked)}
    return {name: typed_value(text, fields.get(name, "text")) for name, text in given.items() if text}


def _asked(console: Console, way: Way) -> tuple[Story, HandOff]:
    """The run and the question. Raises NotFound, and Refused for somebody whom it does not concern."""
    caller, run, handoff = way.caller, way.run, way.handoff
    view = next((each for each in console.store.handoffs(run=run, open_only=False) if each.handoff == handoff), None)
    if view is None:
        raise NotFound(_("There is no such question."))
    was_told = (run, handoff) in console.store.ask(outbox.told_of(caller.person))
    if not caller.sees and not was_told and not mine_of(console, caller, [view]):
        raise Refused(403, _("This is asked of somebody else."))
    story = console.story(run)
    return story, story.state.handoffs[handoff]


def _may_answer(console: Console, way: Way) -> bool:
    found = [each for each in console.store.handoffs(run=way.run, open_only=False) if each.handoff == way.handoff]
    return way.caller.operates or bool(mine_of(console, way.caller, found))


def _answering(console: Console, way: Way, choice: str = "") -> tuple[Story, HandOff]:
    """The same, for somebody who may answer it now. Raises NotPossible where it is answered already."""
    story, asked = _asked(console, way)
    if not _may_answer(console, way):
        raise Refused(403, _("This is asked of {owner}; only they or an operator can answer.", owner=asked.owner))
    if asked not in story.state.open_handoffs or story.state.has_ended:
        said = words.answered(asked.choice, asked.kind) or _("by the end of the run")
        raise NotPossible(_("This is answered already: {what}", what=said) + (f" ({asked.by})" if asked.by else ""))
    if choice and choice not in asked.choices:
        raise NotFound(_("There is no such answer to this question."))
    return story, asked
