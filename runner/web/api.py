"""The API for programs, under /api/v1: every request carries a token (`amends people token`), answers are JSON.

`GET /api/v1/openapi.json` describes it. Times are ISO 8601 in the project's zone; an error is `{"error": sentence}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from runner import __version__
from runner.clock import iso
from runner.contract import Json
from runner.core.events import ApprovalRequested
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.people.approvals import Decision, gate_of
from runner.people.operations import ORDERS, Order
from runner.people.rerun import wish_anew
from runner.store import notices
from runner.store.facts import HandOffView, RunFilter, RunView
from runner.telling.questions import completed
from runner.telling.story import Story, further, status_line
from runner.telling.words import plain
from runner.web.console import Console, console_of
from runner.web.guard import ApiApproves, ApiOperates, ApiSees, ApiStarts, Caller
from runner.web.lists import effects
from runner.web.runs import refuse_unfit

ROUTES = APIRouter(prefix="/api/v1")
MOST = 500


class Start(BaseModel):
    """A run to start. `key` names the business event: the same again joins the same run."""

    model_config = ConfigDict(extra="forbid", strict=True)

    flow: str
    inputs: dict[str, Any] = Field(default_factory=dict)
    key: str = ""
    draft: bool = False


class Given(BaseModel):
    """An order, or the answer to a hand-off. `output` are the fields of an answer `happened`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: str = Field(description=", ".join((*ORDERS, "rerun")))
    handoff: str = ""
    reason: str = Field("", max_length=1000)
    reference: str = Field("", max_length=1000)
    external_id: str = Field("", max_length=1000)
    output: dict[str, Any] = Field(default_factory=dict)


class Deciding(BaseModel):
    """A decision. `round` and `hash` are those of what was shown; `edits` are path -> field -> text, and `seen` then
    comes from `look`, which decides nothing. `left_out` are paths of steps, whole items where the flow says so.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    approval: str
    round: int
    hash: str
    answer: Literal["yes", "no"]
    comment: str = Field("", max_length=1000)
    edits: dict[str, dict[str, str]] = Field(default_factory=dict)
    seen: str = ""
    left_out: list[str] = Field(default_factory=list)
    look: bool = False


@ROUTES.get("/openapi.json", include_in_schema=False)
def openapi(_caller: ApiSees) -> Mapping[str, Any]:
    """What the API offers, as OpenAPI."""
    text = "Runs, hand-offs and orders of one project. Every request carries a token as Authorization: Bearer."
    return get_openapi(title="Amends", version=__version__, description=text, routes=ROUTES.routes)


@ROUTES.get("/runs")
def list_runs(
    request: Request, _caller: ApiSees, flow: str = "", status: str = "", record: str = "", before: str = "",
    limit: int = 50,
) -> Sequence[Mapping[str, Json]]:  # fmt: skip
    """Runs, newest first; `before` is the run to page on from."""
    console = console_of(request)
    wanted = RunFilter(
        flow=flow, status=tuple(filter(None, status.split(","))), record=record, before=before,
        limit=min(max(limit, 1), MOST),
    )  # fmt: skip
    return [run_json(console, view) for view in console.store.runs(wanted)]


@ROUTES.post("/runs", status_code=201)
async def start_run(request: Request, caller: ApiStarts, wanted: Start) -> Mapping[str, Json]:
    """Starts a run, or joins the one that has the key."""
    console = console_of(request)
    mode = "draft" if wanted.draft else ""
    wish = Wish(given=wanted.inputs, key=wanted.key, starter=caller.person, source="manual", mode=mode)
    started = await console.driver.start(wanted.flow, wish)
    return {**run_json(console, console.store.run(started.run)), "joined": started.joined}


@ROUTES.get("/runs/{run}")
def show_run(request: Request, _caller: ApiSees, run: str) -> Mapping[str, Json]:
    """One run: what happened, what was done outside, what it asks, what can be done."""
    console = console_of(request)
    return story_json(console, console.story(run))


@ROUTES.post("/runs/{run}/orders")
async def order(request: Request, caller: ApiOperates, run: str, given: Given) -> Mapping[str, Json]:
    """Gives an order, or answers a hand-off."""
    console = console_of(request)
    story = console.story(run)
    if given.action == "rerun":
        refuse_unfit(story, "rerun")
        wish = wish_anew(console.store, story.view, story.state, caller.person)
        started = await console.driver.start(story.view.flow, wish)
        return run_json(console, console.store.run(started.run))
    what = Order(by=caller.person, **given.model_dump())
    what = completed(console.story(run, reveal=True), what) if what.action == "happened" else what
    return run_json(console, await console.act(story.view.run, what))


@ROUTES.get("/handoffs")
def list_handoffs(request: Request, _caller: ApiSees) -> Sequence[Mapping[str, Json]]:
    """Open hand-offs, oldest first."""
    console = console_of(request)
    return [handoff_json(console, each) for each in console.store.handoffs()]


@ROUTES.get("/approvals")
def list_approvals(request: Request, caller: ApiSees) -> Sequence[Mapping[str, Json]]:
    """What waits for an approval, oldest first; what is asked of the caller whole, else without personal data."""
    console = console_of(request)
    told = {(one.run, one.about) for one in console.store.ask(notices.open_for())}
    found = (approval_json(console, caller, run, about) for run, about in sorted(told))
    return sorted(filter(None, found), key=lambda one: str(one["due"]))


@ROUTES.get("/approvals/{run}")
def show_approvals(request: Request, caller: ApiSees, run: str) -> Sequence[Mapping[str, Json]]:
    """What one run asks."""
    console = console_of(request)
    gates = console.amends.state(console.store.run(run).run)[1].gates
    return [one for about in gates if (one := approval_json(console, caller, run, about)) is not None]


@ROUTES.post("/approvals/{run}")
async def decide(request: Request, caller: ApiApproves, run: str, given: Deciding) -> Mapping[str, Json]:
    """Decides, as the person whose token it is; with `look` shows what the edits would send."""
    console = console_of(request)
    run = console.store.run(run).run
    what = given.model_dump(exclude={"look"}) | {"comment": plain(given.comment), "left_out": tuple(given.left_out)}
    decision = Decision(by=caller.person, proof="token", **what)
    if given.look:
        bundle, state = console.amends.state(run)
        if caller.person not in gate_of(state, given.approval).asked:
            raise NotPossible("only who is asked sees what would be sent")
        new = console.driver.preview(bundle, state, given.approval, given.edits)
        return {"seen": new.seen, "requests": dict(new.requests)}
    return run_json(console, await console.decide(run, decision))


def approval_json(console: Console, caller: Caller, run: str, about: str) -> dict[str, Json] | None:
    """An open approval; None for one that is not open."""
    gate = console.amends.state(run)[1].gates[about]
    if gate.status != "open" or console.now >= gate.due:
        return None
    event, personal = console.store.log(run, gate.opened_seq - 1, 1)[0].event, console.store.personal(run)
    if personal is not None and event is not None and caller.person not in gate.asked:
        event = personal.event(event)
    return {
        "run": run, "approval": about, "round": gate.round, "hash": gate.hash, "asked": list(gate.asked),
        "needs": gate.needs, "yes": [yes.by for yes in gate.yes], "due": iso(gate.due, console.zone),
        "shown": dict(event.shown) if isinstance(event, ApprovalRequested) else {},
    }  # fmt: skip


def run_json(console: Console, view: RunView) -> dict[str, Json]:
    """A run's row."""
    found: dict[str, Json] = asdict(console.amends.veiled(view))
    for name in ("started_at", "updated_at", "ended_at", "wake_at"):
        found[name] = iso(found[name], console.zone) if found[name] is not None else None
    return found


def handoff_json(console: Console, each: HandOffView) -> dict[str, Json]:
    """A hand-off's row."""
    return {**asdict(console.amends.veiled(each)), "opened_at": iso(each.opened_at, console.zone)}


def story_json(console: Console, story: Story) -> dict[str, Json]:
    """Everything there is to tell of a run."""
    timeline = [
        {"at": iso(line.at, console.zone), "step": line.step, "sign": line.sign, "text": line.text,
         "details": list(line.details)}
        for line in story.lines
    ]  # fmt: skip
    asked = console.store.handoffs(run=story.view.run) if story.is_asked else ()
    return {
        **run_json(console, story.view), "status_line": status_line(story), "inputs": dict(story.state.inputs),
        "outputs": dict(story.state.outputs), "timeline": timeline, "effects": list(effects(story)),
        "unknown": story.unknown, "handoffs": [handoff_json(console, each) for each in asked],
        "can_do": further(story),
    }  # fmt: skip
