"""`amends serve`: the engine alone, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio

import typer

from runner.app import Amends
from runner.cli import page, place

COMMANDS = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@COMMANDS.command(help="Drive the project's runs until SIGTERM or Ctrl-C; other commands hand their wishes to it.")
def serve() -> None:
    with place.opened() as amends:
        asyncio.run(amends.serve(lambda: _ready(amends)))
        page.say("Stopped. Runs that have not ended go on with the next start.")


def _ready(amends: Amends) -> None:
    folder = amends.project.folder
    count = len(amends.store.open_runs())
    have = "1 run has" if count == 1 else f"{count} runs have"
    page.say(f"Amends drives {amends.project.settings.project} ({folder}); {have} not ended. Ctrl-C ends it.")
