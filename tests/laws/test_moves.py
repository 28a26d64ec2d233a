"""I26: whatever a run is moved to, it goes on by that text alone. Chance edits at chance moments of every flow.

What `reasons_against` lets through must break no law: each log is replayed with the versions it names, and read by all
the other laws. The mistakes planted at the end show that this can fail.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from runner.contract import digest
from runner.core import events as e
from runner.core import fold
from runner.core.state import State
from runner.engine.simulated import Simulation
from runner.language.bundle import Bundle, patterns
from runner.language.load import load_flow
from runner.people import moving
from runner.people.moving import gained_inputs, reasons_against
from tests.laws.flows import CORPUS, corpus
from tests.laws.places import OLDER
from tests.laws.play import STORMY, shown, small_pages, start_of
from tests.laws.register import LAWS
from tests.laws.replay import replay_faults
from tests.laws.story import Story
from tests.laws.world import RandomOutside, RandomPeople, RandomWeather

SEEDS, TRIED = 3, 32
OFTEN, MOST_VERSIONS = 0.3, 8
UNDO = 'compensate: { cancel: svc.undo, with: { id: "${{ output.id }}" } }'
ACTIONS = ("svc.keyed", "svc.looked", "svc.once")
BLOCK = re.compile(r"^  - (?:\{ )?id: .*\n(?:(?!  - |\S).*\n)*", re.MULTILINE)
OF_ONE_TEXT = {"I31", "branch", "scope", "starts", "beside", "outcome"}
"""Laws that read the whole log by one text of the flow."""
tally: Counter[str] = Counter()


def edited(text: str, rng: random.Random, name: str) -> str:
    """The flow with one chance edit among its outermost steps."""
    head, _, steps = text.partition("steps:\n")
    blocks = BLOCK.findall(steps)
    if not blocks:
        return text
    one, other = rng.randrange(len(blocks)), rng.randrange(len(blocks))
    match rng.choice(("insert", "insert", "append", "remove", "swap", "say", "undo", "action")):
        case "insert":
            blocks.insert(one, f"  - id: {name}\n    do: {rng.choice(ACTIONS)}\n    with: {{ name: x }}\n    {UNDO}\n")
        case "append":
            blocks.append(f"  - {{ id: {name}, wait: 1 s }}\n")
        case "remove":
            blocks.pop(one)
        case "swap":
            blocks[one], blocks[other] = blocks[other], blocks[one]
        case "say":
            blocks[one] = blocks[one].replace("name: x", f"name: {name}").replace('name: "x"', f"name: {name}")
        case "undo":
            blocks[one] = re.sub(
                r"cancel: svc\.undo\b", rng.choice(("mark: svc.keyed", "cancel: svc.plain")), blocks[one]
            )
        case "action":
            blocks[one] = blocks[one].replace("svc.keyed", rng.choice(ACTIONS[1:]), 1)
    return f"{head}steps:\n{''.join(blocks)}"


class Movers(RandomPeople):
    """People who also edit the flow and move the run there, where nothing speaks against it."""

    def __init__(self, outside: RandomOutside, rng: random.Random, versions: dict[str, Bundle], text: str) -> None:
        super().__init__(outside, rng, operations=rng.choice([0, 1]))
        self.versions = versions
        self.texts = {outside.bundle.digest: text}

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        made = super().acts(bundle, state, now)
        if made or self.is_calm or state.has_ended or self._held_back or self.rng.random() > OFTEN:
            return made
        if len(self.versions) > MOST_VERSIONS:
            return ()
        text = self.texts[bundle.digest]
        for turn in range(self.rng.choice([1, 1, 2])):
            text = edited(text, self.rng, f"n{len(self.texts)}{turn}")
        flow, _, problems = load_flow(text, f"{state.flow}.yaml")
        if flow is None or problems:
            return ()
        new = replace(bundle, digest=digest(text), flow=flow, steps=patterns(flow, bundle.called))
        reasons = reasons_against(bundle, new, state)
        tally["refused" if reasons else "moved"] += 1
        tally.update(reason.split(" ", 2)[2][:14] if reason.startswith("Step ") else reason[:14] for reason in reasons)
        if reasons:
            return ()
        tally["moved while it compensates"] += state.root.closed
        tally["moved with a call out or in doubt"] += any(c.is_open or c.is_unsettled for c in state.calls.values())
        self.texts[new.digest], self.versions[new.digest] = text, new
        gained = gained_inputs(new, state)[0]
        return [e.RunMoved(at=now, bundle=new.digest, by="person:ops", before=bundle.digest, inputs=gained)]


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A run that was moved about: its story, its versions, and what is wrong."""

    story: Story
    versions: Mapping[str, Bundle]
    wrong: tuple[str, ...]


def play(name: str, seed: int) -> Moved:
    """One run under a seed; after the storm it must end."""
    old = corpus()[name]
    rng = random.Random(f"moves {name}/{seed}")
    outside = RandomOutside(old, rng, STORMY)
    versions = {old.digest: old}
    people = Movers(outside, rng, versions, (CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))
    weather = RandomWeather(rng, rate=rng.choice([0, 5]), holds=5)
    simulation = Simulation(old, outside, start_of(old), people=people, weather=weather, versions=versions)
    people.log = simulation.log
    with small_pages():
        result = simulation.run()
        if result.end != "ended":
            for each in (outside, people, weather):
                each.calm()
            result = simulation.run()
    every = {name: step for version in versions.values() for name, step in version.steps.items()}
    last = versions[result.state.bundle]
    known = replace(last, digest=f"{name} {seed} {result.state.bundle}", steps={**every, **last.steps})
    OLDER[known.digest] = [version.flow for version in versions.values()]
    story = Story(bundle=known, events=result.events, ledger=outside.ledger, end=result.end, spins=result.spins)
    with small_pages():
        wrong = [f"I26: {what}" for what in replay_faults(old, result.events, versions=versions)]
    wrong += [f"{law}: {what}" for law, each in LAWS.items() if law not in OF_ONE_TEXT for what in each(story)]
    if result.end != "ended":
        wrong.append(f"I19: when all is calm the run {result.end} and does not end")
    return Moved(story=story, versions=versions, wrong=tuple(wrong))


@pytest.mark.parametrize("name", corpus())
def test_no_law_is_broken(name: str) -> None:
    for seed in range(SEEDS):
        played = play(name, seed)
        assert not played.wrong, f"{name}, seed {seed}: {played.wrong}\n{shown(played.story)}"


def test_the_floor() -> None:
    """What the seeds reached."""
    if not tally["moved"]:
        pytest.skip("the floor counts what the whole file has played")
    assert tally["moved"] >= 400, tally
    assert tally["refused"] >= 200, tally
    assert tally["moved while it compensates"] >= 120, tally
    assert tally["moved with a call out or in doubt"] >= 300, tally


Plant = Callable[[pytest.MonkeyPatch], None]


def _without(rule: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for name in ("_ALWAYS", "_FORWARD"):
            patch.setattr(moving, name, tuple(each for each in getattr(moving, name) if each.__name__ != rule))

    return plant


def _stays_on_its_first_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "_READERS", {**fold._READERS, e.RunMoved: lambda state, event: state})


def _driven_by_the_first_text(patch: pytest.MonkeyPatch) -> None:
    right = Simulation.__init__
    patch.setattr(Simulation, "__init__", lambda self, *args, **words: right(self, *args, **words | {"versions": {}}))


PLANTED: dict[str, Plant] = {
    "RunMoved is read and changes nothing": _stays_on_its_first_text,
    "the engine goes on with the text that it began with": _driven_by_the_first_text,
    "effects that the new text cannot make good do not matter": _without("_effects"),
    "calls under way may become others": _without("_calls"),
    "what has begun may be gone": _without("_steps_that_began"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    for flow in ("keyed_pair", "all_classes", "waits", "bad_wait", *corpus()):
        for seed in range(TRIED):
            try:
                wrong = play(flow, seed).wrong
            except (KeyError, AssertionError) as broken:
                wrong = (f"{type(broken).__name__}: {broken}",)
            if wrong:
                print(f"\n  {name}\n    {wrong[0]}, by {flow}, seed {seed}", end="")
                return
    pytest.fail(f"no law sees it: {name}")
