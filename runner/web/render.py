"""A page out of its template: everything from outside is escaped, every sentence speaks the reader's language."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from runner.clock import iso
from runner.drawing.svg import STYLE
from runner.people.letters import nothing_was_sent
from runner.telling import words
from runner.tongue import _, point, several, spoken
from runner.web.console import Console, console_of
from runner.web.guard import DOOR, Caller, csrf_of, kept_as, name_of, new_door, way_of

NAMES = re.compile(r"\b(?:person|team):\w+")
"""People as the log names them."""
RESTORED = "/restored"
PAGES = Path(__file__).parent / "pages"
STATIC = {name: (PAGES / name).read_bytes() for name in ("style.css", "live.js", "icon.svg")}
STATIC["style.css"] += STYLE.encode()
VERSION = sha256(b"".join(STATIC.values())).hexdigest()[:12]

_JINJA = Environment(
    loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_JINJA.globals.update(_=_, several=several, version=VERSION, names=words.STATUS_NAMES, summary=words.summary)
_JINJA.globals.update(nothing_was_sent=nothing_was_sent)


def page(request: Request, caller: Caller, name: str, /, *, code: int = 200, **values: object) -> Response:
    """The page of a template, for this caller."""
    console, door = console_of(request), ""
    csrf = caller.csrf
    if not csrf:
        door = new_door()
        csrf = csrf_of(door)
    text = _JINJA.get_template(f"{name}.html").render(
        caller=caller, csrf=csrf, way=way_of(csrf), at=console.prefix, language=spoken(), path=request.url.path,
        project=console.project.settings.project, provider=console.provider, when=lambda at: point(at, console.zone),
        iso=lambda at: iso(at, console.zone), who=lambda person: who(console, person), capital=words.capital,
        plain=words.plain,
        named=lambda text: NAMES.sub(lambda found: who(console, found[0]), text),
        alarm=console.alarm if caller.sees and request.url.path != RESTORED else "", restored=RESTORED,
        rests=console.driver.rests, **values,
    )  # fmt: skip
    answer = HTMLResponse(text, code)
    if door:
        set_cookie(console, answer, DOOR, door)
    return answer


def part(name: str, **values: object) -> str:
    """A piece of a page."""
    return _JINJA.get_template(f"{name}.html").render(**values)


def who(console: Console, name: str) -> str:
    """Somebody as people call them: a person's name, a team as it is written."""
    kind, _sign, key = name.partition(":")
    if kind == "person":
        people = console.people
        found = name_of(console, f"person:{people.posts.get(key, key)}")
        return _("{name}", name=found) if people.posts.get(key, key) in people.people else found  # politely
    return _("team {name}", name=key) if kind == "team" else words.plain(name)


def go(request: Request, path: str) -> Response:
    """On to another page of ours; `path` begins with a slash."""
    return RedirectResponse(console_of(request).prefix + path, 303)


def set_cookie(
    console: Console, answer: Response, name: str, value: str, seconds: int | None = None, *, below: str = ""
) -> None:
    """A cookie that no script reads and no other site's form sends; for the pages `below` a path, or for all."""
    answer.set_cookie(
        kept_as(console, name, below), value, max_age=seconds, path=console.prefix + below or "/",
        secure=console.is_secure, httponly=True, samesite="lax",
    )  # fmt: skip


def drop_cookie(console: Console, answer: Response, name: str, *, below: str = "") -> None:
    """The browser forgets it."""
    set_cookie(console, answer, name, "", 0, below=below)
