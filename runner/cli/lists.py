"""`runs list` and `handoffs list`: what only reads, and so loads neither the flows nor the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from runner.cli import page, place
from runner.cli.place import AsJson, Reveal
from runner.clock import iso, shown
from runner.contract import Json
from runner.core.status import APPROVAL
from runner.store.facts import HandOffView, RunFilter, RunView
from runner.telling import times, words

RUNS = place.noun("See runs, and do to them what a person can do.")
HANDOFFS = place.noun("What waits for a person, and the answers.")

ID = 17
LONGEST = 22


@RUNS.command("list", help="List runs, newest first.")
def runs(
    flow: Annotated[str, typer.Option("--flow", help="Only runs of this flow.")] = "",
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only runs with this status; may be repeated.")
    ] = None,
    record: Annotated[str, typer.Option("--record", help="Only runs on this record: customer/aya@example.test.")] = "",
    before: Annotated[str, typer.Option("--before", help="Only runs older than this one: to page on.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most.")] = 50,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    place.refuse_status(status or ())
    with place.reading() as project:
        zone = place.zone_of(project)
        wanted = RunFilter(flow=flow, status=tuple(status or ()), record=record, before=before, limit=limit)
        found = project.runs(wanted)
        banner = project.short_of_room
        found = found if reveal else [project.veiled(each) for each in found]
    if banner:
        page.complain(banner)
    if as_json:
        page.say_json([view_json(view, zone) for view in found])
    elif not found:
        page.say("There are no such runs." if flow or status or record or before else "There are no runs yet.")
    else:
        page.show(*run_lines(found, zone))
        if len(found) == limit:
            page.say(f"There may be more: {words.PROGRAM} runs list --before {found[-1].run}")


def run_lines(found: Sequence[RunView], zone: str) -> list[RenderableType]:
    """A line for each run, and a second one for what it waits for, or why it ended as it did."""
    longest = min(max(4, *(len(view.flow) for view in found)), LONGEST)
    widths = (ID - 2, longest, max(len(_status(view)) for view in found), None)
    lines: list[RenderableType] = []
    head = page.grid(widths)
    when = f"started ({times.offsets([view.started_at for view in found], zone)})"
    head.add_row(*(Text(name, style="bold") for name in ("run", "flow", "status", when)))
    lines.append(head)
    for view in found:
        line = page.grid(widths)
        line.add_row(view.run, view.flow, _status(view), times.short(view.started_at, zone))
        lines.append(line)
        if why := _why(view, zone):
            lines.append(Padding(Text(why, style="dim", overflow="fold"), (0, 0, 0, ID)))
    return lines


def _status(view: RunView) -> str:
    return f"{view.status} (draft)" if view.mode == "draft" and view.status != "drafted" else view.status


def _why(view: RunView, zone: str) -> str:
    if view.status == "needs_person":
        return words.plain(f"{view.needs}: {view.at_step}" if view.at_step else view.needs)
    if view.status == "waiting":
        is_asked = view.waiting_for.startswith(APPROVAL)  # what wakes it may be a reminder; `runs show` has the end
        wake = f" until {shown(view.wake_at, zone)}" if view.wake_at and not is_asked else ""
        what = view.waiting_for.removeprefix("a timer").removeprefix("waits for ")
        return words.plain(f"{view.at_step} waits{f' for {what}' if what else ''}{wake}")
    stands = f"{view.stands} stand. " if view.status == "stopped" and view.stands else ""
    return words.plain(f"{stands}{words.summary(view.summary)}")


def view_json(view: RunView, zone: str) -> dict[str, Json]:
    """A run as JSON, with ISO times."""
    found: dict[str, Json] = asdict(view)
    for name in ("started_at", "updated_at", "ended_at", "wake_at"):
        found[name] = iso(found[name], zone) if found[name] is not None else None
    return found


@HANDOFFS.command("list", help="List open questions, oldest first.")
def handoffs(
    run: Annotated[str, typer.Option("--run", help="Only those of this run.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Only those for this person or team.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="The answered ones too.")] = False,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    with place.reading() as project:
        zone = place.zone_of(project)
        name = project.store.run(run).run if run else ""
        found = [each for each in project.handoffs(name, open_only=not everything) if owner in ("", each.owner)]
        found = [replace(each, summary=project.said(each) or each.summary) for each in found]
        found = found if reveal else [project.veiled(each) for each in found]
    if as_json:
        page.say_json([{**asdict(each), "opened_at": iso(each.opened_at, zone)} for each in found])
    elif not found:
        page.say("Nothing waits for a person.")
    else:
        since = f"since ({times.offsets([each.opened_at for each in found], zone)})"
        heads = ("run", "", "step", "for", since, "what it is about")
        page.show(page.listed(heads, [_question(each, zone) for each in found], fixed=(0, 1, 4)))
        page.say("", f"Look at one: {words.PROGRAM} handoffs show {found[0].run} {found[0].handoff}")


def _question(each: HandOffView, zone: str) -> tuple[str, ...]:
    about = words.plain(each.summary)
    if each.status == "resolved":
        about = f"answered: {words.answered(each.choice, each.kind) or 'by the end of the run'}"
    elif each.status == "acknowledged":
        about = f"(seen) {about}"
    return each.run, each.handoff, each.step or "the run", each.owner, times.short(each.opened_at, zone), about
