"""`amends schedule`: what fires by itself, and when next."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from runner.app import Amends
from runner.cli import page, place, watching
from runner.cli.place import AsJson
from runner.clock import iso
from runner.contract import Json
from runner.language.bundle import restore
from runner.language.slots import Timed, schedules_of
from runner.store.active import active_flows
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
    """The schedules of the flows; of one with problems those of its last good version, which the engine goes by."""
    found: list[Entry] = []
    kept = amends.store.ask(active_flows) if amends.has_log else {}
    for each in amends.project.check(flow or None):
        fires, zone, note = each.flow, amends.settings.zone, ""
        if not each.is_fit_to_run:
            last = kept.get(Path(each.file).stem)
            bundle = restore(last.bundle, amends.store.bundle(last.bundle)) if last and last.bundle else None
            fires, zone = (bundle.flow, bundle.zone) if bundle is not None else (None, "")
            note = "its last good version is on" if bundle is not None else "it starts nothing by itself"
        if note:
            page.complain(f"{each.file} has problems (`{words.PROGRAM} check {each.file}`): {note}")
        found += [(fires.id, one) for one in schedules_of(fires.trigger, zone)] if fires is not None else []
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
