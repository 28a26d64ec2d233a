"""Records histories for the replay tests: `python -m tests.engine.histories` writes tests/logs/temporal.

They are kept for ever: a history that an old version wrote must be carried on by every later one. New ones are added
under new names.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from runner.engine.temporal.cluster import shows_attributes
from runner.engine.temporal.workflow import CARRY, RUN, Began, Rested, RunWorkflow
from tests.support.temporal import running_temporal

FOLDER = Path(__file__).parents[1] / "logs" / "temporal"
WAITS = Rested(has_ended=False, status="waiting", flow="signup")
NAPS = Rested(has_ended=False, pause=30, status="waiting", flow="signup")
ENDS = Rested(has_ended=True, status="succeeded", flow="signup")
ELSEWHERE = Rested(has_ended=False, queue="q", status="running", flow="signup")
LATER = Rested(has_ended=False, queue="q", pause=30, status="running", flow="signup")


@dataclass(frozen=True, kw_only=True)
class Life:
    """What each stretch answers, and what comes whenever the run rests for a report: `wake` or `rest`."""

    stretches: Sequence[Rested]
    reports: Sequence[str] = ()
    most_events: int = 2_000


LIVES = {
    "ends": Life(stretches=[ENDS]),
    "naps": Life(stretches=[NAPS, NAPS, ENDS]),
    "is_woken": Life(stretches=[WAITS, WAITS, ENDS], reports=["wake", "rest"]),
    "goes_elsewhere": Life(stretches=[ELSEWHERE, LATER, WAITS, ENDS], reports=["wake"]),
    "begins_anew": Life(stretches=[NAPS, WAITS, NAPS, ENDS], reports=["rest"], most_events=6),
    "is_not_shown": Life(stretches=[Rested(has_ended=False, pause=30), Rested(has_ended=True)]),
}


async def record(client: Client, name: str, life: Life) -> list[str]:
    """The histories of one life: one, or several where it was begun anew."""
    left: Iterator[Rested] = iter(life.stretches)
    waiting: asyncio.Queue[None] = asyncio.Queue()

    @activity.defn(name=CARRY)
    async def carry(run: str) -> Rested:
        rested = next(left)
        if rested == WAITS:
            waiting.put_nowait(None)
        return rested

    async with Worker(
        client, task_queue="q", workflows=[RunWorkflow], activities=[carry], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        began = Began(most_events=life.most_events)
        handle = await client.start_workflow(RUN, began, id=name, task_queue="q")
        first_run = handle.first_execution_run_id
        for report in life.reports:
            await waiting.get()
            await asyncio.sleep(0.5)
            current = client.get_workflow_handle(name)
            if report == "wake":
                await current.signal("wake")
            else:
                await current.execute_update("rest", True)
        await handle.result()
    found, run_id = [], first_run
    while run_id:
        history = await client.get_workflow_handle(name, run_id=run_id).fetch_history()
        found.append(history.to_json())
        run_id = history.events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


async def main() -> int:
    with running_temporal() as server:
        client = await Client.connect(server.address)
        await shows_attributes(client)
        for name, life in LIVES.items():
            for number, history in enumerate(await record(client, name, life)):
                (FOLDER / f"{name}_{number}.json").write_text(history + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
