"""The action log: how much there is, the check of its chains, and what was written for one run."""

from __future__ import annotations

import asyncio
import json

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.core.events import payload
from runner.store.facts import LogRow
from runner.store.notary import only_unknown_keys
from runner.telling.story import Veiled
from runner.web.console import console_of
from runner.web.guard import Sees
from runner.web.render import page

ROUTES = APIRouter()
PAGE = 100
LONGEST = 20_000
"""Signs of one entry that are shown."""


@ROUTES.get("/log")
def logbook(request: Request, caller: Sees) -> Response:
    """What the log is, with the button that checks it."""
    console = console_of(request)
    runs = sum(console.store.counts().values())
    return page(request, caller, "log", runs=runs, faults=None, about=console.store.about())


@ROUTES.post("/log")
async def verify(request: Request, caller: Sees) -> Response:
    """Checks every chain."""
    console = console_of(request)
    anchors = console.project.settings.anchors
    faults = await asyncio.to_thread(console.store.verify, "", anchors.keys if anchors else ())
    runs = sum(console.store.counts().values())
    about = console.store.about()
    return page(request, caller, "log", runs=runs, faults=faults, unknown=only_unknown_keys(faults), about=about)


@ROUTES.get("/log/{run}")
def entries(request: Request, caller: Sees, run: str, after: int = 0) -> Response:
    """A run's entries as they were written, a hundred at a time."""
    console = console_of(request)
    view = console.store.run(run)
    rows = Veiled(store=console.store).log(view.run, after, PAGE)
    return page(
        request,
        caller,
        "entries",
        view=console.amends.veiled(view),
        rows=[(row, _text(row)) for row in rows],
        more=rows[-1].seq if len(rows) == PAGE else 0,
    )


def _text(row: LogRow) -> str:
    text = json.dumps(payload(row.event), ensure_ascii=False, indent=1) if row.event else ""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
