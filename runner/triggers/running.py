"""The triggers that wait by themselves, opened together while the project is served."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from runner.triggers.event import Events
from runner.triggers.mailbox import Mailboxes
from runner.triggers.parts import Parts
from runner.triggers.poll import Polls
from runner.triggers.schedule import Schedules

ROOMS = (Events, Schedules, Mailboxes, Polls)


@contextlib.asynccontextmanager
async def running(parts: Parts) -> AsyncIterator[None]:
    """Everything that starts runs by itself, as long as it is held."""
    async with contextlib.AsyncExitStack() as opened:
        for room in ROOMS:
            await opened.enter_async_context(room(parts).running())
        yield
