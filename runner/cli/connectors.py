"""`amends connectors`: which connectors are in reach, and what their actions take and answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from runner.cli import authoring, page, place, proving, trying, watching
from runner.contract import Action, Json, optional
from runner.errors import NotFound
from runner.language.connections import Found
from runner.language.nearest import did_you_mean
from runner.language.project import Project
from runner.telling import sent
from runner.telling.words import plain, sentence

COMMANDS = place.noun("Which connectors are in reach, and what their actions take and answer.")

EFFECTS: Mapping[str, str] = {
    "read": "reads",
    "keyed": "changes; the service knows our key, the same again is harmless",
    "lookup": "changes; the service can be asked whether it happened",
    "once": "changes; tried once, a lost answer goes to a person",
}
BROKEN = "its file has problems: see `amends check`"


@COMMANDS.command("list", help="List the connectors, and the connections of this project.")
def list_(as_json: place.AsJson = False) -> None:
    with watching.opened(anywhere=True) as amends:
        kinds, lines = amends.project.kinds, amends.project.connections.by_name
    found, rows = [], []
    for name in kinds.names():
        each = kinds.find(name)
        title, file, actions = (each.kind.title, each.file, list(each.kind.actions())) if each else ("", "", [])
        used = [connection for connection, line in lines.items() if line.connector == name]
        found.append({"connector": name, "title": title, "file": file, "actions": actions, "connections": used})
        rows.append((name, plain(title) if each else BROKEN, str(len(actions) or ""), ", ".join(used)))
    if as_json:
        page.say_json(found)
    else:
        page.show(page.listed(("connector", "what it is", "actions", "connections here"), rows, fixed=(0,)))


@COMMANDS.command(help="Show a connector (or a connection of this project): its settings, actions and fields.")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A connector or a connection.")],
    as_json: place.AsJson = False,
) -> None:
    with watching.opened(anywhere=True) as amends:
        found = find(amends.project, name)
    kind, settings = found.kind, dict(found.kind.settings())
    if as_json:
        actions = {each: asdict(action) for each, action in kind.actions().items()}
        page.say_json({"connector": found.name, "title": kind.title, "settings": settings, "actions": actions})
        return
    page.say(f"{found.name}: {plain(kind.title)}" + (f" ({found.file})" if found.file else ""))
    if settings:
        page.say("", "A line of connections.yaml may carry")
        page.show(_fields(settings))
    for action in kind.actions().values():
        _tell(action)


COMMANDS.command("import", help="Write a connector out of an OpenAPI 3 document, and list what a person must decide.")(
    authoring.import_
)
COMMANDS.command(help="Begin a connector: a file with comments, to be changed into one's own.")(authoring.new)
COMMANDS.command("try", help="Call one action for real, and show all that is said to and fro. A write asks first.")(
    trying.try_
)
COMMANDS.command("test", help="Hold what a connector says of its actions against the service, at a sandbox.")(
    proving.prove
)


def find(project: Project, name: str) -> Found:
    """A connector by its own name or by a connection's. Raises NotFound with the nearest name."""
    connection = project.connections.by_name.get(name)
    found = connection.found if connection is not None else project.kinds.find(name)
    if found is None:
        known = {*project.kinds.names(), *project.connections.by_name}
        why = BROKEN if name in known else did_you_mean(name, known, "there are")
        raise NotFound(f'there is no connector "{name}" that can be used; {why}')
    return found


def _tell(action: Action) -> None:
    undo = f". Cannot be undone: {sentence(action.cannot_undo)}" if action.cannot_undo else ""
    undo = f"; undone by {action.undo.action}" if action.undo is not None else undo
    page.show(Text(f"\n{action.name}", style="bold") + Text(f"  {plain(action.title)}", style="not bold"))
    page.say(f"  {EFFECTS[action.effect]}{undo}")
    sides = (("takes", action.input, action.open_input), ("answers", action.output, action.open_output))
    for label, fields, is_open in sides:
        if fields or is_open:
            page.say(f"  {label}" + (" (and further fields)" if is_open else ""))
            page.show(_fields(fields))
    if action.draft is not None:
        page.say(f"  in a draft run: a draft is left by {action.draft.action}")
    if action.find_by:
        page.say(f"  can be found by {', '.join(action.find_by)}")


def _kind(kind: Json) -> str:
    """A field's type in words: one of starttls, tls, none; or empty."""
    if not isinstance(kind, Mapping):
        return str(kind)
    text = f"one of {sent.value(kind['choice'])}" if "choice" in kind else sent.pairs({**kind, "empty": None})
    text = f"list of {_kind(kind['list'])}" if "list" in kind else text
    return f"{text}; or empty" if kind.get("empty") else text


def _fields(fields: Mapping[str, Json]) -> Table:
    table = page.grid((4, None, None))
    for name, kind in fields.items():
        table.add_row("", name, Text(plain(_kind(kind)), style="dim" if optional(kind) else ""))
    return table
