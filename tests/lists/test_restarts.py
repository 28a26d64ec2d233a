"""The engine's process dies in the middle of a list, forward and while it is taken back; the next engine goes on."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from runner.store.facts import RunFilter
from tests.cases.ground import flow, opened, until
from tests.cases.processes import dying
from tests.lists.ground import BOOK, LAST, each_once, holds, listed, undone, written
from tests.support.says import refused

COUNT = 110
"""More than one page of ended items."""
FORWARD = flow("forward", listed(written(COUNT), more="    at_once: 8\n    if_one_fails: continue\n") + LAST)
BACK = flow("back", listed(written(COUNT), more="    at_once: 8\n", steps=BOOK) + LAST)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("before call reserve do", 30),
        ("after call charge do", COUNT),
    ],
)
async def test_a_list_goes_on_where_it_was(tmp_path: Path, point: str, nth: int) -> None:
    async with opened(tmp_path, FORWARD) as ground:
        assert await dying(ground.folder, "forward", "k1", point, nth) == -9
        async with ground.engine() as engine:
            view = await engine.run("forward", "k1", name="Aya")
            assert (view.status, len(engine.store.runs(RunFilter()))) == ("succeeded", 1)
            holds(engine, view)
        each_once(ground, "/reserve", COUNT)
        each_once(ground, "/charge", COUNT)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("after call release undo", 60),
        ("before call release undo", 101),
    ],
)
async def test_what_is_being_taken_back_goes_on_where_it_was(tmp_path: Path, point: str, nth: int) -> None:
    async with opened(tmp_path, BACK) as ground:
        ground.shop.script("POST /log", always=refused())
        assert await dying(ground.folder, "back", "k1", point, nth) == -9
        async with ground.engine() as engine:
            view = await engine.run("back", "k1", name="Aya")
            assert view.status == "compensated"
            assert set(engine.dispositions_of(view.run)) == {"undone"}
            holds(engine, view)
        each_once(ground, "/reserve", COUNT)
        assert sorted(undone(ground, "/release")) == sorted(ground.made("/reserve"))


async def test_an_engine_that_is_stopped_in_between_loses_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, FORWARD) as ground:
        run = ""
        for _ in range(4):
            async with ground.engine() as engine:
                run = await engine.start("forward", "k1", name="Aya")
                await engine.driver.engine.stop(grace=0.05)
        async with ground.engine() as engine:
            view = await engine.rest(run)
            assert view.status == "succeeded"
            holds(engine, view)
        each_once(ground, "/reserve", COUNT)
        each_once(ground, "/charge", COUNT)


async def test_a_clean_up_run_goes_on_after_restarts(tmp_path: Path) -> None:
    """In the middle of an item too, of whose effects one is taken back and one is not."""
    text = flow("stops", listed(written(9), more="    at_once: 4\n") + "  - { id: nap, wait: 1 day }\n")
    async with opened(tmp_path, text) as ground:
        async with ground.engine() as engine:
            first = await engine.run("stops", "k1", name="Aya")
            assert (await engine.order(first.run, "stop", reason="Enough.")).status == "stopped"

        def is_taken_back(count: int) -> bool:
            return len(undone(ground, "/refund")) + len(undone(ground, "/release")) >= count

        for count in (3, 4, 9):
            async with ground.engine() as engine:
                ordering = asyncio.create_task(engine.act(first.run, "compensate"))
                await until(partial(is_taken_back, count))
                await engine.driver.engine.stop(grace=0.2)
                ordering.cancel()
                await asyncio.gather(ordering, return_exceptions=True)
        async with ground.engine() as engine:
            (clean,) = [view.run for view in engine.store.runs(RunFilter()) if view.continues]
            view = await engine.rest(clean)
            assert view.status == "compensated"
            holds(engine, view)
        for made, back in (("/reserve", "/release"), ("/charge", "/refund")):
            assert sorted(undone(ground, back)) == sorted(ground.made(made))
