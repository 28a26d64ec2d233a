"""What a person sees when a page cannot be shown: one sentence and a status, never a traceback."""

from __future__ import annotations

import logging
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match

from runner.errors import (
    AmendsError,
    EngineBusy,
    InputsInvalid,
    InvalidFlow,
    NotFound,
    NotPossible,
    RunKeyConflict,
    StoreUnwritable,
)
from runner.recorded import retold
from runner.telling.words import sentence
from runner.tongue import _
from runner.web.guard import Caller, Refused, SignInFirst, greet
from runner.web.guestbook import note_refusal
from runner.web.render import go, page

API = ("/api/", "/metrics")
HOOKS = "/hooks/"
"""Whoever calls below it is a program, and nobody we know."""
STATUS: tuple[tuple[type[AmendsError], int], ...] = (
    (NotFound, 404), (InputsInvalid, 422), (InvalidFlow, 422), (NotPossible, 409), (RunKeyConflict, 409),
    (EngineBusy, 503), (StoreUnwritable, 503),
)  # fmt: skip
NOTED = (401, 403, 421, 429)
"""Refusals that are written down."""

log = logging.getLogger("amends.web")


def refuse_in_words(app: FastAPI) -> None:
    """Every error of the application as a page, or as JSON under /api."""
    app.add_exception_handler(AmendsError, _known)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _misread)
    app.add_exception_handler(Exception, _defect)


async def _known(request: Request, error: Exception) -> Response:
    if isinstance(error, SignInFirst):
        return _sign_in_first(request, error)
    status = error.status if isinstance(error, Refused) else next((s for k, s in STATUS if isinstance(error, k)), 500)
    if status in NOTED:
        note_refusal(request, status, getattr(request.state, "caller", Caller()).person)
    more = {"fields": error.problems} if isinstance(error, InputsInvalid) else {}
    return _told(request, status, sentence(retold(str(error))), **more)


def _sign_in_first(request: Request, error: SignInFirst) -> Response:
    path = request.url.path
    if path.startswith(API):
        note_refusal(request, 401, "")
        answer = _told(request, 401, _("Send a token: Authorization: Bearer …"))
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
    wanted = f"?next={quote(path)}" if request.method == "GET" and path != "/" else ""
    return go(request, f"/sign-in{wanted}")


async def _of_http(request: Request, error: Exception) -> Response:
    greet(request)
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = {404: _("There is no such page."), 405: _("This page does not take that.")}
    answer = _told(request, status, said.get(status, _("This page cannot be shown.")))
    answer.headers.update((error.headers if isinstance(error, HTTPException) else None) or {})
    if status == 405:
        answer.headers["Allow"] = ", ".join(sorted(_methods_of(request)))
    return answer


def _methods_of(request: Request) -> set[str]:
    """What the routes of this path take, whichever of them was asked."""
    fits = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return {method for route in fits for method in getattr(route, "methods", None) or ()}


async def _misread(request: Request, error: Exception) -> Response:
    wrong = error.errors() if isinstance(error, RequestValidationError) else []
    names = ", ".join(str(each["loc"][-1]) for each in wrong if each.get("loc"))
    return _told(request, 422, _("This cannot be read: {names}.", names=names))


async def _defect(request: Request, error: Exception) -> Response:
    log.error("a page met a defect: %s %s", request.method, request.url.path, exc_info=error)
    return _told(
        request, 500, _("This page met a defect in Amends. The runs are not touched; the engine's log says more.")
    )


def _told(request: Request, status: int, text: str, **more: object) -> Response:
    path = request.url.path
    if path.startswith(API):
        return JSONResponse({"error": text, **more}, status)
    if path.startswith(HOOKS):
        return PlainTextResponse("This does not work here.\n", status)
    caller = getattr(request.state, "caller", Caller())
    return page(request, caller, "refused", code=status, title=_("This does not work"), text=text)
