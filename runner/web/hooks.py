"""The door of webhooks: `POST /hooks/{name}`. The body is read with a limit and as it came; all else is `Webhooks`'.

A sender that is not proved learns nothing: whether its signature was wrong, its time, or our settings.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from runner.triggers.bodies import LARGEST
from runner.triggers.webhook import LATER, UNKNOWN, Answer
from runner.web.console import console_of
from runner.web.guard import Proved

ROUTES = APIRouter()
SLOWEST = 10.0
"""Seconds in which a body must be there."""
MOST_HELD = 64_000_000
"""Bytes of bodies that are being read at once, of all senders together."""

TOO_LARGE = Answer(status=413, text="That is more than this address takes.\n")
TOO_SLOW = Answer(status=408, text="That took too long.\n")


class _Reading:
    """How much of unproved bodies is in memory."""

    held = 0


@ROUTES.post("/hooks/{name}", include_in_schema=False)
async def take(request: Request, _caller: Proved, name: str) -> Response:
    """Takes a delivery."""
    hooks = console_of(request).driver.hooks
    if not hooks.knows(name):
        return _told(UNKNOWN)
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(SLOWEST):
            answer = await _read(request, chunks)
        body = b"".join(chunks)
        return _told(answer or await hooks.take(name, _fields(request), body))
    except TimeoutError:
        return _told(TOO_SLOW)
    except ClientDisconnect:  # also how a body without a length ends that has grown too large
        return _told(TOO_LARGE)
    finally:
        _Reading.held -= sum(map(len, chunks))


async def _read(request: Request, chunks: list[bytes]) -> Answer | None:
    """Reads the body into `chunks`; an answer where it is not to be read on."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > LARGEST:
            return TOO_LARGE
        if _Reading.held + len(chunk) > MOST_HELD:
            return LATER
        _Reading.held += len(chunk)
        chunks.append(chunk)
    return None


def _fields(request: Request) -> dict[str, str]:
    """The header fields, their names in small letters; what comes twice stands behind a comma, as HTTP has it."""
    return {name: ", ".join(request.headers.getlist(name)) for name in request.headers}


def _told(answer: Answer) -> Response:
    headers = {"Retry-After": str(answer.wait)} if answer.wait else {}
    return PlainTextResponse(answer.text, answer.status, headers)
