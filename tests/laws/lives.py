"""Paths as the laws read them: an item that was resumed lives anew, and what it does then stands at other paths.

The second life of `rows/2` is `rows/1000002`, so that no law takes what the item did at first for what it does now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from runner.core import events as e

LIFE = 1_000_000
E = TypeVar("E", bound=e.Event)


class Lives:
    """Which life every item is in, fact after fact."""

    def __init__(self) -> None:
        self._lives: dict[str, int] = {}

    def read(self, event: e.Event) -> e.Event:
        """The fact at its place in this life."""
        if isinstance(event, e.ScopeStarted) and event.kind == "item":
            head, _, number = event.step.rpartition("/")
            item = f"{self.path(head)}/{number}"
            self._lives[item] = self._lives.get(item, -1) + 1
        event = _at(event, self.path(event.step))
        if isinstance(event, e.ForwardClosed):
            return replace(event, failed_step=self.path(event.failed_step))
        return event

    def path(self, path: str) -> str:
        """The path in the life that its items are in now."""
        parts: list[str] = []
        for part in path.split("/"):
            life = self._lives.get("/".join((*parts, part)), 0)
            parts.append(str(int(part) + life * LIFE) if life else part)
        return "/".join(parts)


def _at(event: E, path: str) -> E:
    return event if event.step == path else replace(event, step=path)


def told_apart(events: Sequence[e.Event]) -> tuple[e.Event, ...]:
    """The log with every life's facts at their own paths."""
    lives = Lives()
    return tuple(lives.read(event) for event in events)


def as_written(path: str) -> str:
    """The path as the log has it."""
    return "/".join(str(int(part) % LIFE) if part.isdigit() else part for part in path.split("/"))


# --- what a path says ----------------------------------------------------------------------------------------------


def is_inside(path: str, scope: str) -> bool:
    """Whether it stands in a scope, however deep; everything stands in the run."""
    return not scope or path.startswith(f"{scope}/")


def heads(path: str) -> Iterator[str]:
    """Every path that this one begins with, itself left out, the longest last."""
    parts = path.split("/")
    for length in range(1, len(parts)):
        yield "/".join(parts[:length])


def items_around(path: str) -> list[str]:
    """The items that a path stands in, the outermost first."""
    return [head for head in heads(path) if head.rpartition("/")[2].isdigit()]


def calls_around(path: str) -> list[str]:
    """The steps around a path that call a flow, the outermost first."""
    parts = path.split("/")
    found = []
    for place, head in enumerate(heads(path), 1):
        is_item = parts[place - 1].isdigit()
        if not is_item and not parts[place].isdigit():
            found.append(head)
    return found
