"""Runs: the list with its filters, one run with everything there is to tell, and the orders that fit it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import urlencode

from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from runner.drawing.plan import plan_of
from runner.drawing.states import states_of
from runner.drawing.svg import inline
from runner.errors import NotFound, NotPossible
from runner.people.operations import Order
from runner.people.rerun import wish_anew
from runner.people.told import asks_to_see
from runner.store import outbox
from runner.store.abridged import FEW
from runner.store.facts import RunFilter
from runner.telling import approval, planned, sent, words
from runner.telling.consequences import MAKES_GOOD, consequence, further, made_good, named
from runner.telling.story import Clock, Story, chosen, reason, status_line
from runner.tongue import _
from runner.web.console import Console, console_of
from runner.web.files import links
from runner.web.guard import Caller, Operates, Refused, Sees, SignedIn, form_of
from runner.web.lists import effects, label, notice, rows_of, standing, too_few
from runner.web.picture import NARROW, picture
from runner.web.render import go, page, who

ROUTES = APIRouter()
PAGE = 50
AT_ONCE = ("pause", "resume")
"""Orders that are given with one press, because the other one takes them back."""


@ROUTES.get("/runs")
def runs(
    request: Request, caller: Sees, flow: str = "", status: str = "", record: str = "", before: str = ""
) -> Response:
    """Runs, newest first."""
    console = console_of(request)
    wanted = (status,) if status else ()
    found = console.store.runs(RunFilter(flow=flow, status=wanted, record=record, before=before, limit=PAGE + 1))
    asked = {name: text for name, text in (("flow", flow), ("status", status), ("record", record)) if text}
    older = urlencode({**asked, "before": found[PAGE - 1].run}) if len(found) > PAGE else ""
    flows = sorted(path.stem for path in console.project.flow_files())
    return page(
        request, caller, "runs", runs=list(map(console.amends.veiled, found[:PAGE])), asked=asked, older=older,
        flows=flows,
        statuses=[(word, label(word)) for word in words.STATUS], is_paged=bool(before),
    )  # fmt: skip


@ROUTES.get("/runs/{run}")
def run(
    request: Request, caller: SignedIn, run: str, said: str = "", reveal: bool = False, of: str = "", item: str = ""
) -> Response:  # fmt: skip
    """One run; of the long list `of` this item as a whole too."""
    console = console_of(request)
    was_told = _was_told(console, caller, run)
    story = console.story(run, reveal=reveal and caller.operates, whole=f"{of}/{item}" if of and item else None)
    asked = console.store.handoffs(run=story.view.run) if story.is_asked else []
    plan = plan_of(story.bundle.flow, story.bundle.actions, partial(who, console))
    states = states_of(story.bundle.flow, story.state)
    return page(
        request, caller, "run", story=story, view=story.view, status=standing(console, story), clock=Clock(story),
        wide=Markup(inline(plan, states=states)), narrow=Markup(inline(plan, is_narrow=True, states=states)),
        lines=chosen(story), asked=rows_of(console, asked), facts=facts(console, story),
        effects=effects(story), picture=picture(story), narrow_picture=picture(story, NARROW), lists=long_lists(story),
        is_to_see=asks_to_see(story.bundle, story.state) and (caller.operates or was_told),
        orders=orders(story) if caller.operates else (), notice=notice(said), why=reason(story),
        short=too_few(console, story), files=links(story.state.inputs), reveals=reveal and caller.operates,
        starter=approval.started_by(story, partial(who, console)), planned=planned.would_be_sent(story),
    )  # fmt: skip


def _was_told(console: Console, caller: Caller, run: str) -> bool:
    """Whether somebody was told of how this run ended. Raises Refused for whoever was not, and sees no runs."""
    was_told = run in console.store.ask(outbox.ends_told(caller.person))
    if not (caller.sees or was_told):
        raise Refused(403, _("{name} may not do this: people.yaml gives no role for it.", name=caller.name))
    return was_told


@ROUTES.post("/runs/{run}/seen")
async def see(request: Request, caller: SignedIn, run: str) -> Response:
    """Whoever was told that it failed has seen it."""
    console = console_of(request)
    if not _was_told(console, caller, run) and not caller.operates:
        raise Refused(403, _("{name} may not do this: people.yaml gives no role for it.", name=caller.name))
    await console.act(run, Order(action="acknowledge", by=caller.person))
    return go(request, f"/runs/{run}?said=acknowledge")


def long_lists(story: Story) -> Sequence[tuple[str, str, int]]:
    """The lists of which the page leaves items out: path, name, how many items."""
    found = story.state.lists.items()
    return [(path, story.place(path), each.items.count) for path, each in found if each.items.count > FEW]


def orders(story: Story) -> Sequence[dict[str, object]]:
    """The buttons: each order that is possible, with what it will do."""
    return [
        {"name": name, "label": words.capital(named(story, name)), "does": consequence(story, name),
         "at_once": name in AT_ONCE}
        for name in further(story)
    ]  # fmt: skip


def facts(console: Console, story: Story) -> Sequence[tuple[str, str]]:
    """What is known of a run beside what happened."""
    view = story.view
    again = _(" (run again, {number})", number=view.rerun) if view.rerun else ""
    held = _("; other runs on it wait until this one is settled") if story.state.holds_record else ""
    found = (
        (_("Inputs"), sent.pairs(story.state.inputs)),
        (_("Result"), sent.pairs(story.state.outputs)),
        (_("Key"), f"{words.plain(view.run_key)}{again}" if view.run_key != view.run else ""),
        (_("Record"), f"{words.plain(view.record)}{held}" if view.record else ""),
        (_("After"), _("it cleans up after run {run}", run=view.continues) if view.continues else ""),
        (_("Flow version"), view.bundle[:12]),
        ("Temporal", _in_cluster(console, view.run)),
    )
    return [(name, text) for name, text in found if text]


def _in_cluster(console: Console, run: str) -> str:
    """A link to the run's page in the cluster that drives it; empty where there is none."""
    cluster = console.amends.settings.cluster
    address = cluster.page(run) if cluster is not None else ""
    return Markup('<a href="{}">{}</a>').format(address, run) if address else ""


@ROUTES.get("/runs/{run}/order/{name}")
def ask(request: Request, caller: Operates, run: str, name: str) -> Response:
    """What an order will do, with the button that gives it."""
    story = console_of(request).story(run)
    if name == "rerun" and story.successor:
        return go(request, f"/runs/{story.successor}?said=joined")
    refuse_unfit(story, name)
    return page(
        request, caller, "order", story=story, view=story.view, name=name, label=words.capital(named(story, name)),
        does=consequence(story, name), good=made_good(story) if name in MAKES_GOOD else (),
    )  # fmt: skip


@ROUTES.post("/runs/{run}/order/{name}")
async def give(request: Request, caller: Operates, run: str, name: str) -> Response:
    """Gives an order."""
    console, form = console_of(request), await form_of(request)
    story = console.story(run)
    if name == "rerun" and story.successor:
        return go(request, f"/runs/{story.successor}?said=joined")
    refuse_unfit(story, name)
    if name == "rerun":
        wish = wish_anew(console.store, story.view, story.state, caller.person)
        started = await console.driver.start(story.view.flow, wish)
        return go(request, f"/runs/{started.run}?said=rerun")
    order = Order(action=name, by=caller.person, reason=words.plain(form.get("reason", ""))[:1000])
    view = await console.act(story.view.run, order)
    return go(request, f"/runs/{view.run}?said={name}")


def refuse_unfit(story: Story, name: str) -> None:
    """Raises NotPossible for an order that does not fit the run as it is now."""
    if name not in words.CHOICES:
        raise NotFound(_("There is no such order."))
    if name not in further(story):
        raise NotPossible(
            _("This does not fit any more: run {run} is {status}.", run=story.view.run, status=status_line(story))
        )
