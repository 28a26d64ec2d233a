"""`amends schedule`: what fires by itself, and when next."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from runner.app import Amends
from runner.cli import page, place, watching
from runner.cli.place import AsJson
from runner.clock import iso
from runner.contract import Json
from runner.language.slots import Timed, timed
from runner.telling import words
from runner.tongue import point

COMMANDS = place.noun("What fires by itself, and when.")
Entry = tuple[str, Timed]


@COMMANDS.command("list", help="List the schedules, and the next slot of each.")
def list_(as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        found, now = _scheduled(amends, ""), amends.clock.now()
    if as_json:
        page.say_json([_entry_json(each, now, 1) for each in found])
        return
    if not found:
        return
    heads = ("flow", "when", "missed", "overlap", "next")
    rows = [
        (flow, str(each), each.missed, each.overlap, point(next(each.after(now)), each.zone)) for flow, each in found
    ]
    page.show(page.listed(heads, rows, fixed=(0, 2, 3, 4)))


@COMMANDS.command("next", help="Tell the next slots of every schedule, or of one flow's.")
def next_(
    flow: Annotated[str, typer.Argument(metavar="[FLOW]", help="The flow's id; default: every flow.")] = "",
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="How many of each.")] = 5,
    as_json: AsJson = False,
) -> None:
    with watching.opened() as amends:
        found, now = _scheduled(amends, flow), amends.clock.now()
    if as_json:
        page.say_json([_entry_json(each, now, count) for each in found])
        return
    for name, each in found:
        page.say(f"{name}: {each}", *(f"  {each.told(at)}" for at in islice(each.after(now), count)))


def _scheduled(amends: Amends, flow: str) -> list[Entry]:
    """The schedules of the flows that are fit to run; says so where others have some, and where there are none."""
    found: list[Entry] = []
    checked = amends.project.check(flow or None)
    for each in checked:
        triggers = [one for one in each.flow.trigger if "schedule" in one or "cron" in one] if each.flow else []
        if triggers and not each.is_fit_to_run:
            page.complain(f"{each.file} has problems (`{words.PROGRAM} check {each.file}`): its schedule is not told")
        elif each.flow is not None:
            found += [(each.flow.id, timed(one, amends.settings.zone)) for one in triggers]
    if not found:
        page.complain("No flow here has a schedule." if not flow else f"The flow {flow} has no schedule.")
    return found


def _entry_json(entry: Entry, now: int, count: int) -> dict[str, Json]:
    flow, each = entry
    slots = list(islice(each.after(now), count))
    return {
        "flow": flow, "schedule": each.schedule.said, "zone": each.zone, "missed": each.missed,
        "overlap": each.overlap, "next": [iso(at, each.zone) for at in slots],
        "skipped_by_the_clock": {iso(at, each.zone): list(gone) for at in slots if (gone := each.skipped(at))},
    }  # fmt: skip
