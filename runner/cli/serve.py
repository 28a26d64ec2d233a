"""`amends serve`: the engine and the pages, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from runner.app import Amends
from runner.cli import logs, page, place, watching
from runner.people.restored import told_restored
from runner.serving import serve as run
from runner.telling import words
from runner.telling.words import sentence
from runner.triggers.active import Active
from runner.triggers.schedule import scheduled
from runner.web.server import HOST, PORT, WebDoor

COMMANDS = place.verb()
MOST_SCHEDULES = 20


@COMMANDS.command(help="Drive the project's runs and show its pages until SIGTERM or Ctrl-C.")
def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = HOST,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = PORT,
) -> None:
    with watching.opened() as amends, logs.observed(amends) as on_turn:
        logging.getLogger("amends.triggers").setLevel(logging.INFO)  # slots without a run, flows that changed
        logging.getLogger("amends.web").setLevel(logging.INFO)  # who came in, who did not
        logging.getLogger("amends.engine.cluster").setLevel(logging.INFO)  # that Temporal answers again
        told: list[str] = []
        door = WebDoor(amends, host=host, port=port, on_open=lambda *pages: told.extend(_pages(*pages)))
        asyncio.run(
            run(
                amends, lambda active: _ready(amends, active, told), on_turn, door, on_rest=lambda: _rests(amends, told)
            )
        )  # fmt: skip
        page.say("Stopped. Runs that have not ended go on with the next start.")


def _ready(amends: Amends, active: Active, pages: Sequence[str]) -> None:
    count = len(amends.store.open_runs())
    have = "1 run has" if count == 1 else f"{count} runs have"
    drives = f"Amends drives {amends.settings.project} ({amends.folder}); {have} not ended. Ctrl-C ends it."
    page.say(drives, *pages, *place.driven_with(amends), *_fires(active, amends.clock.now()))


def _rests(amends: Amends, pages: Sequence[str]) -> None:
    page.say(
        f"{amends.settings.project} ({amends.folder}) rests: nothing is driven, started or sent until an admin has "
        "answered, here or on its page /restored. Ctrl-C ends it.",
        sentence(told_restored(amends.store)), *pages,
    )  # fmt: skip


def _fires(active: Active, now: int) -> Iterator[str]:
    """What fires by itself, the soonest first."""
    found = sorted(
        ((next(each.after(now)), armed.flow, each) for armed, each in scheduled(active.all())), key=lambda one: one[:2]
    )
    for at, flow, each in found[:MOST_SCHEDULES]:
        yield f"Fires by itself: {flow}, {each}, next {each.told(at)}"
    if len(found) > MOST_SCHEDULES:
        yield f"… and {len(found) - MOST_SCHEDULES} more: {words.PROGRAM} schedule list"


def _pages(address: str, link: str, unreached: str) -> list[str]:
    told = [f"Its pages: {address}"]
    if link:
        told.append(f"To sign in for the first time, open this within a day; it works once: {link}")
    if unreached:
        told.append(f"Links do not lead here yet: {address} cannot be reached from this machine ({unreached}).")
    return told
