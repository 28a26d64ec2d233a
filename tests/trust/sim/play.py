"""Plays one seed: a storm, then calm, and everything that is said about what is left."""

from __future__ import annotations

import atexit
import hashlib
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from runner.contract import digest
from runner.core import events as e
from runner.language.bundle import Bundle, patterns
from runner.store.facts import NewRun
from tests.laws.flows import ACTIONS, corpus
from tests.laws.oracle import violations
from tests.laws.play import GENTLE, STORMY, start_of
from tests.laws.replay import replay_faults
from tests.laws.staff import Staff
from tests.laws.story import Story
from tests.laws.world import Landed, RandomPeople
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import broken
from tests.trust.sim.city import TROUBLE, City, Life
from tests.trust.sim.loop import START
from tests.trust.sim.machine import simulated
from tests.trust.sim.receivers import Services, arrived

STORM = 400_000_000
"""ms after which all is calm, if the runs have not come to rest before."""
REPLAYED = 4
"""Of so many seeds one is also decided again (I26)."""


FAULTS = (
    "nobody listens", "slow down", "closed for repairs", "a clear no", "the answer is lost", "the request is lost",
    "the effect comes after the answer was given up", "the key was seen before", "a question has no answer",
    "somebody else's record is found", "the connector breaks off",
    "the answer takes nearly all of its time", "the request cannot be built",
    "a commit is kept and raises", "a commit is lost and raises", "killed behind a commit", "killed before a commit",
    *TROUBLE, "an engine whose turn is over acts",
    "a person clicks twice", "a person's word comes too late", "somebody acts in the middle of a turn",
    "what was reported is reported again", "the same event comes twice",
)  # fmt: skip
"""Every kind of fault, by the name that it is counted under when it has truly happened."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """What became of a seed."""

    seed: int
    flows: tuple[str, ...]
    wrong: tuple[str, ...]
    trace: tuple[str, ...]
    happened: Counter[str]
    effects: int
    events: int
    ended: Counter[str]

    @property
    def hash(self) -> str:
        """Stands for the whole trace."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


def flows_of(seed: int) -> list[str]:
    """Which flows a seed plays: in turn, so that some seeds are enough for all; now and then two runs."""
    names = list(corpus())
    first = names[seed % len(names)]
    return [first] if seed % 3 else [first, names[(seed * 7 + 3) % len(names)]]


def play(seed: int, names: Sequence[str] = (), *, trouble: Sequence[str] | None = None, faults: bool = True) -> Played:
    """One seed. `names`: these flows instead of its own; `trouble`: these instead of what the seed plans."""
    names = list(names) or flows_of(seed)
    rng = random.Random(f"city {seed}")
    kind = seed % 4
    planned = [] if kind == 0 else [rng.choice(TROUBLE) for _ in range(rng.choice([1, 1, 2, 3]))]
    rate = (0 if kind == 0 else rng.choice([0, 1, 4])) if faults else 0
    place = Path(tempfile.mkdtemp(prefix="sim-", dir=shelf()))
    with simulated():
        city = City(seed, place, rng, rate=rate, trouble=planned if trouble is None else trouble)
        try:
            shutil.copytree(empty_project(), place, dirs_exist_ok=True)
            city.staff = Staff.at_random(rng)
            city.staff.clock = _Clock(city)  # type: ignore[assignment]
            news = [_enter(city, name, number, kind) for number, name in enumerate(names, 1)]
            return _played(city, names, news)
        except KeyError as missing:  # an outcome without its intent
            found = [what for services in city.services.values() for what in services.wrong]
            return _told(city, names, [*found, f"I27: a log cannot be read, there is no {missing}"])
        finally:
            city.close()
            shutil.rmtree(place, ignore_errors=True)


class _Clock:
    """The world's time, for whoever asks who may approve now."""

    def __init__(self, city: City) -> None:
        self._city = city

    @property
    def at(self) -> int:
        return self._city.now


def _enter(city: City, name: str, number: int, kind: int) -> tuple[NewRun, e.RunStarted]:
    """A run with its services and its people."""
    bundle = bundles()[name]
    rng, run = city.rng, f"r{number}"
    services = Services(bundle, rng, GENTLE if kind == 0 else STORMY, city.happened)
    assert city.staff is not None
    services.ledger.staff = city.staff
    people = RandomPeople(
        services, rng, operations=rng.choice([0, 1, 2, 4]) if kind != 1 else 0, answers=kind != 2,
        is_honest=city.seed % 10 != 9,
    )  # fmt: skip
    life = Life(run=run, bundle=bundle, services=services, people=people)
    people.log = life  # type: ignore[assignment]
    started = replace(start_of(bundle, run), run_key=f"event-{number}")
    new = NewRun(
        run=run, flow=started.flow, mode=started.mode, run_key=started.run_key, rerun=0, bundle=bundle.digest,
        title="", owner=started.owner, record=started.record, inputs_digest=digest(started.inputs), event=started,
        receipt=("trigger", started.run_key), starter=started.starter,
    )  # fmt: skip
    city.add(life, new)
    if bundle.follow is not None:
        follow = bundles()[bundle.follow.id]
        city.bundles[follow.digest] = follow
    return new, started


def _played(city: City, names: Sequence[str], news: Sequence[tuple[NewRun, e.RunStarted]]) -> Played:
    for new, event in news:
        city.at(START + city.rng.choice([0, 0, 10, 4_000]), partial(_start, city, new, event))
    city.boot()
    city.run(lambda: city.now > START + STORM or _all_ended(city))
    wrong: list[str] = []
    if not _all_ended(city):
        city.happened["the storm ends before the runs do"] += 1
        wrong += _resting(city)
        city.calm()
        for new, event in news:
            _start(city, new, event)
        city.run(lambda: _all_ended(city))
        wrong += [
            f"liveness: when all is calm {run} does not end, it is {what}" for run, what in city.resting().items()
        ]
    wrong += judge(city)
    return _told(city, names, wrong)


def _told(city: City, names: Sequence[str], wrong: Sequence[str]) -> Played:
    ended = Counter(life.state.status for life in city.lives.values() if life.state.has_ended)
    landed = [each for life in city.lives.values() for each in life.services.ledger.landed]
    return Played(
        seed=city.seed, flows=tuple(names), wrong=tuple(wrong), trace=tuple(city.trace), happened=city.happened,
        effects=len(landed), events=sum(life.seq for life in city.lives.values()), ended=ended,
    )  # fmt: skip


def _start(city: City, new: NewRun, event: e.RunStarted) -> None:
    """Whoever sends the trigger sends it until it is accepted, and some send it twice."""
    leader = city.leader
    if city.lives[new.run].events:
        return
    if leader is None:
        city.at(city.now + 1_000, lambda: _start(city, new, event))
        return
    if not city.is_calm and city.rng.random() < 0.2:
        city.happened["the same event comes twice"] += 1
        other = replace(new, run=f"{new.run}-again", event=replace(event, run=f"{new.run}-again"))
        leader.spawn(leader.store.start(new))
        leader.spawn(leader.store.start(other))
    else:
        leader.spawn(leader.start_run(new, event))
    leader.spawn(_waken(city, new.run))
    city.at(city.now + 60_000, lambda: _start(city, new, event))


async def _waken(city: City, run: str) -> None:
    leader = city.leader
    if leader is not None:
        leader.engine.wake(run)


def _all_ended(city: City) -> bool:
    return all(life.state.has_ended for life in city.lives.values())


def _resting(city: City) -> list[str]:
    """Safety at the end of the storm: whoever waits for a person says for whom."""
    return [
        f"I19: {run} asks about {asked.step}, and nobody is named"
        for run, life in city.lives.items()
        for asked in life.state.open_handoffs
        if not asked.owner or not asked.choices
    ]


# --- the judgement -----------------------------------------------------------------------------------------------------


def judge(city: City) -> list[str]:
    """Every law on every run, and the oracle on the whole installation."""
    wrong: list[str] = []
    effects: Counter[str] = Counter()
    bytes_of: set[str] = set()
    is_honest = city.seed % 10 != 9
    for run, life in city.lives.items():
        wrong += life.services.wrong
        if not life.events:
            continue
        _add_own(life)
        end = "ended" if life.state.has_ended else "moving"
        story = Story(
            bundle=life.bundle, events=tuple(life.events), ledger=life.services.ledger, end=end, is_honest=is_honest
        )
        wrong += [f"{what} ({run}, {life.bundle.flow.id})" for what in violations(story)]
        effects.update(each.intent.key for each in life.services.ledger.landed if each.intent.purpose in ("do", "undo"))
        bytes_of |= arrived(life.services)
        if city.seed % REPLAYED == 0:
            wrong += [f"I26: {what} ({run})" for what in replay_faults(life.bundle, life.events)]
    leader = city.leader
    if leader is not None:
        log = Installation.read(leader.store, now=city.now, bundles=city.bundles)
        truth = Truth(
            effects=effects, arrived=frozenset(bytes_of), covers=frozenset({"svc", "quarantine"}), is_honest=is_honest
        )
        wrong += broken(log, truth, with_laws=False)
    wrong += [f"unhandled: {what}" for what in city.unhandled]
    wrong += [f"I29: {run} was started although its event had a run" for run in sorted(city.strangers)]
    for machine in city.machines:
        wrong += [f"unhandled: {what}" for what in machine.loop.unhandled if not what.startswith("told:")]
    return wrong


def _add_own(life: Life) -> None:
    """What was done on our own tables was done together with its outcome."""
    intents = {(*i.call, i.generation, i.attempt): i for i in life.events if isinstance(i, e.CallIntended)}
    for event in life.events:
        if isinstance(event, e.CallApplied) and event.purpose in ("do", "undo"):
            intent = intents[*event.call, event.generation, event.attempt]
            if life.bundle.actions[intent.action].own:
                life.services.ledger.landed.append(
                    Landed(at=event.at, shows=event.at, intent=intent, input={}, output={}, external_id="")
                )


# --- what all seeds share ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def bundles() -> Mapping[str, Bundle]:
    """The corpus, and what follows one of its flows."""
    found = dict(corpus())
    for name, bundle in corpus().items():
        if bundle.follow is not None:
            follow = bundle.follow
            found[follow.id] = Bundle(
                digest=f"of {follow.id}", flow=follow, actions=ACTIONS, steps=patterns(follow, {})
            )  # fmt: skip
            found[name] = replace(bundle, follows=f"of {follow.id}")
    return found


@lru_cache(maxsize=1)
def shelf() -> Path | None:
    """Where the databases of the seeds stand: in memory, where the machine has such a place."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


@lru_cache(maxsize=1)
def empty_project() -> Path:
    """A project folder with an empty database, made once by the real store."""
    place = Path(tempfile.mkdtemp(prefix="sim-empty-", dir=shelf()))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    with simulated():
        city = City(0, place, random.Random(0), rate=0, trouble=())
        city.boot()
        city.close()
    return place
