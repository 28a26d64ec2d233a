"""`amends connectors`: which connectors are in reach, and what their actions take and answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from runner.cli import page, place, words
from runner.contract import Action, Json, optional
from runner.errors import NotFound
from runner.language.connections import Found
from runner.language.nearest import did_you_mean
from runner.language.project import Project

COMMANDS = place.noun("Which connectors are in reach, and what their actions take and answer.")

EFFECTS: Mapping[str, str] = {
    "read": "reads",
    "keyed": "changes; the service knows our key, the same again is harmless",
    "lookup": "changes; the service can be asked whether it happened",
    "once": "changes; tried once, a lost answer goes to a person",
}


@COMMANDS.command("list", help="List the connectors, and the connections of this project.")
def list_(as_json: place.AsJson = False) -> None:
    with place.opened() as amends:
        project = amends.project
        used: dict[str, list[str]] = {}
        for name, connection in project.connections.by_name.items():
            used.setdefault(connection.connector, []).append(name)
        found = [(name, project.kinds.find(name)) for name in project.kinds.names()]
        if as_json:
            page.say_json([_short(name, each, used.get(name, [])) for name, each in found])
            return
        rows = [
            (name, words.plain(each.kind.title) if each else "its file has problems: see `amends check`",
             str(len(each.kind.actions())) if each else "", ", ".join(used.get(name, [])))
            for name, each in found
        ]  # fmt: skip
        page.show(page.listed(("connector", "what it is", "actions", "connections here"), rows, fixed=(0,)))


def _short(name: str, found: Found | None, connections: list[str]) -> dict[str, Json]:
    return {
        "connector": name,
        "title": found.kind.title if found else "",
        "file": found.file if found else "",
        "actions": list(found.kind.actions()) if found else [],
        "connections": connections,
    }


@COMMANDS.command(help="Show a connector (or a connection of this project): its settings, actions and fields.")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A connector or a connection.")],
    as_json: place.AsJson = False,
) -> None:
    with place.opened() as amends:
        found = find(amends.project, name)
        kind = found.kind
        if as_json:
            actions = {each: asdict(action) for each, action in kind.actions().items()}
            page.say_json(
                {"connector": found.name, "title": kind.title, "settings": dict(kind.settings()), "actions": actions}
            )
            return
        page.say(f"{found.name}: {words.plain(kind.title)}" + (f" ({found.file})" if found.file else ""))
        settings = kind.settings()
        if settings:
            page.say("", "A line of connections.yaml may carry")
            page.show(_fields(settings))
        for action in kind.actions().values():
            _tell(action)


def find(project: Project, name: str) -> Found:
    """A connector by its own name or by a connection's. Raises NotFound with the nearest name."""
    connection = project.connections.by_name.get(name)
    if connection is not None:
        return connection.found
    found = project.kinds.find(name)
    if found is None:
        known = {*project.kinds.names(), *project.connections.by_name}
        why = "its file has problems: see `amends check`" if name in known else did_you_mean(name, known, "there are")
        raise NotFound(f'there is no connector "{name}" that can be used; {why}')
    return found


def _tell(action: Action) -> None:
    page.show(Text(f"\n{action.name}", style="bold") + Text(f"  {words.plain(action.title)}", style="not bold"))
    page.say(f"  {EFFECTS[action.effect]}{_undo(action)}")
    for label, fields, is_open in (
        ("takes", action.input, action.open_input),
        ("answers", action.output, action.open_output),
    ):
        if fields or is_open:
            page.say(f"  {label}" + (" (and further fields)" if is_open else ""))
            page.show(_fields(fields))
    if action.find_by:
        page.say(f"  can be found by {', '.join(action.find_by)}")


def _undo(action: Action) -> str:
    if action.undo is not None:
        return f"; undone by {action.undo.action}"
    return f". Cannot be undone: {words.sentence(action.cannot_undo)}" if action.cannot_undo else ""


def _fields(fields: Mapping[str, Json]) -> Table:
    table = page.grid((4, None, None))
    for name, kind in fields.items():
        text = kind if isinstance(kind, str) else json.dumps(kind, ensure_ascii=False)
        table.add_row("", name, Text(words.plain(text), style="dim" if optional(kind) else ""))
    return table
