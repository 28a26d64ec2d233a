"""DBOS on SQLite in WAL: `python dbos_app.py WORK SIZE ORIGIN FOLDER -`; its last line is what was measured."""

# mypy: ignore-errors
from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import sqlite3
import sys
import time

from dbos import DBOS, SetWorkflowID
from poster import BACK, FORWARD, Poster, Rejected, cpu, disk, floor, memory, together

WORK, SIZE, ORIGIN, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
with sqlite3.connect(f"{FOLDER}/dbos.db") as made:
    made.execute("PRAGMA journal_mode=wal")
    made.execute("CREATE TABLE made (it)")
DBOS(
    config={
        "name": "bench", "system_database_url": f"sqlite:///{FOLDER}/dbos.db", "log_level": "ERROR",
        "application_version": "v1", "executor_id": "local",
    }
)  # fmt: skip
POSTER: list[Poster] = []


@DBOS.step(
    retries_allowed=True,
    interval_seconds=0.2,
    max_attempts=5,
    should_retry=lambda error: not isinstance(error, Rejected),
)
async def post(path: str, key: str, step: int) -> dict[str, object]:
    if not POSTER:
        POSTER.append(Poster(ORIGIN))
    return await POSTER[0].post(path, key, step)


@DBOS.step()
async def nothing(step: int) -> int:
    return step


@DBOS.workflow()
async def saga(is_refused: bool) -> str:
    run, done = DBOS.workflow_id, []
    try:
        for step in range(5):
            await post("refused" if is_refused and step == 4 else "effects", f"{run}-{step}", step)
            done.append(step)
    except Rejected:
        for step in reversed(done):
            await post("undone", f"{run}-undo-{step}", step)
        return "compensated"
    return "done"


@DBOS.workflow()
async def noop() -> str:
    for step in range(5):
        await nothing(step)
    return "done"


@DBOS.workflow()
async def wait() -> object:
    return await DBOS.recv_async("approval", timeout_seconds=86_400)


async def start(what: object, given: tuple[object, ...], name: str) -> object:
    with SetWorkflowID(name):
        return await DBOS.start_workflow_async(what, *given)


async def driven() -> dict[str, object]:
    what, given = {"saga": (saga, (False,)), "rollback": (saga, (True,)), "noop": (noop, ())}.get(WORK, (wait, ()))
    handles: list[object] = []

    async def begin(at: int) -> None:
        handles.append(await start(what, given, f"dbos-{WORK}-{at}"))

    me, began = os.getpid(), time.perf_counter()
    used, held, kept = cpu(me), memory(me), disk(FOLDER)
    starts = await together(begin, SIZE)
    if WORK == "start":
        return {"starts/s": SIZE / starts}
    if WORK == "wait":
        await asyncio.sleep(3)
        each = (memory(me) - held) / SIZE
        stored = (disk(FOLDER) - kept) / SIZE / 1024
        began = time.perf_counter()
        await together(lambda at: DBOS.send_async(f"dbos-wait-{at}", "yes", "approval"), SIZE)
        await asyncio.gather(*(handle.get_result() for handle in handles))
        rate = SIZE / (time.perf_counter() - began)
        return {"starts/s": SIZE / starts, "KB of memory each": each, "KB of disk each": stored, "approvals/s": rate}
    await asyncio.gather(*(handle.get_result() for handle in handles))
    took, ms = time.perf_counter() - began, (cpu(me) - used) / SIZE * 1000
    found: dict[str, object] = {"runs/s": SIZE / took, "ms CPU a run": ms}
    if WORK == "noop":
        return {**found, "steps/s": 5 * SIZE / took}
    return {**found, "ms CPU of its calls alone": await floor(ORIGIN, FORWARD if WORK == "saga" else BACK, SIZE)}


async def main() -> None:
    DBOS.launch()
    print(json.dumps({"version": importlib.metadata.version("dbos"), **await driven()}), flush=True)
    os._exit(0)  # what waits in threads is not waited for


asyncio.run(main())
