"""`amends serve`: the engine alone, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from runner.app import Amends
from runner.cli import page, place, watching
from runner.core import events as e
from runner.core.state import State
from runner.errors import NotFound
from runner.reading import SETTINGS
from runner.telling import words

COMMANDS = place.verb()


@COMMANDS.command(help="Drive the project's runs until SIGTERM or Ctrl-C; other commands hand their wishes to it.")
def serve() -> None:
    with watching.opened() as amends:
        if not ((amends.folder / SETTINGS).is_file() or (amends.folder / "flows").is_dir()):
            raise NotFound(f"{amends.folder} is no project: it has no {SETTINGS}; `{words.PROGRAM} init` makes one")
        asyncio.run(amends.serve(lambda: _ready(amends), _tell))
        page.say("Stopped. Runs that have not ended go on with the next start.")


def _tell(run: str, events: Sequence[e.Event], state: State) -> None:
    """One line for a run that has ended or needs somebody."""
    at = f"{datetime.now().astimezone():%H:%M:%S} {run} ({state.flow})"
    for event in events:
        if isinstance(event, e.HandedOff):
            page.say(f"{at} needs {event.owner}: {words.PROGRAM} handoffs show {run} {event.handoff}")
        elif isinstance(event, e.RunFinished):
            page.say(f"{at} {words.STATUS.get(event.status, event.status)}")


def _ready(amends: Amends) -> None:
    count = len(amends.store.open_runs())
    have = "1 run has" if count == 1 else f"{count} runs have"
    page.say(f"Amends drives {amends.settings.project} ({amends.folder}); {have} not ended. Ctrl-C ends it.")
