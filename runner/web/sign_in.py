"""Coming in and going out: a password, or a link that works once. Opening a link uses nothing up; pressing does.

The place of a provider (OIDC): a route here that ends in `_welcome`, as the two below do.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.clock import MINUTE, SECOND
from runner.people.access import LIVES, digest_of, new_access, new_password, password_fits, role_of
from runner.store import access
from runner.tongue import _
from runner.web.console import Console, console_of
from runner.web.guard import DOOR, SESSION, Anyone, Refused, SignedIn, form_of, name_of
from runner.web.render import drop_session, go, page, set_cookie

ROUTES = APIRouter()


@ROUTES.get("/sign-in")
def ask(request: Request, caller: Anyone, next: str = "") -> Response:  # noqa: A002  the word in the address
    """The sign-in page."""
    return page(request, caller, "sign_in", next=next, text="")


@ROUTES.post("/sign-in")
async def sign_in(request: Request, caller: Anyone) -> Response:
    """A name and a password."""
    console, form = console_of(request), await form_of(request)
    name, onwards = form.get("name", "").strip(), form.get("next", "")
    person, tried, place = _person(console, name), f"name {name.lower()}", _address(request)
    if left := max(console.tries.wait(tried, console.now), console.crowd.wait(place, console.now)):
        minutes = -(-left // MINUTE)
        raise Refused(429, _("That did not fit several times. Try again in {minutes} min.", minutes=minutes))
    kept = next((row for row in console.store.ask(access.listed(console.now, person)) if row.kind == "password"), None)
    fits = await asyncio.to_thread(password_fits, kept if person else None, form.get("password", ""))
    if not fits or _role(console, person) is None:
        console.tries.fail(tried, console.now)
        console.crowd.fail(place, console.now)
        text = _("The name and the password do not fit together.")
        return page(request, caller, "sign_in", code=403, next=onwards, text=text)
    console.tries.forget(tried)
    return await _welcome(request, person, onwards)


@ROUTES.get("/enter/{link}")
def show_link(request: Request, caller: Anyone, link: str) -> Response:
    """A link that works once: the page with its button."""
    console = console_of(request)
    found = console.store.ask(access.find(digest_of(link), console.now))
    if found is None or found.kind != "link" or _role(console, found.person) is None:
        raise Refused(404, _("This link was used already, or its time is over. Ask an admin for another one."))
    return page(request, caller, "enter", link=link, name=name_of(console, found.person))


@ROUTES.post("/enter/{link}")
async def use_link(request: Request, caller: Anyone, link: str) -> Response:
    """Uses a link up."""
    console = console_of(request)
    found = await console.store.write(access.take(digest_of(link), console.now))
    if found is None or _role(console, found.person) is None:
        raise Refused(404, _("This link was used already, or its time is over. Ask an admin for another one."))
    return await _welcome(request, found.person, "/me" if found.name == "invite" else "")


@ROUTES.post("/sign-out")
async def sign_out(request: Request, caller: SignedIn) -> Response:
    """Ends this session."""
    console = console_of(request)
    await console.store.write(access.end(caller.digest))
    answer = go(request, "/sign-in")
    drop_session(console, answer)
    return answer


@ROUTES.get("/me")
def own(request: Request, caller: SignedIn) -> Response:
    """One's own sessions, tokens and password."""
    console = console_of(request)
    rows = console.store.ask(access.listed(console.now, caller.person))
    has_password = any(row.kind == "password" for row in rows)
    shown = [row for row in rows if row.kind in ("session", "token")]
    return page(request, caller, "me", rows=shown, has_password=has_password)


@ROUTES.post("/me/password")
async def change_password(request: Request, caller: SignedIn) -> Response:
    """A new password; all sessions end but the one that begins with it."""
    console, form = console_of(request), await form_of(request)
    rows = console.store.ask(access.listed(console.now, caller.person))
    kept = next((row for row in rows if row.kind == "password"), None)
    tried = f"old {caller.person}"
    if console.tries.wait(tried, console.now):
        raise Refused(429, _("The old password did not fit several times. Try again in a quarter of an hour."))
    if kept is not None and not await asyncio.to_thread(password_fits, kept, form.get("old", "")):
        console.tries.fail(tried, console.now)
        raise Refused(403, _("The old password does not fit, so nothing was changed."))
    row = await asyncio.to_thread(new_password, caller.person, form.get("new", ""), now=console.now)
    await console.driver.admit(row)
    return await _welcome(request, caller.person, "/me")


@ROUTES.post("/me/end")
async def end_own(request: Request, caller: SignedIn) -> Response:
    """Ends one of one's own sessions or tokens."""
    console, form = console_of(request), await form_of(request)
    await console.store.write(access.end(form.get("which", ""), caller.person))
    return go(request, "/me")


async def _welcome(request: Request, person: str, onwards: str) -> Response:
    console = console_of(request)
    agent = request.headers.get("user-agent", "")[:80]
    secret, row = new_access("session", person, now=console.now, name=agent)
    await console.driver.admit(row)
    is_path = onwards.startswith("/") and not onwards.startswith(("//", "/\\"))
    answer = go(request, onwards if is_path else "/")
    set_cookie(console, answer, SESSION, secret, LIVES["session"] // SECOND)
    answer.delete_cookie(DOOR, path=console.prefix or "/")
    return answer


def _person(console: Console, name: str) -> str:
    """Who signs in by this name or mail address; empty for nobody."""
    key = name.removeprefix("person:")
    people = console.people.people
    if key in people:
        return f"person:{key}"
    found = [one.id for one in people.values() if one.mail and one.mail.lower() == name.lower()]
    return f"person:{found[0]}" if len(found) == 1 else "person:me" if key == "me" else ""


def _role(console: Console, person: str) -> str | None:
    return role_of(console.people, console.project.settings.admin, person)


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""
