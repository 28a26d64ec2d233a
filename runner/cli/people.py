"""`amends people`: links, passwords and tokens with which people and programs come in to the pages and the API."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import Annotated

import typer

from runner.app import Amends
from runner.cli import page, place, watching
from runner.clock import shown
from runner.errors import NotFound, NotPossible
from runner.language.nearest import did_you_mean
from runner.language.people import ME
from runner.people.access import new_access, new_password, role_of
from runner.store.access import Access

COMMANDS = place.noun("Sign-in links, passwords and tokens for the pages and the API.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Somebody of people.yaml: tom; me where there is no file.")]


@COMMANDS.command(help="Make a link by which somebody signs in once, and chooses a password then.")
def invite(name: Name) -> None:
    with watching.opened() as amends:
        person = _person(amends, name)
        secret, row = new_access("link", person, now=amends.clock.now(), name="invite")
        _admit(amends, row)
        page.say(f"{amends.pages}/enter/{secret}")
        page.complain(f"It works once, until {shown(row.until, place.zone_of(amends))}; give it to {person} alone.")


@COMMANDS.command(help="Set somebody's password (asked for, or the first line of standard input); sessions end.")
def password(name: Name) -> None:
    with watching.opened() as amends:
        person = _person(amends, name)
        is_typed = sys.stdin.isatty()
        given = getpass.getpass("New password: ") if is_typed else sys.stdin.readline().rstrip("\n")
        if is_typed and getpass.getpass("Once more: ") != given:
            raise NotPossible("the two are not the same, so nothing was changed")
        _admit(amends, new_password(person, given, now=amends.clock.now(), names=_names(amends, person)))
        page.say(f"The password of {person} is set.")


@COMMANDS.command(help="Make a token with which a program uses the API as this person; it is shown once.")
def token(
    name: Name,
    what_for: Annotated[str, typer.Option("--for", help="What it is for; it stands in the list of tokens.")] = "",
) -> None:
    with watching.opened() as amends:
        person = _person(amends, name)
        secret, row = new_access("token", person, now=amends.clock.now(), name=what_for)
        _admit(amends, row)
        page.say(secret)
        page.complain(f"It acts as {person} until {shown(row.until, place.zone_of(amends))}, and is not shown again.")


def _person(amends: Amends, name: str) -> str:
    """Who is meant. Raises NotFound with the nearest name."""
    people, key = amends.project.people, name.removeprefix("person:")
    person = f"person:{people.posts.get(key, key)}"
    if role_of(people, amends.settings.admin, person) is not None:
        return person
    known = [*people.people, *people.posts] or [ME.removeprefix("person:")]
    raise NotFound(f'there is nobody "{name}" who can sign in; {did_you_mean(name, known, "there are")}')


def _names(amends: Amends, person: str) -> list[str]:
    """What a password of this person must not be made of."""
    found = amends.project.people.people.get(person.removeprefix("person:"))
    return [amends.settings.project, *((found.name, found.mail) if found is not None else ())]


def _admit(amends: Amends, row: Access) -> None:
    try:
        asyncio.run(amends.admit(row))
    except KeyboardInterrupt:
        raise place.Interrupted("Stopped; nothing was changed.") from None
