"""Events that start flows: those that other flows emit, and those that are sent from outside.

Every event is kept, for a day, before anybody acts on it, so a shorter stop loses none. A look goes back a
little: events that were committed at nearly the same time may become visible in another order. Coming twice starts
nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence

from runner.clock import MINUTE
from runner.contract import digest
from runner.core import events as e
from runner.core.state import State
from runner.store.arrivals import cursor
from runner.store.events import KeptEvent, kept_after
from runner.triggers.active import Armed
from runner.triggers.intake import Coming
from runner.triggers.parts import STANDS_BY, Parts

log = logging.getLogger("amends.triggers")
BACK = MINUTE
CURSOR = "event"


class Events:
    """Starts what waits for an event by its name."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rings = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Takes events as long as it is held; those that came while nothing ran come first."""
        engine = self._parts.engine
        engine.observers.append(self._observe)
        self._parts.on_event.append(self._rings.set)
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            engine.observers.remove(self._observe)
            self._parts.on_event.remove(self._rings.set)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        if any(isinstance(event, e.Emitted) for event in events):
            self._rings.set()

    async def _watch(self) -> None:
        self._rings.set()
        is_shared = self._parts.store.is_shared  # then what an engine that is gone has emitted is looked for
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STANDS_BY if is_shared else None):
                    await self._rings.wait()
            self._rings.clear()
            try:
                await self.take()
            except Exception:
                log.exception("events cannot be taken; it is tried again in %d s", MINUTE // 1000)
                asyncio.get_running_loop().call_later(MINUTE / 1000, self._rings.set)

    async def take(self) -> None:
        """Takes every event since the last one that was taken."""
        parts = self._parts
        said = parts.store.ask(cursor(CURSOR))
        since = json.loads(said) if said else parts.clock.now()
        if not said:
            await parts.intake.take_all([], cursor=(CURSOR, json.dumps(since)))
        place, names = (since - BACK, ""), sorted({armed.name for armed in parts.active.all("event")})
        while names and (kept := parts.store.ask(kept_after(*place, names))):
            several = [pair for event in kept for pair in self._comings(event)]
            since = max(since, kept[-1].at)
            await parts.intake.take_all(several, cursor=(CURSOR, json.dumps(since)))
            place = (kept[-1].at, kept[-1].id)

    def _comings(self, event: KeptEvent) -> Iterator[tuple[Armed, Coming]]:
        """An event for each flow that was there when it came."""
        coming = Coming(id=event.id, digest=digest(dict(event.data)), names={"event": event.data})
        for armed in self._parts.active.on("event", event.name):
            if event.at >= self._parts.active.since(armed):
                yield armed, coming
