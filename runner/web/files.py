"""Files that a run carries, as downloads: a browser never shows them, and a page leads only to those that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.contract import Json
from runner.errors import NotFound
from runner.telling.approval import file_words
from runner.telling.sent import files_in
from runner.tongue import _
from runner.triggers.uploads import clean_name
from runner.web.console import Console, console_of
from runner.web.guard import Refused, Sees

ROUTES = APIRouter()
BARRED = "sandbox; default-src 'none'; frame-ancestors 'none'"


@ROUTES.get("/runs/{run}/file/{digest}")
def of_run(request: Request, caller: Sees, run: str, digest: str, reveal: bool = False) -> Response:
    """A file of a run's inputs; one that is personal to those who may see such data."""
    console = console_of(request)
    return download(console, console.story(run, reveal=reveal and caller.operates).state.inputs, digest)


def links(shown: Json) -> Sequence[tuple[str, str]]:
    """(name and size, sha256) of the files in what a page shows, each once."""
    return [
        (file_words(each), digest) for digest, each in {str(each["sha256"]): each for each in files_in(shown)}.items()
    ]


def download(console: Console, shown: Json, digest: str) -> Response:
    """A file out of what a page shows. Raises Refused where it is not among that, or is not kept any more."""
    file = next((each for each in files_in(shown) if each["sha256"] == digest), None)
    if file is None:
        raise Refused(404, _("There is no such file here."))
    try:
        content = console.store.artifacts.get(digest)
    except NotFound:
        raise Refused(
            410, _("This file is not kept any more: it was erased. Only its name and size are left.")
        ) from None
    name = quote(clean_name(str(file["name"])) or "file", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "Content-Security-Policy": BARRED}
    return Response(content, headers=headers, media_type="application/octet-stream")
