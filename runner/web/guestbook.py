"""Who came in, who did not, and what was refused: lines of the log for whoever runs the pages.

A line holds a time (UTC), what happened, and the address it came from; never what was typed, and never a whole path,
because links open doors. Nobody can flood it: of one address at most MOST lines a minute, of all together ALL.
"""

from __future__ import annotations

import logging
from collections import Counter

from starlette.requests import Request

from runner.clock import MINUTE, iso
from runner.web.console import Console, console_of

MOST, ALL = 20, 1_000

log = logging.getLogger("amends.web")


def address_of(request: Request) -> str:
    """Where a request comes from; a proxy's word for it is believed where the server was told to."""
    return request.client.host if request.client is not None else ""


def note(request: Request, text: str, *, is_wrong: bool = False) -> None:
    """Writes a line down."""
    console, place = console_of(request), address_of(request)
    if _is_let_through(console, place):
        log.log(logging.WARNING if is_wrong else logging.INFO, "%s %s, from %s", iso(console.now, "UTC"), text, place)


def note_refusal(request: Request, status: int, person: str) -> None:
    """A page that was not shown, by the route that was asked for."""
    route = getattr(request.scope.get("route"), "path", "a page that is none")
    note(request, f"{request.method} {route} was refused to {person or 'a stranger'} ({status})", is_wrong=True)


def _is_let_through(console: Console, place: str) -> bool:
    minute = console.now // MINUTE
    if console.noted is None or console.noted[0] != minute:
        console.noted = (minute, Counter())
    count = console.noted[1]
    if count[""] >= ALL or count[place] > MOST:
        return False
    count[""] += 1
    count[place] += 1
    if count[place] > MOST:
        log.warning("%s what else comes from %s in this minute is not written down", iso(console.now, "UTC"), place)
        return False
    return True
