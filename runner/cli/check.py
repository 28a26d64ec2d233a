"""`amends check`: everything that is wrong with flows and the files around them, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from runner import outside as outsides
from runner.cli import OK, WRONG, fixing, formats, knowing, page, place
from runner.errors import NotFound, NotPossible, Problem
from runner.language.kept import Rehearse, Told, check_with_tests
from runner.language.nearest import did_you_mean
from runner.language.problems import render
from runner.language.project import YAML, Project
from runner.rehearsal import suite
from runner.telling import times

FORMATS = ("text", "json", "github", "sarif")

COMMANDS = place.verb()


@COMMANDS.command(help="Check one flow (its id or path), or all flows of the project, and the files around them.")
def check(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A flow's id or file, or a project's folder.")] = "",
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, json, github (annotations) or sarif (2.1.0).")
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    table: Annotated[
        bool, typer.Option("--table", help="What a person must know: effects, tries, making good, who is asked.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Put right what is certain, and show what was changed.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Only show what --fix would change.")] = False,
) -> None:
    if form not in FORMATS:
        raise NotFound(f'there is no format "{form}"; {did_you_mean(form, FORMATS, "there are")}')
    project, wanted = find(path)
    if table:
        knowing.show_table(project, wanted, as_json=as_json or form == "json")
        return
    if fix or diff:
        if as_json or form != "text":
            raise NotPossible("--fix and --diff print a diff, which goes with --format text alone")
        fixing.show_fixes(project, wanted, write=not diff)
        project = project.again()
    told, tests = check_with_tests(project, wanted, rehearsing(project))
    problems = in_file_order([*project.problems(), *(one for each in (*told, *tests) for one in each.problems)])
    errors = sum(one.level == "error" for one in problems)
    if as_json or form == "json":
        files = [flow.file for flow in told]
        page.say_json({"fit": not errors, "flows": files, "problems": [asdict(one) for one in problems]})
    elif form == "sarif":
        page.say_json(formats.sarif(problems, formats.from_the_root(project.folder)))
    elif form == "github":
        page.say(*formats.github(problems, formats.from_the_root(project.folder)), _summary(project, told, problems))
    else:
        texts = {**project.texts, **{each.file: each.text for each in (*told, *tests)}}
        if problems:
            page.say(*(render(problem, texts.get(problem.file, "")) for problem in problems), "")
        page.say(_summary(project, told, problems))
    raise typer.Exit(WRONG if errors else OK)


def rehearsing(project: Project) -> Rehearse:
    """Reads a flow test, and plays no case of it."""

    def faults(file: Path) -> tuple[str, tuple[Problem, ...]]:
        outside = outsides.ProjectOutside(project)
        found = suite.faults(project, file, lambda bundle: partial(outside.connector, bundle))
        return found.flow, tuple(found.problems)

    return faults


def in_file_order(problems: Sequence[Problem]) -> list[Problem]:
    """Each problem once, file by file, and in each file from top to bottom."""
    return sorted(dict.fromkeys(problems), key=lambda one: (one.file, one.line, one.column, one.code))


def _summary(project: Project, told: Sequence[Told], problems: Sequence[Problem]) -> str:
    if not told:
        return f"There is no flow in {project.folder}; `amends init` makes a first one."
    levels = {word: sum(one.level == word for one in problems) for word in ("error", "warning")}
    counts = [times.counted(count, word) for word, count in levels.items() if count]
    drafts = sum(flow.mode == "draft" for flow in told)
    tail = f" ({drafts} in draft mode)" if drafts else ""
    return f"{times.counted(len(told), 'flow')}{tail}: {', '.join(counts) or 'nothing is wrong'}."


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
