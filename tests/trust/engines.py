"""The same schedules on every engine: embedded on SQLite, embedded on PostgreSQL, a Temporal cluster on PostgreSQL.

python -m tests.trust engines --schedules 200

A schedule is a flow of the laws' corpus, what its services answer and after how long, what people do and when, all of it
by one seed. Stores, engines and the cluster are the real ones; only the clock is turned by hand, and only when nothing
moves: the run rests, or waits for calls that are all out. So the logs must be equal in every entry, times included (what
differs is which engine it was), and so must what the services did.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runner.contract import Outcome, Purpose, Request, digest
from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.state import State
from runner.engine.carrier import Carrier
from runner.engine.driven import Driven, OpenDesk
from runner.engine.embedded import Embedded
from runner.engine.simulated import VirtualClock
from runner.engine.temporal import engine as temporal
from runner.errors import AmendsError
from runner.language.bundle import Bundle
from runner.language.settings import Cluster
from runner.store.facts import NewRun
from runner.store.sql import SqlStore, open_store
from tests.laws.flows import corpus
from tests.laws.play import GENTLE, STORMY, small_pages, start_of
from tests.laws.staff import NEVER, Staff
from tests.laws.world import RandomPeople
from tests.support.postgres import running_postgres
from tests.support.temporal import running_temporal
from tests.trust.figures import Figures
from tests.trust.sim.receivers import Services

ENGINES = ("embedded on SQLite", "embedded on PostgreSQL", "Temporal on PostgreSQL")
START = VirtualClock().at
APART = 400 * 86_400_000
"""ms between the beginnings of two schedules: nothing of one concerns the next."""
CALM_AFTER, MOST_TURNS = 60, 600
"""Turns of the clock after which nothing goes wrong any more; and after which a schedule is given up."""
LONGEST = 60.0
"""Seconds that an engine may take until nothing moves."""


@dataclass(kw_only=True)
class Play:
    """One schedule on one engine."""

    run: str
    bundle: Bundle
    services: Services
    people: RandomPeople
    intents: dict[tuple[str, str], e.CallIntended] = field(default_factory=dict)
    parked: list[tuple[int, int, asyncio.Future[None]]] = field(default_factory=list)
    waiting: Driven | None = None
    events: Sequence[e.Event] = ()
    state: State = field(default_factory=State)
    acted_at: int = 0
    stale: tuple[int, int] = (0, 0)

    @property
    def seq(self) -> int:
        """For the people of the laws: how long the log is."""
        return len(self.events)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a schedule gave: one line an entry of the log, one line an effect at the services."""

    log: tuple[str, ...]
    effects: tuple[str, ...]
    has_ended: bool


class Stage(OpenDesk):
    """One engine with its store; also the outside and the desk that it sees."""

    def __init__(self, name: str, store: SqlStore, clock: VirtualClock) -> None:
        self.name = name
        self.store = store
        self.clock = clock
        self.play: Play | None = None
        self.engine: Any = None
        self.resting: list[asyncio.Task[None]] = []

    @property
    def now(self) -> Play:
        """What is played."""
        assert self.play is not None
        return self.play

    # -- what the engine sees --

    def bundle(self, digest: str) -> Bundle:
        """See `driven.Outside`."""
        return next(each for each in corpus().values() if each.digest == digest)

    def connector(self, bundle: Bundle, connection: str) -> Any:
        """See `driven.Outside`."""
        return Door(self, connection)

    def entitled(self, bundle: Bundle, state: State, by: tuple[str, ...], now: int) -> tuple[str, ...]:
        """See `driven.Desk`."""
        return self.now.services.ledger.staff.entitled(bundle, state, by, now)

    def leads_to(self, bundle: Bundle, connection: str) -> str:
        """See `driven.Desk`."""
        return self.now.services.ledger.staff.leads_to(bundle, connection)

    def observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        """A turn is committed; its calls leave after this."""
        for event in events:
            if isinstance(event, e.CallIntended):
                self.now.intents[event.key, event.purpose] = event

    # -- one schedule --

    async def plays(self, seed: int, run: str, index: int) -> Told:
        """Plays it to its end."""
        offset = index * APART
        self.clock.at = START + offset
        self.play = play = entered(seed, run, offset, self.clock)
        event = replace(start_of(play.bundle, run), at=self.clock.at, run_key=run)
        new = NewRun(
            run=run, flow=event.flow, mode=event.mode, run_key=run, rerun=0, bundle=play.bundle.digest, title="",
            owner=event.owner, record=event.record, inputs_digest=digest(event.inputs), event=event,
            receipt=("trigger", run), starter=event.starter,
        )  # fmt: skip
        self.engine.begin(await self.store.start(new), event)
        for turn in range(MOST_TURNS):
            await self._until_nothing_moves(play)
            if play.state.has_ended:
                break
            if turn >= CALM_AFTER and not play.services.is_calm:
                play.services.calm()
                play.people.calm()
            if not await self._turn(play):
                if play.services.is_calm:
                    break
                play.services.calm()
                play.people.calm()
        await asyncio.wait(self.resting, timeout=LONGEST)
        self.resting.clear()
        return Told(
            log=tuple(line for each in play.events for line in [shown(each)]), has_ended=play.state.has_ended,
            effects=tuple(
                f"{each.at - offset} {each.intent.step} {each.intent.purpose} {each.intent.key} {each.input}"
                for each in play.services.ledger.landed
            ),
        )  # fmt: skip

    async def _until_nothing_moves(self, play: Play) -> None:
        resting = asyncio.create_task(self.engine.rest(play.run))
        self.resting.append(resting)
        async with asyncio.timeout(LONGEST):
            while not resting.done() and not self._waits_for_calls(play):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        if resting.done():
            await resting
        rows = [row.event for row in self.store.log(play.run)]
        play.events = tuple(event for event in rows if event is not None)
        play.state = fold_all(play.events)

    def _waits_for_calls(self, play: Play) -> bool:
        driven = play.waiting
        return driven is not None and not driven.woken.is_set() and len(driven.calls) == len(play.parked) > 0

    async def _turn(self, play: Play) -> bool:
        """Turns the clock to what comes next and has it happen. False where nothing would come."""
        now, view = self.clock.at, self.store.run(play.run)
        due = view.wake_at if (view.wake_at, play.seq) != play.stale else None
        asks = play.people.next_at(play.state, now)
        times = {
            "call": min(play.parked)[0] if play.parked else None,
            "timer": due,
            "person": None if asks is None else max(asks, play.acted_at + 1_000),
        }
        coming = {what: max(at, now) for what, at in times.items() if at is not None}
        if not coming:
            return False
        what = min(coming, key=lambda word: coming[word])
        self.clock.at = coming[what]
        if what == "call":
            play.parked.sort()
            play.parked.pop(0)[2].set_result(None)
            await _until_taken(play)
        elif what == "timer":
            play.stale = (view.wake_at or 0, play.seq)
            self.engine.wake(play.run)
        else:
            await self._act(play)
        return True

    async def _act(self, play: Play) -> None:
        play.acted_at = self.clock.at
        made = play.people.acts(play.bundle, play.state, max(self.clock.at, play.state.at))
        seq: int | None = play.seq
        for event in made:
            with contextlib.suppress(AmendsError):
                if isinstance(event, e.EventReceived):
                    await self.engine.send_event(f"{play.run}-{event.event_id}", event.event, event.data, "outside")
                else:
                    await self.store.report(play.run, event, seq)
                    seq = None if seq is None else seq + 1
        self.engine.wake(play.run)


async def _until_taken(play: Play) -> None:
    """The engine has heard of the answer: it waits no more, or for fewer calls."""
    count = len(play.parked)
    async with asyncio.timeout(LONGEST):
        while play.waiting is not None and len(play.waiting.calls) > count:  # noqa: ASYNC110
            await asyncio.sleep(0)


class Door:
    """A connector of the stage: what a call comes to is decided as it arrives, and told when the clock gets there."""

    def __init__(self, stage: Stage, connection: str) -> None:
        self._stage = stage
        self._connection = connection

    def origin(self) -> str:
        """See `contract.Connector`."""
        return f"https://{self._connection}.example.test"

    def prepare(self, action: str, input: Mapping[str, Any], *, key: str, purpose: str) -> Request:
        """See `contract.Connector`. Raises RequestError."""
        play = self._stage.now
        request: Request = play.services.connect(self._connection).prepare(action, input, key=key, purpose=purpose)
        if play.bundle.actions[f"{self._connection}.{action}"].own:
            return Request.of({"own": f"{self._connection}.{action}", "input": dict(input)})
        return request

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        """See `contract.Connector`."""
        play, now = self._stage.now, self._stage.clock.at
        outcome, after = play.services.ask(play.intents[key, purpose], request, now, 0)
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        play.parked.append((now + after, len(play.services.ledger.touches), parked))
        await parked
        if outcome is None:
            raise RuntimeError("the connector broke off")
        return outcome


def names() -> list[str]:
    """The flows that are played: those that no other run follows."""
    return [name for name, bundle in corpus().items() if bundle.follow is None]


def entered(seed: int, run: str, offset: int, clock: VirtualClock) -> Play:
    """A schedule at its beginning: its flow, services and people."""
    flows, rng, kind = names(), random.Random(f"engines {seed}"), seed % 4
    bundle = corpus()[flows[seed % len(flows)]]
    services = Services(bundle, rng, GENTLE if kind == 0 else STORMY, Counter())
    staff = Staff.at_random(rng)
    staff.gone, staff.moved = (at if at == NEVER else at + offset for at in (staff.gone, staff.moved))
    staff.clock, services.ledger.staff = clock, staff
    people = RandomPeople(services, rng, operations=rng.choice([0, 1, 2, 4]) if kind != 1 else 0, answers=kind != 2)
    play = Play(run=run, bundle=bundle, services=services, people=people)
    people.log = play  # type: ignore[assignment]
    return play


def shown(event: e.Event) -> str:
    """An entry of a log, but for the fence of who wrote it."""
    told = {name: value for name, value in e.payload(event).items() if name != "fence"}
    return f"{event.at} {type(event).__name__} {event.step} {told}"


# --- the engines -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Inside of it a stage knows when its engine waits for calls; nothing lingers, as the clock stands still."""
    outcomes = Carrier._outcomes

    async def waits(self: Carrier, driven: Driven) -> tuple[e.Event, ...]:
        stage: Any = self._outside
        stage.now.waiting = driven
        try:
            return await outcomes(self, driven)
        finally:
            stage.now.waiting = None

    with pytest.MonkeyPatch.context() as patch, small_pages():
        patch.setattr(Carrier, "_outcomes", waits)
        patch.setattr(temporal, "LINGERS", -1)
        yield


@contextlib.asynccontextmanager
async def staged(name: str, url: str, cluster: str) -> AsyncIterator[Stage]:
    """One engine, started."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        clock, place = VirtualClock(), Path(folder)
        drives = "Temporal" not in name
        store = open_store(place, clock=clock, writable=True, url=url, floor=0, drives=drives)
        opened.callback(store.close)
        stage = Stage(name, store, clock)
        outside: Any = stage
        if drives:
            stage.engine = Embedded(store, outside, clock, workers=8, desk=stage)
        else:
            stage.engine = temporal.TemporalEngine(
                store, outside, clock, workers=8, desk=stage, folder=place, secret=lambda _: "",
                cluster=Cluster(address=cluster, queue=f"q{secrets.token_hex(6)}"),
            )  # fmt: skip
        stage.engine.observers.append(stage.observe)
        await stage.engine.start()
        try:
            yield stage
        finally:
            await stage.engine.stop(0.0)


async def told_by(name: str, url: str, cluster: str, seeds: Sequence[int], nonce: str) -> list[Told]:
    """What these schedules give on one engine."""
    async with staged(name, url, cluster) as stage:
        return [await stage.plays(seed, f"q{nonce}{seed}", index) for index, seed in enumerate(seeds)]


@contextlib.contextmanager
def places() -> Iterator[tuple[list[str], str]]:
    """The address of a database for each engine, and that of a cluster."""
    with running_postgres(is_durable=True) as server, running_temporal() as cluster:
        urls = [""]
        for number in range(1, len(ENGINES)):
            with psycopg.connect(f"{server.address}/postgres", autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA engine{number}".encode())
            urls.append(f"{server.address}/postgres?options=-csearch_path%3Dengine{number}")
        yield urls, cluster.address


def differences(seeds: Sequence[int], told: Mapping[str, Sequence[Told]]) -> list[str]:
    """Where engines do not say the same."""
    first, *others = told
    found = []
    for at, seed in enumerate(seeds):
        flow = names()[seed % len(names())]
        if not told[first][at].has_ended:
            found.append(f"schedule {seed} ({flow}) does not end")
        for other in others:
            for what in ("log", "effects"):
                mine, theirs = getattr(told[first][at], what), getattr(told[other][at], what)
                if mine != theirs:
                    where = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), -1)
                    said = [(*each, "nothing more")[where] for each in (mine, theirs)]
                    found.append(f"schedule {seed} ({flow}), {what} {where}: {first}: {said[0]} | {other}: {said[1]}")
                    break
    return found


# --- the suite -------------------------------------------------------------------------------------------------------


def compared(seeds: Sequence[int], urls: Sequence[str], cluster: str, mistake: str = "") -> dict[str, list[Told]]:
    """What they give on every engine; with a mistake of the last one: on the first and on that."""
    nonce, told = secrets.token_hex(3), {}
    for name, url in zip(ENGINES, urls, strict=True):
        if mistake and name not in (ENGINES[0], ENGINES[-1]):
            continue
        with watched(), pytest.MonkeyPatch.context() as patch:
            if mistake and name == ENGINES[-1]:
                PLANTED[mistake](patch)
            told[name] = asyncio.run(told_by(name, url, cluster, seeds, nonce))
    return told


def _late(patch: pytest.MonkeyPatch) -> None:
    now = temporal.TemporalEngine._now
    patch.setattr(temporal.TemporalEngine, "_now", lambda self, state: now(self, state) + 1)


def _twice(patch: pytest.MonkeyPatch) -> None:
    perform = temporal.TemporalEngine._perform

    async def performed(self: Carrier, driven: Driven, intent: e.CallIntended, committed: int) -> Outcome:
        stage: Any = self._outside
        services = stage.now.services
        services._land(intent, stage.now.bundle.actions[intent.action], Request.of({"input": {}}), stage.clock.at)
        return await perform(self, driven, intent, committed)

    patch.setattr(temporal.TemporalEngine, "_perform", performed)


PLANTED: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a driver whose clock is 1 ms ahead": _late, "a driver that makes every call twice": _twice,
}  # fmt: skip
SEEN_IN = (3,)
"""The schedule of a step of every class, in which each shows."""


def run(argv: Sequence[str]) -> int:
    """See `tests.trust.__main__`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust engines")
    words.add_argument("--schedules", type=int, default=200)
    words.add_argument("--first", type=int, default=0)
    given = words.parse_args(argv)
    figures, began = Figures(), time.monotonic()
    logging.getLogger("amends").setLevel(logging.CRITICAL)
    seeds = range(given.first, given.first + given.schedules)
    with places() as (urls, cluster):
        told = compared(seeds, urls, cluster)
        planted = {name: differences(SEEN_IN, compared(SEEN_IN, urls, cluster, name)) for name in PLANTED}
    figures.say("wall", f"{time.monotonic() - began:.0f} s")
    for name, each in told.items():
        entries, effects = sum(len(one.log) for one in each), sum(len(one.effects) for one in each)
        figures.say(name, f"{len(each)} schedules, {entries} entries, {effects} effects")
    figures.broken(differences(seeds, told))
    figures.planted({name: found[0][:200] if found else "" for name, found in planted.items()})
    figures.floor("effects", sum(len(one.effects) for one in told[ENGINES[0]]), given.schedules)
    return figures.code
