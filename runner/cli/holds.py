"""`hold` and `release`, as connections and flows have them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Literal

import typer

from runner.app import Amends
from runner.cli import page, watching
from runner.cli.place import By, Reason
from runner.errors import NotFound
from runner.language.nearest import did_you_mean
from runner.people.holds import Hold
from runner.telling.words import PROGRAM

HELP = {
    "connection": "Begin nothing new at a connection until it is released; open calls get their answers.",
    "flow": "Begin nothing new in the runs of a flow until it is released; what is being made good goes on.",
}


def add_to(
    commands: typer.Typer, kind: Literal["connection", "flow"], names: Callable[[Amends], Collection[str]]
) -> None:
    """Gives a noun the two commands. `names` are those that can be held."""
    name_type = Annotated[str, typer.Argument(metavar="NAME", help=f"The {kind}'s name.")]

    def hold(name: str, reason: Reason = "", by: By = "") -> None:
        with watching.opened() as amends:
            known = names(amends)
            if name not in known:
                raise NotFound(f'there is no {kind} "{name}"; {did_you_mean(name, known, "there are")}')
            wish = Hold(kind=kind, name=name, by=watching.person(amends, by), reason=reason)
            watching.drive(amends, lambda driver: driver.hold(wish))
        page.say(
            f"The {kind} {name} is held: nothing new is begun there, over restarts too, until "
            f"`{PROGRAM} {kind}s release {name}`."
        )

    def release(name: str, reason: Reason = "", by: By = "") -> None:
        with watching.opened() as amends:
            wish = Hold(kind=kind, name=name, by=watching.person(amends, by), reason=reason, is_held=False)
            watching.drive(amends, lambda driver: driver.hold(wish))
        page.say(f"The {kind} {name} is released: what waited for it goes on.")

    for command in (hold, release):
        command.__annotations__["name"] = name_type
    commands.command("hold", help=HELP[kind])(hold)
    commands.command("release", help=f"Let a {kind} that was held go on.")(release)
