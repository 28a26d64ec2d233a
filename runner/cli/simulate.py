"""`amends run --simulate`: a run that sends nothing, and prints what would have left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from runner.app import Amends
from runner.cli import DEFECT, page, place, watching
from runner.cli.place import AsJson, By
from runner.cli.run import opened, read_given, warn
from runner.core import events as e
from runner.drilling import Simulated
from runner.drilling import simulate as simulated_run
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.store.facts import RunFilter
from runner.telling import simulated

COMMANDS = place.verb()
READS = ("none", "real", "recorded")


@COMMANDS.command(
    help="Simulate a flow: nothing leaves. Prints what would be sent, filled in and in order; approvals are taken as a "
    "yes, waits are passed over. The exit code is that of the run."
)
def run(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id, or the path of its file.")],
    simulate: Annotated[bool, typer.Option("--simulate", help="Send nothing.")] = True,
    reads: Annotated[
        str,
        typer.Option(
            "--reads", metavar="HOW", help="none: samples; real: services are read; recorded: as the last run."
        ),
    ] = "none",
    recording: Annotated[str, typer.Option("--of", metavar="RUN", help="The run that is recorded.")] = "",
    given: Annotated[list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="One input.")] = None,
    inputs: Annotated[
        str, typer.Option("--inputs", metavar="FILE", help="A JSON file with inputs; - reads them.")
    ] = "",
    key: Annotated[str, typer.Option("--key", help="What names the business event.")] = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    if reads not in READS:
        raise NotPossible(f'--reads is one of {", ".join(READS)}, not "{reads}"')
    with opened(flow) as (amends, wanted):
        checked = amends.project.checked(wanted)
        assert checked.flow is not None
        warn(checked)
        values = read_given(given or [], inputs, checked.flow.inputs)
        wish = Wish(given=values, key=key, starter=watching.person(amends, by), mode="live")
        log = _log(amends, checked.flow.id, recording) if reads == "recorded" or recording else ()
        found = simulated_run(amends.project, wanted, wish, "recorded" if recording else reads, log)
        zone = place.zone_of(amends)
        if as_json:
            page.say_json(simulated.as_json(found, zone))
        else:
            _show(found, zone)
        raise typer.Exit(watching.CODES.get(simulated.status_of(found), DEFECT))


def _log(amends: Amends, flow: str, run: str) -> Sequence[e.Event]:
    """What the run that is meant was answered: the flow's newest one that has ended. Raises NotFound, NotPossible."""
    found = run or next((view.run for view in amends.runs(RunFilter(flow=flow, limit=50)) if view.ended_at), "")
    if not found:
        raise NotPossible(f"no run of {flow} has ended, so nothing is recorded; use --reads real or none")
    return [row.event for row in amends.store.log(amends.store.run(found).run) if row.event is not None]


def _show(found: Simulated, zone: str) -> None:
    out = page.console()
    parts: list[Padding | Text] = []
    for line in simulated.lines_of(found, zone):
        head = Text.assemble(page.sign(line.sign, out), " ", (f"{line.step}: " if line.step else "", "bold"), line.text)
        parts.append(head)
        parts += [Padding(Text(detail, style="dim", overflow="fold"), (0, 0, 0, 6)) for detail in line.details]
    page.show(*parts, Text(), Text(simulated.verdict(found), style="bold"), out=out)
