"""Two processes and one engine: whoever holds the lock writes, the other one asks."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import pytest

from runner.app import Amends
from runner.engine import embedded
from runner.engine.handover import ask
from runner.engine.starting import Wish
from runner.errors import AmendsError, EngineBusy, InputsInvalid, NotFound, NotPossible, RunKeyConflict
from runner.far import FarDriver
from runner.people.operations import Order
from tests.cases.ground import ME, connector, flow, kinds_of, opened, until
from tests.cases.processes import amends, serving
from tests.support.says import late, refused

TRIP = flow(
    "trip",
    """  - id: reserve
    do: shop.reserve
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
  - id: ticket
    do: shop.ticket
    with: { note: "${{ inputs.name }}" }
    compensate: { none: It only counts. }
""",
    on_failure="review",
)
NAP = flow("nap", "  - { id: nap, wait: 5 min }\n")
AYA = Wish(given={"name": "Aya"}, key="k1", starter=ME)


@pytest.mark.slow
async def test_serve_and_run_hand_over_start_act_and_follow(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, serving(ground.folder) as process:
        ground.shop.script("POST /ticket", refused(422, "sold out"), refused(422, "sold out"))
        code, said, _ = await amends(ground.folder, "run", "trip", "--input", "name=Aya", "--key", "k1", "--json")
        told = json.loads(said)
        assert (code, told["status"]) == (3, "needs_person")
        reader = Amends(ground.project())
        async with reader.driver() as driver:
            turns: list[int] = []
            assert (await driver.start("trip", AYA)).run == told["run"]
            await driver.act(told["run"], Order(action="retry", by=ME))
            view = await driver.follow(told["run"], lambda: turns.append(1))
            assert (view.status, ground.asked("/ticket")) == ("needs_person", 2)
        reader.close()
        code, said, _ = await amends(ground.folder, "runs", "compensate", told["run"])
        assert "compensated" in said
        assert ground.effects() == ["/reserve", "/release"]
        assert process.returncode is None


@pytest.mark.slow
async def test_this_process_drives_and_another_one_asks(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        ground.shop.script("POST /reserve", late(300))
        code, said, _ = await amends(ground.folder, "run", "trip", "--input", "name=Aya", "--key", "k1", "--json")
        told = json.loads(said)
        assert (code, told["status"]) == (0, "succeeded")
        assert (await engine.run("trip", "k1", name="Aya")).run == told["run"]
        assert ground.effects() == ["/reserve", "/ticket"]
        engine.holds(told["run"])


async def test_what_is_wrong_is_told_across_the_socket_as_it_would_be_here(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        reader = Amends(ground.project())
        async with reader.driver() as driver:
            assert isinstance(driver, FarDriver)
            with pytest.raises(InputsInvalid) as inputs:
                await driver.start("trip", Wish(given={"nam": 1}, key="k1"))
            assert "name" in inputs.value.problems
            with pytest.raises(NotFound, match='there is no flow "trap"; did you mean "trip"'):
                await driver.start("trap", AYA)
            started = await driver.start("trip", AYA)
            assert (await driver.follow(started.run, lambda: None)).status == "succeeded"
            assert (await driver.start("trip", AYA)).joined
            with pytest.raises(RunKeyConflict, match=started.run):
                await driver.start("trip", Wish(given={"name": "Tom"}, key="k1", source="mail"))
            with pytest.raises(NotPossible, match="has ended"):
                await driver.act(started.run, Order(action="pause", by=ME))
            with pytest.raises(NotFound):
                await driver.act("nosuchrun", Order(action="pause", by=ME))
            broken = TRIP.replace("flow: trip", "flow: broken").replace("shop.ticket", "shop.tickets")
            ground.write(broken)
            with pytest.raises(AmendsError, match="flows/broken.yaml:.*tickets"):
                await driver.start("broken", AYA)
        reader.close()
        assert (await engine.run("trip", "k3", name="Aya")).status == "succeeded", "the engine is not hurt by any of it"


async def test_an_order_that_is_none_is_answered_and_hurts_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        holder = engine.driver._lock.holder()
        assert holder is not None
        with pytest.raises(NotPossible, match='does not know the order "dance"'):
            await ask(holder.socket, {"order": "dance"})
        with pytest.raises(AmendsError, match="met a defect; its log says which"):
            await ask(holder.socket, {"order": "act", "run": "x" * 3})
        assert "could not be carried out" in caplog.text
        assert (await engine.run("trip", "k1", name="Aya")).status == "succeeded"


async def test_a_watcher_that_goes_away_keeps_no_engine_from_ending(tmp_path: Path) -> None:
    async with opened(tmp_path, NAP) as ground:
        async with ground.engine() as engine:
            reader = Amends(ground.project())
            run = await engine.start("nap", "k1", name="Aya")
            async with reader.driver() as driver:
                watching = asyncio.create_task(driver.follow(run, lambda: None))
                await engine.until(run, "waiting")
                await asyncio.sleep(0.1)
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            reader.close()
            began = time.monotonic()
        assert time.monotonic() - began < 3


@pytest.mark.slow
async def test_serve_ends_at_sigterm_whoever_watches(tmp_path: Path) -> None:
    async with opened(tmp_path, NAP) as ground, serving(ground.folder) as process:
        reader = Amends(ground.project())
        async with reader.driver() as driver:
            run = (await driver.start("nap", AYA)).run
            watching = asyncio.create_task(driver.follow(run, lambda: None))
            await until(lambda: reader.store.run(run).status == "waiting")
            await asyncio.sleep(0.1)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            with pytest.raises(EngineBusy, match="was stopped meanwhile; the run goes on with the next one"):
                await watching
            longest = 4 if reader.settings.cluster is None else 25  # a cluster's workers hand on what they have
            assert await asyncio.wait_for(process.wait(), longest + 1) == 0
            assert time.monotonic() - began < longest
        reader.close()


async def test_a_flow_and_a_connection_that_are_new_are_known_to_the_engine_that_runs(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        assert (await engine.run("trip", "k1", name="Aya")).status == "succeeded"
        lines = ground.folder / "connections.yaml"
        lines.write_text(lines.read_text() + lines.read_text().split("\n")[0].replace("shop: ", "other: ") + "\n")
        ground.write(TRIP.replace("flow: trip", "flow: new").replace("shop.", "other."))
        assert (await engine.run("new", "k2", name="Aya")).status == "succeeded"
        declared = ground.folder / "connectors" / "shop.yaml"
        declared.write_text(declared.read_text().replace("post: /reserve", "post: /reservations"))
        assert (await engine.run("trip", "k3", name="Aya")).status == "succeeded"
        assert ground.effects() == ["/reserve", "/ticket"] * 2 + ["/reservations", "/ticket"]


async def test_a_command_that_is_done_cuts_off_no_call_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "GRACE", 0.05)
    async with opened(tmp_path, TRIP, text=connector(limit=3_000)) as ground:
        ground.shop.script("POST /reserve", late(700))
        async with ground.engine() as engine:
            other = await engine.start("trip", "k1", name="Aya")
            await until(lambda: ground.asked("/reserve") == 1)
            assert (await engine.run("trip", "k2", name="Tom")).status == "succeeded"
        async with ground.engine() as engine:
            assert (await engine.rest(other)).status == "succeeded"
            assert "CallUnknown" not in kinds_of(engine.events(other))
            engine.holds(other)
        assert ground.asked("/reserve") == 2
