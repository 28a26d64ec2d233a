"""What was expected against what happened: each difference with its place in the test, and lines to read.

In the lines `-` is what was expected, `+` what happened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.contract import Json
from runner.language.flow import Verb
from runner.language.people import People
from runner.language.source import Path
from runner.language.values import as_text, is_money
from runner.rehearsal.happened import Happened, Seen
from runner.rehearsal.names import At, Spot
from runner.rehearsal.script import ASKED, Reader

LONGEST = 100
CONTAINS = "contains"


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One expectation that is not so. `path` is its place in the test."""

    path: Path
    what: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of an expected list: what is meant, and fields that it must have."""

    written: str
    spot: Spot | None
    fields: Mapping[str, Json]
    path: Path


LISTS: Mapping[str, tuple[str, tuple[Verb, ...]]] = {
    "calls": ("what was sent", ("do",)),
    "compensations": ("what was made good", ("do",)),
    "reads": ("what was asked of services", ("read",)),
    "asked": ("what people were asked", ASKED),
    "emits": ("the events that were sent", ()),
}
"""The lists of `expect` in which order matters: what each is about, and which steps may stand in it."""
NAMED: tuple[tuple[str, tuple[Verb, ...]], ...] = (
    ("tries", ("do", "read")), ("outcomes", ()), ("stands", ("do",)), ("in_doubt", ("do",)),
)  # fmt: skip
"""The other words that name steps."""


class Comparison:
    """Holds the `expect` of one case against what happened. Names that mean nothing become problems of the reader."""

    def __init__(self, reader: Reader, expect: Any, path: Path, people: People) -> None:
        self._reader = reader
        self._expect = expect
        self._path = (*path, "expect")
        self._people = people
        self._entries = {name: self._read(name) for name in LISTS if getattr(expect, name) is not None}
        self._spots = {name: self._named(name, verbs) for name, verbs in NAMED if getattr(expect, name) is not None}

    def differences(self, happened: Happened) -> list[Difference]:
        """Everything that: not as expected, in the order of the words."""
        found = [Difference(path=path, what=what) for path, what in happened.trouble]
        expect = self._expect
        why = f": {happened.because}" if happened.because and happened.end != "succeeded" else ""
        found += self._word("end", happened.end, why)
        if expect.because is not None and expect.because not in happened.because:
            found.append(
                self._differs(
                    "because",
                    f'"{expect.because}" is no part of why it failed',
                    (f"+ {happened.because or 'it did not fail'}",),
                )
            )
        for name, entries in self._entries.items():
            found += self._list(name, entries, getattr(happened, name))
        found += self._tries(happened)
        found += self._outcomes(happened)
        if expect.outputs is not None:
            found += self._fields("outputs", expect.outputs, happened.outputs)
        for name in ("stands", "in_doubt"):
            found += self._places(name, getattr(happened, name))
        if expect.told is not None:
            meant = sorted({f"person:{one.id}" for name in expect.told for one in self._people.resolve(name)})
            found += self._set("told", "who is told", meant, sorted(happened.told))
        for name, what in (("set_aside", "the items that were set aside"), ("holds", "the records that are held")):
            if getattr(expect, name) is not None:
                found += self._set(name, what, sorted(getattr(expect, name)), sorted(getattr(happened, name)))
        return [*found, *self._then(happened)]

    def _named(self, name: str, verbs: tuple[Verb, ...]) -> dict[str, Spot | None]:
        listed, path = getattr(self._expect, name), (*self._path, name)
        places = {one: one if isinstance(listed, dict) else number for number, one in enumerate(listed)}
        return {one: self._reader.spot(one, (*path, place), verbs) for one, place in places.items()}

    # -- one word --

    def _differs(self, name: str, what: str, lines: Sequence[str] = (), *more: str | int) -> Difference:
        return Difference(path=(*self._path, name, *more), what=what, lines=tuple(lines))

    def _word(self, name: str, is_so: str, why: str) -> Iterator[Difference]:
        expected = getattr(self._expect, name)
        if expected not in (None, is_so):
            yield self._differs(name, f"{name}: not as expected", (f"- {expected}", f"+ {is_so}{why}"))

    def _tries(self, happened: Happened) -> Iterator[Difference]:
        for written, spot in self._spots.get("tries", {}).items():
            count = sum(spot is not None and at.is_meant(spot) for at in happened.tries)
            if spot is not None and count != self._expect.tries[written]:
                lines = (f"- {self._expect.tries[written]}", f"+ {count}")
                yield self._differs("tries", f"the tries of {written}: not as expected", lines, written)

    def _outcomes(self, happened: Happened) -> Iterator[Difference]:
        for written, spot in self._spots.get("outcomes", {}).items():
            words = list(
                dict.fromkeys(word for at, word in happened.outcomes if spot is not None and at.is_meant(spot))
            )
            if spot is not None and words != [self._expect.outcomes[written]]:
                lines = (f"- {self._expect.outcomes[written]}", f"+ {', '.join(words) or 'it was not reached'}")
                yield self._differs("outcomes", f"the outcome of {written}: not as expected", lines, written)

    def _then(self, happened: Happened) -> Iterator[Difference]:
        if self._expect.then is None:
            return
        lines = _lines(list(self._expect.then), list(happened.then))
        if any(line[0] != " " for line in lines):
            yield self._differs("then", "the flow that follows: not as expected", lines)
        for flow, inputs in self._expect.then.items():
            if flow in happened.then:
                yield from self._fields("then", inputs, happened.then[flow], flow)

    # -- sets --

    def _set(self, name: str, what: str, expected: Sequence[str], is_so: Sequence[str]) -> Iterator[Difference]:
        if list(expected) != list(is_so):
            lines = [f"  {one}" for one in expected if one in is_so]
            lines += [f"- {one}" for one in expected if one not in is_so]
            lines += [f"+ {one}" for one in is_so if one not in expected]
            yield self._differs(name, f"{what}: not as expected", lines)

    def _places(self, name: str, is_so: Sequence[At]) -> Iterator[Difference]:
        spots = self._spots.get(name)
        if spots is None or None in spots.values():
            return
        missing = [written for written, spot in spots.items() if not any(spot and at.is_meant(spot) for at in is_so)]
        more = [at for at in is_so if not any(spot and at.is_meant(spot) for spot in spots.values())]
        if missing or more:
            there = [f"  {written}" for written in spots if written not in missing]
            lines = [*there, *(f"- {one}" for one in missing), *(f"+ {at.shown}" for at in more)]
            yield self._differs(name, f"{_PLACES[name]}: not as expected", lines)

    # -- lists in order --

    def _read(self, name: str) -> list[Entry]:
        written = getattr(self._expect, name)
        path: Path = (*self._path, name)
        listed = written if isinstance(written, list) else written.at_least
        path = path if isinstance(written, list) else (*path, "at_least")
        return [self._entry(name, one, (*path, number)) for number, one in enumerate(listed)]

    def _entry(self, name: str, written: Any, path: Path) -> Entry:
        step, fields = (written, {}) if isinstance(written, str) else next(iter(written.items()), ("", {}))
        path = path if isinstance(written, str) else (*path, step)
        if name == "emits":
            return Entry(written=step, spot=Spot(step=step), fields=fields, path=path)
        return Entry(written=step, spot=self._reader.spot(step, path, LISTS[name][1]), fields=fields, path=path)

    def _list(self, name: str, entries: Sequence[Entry], seen: Sequence[Seen]) -> Iterator[Difference]:
        if any(entry.spot is None for entry in entries):
            return
        is_whole = isinstance(getattr(self._expect, name), list)
        pairs = _aligned(entries, seen, lambda entry, one: entry.spot is not None and one.at.is_meant(entry.spot))
        if any(one is None or (entry is None and is_whole) for entry, one in pairs):
            lines = [line for entry, one in pairs for line in _line(entry, one)]
            yield self._differs(name, f"{LISTS[name][0]}: not as expected", lines)
        for entry, one in pairs:
            if entry is not None and one is not None:
                for what, unlike in _unlike(entry.fields, one.fields, one.at.shown):
                    yield Difference(path=entry.path, what=what, lines=unlike)

    def _fields(
        self, name: str, expected: Mapping[str, Json], is_so: Mapping[str, Json], *more: str
    ) -> Iterator[Difference]:
        for what, lines in _unlike(expected, is_so, ": ".join((name, *more))):
            yield self._differs(name, what, lines, *more)


_PLACES = {"stands": "what stands at the end", "in_doubt": "what is in doubt at the end"}


def _aligned(
    entries: Sequence[Entry], seen: Sequence[Seen], fits: Callable[[Entry, Seen], bool]
) -> list[tuple[Entry | None, Seen | None]]:
    """Both lists side by side with as many pairs as there can be (the longest common subsequence)."""
    rows, columns = len(entries), len(seen)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in reversed(range(rows)):
        for column in reversed(range(columns)):
            pair = best[row + 1][column + 1] + 1 if fits(entries[row], seen[column]) else 0
            best[row][column] = max(pair, best[row + 1][column], best[row][column + 1])
    pairs: list[tuple[Entry | None, Seen | None]] = []
    row = column = 0
    while row < rows or column < columns:
        is_pair = row < rows and column < columns and fits(entries[row], seen[column])
        if is_pair and best[row][column] == best[row + 1][column + 1] + 1:
            pairs.append((entries[row], seen[column]))
            row, column = row + 1, column + 1
        elif column >= columns or (row < rows and best[row + 1][column] >= best[row][column + 1]):
            pairs.append((entries[row], None))
            row += 1
        else:
            pairs.append((None, seen[column]))
            column += 1
    return pairs


def _line(entry: Entry | None, one: Seen | None) -> Iterator[str]:
    if one is None and entry is not None:
        yield f"- {entry.written}"
    elif one is not None:
        fields = "" if entry is not None else f"  {shown(one.fields)}"
        yield f"{' ' if entry is not None else '+'} {one.at.shown}{fields}"


def _lines(expected: Sequence[str], is_so: Sequence[str]) -> list[str]:
    both = [f"  {one}" for one in expected if one in is_so]
    return [
        *both,
        *(f"- {one}" for one in expected if one not in is_so),
        *(f"+ {one}" for one in is_so if one not in expected),
    ]


# --- fields ----------------------------------------------------------------------------------------------------------


def _unlike(
    expected: Mapping[str, Json], is_so: Mapping[str, Json], place: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, value in expected.items():
        found = is_so.get(name)
        if not is_like(value, found):
            there = shown(found) if name in is_so else f"there is none; there are {', '.join(is_so) or 'no fields'}"
            yield f"{place}: {name}: not as expected", (f"- {shown(value)}", f"+ {there}")


def is_like(expected: Json, found: Json) -> bool:
    """Whether a value is as expected: of a record the fields that are named, money also as text (12,000 JPY), and of a
    text what it `contains`.
    """
    if isinstance(expected, Mapping):
        if list(expected) == [CONTAINS] and isinstance(found, str):
            return str(expected[CONTAINS]) in found
        return isinstance(found, Mapping) and all(is_like(one, found.get(name)) for name, one in expected.items())
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(expected) == len(found)
            and all(is_like(one, other) for one, other in zip(expected, found, strict=True))
        )
    if isinstance(expected, str) and is_money(found):
        return expected.replace(",", "") == as_text(found).replace(",", "")
    return (type(expected) is type(found) and bool(expected == found)) or _is_number(expected, found)


def _is_number(expected: Json, found: Json) -> bool:
    numbers = (int, float)
    are = all(isinstance(one, numbers) and not isinstance(one, bool) for one in (expected, found))
    return are and bool(expected == found)


def shown(value: Json) -> str:
    """A value on one line."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, Mapping):
        text = "{ " + ", ".join(f"{name}: {shown(one)}" for name, one in value.items()) + " }" if value else ""
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
