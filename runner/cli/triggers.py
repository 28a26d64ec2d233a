"""`amends triggers`: what starts flows by itself, what came to it, and an arrival that is taken again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from runner.cli import page, place, watching
from runner.cli.place import AsJson, By, Reason, Reveal
from runner.clock import iso, shown
from runner.contract import Json
from runner.errors import NotFound, NotPossible
from runner.store.arrivals import STATUSES, Arrival, ends_of, found, listed
from runner.telling import sent, times, words
from runner.triggers.again import RETAKEN, one_arrival
from runner.triggers.listing import Listed, triggers_of

COMMANDS = place.noun("What starts flows by itself, and what came to it.")

OfFlow = Annotated[str, typer.Option("--flow", metavar="FLOW", help="Only of this flow.")]
ArrivalId = Annotated[str, typer.Argument(metavar="ID", help="The arrival's id, or the beginning of it.")]


@COMMANDS.command(
    "list", help="List each flow's triggers: where they listen or when they fire, what came last, what is wrong."
)
def list_(as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        rows = list(triggers_of(amends.project, amends.store if amends.has_log else None, amends.pages))
        turned, zone = asyncio.run(amends.turned_away()), place.zone_of(amends)
    if as_json:
        page.say_json([_trigger_json(row, turned, zone) for row in rows])
        return
    if not rows:
        page.say("No flow starts by itself: a flow says so with `trigger:`.")
        return
    last = f"last ({times.offsets([row.last.at for row in rows if row.last is not None], zone)})".replace(" ()", "")
    page.show(
        page.listed(
            ("flow", "trigger", "where or when", last),
            [(row.flow, row.kind, row.place, _last(row, zone)) for row in rows],
        )
    )
    for row in {(row.flow, row.problem): row for row in rows if row.problem}.values():
        page.say("", f"{row.flow}: {words.plain(row.problem)}")
    for name, told in sorted(turned.items()):
        page.say("", f"Hook {words.plain(name)}: {_refusals(told, zone)}")


def _refusals(told: Mapping[str, Json], zone: str) -> str:
    last = f"the last at {shown(told['at'], zone)}: {words.plain(told['why'])}"
    return f"deliveries turned away since the start: {told['count']:,}, {last}"


def _last(row: Listed, zone: str) -> str:
    return "" if row.last is None else f"{times.short(row.last.at, zone)} {row.last.status}"


def _trigger_json(row: Listed, turned: Mapping[str, Json], zone: str) -> Json:
    last = None if row.last is None else _json(row.last, zone)
    refused = turned.get(row.name) if row.kind == "webhook" else None
    return {**asdict(row), "last": last, "turned_away": refused and {**refused, "at": iso(refused["at"], zone)}}


@COMMANDS.command(help="List what came, newest first, and which run it led to.")
def arrivals(
    flow: OfFlow = "",
    status: Annotated[list[str] | None, typer.Option("--status", help=f"Only these: {', '.join(STATUSES)}.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 50,
    as_json: AsJson = False,
) -> None:
    if wrong := [word for word in status or () if word not in STATUSES]:
        raise NotFound(f'"{wrong[0]}" is nothing that becomes of an arrival; there are {", ".join(STATUSES)}')
    with place.reading() as project:
        zone = place.zone_of(project)
        asked = listed(flow=flow, status=tuple(status or ()), limit=limit)
        rows = project.store.ask(asked) if project.has_log else ()
        ends = project.store.ask(ends_of(rows)) if rows else {}
    if as_json:
        page.say_json([{**_json(row, zone), "run_status": ends.get(row.run, "")} for row in rows])
        return
    if not rows:
        page.say("Nothing came yet." if not (flow or status) else "Nothing like that came.")
        return
    at = f"at ({times.offsets([row.at for row in rows], zone)})"
    lines = [
        (times.short(row.at, zone), row.flow, row.source, words.plain(row.id)[:40], row.status, _became(row, ends))
        for row in rows
    ]
    page.show(page.listed((at, "flow", "trigger", "id", "arrived", "run"), lines, fixed=(0, 4)))
    if again := next((row for row in rows if row.status in RETAKEN), None):
        page.say("", f"See one whole, then take it again: {words.PROGRAM} triggers show {again.id[:40]}")


def _became(row: Arrival, ends: Mapping[str, str]) -> str:
    if not row.run:
        return words.plain(row.why)
    return f"{row.run} {words.STATUS.get(ends.get(row.run, ''), 'removed')}"


@COMMANDS.command(help="Show an arrival: what became of it, and what came where it led to no run.")
def show(arrival: ArrivalId, flow: OfFlow = "", reveal: Reveal = False, as_json: AsJson = False) -> None:
    with place.reading() as project:
        zone = place.zone_of(project)
        rows = project.store.ask(found(arrival, flow=flow)) if project.has_log else ()
        row = one_arrival(rows, arrival)
        end = project.store.ask(ends_of([row])).get(row.run, "removed")
    if as_json:
        content = {"content": row.content} if reveal else {}
        page.say_json({**_json(row, zone), "run_status": end if row.run else "", **content})
        return
    page.say(
        f"{words.plain(row.id)}, {row.source} of flow {row.flow}, at {shown(row.at, zone)}",
        f"arrived:  {row.status}{f', {words.plain(row.why)}' if row.why else ''}",
        *([f"run:      {row.run}, {words.STATUS.get(end, end)}"] if row.run else []),
        *([f"of:       {words.plain(row.entity)}"] if row.entity else []),
    )
    if row.content:
        hidden = f"content:  {len(row.content):,} characters, which may hold personal data; --reveal shows them"
        page.say(*(["content:", sent.pretty(row.content)] if reveal else [hidden]))
    if row.status in RETAKEN:
        page.say("", f"Take it again: {words.PROGRAM} triggers retry {row.id[:40]} --reason …")


@COMMANDS.command(help="Take an arrival again that led to no run: refused, unreadable, or a conflict of ids.")
def retry(
    arrival: ArrivalId, reason: Reason = "", flow: OfFlow = "", by: By = "", as_json: AsJson = False
) -> None:  # fmt: skip
    with watching.opened() as amends:
        person = watching.person(amends, by)
        try:
            took = watching.drive(amends, lambda driver: driver.take_again(arrival, flow, person, reason))
        except asyncio.CancelledError:
            raise place.Interrupted("Stopped; `amends triggers arrivals` tells whether it was taken.") from None
    if as_json:
        page.say_json({**asdict(took), "started": None})
    elif took.run and took.status == "started":
        page.say(f"{'Started' if took.is_new else 'Joined'}: run {took.run} ({words.PROGRAM} runs show {took.run})")
    else:
        raise NotPossible(f"it was taken again and is {took.status}: {took.why}")


def _json(row: Arrival, zone: str) -> dict[str, Json]:
    kept = {name: getattr(row, name) for name in ("flow", "source", "id", "digest", "status", "why", "entity", "run")}
    return {**kept, "at": iso(row.at, zone)}
