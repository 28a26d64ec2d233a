"""Runs are moved to another version of their flow with the whole engine: what they do from there on is the new text's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runner.core import events as e
from runner.core.fold import fold_all
from runner.errors import AlreadySo, InvalidFlow, NotFound, NotPossible
from runner.people.versions import LATEST, find_version, plan_move
from tests.cases.ground import Engine, Ground, flow, intents, opened, until
from tests.laws.replay import replay_faults
from tests.support.says import HELD, refused

RESERVE = """  - id: reserve
    do: shop.reserve
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.release, with: { note: back, of: "${{ output.id }}" } }
"""
LOOK = "  - { id: look, hand_off: person:me }\n"
CHARGE = """  - id: charge
    do: shop.charge
    with: { note: "${{ inputs.name }}", amount: 5 }
    compensate: { cancel: shop.refund, with: { note: back, of: "${{ output.id }}" } }
"""
LOG = """  - id: log
    do: shop.log
    with: { note: "${{ steps.charge.id }}" }
    compensate: { none: It only counts. }
"""
OLD = flow("order", RESERVE + LOOK + CHARGE)
NEW = flow("order", RESERVE + LOOK + CHARGE + LOG)
UNDO_ELSE = flow("order", RESERVE.replace("cancel: shop.release", "mark: shop.void") + LOOK + CHARGE)


async def replayed(engine: Engine, run: str) -> list[str]:
    """What deciding again over the whole log gives otherwise."""
    events = engine.events(run)
    digests = [events[0].bundle, *(event.bundle for event in events if isinstance(event, e.RunMoved))]  # type: ignore[attr-defined]
    versions = {digest: engine.driver.outside.bundle(digest) for digest in digests}
    assert fold_all(events).bundle == digests[-1]
    return list(replay_faults(versions[digests[0]], events, versions=versions))


async def at_look(ground: Ground, engine: Engine, key: str = "k") -> str:
    view = await engine.run("order", key, name="x")
    assert view.status == "needs_person"
    return view.run


async def test_a_run_that_was_moved_does_the_new_steps(tmp_path: Path) -> None:
    async with opened(tmp_path, OLD) as ground, ground.engine() as engine:
        run = await at_look(ground, engine)
        ground.write(NEW)
        other = await at_look(ground, engine, "other")
        view = await engine.order(run, "move", reference=LATEST)
        assert view.bundle == engine.store.run(other).bundle
        assert (await engine.order(run, "go_on")).status == "succeeded"
        assert [intents(engine.events(run), step)[0].action for step in ("charge", "log")] == [
            "shop.charge",
            "shop.log",
        ]
        assert ground.effects() == ["/reserve", "/reserve", "/charge", "/log"]
        moved = next(event for event in engine.events(run) if isinstance(event, e.RunMoved))
        assert (moved.by, moved.before) == ("person:me", engine.events(run)[0].bundle)  # type: ignore[attr-defined]
        assert await replayed(engine, run) == []
        engine.holds(run)
        [newest, oldest] = engine.store.versions("order")
        assert (newest.bundle, newest.runs, newest.open_runs) == (moved.bundle, 2, 1)
        assert (oldest.bundle, oldest.runs, oldest.open_runs) == (moved.before, 1, 0)


async def test_what_was_done_before_is_made_good_by_the_new_text(tmp_path: Path) -> None:
    async with opened(tmp_path, OLD) as ground, ground.engine() as engine:
        run = await at_look(ground, engine)
        ground.write(UNDO_ELSE)
        await engine.order(run, "move", reference=LATEST)
        ground.shop.script("POST /charge", refused())
        assert (await engine.order(run, "go_on")).status == "compensated"
        assert ground.made("/release") == []
        assert len(ground.made("/void")) == 1
        assert engine.dispositions(run) == {"reserve": "answered"}
        assert await replayed(engine, run) == []
        engine.holds(run)


async def test_a_failed_step_is_mended_and_tried_again(tmp_path: Path) -> None:
    """The case that moving is for: the text was wrong, is put right, and the run goes on where it failed."""
    wrong = flow("order", RESERVE + CHARGE.replace("shop.charge", "shop.deal"), on_failure="review")
    async with opened(tmp_path, wrong) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", refused())
        run = await at_look(ground, engine)
        ground.write(flow("order", RESERVE + CHARGE, on_failure="review"))
        await engine.order(run, "move", reference=LATEST)
        assert (await engine.order(run, "retry")).status == "succeeded"
        assert ground.effects() == ["/reserve", "/charge"]
        assert await replayed(engine, run) == []


async def test_a_call_that_is_out_gets_its_answer_and_what_follows_is_new(tmp_path: Path) -> None:
    async with opened(tmp_path, flow("order", RESERVE + CHARGE)) as ground, ground.engine() as engine:
        ground.shop.script("POST /reserve", HELD)
        run = await engine.start("order", "k", name="x")
        await until(lambda: ground.asked("/reserve"))
        ground.write(flow("order", RESERVE + CHARGE + LOG))
        await engine.act(run, "move", reference=LATEST)
        assert any(call.is_open for call in engine.state(run).calls.values())
        ground.shop.let_go()
        assert (await engine.rest(run)).status == "succeeded"
        assert ground.effects() == ["/reserve", "/charge", "/log"]
        assert await replayed(engine, run) == []


async def test_what_would_be_wrong_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path, OLD) as ground, ground.engine() as engine:
        run = await at_look(ground, engine)
        before = engine.events(run)
        ground.write(flow("order", CHARGE + LOOK))
        with pytest.raises(NotPossible) as said:
            await engine.act(run, "move", reference=LATEST)
        assert "Step reserve has an effect that stands, and it is gone." in str(said.value)
        assert "Step charge stands before step look, which has begun: it would be run late." in str(said.value)
        ground.write(NEW.replace("steps.charge.id", "steps.charge.idd"))
        with pytest.raises(InvalidFlow):
            await engine.act(run, "move", reference=LATEST)
        with pytest.raises(AlreadySo, match=f"is on version {before[0].bundle[:8]} already"):  # type: ignore[attr-defined]
            await engine.act(run, "move", reference=before[0].bundle[:6])  # type: ignore[attr-defined]
        assert engine.events(run) == before


async def test_there_and_back_again(tmp_path: Path) -> None:
    async with opened(tmp_path, OLD) as ground, ground.engine() as engine:
        run = await at_look(ground, engine)
        first = engine.store.run(run).bundle
        ground.write(NEW)
        await engine.act(run, "move", reference=LATEST)
        await engine.act(run, "move", reference=first[:8])
        assert (await engine.order(run, "go_on")).status == "succeeded"
        assert ground.effects() == ["/reserve", "/charge"]
        assert [event.bundle for event in engine.events(run) if isinstance(event, e.RunMoved)][1] == first
        assert await replayed(engine, run) == []


async def test_a_version_is_named_by_the_beginning_of_its_digest(tmp_path: Path) -> None:
    async with opened(tmp_path, OLD) as ground, ground.engine() as engine:
        run = await at_look(ground, engine)
        (ground.folder / "connections.yaml").write_text("", encoding="utf-8")
        project = ground.project()
        with pytest.raises(NotFound, match='there is no version "xyz" of order; there are'):
            find_version(project, engine.store, "order", "xyz")
        with pytest.raises(NotFound, match="the beginning of several versions of order"):
            find_version(project, engine.store, "order", "")
        [told] = plan_move(project, engine.store, run, engine.store.run(run).bundle).reasons
        assert told == 'The new version uses the connection "shop", and connections.yaml has none.'


async def test_orders_at_the_same_time_move_it_once(tmp_path: Path) -> None:
    async with opened(tmp_path, OLD) as ground, ground.engine() as engine:
        run = await at_look(ground, engine)
        ground.write(NEW)
        told = await asyncio.gather(
            *(engine.act(run, "move", reference=LATEST) for _ in range(8)), return_exceptions=True
        )
        assert sum(isinstance(one, AlreadySo) for one in told) == 7
        assert len([event for event in engine.events(run) if isinstance(event, e.RunMoved)]) == 1


async def test_an_engine_that_stays_on_the_first_text_would_be_seen(tmp_path: Path) -> None:
    """The planted mistake: RunMoved stands in the log, and the engine is given the bundle that the run began with."""
    async with opened(tmp_path, OLD) as ground, ground.engine() as engine:
        run = await at_look(ground, engine)
        outside, first = engine.driver.outside, engine.store.run(run).bundle
        ground.write(NEW)
        await engine.act(run, "move", reference=LATEST)
        right = outside.bundle
        outside.bundle = lambda digest: right(first)  # type: ignore[method-assign]
        assert (await engine.order(run, "go_on")).status == "succeeded"
        outside.bundle = right  # type: ignore[method-assign]
        assert any("RunFinished" in fault for fault in await replayed(engine, run))
