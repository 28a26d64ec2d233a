"""The workflow goes the way it went: every history that was ever recorded is played again over today's code.

The sandbox of the library watches: a clock, chance, or a look outside would stop the replay.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from runner.engine.temporal.workflow import CARRY, RUN, SILENCE, Began, RunWorkflow

FOLDER = Path(__file__).parents[1] / "logs" / "temporal"
FILES = sorted(FOLDER.glob("*.json"))


async def replay(file: Path, played: type) -> None:
    history = WorkflowHistory.from_json(file.stem.rpartition("_")[0], file.read_text(encoding="utf-8"))
    await Replayer(workflows=[played]).replay_workflow(history)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_recorded_history_is_played_again(file: Path) -> None:
    await replay(file, RunWorkflow)


def test_all_that_can_happen_was_recorded() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in FILES)
    for event in (
        "ACTIVITY_TASK_COMPLETED", "TIMER_STARTED", "TIMER_FIRED", "WORKFLOW_EXECUTION_SIGNALED",
        "WORKFLOW_EXECUTION_UPDATE_COMPLETED", "WORKFLOW_EXECUTION_CONTINUED_AS_NEW", "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
        "WORKFLOW_EXECUTION_COMPLETED",
    ):  # fmt: skip
        assert f"EVENT_TYPE_{event}" in text, event
    assert len(FILES) >= 9


@workflow.defn(name=RUN)
class Changed:
    """The planted mistake: it waits before it has the run carried."""

    @workflow.run
    async def run(self, began: Began) -> None:
        """Wrong."""
        await workflow.sleep(1)
        await workflow.execute_activity(CARRY, "x", start_to_close_timeout=SILENCE)


async def test_a_workflow_that_goes_another_way_is_seen() -> None:
    with pytest.raises(workflow.NondeterminismError):
        await replay(FOLDER / "ends_0.json", Changed)
