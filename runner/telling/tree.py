"""The lines of a timeline as a tree: lists, their items and called flows hold the lines of what happened in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from runner.core.paths import is_in
from runner.telling.words import Sign


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of a timeline. Times are ms since the epoch; `step` is a path, empty for the run as a whole.

    `name` is what the step is called where it stands (`charge`, or an item's name), `place` the same from outside
    (`invoices › INV-7 › charge`). `until` is when a timer fires that is running, `then` what follows; `seq` is the last
    log entry the line tells of, `branch` the name of the step's branch in a parallel, `details` what stands below it.
    `number` is the line's own for good, `within` that of the line it stands under (0: none), `depth` how deep.
    """

    at: int
    sign: Sign
    step: str
    text: str
    name: str = ""
    place: str = ""
    seq: int = 0
    branch: str = ""
    until: int | None = None
    then: Literal["", "goes on", "is tried again", "is looked up", "is late", "is a no without an answer"] = ""
    details: tuple[str, ...] = ()
    is_passing: bool = False
    """It has just happened, and what follows from it will be told on the same line."""
    is_asking: bool = False
    """A call that has no answer yet."""
    is_list: bool = False
    """It says how far a list is, and changes with every item."""
    is_quiet: bool = False
    """It tells of an item of a long list that needs nobody: not while looking on; made good, not on a page either."""
    number: int = 0
    within: int = 0
    depth: int = 0


class Tree:
    """The lines there are; a scope's head is the line that the lines of its steps stand under."""

    def __init__(self) -> None:
        self._lines: dict[int, Line] = {}
        self._inside: dict[int, list[int]] = {}
        self._heads: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._added = 0

    def __getitem__(self, number: int) -> Line:
        return self._lines[number]

    def head(self, scope: str) -> int | None:
        """The number of the line that a scope's lines stand under."""
        return self._heads.get(scope)

    def add(self, line: Line) -> int:
        """One more line, under the nearest head around its step; its number."""
        self._added += 1
        within = self.around(line.step)
        self._lines[self._added] = replace(line, number=self._added, within=within)
        self._inside.setdefault(within, []).append(self._added)
        self._last[line.step] = self._added
        return self._added

    def around(self, step: str) -> int:
        """The number of the head that a line about this step stands under."""
        while step:
            step = step.rpartition("/")[0]
            if step in self._heads:
                return self._heads[step]
        return 0

    def begin(self, line: Line) -> int:
        """The same for the head of the scope that stands at its step."""
        number = self._heads[line.step] = self.add(line)
        return number

    def leave(self, scope: str) -> None:
        """What is told of the scope, and of all inside, from here on stands under lines of its own."""
        self._heads = {path: number for path, number in self._heads.items() if path != scope and not is_in(path, scope)}

    def change(self, number: int, **changes: Any) -> None:
        """A line says more, or something else."""
        self._lines[number] = replace(self._lines[number], **changes)

    def last(self, step: str) -> int | None:
        """The number of the step's last line."""
        found = self._last.get(step)
        return found if found in self._lines else None

    def drop(self, scope: str) -> None:
        """Takes away what is told of a scope."""
        number = self._heads.get(scope)
        if number is None:
            return
        self._inside[self._lines[number].within].remove(number)
        for each in self._under(number):
            self._inside.pop(each, None)
            if self._last.get(step := self._lines.pop(each).step) == each:
                del self._last[step]
        self.leave(scope)

    def _under(self, number: int) -> list[int]:
        return [number, *(other for each in self._inside.get(number, ()) for other in self._under(each))]

    def told(
        self, asking: Iterable[Line] = (), quiet: Collection[int] = (), good: Collection[int] = ()
    ) -> tuple[Line, ...]:
        """All lines, each under the one it stands within, in the order in which they happened; what has no answer yet
        comes last. Under heads that are `quiet` all lines are, under those that are `good` what was made good.
        """
        lines = dict(self._lines)
        inside = {number: list(below) for number, below in self._inside.items()}
        for number, line in enumerate(asking, self._added + 1):
            lines[number] = replace(line, number=number)
            inside.setdefault(line.within, []).append(number)

        def below(number: int, depth: int, is_quiet: bool, is_good: bool) -> Iterator[Line]:
            for each in sorted(inside.get(number, ()), key=lambda one: (lines[one].is_asking, lines[one].at)):
                hushed = is_quiet or each in quiet
                yield replace(lines[each], depth=depth, is_quiet=hushed or (is_good and lines[each].sign == "good"))
                yield from below(each, depth + 1, hushed, is_good or each in good)

        return tuple(below(0, 0, False, False))
