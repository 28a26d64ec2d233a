"""What the rules found last time, kept under `.amends/cache`, so that a flow that is as it was is not read again.

An answer is kept with all that it was made of: the flow's text, every file read for it (called flows, schemas), and the
project around it as the rules see it. Where any of that is otherwise, or the file is not as it was written, the
flow is checked. Nothing else depends on the cache: it may be removed at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from runner import __version__
from runner.errors import Problem
from runner.language.bundle import action_to_json
from runner.language.connections import GROUP
from runner.language.facts import ProjectFacts
from runner.language.project import PEOPLE, Project
from runner.language.source import ReadFile

FORM = 1
"""The form of the file; what another form wrote is not read."""
MOST_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What is wrong with one flow. `mode` is empty where nothing could be made of the file."""

    file: str
    text: str
    mode: str
    problems: tuple[Problem, ...]


def check_again(project: Project, which: str | Path | None = None) -> list[Told]:
    """One flow (by path or id) or all of them, as `Project.check` finds them. Raises NotFound."""
    paths = project.flow_files() if which is None else (project.path_of(which),)
    facts = project.facts()
    file = project.folder / ".amends" / "cache" / "check.json"
    stamp = _stamp(facts, project.texts.get(PEOPLE, ""))
    before = _read(file, stamp)
    now = {project.name_of(path): _answer(project, path, facts, before) for path in paths}
    kept = {name: entry for name, (_, entry) in now.items() if entry is not None}
    if which is not None:
        kept = before | kept
    if kept != before:
        _write(file, stamp, kept)
    return [told for told, _ in now.values()]


def _answer(
    project: Project, path: Path, facts: ProjectFacts, before: Mapping[str, Any]
) -> tuple[Told, dict[str, Any] | None]:
    """What is wrong with a flow, and what to keep of it."""
    name = project.name_of(path)
    entry = before.get(name)
    found = project.read_file(name) if path.is_relative_to(project.folder) else None
    text = found[0] if found is not None and found[1] is None else None
    if entry is not None and text is not None and _is_as_it_was(entry, text, project.read_file):
        problems = tuple(Problem(**one) for one in entry["problems"])
        return Told(file=name, text=text, mode=entry["mode"], problems=problems), entry
    read: dict[str, str] = {}
    [checked] = project.check(path, replace(facts, read_file=_recording(project.read_file, read)))
    mode = checked.flow.mode if checked.flow is not None else ""
    told = Told(file=checked.file, text=checked.text, mode=mode, problems=checked.problems)
    if text is None:
        return told, None
    written = [asdict(one) for one in checked.problems]
    return told, {"text": _hash(text), "read": read, "mode": mode, "problems": written}


def _is_as_it_was(entry: Mapping[str, Any], text: str, read_file: ReadFile) -> bool:
    return bool(entry["text"] == _hash(text)) and all(
        _hash_of(read_file, name) == known for name, known in entry["read"].items()
    )


def _recording(read_file: ReadFile, read: dict[str, str]) -> ReadFile:
    def record(name: str) -> tuple[str, Problem | None] | None:
        read[name] = _hash_of(read_file, name)
        return read_file(name)

    return record


def _hash_of(read_file: ReadFile, name: str) -> str:
    found = read_file(name)
    return "" if found is None else _hash(found[0] if found[1] is None else f"\0{found[1].what}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- the project around, and this program ----------------------------------------------------------------------------


def _stamp(facts: ProjectFacts, people: str) -> str:
    """A digest of all that the rules can see beside a flow's own files, and of the rules themselves."""
    seen = {
        "form": FORM,
        "program": [__version__, sys.version, *_program()],
        "actions": {name: action_to_json(action) for name, action in facts.actions.items()},
        "connections": {name: [one.connector, one.settings] for name, one in facts.connections.items()},
        "people": people,
        "unreadable": sorted(facts.unreadable),
        "templates": facts.templates,
        "flows": facts.flows,
        "settings": [facts.zone, facts.has_zone, facts.language, facts.project],
    }
    return _hash(json.dumps(seen, sort_keys=True))


def _program() -> Iterator[str]:
    """What tells one state of the rules from another, also while they are being written."""
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        yield f"{entry.name} {entry.value} {entry.dist.version if entry.dist is not None else ''}"
    room = Path(__file__).parent
    for file in sorted(room.rglob("*.py")):
        known = file.stat()
        yield f"{file.relative_to(room)} {known.st_size} {known.st_mtime_ns}"


# --- the file --------------------------------------------------------------------------------------------------------


def _read(file: Path, stamp: str) -> dict[str, Any]:
    """What is kept under this stamp; nothing where the file is another's, damaged, or cannot be read."""
    try:
        head, _, body = file.read_text(encoding="utf-8").partition("\n")
        kept = json.loads(body) if head == f"{stamp} {_hash(body)}" else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _write(file: Path, stamp: str, kept: Mapping[str, Any]) -> None:
    """All of it at once. A project that cannot be written to is checked anew each time."""
    body = json.dumps(kept, separators=(",", ":"))
    if len(body) > MOST_BYTES:
        return
    new = file.with_name(f"check.{os.getpid()}.new")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.write_text(f"{stamp} {_hash(body)}\n{body}", encoding="utf-8")
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
