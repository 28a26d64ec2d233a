"""`amends schema`: the JSON Schemas that editors use, and the lines that make VS Code find them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place, watching
from runner.errors import NotPossible
from runner.language.schema import write_schemas

COMMANDS = place.noun("The JSON Schemas that editors use.")

MAPPED = {
    "flow": ["flows/*.yaml", "!flows/*.test.yaml"],
    "flow_test": ["flows/*.test.yaml"],
    "connector": ["connectors/*.yaml"],
    "connections": ["connections.yaml"],
    "people": ["people.yaml"],
    "amends": ["amends.yaml"],
}
"""Which files each schema is for."""
SETTINGS, EXTENSIONS = ".vscode/settings.json", ".vscode/extensions.json"


@COMMANDS.command(
    help="Write the schemas of flows, connectors and the project's files into a folder. The one of flows knows this "
    "project: its connections and their actions with their fields, people, flows and templates. VS Code is told where "
    "they are, unless .vscode/settings.json is there already."
)
def write(
    to: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="Default: schemas/ of the project.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Of the language alone, for any project.")] = False,
) -> None:
    with watching.opened(anywhere=True) as amends:
        folder = to or amends.folder / "schemas"
        try:
            files = [*write_schemas(folder, amends.project.kinds, None if plain else amends.project.facts())]
            files += [] if to else _tell_editor(amends.folder)
        except OSError as error:
            raise NotPossible(f"{folder} cannot be written: {error.strerror or error}") from None
    page.say(*(f"{file}" for file in files))
    settings = amends.folder / SETTINGS
    if not to and "flow.schema.json" not in settings.read_text(encoding="utf-8", errors="replace"):
        page.say(f"{settings} is yours and left as it is; so that VS Code finds them, it needs:", _text(_mapping()))


def _tell_editor(project: Path) -> list[Path]:
    """Writes what VS Code reads in a project, where there is none of it."""
    wanted = {SETTINGS: _mapping(), EXTENSIONS: {"recommendations": ["redhat.vscode-yaml"]}}
    missing = {project / name: content for name, content in wanted.items() if not (project / name).exists()}
    for path, content in missing.items():
        place.write(path, f"{_text(content)}\n")
    return list(missing)


def _mapping() -> dict[str, dict[str, list[str]]]:
    return {"yaml.schemas": {f"./schemas/{name}.schema.json": files for name, files in MAPPED.items()}}


def _text(content: object) -> str:
    return json.dumps(content, indent=2)
