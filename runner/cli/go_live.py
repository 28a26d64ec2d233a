"""`amends go-live`: takes a flow out of draft, once everything that is known before it runs has been looked at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from runner.app import Amends
from runner.cli import OK, WRONG, page, place
from runner.cli.run import opened
from runner.clock import iso
from runner.drawing.plan import bare
from runner.drill.table import Drill
from runner.drilling import drill_of
from runner.errors import NotPossible
from runner.language import drills
from runner.language.bundle import Bundle
from runner.language.flow import Flow, Step
from runner.language.modes import Mode, with_mode
from runner.language.problems import render
from runner.language.project import TESTS, Project
from runner.outside import ProjectOutside
from runner.rehearsal.suite import rehearse
from runner.telling import drilled, words
from runner.telling.ahead import what_it_does
from runner.telling.planned import undone_by

COMMANDS = place.verb()
ASKED = {"draft": "Back to draft?", "live": "Go live?"}


@COMMANDS.command(help="Take a flow live: check it, drill it, show what changes, and change the word in its file.")
def go_live(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id, or the path of its file.")],
    back: Annotated[bool, typer.Option("--back", help="Back to draft: new runs send nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Change the word without asking.")] = False,
) -> None:
    mode: Mode = "draft" if back else "live"
    with opened(flow) as (amends, wanted):
        project = amends.project
        path = project.path_of(wanted)
        [checked] = project.check(wanted)
        if checked.flow is not None and checked.flow.mode == mode and checked.is_fit_to_run:
            page.say(f"Flow {checked.flow.id} is {mode} already ({checked.file}); nothing was changed.")
            raise typer.Exit(OK)
        text, drill = with_mode(checked.text, checked.file, mode), None
        if back:
            page.show(*_back(_under_way(amends, checked.flow.id if checked.flow is not None else path.stem)))
        else:
            drill = _looked_at(project.as_if(path, text), wanted, checked.file, yes=yes)
        _ask(checked.file, mode, yes=yes)
        _write(path, text, checked.text, checked.file)
        if drill is not None:
            drills.record(project.folder, drill.flow, drilled.as_json(drill, iso(amends.clock.now())))
        page.say(
            f"{checked.file}: mode: {mode}. " + ("New runs send nothing." if back else "New runs act from now on.")
        )


def _looked_at(project: Project, wanted: str, file: str, *, yes: bool) -> Drill:
    """The drill of the flow as it would be live, once what changes was shown. A flow that fails by itself goes live
    only where a person answers the question, since a made-up value may be to blame.

    Raises Exit or NotPossible where something is not in order.
    """
    _refuse(project, wanted)
    drill = drill_of(project, wanted)
    page.show(*_told(project, wanted, drill))
    if drill.failing and yes:
        raise NotPossible(
            f"{file} was not changed: with nothing going wrong the flow fails by itself; mend it "
            f"(`amends drill {wanted}`), or, where only the made-up values are to blame, leave out --yes and "
            "answer the question"
        )
    if drill.untold:
        raise NotPossible(f"{file} was not changed: {words.bare(drilled.verdict(drill))} (`amends drill {wanted}`)")
    return drill


def _refuse(project: Project, wanted: str) -> None:
    """Says all that keeps the flow from being live, each with its place. Raises Exit where there is something."""
    [checked] = project.check(wanted)
    errors = [one for one in (*project.problems(), *checked.problems) if one.level == "error"]
    if errors:
        texts = {**project.texts, checked.file: checked.text}
        page.complain(*(render(problem, texts.get(problem.file, "")) for problem in errors))
        page.complain("", f"{checked.file} was not changed: it could not run live.")
        raise typer.Exit(WRONG)


def _told(project: Project, wanted: str, drill: Drill) -> Iterator[RenderableType]:
    """What will be otherwise when the flow is live."""
    bundle, flow = project.bundle(wanted), project.flow(wanted)
    yield Text(f"{flow.id}: {words.plain(flow.title)}", style="bold")
    yield Text()
    yield Text("When it is live, these steps act", style="bold")
    acting = [(path, step) for path, step in bundle.steps.items() if step.verb in ("do", "emit")]
    for path, step in acting:
        yield Text(f"  {path.replace('/', ' › ')}: {what_it_does(bundle, step)} ({step.action or step.event})")
        yield from (Text(f"    {text}", style="dim") for text in _of_step(bundle, step))
    if not acting:
        yield Text("  none: it only reads")
    yield from _of_flow(project, flow, bundle)
    yield Text()
    yield Text(f"Drill: {drilled.verdict(drill)}", style="bold red" if drill.failing or drill.untold else "")
    if drill.failing:
        yield from (Text(f"  {drilled.situation_line(*each)}", style="dim") for each in enumerate(drill.situations))
    yield from (Text(f"  Not reached: {drilled.unreached_line(one)}") for one in drill.unreached)
    if project.settings.mode == "draft":
        yield Text("amends.yaml says mode: draft, so in this project it stays a draft all the same.")


def _of_step(bundle: Bundle, step: Step) -> Iterator[str]:
    action = bundle.actions.get(step.action)
    if step.when is not None:
        yield f"Only if {bare(step.when)}."
    is_undone = step.compensate is not None and step.compensate.word == "cancel"
    if action is not None and action.cannot_undo and not is_undone:
        yield f"Cannot be undone: {words.sentence(action.cannot_undo)}"
    if text := undone_by(step):
        yield text
    gates = [(name, bundle.step(name).approval) for name in _gates(bundle, step)]
    asked = [
        f"{name} ({' or '.join(gate.by)}{f', asked only if {bare(when)}' if when else ''})"
        for name, gate in gates
        if gate is not None
        for when in (bundle.step(name).when,)
    ]
    if asked:
        yield f"Not before a yes to {', '.join(asked)}."
    if step.unattended:
        yield f"{'Else nobody' if asked else 'Nobody'} is asked: {words.sentence(step.unattended)}"


def _gates(bundle: Bundle, step: Step) -> Iterator[str]:
    for name in step.covered_by:
        yield next(path for path, one in bundle.steps.items() if one.id == name and one.verb == "approve")


def _of_flow(project: Project, flow: Flow, bundle: Bundle) -> Iterator[RenderableType]:
    starts = [
        f"{kind} {words.plain(said[kind])}" for said in flow.trigger for kind in list(said)[:1] if kind != "manual"
    ]
    people = dict.fromkeys(
        name for step in bundle.steps.values() if step.approval is not None for name in step.approval.by
    )
    opens = [f"the form {said['form']}" for said in flow.trigger if "form" in said and said.get("sign_in") is not True]
    told = (
        ("sends to", _where(project, bundle)), ("open to anybody", ", ".join(opens)),
        ("starts by itself", "; ".join(starts)), ("asked for a yes", ", ".join(people)), ("owner", flow.owner),
        ("told of a failure", flow.on_failure.tell), ("follows a failure", flow.on_failure.then_run),
        ("flow tests", _tested(project, flow)),
    )  # fmt: skip
    yield Text()
    yield page.grid_of((f"  {name}", text) for name, text in told if text)


def _where(project: Project, bundle: Bundle) -> str:
    """Each connection that its steps act through, with where its calls go."""
    outside = ProjectOutside(project)
    named = (name for step in bundle.steps.values() if step.verb == "do" for name in (step.action, *_undo(step)))
    known = {name: action for name, action in bundle.actions.items() if not action.own}
    used = dict.fromkeys(name.partition(".")[0] for name in named if name in known)
    return ", ".join(f"{name} ({words.plain(outside.present(name).origin())})" for name in used)


def _undo(step: Step) -> tuple[str, ...]:
    return (step.compensate.action,) if step.compensate is not None else ()


def _tested(project: Project, flow: Flow) -> str:
    """How its flow tests end."""
    outside, file = ProjectOutside(project), project.path_of(flow.id)
    beside = [one for ending in TESTS if (one := file.with_name(file.stem + ending)).is_file()]
    found = [rehearse(project, one, lambda bundle: partial(outside.connector, bundle)) for one in beside]
    red = sum(not verdict.is_green for one in found for verdict in one.verdicts)
    if any(one.problems for one in found):
        return f"cannot be played: amends test {flow.id}"
    green = sum(len(one.verdicts) for one in found) - red
    return (f"{green} green, {red} red: amends test {flow.id}" if red else f"{green} green") if found else "none"


def _under_way(amends: Amends, flow: str) -> int:
    return sum(version.open_runs for version in amends.store.versions(flow)) if amends.has_log else 0


def _back(open_runs: int) -> Iterator[RenderableType]:
    yield Text("New runs will be drafts: nothing is sent, what would be sent is written down.")
    if open_runs:
        yield Text(f"{open_runs} of its runs are under way and stay live; see them with `amends runs list`.")


def _ask(file: str, mode: Mode, *, yes: bool) -> None:
    """Raises NotPossible where nobody says yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotPossible(f"{file} was not changed; say --yes if that is meant")
    page.say("")
    if not typer.confirm(ASKED[mode]):
        raise NotPossible(f"{file} was not changed")


def _write(path: Path, text: str, before: str, file: str) -> None:
    """Writes the file, whole or not at all. Raises NotPossible, also where somebody has changed it meanwhile."""
    new = path.with_name(f".{path.name}.new")
    try:
        if path.read_bytes().decode("utf-8") != before:
            raise NotPossible(f"{file} was changed meanwhile, so it was left as it is; look at it and go live again")
        new.write_bytes(text.encode())
        new.chmod(path.stat().st_mode & 0o777)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise NotPossible(f"{file} cannot be written: {error.strerror or error}") from None
