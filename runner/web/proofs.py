"""A link out of a mail: it proves nothing. Whoever opens it proves for whom by a code that is mailed to that person.

A code is good for the browser that asked for it and for this one link; what it proves holds there for half an hour,
and for what the same run asks the same person next.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from runner.clock import MINUTE
from runner.language.people import Person
from runner.people.access import digest_of, new_access
from runner.people.codes import digest_of_code, masked, new_code
from runner.store import access, codes, notices
from runner.store.notices import Notice
from runner.tongue import _, speaking
from runner.web.console import Console, console_of
from runner.web.guard import DOOR, SESSION, Caller, Refused, form_of, kept_as
from runner.web.guestbook import note
from runner.web.render import go, page, set_cookie

PROVED = "amends_review"
LONGEST = 1_000


def notice_at(console: Console, locator: str, *, is_handoff: bool = False) -> Notice:
    """What a locator leads to: an approval, or a hand-off. Raises Refused."""
    found = console.store.ask(notices.find(locator))
    if found is None or bool(found.handoff) is not is_handoff:
        raise Refused(404, _("There is no such question here. It may have been settled long ago."))
    return found


def is_proved(request: Request, notice: Notice) -> bool:
    """Whether this browser has proved by a code to be the person's."""
    console = console_of(request)
    found = console.store.ask(access.find(digest_of(_proof(request)), console.now))
    if found is None or (found.kind, found.person) != ("review", notice.person):
        return False
    proved = notice if found.name == notice.locator else console.store.ask(notices.find(found.name))
    fits = proved == notice or (proved is not None and _are_of_one_run(proved, notice))
    return fits and _person(console, notice) is not None


def _proof(request: Request) -> str:
    """The secret that this browser got for a code."""
    return request.cookies.get(kept_as(console_of(request), PROVED, "below"), "")


def _are_of_one_run(one: Notice, other: Notice) -> bool:
    """Whether both are questions of one run to one person, none of them an approval."""
    return bool(one.handoff and other.handoff) and (one.run, one.person) == (other.run, other.person)


def carry_over(request: Request, answer: Response, pages: Sequence[str]) -> None:
    """What this browser has proved it shows on these pages too."""
    for path in pages:
        set_cookie(console_of(request), answer, PROVED, _proof(request), below=path)


def door(
    request: Request, caller: Caller, notice: Notice, home: str, heading: str, about: str, *, ended: str = "",
    takes_code: bool = True, text: str = "", code: int = 200,
) -> Response:  # fmt: skip
    """What waits and for whom, without a word of its content. `home` is the link's own page; `ended` why it is over."""
    console = console_of(request)
    person = _person(console, notice)
    has_code = console.store.ask(codes.is_waiting(notice.locator, digest_of(_browser(request, caller)), console.now))
    return page(
        request, caller, "door", code=code, text=text, heading=heading, about=about, home=home, ended=ended,
        address=masked(person.mail) if person is not None else "", has_code=has_code,
        by_code=takes_code and _takes_mail(console, person), is_other=caller.person not in ("", notice.person),
    )  # fmt: skip


async def send_code(request: Request, caller: Caller, notice: Notice, home: str) -> Response:
    """Mails a code to the person's address. Raises Refused."""
    console = console_of(request)
    person = _person(console, notice)
    if person is None or not _takes_mail(console, person):
        raise Refused(409, _("A code by mail does not open this. Sign in instead."))
    code, row = new_code(notice.locator, notice.person, _browser(request, caller), console.now)
    if not await console.store.write(codes.ask(row)):
        raise Refused(429, _("Too many codes were asked for. Try again in an hour, or sign in."))
    with speaking(console.driver.post.language(person)):
        subject = _("Your code for {project}", project=console.project.settings.project)
        text = "\n\n".join((
            _("Your code: {code}", code=code),
            _("Type it on the page that you opened. It counts once, for {minutes} minutes, in that browser alone.",
              minutes=codes.LIFE // MINUTE),
            _("If you did not ask for it, do nothing: without it nobody can decide for you."),
        ))  # fmt: skip
    outcome = await console.driver.post.mail(person, subject, text, f"code/{row.digest}")
    if outcome.result in ("refused", "not_sent"):
        raise Refused(503, _("The code could not be mailed. Try again a little later, or sign in."))
    return go(request, home)


async def take_code(request: Request, caller: Caller, notice: Notice, home: str) -> Response | str:
    """Takes a code: from here on this browser has proved for whom it opens this link. Or says why not."""
    console, form, browser = console_of(request), await form_of(request), _browser(request, caller)
    typed = digest_of_code(form.get("code", "")[:LONGEST], notice.locator, browser)
    tried = await console.store.write(codes.take(notice.locator, digest_of(browser), typed, console.now))
    if tried != "fits":
        note(request, f"a code did not fit, or counts no more, for {notice.person}", is_wrong=True)
    if tried == "wrong":
        return _("That is not the code. Look at the newest mail, and type it again.")
    if tried == "none":
        return _("That code does not count any more. Ask for a new one.")
    secret, row = new_access("review", notice.person, now=console.now, name=notice.locator)
    await console.driver.admit(row)
    note(request, f"{notice.person} proved to be asked by a code")
    answer = go(request, home)
    set_cookie(console, answer, PROVED, secret, below=home)
    return answer


def _person(console: Console, notice: Notice) -> Person | None:
    return console.people.people.get(notice.person.removeprefix("person:"))


def _takes_mail(console: Console, person: Person | None) -> bool:
    return person is not None and "mail" in console.driver.post.channels(person)


def _browser(request: Request, caller: Caller) -> str:
    """The secret of the browser that asks."""
    return request.cookies.get(kept_as(console_of(request), SESSION if caller.person else DOOR), "")
