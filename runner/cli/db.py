"""`amends db`: the database as a whole."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place, watching
from runner.errors import NotPossible
from runner.people.pruning import Pruned, keep_of
from runner.reading import address_of, database_url
from runner.store.copying import copy_database, put_back
from runner.store.prune import due
from runner.store.sqlite import shown_size
from runner.telling import times
from runner.telling.words import sentence

COMMANDS = place.noun("The database as a whole.")


@COMMANDS.command(help="Copy the database while the project runs.")
def backup(to: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.")]) -> None:
    if to.exists():
        raise NotPossible(f"{to} is there already; give another name, nothing was written")
    with place.reading() as project:
        project.store.backup(to)
    page.say(f"Copied to {to}. Files under .amends/artifacts are not in it; copy that folder too.")


@COMMANDS.command(help="Remove ended runs whose time is over (`keep`), and give the disk back what they took.")
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    by: place.By = "",
    as_json: place.AsJson = False,
) -> None:
    with watching.opened() as amends:
        who = watching.person(amends, by)
        if not amends.has_log:
            raise NotPossible("there are no runs yet, so there is nothing to remove")
        before = amends.store.about()["bytes"]
        if dry_run:
            portion = due(amends.store, keep_of(amends.project), amends.clock.now(), most=None)
            done = Pruned(runs=len(portion.ends), entries=portion.entries)
        else:
            done = watching.drive(amends, lambda driver: driver.prune(who))
        freed = before - amends.store.about()["bytes"]
    if as_json:
        page.say_json({**asdict(done), "freed": max(freed, 0)})
        return
    what = f"{times.counted(done.runs, 'ended run')} with {done.entries} entries"
    page.say(f"{what} would be removed." if dry_run else f"{what} removed; {shown_size(max(freed, 0))} given back.")
    if done.note:
        page.say(sentence(done.note))


@COMMANDS.command(help="Copy everything, open runs too, to an empty database: to PostgreSQL, or back to a file.")
def copy(
    to: Annotated[str, typer.Argument(help="The secret with a PostgreSQL address, or sqlite:///path/to/file.db.")],
    as_json: place.AsJson = False,
) -> None:
    with place.reading() as project:
        source = database_url(project.folder, project.settings)
        target = to if to.startswith("sqlite:") else address_of(project.folder, to)
        keys = project.settings.anchors.keys if project.settings.anchors else ()
        copied = copy_database(project.folder, source=source, target=target, clock=project.clock, keys=keys)
    if as_json:
        page.say_json(copied)
        return
    line = f"database: {to.removeprefix('sqlite:///')}" if target is to else f"database: {{ secret: {to} }}"
    page.say(
        f"{times.counted(copied['runs'], 'run')} with {copied['log'] - copied['site']} entries copied, and "
        f"{copied['site']} entries of the project itself; every chain holds there.",
        f"The project still uses the old database. Write this line into amends.yaml and start it again: {line}",
    )


@COMMANDS.command(help="Put a copy back in the place of the database in use, which is kept beside it.")
def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FROM", help="What `amends db backup` wrote, or a copy of .amends.")
    ],
) -> None:
    with place.reading() as project:
        url = database_url(project.folder, project.settings)
        opened, kept = put_back(project.folder, source, url=url, clock=project.clock)
    page.say(
        f"Put back from {source}; {times.counted(opened, 'open run')}. What was done since is not in its log.",
        *([f"The database that was in use is kept as {kept}."] if kept else []),
        "Look at the open runs (`amends runs list`), then `amends db go-on` pauses each and lets the project go on.",
    )


@COMMANDS.command("go-on", help="Let a database that was put back from a copy be used: every open run is paused.")
def go_on(
    moved: Annotated[
        bool, typer.Option("--moved", help="The folder was moved, and where it was nobody goes on: nothing is paused.")
    ] = False,
    by: place.By = "",
) -> None:
    with watching.opened() as amends:
        paused = asyncio.run(amends.go_on_restored(watching.person(amends, by), moved=moved))
    if moved:
        page.say("The project goes on here.")
        return
    page.say(
        "The project goes on. No run was open."
        if not paused
        else f"The project goes on. {times.counted(len(paused), 'open run')} {'is' if len(paused) == 1 else 'are'} "
        "paused; look at each before it is resumed:",
        *(f"  amends runs show {run}        amends runs resume {run}" for run in paused),
    )
