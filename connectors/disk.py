"""What the kinds that change files of this machine have alike: how a call runs, and what can become of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from runner.clock import DAY
from runner.contract import Outcome, Reason

FOREVER = 36_500 * DAY
"""Life of a key, ms, where what was done is itself the proof that it was."""


class Refused(Exception):
    """Nothing was changed. `str(error)` says why."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class Doubtful(Exception):
    """It was done, and the disk did not say that it will stay."""


def settle(folder: int) -> None:
    """The names of an open folder are on the disk. Raises Doubtful."""
    try:
        os.fsync(folder)
    except OSError:
        raise Doubtful from None


async def in_time(work: Callable[[], Outcome], seconds: float, late: str) -> Outcome:
    """What work on a thread came to; unknown, with the sentence `late`, where it takes longer."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.wait_for(asyncio.shield(running), seconds)
    except TimeoutError:
        return Outcome(result="unknown", reason="timeout", summary=late)
