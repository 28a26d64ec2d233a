"""`amends connections`: what each connection may be asked, how busy it is, and what a person holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from runner.cli import consent, holds, page, place, watching
from runner.contract import Json
from runner.errors import NotFound
from runner.language.connections import Connection
from runner.language.nearest import did_you_mean
from runner.outside import ProjectOutside
from runner.telling import times

COMMANDS = place.noun("The project's connections: their limits, how busy they are, and what is held.")


@COMMANDS.command("list", help="List the connections: limits, calls in use, runs that wait, and what is held.")
def list_(as_json: place.AsJson = False) -> None:
    with watching.opened() as amends:
        lines = amends.project.connections.by_name
        held = amends.store.site_holds() if amends.has_log else {}
        told = asyncio.run(amends.limits())
        engines = amends.engines if told is None else []
    usage = told["usage"] if told is not None else {}
    found = [_connection(line, usage.get(name), held.get(f"connection:{name}")) for name, line in lines.items()]
    if as_json:
        page.say_json(found)
        return
    heads = ("connection", "connector", "at once", "rate", "in use", "waiting", "now")
    page.show(page.listed(heads, [_line(each) for each in found], fixed=(0, 2, 3, 4, 5)))
    if told is None:
        page.say("", _unknown(engines))


@COMMANDS.command(help="Agree, at the service's own pages, to what a connection may do there.")
def connect(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The connection.")],
    port: Annotated[int, typer.Option("--port", help="Where the browser comes back to, on this computer.")] = 8485,
    host: Annotated[str, typer.Option("--host", help="127.0.0.1 or localhost, as the service knows it.")] = "127.0.0.1",
) -> None:
    with watching.opened() as amends:
        if name not in amends.project.connections.by_name:
            hint = did_you_mean(name, amends.project.connections.by_name, "there are")
            raise NotFound(f'there is no connection "{name}" in connections.yaml; {hint}')
        outside = ProjectOutside(amends.project)
        asyncio.run(consent.agree(outside.present(name), name, host=host, port=port))
    page.say(f"{name} is connected. What the service gave is kept encrypted under .amends/tokens.")


def _unknown(engines: list[str]) -> str:
    """Why it is not said what is in use."""
    if not engines:
        return "No engine runs here, so nothing is in use and nobody is served."
    verb = "drives" if len(engines) == 1 else "drive"
    return f"{place.engines(engines)} {verb} the project, not from this folder: what is in use is not known here."


def _connection(line: Connection, usage: Mapping[str, Json] | None, held_by: str | None) -> dict[str, Json]:
    rate = {"calls": line.rate[0], "ms": line.rate[1]} if line.rate is not None else None
    busy = dict(usage) if usage is not None else dict.fromkeys(("in_use", "waiting", "share", "restored_in"))
    return {
        "connection": line.name, "connector": line.connector, "at_once": line.at_once, "rate": rate, **busy,
        "held_by": held_by,
    }  # fmt: skip


def _line(found: Mapping[str, Any]) -> tuple[str, ...]:
    rate = f"{found['rate']['calls']} per {times.span(found['rate']['ms'])}" if found["rate"] else ""
    now = [f"held by {found['held_by']}"] if found["held_by"] else []
    if found["restored_in"]:
        now.append(f"asked for less: {found['share']} % of its limits, whole again {times.left(found['restored_in'])}")
    counts = ["" if found[name] is None else str(found[name]) for name in ("in_use", "waiting")]
    return found["connection"], found["connector"], str(found["at_once"] or ""), rate, *counts, "; ".join(now)


holds.add_to(COMMANDS, "connection", lambda amends: list(amends.project.connections.by_name))
