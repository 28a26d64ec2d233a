"""An event loop that is turned by hand: one callback at a time, on a virtual clock."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from math import ceil
from typing import Any

START = 1_788_220_800_000
"""When every seed begins, ms since the epoch."""


class Died(SystemExit):
    """The process is dead: no handler of the engine may catch it."""


class SimLoop(asyncio.BaseEventLoop):
    """The loop of one machine. `now` is the world's clock in ms."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__()
        self._now = now
        self._ready: Any
        self._scheduled: Any
        self.unhandled: list[str] = []

    def time(self) -> float:
        """Seconds since the seed began."""
        return (self._now() - START) / 1000

    def _write_to_self(self) -> None:
        """Nobody sleeps in this loop."""

    def call_exception_handler(self, context: Any) -> None:
        """What nobody handled is a finding; but a process that was killed leaves its tasks as they are."""
        if "was destroyed" not in context["message"] and not isinstance(context.get("exception"), Died):
            self.unhandled.append(f"{context['message']}: {context.get('exception')!r}")

    @property
    def is_ready(self) -> bool:
        """Whether a callback waits for its turn, when the timers that are due are put in line."""
        while self._scheduled and (self._scheduled[0]._cancelled or self._scheduled[0]._when <= self.time() + 1e-9):
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self._ready.append(handle)
        return bool(self._ready)

    @property
    def next_timer(self) -> int | None:
        """When the next timer is due, ms since the epoch."""
        return ceil(self._scheduled[0]._when * 1000 - 1e-6) + START if self._scheduled else None

    def step(self) -> None:
        """One callback. Raises Died."""
        handle = self._ready.popleft()
        if handle._cancelled:
            return
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    def drain(self) -> None:
        """Ends every task, so that none is left behind when the world is thrown away."""
        asyncio._set_running_loop(self)
        try:
            for turn in range(50):
                left = [task for task in asyncio.all_tasks(self) if not task.done()]
                if not left and not self._ready:
                    break
                for task in left if turn else ():
                    task.cancel()
                while self._ready:
                    handle = self._ready.popleft()
                    if not handle._cancelled:
                        handle._run()
        finally:
            asyncio._set_running_loop(None)
            self.close()
