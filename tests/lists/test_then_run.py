"""`then_run`: what is started after a failure, once, together with the end of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import events as e
from runner.store.facts import RunFilter
from tests.cases.ground import flow, opened
from tests.cases.processes import dying
from tests.lists.ground import notes
from tests.support.says import refused

STEPS = """  - id: book
    do: shop.reserve
    with: { note: x }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
  - id: pay
    do: shop.charge
    with: { note: x }
    compensate: { none: It only counts. }
"""
FOLLOWED = '{ do: compensate, then_run: told, with: { name: "${{ inputs.name }}", why: "${{ failure.summary }}" } }'
BROKEN = flow("broken", STEPS, on_failure=FOLLOWED)
LONGER = '{ do: compensate, then_run: told, with: { name: "${{ inputs.name }}", why: "${{ inputs.name | trim }}" } }'
WRONG = flow("wrong", STEPS, on_failure=LONGER)
TOLD = flow(
    "told",
    """  - id: log
    do: shop.log
    with: { note: "${{ inputs.name }}, ${{ inputs.why }}" }
    compensate: { none: It only says it. }
""",
    inputs="{ name: text, why: { text: { max: 20 } } }",
)


async def test_it_is_started_once_when_all_is_made_good(tmp_path: Path) -> None:
    async with opened(tmp_path, BROKEN, TOLD) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", always=refused(422, "closed"))
        view = await engine.run("broken", "k1", name="Aya")
        assert view.status == "compensated"
        told = await engine.rest(f"{view.run}-then")
        assert (told.status, told.flow, told.run_key) == ("succeeded", "told", told.run)
        assert (await engine.run("broken", "k1", name="Aya")).run == view.run
        assert notes(ground, "/log") == ["Aya, closed"]
        assert ground.effects() == ["/reserve", "/release", "/log"]
        for run in (view.run, told.run):
            engine.holds(run)


async def test_two_failures_of_one_flow_are_each_told_of(tmp_path: Path) -> None:
    async with opened(tmp_path, BROKEN, TOLD) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", always=refused(422, "closed"))
        views = [await engine.run("broken", key, name="Aya") for key in ("k1", "k2")]
        for view in views:
            assert (await engine.rest(f"{view.run}-then")).status == "succeeded"
        assert notes(ground, "/log") == ["Aya, closed"] * 2, "the same inputs are never joined"


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("before commit RunFinished", 1),
        ("after commit RunFinished", 1),
        ("before commit CallIntended log do", 1),
        ("after call log do", 1),
    ],
)
async def test_a_crash_around_the_end_starts_it_once(tmp_path: Path, point: str, nth: int) -> None:
    async with opened(tmp_path, BROKEN, TOLD) as ground:
        ground.shop.script("POST /charge", always=refused(422, "closed"))
        assert await dying(ground.folder, "broken", "k1", point, nth) == -9
        async with ground.engine() as engine:
            view = await engine.run("broken", "k1", name="Aya")
            assert view.status == "compensated"
            assert (await engine.rest(f"{view.run}-then")).status == "succeeded"
            assert len(engine.store.runs(RunFilter())) == 2
            engine.holds(view.run)
        assert notes(ground, "/log") == ["Aya, closed"]


async def test_a_person_is_asked_where_it_cannot_be_started(tmp_path: Path) -> None:
    async with opened(tmp_path, WRONG, TOLD) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", always=refused())
        view = await engine.run("wrong", "k1", name="A name that is longer than twenty letters")
        assert (view.status, view.needs) == ("needs_person", "person:me")
        assert "told cannot be started" in view.waiting_for
        assert ground.effects() == ["/reserve", "/release"], "all is made good before it is asked"
        view = await engine.order(view.run, "go_on")
        assert (view.status, len(engine.store.runs(RunFilter()))) == ("compensated", 1)
        engine.holds(view.run)


async def test_nothing_follows_success_but_a_failure_at_the_first_step_is_told_too(tmp_path: Path) -> None:
    async with opened(tmp_path, BROKEN, TOLD) as ground, ground.engine() as engine:
        assert (await engine.run("broken", "k1", name="Aya")).status == "succeeded"
        assert len(engine.store.runs(RunFilter())) == 1
        ground.shop.script("POST /reserve", refused(422, "never"))
        failed = await engine.run("broken", "k2", name="Aya")
        assert failed.status == "failed"
        assert (await engine.rest(f"{failed.run}-then")).status == "succeeded"
        finished = [one for one in engine.events(failed.run) if isinstance(one, e.RunFinished)]
        assert [one.then for one in finished] == ["told"]
