"""The project's own tables: which there are, their records a page at a time, one record as a whole."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.errors import NotFound
from runner.store import own
from runner.telling import approval, sent
from runner.tongue import _
from runner.web.console import console_of
from runner.web.guard import Sees
from runner.web.render import page

ROUTES = APIRouter()
PAGE = 50


@ROUTES.get("/records")
def tables(request: Request, caller: Sees) -> Response:
    """Which tables there are."""
    found = [
        (each, f"/records/of?{urlencode({'name': each.name})}")
        for each in console_of(request).store.ask(own.collections)
    ]
    return page(request, caller, "records", tables=found, name="")


@ROUTES.get("/records/of")
def records(request: Request, caller: Sees, name: str, skip: int = 0) -> Response:
    """Records of one table, newest first, without personal data."""
    store, skip = console_of(request).store, min(max(skip, 0), 1 << 53)
    found = store.ask(own.entries(name, skip=skip, limit=PAGE + 1))
    older = urlencode({"name": name, "skip": skip + PAGE}) if len(found) > PAGE else ""
    rows = [
        (each, f"/records/one?{urlencode({'name': name, 'id': each.id})}", sent.pairs(each.data))
        for each in own.veiled(store, found[:PAGE])
    ]
    return page(request, caller, "records", name=name, rows=rows, older=older, is_paged=skip > 0)


@ROUTES.get("/records/one")
def one(request: Request, caller: Sees, name: str, id: str, reveal: bool = False) -> Response:
    """One record; to an operator who asks for it with its personal data."""
    store = console_of(request).store
    found = store.ask(own.entries(name, id=id))
    if not found or not id:
        raise NotFound(_("There is no such record."))
    (each,) = found if reveal and caller.operates else own.veiled(store, found)
    fields = [(field, approval.value(value)) for field, value in each.data.items()]
    return page(
        request, caller, "record", row=each, name=name, fields=fields, link=f"/records/of?{urlencode({'name': name})}"
    )
