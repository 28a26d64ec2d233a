"""A project that rests, because its database was put back from a copy or is one: why, and the answer of an admin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body
from starlette.requests import Request
from starlette.responses import Response

from runner.clock import iso
from runner.contract import Json
from runner.people.restored import may_be_moved
from runner.recorded import retold
from runner.store.anchor import Restoration
from runner.store.restored import MOVED
from runner.telling.words import sentence
from runner.tongue import _
from runner.web.console import Console, console_of
from runner.web.guard import Admin, ApiAdmin, ApiSees, Caller, Refused, Sees, form_of
from runner.web.guestbook import note
from runner.web.render import go, page
from runner.web.shapes import GoOn, Resting, answer, refusals

ROUTES = APIRouter()
SHOWN = 20


@ROUTES.get("/restored")
def show(request: Request, caller: Sees) -> Response:
    """Why it rests, what is held, what may have been forgotten, and the two ways on."""
    console = console_of(request)
    asked = _asked(console)
    if asked is None:
        return go(request, "/")
    ids = console.store.open_runs()
    runs = [console.amends.veiled(console.store.run(run)) for run in ids[-SHOWN:]]
    return page(
        request, caller, "restored", why=sentence(retold(asked.why)), since=asked.since,
        only_moved=may_be_moved(console.store), runs=runs, held=len(ids),
    )  # fmt: skip


@ROUTES.post("/restored")
async def choose(request: Request, caller: Admin) -> Response:
    """Lets it go on."""
    form = await form_of(request)
    moved = form.get("answer") == MOVED
    if moved and form.get("sure") != "yes":
        raise Refused(422, _("Say first that nobody goes on where it was. Nothing was changed."))
    paused = await _go_on(request, caller, moved=moved)
    return go(request, "/runs" if paused else "/")


@ROUTES.get("/api/v1/restored", responses={**answer(Resting), **refusals()})
def tell(request: Request, _caller: ApiSees) -> Mapping[str, Json]:
    """Whether the project rests because its database was put back from a copy, and why."""
    console = console_of(request)
    asked = _asked(console)
    if asked is None:
        return {"rests": False, "why": "", "since": None, "may_be_moved": False, "open_runs": 0}
    return {
        "rests": True, "why": asked.why, "since": iso(asked.since, console.zone) if asked.since else None,
        "may_be_moved": may_be_moved(console.store), "open_runs": len(console.store.open_runs()),
    }  # fmt: skip


@ROUTES.post("/api/v1/restored", responses={**answer(Resting), **refusals(409, 422, 503)})
async def choose_by_token(request: Request, caller: ApiAdmin, given: Annotated[GoOn, Body()]) -> Mapping[str, Any]:
    """Lets it go on: each open run paused, or (`moved`) as it was, because nobody goes on where it was."""
    await _go_on(request, caller, moved=given.answer == MOVED)
    return tell(request, caller)


async def _go_on(request: Request, caller: Caller, *, moved: bool) -> list[str]:
    paused = await console_of(request).driver.go_on_restored(caller.person, moved=moved)
    how = "as it was, because it was only moved" if moved else f"with {len(paused)} runs paused"
    note(request, f"{caller.person} let the project go on {how}")
    return paused


def _asked(console: Console) -> Restoration | None:
    """What nobody has answered yet; None where it does not rest."""
    waiting = [each for each in console.store.restorations() if not each.at]
    return waiting[-1] if waiting and console.driver.rests else None
