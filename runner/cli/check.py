"""`amends check`: everything that is wrong with flows and the files around them, at once."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import OK, WRONG, page, place
from runner.errors import NotFound
from runner.language.problems import render
from runner.language.project import YAML, Project
from runner.telling import times

COMMANDS = place.verb()


@COMMANDS.command(help="Check one flow (its id or path), or all flows of the project, and the files around them.")
def check(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A flow's id or file, or a project's folder.")] = "",
    as_json: place.AsJson = False,
) -> None:
    project, wanted = find(path)
    checked = project.check(wanted)
    problems = list(dict.fromkeys((*project.problems(), *(one for flow in checked for one in flow.problems))))
    errors, warnings = (sum(one.level == level for one in problems) for level in ("error", "warning"))
    if as_json:
        files = [flow.file for flow in checked]
        page.say_json({"fit": not errors, "flows": files, "problems": [asdict(one) for one in problems]})
        raise typer.Exit(WRONG if errors else OK)
    texts = {**project.texts, **{flow.file: flow.text for flow in checked}}
    if problems:
        page.say(*(render(problem, texts.get(problem.file, "")) for problem in problems), "")
    counts = [times.counted(count, word) for count, word in ((errors, "error"), (warnings, "warning")) if count]
    drafts = sum(flow.flow is not None and flow.flow.mode == "draft" for flow in checked)
    tail = f" ({drafts} in draft mode)" if drafts else ""
    said = f"{times.counted(len(checked), 'flow')}{tail}: {', '.join(counts) or 'nothing is wrong'}."
    page.say(said if checked else f"There is no flow in {project.folder}; `amends init` makes a first one.")
    raise typer.Exit(WRONG if errors else OK)


def find(path: str) -> tuple[Project, str | None]:
    """The project that a path belongs to, and the flow that is meant (None: all)."""
    chosen = place.FOLDER.get()
    given = Path(path) if path else None
    if given is not None and given.is_dir():
        return Project.around(given), None
    if given is not None and given.suffix in YAML:
        if not given.is_file():
            raise NotFound(f"there is no file {path}")
        return (Project.open(chosen) if chosen else Project.around(given)), str(given.absolute())
    return Project.around(chosen or Path.cwd()), path or None
