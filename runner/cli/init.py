"""`amends init`: a small project that works (the files of `first_project/`), to be changed into one's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place
from runner.errors import NotPossible
from runner.language.settings import project_name
from runner.telling import times, words

COMMANDS = place.verb()
FILES = (
    "amends.yaml", "people.yaml", "flows/first_flow.yaml", "flows/first_flow.test.yaml", "connections.yaml",
    ".env.example", ".gitignore",
)  # fmt: skip


@COMMANDS.command(help="Begin a project: a few small files with a flow that works. Nothing that is there is changed.")
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The folder; made where it is missing.")] = Path(),
) -> None:
    if (folder / "amends.yaml").exists():
        raise NotPossible(f"{folder.absolute()} holds a project already (amends.yaml)")
    kept = [name for name in FILES if (folder / name).exists()]
    made = [name for name in FILES if name not in kept]
    for name in made:
        text = (files("runner.cli") / "first_project" / name.removeprefix(".")).read_text(encoding="utf-8")
        text = text.replace("PROJECT", project_name(folder.resolve().name)).replace("ZONE", times.reader_zone())
        place.write(folder / name, text)
    page.say(
        f"Made in {folder}: {', '.join(made)}." + (f" Left as they were: {', '.join(kept)}." if kept else ""),
        "Go on with",
        *([f"  cd {folder}"] if folder.resolve() != Path.cwd() else []),
        f"  {words.PROGRAM} check",
        f"  {words.PROGRAM} test",
        f"  {words.PROGRAM} run first_flow --input request=R-1 --input name=Aya",
        f"  {words.PROGRAM} schema write        so that VS Code offers keys, actions and fields",
    )
