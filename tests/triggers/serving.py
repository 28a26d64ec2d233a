"""A project being served in a process of its own, until it is killed: `python -m tests.triggers.serving FOLDER`; with
`now` its polls are due at once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.language.project import Project
from runner.store.lock import EngineLock
from runner.triggers import poll
from runner.triggers.running import running
from tests.flows.stage import kinds


async def serve(folder: Path, *, now: bool) -> None:
    if now:
        poll.EVERY, poll.SPREAD = "1 ms", 1
    lock = EngineLock(folder)
    while not lock.acquire():  # noqa: ASYNC110 - whoever was killed before is on its way out
        await asyncio.sleep(0.01)
    own = OwnDriver(Project.open(folder, kinds=kinds()), MachineClock(), lock)
    async with own.running(), own.triggers.active.watching(), running(own.triggers):
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), now="now" in sys.argv))
