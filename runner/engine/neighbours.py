"""What one run's facts mean for the runs beside it, and what engines that share a database tell each other."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from runner.clock import Clock
from runner.contract import Json
from runner.core import events as e
from runner.core.state import State
from runner.engine.advance import Turn
from runner.engine.leases import Leases
from runner.engine.limits import Limits
from runner.engine.starting import following_id
from runner.errors import StoreError
from runner.store.company import HOLDS, LEFT, PLACES, Left
from runner.store.facts import Store

log = logging.getLogger("amends.engine")

_TELLING = frozenset((e.EventAwaited, e.Emitted, e.RunFinished))

Observer = Callable[[str, Sequence[e.Event], State], None]
"""Told of every turn after its COMMIT: (run, events, state)."""


class Neighbours(ABC):
    """Wakes runs because of other runs, of other engines, and of places that become free."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._fence = store.fence()
        self._touched: set[str] = set()
        self._is_stopping = False
        self.observers: list[Observer] = []
        self.limits = Limits(clock, wake=self._call_up, later=self._serve_later, is_shared=store.is_shared)
        self._leases = Leases(store, self.limits, clock)
        self.limits.keep_up(store.site_holds())

    @abstractmethod
    def wake(self, run: str) -> None:
        """Something was reported about this run: decide again."""

    @abstractmethod
    async def rest(self, run: str) -> None:
        """Returns when nobody drives the run and nothing is queued for it."""

    def _call_up(self, run: str) -> None:
        """A run's turn has come in line; when the engine stops it stays where it is."""
        if not self._is_stopping:
            self.wake(run)

    def _serve_later(self, ms: int) -> None:
        asyncio.get_running_loop().call_later(ms / 1000, self.limits.serve)

    # -- the other engines --

    def _join_others(self) -> list[asyncio.Task[None]]:
        """What goes on where others may write too."""
        if not self._store.is_shared:
            return []
        loop = asyncio.get_running_loop()
        self._store.watch_left(lambda left: loop.call_soon_threadsafe(self._inherit, left))
        return [asyncio.create_task(self._store.listen(self._hear)), asyncio.create_task(self._leases.watch())]

    def _inherit(self, left: Left) -> None:
        """An engine is gone; or others took this one for gone, and what it has driven so far is theirs."""
        if left.fence == self._fence:
            self._fence = self._store.fence()
            self._leases.forget()
        self._leases.look()
        for run in left.runs:
            self.wake(run)

    def _hear(self, fence: int, what: str) -> None:
        """An engine tells something; what is lost so is looked for again."""
        try:
            self._heed(fence, what)
        except StoreError as error:
            log.warning("%s", error)

    def _heed(self, fence: int, what: str) -> None:
        if what in (HOLDS, LEFT):
            self.limits.keep_up(self._store.site_holds())
        if what in (PLACES, LEFT):
            self._leases.look()

    # -- the other runs --

    async def _tell(self, run: str, turn: Turn) -> None:
        for observer in self.observers:
            observer(run, turn.events, turn.after)
        kinds = {type(event) for event in turn.events}
        if not kinds.isdisjoint(_TELLING):
            await self._move_others(run, turn.events)
        if turn.before.held or turn.after.held or turn.after.locks or e.RecordReleased in kinds:
            await self._pass_on(turn)

    async def _move_others(self, run: str, events: Sequence[e.Event]) -> None:
        """Other runs go on by what this one has recorded."""
        for event in events:
            if isinstance(event, e.EventAwaited):
                await self._feed(waiter=run)
            elif isinstance(event, e.Emitted):
                await self._feed(event_id=event.id_in(run))
            elif isinstance(event, e.RunFinished) and event.then:
                self._touch(following_id(run))

    async def send_event(self, event_id: str, event: str, data: Mapping[str, Json], source: str) -> bool:
        """An event from outside: kept, and fed to whoever waits for it. False where it had come before."""
        is_new = await self._store.keep_event(event_id, event, data, source)
        await self._feed(event_id=event_id)
        return is_new

    async def _feed(self, *, event_id: str = "", waiter: str = "") -> None:
        for fed in await self._store.feed(event_id=event_id, waiter=waiter):
            self._touch(fed)

    def _touch(self, run: str) -> None:
        """A run that goes on because of another one."""
        self._touched.add(run)
        self.wake(run)

    async def rest_touched(self) -> None:
        """Returns when the runs that went on because of others rest too."""
        for run in [*self._touched]:
            await self.rest(run)

    async def _pass_on(self, turn: Turn) -> None:
        """Wakes whoever is next in line for the records that this run has let go of, or has stood in line for."""
        let_go = {event.record for event in turn.events if isinstance(event, e.RecordReleased)}
        let_go.update(held.name for state in (turn.before, turn.after) for held in state.held.values())
        if turn.after.has_ended:
            let_go |= turn.after.locks
        for record in sorted(let_go):
            await self.wake_next(record)

    async def wake_next(self, record: str) -> None:
        """A record may be free: the first in line for it is woken, wherever it is driven."""
        if run := self._store.next_in_line(record):
            self.wake(run)
            await self._store.tell(run)
