"""Who may ask for what. Every route declares one of these guards as a parameter; a test lists the routes.

A request that changes something is let through only with the token that belongs to its cookie, from a page of ours.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends
from starlette.requests import ClientDisconnect, Request

from runner.errors import AmendsError, StoreUnwritable
from runner.language.people import ME
from runner.people.access import ROLES, digest_of, lasts_until, role_of
from runner.store import access
from runner.tongue import _, chosen, speak
from runner.web.console import Console, console_of

SESSION, DOOR = "amends_session", "amends_door"
SAFE = ("GET", "HEAD", "OPTIONS")
FILLER = "whoever fills in a form"
WHILE_RESTING = ("/restored", "/api/v1/restored", "/sign-in", "/sign-out", "/enter/", "/me")
"""What people may do while the project rests: come in, and answer."""
LOOKS_ON, LIVE = "x-looks-on", "/live"
"""What a page asks for by itself says so, and has its own path: that nobody sits before it does not keep a session."""


class Refused(AmendsError):
    """A page that is not shown: `status` is HTTP's."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class SignInFirst(AmendsError):
    """Nobody is signed in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who asks. `person` is empty for nobody; `role` is what people.yaml gives them now, empty for none.

    `csrf` is the token that forms of this caller carry, `digest` the session's name in the database. `has_signed_in`:
    by a password or at the provider; whoever came by a link has not. `until`: when the session ends from now on, where
    that is to be written down.
    """

    person: str = ""
    name: str = ""
    role: str = ""
    csrf: str = ""
    digest: str = ""
    has_signed_in: bool = False
    until: int = 0

    def is_one_of(self, *roles: str) -> bool:
        """The role is one of these, or admin."""
        return self.role == "admin" or self.role in roles

    @property
    def is_admin(self) -> bool:
        """May do whatever people may do."""
        return self.role == "admin"

    @property
    def sees(self) -> bool:
        """May look at every run."""
        return self.role in ROLES

    @property
    def operates(self) -> bool:
        """May answer for others and give orders to runs."""
        return self.is_one_of("operator")

    @property
    def approves(self) -> bool:
        """May decide by a token what is asked of them."""
        return self.is_one_of("approver")

    @property
    def starts(self) -> bool:
        """May start runs."""
        return self.is_one_of("operator", "author")


class Guard:
    """A dependency that lets some people through. `declares` is what it is called in the list of routes."""

    def __init__(self, declares: str, needs: str = "", *, by_token: bool = False) -> None:
        self.declares = declares
        self._needs = needs
        self._by_token = by_token

    async def __call__(self, request: Request) -> Caller:
        console = console_of(request)
        speak("en" if self._by_token else _language(console, request, ""))
        caller = self._bearer(console, request) if self._by_token else _by_cookie(console, request)
        request.state.caller = caller
        if caller.person and not self._by_token:
            speak(_language(console, request, caller.person))
        if self.declares in ("anyone", FILLER):
            pass
        elif not caller.person:
            raise SignInFirst(_("Please sign in first."))
        elif self._needs and not getattr(caller, self._needs):
            raise Refused(403, _("{name} may not do this: people.yaml gives no role for it.", name=caller.name))
        elif self.declares == "admin" and caller.role != "admin":
            raise Refused(403, _("This is for an admin of the project."))
        refuse_while_resting(request, always=self.declares == FILLER)
        if request.method not in SAFE and not self._by_token and self.declares != FILLER:
            refuse_strangers(request, caller, (await form_of(request)).get("csrf", ""))
        if caller.until and not self._by_token and LOOKS_ON not in request.headers and request.url.path != LIVE:
            with suppress(StoreUnwritable):
                await console.soon(console.store.write(access.move_end(caller.digest, caller.until)))
        return caller

    def _bearer(self, console: Console, request: Request) -> Caller:
        kind, _space, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return Caller()
        return _caller(console, token.strip(), "token")


Anyone = Annotated[Caller, Depends(Guard("anyone"))]
"""Whoever comes: the pages before a sign-in."""
Fills = Annotated[Caller, Depends(Guard(FILLER))]
"""Whoever comes; what is sent may come from anywhere, and the form itself says what it asks of its sender."""
SignedIn = Annotated[Caller, Depends(Guard("signed in"))]
"""Anybody who is signed in; what is shown is theirs."""
Sees = Annotated[Caller, Depends(Guard("sees", "sees"))]
Operates = Annotated[Caller, Depends(Guard("operates", "operates"))]
Starts = Annotated[Caller, Depends(Guard("starts", "starts"))]
Admin = Annotated[Caller, Depends(Guard("admin"))]
ApiSees = Annotated[Caller, Depends(Guard("token that sees", "sees", by_token=True))]
ApiOperates = Annotated[Caller, Depends(Guard("token that operates", "operates", by_token=True))]
ApiApproves = Annotated[Caller, Depends(Guard("token that approves", "approves", by_token=True))]
ApiAdmin = Annotated[Caller, Depends(Guard("token of an admin", "is_admin", by_token=True))]
ApiStarts = Annotated[Caller, Depends(Guard("token that starts", "starts", by_token=True))]


class ByProof(Guard):
    """Lets everything through: what proves a delivery stands in itself, and is looked at with its raw bytes."""

    async def __call__(self, request: Request) -> Caller:
        speak("en")
        refuse_while_resting(request)
        return Caller()


Proved = Annotated[Caller, Depends(ByProof("proof in the delivery"))]


def refuse_while_resting(request: Request, *, always: bool = False) -> None:
    """Raises Refused for what changes something (or for all, `always`) while the project rests after a restore."""
    if not console_of(request).driver.rests or (request.method in SAFE and not always):
        return
    if not request.url.path.startswith(WHILE_RESTING):
        raise Refused(503, _("The project rests: its database was put back from a copy. Nothing is started, sent or "
                             "changed until an admin has answered; try again later."))  # fmt: skip


def greet(request: Request) -> None:
    """Speaks the language of whoever has come, where no route of ours has asked who it is; English to programs."""
    console, is_program = console_of(request), request.url.path.startswith(("/api/", "/metrics"))
    request.state.caller = caller = _by_cookie(console, request)
    speak("en" if is_program else _language(console, request, caller.person))


def kept_as(console: Console, name: str, below: str = "") -> str:
    """What a cookie is called: behind https so that it cannot be set without, and by no other host."""
    if not console.is_secure:
        return name
    return f"__Secure-{name}" if console.prefix or below else f"__Host-{name}"


def _by_cookie(console: Console, request: Request) -> Caller:
    session = request.cookies.get(kept_as(console, SESSION), "")
    caller = _caller(console, session, "session", "visit") if session else Caller()
    return caller if caller.person else Caller(csrf=csrf_of(request.cookies.get(kept_as(console, DOOR), "")))


def _caller(console: Console, secret: str, *kinds: str) -> Caller:
    found = access.look_up(console.store.rows, digest_of(secret), console.now)
    if found is None or found.kind not in kinds:
        return Caller()
    people, admin = console.people, console.project.settings.admin
    role = role_of(people, admin, found.person)
    if role is None:
        return Caller()
    is_idle_for = console.project.settings.session_idle.ms
    until = found.until if found.kind == "token" else lasts_until(found, console.now, is_idle_for)
    return Caller(
        person=found.person, name=name_of(console, found.person), role=role, csrf=csrf_of(secret), digest=found.digest,
        has_signed_in=found.kind == "session", until=until if until != found.until else 0,
    )  # fmt: skip


def name_of(console: Console, person: str) -> str:
    """What somebody is called on the pages."""
    known = console.people.people.get(person.removeprefix("person:"))
    return known.name if known is not None else _("whoever has the terminal") if person == ME else person


def _language(console: Console, request: Request, person: str) -> str:
    known = console.people.people.get(person.removeprefix("person:"))
    own = known.language if known is not None else ""
    return chosen(own, request.headers.get("accept-language", ""), console.project.settings.language)


def csrf_of(cookie: str) -> str:
    """The token of the forms that go with a cookie; empty for no cookie."""
    return sha256(f"form {cookie}".encode()).hexdigest() if cookie else ""


def way_of(csrf: str) -> str:
    """What a link carries that only a page of this browser may lead to; empty for no token."""
    return sha256(f"way {csrf}".encode()).hexdigest()[:32] if csrf else ""


def new_door() -> str:
    """A cookie for somebody who is not signed in yet."""
    return secrets.token_urlsafe(16)


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form that was sent; the last one of each name."""
    try:
        body = (await request.body()).decode()
        return {
            name: values[-1] for name, values in parse_qs(body, keep_blank_values=True, max_num_fields=20_000).items()
        }
    except (UnicodeDecodeError, ValueError, ClientDisconnect):
        raise Refused(400, _("This form cannot be read.")) from None


def refuse_strangers(request: Request, caller: Caller, csrf: str) -> None:
    """Raises Refused for what was not sent by a page of ours to this very browser, which carries `csrf`."""
    is_known = bool(caller.csrf) and hmac.compare_digest(csrf.encode(), caller.csrf.encode())
    if not is_known or not _is_ours(console_of(request), request):
        raise Refused(403, _("This form did not come from a page that is open here. Open the page again."))


def _is_ours(console: Console, request: Request) -> bool:
    """Whether one of our pages sent this.

    Our pages send no referrer, so browsers call their forms' origin "null"; what they say beside it then decides. Over
    plain http from another computer they say nothing beside it: there the token alone has to do.
    """
    origin, site = request.headers.get("origin", ""), request.headers.get("sec-fetch-site", "")
    host = request.headers.get("host", "")
    if origin not in ("", "null"):
        return urlsplit(origin).netloc.lower() == host.lower() and site in ("", "same-origin")
    is_here = host.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")
    return site == "same-origin" or (not site and origin == "null" and not console.is_secure and not is_here)
