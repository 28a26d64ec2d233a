"""`amends connectors import` and `new`: the file that a connector's author goes on with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place
from runner.errors import NotFound, NotPossible
from runner.language.connections import Imported
from runner.language.project import Project
from runner.telling.times import counted
from runner.telling.words import PROGRAM, bare, plain

MARK = "# decide: "
MOST_PLACES, MOST_LEFT_OUT, MANY = 3, 10, 300
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

As = Annotated[str, typer.Option("--name", help="What the connector is called; default: after the document's title.")]
Tag = Annotated[
    list[str] | None, typer.Option("--tag", help="Only operations with this tag; may be given several times.")
]


def import_(
    document: Annotated[str, typer.Argument(metavar="FILE", help="An OpenAPI 3 document, YAML or JSON.")],
    tags: Tag = None,
    name: As = "",
    as_json: place.AsJson = False,
) -> None:
    project, text = _project(), _text(document)
    declarative = project.kinds.declarative
    if declarative is None:
        raise NotPossible("connectors in YAML cannot be made here: the connectors package is not installed")
    if name:
        _refuse_name(project, name)
    made = declarative.imported(text, document, name=name, tags=tags or ())
    _refuse_name(project, made.name)
    file = project.folder / "connectors" / f"{made.name}.yaml"
    place.write(file, made.text)
    shown, decisions = project.name_of(file), list(_decisions(made.text))
    if as_json:
        told = {key: value for key, value in asdict(made).items() if key not in ("text", "left_out")}
        left = [{"operation": operation, "why": why} for operation, why in made.left_out]
        page.say_json({"file": shown, **told, "decide": [asdict(one) for one in decisions], "left_out": left})
        return
    _tell(made, shown, decisions)
    _tell_next(project, made.name)


def new(name: Annotated[str, typer.Argument(metavar="NAME", help="What the connector is called.")]) -> None:
    project = _project()
    _refuse_name(project, name)
    text = (files("runner.cli") / "first_project" / "connector.yaml").read_text(encoding="utf-8")
    file = project.folder / "connectors" / f"{name}.yaml"
    place.write(file, text.replace("NAME", name, 1))
    page.say(f"Made {project.name_of(file)}: a connector with three actions, to be changed into your own.")
    _tell_next(project, name)


def _project() -> Project:
    return Project.around(place.FOLDER.get() or Path.cwd())


def _text(document: str) -> str:
    if "://" in document:
        raise NotPossible(f"{document} is an address, and nothing is read over the network; save it as a file first")
    try:
        return Path(document).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise NotPossible(f"{document} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise NotFound(f"{document} cannot be read: {error.strerror or error}") from None


def _refuse_name(project: Project, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise NotPossible(f'"{name}" cannot be the name of a connector; it has letters, digits and _, a letter first')
    if name in project.kinds.names():
        raise NotPossible(f'there is a connector "{name}" already; choose another name')


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """One thing that a person must decide, at its line."""

    line: int
    action: str
    topic: str
    what: str


def _decisions(text: str) -> Iterator[Decision]:
    action = ""
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"  [\w\"]", line):
            action = line.strip().rstrip(":").strip('"')
        elif line.lstrip().startswith(MARK):
            topic, _, what = line.partition(MARK)[2].partition(": ")
            yield Decision(line=number, action=action, topic=topic, what=what)


def _tell(made: Imported, file: str, decisions: list[Decision]) -> None:
    written = made.reads + made.writes
    page.say(
        f"Written: {file}, {counted(written, 'action')} of {counted(made.operations, 'operation')} "
        f"({counted(made.reads, 'read')}, {counted(made.writes, 'write')})."
    )
    if written > MANY:
        page.say("That is much: every command of the project reads it. A part of it is taken with --tag.")
    if decisions:
        page.say("", f"To be decided by a person ({counted(len(decisions), 'place')} marked {MARK.strip()}):")
    for topic in dict.fromkeys(one.topic for one in decisions):
        found = [one for one in decisions if one.topic == topic]
        for one in found[:MOST_PLACES]:
            page.say(f"  {file}:{one.line} {one.action + ': ' if one.action else ''}{topic}: {plain(bare(one.what))}")
        if len(found) > MOST_PLACES:
            page.say(f"  … and {len(found) - MOST_PLACES:,} more marked {MARK}{topic}")
    if made.left_out:
        page.say("", "Left out:")
        page.say(*(f"  {operation}: {plain(bare(why))}" for operation, why in made.left_out[:MOST_LEFT_OUT]))
    if len(made.left_out) > MOST_LEFT_OUT:
        page.say(f"  … and {len(made.left_out) - MOST_LEFT_OUT} more (--json lists all of them)")


def _tell_next(project: Project, name: str) -> None:
    """The line of connections.yaml, with the settings that must be there."""
    found = project.again().kinds.find(name)
    settings = found.kind.settings() if found is not None else {}
    told = {"connector": name}
    for setting, kind in settings.items():
        if kind == "secret":
            told[setting] = f"{{ secret: {name.upper()}_{setting.upper()} }}"
        elif kind == "text":
            told[setting] = "…"
    line = ", ".join(f"{setting}: {value}" for setting, value in told.items())
    page.say(
        "", "Go on with a line in connections.yaml, such as",
        f"  {name}: {{ {line} }}",
        "and then", f"  {PROGRAM} check", f"  {PROGRAM} connectors show {name}",
    )  # fmt: skip
