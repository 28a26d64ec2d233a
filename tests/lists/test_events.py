"""Events between runs and from outside, on the real engine: kept, fed once, never lost, never twice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from runner.clock import HOUR, MachineClock
from runner.contract import Json
from runner.core import events as e
from runner.engine.starting import Wish
from runner.store.facts import RunFilter
from tests.cases.ground import Engine, Ground, LaterClock, flow, opened, until
from tests.cases.processes import dying

NAME = "receipt.received"


def waiter(name: str, match: str = '{ claim: "${{ inputs.name }}" }', more: str = "") -> str:
    return flow(
        name,
        f"  - id: receipt\n    wait_for: {NAME}\n    match: {match}\n{more}"
        "  - id: log\n    do: shop.log\n    with: { note: \"${{ steps.receipt.number | default('none') }}\" }\n"
        "    compensate: { none: It only counts. }\n",
    )


WAITS = waiter("waits")
SENDS = flow(
    "sends", f'  - {{ id: told, emit: {NAME}, with: {{ claim: "${{{{ inputs.name }}}}", number: "0007" }} }}\n'
)  # fmt: skip


async def send(engine: Engine, event_id: str, **data: Json) -> bool:
    return await engine.driver.send_event(event_id, NAME, data, "person:me")


def received(engine: Engine, run: str) -> list[e.EventReceived]:
    return [event for event in engine.events(run) if isinstance(event, e.EventReceived)]


def awaited(engine: Engine, run: str) -> list[e.EventAwaited]:
    return [event for event in engine.events(run) if isinstance(event, e.EventAwaited)]


def logged(ground: Ground) -> list[str]:
    return [effect.body["note"] for effect in ground.shop.world.effects if effect.path == "/log"]


@pytest.mark.parametrize("comes_first", [False, True])
async def test_what_one_run_sends_another_one_gets(tmp_path: Path, comes_first: bool) -> None:
    async with opened(tmp_path, WAITS, SENDS) as ground, ground.engine() as engine:
        order = (
            [("sends", "succeeded"), ("waits", "succeeded")]
            if comes_first
            else [("waits", "waiting"), ("sends", "succeeded")]
        )
        for name, status in order:
            assert (await engine.run(name, "k1", name="C1")).status == status
        view = await engine.run("waits", "k1", name="C1")
        assert view.status == "succeeded"
        (got,) = received(engine, view.run)
        assert (got.data, got.event_id) == (
            {"claim": "C1", "number": "0007"},
            f"{engine.store.runs(RunFilter(flow='sends'))[0].run}/told",
        )
        assert logged(ground) == ["0007"]
        assert (engine.store.kept(0), engine.store.waiting()) == ([], [])
        engine.holds(view.run)


async def test_an_event_is_kept_for_a_day_and_no_longer(tmp_path: Path) -> None:
    async with opened(tmp_path, WAITS) as ground:
        clock = LaterClock()
        async with ground.engine(clock) as engine:
            assert await send(engine, "e1", claim="C1")
            assert await send(engine, "e2", claim="C2")
            clock.by = 24 * HOUR - 60_000
            assert (await engine.run("waits", "k1", name="C1")).status == "succeeded"
            clock.by = 24 * HOUR + 60_000
            view = await engine.run("waits", "k2", name="C2")
            assert (view.status, engine.store.kept(clock.now())) == ("waiting", [])
            assert await send(engine, "e2", claim="C2"), "the id was forgotten with the event"
            assert (await engine.rest(view.run)).status == "succeeded"


async def test_who_has_waited_longest_gets_it_over_restarts_too(tmp_path: Path) -> None:
    by_both = waiter("both", '{ claim: "${{ inputs.name }}", kind: paper }')
    async with opened(tmp_path, WAITS, by_both) as ground:
        async with ground.engine() as engine:
            first = await engine.run("both", "k1", name="C1")
            second = await engine.run("waits", "k2", name="C1")
            third = await engine.run("waits", "k3", name="C1")
        async with ground.engine() as engine:
            await engine.order(first.run, "pause")
            await engine.order(first.run, "resume")
            for number, view in enumerate((first, second, third)):
                assert await send(engine, f"e{number}", claim="C1", kind="paper", number=f"{number}")
                assert (await engine.rest(view.run)).status == "succeeded", f"event {number} went to somebody else"
            assert logged(ground) == ["0", "1", "2"]


async def test_the_same_id_twice_is_one_event(tmp_path: Path) -> None:
    async with opened(tmp_path, WAITS) as ground, ground.engine() as engine:
        views = [await engine.run("waits", key, name="C1") for key in ("k1", "k2")]
        assert [await send(engine, "e1", claim="C1") for _ in range(3)] == [True, False, False]
        assert (await engine.rest(views[0].run)).status == "succeeded"
        assert (await engine.rest(views[1].run)).status == "waiting"


@pytest.mark.parametrize("action", ["stop", "stop_compensate"])
async def test_a_run_that_was_stopped_meanwhile_does_not_take_it(tmp_path: Path, action: str) -> None:
    async with opened(tmp_path, WAITS) as ground, ground.engine() as engine:
        first, second = [await engine.run("waits", key, name="C1") for key in ("k1", "k2")]
        await engine.order(first.run, action, reason="Not needed.")
        assert await send(engine, "e1", claim="C1")
        assert (await engine.rest(second.run)).status == "succeeded"
        assert received(engine, first.run) == []
        engine.holds(first.run)


async def test_a_paused_run_takes_it_and_goes_on_when_resumed(tmp_path: Path) -> None:
    async with opened(tmp_path, WAITS) as ground, ground.engine() as engine:
        view = await engine.run("waits", "k1", name="C1")
        await engine.order(view.run, "pause")
        await send(engine, "e1", claim="C1")
        assert ((await engine.rest(view.run)).status, logged(ground)) == ("paused", [])
        assert (await engine.order(view.run, "resume")).status == "succeeded"


async def test_what_comes_too_late_is_late_and_kept(tmp_path: Path) -> None:
    late = waiter("late", more="    within: 1 s\n    if_late: continue\n")
    async with opened(tmp_path, late) as ground, ground.engine() as engine:
        view = await engine.run("late", "k1", name="C1")
        assert (view.status, logged(ground)) == ("succeeded", ["none"])
        assert await send(engine, "e1", claim="C1")
        assert [kept.event_id for kept in engine.store.kept(0)] == ["e1"]
        assert received(engine, view.run) == []
        engine.holds(view.run)


async def test_at_the_deadline_itself_it_is_late_or_there_but_never_both(tmp_path: Path) -> None:
    late = waiter("late", more="    within: 1 s\n    if_late: continue\n")
    async with opened(tmp_path, late) as ground, ground.engine() as engine:
        pinned = await engine.driver.pin("late")
        wishes = [Wish(given={"name": f"C{number}"}, key=f"k{number}") for number in range(30)]
        runs = [begun.run for begun in await asyncio.gather(*(engine.driver.start_pinned(pinned, w) for w in wishes))]
        await until(lambda: all(awaited(engine, run) for run in runs))
        due = sorted(awaited(engine, run)[0].due for run in runs)[15]
        while MachineClock().now() < due - 15:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for number in range(30):
            await send(engine, f"e{number}", claim=f"C{number}", number=f"{number}")
        for run in runs:
            view = await engine.rest(run)
            assert view.status == "succeeded"
            is_late = any(isinstance(event, e.StepFailed) for event in engine.events(run))
            assert is_late != bool(received(engine, run))
            engine.holds(run)
        assert sorted(logged(ground)) == sorted(
            [got[0].data["number"] for run in runs if (got := received(engine, run))]
            + ["none" for run in runs if not received(engine, run)]
        )


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("point", ["before commit RunFinished", "after commit RunFinished"])
async def test_an_event_that_was_sent_in_the_moment_of_a_crash_is_fed_later(tmp_path: Path, point: str) -> None:
    async with opened(tmp_path, WAITS, SENDS) as ground:
        async with ground.engine() as engine:
            waiting = await engine.run("waits", "k1", name="Aya")
        assert await dying(ground.folder, "sends", "k2", point) == -9
        async with ground.engine() as engine:
            assert (await engine.run("sends", "k2", name="Aya")).status == "succeeded"
            assert (await engine.rest(waiting.run)).status == "succeeded"
            assert len(received(engine, waiting.run)) == 1
        assert logged(ground) == ["0007"]


@pytest.mark.slow
@pytest.mark.parametrize("events_first", [False, True])
async def test_a_thousand_runs_and_a_thousand_events(
    tmp_path: Path, events_first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = flow("quiet", f'  - {{ id: receipt, wait_for: {NAME}, match: {{ claim: "${{{{ inputs.name }}}}" }} }}\n')
    async with opened(tmp_path, quiet) as ground, ground.engine() as engine:
        times: list[float] = []

        async def wait_all() -> None:
            pinned = await engine.driver.pin("quiet")
            wishes = [Wish(given={"name": f"C{number}"}, key=f"k{number}") for number in range(1_000)]
            await asyncio.gather(*(engine.driver.start_pinned(pinned, wish) for wish in wishes))
            # the bound of the test itself is less
            await until(lambda: engine.store.counts().keys() <= {"waiting", "succeeded"}, 3_600)

        async def send_all() -> None:
            for number in range(1_000):
                await send(engine, f"e{number}", claim=f"C{number}")

        for each in (send_all, wait_all) if events_first else (wait_all, send_all):
            began = time.perf_counter()
            await each()
            times.append(time.perf_counter() - began)
        for view in engine.store.runs(RunFilter(limit=1_000)):
            await engine.driver.engine.rest(view.run)
        assert engine.store.counts() == {"succeeded": 1_000}
        assert (engine.store.kept(0), engine.store.waiting()) == ([], [])
        words = ("sent", "and waited for") if events_first else ("waited for", "and sent")
        with capsys.disabled():
            print(f"\n1,000 events {words[0]} in {times[0]:.1f} s, {words[1]} in {times[1]:.1f} s")
