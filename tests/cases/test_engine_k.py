"""Case K2 with the whole engine: a stopped process, a killed one, and what was due meanwhile."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from runner import app, far
from runner.app import Amends
from runner.clock import MachineClock
from runner.core import events as e
from runner.engine.starting import Wish
from runner.errors import EngineBusy
from runner.store.facts import RunFilter
from tests.cases.ground import ME, Ground, LaterClock, connector, first, flow, intents, opened, until
from tests.cases.processes import amends, dying, serving
from tests.support.says import HELD, late

NAP = flow(
    "nap",
    """  - id: before
    do: shop.deal
    with: { note: x }
    compensate: { none: It only counts. }
  - { id: nap, wait: 1 s }
  - id: after
    do: shop.log
    with: { note: "${{ inputs.name }}" }
    compensate: { none: It only counts. }
""",
)
POST = NAP.replace("flow: nap", "flow: post").replace("wait: 1 s", 'wait: { until: "${{ now() }}" }')
ONCE = POST.replace("flow: post", "flow: once").replace(
    "    do: shop.deal\n    with: { note: x }\n",
    "    do: shop.post\n    with: { note: x }\n    unattended: It counts.\n    accept_order: It may go first.\n",
)


def witnessed(ground: Ground) -> None:
    """Nothing waits for nothing, at this moment and an hour from now."""
    reader = Amends(ground.project())
    try:
        for later in (0, 3_600_000):
            assert reader.store.without_witness(MachineClock().now() + later) == []
    finally:
        reader.close()


@pytest.mark.embedded_only("several may serve one PostgreSQL, so a stopped one is not the only one")
@pytest.mark.slow
async def test_k2_a_stopped_engine_is_still_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOCK_PATIENCE", 0.5)
    monkeypatch.setattr(far, "HELLO", 0.3)
    async with opened(tmp_path, POST) as ground, serving(ground.folder) as process:
        ground.shop.script("POST /deal", late(300))
        reader = Amends(ground.project())
        async with reader.driver() as driver:
            run = (await driver.start("post", Wish(given={"name": "Aya"}, key="k1", starter=ME))).run
        await until(lambda: ground.asked("/deal") == 1)
        process.send_signal(signal.SIGSTOP)
        code, _, said = await amends(ground.folder, "serve")
        assert code == 2
        assert f"process {process.pid} drives this project" in said
        assert said.rstrip().endswith("already; one engine is enough")
        began = time.monotonic()
        with pytest.raises(EngineBusy, match=f"process {process.pid} drives this project .* does not answer"):
            async with reader.driver():
                pass
        assert time.monotonic() - began < 5
        await asyncio.sleep(max(0.0, 1.2 - (time.monotonic() - began)))
        witnessed(ground)
        process.send_signal(signal.SIGCONT)
        async with reader.driver() as driver:
            view = await driver.follow(run, lambda: None)
        assert view.status == "succeeded"
        assert ground.effects() == ["/deal", "/log"], "slow is not dead: nothing was done twice"
        assert reader.store.verify() == []
        reader.close()


@pytest.mark.slow
@pytest.mark.crash
async def test_k2_a_kill_in_the_middle_of_a_call_and_what_was_due_meanwhile(tmp_path: Path) -> None:
    clock = LaterClock()
    async with opened(tmp_path, NAP.replace("1 s", "60 s"), POST, ONCE, text=connector(limit=30_000)) as ground:
        async with serving(ground.folder) as process:
            reader = Amends(ground.project())
            async with reader.driver() as driver:
                napping = (await driver.start("nap", Wish(given={"name": "Aya"}, key="k1", starter=ME))).run
                await until(lambda: reader.store.run(napping).status == "waiting")
                ground.shop.script("POST /deal", HELD)
                ground.shop.script("POST /post", HELD)
                keyed = (await driver.start("post", Wish(given={"name": "Aya"}, key="k2", starter=ME))).run
                once = (await driver.start("once", Wish(given={"name": "Aya"}, key="k3", starter=ME))).run
                await until(lambda: ground.asked("/deal") == 2 and ground.asked("/post") == 1)
            due = reader.store.run(napping).wake_at
            reader.close()
            process.kill()
            await process.wait()
        witnessed(ground)
        assert due is not None
        clock.by = 61_000
        async with ground.engine(clock) as engine:
            assert (await engine.rest(napping)).status == "succeeded"
            fired = first(engine.events(napping), e.TimerFired)
            assert (fired.due, fired.at > due) == (due, True), "it fires at the start, and once"
            assert len([one for one in engine.events(napping) if isinstance(one, e.TimerFired)]) == 1
            assert (await engine.rest(keyed)).status == "succeeded"
            assert first(engine.events(keyed), e.CallUnknown).take_over
            assert len({one.key for one in intents(engine.events(keyed), "before")}) == 1
            view = await engine.rest(once)
            assert (view.status, view.at_step) == ("needs_person", "before"), "nobody knows, so a person is asked"
            assert engine.store.without_witness(MachineClock().now() + 3_600_000) == []
            for run in (napping, keyed, once):
                engine.holds(run)
        assert (len(ground.made("/deal")), ground.asked("/post")) == (2, 1)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("point", ["after commit TimerSet nap wait", "after commit start"])
async def test_k2_a_kill_between_two_steps_leaves_a_run_that_goes_on(tmp_path: Path, point: str) -> None:
    async with opened(tmp_path, NAP) as ground:
        assert await dying(ground.folder, "nap", "k1", point) == -9, (ground.folder / "trace").read_text()
        witnessed(ground)
        async with ground.engine() as engine:
            (run,) = engine.store.runs(RunFilter())
            assert (await engine.rest(run.run)).status == "succeeded"
            engine.holds(run.run)
        assert ground.effects() == ["/deal", "/log"]
