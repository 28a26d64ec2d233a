"""The operators' table: every button in every situation, once, twice, and ten at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from runner.app import Amends
from runner.clock import MachineClock
from runner.core import events as e
from runner.core.state import State
from runner.engine.embedded import Embedded
from runner.engine.starting import Wish, start_run
from runner.errors import AlreadySo, NotPossible
from runner.following import Following
from runner.people.holds import Hold
from runner.people.operations import Order, give, pinned
from runner.people.rerun import wish_anew
from runner.people.table import ACTIONS, HOLDS, SITUATIONS, as_markdown, open_questions, situation_of
from runner.store.log import SITE
from runner.telling.consequences import further
from runner.telling.story import story_of
from tests.cases.ground import ME, Engine, Ground, opened, until
from tests.cases.situations import LEADS, WAYS, WORDS, Way
from tests.house import ROOT

TEN = 10
EVENTS = {"pause": e.RunPaused, "resume": e.RunResumed, "stop": e.StopRequested, "stop_compensate": e.StopRequested}


def now(state: State) -> int:
    return max(MachineClock().now(), state.at)


class Stage:
    """One situation: a project with its flow, an engine, and as many runs as are wanted."""

    def __init__(self, name: str, ground: Ground, engine: Engine, way: Way) -> None:
        self.name = name.partition(" ")[0]
        self.way = way
        self.ground = ground
        self.engine = engine
        self._count = 0
        self._pinned = ""

    async def arrive(self) -> str:
        """Brings a run into the situation."""
        self.ground.shop.release()
        for match, says in self.way.says.items():
            self.ground.shop.script(match, *says)
        self._count += 1
        key = f"k{self._count}"
        if self.name in ("held", "locked") and self._count == 1:
            await self.engine.run(self.name, "holder")
        if self.name == "queued":
            bundle = self.engine.driver._project.bundle("queued")
            wish = Wish(key=key, starter=ME)
            return (await start_run(self.engine.store, bundle, wish, now=MachineClock().now()))[0].run
        seen = self.ground.asked(self.way.out) if self.way.out else 0
        self._pinned = self._pinned or await self.engine.driver.pin(self.name)  # once: to read a flow costs the most
        run = (await self.engine.driver.start_pinned(self._pinned, Wish(key=key, starter=ME))).run
        if self.way.out:
            await until(lambda: self.ground.asked(self.way.out) > seen)
            if not self.way.before and self.name != "between":
                await until(lambda: situation_of(self.engine.state(run)) == self.name)
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
        action, _, item = action.partition(" ")
        order = Order(action=action, by=ME, step=item, **WORDS.get(action, {}))
        order = order if seen is None else pinned(seen, order)
        if self.name == "between":
            await give(engine.store, engine.driver.outside.bundle(engine.state(run).bundle), run, order, now)
            return run
        return (await engine.driver.act(run, order)).run

    def possible(self, run: str) -> set[str]:
        """What the table says is done, and of what it says is perhaps done that which the open questions offer."""
        offered = {choice for asked in open_questions(self.engine.state(run)) for choice in asked.choices}
        offered |= {"retry"} if "again" in offered else set()
        answers = {action: SITUATIONS[self.name].answer(action) for action in ACTIONS}
        return {one for one, said in answers.items() if said == "done" or (said == "perhaps" and one in offered)}

    def offers_anew(self, run: str) -> bool:
        """Whether its page has the button that starts it anew."""
        with closing(Amends.open(self.ground.folder)) as reader:
            story = story_of(reader, run, "UTC")
        return "rerun" in further(story)

    async def told(self, run: str, actions: Sequence[str], seen: State | None = None) -> list[str | NotPossible]:
        """All at the same time, by people who see the same: the run of each, or why not."""
        seen = self.engine.state(run) if len(actions) > 1 else seen
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
            driver.engine = Embedded(driver.store, driver.outside, MachineClock())
            driver.following = Following(driver.store, driver.engine, MachineClock())
            await driver.engine.start()
        await self.engine.rest(run)
        self.engine.holds(run)
        assert set(self.ground.shop.world.by_key().values()) <= {1}, "something happened twice"
        return self.engine.store.run(run).status


@asynccontextmanager
async def staged(folder: Path, name: str) -> AsyncIterator[Stage]:
    """The stage of a situation."""
    way = WAYS[name]
    async with opened(folder, *way.flows(name.partition(" ")[0]), text=way.shop()) as ground:
        (ground.folder / "people.yaml").write_text(LEADS, encoding="utf-8")
        ground.shop.world.put("/plans/pro", {})
        async with ground.engine() as engine:
            yield Stage(name, ground, engine, way)


def said(run: str, told: str | NotPossible) -> str:
    """done, already or refused; each refusal names the run and something to go on with."""
    if isinstance(told, str):
        return "done"
    text = str(told)
    assert run in text or "joined" in text or "(--reason)" in text, text
    return "already" if isinstance(told, AlreadySo) else "refused"


def facts(engine: Engine, run: str) -> int:
    """What people have reported of a run."""
    named = (
        e.RunPaused, e.RunResumed, e.StopRequested, e.HandOffResolved, e.HandOffAcknowledged, e.ItemResumed,
        e.ItemAccepted,
    )  # fmt: skip
    return len([one for one in engine.events(run) if isinstance(one, named)])


@pytest.mark.parametrize("name", WAYS)
async def test_what_each_button_does(tmp_path: Path, name: str) -> None:
    async with staged(tmp_path, name) as stage:
        run = await stage.arrive()
        pressed = {action.partition(" ")[0] for action in stage.way.follows}
        assert pressed == stage.possible(run)
        if stage.way.status not in ("succeeded", "drafted"):
            assert stage.offers_anew(run) == ("rerun" in pressed), "a page offers what the table says"
        await _refused(stage, run, [action for action in ACTIONS if action not in pressed])
        for action, leads_to in stage.way.follows.items():
            await _done(stage, action, leads_to)


async def _refused(stage: Stage, run: str, actions: Sequence[str]) -> None:
    """What is not done leaves nothing in the log, also when everybody presses at the same time."""
    before = facts(stage.engine, run)
    for action in actions:
        answer = SITUATIONS[stage.name].answer(action).replace("perhaps", "refused")
        assert said(run, (await stage.told(run, [action]))[0]) == answer, action
    assert "done" not in [said(run, one) for one in await stage.told(run, [*actions, *actions])]
    assert facts(stage.engine, run) == before
    await stage.settled(run)


async def _done(stage: Stage, action: str, leads_to: str) -> None:
    status, _, late = leads_to.partition(" ")
    again = {"": {"already"}, "&": {"refused"}, "~": {"already", "refused"}}[late]
    run = await stage.arrive()
    seen = stage.engine.state(run) if late == "~" else None
    before = facts(stage.engine, run)
    told = await stage.told(run, [action] * TEN)
    assert Counter(said(run, one) for one in told)["done"] == 1, (action, told)
    [after] = [one for one in told if isinstance(one, str)]
    assert said(run, (await stage.told(run, [action], seen))[0]) in again, action
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
    ("late", "go_on", "compensate"): {"succeeded", "compensated"},
    ("set_aside", "retry", "skip"): {"succeeded", "closed"},
    ("set_aside", "retry rows/2", "skip rows/2"): {"needs_person"},
    ("then_run", "go_on", "take_over"): {"compensated", "closed"},
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
    ("approval", "stop", "stop_compensate"): {"stopped", "compensated"},
    ("event", "pause", "stop"): {"stopped"},
    ("item_undoing", "stop", "stop_compensate"): {"stopped", "compensated"},
    ("undoing", "pause", "stop"): {"stopped"},
}
"""Orders to the run as a whole: both may be heard, in their order, and the stronger one holds."""


@pytest.mark.parametrize("pair", [*PAIRS, *STOPS], ids="-".join)
async def test_buttons_that_contradict_each_other(tmp_path: Path, pair: tuple[str, str, str]) -> None:
    name, one, other = pair
    for actions in ([one, other] * 5, [other, one] * 5):
        async with staged(tmp_path / actions[0], name) as stage:
            engine, run = stage.engine, await stage.arrive()
            before = facts(engine, run)
            told = await stage.told(run, actions)
            done = [action for action, one in zip(actions, told, strict=True) if said(run, one) == "done"]
            assert len(done) == 1 if pair in PAIRS else len(done) == len(set(done)) > 0, (actions, told)
            after = next(one for one in told if isinstance(one, str))
            assert facts(engine, run) == before + (len(done) if after == run else 0)
            assert await stage.settled(after) in {**PAIRS, **STOPS}[pair]


async def test_compensate_is_about_the_run_unless_an_item_is_named(tmp_path: Path) -> None:
    """An item that may fail alone is made good alone where its question is named; the order alone ends the run."""
    async with staged(tmp_path, "unknown in an item") as stage:
        for handoff, closed in (("h1", "rows/1"), ("", "")):
            run = await stage.arrive()
            view = await stage.engine.order(run, "compensate", handoff=handoff)
            assert [one.step for one in stage.engine.events(run) if isinstance(one, e.ForwardClosed)] == [closed]
            assert view.status == "needs_person"


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
    assert {name.partition(" ")[0] for name in WAYS} == set(SITUATIONS)
    assert cells >= 150
    with capsys.disabled():
        print(f"\noperators' table: {len(SITUATIONS)} situations, {len(ACTIONS)} actions, {cells} cells")
