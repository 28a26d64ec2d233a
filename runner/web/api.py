"""The API for programs, under /api/v1: every request carries a token (`amends people token`), answers are JSON.

`GET /api/v1/openapi.json` describes it. Times are ISO 8601 in the project's zone; an error is `{"error": sentence}`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

from runner import __version__
from runner.clock import iso
from runner.contract import Json, canonical
from runner.core.events import ApprovalRequested
from runner.engine.starting import Wish
from runner.errors import AmendsError, InputsInvalid, NotPossible
from runner.people.approvals import Decision, gate_of
from runner.people.operations import Order
from runner.people.rerun import wish_anew
from runner.store import notices
from runner.store.facts import HandOffView, RunFilter, RunView, Started
from runner.telling.consequences import further
from runner.telling.questions import completed
from runner.telling.story import Story, status_line
from runner.telling.words import plain
from runner.web import shapes
from runner.web.console import Console, console_of
from runner.web.guard import ApiApproves, ApiOperates, ApiSees, ApiStarts, Caller
from runner.web.lists import effects
from runner.web.shapes import (
    Decided,
    Deciding,
    Gate,
    Given,
    HandOffRow,
    Kept,
    Many,
    ManyRow,
    RunRow,
    Seen,
    Start,
    StartedRow,
    answer,
    refusals,
)
from runner.web.short import LONGEST_KEY, ShortRoute

ROUTES = APIRouter(prefix="/api/v1", route_class=ShortRoute)
MOST = 500
EVENT = r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$"
"""How an event is called: `payment.received`."""


Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key", max_length=LONGEST_KEY, description="The same again is answered as the first time."
    ),
]


@ROUTES.get("/openapi.json", include_in_schema=False)
def openapi(_caller: ApiSees) -> Mapping[str, Any]:
    """What the API offers, as OpenAPI."""
    text = "Runs, hand-offs and orders of one project. Every request carries a token as Authorization: Bearer."
    return get_openapi(title="Amends", version=__version__, description=text, routes=ROUTES.routes)


@ROUTES.get("/runs", responses={**answer(list[RunRow]), **refusals(404, 422)})
def list_runs(
    request: Request, _caller: ApiSees, flow: str = "", status: str = "", record: str = "", before: str = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
) -> Sequence[Mapping[str, Json]]:  # fmt: skip
    """Runs, newest first; `before` is the run to page on from."""
    console = console_of(request)
    wanted = RunFilter(
        flow=flow, status=tuple(filter(None, status.split(","))), record=record, before=before,
        limit=limit,
    )  # fmt: skip
    return [run_json(console, view) for view in console.store.runs(wanted)]


@ROUTES.post("/runs", status_code=201, responses={**answer(StartedRow, 201), **refusals(404, 409, 422, 503)})
async def start_run(request: Request, caller: ApiStarts, wanted: Start, key: Key = "") -> Response:
    """Starts a run, or joins the one that has the key of the business event or of the request."""
    console = console_of(request)
    if key and wanted.key:
        raise InputsInvalid({"key": "a request names its event by key or by Idempotency-Key, not by both"})
    wish = Wish(
        given=wanted.inputs, key=key or wanted.key, starter=caller.person, mode="draft" if wanted.draft else "",
        source=f"api {caller.person}" if key else "manual",
    )  # fmt: skip
    started = await console.driver.start(wanted.flow, wish)
    return _answer({**run_json(console, console.store.run(started.run)), "joined": started.joined}, 201)


@ROUTES.post("/starts", responses={**answer(list[ManyRow]), **refusals(404, 422, 503)})
async def start_many(request: Request, caller: ApiStarts, wanted: Many) -> Response:
    """Starts many runs of one flow in one commit, or joins those that have their keys: an answer for each, in order."""
    mode = "draft" if wanted.draft else ""
    wishes = [Wish(given=one.inputs, key=one.key, starter=caller.person, mode=mode) for one in wanted.runs]
    found = await console_of(request).driver.start_many(wanted.flow, wishes)
    return _answer([_became(each) for each in found])


def _answer(told: Json, status: int = 200) -> Response:
    """As it is: what is answered often is not looked through once more."""
    return Response(canonical(told), status, media_type="application/json")


def _became(each: Started | AmendsError) -> Mapping[str, Json]:
    if isinstance(each, Started):
        return {"run": each.run, "joined": each.joined}
    return {"error": str(each), **({"fields": each.problems} if isinstance(each, InputsInvalid) else {})}


@ROUTES.get("/runs/{run}", responses={**answer(shapes.Story), **refusals(404)})
def show_run(request: Request, _caller: ApiSees, run: str) -> Mapping[str, Json]:
    """One run: what happened, what was done outside, what it asks, what can be done."""
    console = console_of(request)
    return story_json(console, console.story(run))


@ROUTES.post("/runs/{run}/orders", responses={**answer(RunRow), **refusals(404, 409, 422, 503)})
async def order(request: Request, caller: ApiOperates, run: str, given: Given) -> Mapping[str, Json]:
    """Gives an order, or answers a hand-off."""
    console = console_of(request)
    story = console.story(run)
    if given.action == "rerun":
        wish = wish_anew(console.store, story.view, story.state, caller.person)
        started = await console.driver.start(story.view.flow, wish)
        return run_json(console, console.store.run(started.run))
    what = Order(by=caller.person, **given.model_dump())
    what = completed(console.story(run, reveal=True), what) if what.action == "happened" else what
    return run_json(console, await console.act(story.view.run, what))


@ROUTES.post("/events/{name}", status_code=202, responses={**answer(Kept, 202), **refusals(409, 422, 503)})
async def send_event(
    request: Request, caller: ApiStarts, name: Annotated[str, Path(pattern=EVENT, max_length=200)],
    data: Annotated[dict[str, Any], Body()], key: Key = "",
) -> Mapping[str, Json]:  # fmt: skip
    """Sends an event to whatever waits for it or starts by it. The key is its id: the same again is kept once."""
    event_id = key or secrets.token_hex(12)
    is_new = await console_of(request).driver.send_event(event_id, name, data, caller.person)
    return {"id": event_id, "is_new": is_new}


@ROUTES.get("/handoffs", responses={**answer(list[HandOffRow]), **refusals()})
def list_handoffs(request: Request, _caller: ApiSees) -> Sequence[Mapping[str, Json]]:
    """Open hand-offs, oldest first."""
    console = console_of(request)
    return [handoff_json(console, each) for each in console.store.handoffs()]


@ROUTES.get("/approvals", responses={**answer(list[Gate]), **refusals()})
def list_approvals(request: Request, caller: ApiSees) -> Sequence[Mapping[str, Json]]:
    """What waits for an approval, oldest first; what is asked of the caller whole, else without personal data."""
    console = console_of(request)
    told = {(one.run, one.about) for one in console.store.ask(notices.open_for())}
    found = (approval_json(console, caller, run, about) for run, about in sorted(told))
    return sorted(filter(None, found), key=lambda one: str(one["due"]))


@ROUTES.get("/approvals/{run}", responses={**answer(list[Gate]), **refusals(404)})
def show_approvals(request: Request, caller: ApiSees, run: str) -> Sequence[Mapping[str, Json]]:
    """What one run asks."""
    console = console_of(request)
    gates = console.amends.state(console.store.run(run).run)[1].gates
    return [one for about in gates if (one := approval_json(console, caller, run, about)) is not None]


@ROUTES.post("/approvals/{run}", responses={**answer(Decided | Seen), **refusals(404, 409, 422, 503)})
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


_FIELDS = fields(RunView)


def run_json(console: Console, view: RunView) -> dict[str, Json]:
    """A run's row."""
    personal, zone = console.store.personal(view), console.zone
    veiled = view if personal is None else personal.fields_of(view)
    found: dict[str, Json] = {field.name: getattr(veiled, field.name) for field in _FIELDS}
    for name in ("started_at", "updated_at", "ended_at", "wake_at"):
        found[name] = iso(found[name], zone) if found[name] is not None else None
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
