"""The review pages: what waits for somebody's decision, exactly what will leave, and the buttons that decide.

A locator leads here and proves nothing. Whoever opens it proves for whom: by a code mailed to that person's address,
good for this browser and this locator, or by being signed in as that person. Looking changes no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.contract import Json
from runner.core import events as e
from runner.core.fold import fold
from runner.core.gates import wish_of
from runner.core.state import Gate, State
from runner.core.state import replace as renewed
from runner.errors import NotPossible
from runner.people.approvals import Decision, items_of
from runner.people.present import present
from runner.recorded import retold
from runner.store import notices
from runner.store.notices import Notice
from runner.telling import approval, words
from runner.telling.odd import visible
from runner.telling.story import Story
from runner.tongue import _, marked, point
from runner.web import proofs
from runner.web.console import Console, console_of
from runner.web.files import download, links
from runner.web.guard import Anyone, Caller, Refused, Sees, form_of
from runner.web.lists import standing, too_few
from runner.web.proofs import is_proved, notice_at
from runner.web.render import go, page, who
from runner.web.shell import POLICY

ROUTES = APIRouter()
LONGEST = 1_000
SHOWN, MOST = 50, 200
ANSWERS = ("yes", "no", "changes", "look")
BECAME = {
    "yes": marked("This was decided: yes."),
    "no": marked("This was decided: no."),
    "late": marked("The time to decide is over. Silence was a no."),
    "lapsed": marked("This has lapsed: something has changed since. If it is asked again, you get a new mail."),
    "withdrawn": marked("This was withdrawn: the run does not go that way any more."),
}
WITH_STYLES = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""Where a mail is shown as it will look: its own styles hold inside its frame, and nothing else is let in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question that waits for somebody: `path` is its page, `until` (ms since the epoch) when silence is a no."""

    question: str
    path: str
    until: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """An approval as it stands: the fact that asked for it, its gate, what has become of it (empty: it is open).

    `lapsed` is why the one before is no longer good, `before` what it let through.
    """

    notice: Notice
    story: Story
    gate: Gate
    event: e.ApprovalRequested
    ended: str = ""
    lapsed: str = ""
    before: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


def waiting_for(console: Console, caller: Caller) -> Sequence[Question]:
    """The open decisions of somebody, the most urgent first."""
    found = []
    for notice in console.store.ask(notices.open_for(caller.person))[-SHOWN * 4 :]:
        _bundle, state = console.amends.state(notice.run)
        gate = state.gates.get(notice.about)
        if gate is None or _ended(console, notice, gate) or any(yes.by == caller.person for yes in gate.yes):
            continue
        text = approval.question_of(console.amends, notice.run, gate)
        found.append(Question(question=text, path=f"/review/{notice.locator}", until=gate.due))
    return sorted(found, key=lambda each: each.until)[:SHOWN]


@ROUTES.get("/approvals")
def approvals(request: Request, caller: Sees) -> Response:
    """Everything that waits for somebody's yes, the most urgent first."""
    console = console_of(request)
    found = sorted(approval.open_gates(console.amends), key=lambda each: each[2].due)
    rows = [
        (
            run, console.amends.state(run)[0].flow.title, gate, ", ".join(who(console, each) for each in gate.by),
            approval.question_of(console.amends, run, gate),
        )
        for run, _name, gate in found[:MOST]
    ]  # fmt: skip
    mine = waiting_for(console, caller)
    return page(request, caller, "approvals", rows=rows, left=len(found) - len(rows), decisions=mine)


# --- pages -----------------------------------------------------------------------------------------------------------


@ROUTES.get("/review/{locator}")
async def show(request: Request, caller: Anyone, locator: str) -> Response:
    """The neutral page; or, for whoever has proved to be the person, everything."""
    console = console_of(request)
    notice = notice_at(console, locator)
    return await _sheet(request, caller, notice) if _proof(request, caller, notice) else _door(request, caller, notice)


@ROUTES.get("/review/{locator}/file/{digest}")
def file(request: Request, caller: Anyone, locator: str, digest: str) -> Response:
    """A file that this approval shows, for whoever has proved to be the person, while it is open."""
    console = console_of(request)
    notice = notice_at(console, locator)
    if not _proof(request, caller, notice):
        return _door(request, caller, notice, text=_("Prove first who you are."), code=403)
    asked = _asked(console, notice)
    if asked.ended:
        raise Refused(409, _(BECAME[asked.ended]))
    return download(console, asked.event.shown, digest)


@ROUTES.post("/review/{locator}/code")
async def send_code(request: Request, caller: Anyone, locator: str) -> Response:
    """Mails a code to the person's address."""
    console = console_of(request)
    notice = notice_at(console, locator)
    if _state_of(console, notice)[1]:
        return go(request, f"/review/{locator}")
    if _demands_sign_in(console, notice):
        raise Refused(409, _("A code by mail does not open this. Sign in instead."))
    return await proofs.send_code(request, caller, notice, f"/review/{locator}")


@ROUTES.post("/review/{locator}/open")
async def use_code(request: Request, caller: Anyone, locator: str) -> Response:
    """Takes a code: from here on this browser has proved for whom it opens this locator."""
    notice = notice_at(console_of(request), locator)
    taken = await proofs.take_code(request, caller, notice, f"/review/{locator}")
    return taken if isinstance(taken, Response) else _door(request, caller, notice, text=taken, code=403)


@ROUTES.post("/review/{locator}/decide")
async def decide(request: Request, caller: Anyone, locator: str) -> Response:
    """Records the decision, or shows what was edited as it will be sent."""
    console, form = console_of(request), await form_of(request)
    notice = notice_at(console, locator)
    proof = _proof(request, caller, notice)
    if not proof:
        return _door(request, caller, notice, text=_("Prove first who you are."), code=403)
    answer, comment = form.get("answer", ""), words.plain(form.get("comment", ""))
    if answer not in ANSWERS or len(comment) > LONGEST:
        text = (
            _("A comment has at most {count} characters.", count=LONGEST) if comment else _("Press one of the buttons.")
        )
        return await _sheet(request, caller, notice, form, text=text, code=422)
    if answer == "changes" and not comment:
        return await _sheet(request, caller, notice, form, text=_("Say what should be changed."), code=422, lacks=True)
    try:
        asked = _asked(console, notice)
        edits = _edits(asked, form) if answer in ("yes", "look") else {}
        if answer == "look" or (edits and form.get("seen", "") == ""):
            return await _sheet(request, caller, notice, form)
        decision = Decision(
            approval=notice.about, round=_number(form.get("round", "")), hash=form.get("hash", ""),
            answer="yes" if answer == "yes" else "changes" if answer == "changes" else "no", by=notice.person,
            proof=proof, comment=comment, edits=edits,
            seen=form.get("seen", ""), left_out=_left_out(asked, form) if answer == "yes" else (),
        )  # fmt: skip
        await console.decide(notice.run, decision)
    except NotPossible as error:
        return await _sheet(request, caller, notice, form, text=words.sentence(retold(str(error))), code=409)
    return go(request, f"/review/{locator}")


def _door(request: Request, caller: Caller, notice: Notice, *, text: str = "", code: int = 200) -> Response:
    """What waits and for whom, without a word of its content."""
    console = console_of(request)
    gate, ended = _state_of(console, notice)
    until = point(gate.due, console.zone)
    about = _("Open until {time}. What it is about is shown once you have proved who you are.", time=until)
    home, heading = f"/review/{notice.locator}", _("An approval is asked for")
    return proofs.door(
        request, caller, notice, home, heading, about, ended=_(BECAME.get(ended, "")),
        takes_code=not _demands_sign_in(console, notice), text=text, code=code,
    )  # fmt: skip


async def _sheet(
    request: Request, caller: Caller, notice: Notice, form: Mapping[str, str] | None = None, *, text: str = "",
    code: int = 200, lacks: bool = False,
) -> Response:  # fmt: skip
    """The whole page. `form` is what was sent and is shown again; it `lacks` the comment where one is needed."""
    console, given = console_of(request), form or {}
    asked = _asked(console, notice)
    if asked.ended:
        return _over(request, caller, asked, code)
    edits = _edits(asked, given)
    try:
        new = console.driver.preview(asked.story.bundle, asked.story.state, notice.about, edits)
    except NotPossible as error:
        if not edits:
            raise
        text, code, edits = words.sentence(retold(str(error))), 409, {}
        new = console.driver.preview(asked.story.bundle, asked.story.state, notice.about, {})
    there = await present(
        asked.story.bundle, asked.story.state, notice.about, new.inputs,
        partial(console.driver.outside.connector, asked.story.bundle), console.store, now=console.now,
        held=console.driver.engine.limits.held,
    )  # fmt: skip
    told = approval.paper(asked.story, notice.about, asked.event, new, asked.before, there)
    was = approval.editable(asked.story, notice.about)
    answer = page(
        request, caller, "review", code=code, text=text, paper=told, asked=asked, gate=asked.gate, given=given,
        short=too_few(console, asked.story, notice.about), view=asked.story.view,
        starter=approval.started_by(asked.story, partial(who, console)), seen=new.seen if edits else "",
        mine=next((yes for yes in asked.gate.yes if yes.by == notice.person), None), locator=notice.locator,
        files=links(asked.event.shown), left_out=_left_out(asked, given) if given else (), is_edited=bool(edits),
        longest=LONGEST, lacks=lacks,
        edits=[(number, path, name, given.get(f"edit.{number}", now)) for number, (path, name, now) in enumerate(was)],
    )  # fmt: skip
    answer.headers["Content-Security-Policy"] = WITH_STYLES
    return answer


def _over(request: Request, caller: Caller, asked: Asked, code: int) -> Response:
    """What has become of a question that is not open any more."""
    console, notice, gate = console_of(request), asked.notice, asked.gate
    newer = next((one for one in console.store.ask(notices.of_run(notice.run, notice.about, gate.round))
                  if one.person == notice.person and one.round > notice.round), None)  # fmt: skip
    return page(
        request, caller, "review_over", code=code, ended=_(BECAME[asked.ended]), gate=gate,
        view=asked.story.view, wish=wish_of(gate.comment), question=visible(str(asked.event.shown.get("question", ""))),
        status=standing(console, asked.story),
        newer=newer.locator if newer is not None else "", is_told=asked.ended in ("yes", "no"),
    )  # fmt: skip


# --- who asks, and for what ------------------------------------------------------------------------------------------


def _proof(request: Request, caller: Caller, notice: Notice) -> str:
    """How this browser has proved to be the person's: sign_in, link, code, or empty where that is not enough."""
    console = console_of(request)
    if caller.person == notice.person:
        return "sign_in" if caller.has_signed_in else "" if _demands_sign_in(console, notice) else "link"
    return "code" if is_proved(request, notice) and not _demands_sign_in(console, notice) else ""


def _demands_sign_in(console: Console, notice: Notice) -> bool:
    bundle, state = console.amends.state(notice.run)
    return console.driver.desk.demands_sign_in(bundle, _with_gate(console, notice, state), notice.about)


def _state_of(console: Console, notice: Notice) -> tuple[Gate, str]:
    gate = _with_gate(console, notice, console.amends.state(notice.run)[1]).gates[notice.about]
    return gate, _ended(console, notice, gate)


def _with_gate(console: Console, notice: Notice, state: State) -> State:
    """The state with the gate of the question: one that stood in an item of a list has left with its item."""
    if notice.about in state.gates:
        return state
    past = State()
    for event in console.store.events_of(notice.run, *approval.HISTORY):
        if getattr(event, "approval", "") == notice.about:
            past = fold(past, event)
    gate = past.gates.get(notice.about)
    if gate is None:
        raise NotPossible(_("What was asked here was erased."))
    gate = renewed(gate, status="withdrawn") if gate.status == "open" else gate
    return renewed(state, gates={**state.gates, notice.about: gate})


def _ended(console: Console, notice: Notice, gate: Gate) -> str:
    """Why a question is not open any more; empty where it is."""
    if gate.round != notice.round:
        return "lapsed"
    return gate.status if gate.status != "open" else "late" if console.now >= gate.due else ""


def _asked(console: Console, notice: Notice) -> Asked:
    """Everything about a question. Raises Refused for somebody who may not decide it any more."""
    told = console.story(notice.run, reveal=True)
    story = replace(told, state=_with_gate(console, notice, told.state))
    state, gate = story.state, story.state.gates[notice.about]
    ended, log = _ended(console, notice, gate), console.store.events_of(story.view.run, *approval.HISTORY)
    asked, before, lapsed = approval.history(log, notice.about, notice.round)
    if asked is None or not asked.shown:
        raise NotPossible(_("What was asked here was erased."))
    entitled = console.driver.desk.entitled(story.bundle, state, gate.by, console.now)
    if not ended and notice.person not in entitled:
        raise Refused(403, _("This is not asked of you any more."))
    left = {path: given for path, given in before.items() if path not in gate.used}
    return Asked(notice=notice, story=story, gate=gate, event=asked, ended=ended, lapsed=lapsed, before=left)


# --- what was sent ---------------------------------------------------------------------------------------------------


def _edits(asked: Asked, form: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The texts that somebody has changed: path of the step -> field -> text."""
    found: dict[str, dict[str, str]] = {}
    for number, (path, name, now) in enumerate(approval.editable(asked.story, asked.notice.about)):
        typed = form.get(f"edit.{number}", now).replace("\r\n", "\n")
        if typed != now.replace("\r\n", "\n"):
            found.setdefault(path, {})[name] = typed
    return found


def _left_out(asked: Asked, form: Mapping[str, str]) -> tuple[str, ...]:
    """The covered steps of the items that were unticked, where items may be."""
    step = asked.story.bundle.find(asked.notice.about)
    if step is None or step.approval is None or not step.approval.may_leave_out:
        return ()
    items = enumerate(items_of(asked.gate).values())
    return tuple(path for number, paths in items for path in paths if f"keep.{number}" not in form)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
