"""What starts flows by itself and what came to it: whether it was taken, and what its run has come to since."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.errors import NotFound
from runner.store.arrivals import STATUSES, Arrival, ends_of, found, listed
from runner.telling import sent, words
from runner.tongue import _, marked
from runner.triggers.again import RETAKEN
from runner.triggers.listing import triggers_of
from runner.web.console import Console, console_of
from runner.web.guard import Operates, Sees, form_of
from runner.web.render import go, page

ROUTES = APIRouter()
PAGE = 50
ARRIVED: Mapping[str, str] = {
    "started": marked("taken"), "joined": marked("known, and did not go through"), "ignored": marked("not meant"),
    "superseded": marked("older than what is known"), "skipped": marked("skipped"), "missed": marked("missed"),
    "conflict": marked("known, with other content"),
    "refused": marked("does not fit the flow"), "unreadable": marked("cannot be read"),
    "queued": marked("waits its turn"),
}  # fmt: skip
"""What became of an arrival, as people say it."""


@ROUTES.get("/arrivals")
def arrivals(
    request: Request, caller: Sees, flow: str = "", status: str = "",
    before: int = 0, of: str = "", source: str = "", id: str = "",
) -> Response:  # fmt: skip
    """The triggers, and what came to them, newest first; or what came before the one of this place."""
    console = console_of(request)
    wanted = (status,) if status in STATUSES else ()
    place = (before, of, source, id) if before else None
    rows = console.store.ask(listed(flow=flow, status=wanted, before=place, limit=PAGE + 1))
    asked = {name: text for name, text in (("flow", flow), ("status", status)) if text}
    triggers = list(triggers_of(console.project, console.store, console.public_url)) if not (asked or before) else []
    return page(
        request, caller, "arrivals", rows=rows[:PAGE], ends=console.store.ask(ends_of(rows)), arrived=ARRIVED,
        older=urlencode({**asked, **_place(rows[PAGE - 1])}) if len(rows) > PAGE else "", is_paged=bool(before),
        asked=asked, triggers=triggers, turned=console.driver.hooks.turned_away, link=_link,
        flows=sorted(console.driver.triggers.active.flows),
    )  # fmt: skip


def _place(row: Arrival) -> Mapping[str, str]:
    return {"before": str(row.at), "of": row.flow, "source": row.source, "id": row.id}


def _link(row: Arrival) -> str:
    return "/arrivals/one?" + urlencode({"flow": row.flow, "source": row.source, "id": row.id})


@ROUTES.get("/arrivals/one")
def one(request: Request, caller: Operates, flow: str, source: str, id: str, reveal: bool = False) -> Response:
    """One arrival; with its content, where there is any left."""
    console = console_of(request)
    row = _one(console, flow, source, id)
    return page(
        request, caller, "arrival", row=row, ends=console.store.ask(ends_of([row])), arrived=ARRIVED,
        content=sent.pretty(row.content) if reveal else "", can_retake=row.status in RETAKEN, link=_link(row),
    )  # fmt: skip


@ROUTES.post("/arrivals/one")
async def again(request: Request, caller: Operates, flow: str, source: str, id: str) -> Response:
    """Takes it again."""
    console, form = console_of(request), await form_of(request)
    row = _one(console, flow, source, id)
    reason = words.plain(form.get("reason", ""))[:1000]
    took = await console.driver.take_again(row.id, row.flow, caller.person, reason)
    if took.status == "started":
        return go(request, f"/runs/{took.run}?said=started")
    return go(request, _link(row) if _rows(console, flow, source, id) else "/arrivals")  # it may have got its own id


def _rows(console: Console, flow: str, source: str, id: str) -> list[Arrival]:
    return [row for row in console.store.ask(found(id, flow=flow)) if (row.source, row.id) == (source, id)]


def _one(console: Console, flow: str, source: str, id: str) -> Arrival:
    rows = _rows(console, flow, source, id)
    if not rows:
        raise NotFound(_("Nothing came with the id {id}.", id=words.plain(id)))
    return rows[0]
