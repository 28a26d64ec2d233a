"""Whoever follows a run: told of each turn until it rests, whichever engine drives it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from runner.clock import Clock
from runner.core import events as e
from runner.core.state import State
from runner.engine.carrier import Carrier
from runner.engine.handover import Tell
from runner.store.facts import PLACE, RunView
from runner.store.sql import SqlStore

AGAIN = 0.5
"""Seconds after which a run is looked at again that other engines may go on with, or this one after a pause."""


class Following:
    """Those who follow runs of one engine."""

    def __init__(self, store: SqlStore, engine: Carrier, clock: Clock) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._turns: dict[str, list[Callable[[], None]]] = {}

    def observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        """A turn of a run is committed."""
        for tell in self._turns.get(run, []):
            tell()

    async def follow(self, run: str, on_turn: Callable[[], None], patience: int) -> RunView:
        """Until it ends, waits for a person or another run, or for a timer further than `patience` ms."""
        turned = asyncio.Event()

        def tell() -> None:
            turned.set()
            on_turn()

        listeners = self._turns.setdefault(run, [])
        listeners.append(tell)
        try:
            while True:
                turned.clear()
                await self._engine.rest(run)
                view = self._store.run(run)
                if not self._goes_on_soon(view, patience):
                    return view
                looks_again = self._store.is_shared or self._engine.is_put_off(run)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN if looks_again else None):
                        await turned.wait()
        finally:
            listeners.remove(tell)
            if not listeners:
                del self._turns[run]

    def _goes_on_soon(self, view: RunView, patience: int) -> bool:
        if view.ended_at is not None or view.status in ("needs_person", "paused"):
            return False
        if view.waiting_for.startswith(PLACE) or self._engine.is_put_off(view.run):
            return True
        return view.wake_at is not None and view.wake_at - self._clock.now() <= patience

    async def follow_for(self, run: str, patience: int, tell: Tell) -> RunView:
        """For another process, which is told of each turn."""
        changed = asyncio.Event()
        following = asyncio.create_task(self.follow(run, changed.set, patience))
        try:
            while not following.done():
                waiting = asyncio.create_task(changed.wait())
                try:
                    await asyncio.wait({waiting, following}, return_when=asyncio.FIRST_COMPLETED)
                finally:  # also where who asked has gone meanwhile
                    waiting.cancel()
                changed.clear()
                await tell({"turn": {}})
            return following.result()
        finally:
            following.cancel()
