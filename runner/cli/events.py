"""`amends events`: sending an event that runs wait for, and what is kept."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from typing import Annotated

import typer

from runner.cli import page, place, watching
from runner.cli.place import AsJson, By
from runner.cli.run import read_given
from runner.clock import iso, shown
from runner.errors import InputsInvalid, NotPossible
from runner.store.ended import EventView
from runner.telling import times, words

COMMANDS = place.noun("Events that runs wait for (`wait_for`).")


@COMMANDS.command(help="Send an event: the run that has waited longest for it goes on; else it is kept for a day.")
def send(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The event's name: payment.received.")],
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="NAME=VALUE", help="One field of the event, as text.")
    ] = None,
    data_file: Annotated[
        str, typer.Option("--data-file", metavar="FILE", help="A JSON file with fields; - reads them.")
    ] = "",
    event_id: Annotated[
        str, typer.Option("--id", help="What names the event: the same again does nothing. Default: a fresh one.")
    ] = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    if not name.strip() or (event_id and not event_id.strip()):
        raise NotPossible("the event's name or its --id is empty")
    try:
        given = read_given(data or [], data_file, {})
    except InputsInvalid as wrong:
        raise NotPossible(f"the event was not sent: {wrong}") from None
    event_id = event_id or f"sent-{secrets.token_hex(8)}"
    with watching.opened() as amends:
        source = watching.person(amends, by)
        is_new = watching.drive(amends, lambda driver: driver.send_event(event_id, name, given, source))
        found = amends.store.kept_event(event_id)
        zone = place.zone_of(amends)
    assert found is not None
    if as_json:
        page.say_json({"is_new": is_new, **_event_json(found, zone)})
        return
    if not is_new:
        page.say(f"An event with the id {event_id} came before ({found.event}), so nothing was done.")
    elif found.fed_to:
        run, _, step = found.fed_to.partition("/")
        page.say(f"The event {name} ({event_id}) was sent: run {run} waited for it at step {step}.")
    else:
        page.say(f"The event {name} ({event_id}) is kept until {shown(found.until, zone)}: nobody waits for it yet.")


@COMMANDS.command("list", help="List the events that are kept, and the steps that wait for one.")
def list_(as_json: AsJson = False) -> None:
    with place.reading() as project:
        zone = place.zone_of(project)
        kept = project.store.kept(project.clock.now()) if project.has_log else []
        waiting = project.store.waiting() if project.has_log else []
    if as_json:
        waits = [{**asdict(each), "since": iso(each.since, zone)} for each in waiting]
        page.say_json({"kept": [_event_json(each, zone) for each in kept], "waiting": waits})
        return
    if not waiting:
        page.say("No run waits for an event.")
    else:
        since = f"since ({times.offsets([each.since for each in waiting], zone)})"
        lines = [
            (each.run, each.path, each.event, ", ".join(each.fields), times.short(each.since, zone)) for each in waiting
        ]
        page.show(page.listed(("run", "step", "waits for", "matched by", since), lines, fixed=(0, 4)))
    if kept:
        until = f"until ({times.offsets([each.until for each in kept], zone)})"
        events = [(each.event, each.event_id, words.plain(each.source), times.short(each.until, zone)) for each in kept]
        page.say("")
        page.show(page.listed(("kept event", "id", "from", until), events, fixed=(3,)))


def _event_json(event: EventView, zone: str) -> dict[str, str]:
    return {**asdict(event), "at": iso(event.at, zone), "until": iso(event.until, zone)}
