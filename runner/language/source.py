"""A YAML text as plain data plus the exact place of every key and value. The only home of ruamel.yaml.

ruamel reads the text into events; the data is built here, because each value's place and style are needed and because
nothing may be guessed: YAML 1.2's plain values (null, true, numbers) and texts, and nothing else. What the flow
language does not accept is refused here with its place: the same key twice, anchors, tags, merge keys, tabs, other
keys than texts, several documents, too big, too deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from runner.contract import Json
from runner.errors import Problem
from runner.language.places import (
    Path,
    Place,
    Scalar,
    Source,
    Style,
    as_quoted,
    plain_value,
    problem_at,
    reads_differently,
)
from runner.language.signs import DASHES, NAMES, Finding, find_braces, find_signs, masked, sign_at, wide_sign
from runner.language.wording import closed_late, reword

__all__ = [
    "Path",
    "Place",
    "ReadFile",
    "Scalar",
    "Source",
    "as_quoted",
    "no_file",
    "plain_value",
    "problem_at",
    "read",
    "read_bytes",
    "reads_differently",
]

MOST_BYTES = 1_000_000
MOST_LEVELS = 50
MOST_REPAIRS = 40

ReadFile = Callable[[str], tuple[str, Problem | None] | None]
"""Gives a file by its path from the project folder: (text, what keeps it from being read), or None: it is not there."""

_WHOLE = Place(line=0, column=0)

_STYLES: dict[str | None, Style] = {"'": "single", '"': "double", "|": "block", ">": "block"}


def read(text: str, file: str) -> tuple[Source | None, tuple[Problem, ...]]:
    """Reads a YAML text. All problems of reading come back; the source is None where nothing could be made of it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_BYTES:
        what = f"the file has {size:,} bytes; more than {MOST_BYTES:,} are not read"
        return None, (problem_at(file, _WHOLE, "FL004", what),)
    problems: list[Problem] = []
    written = text
    mended: set[int] = set()
    for _ in range(MOST_REPAIRS):
        reader = _Reader(text, file)
        broken = reader.run()
        fixes, told = _repairs(text, reader, broken, mended)
        problems.extend(told)
        if not fixes:
            kept = [found for found in reader.problems if found.line not in mended]
            if broken is not None:
                return None, _in_order([*problems, *(kept or ([] if problems else [broken.problem]))])
            return reader.source(written, mended), _in_order([*problems, *kept])
        text = "\n".join(fixes.get(number, line) for number, line in enumerate(text.split("\n"), 1))
        mended.update(fixes)
    return None, _in_order(problems)


def _repairs(
    text: str, reader: _Reader, broken: _Unreadable | None, mended: set[int]
) -> tuple[dict[int, str], list[Problem]]:
    """Lines as they should be, so that reading can go on, and what is wrong with them; nothing where it cannot."""
    if broken is not None and broken.final:
        return {}, [broken.problem]
    findings = [*find_braces(text), *find_signs(text)] if broken is not None else []
    if broken is None:
        signs = find_signs(text)
        findings = signs if isinstance(reader.root, str) else [found for found in signs if found.shown in DASHES]
    new = [finding for finding in findings if finding.line not in mended]
    if new:
        mended.update(finding.line for finding in new)
        fixes = {finding.line: finding.fixed for finding in new if finding.fixed}
        return fixes, [_found(reader.file, finding) for finding in new]
    if broken is None or broken.problem.line in mended:
        return {}, []
    return {broken.problem.line: broken.fixed} if broken.fixed else {}, [broken.problem]


def read_bytes(path: FilePath, file: str) -> tuple[str, Problem | None]:
    """The text of a file, or the one problem that keeps it from being read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        what = f"the file cannot be read: {error.strerror or 'it is not reachable'}"
        return "", problem_at(file, _WHOLE, "FL004", what)
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        place = Place(line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
        hint = "save the file as UTF-8 in the editor"
        return "", problem_at(file, place, "FL004", "the file is not UTF-8 from here on", hint)


def no_file(name: str) -> tuple[str, Problem | None] | None:
    """A project without further files."""
    return None


def _found(file: str, finding: Finding) -> Problem:
    place = Place(line=finding.line, column=finding.column, length=finding.length)
    fixed = f"write the line so:  {finding.fixed.strip()}"
    if finding.kind == "quote":
        what = f"a quote opened at column {finding.column} is not closed"
        return problem_at(file, place, "FL004", what, f"close it with {finding.shown} where its text ends")
    if finding.kind == "braces":
        return problem_at(file, place, "FL004", f"put quotes around the expression {finding.shown}", fixed)
    name = NAMES.get(finding.shown, f'the full-width sign "{finding.shown}"')
    return problem_at(file, place, "FL003", f"{name} stands where YAML needs the ASCII sign", fixed)


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda found: (found.line, found.column, found.code)))


class _Unreadable(Exception):
    """Reading stops here. `fixed` is the line as it should be, where that is known."""

    def __init__(self, problem: Problem, fixed: str = "", *, final: bool = False) -> None:
        super().__init__(problem.what)
        self.problem = problem
        self.fixed = fixed
        self.final = final


@dataclass(kw_only=True, slots=True)
class _Frame:
    """A map or list that is being read. In a map, `key` is the key whose value comes next."""

    value: dict[str, Json] | list[Json]
    path: Path
    flow: bool
    place: Place
    key: str | None = None
    ignored: bool = False
    is_two: bool = False
    """A second step begins in this one."""


class _Reader:
    """One pass over one text."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = text.split("\n")
        self.problems: list[Problem] = []
        self.values: dict[Path, Place] = {}
        self.keys: dict[Path, Place] = {}
        self.scalars: dict[Path, Scalar] = {}
        self.broken: set[Path] = set()
        self.frames: list[_Frame] = []
        self.root: Json = None
        self.quote: tuple[tuple[int, int], int] | None = None
        """Where the last quoted text of several lines begins, (line, column), and its last line, from 0."""

    def source(self, written: str, mended: set[int]) -> Source:
        """What was read; `written` is the file's text as it is, before lines of it were mended."""
        return Source(
            file=self.file,
            text=written,
            data=self.root,
            values=self.values,
            keys=self.keys,
            scalars=self.scalars,
            broken=frozenset(self.broken),
            mended=frozenset(mended),
            _read=self.text,
            _starts=(0, *(match.end() for match in re.finditer("\n", self.text))),
        )

    def run(self) -> _Unreadable | None:
        """Reads as far as it goes; what stopped it, if something did."""
        try:
            self._read_events()
        except _Unreadable as broken:
            return broken
        return None

    def _read_events(self) -> None:
        documents = 0
        for event in self._events():
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    what = "a second document begins here; a file is one document"
                    raise self._stop(self._place(event), what, final=True)
                self._refuse_directives()
            elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
                self._open(event)
            elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
                self._close()
            elif isinstance(event, ScalarEvent):
                self._scalar(event)
            elif isinstance(event, AliasEvent):
                place = self._place(event)
                self._refuse(place, f'the alias "*{event.anchor}" is not accepted; write the value out')
                path = self._child_path()
                self.broken.update((path, path[:-1]))
                self._put(None, place)
        self._refuse_tabs()

    def _events(self) -> Iterator[Any]:
        try:
            yield from YAML(typ="safe", pure=True).parse(self.text)
        except MarkedYAMLError as error:
            raise self._from_library(error) from None
        except (YAMLError, ValueError, IndexError, AttributeError, TypeError) as error:
            raise self._from_bare(error) from None

    def _from_library(self, error: MarkedYAMLError) -> _Unreadable:
        mark, context = error.problem_mark, error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        opened = (context.line, context.column) if context else None
        if self.quote is not None and self.quote[1] == line:
            words = closed_late(self.lines, *self.quote)
        else:
            words = reword(self.lines, error.problem or "", error.context or "", (line, column), opened)
        place = Place(line=words.line + 1, column=words.column + 1, length=words.length)
        return _Unreadable(problem_at(self.file, place, "FL004", words.what, words.hint), words.fixed)

    def _from_bare(self, error: Exception) -> _Unreadable:
        position = getattr(error, "position", None)
        if isinstance(position, int) and position < len(self.text):
            line = self.text.count("\n", 0, position)
            column = position - (self.text.rfind("\n", 0, position) + 1)
            what = f"a control character (U+{ord(self.text[position]):04X}) stands here; take it out"
            return self._stop(Place(line=line + 1, column=column + 1), what, final=True)
        return self._stop(Place(line=1, column=1), "this is not YAML that can be read", final=True)

    def _stop(self, place: Place, what: str, hint: str = "", *, final: bool = False) -> _Unreadable:
        return _Unreadable(problem_at(self.file, place, "FL004", what, hint), final=final)

    def _refuse(self, place: Place, what: str, hint: str = "", code: str = "FL004") -> None:
        self.problems.append(problem_at(self.file, place, code, what, hint))

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        line = self.lines[start.line] if start.line < len(self.lines) else ""
        last = end.column if end.line == start.line else len(line.rstrip())
        return Place(line=start.line + 1, column=start.column + 1, length=max(1, last - start.column))

    def _refuse_directives(self) -> None:
        for number, line in enumerate(self.lines, 1):
            if line.startswith("---"):
                return
            if line.startswith("%"):
                word = line.split()[0]
                place = Place(line=number, column=1, length=len(word))
                self._refuse(place, f'"{word}" is not accepted; take the line out')

    def _refuse_marks(self, event: Any, place: Place) -> None:
        first = Place(line=place.line, column=place.column)
        if event.anchor is not None:
            self._refuse(first, f'the anchor "&{event.anchor}" is not accepted; write the value out where it is needed')
        tag = getattr(event, "tag", None)
        if tag is not None:
            shown = self.text[event.start_mark.index :].split(maxsplit=1)[0] if str(tag) != "!" else "!"
            way_out = "quotes make a text, a bare number is a number" if shown != "!" else "take it out"
            self._refuse(first, f'the tag "{shown}" is not accepted; {way_out}')

    def _open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        place = self._place(event)
        self._refuse_marks(event, place)
        if len(self.frames) >= MOST_LEVELS:
            raise self._stop(place, f"this is nested more than {MOST_LEVELS} levels deep", final=True)
        frame = self.frames[-1] if self.frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            hint = "begin the line with a name and a colon"
            raise self._stop(place, "a key must be a text, not a map or a list", hint)
        value: dict[str, Json] | list[Json] = {} if isinstance(event, MappingStartEvent) else []
        path = self._child_path()
        ignored = bool(frame and frame.ignored) or self._repeats()
        self.frames.append(_Frame(value=value, path=path, flow=bool(event.flow_style), place=place, ignored=ignored))

    def _close(self) -> None:
        frame = self.frames.pop()
        place = frame.place
        if not frame.flow and isinstance(frame.value, dict) and frame.value:
            place = self.keys.get((*frame.path, next(iter(frame.value))), place)
        self._put(frame.value, place, frame.path)

    def _scalar(self, event: ScalarEvent) -> None:
        place = self._place(event)
        self._refuse_marks(event, place)
        style = _STYLES.get(event.style, "plain")
        if style in ("single", "double") and event.start_mark.line < event.end_mark.line:
            self.quote = (event.start_mark.line, event.start_mark.column), event.end_mark.line
        if not event.value and (event.anchor is not None or event.tag is not None):
            self.broken.add(self._child_path())
        start, end = event.start_mark.index, event.end_mark.index
        frame = self.frames[-1] if self.frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            self._take_key(frame, event.value, style, place)
            return
        if style == "plain":
            self._refuse_signs(event.value, frame, place)
            self._refuse_comment(event, place)
        path = self._child_path()
        if not self._ignored():
            self.scalars[path] = Scalar(text=event.value, style=style, start=start, end=end)
        self._put(plain_value(event.value) if style == "plain" else event.value, place, path)

    def _take_key(self, frame: _Frame, text: str, style: Style, place: Place) -> None:
        if style == "plain":
            line = self.lines[place.line - 1]
            wide = re.search("[：｛［＃－｝］\u3000\u00a0]", line[place.column - 1 : place.column - 1 + place.length])
            if wide is not None:
                self.problems.append(_found(self.file, sign_at(line, place.line, place.column - 1 + wide.start())))
            elif text == "<<":
                self._refuse(place, 'the merge key "<<" is not accepted; write the keys out')
            elif not isinstance(plain_value(text), str):
                what = f'a key must be a text, and "{text or "nothing"}" reads as something else'
                self._refuse(place, what, f"write it in quotes: {as_quoted(text)}")
        if text in frame.value:
            first = self.keys.get((*frame.path, text))
            where = f" (first on line {first.line})" if first else ""
            is_step = text == "id" and frame.path[-2:-1] == ("steps",)
            if is_step:
                self.broken.add(frame.path)
                hint = 'a step begins with "- ": put it before this id'
                self._refuse(place, f'a second "id" stands in one step{where}', hint, "FL001")
            elif not frame.is_two:
                self._refuse(place, f'the key "{text}" is written twice{where}', "keep one of the two", "FL001")
            frame.is_two = frame.is_two or is_step
        elif not frame.ignored:
            self.keys[(*frame.path, text)] = place
        frame.key = text

    def _refuse_tabs(self) -> None:
        if "\t" not in self.text:
            return
        for number, (seen, _) in enumerate(masked(self.text), 1):
            if "\t" in seen:
                self._refuse(Place(line=number, column=seen.index("\t") + 1), "a tab stands here; YAML wants spaces")

    def _refuse_signs(self, text: str, frame: _Frame | None, place: Place) -> None:
        line = self.lines[place.line - 1]
        if frame is None:
            return
        if len(text) > 1 and text[0] in "“”„‟" and text[-1] in "“”" and not re.search("[“”„‟]", text[1:-1]):
            what = f"the curly quotes {text[0]} and {text[-1]} are no quotes for YAML and would stay in the text"
            hint = f"write it so: {as_quoted(text[1:-1])}; if they belong to the text: '{text}'"
            self._refuse(place, what, hint, "FL003")
            return
        wide = -1
        if text[:1] in ("\u3000", "\u00a0"):
            wide = place.column - 1
        elif frame.flow:
            wide = wide_sign("\0" * (place.column - 1) + line[place.column - 1 : place.column - 1 + place.length], True)
        if wide >= 0:
            self.problems.append(_found(self.file, sign_at(line, place.line, wide)))

    def _refuse_comment(self, event: ScalarEvent, place: Place) -> None:
        """A plain text followed by ` #`: did the author mean a comment or the sign?"""
        if not event.value:
            return
        end = event.end_mark
        rest = self.lines[end.line][end.column :] if end.line < len(self.lines) else ""
        match = re.match(r"( +)#(.?)", rest)
        if match is None or (len(match[1]) >= 2 and match[2] in ("", " ", "#", "!", "-", "=")):
            return
        whole = event.value + rest.rstrip()
        here = Place(line=end.line + 1, column=end.column + len(match[1]) + 1, length=len(rest.strip()))
        hint = f"if it is text: {as_quoted(whole)}; if it is a comment, put two spaces before and one after the #"
        what = f'YAML drops "{rest.strip()}" here: after a space, "#" begins a comment'
        self._refuse(here, what, hint, "FL002")

    def _child_path(self) -> Path:
        if not self.frames:
            return ()
        frame = self.frames[-1]
        if isinstance(frame.value, dict):
            return (*frame.path, frame.key or "")
        return (*frame.path, len(frame.value))

    def _repeats(self) -> bool:
        """Whether the value to come belongs to a key that was there before: the first one stays."""
        frame = self.frames[-1] if self.frames else None
        return frame is not None and isinstance(frame.value, dict) and frame.key in frame.value

    def _ignored(self) -> bool:
        return bool(self.frames) and (self.frames[-1].ignored or self._repeats())

    def _put(self, value: Json, place: Place, path: Path | None = None) -> None:
        path = self._child_path() if path is None else path
        if not self._ignored():
            self.values[path] = place
        if not self.frames:
            self.root = value
            return
        frame = self.frames[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is not None:
            frame.value.setdefault(frame.key, value)
            frame.key = None
