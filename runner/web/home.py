"""The first page: what waits for me, what waits for others, how the runs are."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from runner.store.facts import RunFilter
from runner.web import review
from runner.web.console import console_of
from runner.web.guard import Anyone, SignedIn
from runner.web.lists import mine_of, rows_of, unseen
from runner.web.reach import SIGN
from runner.web.render import RESTORED, STATIC, go, page

ROUTES = APIRouter()
SHOWN = 8
KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@ROUTES.get("/")
def home(request: Request, caller: SignedIn) -> Response:
    """What waits for me."""
    console = console_of(request)
    if console.driver.rests and caller.sees:
        return go(request, RESTORED)
    opened = console.store.handoffs()
    mine = mine_of(console, caller, opened)
    ended = unseen(console, caller)
    runs = console.store.runs(RunFilter(limit=SHOWN)) if caller.sees else ()
    return page(
        request, caller, "home", decisions=review.waiting_for(console, caller), mine=[*rows_of(console, mine), *ended],
        others=len(opened) - len(mine), runs=list(map(console.amends.veiled, runs)),
        counts=console.store.counts() if caller.sees else {},
    )  # fmt: skip


@ROUTES.get("/health")
def health(request: Request, _caller: Anyone) -> Response:
    """For whoever watches that the engine is alive. 503 where the log cannot be read."""
    console = console_of(request)
    console.store.fence()
    status = "rests" if console.driver.rests else "ok"
    return JSONResponse({"status": status}, headers={SIGN: console.sign})


@ROUTES.get("/static/{version}/{name}")
def static(version: str, name: str, _caller: Anyone) -> Response:
    """The stylesheet and the script."""
    if name not in STATIC:
        return Response(status_code=404)
    return Response(
        STATIC[name],
        media_type=KINDS[name.rpartition(".")[2]],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )
