"""`amends serve`: the engine alone, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio

from runner.app import Amends
from runner.cli import page, place, watching

COMMANDS = place.verb()


@COMMANDS.command(help="Drive the project's runs until SIGTERM or Ctrl-C; other commands hand their wishes to it.")
def serve() -> None:
    with watching.opened() as amends:
        asyncio.run(amends.serve(lambda: _ready(amends)))
        page.say("Stopped. Runs that have not ended go on with the next start.")


def _ready(amends: Amends) -> None:
    count = len(amends.store.open_runs())
    have = "1 run has" if count == 1 else f"{count} runs have"
    page.say(f"Amends drives {amends.settings.project} ({amends.folder}); {have} not ended. Ctrl-C ends it.")
