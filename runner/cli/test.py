"""`amends test`: the flow tests beside the flows, played and compared; or a case made out of a real run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from runner.cli import FAILED, OK, WRONG, check, page, place, watching
from runner.contract import Json
from runner.core import events as e
from runner.drill.world import Preparing
from runner.errors import NotFound, NotPossible
from runner.language.problems import render
from runner.language.project import TESTS, Project, is_flow_test
from runner.outside import ProjectOutside
from runner.rehearsal.junit import as_junit
from runner.rehearsal.kept import with_case
from runner.rehearsal.stage import Stage
from runner.rehearsal.suite import Outcome, Verdict, rehearse
from runner.telling.times import counted

COMMANDS = place.verb()
MANY = 10
STYLES = {"-": "green", "+": "red"}
"""Of what was expected, and of what happened."""
PAGE = 1_000


@COMMANDS.command(
    help="Play the flow tests: the cases of flows/x.test.yaml, each against what it expects. Nothing leaves."
)
def play(
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="A flow's id or file, a test's file, or a project's folder.")
    ] = "",
    only: Annotated[str, typer.Option("--only", help="Only the cases with this in their name.")] = "",
    junit: Annotated[Path | None, typer.Option("--junit", help="Write the results as JUnit XML, too.")] = None,
    record: Annotated[str, typer.Option("--record", metavar="RUN", help="Add a case made out of a real run.")] = "",
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="What that case is called.")] = "",
    as_json: place.AsJson = False,
) -> None:
    if record:
        _record(record, name)
        return
    project, files = _files(path)
    outside = ProjectOutside(project)
    began = time.perf_counter()
    outcomes = [rehearse(project, file, lambda bundle: partial(outside.connector, bundle), only) for file in files]
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    if only and not verdicts and not any(outcome.problems for outcome in outcomes):
        raise NotFound(f'no case has "{only}" in its name')
    if junit is not None:
        _write(junit, as_junit(outcomes))
    if as_json:
        page.say_json([_as_json(outcome) for outcome in outcomes])
    else:
        _tell(project, outcomes, time.perf_counter() - began)
    wrong = WRONG if any(outcome.problems for outcome in outcomes) else OK
    raise typer.Exit(FAILED if not all(verdict.is_green for verdict in verdicts) else wrong)


def _files(path: str) -> tuple[Project, list[Path]]:
    """The project, and the tests that are meant."""
    given = Path(path)
    if path and is_flow_test(given):
        chosen = place.FOLDER.get()
        found = [one for one in (given, (chosen or Path()) / given) if one.is_file()]
        if not found:
            raise NotFound(f"there is no file {path}")
        return Project.around(chosen or found[0]), [found[0].absolute()]
    project, flow = check.find(path)
    if flow is None:
        return project, list(project.flow_tests())
    file = project.path_of(flow)
    beside = [file.with_name(file.stem + ending) for ending in TESTS]
    found = [one for one in beside if one.is_file()]
    if not found:
        raise NotFound(f"{project.name_of(file)} has no test; it would be {project.name_of(beside[0])}")
    return project, found


def _record(run: str, name: str) -> None:
    with watching.opened() as amends:
        run = amends.store.run(run).run
        pinned, state = amends.state(run)
        events: list[e.Event] = []
        while rows := amends.store.log(run, after=len(events), limit=PAGE):
            events += [row.event for row in rows if row.event is not None]
        project, outside = amends.project, ProjectOutside(amends.project)
        flow = project.path_of(state.flow)
        beside = [flow.with_name(flow.stem + ending) for ending in TESTS]
        file = next((one for one in beside if one.is_file()), beside[0])
        schema = (
            "../schemas/flow_test.schema.json" if flow.parent != project.folder else "schemas/flow_test.schema.json"
        )
        bundle = project.bundle(state.flow)
        stage = Stage(project=project, bundle=bundle, preparing=Preparing(partial(outside.connector, bundle)))
        kept = with_case(
            stage, pinned, events, state, name=name or f"As run {run} went", schema=schema, redact=outside.redact,
            before=file.read_text(encoding="utf-8") if file.is_file() else "",
        )  # fmt: skip
    _write(file, kept.text)
    page.say(
        kept.case, f"Added to {project.name_of(file)}, and green. Stand-ins were put for "
        f"{counted(kept.replaced, 'personal value')}; look whether anything else should not be there.",
    )  # fmt: skip


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotPossible(f"{file} cannot be written: {error.strerror or error}") from None


def _tell(project: Project, outcomes: Sequence[Outcome], seconds: float) -> None:
    out = page.console()
    for outcome in outcomes:
        out.print(f"{outcome.file}: {counted(len(outcome.verdicts), 'case')}")
        for problem in outcome.problems:
            page.say(render(problem, outcome.texts.get(problem.file, "")))
        for verdict in outcome.verdicts:
            sign = page.sign("done" if verdict.is_green else "failed", out)
            out.print(Text.assemble("  ", sign, f" {verdict.case}"), soft_wrap=True)
            for line in _lines(outcome, verdict):
                out.print(Text(line, style=STYLES.get(line.lstrip()[:1], "")), soft_wrap=True)
        if outcome.missed:
            more = len(outcome.missed) - MANY
            named = ", ".join(outcome.missed[:MANY]) + (f" and {more} more" if more > 0 else "")
            out.print(Text(f"  no case reaches: {named}"), soft_wrap=True)
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    red = sum(not verdict.is_green for verdict in verdicts)
    if not outcomes:
        page.say(f"There is no flow test in {project.folder}; it stands beside its flow: flows/NAME.test.yaml.")
        return
    said = f"{counted(len(verdicts), 'case')}, {red} red" if red else f"{counted(len(verdicts), 'case')}, all green"
    if broken := sum(bool(outcome.problems) for outcome in outcomes):
        said = f"{said}; " if verdicts else ""
        said += f"{counted(broken, 'file')} could not be played"
    page.say(f"{said} ({seconds:.1f} s)." + (" - is what was expected, + what happened." if red else ""))


def _lines(outcome: Outcome, verdict: Verdict) -> list[str]:
    """Every difference of one case."""
    return [
        line
        for number, one in verdict.differences
        for line in (f"      {outcome.file}:{number}  {one.what}", *(f"          {line}" for line in one.lines))
    ]


def _as_json(outcome: Outcome) -> Json:
    cases = [
        {
            "case": one.case, "line": one.line, "green": one.is_green, "seconds": round(one.seconds, 4),
            "differences": [{"line": at, "what": each.what, "lines": each.lines} for at, each in one.differences],
        }
        for one in outcome.verdicts
    ]  # fmt: skip
    problems = [f"{one.file}:{one.line}:{one.column} {one.code} {one.what}" for one in outcome.problems]
    return {"file": outcome.file, "flow": outcome.flow, "problems": problems, "cases": cases, "missed": outcome.missed}
