"""All routes in one application, with what holds for each request around them."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp

from runner import __version__
from runner.web import (
    api,
    arrivals,
    drill,
    files,
    flows,
    forms,
    handoffs,
    home,
    hooks,
    live,
    logbook,
    metrics,
    people,
    quarantine,
    records,
    restored,
    review,
    runs,
    sign_in,
)
from runner.web.console import Console
from runner.web.refusals import refuse_in_words
from runner.web.shell import Shell

ROOMS = (
    hooks,  # what programs ask for comes first: the routes are gone through in this order
    api,
    home,
    sign_in,
    restored,
    review,
    runs,
    files,
    handoffs,
    quarantine,
    records,
    flows,
    drill,
    arrivals,
    forms,
    people,
    logbook,
    live,
    metrics,
)


def application(console: Console) -> FastAPI:
    """The routes of the console and of the API."""
    app = FastAPI(
        title="Amends", version=__version__, docs_url=None, redoc_url=None, openapi_url=None,
        description="Runs, hand-offs and orders of one project. Every request carries a token.",
    )  # fmt: skip
    app.state.console = console
    for room in ROOMS:
        app.router.routes.extend(room.ROUTES.routes)  # as they are, so that the list of routes shows each one
    refuse_in_words(app)
    return app


def served(console: Console) -> ASGIApp:
    """What the server is given."""
    return Shell(application(console), console)
