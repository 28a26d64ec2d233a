"""The bounds of connections, where several engines keep them together: each has a part, asks for more and gives back.

While it asks it begins no call that needs more than it uses just then, so what it gives back is free. What an engine
had that is gone is free as soon as that is known, and of a rate when its last calls do not count any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from runner.clock import SECOND, Clock
from runner.engine.bounds import Crowd, Part
from runner.engine.limits import Limits
from runner.errors import StoreError
from runner.store.dividing import Grant, Wish
from runner.store.facts import Store

log = logging.getLogger("amends.engine")
GAP = 0.02
"""Seconds between two questions at least: what is given back in between goes in one."""
WATCHES = 0.1
"""Seconds until it is looked again whether there is something that others want."""
ASKS_AGAIN = 1.0
"""Seconds until who waits for others asks again, unheard."""


class Leases:
    """What this engine has of each bound. Tells `limits`, which tell when they need more."""

    def __init__(self, store: Store, limits: Limits, clock: Clock) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._rings = asyncio.Event()
        self._looks_at_all = False
        self._had: set[str] = set()
        self._asks_again_at = 0
        limits.on_uneven = self._rings.set

    def look(self) -> None:
        """Another engine wants some, or has given some back; or something may not have been heard."""
        self._looks_at_all = True
        self._rings.set()

    def forget(self) -> None:
        """Others took this engine for gone: it has nothing any more."""
        for _, part, _ in self._parts():
            part.own = part.spare = part.had = 0
            part.owes = part.has_asked = False
        self.look()

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._rings.wait()
            self._rings.clear()
            try:
                await self._ask(self._wishes())
            except StoreError as error:
                log.warning("what other engines want of a connection cannot be asked: %s", error)
                await asyncio.sleep(ASKS_AGAIN)
                self.look()
            await asyncio.sleep(GAP)

    async def leave(self) -> None:
        """Gives back what it has; calls count for a rate as long as they do."""
        with contextlib.suppress(StoreError):
            gone = {name: self._stop(part, wish) for name, part, wish in self._parts() if part.had}
            await self._ask({name: Wish(whole=0, wants=0, used=wish.used) for name, wish in gone.items()})

    # -- asking --

    def _pause(self) -> float | None:
        parts = [part for _, part, _ in self._parts()]
        if any(part.owes for part in parts):
            return WATCHES
        return ASKS_AGAIN if any(part.has_asked for part in parts) else None

    def _parts(self) -> list[tuple[str, Part, Wish]]:
        now = self._clock.monotonic()
        return [each for crowd in self._limits.lines.values() for each in _parts_of(crowd, now)]

    def _wishes(self) -> dict[str, Wish]:
        """What is to be asked now; nothing is begun meanwhile that needs more than is in use."""
        looks_at_all, self._looks_at_all = self._looks_at_all, False
        now = self._clock.monotonic()
        asks_again = now >= self._asks_again_at
        if asks_again:
            self._asks_again_at = now + int(ASKS_AGAIN * SECOND)
        found: dict[str, Wish] = {}
        for crowd in self._limits.lines.values():
            is_uneven = crowd.is_uneven(now)
            for name, part, wish in _parts_of(crowd, now):
                if (
                    is_uneven
                    or (part.has_asked and asks_again)
                    or (looks_at_all and (part.had or wish.wants or part.has_asked))
                ):
                    found[name] = self._stop(part, wish)
        for name in self._had - {name for name, _, _ in self._parts()}:  # bounded no more
            found[name] = Wish(whole=0, wants=0)
        return found

    def _stop(self, part: Part, wish: Wish) -> Wish:
        part.own, part.spare = min(wish.used, part.has), 0
        return wish

    async def _ask(self, wishes: Mapping[str, Wish]) -> None:
        if not wishes:
            return
        got = await self._store.divide(wishes)
        parts = {name: part for name, part, _ in self._parts()}
        for name, grant in got.items():
            self._had = self._had | {name} if grant.has else self._had - {name}
            if name in parts:
                _keep(parts[name], grant, wishes[name])
        self._limits.serve()


def _parts_of(crowd: Crowd, now: int) -> list[tuple[str, Part, Wish]]:
    """(name of the bound, what this engine has of it, what it wants)."""
    waiting = sum(ticket.wanted for ticket in crowd.tickets.values())
    return [
        (name, part, Wish(whole=whole, wants=min(used + waiting, whole), used=used, spare=part.spare, lasts=lasts))
        for name, part, whole, used, lasts in crowd.parts(now)
    ]


def _keep(part: Part, grant: Grant, wish: Wish) -> None:
    part.own, part.spare, part.had = grant.own, grant.spare, grant.has
    part.owes, part.has_asked = grant.owes, grant.has < wish.wants
