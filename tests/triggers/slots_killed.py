"""A process that deals with the slots that are due at a moment, and kills itself around a commit: before or after."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.app import OwnDriver
from runner.language.project import Project
from runner.store.lock import EngineLock
from runner.triggers.intake import Intake
from runner.triggers.schedule import Schedules
from tests.support.processes import ROOT
from tests.triggers.clock import PutOnClock


class Dying:
    """A store that kills its process around the commit of the `nth` slot."""

    def __init__(self, store: Any, point: str, nth: int) -> None:
        self._store = store
        self._point = point
        self._left = nth

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def arrive(self, several: Any, cursor: Any = None) -> Any:
        self._left -= bool(several)
        if self._left == 0 and self._point == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        took = await self._store.arrive(several, cursor)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return took


async def killed(folder: Path, moment: str, point: str, nth: int) -> int:
    """Starts it; its exit code (-9: killed)."""
    words = (str(folder), moment, point, str(nth))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.triggers.slots_killed", *words, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        return await asyncio.wait_for(process.wait(), 30)
    finally:
        if process.returncode is None:
            process.kill()


async def _look(folder: Path, moment: str, point: str, nth: int) -> None:
    clock = PutOnClock(moment)
    driver = OwnDriver(Project.open(folder), clock, EngineLock(folder))
    async with driver.running():
        parts = driver.triggers
        intake = Intake(Dying(driver.store, point, nth), clock, driver.engine.begin, lambda: "")  # type: ignore[arg-type]
        await parts.active.look()
        await Schedules(replace(parts, intake=intake)).take()


if __name__ == "__main__":
    where, when, around, number = sys.argv[1:]
    asyncio.run(_look(Path(where), when, around, int(number)))
