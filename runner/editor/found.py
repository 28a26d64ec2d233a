"""Where something is defined: a step, an input, a called flow, a template, the action of a connector."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from runner.editor.desk import Desk, Seen
from runner.editor.place import Pointed
from runner.language.check.context import Context

Spot = tuple[Path, int]
"""A file, and a line of it from 1."""


def places(desk: Desk, path: Path, seen: Seen, pointed: Pointed) -> list[Spot]:
    """Every place where it is defined."""
    context = seen.context
    if context is None:
        return []
    if pointed.kind == "name":
        line = _line_of(context, pointed.parts)
        return [(path, line)] if line else []
    return list(_of_value(desk, path, context, pointed))


def _line_of(context: Context, parts: tuple[str, ...]) -> int:
    if parts[0] in ("steps", "outcome") and len(parts) > 1 and parts[1] in context.by_id:
        return context.by_id[parts[1]].step.line
    known = ("inputs", parts[1]) if parts[0] == "inputs" and len(parts) > 1 else ()
    return context.source.keys[known].line if known in context.source.keys else 0


def _of_value(desk: Desk, path: Path, context: Context, pointed: Pointed) -> Iterator[Spot]:
    folder, facts, value = desk.project.folder, context.facts, pointed.value
    key = next((part for part in reversed(pointed.path) if isinstance(part, str)), "")
    if key == "covers" and value in context.by_id:
        yield path, context.by_id[value].step.line
    elif key in ("call", "then_run") and value in facts.flows:
        yield folder / facts.flows[value], 1
    elif key == "template":
        yield from ((folder / "templates" / name, 1) for name in facts.templates if name.partition(".")[0] == value)
    elif value in facts.actions:
        connection, _, action = value.partition(".")
        found = facts.connections[connection]
        if found.found.file and (folder / found.found.file).is_file():
            yield folder / found.found.file, _line(found.found.text, action)
        elif (folder / "connections.yaml").is_file():
            text = (folder / "connections.yaml").read_text(encoding="utf-8", errors="replace")
            yield folder / "connections.yaml", _line(text, connection)


def _line(text: str, name: str) -> int:
    """The first line that begins with this key."""
    found = re.search(rf"^\s*{re.escape(name)}:", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 + found[0].count("\n") if found else 1
