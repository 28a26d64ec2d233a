"""`amends log anchor`: what the noun needs an engine for; the rest stands in `auditing`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import FAILED, OK, page, place, watching
from runner.cli.auditing import COMMANDS
from runner.errors import NotPossible


@COMMANDS.command(help="Sign where the log ends now, and hand that to those who keep it (`anchors` in amends.yaml).")
def anchor(
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="Add it to this file too.")] = "",
    as_json: place.AsJson = False,
) -> None:
    with watching.opened() as amends:
        if not amends.has_log:
            raise NotPossible("there are no runs yet, so there is nothing to anchor")
        done = watching.drive(amends, lambda driver: driver.anchor())
    if to:
        try:
            with Path(to).open("a") as file:
                file.write(f"{done.line}\n")
        except OSError as error:
            raise NotPossible(f"{to} cannot be written: {error.strerror}; the anchor is {done.line}") from None
    kept = (*done.kept, *([to] if to else []))
    if as_json:
        page.say_json({**asdict(done), "kept": kept})
    else:
        page.say(done.line, *(f"Kept by {each}." for each in kept))
        if not kept:
            page.say("Keep this line where nobody who keeps the database can change it; `amends log verify` takes it.")
        for sentence in done.wrong:
            page.complain(sentence)
    raise typer.Exit(FAILED if done.wrong else OK)
