"""`amends run`: starts a flow, or joins the run that its key belongs to, and watches it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from runner.app import Amends
from runner.cli import OK, page, place, watching
from runner.cli.place import AsJson, By
from runner.contract import Json
from runner.core.events import RunStarted
from runner.engine.starting import Wish
from runner.errors import InputsInvalid, RunKeyConflict
from runner.language.called import CheckedFlow
from runner.language.fields import typed_value
from runner.language.problems import render
from runner.language.project import YAML
from runner.telling import sent

COMMANDS = place.verb()
LARGEST = 10_000_000


@COMMANDS.command(help="Run a flow (its id, or the path of its file) and watch it until it rests.")
def run(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id, or the path of its file.")],
    given: Annotated[list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="One input.")] = None,
    inputs: Annotated[
        str, typer.Option("--inputs", metavar="FILE", help="A JSON file with inputs; - reads them.")
    ] = "",
    key: Annotated[
        str, typer.Option("--key", help="What names the business event: the same again is the same run.")
    ] = "",
    each: Annotated[
        str, typer.Option("--each", metavar="FILE", help="Once for each row of a file; with --help it says more.")
    ] = "",
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Send nothing, print what would leave; with --help it says more.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Start it and leave.")] = False,
    draft: Annotated[bool, typer.Option("--draft", help="Write everything down, send nothing.")] = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    with opened(flow) as (amends, wanted):
        checked = amends.project.checked(wanted)
        assert checked.flow is not None
        values = read_given(given or [], inputs, checked.flow.inputs)
        wish = Wish(given=values, key=key, starter=watching.person(amends, by), mode="draft" if draft else "")
        warn(checked)
        try:
            code = watching.start_and_watch(
                amends, lambda driver: driver.start(wanted, wish), detach=detach, as_json=as_json
            )
        except RunKeyConflict as error:
            raise RunKeyConflict(_other_key(str(error), checked.flow.run_key, values, amends)) from None
        raise typer.Exit(OK if detach else code)


@contextmanager
def opened(flow: str) -> Iterator[tuple[Amends, str]]:
    """The project of a flow that is named by id or path, and what to call the flow there."""
    path = Path(flow)
    is_file = path.suffix in YAML and path.is_file()
    with watching.opened(path if is_file and place.FOLDER.get() is None else None) as amends:
        yield amends, str(path.absolute()) if is_file else flow


def _other_key(conflict: str, run_key: str, values: Mapping[str, Json], amends: Amends) -> str:
    """Why the start was refused, and what truly gives this one a key of its own."""
    if "trigger" in run_key:
        return conflict
    first, _, run = conflict.partition(" belongs to run ")
    run = run.partition(",")[0]
    kept = amends.store.log(run, limit=1)[0].event if run else None
    before = kept.inputs if isinstance(kept, RunStarted) else {}
    other = [f"{name}={sent.value(before.get(name))}" for name in values if values[name] != before.get(name)]
    started = f"which was started with {', '.join(other)}" if other else "which was started with other inputs"
    return (
        f"{first} belongs to run {run}, {started}; the key comes from run_key: {run_key}. "
        "Give inputs that make another key, or change the flow"
    )


def warn(checked: CheckedFlow) -> None:
    """What the check warns of, a line each, on standard error. That a drill is missing is not said at each run."""
    for problem in checked.problems:
        if problem.level == "warning" and problem.code != "FL210":
            page.complain(render(problem, "").partition("\n")[0])


def read_given(given: list[str], file: str, fields: Mapping[str, Json]) -> dict[str, Json]:
    """The inputs of the command line over those of the file. Raises InputsInvalid.

    A value of --input is text for a text field; for the others it is read as JSON where it is JSON (12000, true, [1]).
    """
    values = _from_file(file) if file else {}
    problems: dict[str, str] = {}
    twice: set[str] = set()
    for pair in given:
        name, sign, text = pair.partition("=")
        if sign and name.strip() in twice:
            problems[name.strip()] = "is given twice; give it once"
        elif sign and name.strip():
            twice.add(name.strip())
            values[name.strip()] = typed_value(text, fields.get(name.strip(), "text"))
        else:
            problems[pair] = "is not NAME=VALUE"
    if problems:
        raise InputsInvalid(problems)
    return values


def _from_file(file: str) -> dict[str, Json]:
    shown = "standard input" if file == "-" else file
    try:
        values = json.loads(sys.stdin.read(LARGEST) if file == "-" else Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        raise InputsInvalid({file: "cannot be read; name a JSON file in UTF-8, or - for standard input"}) from None
    except ValueError as error:
        raise InputsInvalid({shown: f"line {getattr(error, 'lineno', 1)} is not JSON"}) from None
    if not isinstance(values, dict):
        raise InputsInvalid({shown: "is not a JSON object with the inputs by name"})
    return values
