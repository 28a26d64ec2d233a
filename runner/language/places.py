"""Where everything of a file stands: a source is plain data plus the exact place of every key and value."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from runner.contract import Json
from runner.errors import Level, Problem
from runner.language.signs import quoted

Path = tuple[str | int, ...]
Style = Literal["plain", "single", "double", "block"]

_INTEGER = re.compile(r"[-+]?[0-9]+$")
_BASED = re.compile(r"0o[0-7]+$|0x[0-9a-fA-F]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_SWITCHES = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where something stands: line and column from 1, and how many characters of that line it takes."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """One single value. `text` is what the author wrote, without quotes; `start` and `end` are offsets in the file."""

    text: str
    style: Style
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file that was read. Everything is addressed by path: `("steps", 1, "with", "email")`.

    `broken` holds the paths of maps in which a key or value was not usable, and `lost` the ids of steps that could not
    be read at all: what is said about them would be a guess.
    """

    file: str
    text: str
    data: Json
    values: Mapping[Path, Place] = field(default_factory=dict)
    keys: Mapping[Path, Place] = field(default_factory=dict)
    scalars: Mapping[Path, Scalar] = field(default_factory=dict)
    broken: frozenset[Path] = frozenset()
    lost: frozenset[str] = frozenset()
    mended: frozenset[int] = frozenset()
    """Lines that were read as they should be, not as they are: their fault is known, their columns are not."""
    _read: str = ""
    _starts: tuple[int, ...] = ()

    def at(self, path: Path) -> Place:
        """The place of the value at this path, or of the nearest thing around it that is there."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.values:
                return self.values[path[:end]]
        return Place(line=1, column=1)

    def key(self, path: Path) -> Place:
        """The place of the key itself; for a list item the place of its value."""
        return self.keys.get(path) or self.at(path)

    def inside(self, path: Path, offset: int, length: int) -> Place:
        """The place of a part of the text at this path; `offset` counts characters of the text's value."""
        scalar = self.scalars.get(path)
        if scalar is None:
            return self.at(path)
        index = self._index_of(scalar, offset)
        end = self._index_of(scalar, offset + max(length, 1) - 1) + 1
        line = bisect_right(self._starts, index)
        start_of_line = self._starts[line - 1]
        line_end = self._read.find("\n", index)
        end = min(end, line_end) if line_end >= 0 else end
        return Place(line=line, column=index - start_of_line + 1, length=max(1, end - index))

    def problem(
        self,
        code: str,
        path: Path,
        what: str,
        hint: str = "",
        *,
        on: Literal["value", "key"] = "value",
        part: tuple[int, int] | None = None,
        level: Level = "error",
    ) -> Problem:
        """A problem at the value or the key of this path, or at a part (offset, length) of its text."""
        place = self.key(path) if on == "key" else self.inside(path, *part) if part is not None else self.at(path)
        return problem_at(self.file, place, code, what, hint, level)

    def line(self, number: int) -> str:
        """The text of a line, from 1."""
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def with_marks(self, broken: frozenset[Path], lost: frozenset[str]) -> Source:
        """The same source, knowing what of it could not be used."""
        return replace(self, broken=broken, lost=lost)

    def _index_of(self, scalar: Scalar, offset: int) -> int:
        """Offset in the file of a character of the value, walking value and written text side by side."""
        raw = self._read[scalar.start : scalar.end]
        at = 0 if scalar.style == "plain" else 1
        if scalar.style == "block":
            at = raw.find("\n") + 1
        for step, char in enumerate(scalar.text):
            if not char.isspace():
                while at < len(raw) and raw[at].isspace():
                    at += 1
            if step == offset:
                break
            at += _written(raw, at, char, scalar.style)
        return min(scalar.start + at, max(scalar.end - 1, scalar.start))


def _written(raw: str, at: int, char: str, style: Style) -> int:
    """How many characters of the file stand for this character of the value."""
    if style == "double":
        escape = _ESCAPE.match(raw, at)
        if escape:
            return len(escape.group())
    if style == "single" and char == "'":
        return 2
    if char.isspace():
        return 1 if raw[at : at + 1] == char else 0
    return 1


def problem_at(file: str, place: Place, code: str, what: str, hint: str = "", level: Level = "error") -> Problem:
    """A problem at a place."""
    line, column, length = place.line, place.column, place.length
    return Problem(code=code, level=level, file=file, line=line, column=column, length=length, what=what, hint=hint)


def plain_value(text: str) -> Json:
    """What YAML 1.2 makes of a plain value: None, a switch, a number, or the text itself."""
    if text in _WORDS:
        return None
    if text in _SWITCHES:
        return _SWITCHES[text]
    if _INTEGER.match(text):
        return int(text) if len(text) < 4000 else text
    if _BASED.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        number = float(text)
        return number if number not in (float("inf"), float("-inf")) else text
    return text


def reads_differently(text: str) -> bool:
    """Whether a plain value would print differently from what the author wrote: 00123, 1.10, 5319E7, +49."""
    value = plain_value(text)
    if isinstance(value, bool) or value is None:
        return text not in ("true", "false", "null", "", "~")
    return not isinstance(value, str) and str(value) != text


def as_quoted(text: str) -> str:
    """A text as it is written in double quotes."""
    return quoted(text)
