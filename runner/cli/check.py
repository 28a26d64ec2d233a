"""`amends check`: everything that is wrong with flows and the files around them, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import OK, WRONG, page, place
from runner.errors import NotFound, Problem
from runner.language.problems import render
from runner.language.project import YAML, CheckedFlow, Project

COMMANDS = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@COMMANDS.command(help="Check one flow (its id or path), or all flows of the project, and the files around them.")
def check(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A flow's id or file, or a project's folder.")] = "",
    as_json: place.AsJson = False,
) -> None:
    project, wanted = find(path)
    checked = project.check(wanted)
    problems = list(dict.fromkeys((*project.problems(), *(one for flow in checked for one in flow.problems))))
    errors = [one for one in problems if one.level == "error"]
    if as_json:
        page.say_json(
            {"fit": not errors, "flows": [flow.file for flow in checked], "problems": [asdict(p) for p in problems]}
        )
    else:
        tell(project, checked, problems)
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


def tell(project: Project, checked: Sequence[CheckedFlow], problems: Sequence[Problem]) -> None:
    """All problems in the printed style, then one line that sums up."""
    texts = {**project.texts, **{flow.file: flow.text for flow in checked}}
    for problem in problems:
        page.say(render(problem, texts.get(problem.file, "")))
    errors = sum(problem.level == "error" for problem in problems)
    warnings = sum(problem.level == "warning" for problem in problems)
    if problems:
        page.say("")
    if not checked:
        page.say(f"There is no flow in {project.folder}; `amends init` makes a first one.")
        return
    flows = "1 flow" if len(checked) == 1 else f"{len(checked)} flows"
    found = ", ".join(
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in ((errors, "error"), (warnings, "warning"))
        if count
    )
    drafts = sum(flow.flow is not None and flow.flow.mode == "draft" for flow in checked)
    tail = f" ({drafts} in draft mode)" if drafts else ""
    page.say(f"{flows}{tail}: {found or 'nothing is wrong'}.")
