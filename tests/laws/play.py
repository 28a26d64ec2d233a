"""Plays one run of the corpus under one seed: chance faults first, then calm, and every law on what is left."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from runner.core import events as e
from runner.core import recall, scopes
from runner.engine.advance import Turn
from runner.engine.simulated import MemoryLog, Result, Simulation
from runner.language.bundle import Bundle
from tests.laws.flows import inputs_of
from tests.laws.oracle import violations
from tests.laws.states import state_faults
from tests.laws.story import Story
from tests.laws.world import Faults, RandomOutside, RandomPeople, RandomWeather

STARTED_AT = 1_788_220_800_000
STORMY = Faults()
GENTLE = Faults(refused=2, rate_limited=3, unavailable=1, not_sent=3, unknown_with=3, unknown_without=2, odd_answer=1)


@dataclass(frozen=True, kw_only=True)
class Played:
    """What a seed gave: the story, and what is wrong with it (at the rest before the calm, and at the end)."""

    story: Story
    result: Result
    wrong: tuple[str, ...]


def play(bundle: Bundle, seed: int, *, is_honest: bool = True) -> Played:
    """One run. The seed decides how rough it gets; after the calm the run must end."""
    rng = random.Random(f"{bundle.flow.id}/{seed}")
    kind = seed % 4
    outside = RandomOutside(bundle, rng, GENTLE if kind == 0 else STORMY)
    people = RandomPeople(
        outside, rng, operations=rng.choice([0, 1, 2, 4]) if kind != 1 else 0, is_honest=is_honest, answers=kind != 2
    )
    weather = RandomWeather(rng, rate=rng.choice([0, 3, 10]) if kind != 0 else 0, holds=10)

    def calm_down(turn: Turn) -> None:
        watched.see(turn)
        if turn.after.seq > CALM_AFTER * (2 if turn.after.lists else 1):
            for each in (outside, people, weather):
                each.calm()

    watched = Watched(bundle=bundle)
    simulation = Simulation(
        bundle, outside, start_of(bundle), people=people, weather=weather, observe=calm_down, desk=outside.ledger.staff
    )
    people.log = watched.log = simulation.log
    outside.ledger.staff.clock = simulation.clock
    with small_pages():
        played = _played(bundle, simulation, (outside, people, weather), is_honest=is_honest)
    return replace(played, wrong=(*played.wrong, *watched.wrong))


def _played(bundle: Bundle, simulation: Simulation, world: World, *, is_honest: bool) -> Played:
    outside = world[0]
    first = simulation.run()
    wrong = violations(_story(bundle, outside, first, is_honest))
    result = first
    if first.end != "ended" and not wrong:
        for each in world:
            each.calm()
        result = simulation.run()
        wrong = violations(_story(bundle, outside, result, is_honest))
        if result.end != "ended":
            wrong.append(f"I19: when all is calm and everybody answers the run {result.end} and does not end")
    return Played(story=_story(bundle, outside, result, is_honest), result=result, wrong=tuple(wrong))


def clean_up(bundle: Bundle, stopped: Played, seed: int) -> Played:
    """The run that cleans up after one that was stopped while something stands, rough at first, then calm."""
    rng = random.Random(f"clean {bundle.flow.id}/{seed}")
    outside = RandomOutside(bundle, rng, STORMY)
    people = RandomPeople(outside, rng, operations=1)
    weather = RandomWeather(rng, rate=5, holds=0)
    started = replace(start_of(bundle, "r2"), at=stopped.result.now, continues="r1")
    watched = Watched(bundle=bundle, before=stopped.story.raw)
    simulation = Simulation(
        bundle, outside, started, people=people, weather=weather, before=stopped.story.raw, observe=watched.see,
        desk=outside.ledger.staff,
    )  # fmt: skip
    people.log = watched.log = simulation.log
    people.before, outside.ledger.staff.clock = stopped.story.raw, simulation.clock
    with small_pages():
        result = simulation.run()
    story = _story(bundle, outside, result, True, stopped.story.raw)
    wrong = [*violations(story), *watched.wrong]
    if result.end != "ended":
        wrong.append(f"I19: the clean-up {result.end} and does not end")
    return Played(story=story, result=result, wrong=tuple(wrong))


@dataclass(kw_only=True)
class Watched:
    """Looks at the engine's state now and then, between two of its turns."""

    bundle: Bundle
    before: Sequence[e.Event] = ()
    log: MemoryLog = field(default_factory=MemoryLog)
    turns: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def _beside(self) -> int:
        return sum(step.at_once for step in self.bundle.steps.values() if step.verb == "each")

    def see(self, turn: Turn) -> None:
        self.turns += 1
        if self.turns % EVERY_SO_OFTEN == 0 and not self.wrong:
            self.wrong += state_faults(turn.after, self.log.events, self.before, SMALL_PAGE + self._beside)


EVERY_SO_OFTEN = 5
CALM_AFTER = 70
SMALL_PAGE, FEW_IN_DOUBT = 2, 2
World = tuple[RandomOutside, RandomPeople, RandomWeather]


@contextmanager
def small_pages() -> Iterator[None]:
    """Ended items are read back two effects at a time, and few of a list may wait for a person, so that both matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "PAGE", SMALL_PAGE)
        patch.setattr(scopes, "MOST_IN_DOUBT", FEW_IN_DOUBT)
        yield


def start_of(bundle: Bundle, run: str = "r1") -> e.RunStarted:
    """The first fact of a run."""
    flow = bundle.flow
    return e.RunStarted(
        at=STARTED_AT, run=run, flow=flow.id, mode=flow.mode, bundle=bundle.digest, owner=flow.owner,
        starter="person:p1", record="customer/c1" if flow.record else "", inputs=inputs_of(bundle), trigger={"id": "t1"},
    )  # fmt: skip


def _story(
    bundle: Bundle, outside: RandomOutside, result: Result, is_honest: bool, before: Sequence[e.Event] = ()
) -> Story:
    return Story(
        bundle=bundle, events=result.events, ledger=outside.ledger, end=result.end, spins=result.spins,
        is_honest=is_honest, before=before,
    )  # fmt: skip


def shown(story: Story) -> str:
    """The log, one line a fact, for whoever must find out what went wrong."""
    lines = []
    for seq, event in story.numbered():
        data = {name: value for name, value in e.payload(event).items() if name not in ("request", "request_hash")}
        lines.append(f"{seq:3} {event.at - STARTED_AT:>10} {type(event).__name__:20} {event.step:6} {data}")
    return "\n".join(lines)
