"""What the rules found last time, kept under `.amends/cache`, so that a flow that is as it was is not read again.

An answer is kept with all that it was made of: the text of the flow or flow test, every file read for it (the flow of a
test, called flows, schemas), and the project around it as the rules see it. Where any of that is otherwise, or the file
is not as it was written, it is checked. Nothing else depends on the cache: it may be removed at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from runner import __version__
from runner.errors import Problem
from runner.language.actions import action_to_json
from runner.language.connections import GROUP
from runner.language.facts import ProjectFacts
from runner.language.project import PEOPLE, Project, flow_of
from runner.language.source import ReadFile

FORM = 2
"""The form of the file; what another form wrote is not read."""
MOST_BYTES = 16_000_000

Rehearse = Callable[[Path], tuple[str, tuple[Problem, ...]]]
"""Reads a flow test: the flow that it tests, and what is wrong, in other files too."""
Entry = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What is wrong with one flow, or flow test. `mode` is empty where nothing could be made of the file."""

    file: str
    text: str
    mode: str
    problems: tuple[Problem, ...]


def check_again(project: Project, which: str | Path | None = None) -> list[Told]:
    """One flow (by path or id) or all of them, as `Project.check` finds them. Raises NotFound."""
    return check_with_tests(project, which, None)[0]


def check_with_tests(
    project: Project, which: str | Path | None, rehearse: Rehearse | None
) -> tuple[list[Told], list[Told]]:
    """As `check_again`, and the flow tests of these flows; of all flows also those that test no flow."""
    paths = project.flow_files() if which is None else (project.path_of(which),)
    facts = project.facts()
    file = project.folder / ".amends" / "cache" / "check.json"
    stamp = _stamp(facts, project.texts.get(PEOPLE, ""))
    before = _read(file, stamp)
    flows = {project.name_of(path): _answer(project, path, facts, before) for path in paths}
    ids = {path.stem: project.name_of(path) for path in paths}
    tests = {
        project.name_of(path): _answer_test(project, path, rehearse, before, lambda flow: flows.get(ids.get(flow, "")))
        for path in (project.flow_tests() if rehearse is not None else ())
        if rehearse is not None and (which is None or flow_of(path.name) in ids)
    }
    kept = {name: entry for name, (_, entry) in {**flows, **tests}.items() if entry is not None}
    if which is not None or rehearse is None:
        kept = before | kept
    if kept != before:
        _write(file, stamp, kept)
    return [told for told, _ in flows.values()], [told for told, _ in tests.values()]


def _answer(
    project: Project, path: Path, facts: ProjectFacts, before: Mapping[str, Entry]
) -> tuple[Told, Entry | None]:
    """What is wrong with a flow, and what to keep of it."""
    name, text = project.name_of(path), _text_of(project, path)
    if text is not None and (known := _as_it_was(name, text, before, project.read_file)) is not None:
        return known
    read: dict[str, str] = {}
    [checked] = project.check(path, replace(facts, read_file=_recording(project.read_file, read)))
    mode = checked.flow.mode if checked.flow is not None else ""
    told = Told(file=checked.file, text=checked.text, mode=mode, problems=checked.problems)
    return told, _entry(told, read) if text is not None else None


def _answer_test(
    project: Project, path: Path, rehearse: Rehearse, before: Mapping[str, Entry],
    answer_of: Callable[[str], tuple[Told, Entry | None] | None],
) -> tuple[Told, Entry | None]:  # fmt: skip
    """What is wrong in a flow test's own file, and what to keep of it: it leans on all that its flow leans on.

    Kept is only that nothing was wrong: a test is not read to its end where something else is.
    """
    name, text = project.name_of(path), _text_of(project, path)
    if text is not None and (known := _as_it_was(name, text, before, project.read_file)) is not None:
        return known
    flow, problems = rehearse(path)
    told = Told(file=name, text=text or "", mode="", problems=tuple(one for one in problems if one.file == name))
    tested = answer_of(flow)
    if text is None or problems or tested is None or tested[1] is None:
        return told, None
    return told, _entry(told, {tested[0].file: tested[1]["text"], **tested[1]["read"]})


def _text_of(project: Project, path: Path) -> str | None:
    """The text of a file of the project; None where there is none to keep an answer for."""
    found = project.read_file(project.name_of(path)) if path.is_relative_to(project.folder) else None
    return found[0] if found is not None and found[1] is None else None


def _entry(told: Told, read: Mapping[str, str]) -> Entry:
    written = [asdict(one) for one in told.problems]
    return {"text": _hash(told.text), "read": dict(read), "mode": told.mode, "problems": written}


def _as_it_was(name: str, text: str, before: Mapping[str, Entry], read_file: ReadFile) -> tuple[Told, Entry] | None:
    entry = before.get(name)
    if entry is None or not _is_as_it_was(entry, text, read_file):
        return None
    problems = tuple(Problem(**one) for one in entry["problems"])
    return Told(file=name, text=text, mode=entry["mode"], problems=problems), entry


def _is_as_it_was(entry: Entry, text: str, read_file: ReadFile) -> bool:
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
    house = Path(__file__).parents[1]
    for room in (house, house.with_name("connectors")):
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
