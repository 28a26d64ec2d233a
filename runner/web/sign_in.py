"""Coming in and going out: at the project's provider, by a password, or by a link that works once.

Opening a link uses nothing up; pressing does. Whoever a provider names comes in as the person whom people.yaml knows by
that address, or not at all.
"""

from __future__ import annotations

import asyncio
import hmac
from urllib.parse import quote, unquote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from runner.clock import MINUTE, SECOND
from runner.errors import SecretMissing
from runner.language.settings import SignIn
from runner.people.access import LIVES, digest_of, new_access, new_password, password_fits, role_of
from runner.people.provider import TIME, Journey, NotProved, NotVerified, ProviderSilent, person_of, way_out, who_came
from runner.store import access
from runner.store.access import Kind
from runner.telling import words as telling
from runner.tongue import _
from runner.web.console import Console, console_of
from runner.web.guard import DOOR, SESSION, Anyone, Caller, Refused, SignedIn, form_of, kept_as, name_of, way_of
from runner.web.guestbook import address_of, note
from runner.web.render import drop_cookie, go, page, set_cookie

ROUTES = APIRouter()
JOURNEY = "amends_journey"
BACK = "/sign-in/back"


@ROUTES.get("/sign-in")
def ask(request: Request, caller: Anyone, next: str = "") -> Response:  # noqa: A002  the word in the address
    """The sign-in page."""
    return page(request, caller, "sign_in", next=next, text="")


@ROUTES.post("/sign-in")
async def sign_in(request: Request, caller: Anyone) -> Response:
    """A name and a password."""
    console, form = console_of(request), await form_of(request)
    name, onwards = form.get("name", "").strip(), form.get("next", "")
    person, tried, place = _person(console, name), f"name {name.lower()}", address_of(request)
    _hold_back(max(console.tries.wait(tried, console.now), console.crowd.wait(place, console.now)))
    kept = next((row for row in console.store.ask(access.listed(console.now, person)) if row.kind == "password"), None)
    fits = await asyncio.to_thread(password_fits, kept if person else None, form.get("password", ""))
    if not fits or _role(console, person) is None:
        console.tries.fail(tried, console.now)
        console.crowd.fail(place, console.now)
        note(request, f"a password did not fit {person or 'a name that nobody has'}", is_wrong=True)
        text = _("The name and the password do not fit together.")
        return page(request, caller, "sign_in", code=403, next=onwards, text=text)
    console.tries.forget(tried)
    return await _welcome(request, caller, person, onwards, by="a password")


@ROUTES.get("/sign-in/provider")
async def leave(request: Request, caller: Anyone, way: str = "", next: str = "") -> Response:  # noqa: A002
    """On to the provider, from a page that is open here: no other site begins it. What belongs to it stays with the
    browser."""
    console = console_of(request)
    words, journey = _provider(console), Journey.new()
    if not caller.csrf or not hmac.compare_digest(way.encode(), way_of(caller.csrf).encode()):
        return go(request, f"/sign-in?next={quote(next[:1_000])}")
    try:
        address = await way_out(words, journey, console.public_url.rstrip("/") + BACK)
    except ProviderSilent as error:
        return _stays_out(request, caller, next, error)
    answer = RedirectResponse(address, 303)
    kept = f"{journey.secret}.{quote(next[:1_000], safe='')}"
    set_cookie(console, answer, JOURNEY, kept, TIME // SECOND, below="/sign-in")
    return answer


@ROUTES.get(BACK)
async def come_back(request: Request, caller: Anyone) -> Response:
    """Back from the provider, with a code that this browser alone can use."""
    console = console_of(request)
    words, place = _provider(console), address_of(request)
    _hold_back(console.crowd.wait(place, console.now))
    secret, _dot, kept = request.cookies.get(kept_as(console, JOURNEY, "/sign-in"), "").partition(".")
    back, onwards = console.public_url.rstrip("/") + BACK, unquote(kept)
    try:
        if not secret:
            raise NotProved("this browser has not left for the provider, or too long ago")
        key = console.driver.post.secret(words.secret)
        claims = await who_came(words, key, Journey.of(secret), back, request.query_params, console.now)
        person, told = person_of(console.people, words, claims)
    except (NotProved, ProviderSilent, SecretMissing) as error:
        console.crowd.fail(place, console.now)
        return _stays_out(request, caller, onwards, error)
    if not person or _role(console, person) is None:
        note(request, f"{console.provider} knows {telling.plain(told)}, and people.yaml does not", is_wrong=True)
        return _stays_out(request, caller, onwards, None, told)
    answer = await _welcome(request, caller, person, onwards, by=console.provider)
    drop_cookie(console, answer, JOURNEY, below="/sign-in")
    return answer


def _stays_out(request: Request, caller: Caller, onwards: str, error: Exception | None, told: str = "") -> Response:
    """The sign-in page with why nobody came in by the provider; `told` is the name of somebody whom we do not know."""
    console = console_of(request)
    provider, code = console.provider, 403
    if error is None:
        text = _("{provider} knows you as {name}, and people.yaml names nobody so. Ask an admin to write you in.",
                 provider=provider, name=telling.plain(told))  # fmt: skip
    elif isinstance(error, NotVerified):
        text = _("{provider} has not verified your mail address. Have that done there, then begin again.",
                 provider=provider)  # fmt: skip
    elif isinstance(error, NotProved):
        text = _(
            "What {provider} answers proves nothing here, so nobody was signed in. Begin again.", provider=provider
        )
    else:
        code, text = 503, _("{provider} cannot be asked now. Try again in a minute.", provider=provider)
    if error is not None:
        note(request, f"nobody was signed in by {provider}: {error}", is_wrong=True)
    answer = page(request, caller, "sign_in", code=code, next=onwards, text=text)
    drop_cookie(console, answer, JOURNEY, below="/sign-in")
    return answer


def _provider(console: Console) -> SignIn:
    found = console.project.settings.sign_in
    if found is None:
        raise Refused(404, _("There is no such page."))
    return found


def _hold_back(left: int) -> None:
    """Raises Refused for somebody who has to wait so many ms."""
    if left:
        minutes = -(-left // MINUTE)
        raise Refused(429, _("That did not fit several times. Try again in {minutes} min.", minutes=minutes))


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
        note(request, "a link that opens nothing was pressed", is_wrong=True)
        raise Refused(404, _("This link was used already, or its time is over. Ask an admin for another one."))
    return await _welcome(request, caller, found.person, "/me" if found.name == "invite" else "", "visit", by="a link")


@ROUTES.post("/sign-out")
async def sign_out(request: Request, caller: SignedIn) -> Response:
    """Ends this session."""
    console = console_of(request)
    await console.store.write(access.end(caller.digest))
    note(request, f"{caller.person} signed out")
    answer = go(request, "/sign-in")
    drop_cookie(console, answer, SESSION)
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


@ROUTES.get("/me")
def own(request: Request, caller: SignedIn) -> Response:
    """One's own sessions, tokens and password."""
    console = console_of(request)
    rows = console.store.ask(access.listed(console.now, caller.person))
    has_password = any(row.kind == "password" for row in rows)
    shown = [row for row in rows if row.kind in ("session", "visit", "token")]
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
    somebody = console.people.people.get(caller.person.removeprefix("person:"))
    names = (console.project.settings.project, caller.name, somebody.mail if somebody is not None else "")
    row = await asyncio.to_thread(new_password, caller.person, form.get("new", ""), now=console.now, names=names)
    await console.driver.admit(row)
    return await _welcome(request, caller, caller.person, "/me", by="a new password")


@ROUTES.post("/me/end")
async def end_own(request: Request, caller: SignedIn) -> Response:
    """Ends one of one's own sessions or tokens."""
    console, form = console_of(request), await form_of(request)
    await console.store.write(access.end(form.get("which", ""), caller.person))
    return go(request, "/me")


async def _welcome(
    request: Request, caller: Caller, person: str, onwards: str, kind: Kind = "session", *, by: str
) -> Response:
    """A new session; the one that this browser had ends."""
    console = console_of(request)
    agent, idle = request.headers.get("user-agent", "")[:80], console.project.settings.session_idle.ms
    secret, row = new_access(kind, person, now=console.now, name=agent, idle=idle)
    await console.driver.admit(row)
    await console.store.write(access.end(caller.digest))
    note(request, f"{person} came in by {by}")
    is_path = onwards.startswith("/") and not onwards.startswith(("//", "/\\"))
    answer = go(request, onwards if is_path else "/")
    set_cookie(console, answer, SESSION, secret, LIVES[kind] // SECOND)
    drop_cookie(console, answer, DOOR)
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
