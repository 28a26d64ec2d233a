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
from runner.clock import MINUTE, SECOND, Clock
from runner.core import events as e
from runner.core.commands import Send
from runner.core.state import State
from runner.engine import advance
from runner.engine.alarm import SWEEP
from runner.engine.carrier import Carrier
from runner.engine.driven import OPEN_DESK, Bell, Desk, Driven, Outside
from runner.engine.temporal.cluster import connect, make_current, shows_attributes
from runner.engine.temporal.contact import Contact, look_at_begun
from runner.engine.temporal.workflow import CARRY, LATEST, RUN, SILENCE, SOON, Began, Rested, RunWorkflow
from runner.errors import NotFound, StoreError, StoreUnwritable
from runner.language.settings import Cluster
from runner.store.facts import Store

log = logging.getLogger("amends.engine")
GRACE = 5.0
LONGEST_STOP = 3 * GRACE
"""Seconds within which a stop is over, also where the cluster does not answer."""
BEAT = SILENCE.total_seconds() / 4
LINGERS = SECOND
"""A run that is due again so soon (ms) stays with who carries it: a timer of the cluster costs more."""
ASKED_AGAIN = 0.2
"""Seconds until a cluster that does not know this worker yet is asked again."""
SOONEST = 50
"""ms until a run whose calls are out is looked at again for what is due."""
AGAIN_AFTER = 1.0
"""Seconds until the cluster is asked again after it did not answer."""
LAST_SIGNALS = 2.0
"""Seconds that signals get which are not sent yet when the engine stops; the sweeper makes up for the others."""
DUTY = "sweep"
SIGNALS = 16
"""How many signals are under way at once."""
SETTLED = 10 * SECOND
"""A run that was changed in the last so many ms is being worked on."""
SWEEPS_EVERY = MINUTE / 1000
"""Seconds from one look for forgotten runs to the next."""
SELDOMEST = 8
"""A run that stands still is woken at least at each so manyth look."""
MOST_QUEUED = 1_000
"""So many queued runs of a flow are looked at in one sweep, the oldest first."""
AT_A_TIME = 50
"""So many runs are looked at before others have their turn."""
BUILD = f"{__version__}-1"
"""The version of the workers. Its last number grows with each change that old workers could not follow."""


class TemporalEngine(Carrier):
    """Drives runs through a cluster. `only`: this worker makes the calls of these connections and nothing else.

    `lasts`: it stays, so it takes its turn as the sweeper, and work goes to its version of the workers if newer.
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
        self._polling: dict[str, Worker] = {}
        self._workers_on: list[asyncio.Task[None]] = []
        self._driving: dict[str, Bell] = {}
        self._stretches: dict[str, asyncio.Task[Rested]] = {}
        self._resting: dict[str, list[asyncio.Future[None]]] = {}
        self._elsewhere: dict[str, str] = {}
        self._unsent: set[str] = set()
        self._sending: dict[str, asyncio.Event] = {}
        self._to_send: asyncio.Queue[str] = asyncio.Queue()
        self._background: list[asyncio.Task[None]] = []
        self._is_shown: bool | None = None
        self._swept: dict[str, tuple[int, int]] = {}
        self._contact = Contact(cluster)

    # -- from outside --

    async def start(self) -> None:
        """Takes up what was left open, then carries until `stop`. Raises NotPossible, SettingsError."""
        self._client = client = await self._connect()
        self._is_shown = await shows_attributes(client)
        for queue in [f"{self._queue}.{name}" for name in sorted(self._only)] or [self._queue]:
            self._workers_on.append(asyncio.create_task(self._poll(client, queue)))
        self._background = [asyncio.create_task(self._send_signals()) for _ in range(SIGNALS)]
        self._background.append(asyncio.create_task(self._contact.watch(client)))
        if not self._only:
            self._background.append(asyncio.create_task(self._stay_known(client)))
        if self._lasts and not self._only:
            self._background.append(asyncio.create_task(self._sweep()))
        self._background += self._join_others()
        if self._only:
            return
        if not self._lasts or not self._store.is_in_company():  # else the sweeper sees to them
            await self.wake_forgotten(settled=0, soon=SWEEP)
        for event in self._store.open_events():
            await self._feed(event_id=event)

    async def _poll(self, client: Client, queue: str) -> None:
        """Asks the cluster for work until `stop`, also where it has lost what it knew of us."""
        while not self._is_stopping:
            worker = self._polling[queue] = self._worker(client, queue)
            try:
                await worker.run()
            except (RuntimeError, RPCError) as error:
                log.error("Temporal gives no work from the queue %s any more (%s); it is asked again", queue, error)
                await asyncio.sleep(AGAIN_AFTER)

    def _worker(self, client: Client, queue: str) -> Worker:
        version = WorkerDeploymentVersion(deployment_name=self._deployment, build_id=BUILD)
        return Worker(
            client, task_queue=queue, workflows=[] if self._only else [RunWorkflow], activities=[self._carried],
            workflow_runner=UnsandboxedWorkflowRunner(), max_concurrent_activities=self._workers,
            graceful_shutdown_timeout=timedelta(seconds=2 * GRACE), max_heartbeat_throttle_interval=SILENCE / 4,
            deployment_config=WorkerDeploymentConfig(
                version=version, use_worker_versioning=True,
                default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
            ),
        )  # fmt: skip

    async def _stay_known(self, client: Client) -> None:
        """Without a current version no worker has any work, and without its attributes no run goes on; the cluster may
        have lost both, so it is looked after them for ever."""
        while True:
            pause = SWEEPS_EVERY
            try:
                if not await make_current(client, self._deployment, BUILD, lasts=self._lasts):
                    pause = ASKED_AGAIN
                elif self._is_shown is not False:
                    self._is_shown = await shows_attributes(client)
            except RPCError as error:
                if self._contact.tells_of(error):
                    log.warning("this version of the workers has no work from Temporal yet (%s)", error.message)
                pause = AGAIN_AFTER
            await asyncio.sleep(pause)

    async def stop(self, grace: float | None = None) -> None:
        """No new call; open ones get `grace` seconds (default: GRACE) to answer, then are recorded as unknown. Other
        workers go on."""
        self._is_stopping = True
        stopping = [asyncio.create_task(worker.shutdown()) for worker in self._polling.values()]
        if self._stretches:
            _, open_still = await asyncio.wait([*self._stretches.values()], timeout=GRACE if grace is None else grace)
            for stretch in open_still:
                stretch.cancel()
        ending, late = [*stopping, *self._workers_on], set[asyncio.Task[None]]()
        if ending:  # none where the cluster was not there to begin with
            _, late = await asyncio.wait(ending, timeout=LONGEST_STOP)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SIGNALS):
                while self._unsent or self._sending:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        for waiting in (*self._background, *late):
            waiting.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._leases.leave()

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
        """Returns when nobody carries the run and nothing is queued for it, at whichever worker, or a defect has met it
        here: the cluster tries it again, for as long as it lasts."""
        met = asyncio.get_running_loop().create_future()
        self._resting.setdefault(run, []).append(met)
        resting = asyncio.create_task(self._rest(run))
        try:
            await asyncio.wait([resting, met], return_when=asyncio.FIRST_COMPLETED)
            if resting.done():
                await resting
        finally:
            resting.cancel()
            self._resting[run].remove(met)
            if not self._resting[run]:
                del self._resting[run]

    async def _rest(self, run: str) -> None:
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
            rested = await self._asked_to_rest(run, wakes=wakes)
            if rested and not self.is_at_work(run) and run not in self._sending:  # its turn may have come meanwhile
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
            await look_at_begun(begins)
            if self._contact.tells_of(error):
                log.warning("Temporal does not answer about run %s (%s); it is asked again", run, error.status.name)
            await asyncio.sleep(AGAIN_AFTER)
            return False
        except WorkflowUpdateRPCTimeoutOrCancelledError:  # the library makes this of a cancelled wait, too
            await look_at_begun(begins)
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
                if self._contact.tells_of(error):
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
                stretch = self._begin_stretch(run, activity.info().task_queue)
            else:
                self._driving[run].set()
            return await asyncio.shield(stretch)
        except StoreUnwritable as refused:
            log.error("run %s: what became of a call could not be recorded any more: %s", run, refused)
        except Exception as error:
            if isinstance(error, NotFound) and not self._has(run):
                self._contact.tell_strange(run, self._clock.monotonic())
            else:
                pause = min(SOON * 2 ** min(activity.info().attempt - 1, 10), LATEST)
                log.exception("run %s cannot be driven on; it is tried again in %g s", run, pause.total_seconds())
                for met in self._resting.get(run, []):
                    met.cancel()
        finally:
            beating.cancel()
        # Nothing of what went wrong travels: it may name what the run is about.
        raise ApplicationError("the log of the worker says why") from None

    def _has(self, run: str) -> bool:
        """Where the database cannot say now, nothing is held against it."""
        try:
            self._store.log_end(run)
        except NotFound:
            return False
        except StoreError:
            return True
        return True

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            activity.heartbeat()

    def _begin_stretch(self, run: str, queue: str) -> asyncio.Task[Rested]:
        self._driving[run] = Bell()
        self._stretches[run] = asyncio.create_task(self._stretch(run, queue))
        return self._stretches[run]

    def _call_up(self, run: str) -> None:
        """Whoever has the place carries the run: the cluster might ask another worker, and the place would wait."""
        if self._is_stopping or run in self._driving or not self._store.is_shared:
            super()._call_up(run)
            return
        self._begin_stretch(run, self._queue).add_done_callback(lambda stretch: self._told_of(run, stretch))

    def _told_of(self, run: str, stretch: asyncio.Task[Rested]) -> None:
        """What was carried unasked: the cluster looks at it, unless the run stands in line again."""
        if not stretch.cancelled() and (error := stretch.exception()) is not None:
            log.error("run %s cannot be carried on; it is tried again", run, exc_info=error)
        if not self.limits.stands(run):
            self.wake(run)

    async def _stretch(self, run: str, queue: str) -> Rested:
        try:
            while True:
                woken = self._driving[run]
                woken.clear()
                before = self._store.log_end(run) if self._cluster.apart else None
                rest = await self.carry(run, woken)
                if woken.is_set() and not self._is_stopping:
                    continue
                if rest.is_elsewhere:  # a worker that is alive: what the cluster took for lost goes on there
                    return Rested(has_ended=False, pause=SECOND, queue=queue)
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
                elsewhere, pause = elsewhere or queue, 0  # what it would do next was not begun
            elif elsewhere:
                pause = 0 if self._store.log_end(run) != before else SECOND
            flow, status = (rest.flow, rest.status) if self._is_shown else ("", "")
            return Rested(has_ended=rest.has_ended, pause=pause, queue=elsewhere, flow=flow, status=status)
        except BaseException:
            self.limits.leave(run)
            raise
        finally:
            del self._driving[run], self._stretches[run]
            self._touched.discard(run)

    async def _outcomes(self, driven: Driven) -> tuple[e.Event, ...]:
        """What is due while calls are out does not wait for their answers."""
        due = driven.columns.wake_at if driven.columns is not None else None
        bell: asyncio.TimerHandle | None = None
        if due is not None:
            pause = max(due - self._clock.now(), SOONEST)
            bell = asyncio.get_running_loop().call_later(pause / 1000, driven.woken.set)
        try:
            return await super()._outcomes(driven)
        finally:
            if bell is not None:
                bell.cancel()

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

    async def _sweep(self) -> None:
        """One worker of all does it, as long as it lives: the cluster may have been away, or put back from a copy."""
        while True:
            await asyncio.sleep(SWEEPS_EVERY)
            with contextlib.suppress(StoreError):
                if await self._store.take_on(DUTY) and (count := await self.wake_forgotten()):
                    log.info("woken, because nothing else would have: runs, %d", count)

    async def wake_forgotten(self, settled: int = SETTLED, soon: int = 0) -> int:
        """Wakes the runs that are overdue, were reported about, or would be woken by nothing; how many. Those that
        changed within `settled` ms are being worked on. `soon`: nothing will have come for them by then.

        One that still stands where it stood is woken at the next look, then each second, fourth and eighth: a cluster
        that is slow has not lost it."""
        now, store = self._clock.now(), self._store
        left = {*store.unfinished(paused=False), *store.due(now - settled), *store.in_line()}
        left |= {run for flow in store.queued_flows() for run in store.queued(flow, 0, MOST_QUEUED)}
        left |= {*store.without_witness(now + soon)}
        count, before, self._swept = 0, self._swept, {}
        for number, run in enumerate(sorted(left)):
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
            changed = store.run(run).updated_at
            if self.is_at_work(run) or (settled and changed > now - settled):
                continue
            at, times = before.get(run, (changed, 0))
            times = times + 1 if at == changed else 1
            self._swept[run] = changed, times
            if times & (times - 1) == 0 or times % SELDOMEST == 0:
                self.wake(run)
                count += 1
        return count
