"""Engines in processes of their own: `amends serve`, and one that dies at a named point."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from runner import app
from runner.clock import MachineClock
from runner.engine.starting import Wish
from runner.language.project import Project
from runner.store.lock import EngineLock
from tests.crash.killer import Killer
from tests.crash.zygote import install
from tests.support.processes import ROOT

COMMAND = "from runner.cli import main; main()"
LIMIT = 20


def environment(**more: str) -> Mapping[str, str]:
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, **more}


async def amends(folder: Path, *words: str, **more: str) -> tuple[int, str, str]:
    """One command of the command line: its exit code, what it said, what it complained about."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COMMAND, "--project", str(folder), *words, env=environment(**more),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT):
            out, err = await process.communicate()
    finally:
        await put_away(process)
    return process.returncode or 0, out.decode(), err.decode()


@asynccontextmanager
async def serving(folder: Path, **more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`amends serve`, ready; nothing is left of it afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COMMAND, "--project", str(folder), "serve", "--port", "0", env=environment(**more),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT):
            said = await process.stdout.readline()
        assert b"Amends drives" in said, said
        yield process
    finally:
        await put_away(process)


async def put_away(process: asyncio.subprocess.Process) -> None:
    """Ends a process that still runs, and reads what it left."""
    if process.returncode is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined]


async def dying(folder: Path, flow: str, key: str, point: str = "", nth: int = 1) -> int:
    """Runs a flow until it rests, in a process that kills itself at a point; its exit code (-9: killed)."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.cases.processes", str(folder), flow, key, point, str(nth),
        env=environment(), cwd=ROOT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT):
            return await process.wait()
    finally:
        await put_away(process)


async def _run(folder: Path, flow: str, key: str) -> None:
    driver = app.OwnDriver(Project.open(folder), MachineClock(), EngineLock(folder))
    async with driver.running():
        started = await driver.start(flow, Wish(given={"name": "Aya"}, key=key, starter="person:me"))
        await driver.follow(started.run, lambda: None, 3_000)


def main() -> None:
    """The process that may die."""
    folder, flow, key, point, nth = sys.argv[1:]
    install(Killer(target=point, nth=int(nth), trace=Path(folder, "trace")))
    asyncio.run(_run(Path(folder), flow, key))


if __name__ == "__main__":
    main()
