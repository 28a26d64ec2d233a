"""`amends db`: the database as a file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place, watching
from runner.errors import NotPossible

COMMANDS = place.noun("The database as a file.")


@COMMANDS.command(help="Copy the database while the project runs.")
def backup(to: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.")]) -> None:
    if to.exists():
        raise NotPossible(f"{to} is there already; give another name, nothing was written")
    with place.reading() as project:
        project.store.backup(to)
    page.say(f"Copied to {to}. Files under .amends/artifacts are not in it; copy that folder too.")


@COMMANDS.command("go-on", help="Let a database that was put back from a copy be used: every open run is paused.")
def go_on(by: place.By = "") -> None:
    with watching.opened() as amends:
        paused = asyncio.run(amends.go_on_restored(watching.person(amends, by)))
    page.say(
        f"The project goes on. {len(paused)} open runs are paused; look at each before it is resumed:",
        *(f"  amends runs show {run}        amends runs resume {run}" for run in paused),
    )
