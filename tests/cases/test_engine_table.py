"""The operators' table: every button in every situation, once, twice, and ten at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.clock import MachineClock
from runner.core import events as e
from runner.core.state import State
from runner.engine.embedded import Embedded
from runner.engine.starting import Wish, start_run
from runner.errors import AlreadySo, NotPossible
from runner.people.holds import Hold
from runner.people.operations import Order, give, pinned
from runner.people.rerun import wish_anew
from runner.people.table import ACTIONS, HOLDS, SITUATIONS, as_markdown, situation_of
from runner.store.log import SITE
from tests.cases.ground import ME, Engine, Ground, opened, until
from tests.cases.situations import WAYS, WORDS
from tests.house import ROOT

TEN = 10
EVENTS = {"pause": e.RunPaused, "resume": e.RunResumed, "stop": e.StopRequested, "stop_compensate": e.StopRequested}


def now(state: State) -> int:
    return max(MachineClock().now(), state.at)


class Stage:
    """One situation: a project with its flow, an engine, and as many runs as are wanted."""

    def __init__(self, name: str, ground: Ground, engine: Engine) -> None:
        self.name = name.removesuffix(" again")
        self.way = WAYS[name]
        self.ground = ground
        self.engine = engine
        self._count = 0

    async def arrive(self) -> str:
        """Brings a run into the situation."""
        self.ground.shop.release()
        for match, says in self.way.says.items():
            self.ground.shop.script(match, *says)
        self._count += 1
        key = f"k{self._count}"
        if self.name == "held" and self._count == 1:
            await self.engine.run("held", "holder")
        if self.name == "queued":
            bundle = self.engine.driver._project.bundle("queued")
            wish = Wish(key=key, starter=ME)
            return (await start_run(self.engine.store, bundle, wish, now=MachineClock().now()))[0].run
        seen = self.ground.asked(self.way.out) if self.way.out else 0
        run = await self.engine.start(self.name, key)
        if self.way.out:
            await until(lambda: self.ground.asked(self.way.out) > seen)
        else:
            await self.engine.rest(run)
        if self.name == "between":
            await self._break_off()
        for action in self.way.before:
            run = await self.press(run, action)
        if not self.way.out:
            self.ground.shop.release()
        state = self.engine.state(run)
        assert situation_of(state) == self.name, self.name
        assert self.engine.store.run(run).status == self.way.status
        return run

    async def _break_off(self) -> None:
        """The engine ends while a call is out: it writes down the answer, and begins no further call."""
        stopping = asyncio.create_task(self.engine.driver.engine.stop())
        await asyncio.sleep(0)
        self.ground.shop.release()
        await stopping

    async def press(self, run: str, action: str, seen: State | None = None) -> str:
        """Presses one button; the run it is about from here on. Raises NotPossible, AlreadySo."""
        engine = self.engine
        if action == "erase":
            await engine.store.erase(run, e.PersonalDataErased(at=MachineClock().now(), by=ME))
            engine.driver.engine.wake(run)
            return (await engine.rest(run)).run
        if action == "rerun":
            wish = wish_anew(engine.store, engine.store.run(run), engine.state(run), ME)
            started = await engine.driver.start(engine.store.run(run).flow, wish)
            if started.joined:
                raise AlreadySo(f"run {started.run} was joined")
            return started.run
        order = Order(action=action, by=ME, **WORDS.get(action, {}))
        order = order if seen is None else pinned(seen, order)
        if self.name == "between":
            await give(engine.store, engine.driver._outside.bundle(engine.state(run).bundle), run, order, now)
            return run
        return (await engine.driver.act(run, order)).run

    async def told(self, run: str, actions: Sequence[str]) -> list[str | NotPossible]:
        """All at the same time, by people who see the same: the run of each, or why not."""
        seen = self.engine.state(run) if len(actions) > 1 else None
        pressed = await asyncio.gather(*(self.press(run, action, seen) for action in actions), return_exceptions=True)
        for one in pressed:
            if isinstance(one, BaseException) and not isinstance(one, NotPossible):
                raise one
        return pressed  # type: ignore[return-value]

    async def settled(self, run: str) -> str:
        """The status it comes to once nothing is held."""
        self.ground.shop.release()
        if self.name == "between":
            driver = self.engine.driver
            driver.engine = Embedded(driver.store, driver._outside, MachineClock())
            await driver.engine.start()
        await self.engine.rest(run)
        self.engine.holds(run)
        assert set(self.ground.shop.world.by_key().values()) <= {1}, "something happened twice"
        return self.engine.store.run(run).status


def said(run: str, told: str | NotPossible) -> str:
    """done, already or refused; each refusal names the run and something to go on with."""
    if isinstance(told, str):
        return "done"
    text = str(told)
    assert run in text or "joined" in text or "(--reason)" in text, text
    return "already" if isinstance(told, AlreadySo) else "refused"


def facts(engine: Engine, run: str) -> int:
    """What people have reported of a run."""
    named = (e.RunPaused, e.RunResumed, e.StopRequested, e.HandOffResolved, e.HandOffAcknowledged)
    return len([one for one in engine.events(run) if isinstance(one, named)])


@pytest.mark.parametrize("name", WAYS)
async def test_what_each_button_does(tmp_path: Path, name: str) -> None:
    way, table = WAYS[name], SITUATIONS[name.removesuffix(" again")]
    perhaps = set(table.perhaps) if name.endswith(" again") else set()
    assert {action for action in ACTIONS if table.answer(action) == "done"} | perhaps == set(way.follows)
    async with opened(tmp_path, way.flow(name.partition(" ")[0]), text=way.shop()) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        stage = Stage(name, ground, engine)
        await _refused(stage, [action for action in ACTIONS if action not in way.follows])
        for action, leads_to in way.follows.items():
            await _done(stage, action, leads_to)


async def _refused(stage: Stage, actions: Sequence[str]) -> None:
    """What is not done leaves nothing in the log, also when everybody presses at the same time."""
    run = await stage.arrive()
    before = facts(stage.engine, run)
    for action in actions:
        answer = SITUATIONS[stage.name].answer(action).replace("perhaps", "refused")
        assert said(run, (await stage.told(run, [action]))[0]) == answer, action
    assert "done" not in [said(run, one) for one in await stage.told(run, [*actions, *actions])]
    assert facts(stage.engine, run) == before
    await stage.settled(run)


async def _done(stage: Stage, action: str, leads_to: str) -> None:
    status, _, late = leads_to.partition(" ")
    again = "refused" if late else "already"
    run = await stage.arrive()
    before = facts(stage.engine, run)
    told = await stage.told(run, [action] * TEN)
    assert Counter(said(run, one) for one in told)["done"] == 1, (action, told)
    [after] = [one for one in told if isinstance(one, str)]
    assert [said(run, one) for one in await stage.told(run, [action])] == [again], action
    assert facts(stage.engine, run) == before + (after == run), action
    assert await stage.settled(after) == status, action


PAIRS = {
    ("failure", "retry", "compensate"): {"succeeded", "compensated"},
    ("failure", "skip", "take_over"): {"succeeded", "closed"},
    ("failure", "take_over", "compensate"): {"closed", "compensated"},
    ("unknown", "happened", "did_not"): {"succeeded"},
    ("unknown", "take_over", "compensate"): {"closed", "needs_person"},
    ("unknown again", "again", "did_not"): {"succeeded"},
    ("step", "go_on", "close"): {"succeeded", "closed"},
    ("outputs", "go_on", "take_over"): {"succeeded", "closed"},
    ("doubt_undoing", "happened", "go_on"): {"needs_person"},
    ("undo_unknown", "happened", "did_not"): {"compensated"},
    ("undo_failed", "retry", "done"): {"compensated", "closed"},
    ("undo_by_hand", "done", "stands"): {"closed"},
    ("stopped", "compensate", "take_over"): {"compensated", "closed"},
}
"""Answers that contradict each other: one is done, and whoever gave the other is told of it."""
STOPS = {
    ("paused", "resume", "stop"): {"stopped"},
    ("paused", "resume", "stop_compensate"): {"compensated"},
    ("waiting", "pause", "stop"): {"stopped"},
    ("waiting", "stop", "stop_compensate"): {"stopped", "compensated"},
    ("calling", "stop", "stop_compensate"): {"stopped", "compensated"},
    ("failure", "retry", "stop"): {"stopped", "succeeded"},
    ("undoing", "pause", "stop"): {"stopped"},
}
"""Orders to the run as a whole: both may be heard, in their order, and the stronger one holds."""


@pytest.mark.parametrize("pair", [*PAIRS, *STOPS], ids="-".join)
@pytest.mark.parametrize("times", [1, 5])
async def test_buttons_that_contradict_each_other(tmp_path: Path, pair: tuple[str, str, str], times: int) -> None:
    name, one, other = pair
    way = WAYS[name]
    for actions in ([one, other] * times, [other, one] * times):
        place, text = tmp_path / actions[0], way.flow(name.split(" ")[0])
        async with opened(place, text, text=way.shop()) as ground, ground.engine() as engine:
            stage = Stage(name, ground, engine)
            run = await stage.arrive()
            before = facts(engine, run)
            told = await stage.told(run, actions)
            done = [action for action, one in zip(actions, told, strict=True) if said(run, one) == "done"]
            assert len(done) == 1 if pair in PAIRS else len(done) == len(set(done)) > 0, (actions, told)
            after = next(one for one in told if isinstance(one, str))
            assert facts(engine, run) == before + (len(done) if after == run else 0)
            assert await stage.settled(after) in {**PAIRS, **STOPS}[pair]


async def test_what_holding_and_releasing_a_record_does(tmp_path: Path) -> None:
    """Each cell once, again, and ten times at once."""
    way = WAYS["held"]
    async with opened(tmp_path, way.flow("held"), text=way.shop()) as ground, ground.engine() as engine:

        async def press(is_held: bool, times: int) -> Counter[str]:
            wishes = (Hold(kind="record", name="customer/aya", by=ME, is_held=is_held) for _ in range(times))
            told = await asyncio.gather(*(engine.driver.hold(wish) for wish in wishes), return_exceptions=True)
            return Counter(type(one).__name__ if one else "done" for one in told)

        assert await press(False, TEN) == {"AlreadySo": TEN}
        assert await press(True, TEN) == {"done": 1, "AlreadySo": TEN - 1}
        assert await press(False, TEN) == {"done": 1, "AlreadySo": TEN - 1}
        for match, says in way.says.items():
            ground.shop.script(match, *says)
        run = (await engine.run("held", "k1")).run
        assert engine.store.holder("customer/aya") == run
        assert await press(False, TEN) == {"NotPossible": TEN}
        assert await press(True, 1) == {"done": 1}
        assert await press(False, 1) == {"done": 1}
        assert engine.store.holder("customer/aya") == run
        assert [row.type for row in engine.store.log(SITE) if row.type.startswith("Hold")] == [
            "HoldPlaced", "HoldLifted", "HoldPlaced", "HoldLifted",
        ]  # fmt: skip


def test_the_table_in_the_readme_is_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    cells = len(SITUATIONS) * len(ACTIONS) + sum(map(len, HOLDS.values()))
    assert as_markdown() in (ROOT / "README.md").read_text(encoding="utf-8")
    assert {name.removesuffix(" again") for name in WAYS} == set(SITUATIONS)
    assert cells >= 150
    with capsys.disabled():
        print(f"\noperators' table: {len(SITUATIONS)} situations, {len(ACTIONS)} actions, {cells} cells")
