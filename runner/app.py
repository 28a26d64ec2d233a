"""The only place where parts are put together: a project, its store, its connectors, and an engine to drive its runs.

`Amends.open(folder)` reads; `runner.reading` is its part that needs no flow. `async with amends.driver() as driver:`
writes: this process takes the engine's lock, or, when another process has it, hands everything over to that one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.clock import SECOND, Clock
from runner.contract import Connector, Json
from runner.core.state import State
from runner.current import Current
from runner.driver import Driver
from runner.engine.handover import Listener, Tell
from runner.engine.past import Known, read_on
from runner.engine.starting import Wish, is_whole_id, start_many, start_run
from runner.engines import made_engine, refuse_mix
from runner.errors import AmendsError, EngineBusy, NotPossible, StoreError
from runner.far import PATIENCE, FarDriver, engine_says
from runner.following import Following
from runner.language.bundle import Bundle, restore
from runner.language.project import Project
from runner.orders import REQUESTS, WHILE_RESTING
from runner.outside import ProjectOutside, bounds_of
from runner.people.access import keep_access
from runner.people.anchoring import Anchors
from runner.people.approvals import Decision, Preview, decide, preview
from runner.people.authors import Authors
from runner.people.cleanup import start_clean_up
from runner.people.desk import ProjectDesk
from runner.people.erasing import Erasing, erase
from runner.people.holds import Hold, fact_for
from runner.people.notify import Notifier
from runner.people.operations import ORDERS, Order, give
from runner.people.post import Post
from runner.people.pruning import Pruned, keep_of, prune, prune_by_itself
from runner.people.quarantine import answer_quarantine
from runner.people.restored import go_on_restored, let_go_on, told_restored
from runner.people.strays import Strays
from runner.people.table import sentence
from runner.people.versions import move
from runner.reading import Reading, database_url
from runner.store import access
from runner.store.access import Access
from runner.store.arrivals import Arrived
from runner.store.database import is_address
from runner.store.facts import RunView, Started
from runner.store.lock import EngineLock
from runner.store.sql import open_store
from runner.triggers.active import Active
from runner.triggers.again import take_again
from runner.triggers.intake import Intake
from runner.triggers.parts import Parts
from runner.triggers.webhook import Webhooks

LOCK_PATIENCE = 10.0
"""Seconds that a command waits for a process that holds the engine and does not answer."""
LONGEST_CALL = 60.0
"""Seconds that a command which is done waits for the calls of other runs: cut off they would be unknown."""
LOOK = SECOND
"""ms for which settings count as fresh for what comes from outside."""
SWITCH_INTERVAL = 0.002
"""Seconds after which a busy event loop hands the interpreter to the log's writer, instead of the usual 5 ms."""
USUAL = gc.get_threshold()
"""How the collector works while nobody drives runs, whichever of several engines in one process ends first."""
YOUNG = 10_000
"""New objects between two collections, instead of 700: a decision makes thousands that are gone at its end."""


class Amends(Reading):
    """One project with its flows; `driver` is who writes."""

    def __init__(self, project: Project) -> None:
        super().__init__(project.folder)
        self.project = project
        self._known: dict[str, Known] = {}

    @classmethod
    def open(cls, folder: Path | None = None) -> Amends:
        """The project of a folder (default: the one around the current folder). Raises NotFound, SettingsError."""
        return cls(Project.around(folder or Path.cwd()))

    def state(self, run: str) -> tuple[Bundle, State]:
        """A run's bundle and its state as the log says; of a long one what is new is read. Raises NotFound,
        StoreCorrupt, InvalidFlow.
        """
        state = read_on(self.store, run, self._known)
        return restore(state.bundle, self.store.bundle(state.bundle)), state

    @contextlib.asynccontextmanager
    async def driver(self) -> AsyncIterator[Driver]:
        """Somebody who writes: this process when the lock is free, else the process that has it; where several engines
        may write, this one too if that one does not answer."""
        lock = EngineLock(self.project.folder)
        if (far := await self._engaged(lock)) is not None:
            yield far
            return
        own = OwnDriver(self.project, self.clock, lock)
        async with own.running():
            yield own

    async def _engaged(self, lock: EngineLock) -> FarDriver | None:
        """The process that has the engine; None where this one may write: with the lock then or, where several engines
        may write, without it. Raises EngineBusy."""
        end = time.monotonic() + LOCK_PATIENCE
        while not lock.acquire():
            holder = lock.holder()
            if holder is not None and holder.socket:
                far = FarDriver(holder.socket, self)
                if await far.answers():
                    return far
            if is_address(database_url(self.folder, self.settings)):
                return None
            if time.monotonic() > end:
                raise self._silent(lock)
            await asyncio.sleep(0.05)
        return None

    def _silent(self, lock: EngineLock) -> EngineBusy:
        holder = lock.holder()
        who = f"process {holder.pid}" if holder is not None else "another process"
        return EngineBusy(
            f"{who} drives this project ({self.project.folder}) and does not answer; end it, then its runs go on here"
        )

    async def admit(self, row: Access) -> None:
        """Keeps a new password, link, session or token: no engine is opened for that. Raises EngineBusy, StoreError."""
        lock = EngineLock(self.project.folder)
        if (far := await self._engaged(lock)) is not None:
            await far.admit(row)
            return
        try:
            url, drives = database_url(self.folder, self.settings), self.settings.cluster is None
            await keep_access(self.folder, url, self.clock, lock, row, drives=drives)
        finally:
            lock.release()

    async def limits(self, run: str = "") -> Mapping[str, Json] | None:
        """What the engine that runs says: `usage` of each connection with limits, `place` of a run in its line.

        None where no engine runs, or it does not answer.
        """
        return await engine_says(self, {"order": "limits", "run": run})

    async def turned_away(self) -> Mapping[str, Json]:
        """Of each hook the deliveries that were not proved since the engine began; empty where none answers."""
        return await engine_says(self, {"order": "turned_away"}) or {}

    async def go_on_restored(self, by: str, *, moved: bool = False) -> list[str]:
        """As `restored.go_on_restored`: a database that was put back from a copy may be used. A process that has the
        engine, and rests, is told."""
        if (done := await engine_says(self, {"order": "go_on", "by": by, "moved": moved})) is not None:
            return list(done["paused"])
        url = database_url(self.folder, self.settings)
        return await go_on_restored(self.folder, url, self.clock, by, moved=moved)


class OwnDriver:
    """This process holds the engine."""

    def __init__(self, project: Project, clock: Clock, lock: EngineLock) -> None:
        self._project = project
        self._clock = clock
        self._lock = lock
        self._holding = asyncio.Lock()
        self._current = Current(project, self._adopt)
        self._looked_at = -LOOK
        self._begun = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(
        self, *, settles: bool = True, only: Sequence[str] = (), may_rest: bool = False
    ) -> AsyncIterator[None]:
        """The engine, its store and its listener, from the lock to its release. `settles`: not before those who watch
        a run from another process have seen it rest, and calls of other runs that are out have their answer. `only`:
        see `made_engine`.

        Raises StoreError for a database that was put back from a copy, for a person must look first; with `may_rest`
        it `rests`, and drives nothing before `begin`.
        """
        sys.setswitchinterval(SWITCH_INTERVAL)
        async with contextlib.AsyncExitStack() as opened:
            opened.callback(self._lock.release)
            self._lock.acquire()
            gc.freeze()  # what was imported stays, so no collection need look at it while runs are driven
            opened.callback(gc.unfreeze)
            opened.callback(gc.set_threshold, *USUAL)
            gc.set_threshold(YOUNG, 20, 20)
            url = database_url(self._project.folder, self._project.settings)
            drives = self._project.settings.cluster is None  # else any worker may have what is reported here
            self.store = open_store(
                self._project.folder, clock=self._clock, writable=True, lock=self._lock, url=url, drives=drives
            )
            opened.callback(self.store.close)
            refuse_mix(self.store, self._project.settings)
            is_restored = self.store.restored
            if is_restored and not may_rest:
                raise StoreError(told_restored(self.store))
            self.outside = ProjectOutside(self._project, self.store)
            self.outside.keep_out_of_logs(opened)
            opened.push_async_callback(self.outside.close)
            self.post = Post(lambda: self._project, self.outside.present, self.outside.secret)
            self.desk = ProjectDesk(self._project_now, self.post.channels)
            self.engine = made_engine(
                self._project, self.store, self.outside, self._clock, self.desk, lasts=not settles, only=only
            )
            self.engine.limits.set_bounds(bounds_of(self._project))
            self.following = Following(self.store, self.engine, self._clock)
            opened.push_async_callback(self.engine.stop)
            self.notifier = Notifier(
                self.store, self.post, self.desk, self._clock, project=self._project_now,
                bundle=self.outside.bundle, wake=self.engine.wake,
            )  # fmt: skip
            self.engine.observers += [self.following.observe, self.notifier.observe]
            self.triggers = self._triggers()
            self.hooks = Webhooks(self.triggers)
            self._anchors = Anchors(self.store, self.post, self.desk, self._clock, self._project.again)
            self.anchor, self._opened = self._anchors.make, opened
            if not is_restored:
                await self.begin()
            listener = Listener(self._serve, for_watchers=frozenset({"follow"}))
            opened.push_async_callback(listener.close)
            if self._lock.held:  # else another engine of this folder listens
                self._lock.announce(await listener.open(str(self._project.folder)))
            elif not settles:
                opened.callback(asyncio.create_task(listener.succeed(self._lock, str(self._project.folder))).cancel)
            yield
            if settles:
                await self.engine.rest_touched()
                await self.notifier.send_soon()
                await listener.settle()
                await listener.close()
                await self.engine.stop(grace=LONGEST_CALL)

    async def begin(self) -> None:
        """Drives what is open, and does by itself what is done by itself."""
        opened = self._opened
        await self.engine.start()
        await opened.enter_async_context(self.notifier.running())
        strays = Strays(self.notifier, self.post, self.desk, self.store, self._clock, self.triggers.active.all)
        pruning = prune_by_itself(self.store, self._project.again, self._clock)
        for forever in (pruning, strays.watch(), self._anchors.watch()):
            opened.callback(asyncio.create_task(forever).cancel)
        self._begun.set()

    @property
    def rests(self) -> bool:
        """Whether nothing is driven yet: the database was put back from a copy, and nobody has let it go on."""
        return not self._begun.is_set()

    async def go_on_restored(self, by: str, *, moved: bool) -> list[str]:
        """As `restored.let_go_on`; it drives when this returns."""
        paused = await let_go_on(self.store, self._clock, by, moved=moved)
        await self._begun.wait()
        return paused

    def _triggers(self) -> Parts:
        outside = self.outside
        active = Active(self.store, self._clock, self._project.again, partial(outside.require_secrets, at_once=True))
        active.broken.append(Authors(self.post, self.desk, self._clock).tell)
        intake = Intake(self.store, self._clock, self.engine.begin, lambda: self._forced_mode)
        return Parts(
            active=active, intake=intake, store=self.store, engine=self.engine, clock=self._clock,
            connect=self._connect_now, on_event=[],
        )  # fmt: skip

    def _connect_now(self, connection: str) -> Connector:
        """As the project has it now, or had it a moment ago: what comes from outside must not make us read files."""
        if self._clock.monotonic() - self._looked_at >= LOOK:
            self._current.look()
            self._looked_at = self._clock.monotonic()
        return self.outside.present(connection)

    @property
    def _forced_mode(self) -> str:
        return "draft" if self._project.settings.mode == "draft" else ""

    async def start(self, flow: str, wish: Wish) -> Started:
        """Starts a run, or joins one. The project's files are read anew: they may have changed since."""
        return await self.start_bundle(self._bundle_now(flow), wish)

    def _bundle_now(self, flow: str) -> Bundle:
        bundle = self._current.bundle(flow)
        self.outside.require_secrets(bundle)
        return bundle

    async def pin(self, flow: str) -> str:
        """Keeps a flow as it is now."""
        bundle = self._bundle_now(flow)
        await self.store.keep_bundle(bundle.digest, bundle.texts)
        return bundle.digest

    async def start_pinned(self, digest: str, wish: Wish) -> Started:
        """Starts a run of a flow that was pinned, or joins one."""
        return await self.start_bundle(self.outside.bundle(digest), wish)

    def look_anew(self) -> None:
        """Somebody has come: what they may do goes by the files as they are now."""
        self._current.forget()

    def _project_now(self) -> Project:
        self._current.glance()
        return self._project

    def _adopt(self, project: Project) -> None:
        self._project = project
        self.outside.renew(project)
        self.engine.limits.set_bounds(bounds_of(project))

    async def start_bundle(self, bundle: Bundle, wish: Wish) -> Started:
        """Starts a run of a flow that has been checked and pinned."""
        wish = replace(wish, mode=self._forced_mode or wish.mode)
        started, event = await start_run(self.store, bundle, wish, now=self._clock.now())
        self.engine.begin(started, event)
        return started

    async def start_many(self, flow: str, wishes: Sequence[Wish]) -> list[Started | AmendsError]:
        """Starts runs of one flow in one commit, each for itself: what became of each. Raises InvalidFlow."""
        bundle = self._bundle_now(flow)
        asked = [replace(wish, mode=self._forced_mode or wish.mode) for wish in wishes]
        return await start_many(self.store, bundle, asked, self.engine.begin, now=self._clock.now())

    async def act(self, run: str, order: Order) -> RunView:
        """Reports a person's order and waits until the engine has decided about it."""
        run = self.store.run(run).run
        self._current.look()
        state, _ = await self.engine.past.read(run)
        if state.has_ended and order.action in ORDERS and sentence(state, order.action)[0] == "done":
            return await self._clean_up(state, order)
        if order.action == "move":
            await move(self.store, self._project.again(), run, order, self._clock.now)
        else:
            bundle = self.outside.bundle(state.bundle)
            await give(self.store, bundle, run, order, lambda at: max(self._clock.now(), at.at), self.engine.past)
        self.engine.wake(run)
        if not any(call.is_open for call in state.calls.values()):
            await self.engine.rest(run)
        return self.store.run(run)

    async def decide(self, run: str, decision: Decision) -> RunView:
        """Records a decision, if it still counts where the run stands then."""
        await self.record(run, decision)
        await self.engine.rest(run)
        return self.store.run(run)

    async def record(self, run: str, decision: Decision) -> None:
        """As `decide`, without waiting for what follows."""
        self._current.look()
        run = run if is_whole_id(run) else self.store.run(run).run
        known = await decide(self.store, self.outside, self.desk, run, decision, self._clock.now)
        if not self.engine.is_at_work(run):
            self.engine.past.hand(run, *known)
        self.engine.wake(run)

    def preview(self, bundle: Bundle, state: State, approval: str, edits: Mapping[str, Mapping[str, str]]) -> Preview:
        """What an approval lets through from now on, with these edits. Raises NotPossible."""
        self._current.look()
        connect = partial(self.outside.connector, bundle)
        return preview(bundle, state, approval, edits, connect, self.desk)

    async def erase(self, wish: Erasing) -> Mapping[str, Json]:
        return await erase(self.store, wish, self._clock.now(), self.engine.wake)

    async def prune(self, by: str) -> Pruned:
        return await prune(self.store, keep_of(self._project.again()), by, self._clock.now(), whole=True)

    async def _clean_up(self, state: State, order: Order) -> RunView:
        started = await start_clean_up(self.store, state, order, now=self._clock.now())
        self.engine.wake(started.run)
        await self.engine.rest(started.run)
        return self.store.run(started.run)

    async def admit(self, row: Access) -> None:
        """Keeps a new password, link, session or token."""
        await self.store.write(access.admit(row))

    async def send_event(self, event_id: str, event: str, data: Mapping[str, Json], source: str) -> bool:
        """Keeps an event, and feeds it to whoever waits for it."""
        is_new = await self.engine.send_event(event_id, event, data, source)
        for tell in self.triggers.on_event:
            tell()
        return is_new

    async def take_again(self, arrival: str, flow: str, by: str, reason: str) -> Arrived:
        """Has an arrival that led to no run taken again. Raises NotFound, NotPossible."""
        await self.triggers.active.look()
        return await take_again(self.triggers, arrival, flow, by=by, reason=reason)

    async def answer_quarantine(self, run: str, record: str, *, by: str, reason: str, discard: bool) -> None:
        """Releases or discards a record that was set aside. Raises NotFound."""
        now = self._clock.now()
        await answer_quarantine(self.store, run, record, by=by, reason=reason, discard=discard, now=now)
        if self.store.run(run).ended_at is None:
            self.engine.wake(run)

    async def follow(self, run: str, on_turn: Callable[[], None], patience: int = PATIENCE) -> RunView:
        """Follows a run until it rests."""
        return await self.following.follow(run, on_turn, patience)

    async def hold(self, hold: Hold) -> None:
        """Holds a connection, a flow or a record, or releases it: one wish after the other."""
        async with self._holding:
            await self._hold(hold)

    async def _hold(self, hold: Hold) -> None:
        limits = self.engine.limits
        keeper = self.store.holder(hold.name) if hold.kind == "record" else ""
        fact = fact_for(hold, self.store.site_holds(), self._clock.now(), keeper=keeper)
        if hold.kind == "record":  # checked in the transaction of every intent, so the engine need not know
            await self.store.site(fact)
            await self.engine.wake_next(hold.name)
            return
        if hold.is_held:
            limits.hold(hold.what, hold.by)  # first: every intent that is older than the fact was decided before it
        try:
            await self.store.site(fact)
        except StoreError:
            if hold.is_held:
                limits.release(hold.what)
            raise
        if not hold.is_held:
            limits.release(hold.what)

    async def _serve(self, request: Mapping[str, Json], tell: Tell) -> Mapping[str, Json]:
        """One request of another process."""
        word = request["order"]
        if self.rests and word not in WHILE_RESTING:
            raise StoreError(told_restored(self.store))
        if (answer := REQUESTS.get(word)) is None:
            raise NotPossible(f'the engine does not know the order "{word}"')
        return await answer(self, request, tell)

    async def follow_for(self, run: str, patience: int, tell: Tell) -> RunView:
        """Follows a run for another process and tells it of each turn."""
        return await self.following.follow_for(run, patience, tell)
