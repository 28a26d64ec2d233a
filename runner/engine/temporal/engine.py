"""The engine of a project whose runs a Temporal cluster drives: a signal wakes a run, an activity carries it.

One activity carries a run as far as it goes; everything that must last is in the log before it answers. So whatever the
cluster loses, repeats or delays costs time and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from temporalio import activity
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from runner import __version__
from runner.clock import SECOND, Clock
from runner.core.commands import Send
from runner.core.state import State
from runner.engine import advance
from runner.engine.alarm import SWEEP
from runner.engine.carrier import Carrier
from runner.engine.driven import OPEN_DESK, Desk, Outside
from runner.engine.temporal.cluster import connect, keep_schedule, make_current, shows_attributes
from runner.engine.temporal.workflow import CARRY, LOOK, RUN, SILENCE, Began, Rested, RunWorkflow, SweepWorkflow
from runner.errors import StoreUnwritable
from runner.language.settings import Cluster
from runner.store.company import Left
from runner.store.facts import RunFilter, Store

log = logging.getLogger("amends.engine")
GRACE = 5.0
AFTER_DEFECT = timedelta(seconds=30)
BEAT = SILENCE.total_seconds() / 4
LINGERS = SECOND
"""A run that is due again so soon (ms) stays with who carries it: a timer of the cluster costs more."""
AGAIN_AFTER = 1.0
"""Seconds until the cluster is asked again after it did not answer."""
LAST_SIGNALS = 2.0
"""Seconds that signals get which are not sent yet when the engine stops; the sweeper makes up for the others."""
SIGNALS = 16
"""How many signals are under way at once."""
SETTLED = 10 * SECOND
"""A run that was changed in the last so many ms is being worked on."""
MOST_QUEUED = 1_000
"""So many queued runs are looked at in one sweep, the newest first."""
BUILD = f"{__version__}-1"
"""The version of the workers. Its last number grows with each change that old workers could not follow."""


class TemporalEngine(Carrier):
    """Drives runs through a cluster. `only`: this worker makes the calls of these connections and nothing else.

    `lasts`: it stays, so the sweeper is set up, and the version of the workers made known.
    """

    def __init__(
        self, store: Store, outside: Outside, clock: Clock, *, cluster: Cluster, folder: Path,
        secret: Callable[[str], str], only: Sequence[str] = (), lasts: bool = False, workers: int = 64,
        desk: Desk = OPEN_DESK,
    ) -> None:  # fmt: skip
        super().__init__(store, outside, clock, workers=workers, desk=desk)
        self._cluster = cluster
        self._queue = cluster.queue
        self._deployment = cluster.queue.replace(".", "-")
        self._connect = partial(connect, cluster, folder, secret)
        self._only = frozenset(only)
        self._lasts = lasts
        self._client: Client | None = None
        self._workers_on: list[asyncio.Task[None]] = []
        self._polling: list[Worker] = []
        self._driving: dict[str, asyncio.Event] = {}
        self._stretches: dict[str, asyncio.Task[Rested]] = {}
        self._elsewhere: dict[str, str] = {}
        self._unsent: set[str] = set()
        self._sending: dict[str, asyncio.Event] = {}
        self._to_send: asyncio.Queue[str] = asyncio.Queue()
        self._background: list[asyncio.Task[None]] = []
        self._is_shown = False

    # -- from outside --

    async def start(self) -> None:
        """Takes up what was left open, then carries until `stop`. Raises NotPossible, SettingsError."""
        self._client = client = await self._connect()
        self._is_shown = await shows_attributes(client)
        for queue in [f"{self._queue}.{name}" for name in sorted(self._only)] or [self._queue]:
            worker = self._worker(client, queue)
            self._polling.append(worker)
            self._workers_on.append(asyncio.create_task(worker.run()))
        self._background = [asyncio.create_task(self._send_signals()) for _ in range(SIGNALS)]
        self._background.append(asyncio.create_task(self._set_up(client)))
        if self._store.is_shared:
            loop = asyncio.get_running_loop()
            self._store.watch_left(lambda left: loop.call_soon_threadsafe(self._inherit, left))
            self._background.append(asyncio.create_task(self._store.listen(self._hear)))
        if self._only:
            return
        self.wake_forgotten(settled=0, soon=SWEEP)
        for event in self._store.open_events():
            await self._feed(event_id=event)

    def _worker(self, client: Client, queue: str) -> Worker:
        version = WorkerDeploymentVersion(deployment_name=self._deployment, build_id=BUILD)
        return Worker(
            client, task_queue=queue, workflows=[] if self._only else [RunWorkflow, SweepWorkflow],
            activities=[self._carried, self._sweep],
            workflow_runner=UnsandboxedWorkflowRunner(), max_concurrent_activities=self._workers,
            graceful_shutdown_timeout=timedelta(seconds=2 * GRACE), max_heartbeat_throttle_interval=SILENCE / 4,
            deployment_config=WorkerDeploymentConfig(
                version=version, use_worker_versioning=True,
                default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
            ),
        )  # fmt: skip

    async def _set_up(self, client: Client) -> None:
        """What helps the cluster and no run waits for."""
        await make_current(client, self._deployment, BUILD)
        while self._lasts and not self._only:
            try:
                await keep_schedule(client, self._queue)
                return
            except RPCError as error:
                log.warning("the sweeper's schedule cannot be set up in Temporal (%s)", error.status.name)
            await asyncio.sleep(AGAIN_AFTER)

    async def stop(self, grace: float | None = None) -> None:
        """No new call; open ones get `grace` seconds (default: GRACE) to answer, then are recorded as unknown. Other
        workers go on."""
        self._is_stopping = True
        stopping = [asyncio.create_task(worker.shutdown()) for worker in self._polling]
        if self._stretches:
            _, late = await asyncio.wait([*self._stretches.values()], timeout=GRACE if grace is None else grace)
            for stretch in late:
                stretch.cancel()
        await asyncio.gather(*stopping, *self._workers_on, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SIGNALS):
                while self._unsent or self._sending:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        for waiting in self._background:
            waiting.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def wake(self, run: str) -> None:
        """Something was reported about this run: whoever carries it looks again."""
        if run in self._driving:
            self._driving[run].set()
        elif run not in self._unsent:
            self._unsent.add(run)
            self._to_send.put_nowait(run)

    def is_at_work(self, run: str) -> bool:
        """Whether somebody of this process carries the run, or is about to."""
        return run in self._driving or run in self._unsent

    async def rest(self, run: str) -> None:
        """Returns when nobody carries the run and nothing is queued for it, at whichever worker."""
        while not self._is_stopping:
            if run in self._stretches:
                await asyncio.wait([self._stretches[run]])
                continue
            if run in self._sending:
                await self._sending[run].wait()
                continue
            wakes = run in self._unsent
            self._unsent.discard(run)
            if not wakes and self._store.run(run).ended_at is not None:
                return
            if await self._asked_to_rest(run, wakes=wakes):
                return

    async def _asked_to_rest(self, run: str, *, wakes: bool) -> bool:
        begins: WithStartWorkflowOperation[RunWorkflow, None] = WithStartWorkflowOperation(
            RUN, Began(), id=run, task_queue=self._queue, id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING
        )
        try:
            await self._reached().execute_update_with_start_workflow(
                RunWorkflow.rest, wakes, start_workflow_operation=begins
            )
        except RPCError as error:
            log.warning("Temporal does not answer about run %s (%s); it is asked again", run, error.status.name)
            await asyncio.sleep(AGAIN_AFTER)
            return False
        except WorkflowUpdateRPCTimeoutOrCancelledError:  # the library makes this of a cancelled wait, too
            asking = asyncio.current_task()
            if asking is not None and asking.cancelling():
                raise asyncio.CancelledError from None
            return False
        return True

    def _reached(self) -> Client:
        assert self._client is not None, "the engine has been started"
        return self._client

    # -- signals --

    async def _send_signals(self) -> None:
        """A signal that is not sent before this process ends is made up for by the sweeper: the log has the report."""
        while True:
            run = await self._to_send.get()
            if run not in self._unsent or run in self._sending:
                continue
            self._unsent.discard(run)
            self._sending[run] = asyncio.Event()
            try:
                await self._reached().start_workflow(
                    RUN, Began(), id=run, task_queue=self._queue, start_signal="wake",
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                )  # fmt: skip
            except RPCError as error:
                log.warning("Temporal could not be told of run %s (%s); it is told again", run, error.status.name)
                await asyncio.sleep(AGAIN_AFTER)
                self._unsent.add(run)
            finally:
                self._sending.pop(run).set()
            if run in self._unsent:
                self._to_send.put_nowait(run)

    # -- carrying --

    @activity.defn(name=CARRY)
    async def _carried(self, run: str) -> Rested:
        """The activity. What was begun here goes on even where the cluster thinks that it did not."""
        beating = asyncio.create_task(self._beat())
        try:
            stretch = self._stretches.get(run)
            if stretch is None:
                self._driving[run] = asyncio.Event()
                stretch = self._stretches[run] = asyncio.create_task(self._stretch(run))
            else:
                self._driving[run].set()
            return await asyncio.shield(stretch)
        except StoreUnwritable as refused:
            log.error("run %s: what became of a call could not be recorded any more: %s", run, refused)
        except Exception:
            log.exception("run %s cannot be carried on; it is tried again in %d s", run, AFTER_DEFECT.seconds)
        finally:
            beating.cancel()
        # Nothing of what went wrong travels: it may name what the run is about.
        raise ApplicationError("the log of the worker says why", next_retry_delay=AFTER_DEFECT) from None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            activity.heartbeat()

    async def _stretch(self, run: str) -> Rested:
        try:
            while True:
                woken = self._driving[run]
                woken.clear()
                before = self._store.log_end(run)
                rest = await self.carry(run, woken)
                if woken.is_set() and not self._is_stopping:
                    continue
                if not rest.has_ended and self._is_driven_elsewhere(run):
                    return Rested(has_ended=False, pause=SECOND, queue=activity.info().task_queue)
                pause = None if rest.due is None else max(rest.due - self._clock.now(), 0)
                elsewhere = self._elsewhere.pop(run, "")
                if rest.has_ended or self._is_stopping or elsewhere or pause is None or pause > LINGERS:
                    break
                try:
                    async with asyncio.timeout(pause / 1000):
                        await woken.wait()
                except TimeoutError:
                    pass
            if self._is_stopping and not rest.has_ended:
                elsewhere = elsewhere or activity.info().task_queue
            elif elsewhere:
                pause = 0 if self._store.log_end(run) != before else SECOND
            view = self._store.run(run) if self._is_shown else None
            return Rested(
                has_ended=rest.has_ended, pause=pause, queue=elsewhere, flow=view.flow if view else "",
                status=view.status if view else "",
            )  # fmt: skip
        except BaseException:
            self.limits.leave(run)
            raise
        finally:
            del self._driving[run], self._stretches[run]
            self._touched.discard(run)

    def _is_driven_elsewhere(self, run: str) -> bool:
        """Whether a worker that is alive has it still: what the cluster took for lost goes on there."""
        return self._store.is_shared and self._store.fence_of(run) not in (0, self._fence)

    def _inherit(self, left: Left) -> None:
        """A worker is gone; or others took this one for gone, and what it has driven so far is theirs."""
        if left.fence == self._fence:
            self._fence = self._store.fence()
        for run in left.runs:
            self.wake(run)

    # -- connections that only some workers reach --

    def _admit(self) -> advance.Admit | None:
        within = super()._admit()
        if not self._cluster.apart:
            return within

        def admit(state: State, sends: tuple[Send, ...]) -> tuple[Send, ...]:
            here = tuple(send for send in sends if self._reaches(send.action))
            away = [send for send in sends if not self._reaches(send.action)]
            self._elsewhere.pop(state.run, None)
            if away:
                self._elsewhere[state.run] = self._queue_of(away[0].action)
            return here if within is None else within(state, here)

        return admit

    def _reaches(self, action: str) -> bool:
        connection = action.partition(".")[0]
        return connection in self._only if self._only else connection not in self._cluster.apart

    def _queue_of(self, action: str) -> str:
        connection = action.partition(".")[0]
        return f"{self._queue}.{connection}" if connection in self._cluster.apart else self._queue

    # -- the sweeper --

    @activity.defn(name=LOOK)
    async def _sweep(self) -> None:
        """The activity."""
        self.wake_forgotten()

    def wake_forgotten(self, settled: int = SETTLED, soon: int = 0) -> int:
        """Wakes the runs that are overdue, were reported about, or would be woken by nothing; how many. Those that
        changed within `settled` ms are being worked on. `soon`: nothing will have come for them by then."""
        now = self._clock.now()
        left = {*self._store.unfinished(), *self._store.due(now - settled), *self._store.in_line()}
        left |= {view.run for view in self._store.runs(RunFilter(status=("queued",), limit=MOST_QUEUED))}
        left |= {*self._store.without_witness(now + soon)}
        left = {run for run in left if run not in self._driving and self._store.run(run).updated_at <= now - settled}
        for run in sorted(left):
            self.wake(run)
        return len(left)
