"""Whoever waits for the writer: what they put, gathered while a turn of their loop lasts, and their answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.errors import StoreUnwritable
from runner.store.work import T, Work

log = logging.getLogger("amends.store")


@dataclass(eq=False, kw_only=True, slots=True)
class Waiting:
    """A work that was put, and its caller. `answer` is what it gives, or what is raised."""

    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: object = None


class Callers:
    """`take` is given what one turn of a loop has put, in order; False where nothing is taken any more.

    At once, because waking the writer's thread costs more than a small write.
    """

    def __init__(self, take: Callable[[list[Waiting]], bool]) -> None:
        self._take = take
        self._gathered: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}

    async def put(self, work: Work[T]) -> T:
        """Its answer, once it is written. Raises what the writer answers, StoreUnwritable where it takes nothing."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(work=work, loop=loop, future=loop.create_future())
        gathered = self._gathered.get(loop)
        if gathered is None:
            self._gathered[loop] = [waiting]
            loop.call_soon(self._hand_over, loop)
        else:
            gathered.append(waiting)
        answer: T = await waiting.future
        return answer

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        gathered = self._gathered.pop(loop)
        if not self._take(gathered):
            for waiting in gathered:
                waiting.answer = StoreUnwritable("the database is being closed; start the engine again to write")
            settle(gathered)


def answer(group: list[Waiting]) -> None:
    """Gives each caller its answer, from another thread."""
    for loop in {waiting.loop for waiting in group}:
        try:
            loop.call_soon_threadsafe(settle, [waiting for waiting in group if waiting.loop is loop])
        except RuntimeError:
            log.debug("a caller's loop ended before its writes were answered")


def settle(group: list[Waiting]) -> None:
    """Gives them their answers, in the turn of their loop."""
    for waiting in group:
        if waiting.future.done():
            continue
        if isinstance(waiting.answer, BaseException):
            waiting.future.set_exception(waiting.answer)
        else:
            waiting.future.set_result(waiting.answer)
