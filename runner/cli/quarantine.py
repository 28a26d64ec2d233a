"""`amends quarantine`: records that were set aside as doubtful, and what becomes of them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from runner.cli import page, place, watching
from runner.cli.place import AsJson, By, Reason, Reveal, RunId
from runner.clock import iso
from runner.driver import Driver
from runner.errors import NotFound
from runner.telling import sent, times, words

COMMANDS = place.noun("Records that were set aside as doubtful: list, release, discard.")

Record = Annotated[
    str, typer.Argument(metavar="[RECORD]", help="The record, where the run has set aside more than one.")
]


@COMMANDS.command("list", help="List what is set aside, oldest first.")
def list_all(
    everything: Annotated[bool, typer.Option("--all", help="What was released or discarded too.")] = False,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    with place.reading() as project:
        zone = place.zone_of(project)
        found = list(project.store.quarantined(open_only=not everything)) if project.has_log else []
        found = found if reveal else [project.veiled(each) for each in found]
    if as_json:
        page.say_json([{**asdict(each), "at": iso(each.at, zone)} for each in found])
    elif not found:
        page.say("Nothing is set aside.")
    else:
        since = f"since ({times.offsets([each.at for each in found], zone)})"
        rows = [
            (each.run, each.record, times.short(each.at, zone), words.plain(each.reason), sent.pairs(each.content))
            for each in found
        ]
        page.show(page.listed(("run", "record", since, "why", "content"), rows, fixed=(0, 1, 2)))
        if any(each.status == "set_aside" for each in found):
            page.say("", f"Let one count again: {words.PROGRAM} quarantine release {found[0].run} {found[0].record}")


@COMMANDS.command(help="Let a record count again.")
def release(run: RunId, record: Record = "", reason: Reason = "", by: By = "") -> None:
    _answer(run, record, reason, by, discard=False)


@COMMANDS.command(help="Leave a record out for good; what is outside stays as it is.")
def discard(run: RunId, record: Record = "", reason: Reason = "", by: By = "") -> None:
    _answer(run, record, reason, by, discard=True)


def _answer(run: str, record: str, reason: str, by: str, *, discard: bool) -> None:
    with watching.opened() as amends:
        name, person = amends.store.run(run).run, watching.person(amends, by)
        mine = [each.record for each in amends.store.quarantined() if each.run == name]
        if not record and len(mine) != 1:
            asks = f"has set aside {', '.join(mine)}; name one" if mine else "has nothing set aside (any more)"
            raise NotFound(f"run {name} {asks}")
        meant = record or mine[0]

        async def doing(driver: Driver) -> None:
            await driver.answer_quarantine(name, meant, by=person, reason=reason, discard=discard)

        try:
            watching.drive(amends, doing)
        except asyncio.CancelledError:
            raise place.Interrupted("Stopped; look with `amends quarantine list` whether it was done.") from None
    page.say(f"Discarded: {meant} stays out." if discard else f"Released: {meant} counts again.")
