"""`amends run`: starts a flow, or joins the run that its key belongs to, and watches it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from runner.app import Amends, Driver
from runner.cli import DEFECT, OK, page, place, timeline
from runner.cli.live import Watcher
from runner.cli.place import AsJson, By
from runner.contract import Json
from runner.engine.starting import Wish
from runner.errors import InputsInvalid
from runner.language.fields import NUMBERS, kind_of_field
from runner.language.project import YAML
from runner.store.facts import RunView, Started

COMMANDS = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

CODES: Mapping[str, int] = {
    "succeeded": 0, "drafted": 0, "failed": 1, "compensated": 1, "stopped": 1, "closed": 1, "needs_person": 3,
    "paused": 4,
}  # fmt: skip
"""The exit code for each status that a watched run rests in."""
LARGEST = 10_000_000


def code_of(view: RunView) -> int:
    """The exit code that a watched run's status stands for.

    A wait for a time is 0, one for a record that another run holds is 4 (a person must settle that one). A run that is
    no longer driven and does not wait met a defect, which has been told.
    """
    if view.status == "waiting":
        return OK if view.wake_at is not None else 4
    return CODES.get(view.status, DEFECT)


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
    detach: Annotated[bool, typer.Option("--detach", help="Start it and leave.")] = False,
    draft: Annotated[bool, typer.Option("--draft", help="Write everything down, send nothing.")] = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    path = Path(flow)
    is_file = path.suffix in YAML and path.is_file()
    where = path if is_file and place.FOLDER.get() is None else None
    wanted = str(path.absolute()) if is_file else flow
    with place.opened(where) as amends:
        checked = amends.project.checked(wanted)
        assert checked.flow is not None
        values = read_given(given or [], inputs, checked.flow.inputs)
        wish = Wish(given=values, key=key, starter=place.person(by), mode="draft" if draft else "")
        begin = lambda driver: driver.start(wanted, wish)  # noqa: E731
        view = start_and_watch(amends, begin, detach=detach, as_json=as_json)
        raise typer.Exit(0 if detach else code_of(view))


def start_and_watch(
    amends: Amends, begin: Callable[[Driver], Awaitable[Started]], *, detach: bool, as_json: bool
) -> RunView:
    """Starts a run and watches it until it rests; prints how it ended. Raises Interrupted on Ctrl-C."""
    found: list[str] = []

    async def doing(driver: Driver) -> RunView:
        started = await begin(driver)
        found.append(started.run)
        if not as_json:
            tell_started(started, amends)
        if detach:
            return amends.store.run(started.run)
        return await follow(amends, driver, started.run, quiet=as_json)

    view = watched(amends, doing, found)
    if as_json:
        page.say_json(timeline.as_json(place.story(amends, view.run)))
    elif detach and view.ended_at is None:
        page.say("It goes on with `amends serve` or the next command.")
    elif not detach:
        tell_rest(amends, view.run)
    return view


def tell_started(started: Started, amends: Amends) -> None:
    """Says which run this is, and that it was joined where it was there before."""
    if started.joined:
        page.say(
            f"Run {started.run} has this key already ({started.status}): it was joined, nothing was started again."
        )
    else:
        view = amends.store.run(started.run)
        page.say(f"Run {view.run} of {view.flow}{' (DRAFT: nothing is sent)' if view.mode == 'draft' else ''}")


async def follow(amends: Amends, driver: Driver, run: str, *, quiet: bool = False) -> RunView:
    """Watches a run until it rests, with the list of its steps."""
    if quiet:
        return await driver.follow(run, lambda: None)
    watcher = Watcher(lambda: place.story(amends, run), amends.clock.now, page.console())
    with watcher.showing():
        watcher.turn()
        view = await driver.follow(run, watcher.turn)
        watcher.turn()
    return view


def watched(amends: Amends, doing: Callable[[Driver], Awaitable[RunView]], found: list[str]) -> RunView:
    """Drives, and turns Ctrl-C into the sentence that says where the run is to be found."""
    try:
        return place.drive(amends, doing)
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not found:
            raise place.Interrupted("Stopped before a run was started.") from None
        name = found[0]
        raise place.Interrupted(
            f"\nYou have stopped watching, and run {name} is not stopped: it goes on with `amends serve` or the next "
            "command.\n"
            f"See it with `amends runs show {name}`, go on watching with `amends runs watch {name}`."
        ) from None


def tell_rest(amends: Amends, run: str) -> None:
    """The timeline of a run that has come to rest, and what can be done."""
    story = place.story(amends, run)
    out = page.console()
    if out.is_terminal:
        page.show(timeline.brief(story, out), out=out)
        return
    page.say(f"Run {run} {timeline.status_line(story)}")
    page.show(*timeline.ending(story))


# --- inputs ----------------------------------------------------------------------------------------------------------


def read_given(given: list[str], file: str, fields: Mapping[str, Json]) -> dict[str, Json]:
    """The inputs of the command line over those of the file. Raises InputsInvalid.

    A value of --input is text for a text field; for the others it is read as JSON where it is JSON (12000, true, [1]).
    """
    values = _from_file(file) if file else {}
    problems: dict[str, str] = {}
    for pair in given:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            problems[pair] = "is not NAME=VALUE"
            continue
        values[name.strip()] = _value(text, fields.get(name.strip(), "text"))
    if problems:
        raise InputsInvalid(problems)
    return values


def _value(text: str, field: Json) -> Any:
    kind = kind_of_field(field)
    if kind in ("list", "record", "file", "yes_no") or kind in NUMBERS:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _from_file(file: str) -> dict[str, Json]:
    try:
        text = sys.stdin.read(LARGEST) if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise InputsInvalid({file: "cannot be read; name a JSON file in UTF-8, or - for standard input"}) from None
    shown = "standard input" if file == "-" else file
    try:
        values = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise InputsInvalid({shown: f"line {line} is not JSON"}) from None
    if not isinstance(values, dict):
        raise InputsInvalid({shown: "is not a JSON object with the inputs by name"})
    return values
