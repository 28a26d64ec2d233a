"""The world of one seed: machines, runs, receivers and people on one clock, and whatever is planned against them."""

from __future__ import annotations

import asyncio
import heapq
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.contract import digest
from runner.core import events as e
from runner.core.fold import fold
from runner.core.state import State
from runner.core.status import standing_of
from runner.engine.starting import following_id
from runner.errors import AmendsError
from runner.language.bundle import Bundle
from runner.store.facts import AlreadyReported, NewRun
from runner.store.log import StoredRow, decode
from tests.laws.staff import Staff
from tests.laws.world import RandomPeople
from tests.trust.sim.loop import START, Died
from tests.trust.sim.machine import Fate, Machine
from tests.trust.sim.receivers import Intent, Line, Services

DOWNTIME = 5_000
"""ms until a dead engine is missed and another one begins."""
POLL = 29_000
"""Timers of an engine that are at least so far away may come late: it looks then whether something is due."""
MOST_STEPS, MOST_AT_ONCE = 60_000, 3_000
"""Callbacks of one seed, and of one of its moments: who does more is going round in circles."""
TROUBLE = (
    # Each is a method below, with the spaces as underscores.
    "killed", "killed at a write", "stalled, then awake too late", "stopped while calls are out",
    "a clock is set back", "a clock is set forward", "the disk is full for a while",
)  # fmt: skip


@dataclass(kw_only=True)
class Life:
    """One run as the disk has it, with its services and its people."""

    run: str
    bundle: Bundle
    services: Services
    people: RandomPeople
    events: list[e.Event] = field(default_factory=list)
    state: State = field(default_factory=State)
    intents: dict[tuple[str, str, int], tuple[e.CallIntended, int]] = field(default_factory=dict)
    acted_at: int = 0

    @property
    def seq(self) -> int:
        """For the people of the laws: how long the log is."""
        return len(self.events)

    def read(self, event: e.Event, now: int) -> None:
        """The next entry of its log, which stands there now."""
        self.events.append(event)
        self.state = fold(self.state, event)
        if isinstance(event, e.CallIntended):
            self.intents[event.key, event.purpose, event.fence] = event, now


class City:
    """Everything of one seed. `folder` is an empty folder, or one with an empty database in it."""

    def __init__(self, seed: int, folder: Path, rng: random.Random, *, rate: float, trouble: Sequence[str]) -> None:
        self.seed = seed
        self.folder = folder
        self.rng = rng
        self.rate = rate
        self.now = START
        self.happened: Counter[str] = Counter()
        self.trace: list[str] = []
        self.lives: dict[str, Life] = {}
        self.services: dict[str, Services] = {}
        self.bundles: dict[str, Bundle] = {}
        self.staff: Staff | None = None
        self.machines: list[Machine] = []
        self.steps = 0
        self.is_calm = False
        self.unhandled: list[str] = []
        self.strangers: set[str] = set()
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = 0
        self._plans = sorted((rng.randint(3, 45), name) for name in trouble)
        self._due: list[str] = []
        self._full_until = 0
        self._raw: sqlite3.Connection | None = None

    # -- what the engine sees of it --

    def bundle(self, digest: str) -> Bundle:
        """See `driven.Outside`."""
        return self.bundles[digest]

    def fate(self) -> Fate:
        """What becomes of the next commit."""
        if self.is_calm:
            return "kept"
        if self.now < self._full_until:
            self.happened["the disk is full for a while"] += 1
            return "full"
        if self.rng.random() * 100 >= self.rate:
            return "kept"
        fates: tuple[Fate, ...] = ("error_kept", "error_lost", "crash_kept", "crash_lost")
        fate = self.rng.choice(fates)
        names = {
            "error_kept": "a commit is kept and raises", "error_lost": "a commit is lost and raises",
            "crash_kept": "killed behind a commit", "crash_lost": "killed before a commit",
        }  # fmt: skip
        self.happened[names[fate]] += 1
        self.say(names[fate])
        return fate

    def durable(self, key: str, purpose: str, fence: int) -> Intent | None:
        """The intent of this call as the disk has it."""
        self.look()
        for life in self.lives.values():
            if (key, purpose, fence) in life.intents:
                event, since = life.intents[key, purpose, fence]
                return Intent(run=life.run, event=event, length=life.seq, since=since)
        return None

    # -- what happens --

    def say(self, what: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.now - START:>12} {what}")

    def at(self, when: int, do: Callable[[], None]) -> None:
        """Something happens then; what was planned first happens first."""
        self._counter += 1
        heapq.heappush(self._agenda, (when, self._counter, do))

    def add(self, life: Life, new: NewRun) -> None:
        """A run that will be started."""
        self.lives[new.run] = life
        self.services[new.run] = life.services
        self.bundles[life.bundle.digest] = life.bundle

    @property
    def leader(self) -> Machine | None:
        """The engine that has the newest fence, if it is up."""
        alive = [each for each in self.machines if each.state == "up"]
        return max(alive, key=lambda each: each.fence, default=None)

    def boot(self) -> Machine:
        """A new engine process begins."""
        machine = Machine(f"engine {len(self.machines) + 1}", self.folder, lambda: self.now, self.fate)
        self.machines.append(machine)
        workers = 8 if self.is_calm else self.rng.choice([1, 2, 8, 8])
        desk: Any = self.staff
        machine.begin(Places(self, machine), desk, workers)
        self.say(f"{machine.name} begins under fence {machine.fence}")
        return machine

    def kill(self, machine: Machine, why: str) -> None:
        """A process is gone at once; another one is started after a while."""
        self.say(f"{machine.name} is dead: {why}")
        machine.die()
        self.at(self.now + DOWNTIME, self._boot_if_none)

    def _boot_if_none(self) -> None:
        if self.leader is None:
            self.boot()

    def calm(self) -> None:
        """All faults end, everybody answers, one engine is up."""
        self.is_calm = True
        self._plans, self._due = [], []
        self.say("all is calm from here on")
        for life in self.lives.values():
            life.services.calm()
            life.people.calm()
        for machine in self.machines:
            machine.clock.skew = 0
            if machine.state == "stalled":
                machine.die()
        self._boot_if_none()

    # -- time --

    def run(self, until: Callable[[], bool]) -> bool:
        """Turns the world until this holds (True), or nothing happens any more, or patience ends (False)."""
        idle, since = 0, self.steps
        while self.steps < MOST_STEPS:
            if self._step():
                if self.steps - since > MOST_AT_ONCE:
                    self.unhandled.append("an engine goes round in circles, and no time passes")
                    return False
                continue
            since = self.steps
            self.look()
            if until():
                return True
            at = self._next()
            if at is None:
                if idle >= 3:
                    return False
                idle += 1
                at = min((m.loop.next_timer or self.now + POLL for m in self.machines if m.state == "up"), default=0)
                if not at:
                    return False
            else:
                idle = 0
            self.now = max(self.now, at)
            self._pass()
        return False

    def _step(self) -> bool:
        """One callback of one machine; which one is chance. False when none has anything to do."""
        ready = [machine for machine in self.machines if machine.state == "up" and machine.loop.is_ready]
        if not ready:
            return False
        self.steps += 1
        for each in ready:
            each.writer.has_intended = False
        machine = ready[0] if len(ready) == 1 else self.rng.choice(ready)
        try:
            machine.loop.step()
        except Died:
            self.kill(machine, "at a commit")
        if machine.has_failed and machine.state == "up":
            self.kill(machine, "it could not begin")
        if not self.is_calm:
            self._trouble(machine)
            if self.rng.random() < 0.004:
                self._interrupt()
        return True

    def _next(self) -> int | None:
        times = [self._agenda[0][0]] if self._agenda else []
        leader = self.leader
        if leader is not None:
            due = self._disk.execute(_NEXT_DUE).fetchone()[0]
            if due is not None and due - leader.clock.skew > self.now:
                times.append(due - leader.clock.skew)
            for life in self.lives.values():
                if life.events and not life.state.has_ended:
                    at = life.people.next_at(life.state, self.now)
                    times += [] if at is None else [max(at, life.acted_at + 1_000)]
        for machine in self.machines:
            if machine.state == "up" and (timer := machine.loop.next_timer) is not None and timer < self.now + POLL:
                times.append(timer)
        return min(times, default=None)

    def _pass(self) -> None:
        """What is due happens."""
        while self._agenda and self._agenda[0][0] <= self.now:
            heapq.heappop(self._agenda)[2]()
        leader = self.leader
        if leader is None:
            return
        for life in [*self.lives.values()]:
            if not life.events or life.state.has_ended or life.acted_at + 1_000 > self.now:
                continue
            at = life.people.next_at(life.state, self.now)
            if at is not None and at <= self.now:
                life.acted_at = self.now
                made = life.people.acts(life.bundle, life.state, max(self.now, life.state.at))
                self._report(leader, life, made, life.state.seq)

    # -- people --

    def _interrupt(self) -> None:
        """Somebody acts in the middle of a turn."""
        leader, open_ = self.leader, [life for life in self.lives.values() if life.events and not life.state.has_ended]
        if leader is None or not open_:
            return
        life = self.rng.choice(open_)
        made = life.people.interrupts(life.bundle, life.state, max(self.now, life.state.at))
        if made:
            self.happened["somebody acts in the middle of a turn"] += 1
            self._report(leader, life, made, life.state.seq)

    def _report(self, machine: Machine, life: Life, made: Sequence[e.Event], seq: int) -> None:
        for event in made:
            self.say(f"people: {type(event).__name__} {event.step} of {life.run}")
            if not isinstance(event, e.EventReceived) and not self.is_calm and self.rng.random() < 0.15:
                self.happened["a person clicks twice"] += 1
                machine.spawn(self._reported(machine, life.run, event, seq))
            machine.spawn(self._reported(machine, life.run, event, seq))
            seq += 1

    async def _reported(self, machine: Machine, run: str, event: e.Event, seq: int) -> None:
        """As the app takes a person's word: where the run stands as it was looked at."""
        try:
            if isinstance(event, e.EventReceived):
                await machine.engine.send_event(event.event_id, event.event, event.data, "outside")
            else:
                await machine.store.report(run, event, seq)
        except AlreadyReported:
            self.happened["what was reported is reported again"] += 1
        except AmendsError as refused:
            self.happened["a person's word comes too late"] += 1
            self.say(f"people: refused, {type(refused).__name__}")
        machine.engine.wake(run)

    # -- trouble --

    def _trouble(self, machine: Machine) -> None:
        """What is planned happens once the logs are so long, and as soon as its moment has come."""
        length = sum(life.seq for life in self.lives.values())
        while self._plans and self._plans[0][0] <= length:
            self._due.append(self._plans.pop(0)[1])
        for name in [*self._due]:
            if machine.state == "up" and self._is_moment(name, machine):
                self._due.remove(name)
                getattr(self, "_" + name.replace(",", "").replace(" ", "_"))(machine)
                self.happened[name] += name != "the disk is full for a while"

    def _is_moment(self, name: str, machine: Machine) -> bool:
        """An engine that dies at a write has writes in its hands; one that stalls often has a call that has not left."""
        if name == "killed at a write":
            return bool(machine.writer._line)
        if name == "stalled, then awake too late":
            return machine.writer.has_intended or self.rng.random() < 0.02
        return True

    def _killed(self, machine: Machine) -> None:
        self.kill(machine, "killed")

    def _killed_at_a_write(self, machine: Machine) -> None:
        self.kill(machine, "killed with writes in its hands")

    def _stalled_then_awake_too_late(self, machine: Machine) -> None:
        machine.state = "stalled"
        span = self.rng.choice([1_000, 4_000, 6_000, 40_000, 4_000_000])
        self.say(f"{machine.name} stalls for {span} ms")
        self.at(self.now + DOWNTIME, self._boot_if_none)
        self.at(self.now + span, lambda: self._wake(machine))

    def _wake(self, machine: Machine) -> None:
        if machine.state != "stalled":
            return
        machine.state = "up"
        is_late = any(other.fence > machine.fence for other in self.machines)
        self.happened["an engine whose turn is over acts"] += is_late
        self.say(f"{machine.name} is awake" + (", and another one has taken over" if is_late else ""))
        if is_late:
            self.at(self.now + self.rng.choice([50, 3_000, 90_000]), machine.die)

    def _stopped_while_calls_are_out(self, machine: Machine) -> None:
        self.say(f"{machine.name} is told to stop")

        async def leave() -> None:
            await machine.leave()
            self.kill(machine, "it has stopped")

        machine.spawn(leave())

    def _a_clock_is_set_back(self, machine: Machine) -> None:
        machine.clock.skew -= self.rng.choice([500, 2_500])

    def _a_clock_is_set_forward(self, machine: Machine) -> None:
        machine.clock.skew += self.rng.choice([200, 400])

    def _the_disk_is_full_for_a_while(self, machine: Machine) -> None:
        self._full_until = self.now + self.rng.choice([500, 20_000])

    # -- the disk --

    @property
    def _disk(self) -> sqlite3.Connection:
        """Who looks at the disk from outside."""
        if self._raw is None:
            path = self.machines[0].store._file.name
            self._raw = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        return self._raw

    def look(self) -> None:
        """Reads what is new on the disk."""
        new = self._disk.execute("SELECT run_id, seq FROM runs").fetchall()
        for run, count in new:
            life = self.lives.get(run) or self._follow(run)
            if life is None or count == life.seq:
                continue
            rows = self._disk.execute(_ROWS, (run, life.seq)).fetchall()
            for row in rows:
                event = decode(StoredRow._make(row))
                assert event is not None
                life.read(event, self.now)
                self.trace.append(_line(self.now, run, life.seq, event))

    def _follow(self, run: str) -> Life | None:
        """A run that was started by the end of another; None for one that nobody should have started."""
        first = next((life for life in self.lives.values() if following_id(life.run) == run), None)
        if first is None:
            self.strangers.add(run)
            return None
        bundle = self.bundles[first.bundle.follows]
        services = Services(bundle, self.rng, first.services.faults, self.happened)
        services.ledger.staff = first.services.ledger.staff
        people = RandomPeople(services, self.rng, operations=0)
        life = Life(run=run, bundle=bundle, services=services, people=people)
        people.log = life  # type: ignore[assignment]
        if self.is_calm:
            services.calm()
            people.calm()
        self.lives[run], self.services[run] = life, services
        return life

    def close(self) -> None:
        """Throws the world away."""
        for machine in self.machines:
            machine.bury()
        if self._raw is not None:
            self._raw.close()

    def resting(self) -> Mapping[str, str]:
        """Whom or what each open run waits for."""
        standings = {run: standing_of(life.state) for run, life in self.lives.items() if not life.state.has_ended}
        return {run: f"{each.status} {each.needs or each.waiting_for}" for run, each in standings.items()}


_NEXT_DUE = "SELECT min(wake_at) FROM runs WHERE ended_at IS NULL AND wake_at IS NOT NULL"
_ROWS = (
    "SELECT seq, at, type, step, external_id, digest, hash, guard, salt, data FROM log"
    " WHERE run_id = ? AND seq > ? ORDER BY seq"
)


def _line(now: int, run: str, seq: int, event: e.Event) -> str:
    data = {name: value for name, value in e.payload(event).items() if name not in ("request", "shown")}
    text = f"{type(event).__name__} {event.step} {data}"
    return f"{now - START:>12} {run} {seq:>3} {text[:240]} #{digest(e.payload(event))[:8]}"


class Places:
    """What one machine's engine sees of the services."""

    def __init__(self, city: City, machine: Machine) -> None:
        self._city = city
        self._machine = machine
        self.fence = machine.fence

    def bundle(self, digest: str) -> Bundle:
        """See `driven.Outside`."""
        return self._city.bundles[digest]

    def connector(self, bundle: Bundle, connection: str) -> Any:
        """See `driven.Outside`."""
        city = self._city
        mine = next(life.services for life in city.lives.values() if life.bundle.digest == bundle.digest)
        return Line(connection, city.services, mine, self, city.durable, lambda: city.now)

    def wait_for(self, ms: int) -> asyncio.Future[None]:
        """Done after so many ms of the world, if the machine lives then."""
        future: asyncio.Future[None] = self._machine.loop.create_future()

        def answer() -> None:
            if self._machine.state != "gone":
                self._machine.loop.call_soon(lambda: None if future.done() else future.set_result(None))

        self._city.at(self._city.now + ms, answer)
        return future
