"""The runs of the rows: never more than so many in motion, each followed until it rests, all of them counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from runner.backfill.items import Item, Items, Standing
from runner.driver import Driver
from runner.errors import RunKeyConflict

SOON = 60_000
"""ms that a run may have to wait for a timer and still count as in motion; one that waits longer is left to rest."""

Kind = Literal["succeeded", "compensated", "failed", "ended", "needs_person", "waits", "refused"]
KINDS: dict[str, Kind] = {
    "succeeded": "succeeded", "drafted": "succeeded", "compensated": "compensated", "failed": "failed",
    "stopped": "ended", "closed": "ended", "needs_person": "needs_person",
}  # fmt: skip
"""What a status counts as: `ended` was ended by a person, and every other status waits."""

NOT_BEGUN, STARTED, JOINED = 0, 1, 2


def kind_of(status: str) -> Kind:
    """What a run with this status counts as."""
    return KINDS.get(status, "waits")


class Tally:
    """How far the rows are. `done` have been taken up and rest; `begun` has NOT_BEGUN, STARTED or JOINED by place."""

    def __init__(self, total: int) -> None:
        self.begun = bytearray(total)
        self.done = 0
        self.kinds: Counter[Kind] = Counter()

    @property
    def started(self) -> int:
        """How many runs were started."""
        return self.begun.count(STARTED)

    @property
    def joined(self) -> int:
        """How many rows had a run already."""
        return self.begun.count(JOINED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Going:
    """Starts or joins the run of each row and follows it until it rests; at most `at_once` are in motion together.

    Runs that rest for a person or a long time do not count.
    """

    items: Items
    tally: Tally
    standing: Standing
    starter: str
    mode: str
    at_once: int

    async def go(self, driver: Driver, pinned: str) -> None:
        """All rows. Raises what the driver raises; rows that were begun keep their runs."""
        rows = enumerate(self.items)
        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(self.at_once):
                    lanes.create_task(self._lane(rows, driver, pinned))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _lane(self, rows: Iterator[tuple[int, Item]], driver: Driver, pinned: str) -> None:
        for place, item in rows:
            kind = "refused" if item.wrong else await self._run(place, item, driver, pinned)
            self.tally.kinds[kind] += 1
            self.tally.done += 1
            await asyncio.sleep(0)  # many rows in a row may have ended before: others get their turn

    async def _run(self, place: int, item: Item, driver: Driver, pinned: str) -> Kind:
        found = self.standing(item.run_key)
        if found is not None and found[0].ended_at is not None and item.is_of(found):
            self.tally.begun[place] = JOINED
            return kind_of(found[0].status)
        try:
            started = await driver.start_pinned(pinned, item.wish(self.starter, self.mode))
        except RunKeyConflict:
            return "refused"
        self.tally.begun[place] = JOINED if started.joined else STARTED
        view = await driver.follow(started.run, _nothing, SOON)
        return kind_of(view.status)


def _nothing() -> None:
    """Nobody watches these runs line by line."""
