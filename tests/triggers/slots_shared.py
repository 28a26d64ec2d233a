"""An engine among others that deals with slots when it is told to: `python -m tests.triggers.slots_shared FOLDER MOMENT`.

It says `ready`; then each line is `{"moment", "everybody", "point", "nth"}`. With `everybody` it does not ask whose duty
it is, says `due` when its first slot is, and goes on at the next line; at the `nth` slot it kills itself around (`point`)
the commit. It answers with `{"duty", "slots"}`: whether the schedules are its own, and how many slots it has dealt with.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.app import OwnDriver
from runner.language.project import Project
from runner.store import shared
from runner.store.lock import EngineLock
from runner.triggers.intake import Intake
from runner.triggers.schedule import Schedules
from tests.bench._ground import kinds
from tests.triggers.clock import PutOnClock
from tests.triggers.slots_killed import Dying


class Watched(Dying):
    """Counts the slots, and asks whose duty they are only where it is told to."""

    def __init__(self, store: Any, said: dict[str, Any]) -> None:
        super().__init__(store, said.get("point", ""), said.get("nth", 0))
        self._everybody = said.get("everybody", False)
        self.slots = 0

    async def take_on(self, duty: str) -> bool:
        return bool(self._everybody or await self._store.take_on(duty))

    async def arrive(self, several: Any, cursor: Any = None) -> Any:
        if several and self._everybody and not self.slots:
            tell("due")
            await heard()
        self.slots += bool(several)
        return await super().arrive(several, cursor)


def tell(what: str) -> None:
    print(what, flush=True)


async def heard() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


async def serve(folder: Path, moment: str) -> None:
    shared.BEAT = 100
    clock = PutOnClock(moment)
    driver = OwnDriver(Project.open(folder, kinds=kinds()), clock, EngineLock(folder))
    async with driver.running(settles=False):
        parts = driver.triggers
        await parts.active.look()
        await Schedules(parts).take()
        tell("ready")
        while line := await heard():
            said = json.loads(line)
            clock.put(said["moment"])
            store: Any = Watched(driver.store, said)
            intake = Intake(store, clock, driver.engine.begin, lambda: "")
            await Schedules(replace(parts, intake=intake, store=store)).take()
            tell(json.dumps({"duty": await driver.store.take_on("schedules"), "slots": store.slots}))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
