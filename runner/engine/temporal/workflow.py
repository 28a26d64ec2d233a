"""What the cluster remembers of a run: that it goes on, or until when it waits. Only ids and times travel.

No clock, no chance, no reading and writing here: recorded histories are played again over this code by the tests, and
by the cluster at every upgrade. Whoever changes the order of what is asked here keeps the old order under
`workflow.patched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey

RUN, CARRY = "AmendsRun", "carry"
FLOW = SearchAttributeKey.for_keyword("AmendsFlow")
STATUS = SearchAttributeKey.for_keyword("AmendsStatus")
MOST_EVENTS = 2_000
"""So long a history may get before it is begun anew."""
LONGEST_STRETCH = timedelta(days=7)
SILENCE = timedelta(seconds=10)
"""A worker that says nothing for so long is taken for dead."""
SOON, LATEST = timedelta(seconds=1), timedelta(seconds=30)
AGAIN = RetryPolicy(initial_interval=SOON, backoff_coefficient=2, maximum_interval=LATEST)
"""A run that could not be carried is tried again after `SOON`, then after twice as long each time."""


@dataclass(frozen=True, kw_only=True)
class Began:
    """How a run's workflow begins. `queue`: where the run is carried on, empty for the workflow's own."""

    queue: str = ""
    most_events: int = MOST_EVENTS


@dataclass(frozen=True, kw_only=True)
class Rested:
    """What a run waits for that was carried as far as it goes. `pause` is ms until it is due; None: for a report.

    `queue`: it goes on there, after the pause. `flow` and `status` are empty where the cluster does not show them.
    """

    has_ended: bool
    pause: int | None = None
    queue: str = ""
    flow: str = ""
    status: str = ""


@workflow.defn(name=RUN)
class RunWorkflow:
    """One run; the workflow's id is the run's."""

    def __init__(self) -> None:
        self._is_woken = False
        self._rests = False
        self._has_ended = False
        self._shown = ""

    @workflow.run
    async def run(self, began: Began) -> None:
        """Has the run carried until it ends."""
        queue = began.queue
        while not self._has_ended:
            self._is_woken = False
            rested = await workflow.execute_activity(
                CARRY, workflow.info().workflow_id, result_type=Rested, task_queue=queue or None,
                start_to_close_timeout=LONGEST_STRETCH, heartbeat_timeout=SILENCE, retry_policy=AGAIN,
            )  # fmt: skip
            self._show(rested)
            queue = rested.queue or queue
            self._has_ended = rested.has_ended and not self._is_woken
            if self._has_ended or self._is_woken or (rested.queue and not rested.pause):
                continue
            self._rests = not rested.queue
            if self._rests and workflow.info().get_current_history_length() >= began.most_events:
                await workflow.wait_condition(lambda: self._is_woken or workflow.all_handlers_finished())
                if not self._is_woken:
                    workflow.continue_as_new(Began(queue=queue, most_events=began.most_events))
            await self._wait(rested.pause)
            self._rests = False
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _wait(self, pause: int | None) -> None:
        try:
            within = None if pause is None else timedelta(milliseconds=max(pause, 1))
            await workflow.wait_condition(lambda: self._is_woken, timeout=within)
        except TimeoutError:
            pass

    def _show(self, rested: Rested) -> None:
        if rested.status and rested.status != self._shown:
            self._shown = rested.status
            workflow.upsert_search_attributes([FLOW.value_set(rested.flow), STATUS.value_set(rested.status)])

    @workflow.signal
    async def wake(self) -> None:
        """Something was reported about the run: it is decided again."""
        self._is_woken = True

    @workflow.update
    async def rest(self, wakes: bool) -> None:
        """Answers once the run rests. `wakes`: something was reported about it."""
        self._is_woken = self._is_woken or wakes
        await workflow.wait_condition(lambda: self._has_ended or (self._rests and not self._is_woken))
