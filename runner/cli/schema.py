"""`amends schema`: the JSON Schemas that editors use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place, watching
from runner.errors import NotPossible
from runner.language.schema import write_schemas

COMMANDS = place.noun("The JSON Schemas that editors use.")


@COMMANDS.command(help="Write the schemas of flows, connectors and the project's files into a folder.")
def write(
    to: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="Default: schemas/ of the project.")] = None,
) -> None:
    with watching.opened() as amends:
        folder = to or amends.folder / "schemas"
        try:
            files = write_schemas(folder, amends.project.kinds)
        except OSError as error:
            raise NotPossible(f"{folder} cannot be written: {error.strerror or error}") from None
    page.say(*(f"{file}" for file in files))
