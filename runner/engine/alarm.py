"""The engine's alarm clock: wakes the runs whose time has come, and looks for runs that nothing would wake."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from runner.clock import MINUTE, Clock
from runner.store.facts import Store

log = logging.getLogger("amends.engine")
SHORTEST_SLEEP = 0.02
BUSY_SLEEP = 0.25
"""Seconds until the timers are looked at again when all that is due is being driven already."""
LONGEST_SLEEP = 30.0
AFTER_FAULT = 1.0
"""Seconds before the timers are read again, where they could not be."""
SWEEP = MINUTE
MANY = 1_000
"""Runs that are woken at a time: those that are due after them are looked for when these have had their turn."""


class Alarm:
    """`wake` is told of each run; `is_at_work` says whether somebody drives it already, or will soon; `forgotten` names
    further runs that nothing would wake.
    """

    def __init__(
        self, store: Store, clock: Clock, wake: Callable[[str], None], is_at_work: Callable[[str], bool],
        forgotten: Callable[[], list[str]],
    ) -> None:  # fmt: skip
        self._store = store
        self._clock = clock
        self._wake = wake
        self._is_at_work = is_at_work
        self._forgotten = forgotten
        self._rings = asyncio.Event()
        self._next_due: int | None = None
        self._swept_at = clock.now()
        self._is_stopped = False

    def set(self, wake_at: int | None) -> None:
        """A run waits until then."""
        if wake_at is None:
            return
        if self._next_due is None or wake_at < self._next_due or self._next_due <= self._clock.now():
            self._next_due = wake_at
            self._rings.set()

    def stop(self) -> None:
        """Nobody is woken any more."""
        self._is_stopped = True

    async def watch(self) -> None:
        """Returns after `stop`; a cancellation can be lost in the moment that a time comes."""
        while not self._is_stopped:
            self._rings.clear()
            pause = self._wake_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._rings.wait()

    def _wake_due(self) -> float:
        """Wakes the runs whose time has come; answers the seconds until it is worth looking again."""
        try:
            now = self._clock.now()
            due = self._store.due(now, MANY)
            self._next_due = self._store.next_due()
            if now >= self._swept_at + SWEEP:
                self._swept_at = now
                self._sweep(now)
        except Exception:
            log.exception("the timers cannot be read; it is tried again in %g s", AFTER_FAULT)
            return AFTER_FAULT
        is_busy = bool(due) and (len(due) == MANY or all(self._is_at_work(run) for run in due))
        for run in due:
            self._wake(run)
        shortest = BUSY_SLEEP if is_busy else SHORTEST_SLEEP
        pause = LONGEST_SLEEP if self._next_due is None else (self._next_due - now) / 1000
        return min(max(pause, shortest), LONGEST_SLEEP)

    def _sweep(self, now: int) -> None:
        """Runs that nothing would ever wake: there must be none, so each is told of and taken up."""
        for run in (*self._store.without_witness(now), *self._forgotten()):
            if self._is_at_work(run):
                continue
            log.error("run %s was waiting for nothing; it is taken up again", run)
            self._wake(run)
