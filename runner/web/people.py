"""People: who is who, who is on duty, and, for an admin, links and sessions."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.clock import iso
from runner.errors import NotFound
from runner.language.duty import calendar_of, told
from runner.language.people import ME
from runner.people.access import new_access, role_of
from runner.store import access
from runner.store.access import Access
from runner.tongue import _
from runner.web.console import Console, console_of
from runner.web.guard import Admin, Sees, form_of
from runner.web.guestbook import note
from runner.web.render import go, page, who

ROUTES = APIRouter()


@ROUTES.get("/people")
def people(request: Request, caller: Sees) -> Response:
    """Everybody, the teams, and who is away today."""
    console = console_of(request)
    found = console.people
    zone = calendar_of(found, console.project.settings.zone).zone
    today = iso(console.now, zone)[:10]
    roles = {key: role_of(found, console.project.settings.admin, f"person:{key}") for key in found.people}
    away = [each for each in found.away if each.first <= today <= each.last]
    return page(
        request, caller, "people", people=found, roles=roles, away=away,
        teams=[
            (team, [one.name for one in told(found, f"team:{team.id}", console.now, zone)])
            for team in found.teams.values()
        ],
        passed={team.id: ", ".join(who(console, one) for one in team.escalate_to) for team in found.teams.values()},
        rows=_others(console) if caller.role == "admin" else (),
    )  # fmt: skip


def _others(console: Console) -> Sequence[Access]:
    """What opens a door, newest first."""
    return [row for row in console.store.ask(access.listed(console.now)) if row.kind not in ("password", "review")]


@ROUTES.post("/people/invite")
async def invite(request: Request, caller: Admin) -> Response:
    """A link for somebody, shown once: they sign in by it and choose a password."""
    console, form = console_of(request), await form_of(request)
    person = f"person:{form.get('person', '')}"
    if role_of(console.people, console.project.settings.admin, person) is None or person == ME:
        raise NotFound(_("There is nobody of this name in people.yaml."))
    secret, row = new_access("link", person, now=console.now, name="invite")
    await console.driver.admit(row)
    note(request, f"{caller.person} made a link for {person}")
    link = f"{console.public_url.rstrip('/')}/enter/{secret}"
    return page(request, caller, "invited", person=person, link=link, until=row.until)


@ROUTES.post("/people/end")
async def end(request: Request, caller: Admin) -> Response:
    """Ends somebody's session, link or token."""
    console, form = console_of(request), await form_of(request)
    await console.store.write(access.end(form.get("which", "")))
    note(request, f"{caller.person} ended somebody's way in")
    return go(request, "/people")
