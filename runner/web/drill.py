"""A flow's failure table in the console."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.drill.table import Drill
from runner.drilling import driller_of
from runner.web.console import Console, console_of
from runner.web.drill_page import shown
from runner.web.flows import checked_flow
from runner.web.guard import Sees
from runner.web.render import page

ROUTES = APIRouter()
WITHIN = 10.0
"""Seconds that a drill may take here; what was left out is said, and `amends drill` has all the time."""
KEPT = 16

_kept: OrderedDict[str, Drill] = OrderedDict()
_drilling = Lock()


@ROUTES.get("/flows/{flow}/drill")
def drill(request: Request, caller: Sees, flow: str) -> Response:
    """What is left when the flow fails: every step, in every way."""
    console = console_of(request)
    checked = checked_flow(console, flow)
    assert checked.flow is not None
    found = _drill(console, flow) if checked.is_fit_to_run else None
    table = shown(found) if found is not None else {}
    return page(request, caller, "drill", flow=checked.flow, is_fit=found is not None, **table)


def _drill(console: Console, flow: str) -> Drill:
    """One at a time; what was drilled of a version is kept. Raises NotPossible."""
    with _drilling:
        driller = driller_of(console.project, flow)
        known = _kept.get(driller.bundle.digest)
        if known is None:
            known = _kept[driller.bundle.digest] = driller.drill(within=WITHIN)
        _kept.move_to_end(driller.bundle.digest)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
        return known
