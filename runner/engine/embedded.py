"""The embedded engine: an asyncio loop on the log. It answers only who asks for a run to be carried, and when.

A run is *driven* by one worker until it rests (it has ended, or waits for a timer, a person or another run). A resting
run costs no memory: what wakes it is in the database (a due time) or comes as a report (`wake`). Of those that
are queued only the next are in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from runner.clock import Clock
from runner.core import events as e
from runner.engine.alarm import SWEEP, Alarm
from runner.engine.carrier import AFTER_FAULT, Carrier
from runner.engine.driven import OPEN_DESK, Bell, Desk, Outside
from runner.engine.line import Line
from runner.errors import StoreUnwritable
from runner.store.company import LEFT, WORDS, Left
from runner.store.facts import Started, Store

log = logging.getLogger("amends.engine")
GRACE = 5.0
AFTER_DEFECT = 30_000
"""After a defect a run is tried again after AFTER_FAULT, then ever more seldom up to this, in ms."""
LOOKS_AROUND = 20.0
"""Seconds after which an engine looks again for runs that nobody drives, where there are several."""
AFTER_LOOK = 0.1
"""Seconds between two looks at a run that another engine drives."""


class Embedded(Carrier):
    """Drives runs on one store. `workers` bounds how many runs are driven at once, and so the calls in flight."""

    def __init__(
        self, store: Store, outside: Outside, clock: Clock, *, workers: int = 64, desk: Desk = OPEN_DESK
    ) -> None:  # fmt: skip
        super().__init__(store, outside, clock, workers=workers, desk=desk)
        self._driving: dict[str, Bell] = {}
        self._resting: dict[str, list[asyncio.Future[None]]] = {}
        self._background: list[asyncio.Task[None]] = []
        self._line = Line(store, self._driving, self.limits)
        self._ailing: dict[str, int] = {}
        self._left_alone: set[str] = set()
        self._alarm = Alarm(store, clock, self._ring, self._is_busy, self._not_in_line)

    # -- from outside --

    async def start(self) -> None:
        """Takes up what was left open, then drives until `stop`."""
        self._fence = self._store.fence()
        left = (*self._store.unfinished(), *self._store.in_line(begun=True))
        for run in (*left, *self._store.without_witness(self._clock.now() + SWEEP)):
            self.wake(run)
        self._line.read()
        for event in self._store.open_events():
            await self._feed(event_id=event)
        self._background = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        self._background.append(asyncio.create_task(self._alarm.watch()))
        if self._store.is_shared:
            self._background += self._join_others()
            self._background.append(asyncio.create_task(self._look_around()))

    async def stop(self, grace: float | None = None) -> None:
        """No new call; open ones get `grace` seconds (default: GRACE) to answer, then are recorded as unknown."""
        self._is_stopping = True
        self._alarm.stop()
        if self._driving:
            resting = [asyncio.create_task(self.rest(run)) for run in self._driving]
            _, late = await asyncio.wait(resting, timeout=GRACE if grace is None else grace)
            for waiter in late:
                waiter.cancel()
        for worker in self._background:
            worker.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._leases.leave()

    # -- the other engines --

    def _inherit(self, left: Left) -> None:
        super()._inherit(left)
        self._alarm.set(self._clock.now())

    def _heed(self, fence: int, what: str) -> None:
        super()._heed(fence, what)
        if what == LEFT:
            self._take_up_left()
        elif what not in WORDS and fence in (0, self._fence) and not self._is_stopping:
            self.wake(what)

    def _take_up_left(self) -> None:
        """What nobody drives, and what was reported unheard."""
        if self._is_stopping:
            return
        for run in self._store.unfinished(paused=False):
            self.wake(run)
        self._line.read()

    async def _look_around(self) -> None:
        """What others have said may be lost on the way, so it is looked for as well."""
        while not self._is_stopping:
            await asyncio.sleep(LOOKS_AROUND)
            self._hear(0, LEFT)

    def _set_alarm(self, wake_at: int | None) -> None:
        self._alarm.set(wake_at)

    def wake(self, run: str) -> None:
        """Something was reported about this run: decide again."""
        if run in self._driving:
            self._driving[run].set()
        else:
            self._line.put(run)

    def begin(self, started: Started, event: e.RunStarted) -> None:
        """A run that was just started here: it has its turn among those of its flow."""
        if started.end is None or started.run in self._driving:  # the line may have read it out of the store before
            self.wake(started.run)
        elif self._line.put_new(started.run, event.flow):
            self._remember(started, event)

    def is_at_work(self, run: str) -> bool:
        """Whether somebody drives the run, or will as soon as there is a place."""
        return run in self._driving or run in self._line

    def is_put_off(self, run: str) -> bool:
        return run in self._left_alone and run not in self._ailing

    async def rest(self, run: str) -> None:
        """Returns when nobody drives the run and nothing is queued for it."""
        while self.is_at_work(run) or self._line.is_behind(run):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._resting.setdefault(run, []).append(waiter)
            await waiter
        while self._store.is_shared and not self._is_stopping:
            with contextlib.suppress(StoreUnwritable):
                if self._may_drive(run):
                    return
            await asyncio.sleep(AFTER_LOOK)

    # -- workers --

    async def _work(self) -> None:
        while not self._is_stopping:
            run = await self._line.take()
            self._driving[run] = Bell()
            try:
                await self.carry(run, self._driving[run])
                self._ailing.pop(run, None)
            except asyncio.CancelledError:
                raise
            except StoreUnwritable as refused:
                self.limits.leave(run)
                log.error("run %s cannot be driven on just now: %s", run, refused)
                if not self._is_stopping:
                    self._leave_alone(run, AFTER_FAULT)
            except Exception:
                self.limits.leave(run)
                self._ailing[run] = self._ailing.get(run, 0) + 1
                seconds = min(AFTER_FAULT * 2 ** min(self._ailing[run] - 1, 10), AFTER_DEFECT / 1000)
                log.exception("run %s cannot be driven on; it is tried again in %g s", run, seconds)
                self._leave_alone(run, seconds)
            finally:
                self._release(run)

    def _leave_alone(self, run: str, seconds: float) -> None:
        """A run that could not be driven is tried again then, or when something is reported; not whenever it is due."""
        self._left_alone.add(run)
        asyncio.get_running_loop().call_later(seconds, self._try_again, run)

    def _try_again(self, run: str) -> None:
        self._left_alone.discard(run)
        self.wake(run)

    def _ring(self, run: str) -> None:
        """The run's time has come."""
        if run not in self._left_alone:
            self.wake(run)

    def _is_busy(self, run: str) -> bool:
        return self.is_at_work(run) or run in self._left_alone

    def _release(self, run: str) -> None:
        woken = self._driving.pop(run)
        self._line.look()
        if woken.is_set() and not self._is_stopping:
            self.wake(run)
            return
        self._touched.discard(run)
        for waiter in self._resting.pop(run, []):
            if not waiter.done():
                waiter.set_result(None)

    def _not_in_line(self) -> list[str]:
        """Runs that are said to wait for a place, and stand in no line; none of those that are being decided.

        Queued ones have their turn again.
        """
        self._line.read()
        waiting = [run for run in self._store.in_line(begun=True) if self.limits.waits_for(run) is None]
        return [run for run in waiting if not self.is_at_work(run)]
