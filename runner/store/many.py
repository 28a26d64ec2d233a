"""Starting many runs in one commit: what stands already is asked for all at once, the rest is simply begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import select

from runner.errors import AmendsError
from runner.store.batch import Batch
from runner.store.facts import Started
from runner.store.tables import receipts, runs
from runner.store.work import StartWork, Work, key_source

SOME = 500
"""Keys that one question carries."""


class ManyWork(Work[Sequence[Started | AmendsError]]):
    """Starts, each for itself: one that is refused takes no other with it."""

    reads_first = True

    def __init__(self, starts: Sequence[StartWork]) -> None:
        self.starts = starts
        self.entries = tuple(entry for start in starts for entry in start.entries)

    def plan(self, batch: Batch) -> list[Started | AmendsError]:
        there = _there(batch, {key for start in self.starts for key in _names(start)})
        return [start.plan(batch, is_fresh=there.isdisjoint(_names(start))) for start in self.starts]


def _names(start: StartWork) -> set[tuple[str, ...]]:
    """Its keys, and under which its run key would be there had its run been removed."""
    new = start.new
    return {*start.keys, ("receipt", key_source(new.flow, new.mode), new.run_key)}


def _there(batch: Batch, wanted: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Which of these keys are in the tables."""
    by_place: dict[tuple[str, ...], list[str]] = {}
    for *place, last in wanted:
        by_place.setdefault(tuple(place), []).append(last)
    found: set[tuple[str, ...]] = set()
    for (kind, *place), names in by_place.items():
        column = runs.c.run_key if kind == "key" else receipts.c.delivery_id
        held = (runs.c.flow, runs.c.mode) if kind == "key" else (receipts.c.source,)
        same = [one == value for one, value in zip(held, place, strict=True)]
        for some in _cut(names):
            rows = batch.connection.execute(select(column).where(*same, column.in_(some))).scalars()
            found.update((kind, *place, name) for name in rows)
    return found


def _cut(names: list[str]) -> Iterable[list[str]]:
    return (names[at : at + SOME] for at in range(0, len(names), SOME))
