"""Quarantine: records that were set aside as doubtful; an operator lets them count again, or discards them."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.errors import NotFound
from runner.store.facts import QuarantineView
from runner.telling import sent, words
from runner.tongue import _
from runner.web.console import Console, console_of
from runner.web.guard import Operates, Sees, form_of
from runner.web.render import go, page

ROUTES = APIRouter()


@ROUTES.get("/quarantine")
def quarantine(request: Request, caller: Sees, everything: bool = False) -> Response:
    """What is set aside."""
    console = console_of(request)
    found = console.store.quarantined(open_only=not everything)
    rows = [(each, _seen(console, each)) for each in found]
    return page(request, caller, "quarantine", rows=rows, everything=everything)


@ROUTES.get("/quarantine/{run}/{word}")
def ask(request: Request, caller: Operates, run: str, word: str, record: str) -> Response:
    """What releasing or discarding will do, with its button."""
    console = console_of(request)
    found = _one(console, run, record, word)
    return page(request, caller, "set_aside", row=found, word=word, content=_seen(console, found))


def _seen(console: Console, row: QuarantineView) -> tuple[str, ...]:
    """What was set aside, without personal data."""
    return sent.fields(console.amends.veiled(row).content)


@ROUTES.post("/quarantine/{run}/{word}")
async def answer(request: Request, caller: Operates, run: str, word: str) -> Response:
    """Releases or discards."""
    console, form = console_of(request), await form_of(request)
    found = _one(console, run, form.get("record", ""), word)
    reason = words.plain(form.get("reason", ""))[:1000]
    await console.driver.answer_quarantine(
        run, found.record, by=caller.person, reason=reason, discard=word == "discard"
    )
    return go(request, "/quarantine")


def _one(console: Console, run: str, record: str, word: str) -> QuarantineView:
    found = [each for each in console.store.quarantined() if (each.run, each.record) == (run, record)]
    if not found or word not in ("release", "discard"):
        raise NotFound(_("{record} is not set aside (any more).", record=record or run))
    return found[0]
