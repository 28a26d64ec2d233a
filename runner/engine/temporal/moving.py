"""Runs that change their engine: each open one gets a driver in the cluster, or loses it. The log stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from runner.engine.temporal.workflow import RUN, Began

AT_ONCE = 32
WHY = "the runs of this project went back to the embedded engine"


async def begin_all(client: Client, queue: str, runs: Sequence[str]) -> int:
    """Every run has its driver on this queue, also where it had one. The first worker that comes carries them on.

    Answers how many had one on another queue, where no worker of these settings would ever ask for it: it is ended and
    begun anew, and the log says how far the run is."""
    renewed: list[str] = []

    async def start(run: str, where_one_is: WorkflowIDConflictPolicy) -> None:
        await client.start_workflow(RUN, Began(), id=run, task_queue=queue, id_conflict_policy=where_one_is)

    async def begin(run: str) -> None:
        try:
            await start(run, WorkflowIDConflictPolicy.FAIL)
        except WorkflowAlreadyStartedError:
            if (await client.get_workflow_handle(run).describe()).task_queue == queue:
                return
            await start(run, WorkflowIDConflictPolicy.TERMINATE_EXISTING)
            renewed.append(run)

    await _each(runs, begin)
    return len(renewed)


async def end_all(client: Client, runs: Sequence[str]) -> int:
    """No run has a driver any more. How many there were."""
    ended: list[str] = []

    async def end(run: str) -> None:
        try:
            await client.get_workflow_handle(run).terminate(reason=WHY)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        else:
            ended.append(run)

    await _each(runs, end)
    return len(ended)


async def _each(runs: Sequence[str], do: Callable[[str], Awaitable[None]]) -> None:
    left = iter(runs)

    async def some() -> None:
        for run in left:
            await do(run)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
