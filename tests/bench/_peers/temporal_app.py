"""Plain Temporal: `python temporal_app.py WORK SIZE ORIGIN ADDRESS PID FOLDER` against a server that runs, with the
process id PID and its files in FOLDER; its last line is what was measured, as `tests.bench.temporal` has it.
"""

# mypy: ignore-errors
from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import timedelta

from poster import Poster, calm, cpu, disk, memory, together
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

WORK, SIZE, ORIGIN, ADDRESS, PID, FOLDER = (*sys.argv[1:5], int(sys.argv[5]), sys.argv[6])
SIZE = int(SIZE)
APPROVED, PIDS, LIMIT = max(SIZE // 10, 1), (os.getpid(), PID), timedelta(seconds=60)
IDLE_FOR = float(os.environ.get("IDLE_FOR", "60"))
POSTER: list[Poster] = []
DONE: list[int] = []
"""Activities that were done."""


@activity.defn
async def nothing(step: int) -> int:
    DONE.append(step)
    return step


@activity.defn
async def post(key: str, step: int) -> None:
    if not POSTER:
        POSTER.append(Poster(ORIGIN))
    await POSTER[0].post("effects", key, step)


@workflow.defn
class Saga:
    @workflow.run
    async def run(self) -> None:
        for step in range(5):
            given = [f"{workflow.info().workflow_id}-{step}", step]
            await workflow.execute_activity(post, args=given, start_to_close_timeout=LIMIT)


@workflow.defn
class Amid:
    """Two steps, a person, three steps."""

    def __init__(self) -> None:
        self.is_approved = False

    @workflow.signal
    def approve(self) -> None:
        self.is_approved = True

    @workflow.run
    async def run(self) -> None:
        for step in range(5):
            if step == 2:
                await workflow.wait_condition(lambda: self.is_approved)
            await workflow.execute_activity(nothing, step, start_to_close_timeout=LIMIT)


class Stretch:
    """From when it is made on."""

    def __init__(self) -> None:
        self.began, self.used = time.perf_counter(), [cpu(pid) for pid in PIDS]

    def cost(self, runs: int) -> dict[str, float]:
        took, now = time.perf_counter() - self.began, [cpu(pid) for pid in PIDS]
        worker, server = ((b - a) / runs * 1000 for a, b in zip(self.used, now, strict=True))
        return {"rate": runs / took, "worker": worker, "server": server}

    def share(self) -> float:
        used = sum(cpu(pid) for pid in PIDS) - sum(self.used)
        return used / (time.perf_counter() - self.began) * 100


async def ended(client: Client, count: int) -> None:
    while (await client.count_workflows('ExecutionStatus = "Completed"')).count < count:  # noqa: ASYNC110
        await asyncio.sleep(0.25)


async def done(count: int) -> None:
    while len(DONE) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def events(client: Client, name: str) -> int:
    return (await client.get_workflow_handle(name).describe()).history_length


async def saga(client: Client) -> dict[str, object]:
    stretch = Stretch()
    await together(lambda at: client.start_workflow(Saga.run, id=f"saga-{at}", task_queue="q"), SIZE)
    await ended(client, SIZE)
    return {**stretch.cost(SIZE), "events": await events(client, "saga-0")}


async def wait(client: Client) -> dict[str, object]:
    held, kept, stretch = [memory(pid) for pid in PIDS], disk(FOLDER), Stretch()
    await together(lambda at: client.start_workflow(Amid.run, id=f"amid-{at}", task_queue="q"), SIZE)
    await done(2 * SIZE)
    waits, now = stretch.cost(SIZE), [memory(pid) for pid in PIDS]
    worker, server = ((b - a) / SIZE for a, b in zip(held, now, strict=True))
    files = (disk(FOLDER) - kept) / SIZE / 1024
    await calm(lambda: sum(map(cpu, PIDS)), IDLE_FOR / 30)
    idle = Stretch()
    await asyncio.sleep(IDLE_FOR)
    share, stretch = idle.share(), Stretch()
    await together(lambda at: client.get_workflow_handle(f"amid-{at}").signal(Amid.approve), APPROVED)
    await ended(client, APPROVED)
    approved = {**stretch.cost(APPROVED), "events": await events(client, "amid-0")}
    return {
        "waits": waits, "approved": approved, "idle": share,
        "memory": {"worker": worker, "server": server}, "disk": {"server": files, "database": 0.0},
    }  # fmt: skip


async def main() -> None:
    client = await Client.connect(ADDRESS)
    worker = Worker(
        client, task_queue="q", workflows=[Saga, Amid], activities=[nothing, post],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )  # fmt: skip
    async with worker:
        print(json.dumps(await {"saga": saga, "wait": wait}[WORK](client)), flush=True)
        os._exit(0)


asyncio.run(main())
