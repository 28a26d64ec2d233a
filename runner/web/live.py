"""Live pages: a line to the browser whenever something has changed; what changed it then asks for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from runner.web.console import Console, console_of
from runner.web.guard import SignedIn

ROUTES = APIRouter()
QUIET = 20.0
"""Seconds after which an empty line shows that the connection stands."""
LONGEST = 180
"""Lines after which the browser connects anew, and is asked again who it is."""


@ROUTES.get("/live")
async def live(request: Request, _caller: SignedIn, run: str = "") -> StreamingResponse:
    """Server-sent events: `changed`, of one run or of any."""
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(console_of(request), run), media_type="text/event-stream", headers=headers)


async def _lines(console: Console, run: str) -> AsyncIterator[str]:
    yield "retry: 3000\n\n"
    for _time in range(LONGEST):
        if await console.feed.changed(run, QUIET):
            yield "event: changed\ndata: 1\n\n"
        elif console.feed.is_closed:
            return
        else:
            yield ": \n\n"
