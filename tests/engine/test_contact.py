"""What an engine says while its cluster is away, while the queue is not its own, and as its process ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from runner.engine.temporal import contact as contact_module
from runner.engine.temporal.contact import Contact
from runner.engine.temporal.engine import TemporalEngine
from runner.engine.temporal.workflow import RUN, Began
from runner.language.settings import Cluster
from tests.cli.terminal import PROGRAM, environment
from tests.engine.test_temporal import client_of, cluster_of, driven
from tests.support.says import HELD
from tests.support.temporal import TemporalServer

CLUSTER = Cluster(address="temporal.acme.example:7233", queue="shop-ops")
AWAY = RPCError("tcp connect error", RPCStatusCode.UNAVAILABLE, b"")
BUSY = RPCError("busy", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
STRANGE = (
    'the queue "{}" (amends.yaml, engine) carries run {}, which this database does not have: another project has the '
    "same queue, or the database was put back from a copy; each project needs a queue of its own"
)
IS_AWAY = "Temporal at {} cannot be reached ("
IS_BACK = "Temporal at {} answers again, and runs go on"


async def until(is_so: Callable[[], object], seconds: float = 40) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - others do it
            await asyncio.sleep(0.02)


def test_a_strange_run_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    contact = Contact(CLUSTER)
    for run, at in (("r1", 5), ("r2", 59_000), ("r3", 60_005), ("r1", 60_006)):
        contact.tell_strange(run, at)
    assert caplog.messages == [STRANGE.format("shop-ops", "r1"), STRANGE.format("shop-ops", "r3")]


def test_a_cluster_that_is_away_is_told_once_for_all_who_ask(caplog: pytest.LogCaptureFixture) -> None:
    contact = Contact(CLUSTER)
    assert contact.tells_of(BUSY)
    assert not contact.tells_of(AWAY)
    assert not contact.tells_of(AWAY)
    assert not contact.tells_of(BUSY)
    (said,) = caplog.messages
    assert said == (
        "Temporal at temporal.acme.example:7233 cannot be reached (tcp connect error); it is asked again, and runs go "
        "on once it answers"
    )


async def test_a_run_of_another_project_on_the_queue_is_no_defect(
    tmp_path: Path, temporal: TemporalServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []
    plain = TemporalEngine._has

    def has(engine: TemporalEngine, run: str) -> bool:
        tried.append(plain(engine, run))
        return tried[-1]

    monkeypatch.setattr(TemporalEngine, "_has", has)
    async with driven(tmp_path, temporal) as ground, ground.engine():
        client, queue = await client_of(ground), cluster_of(ground).queue
        handle: WorkflowHandle[object, object] = await client.start_workflow(
            RUN, Began(), id=f"{queue}-1", task_queue=queue
        )
        await until(lambda: len(tried) > 1)
        pending = (await handle.describe()).raw_description.pending_activities
        assert {one.last_failure.message for one in pending} == {"the log of the worker says why"}
        await handle.terminate()
    assert not any(tried)
    told = [one for one in caplog.records if one.name.startswith("amends")]
    assert [one.getMessage() for one in told] == [STRANGE.format(queue, f"{queue}-1")]
    assert told[0].exc_info is None


async def test_whoever_leaves_a_run_that_is_still_queued_leaves_no_defect(
    tmp_path: Path, temporal: TemporalServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*args: object) -> None:
        """Asks for no work."""

    monkeypatch.setattr(TemporalEngine, "_poll", nobody)
    async with driven(tmp_path, temporal) as ground, ground.engine() as engine:
        run = await engine.start("saga", "k1", name="a")
        watching = asyncio.create_task(engine.driver.engine.rest(run))
        await asyncio.sleep(1)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        await asyncio.sleep(0.1)
        gc.collect()
    assert "never retrieved" not in caplog.text


@pytest.mark.timeout(120)
async def test_an_outage_is_two_sentences(
    tmp_path: Path, temporal: TemporalServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(contact_module, "LOOKS_EVERY", 0.2)
    caplog.set_level(logging.INFO, "amends.engine")
    async with driven(tmp_path, temporal) as ground, ground.engine() as engine:
        run = await engine.start("asks", "k1", name="a")
        await engine.until(run, "waiting")
        temporal.kill()
        try:
            await until(lambda: IS_AWAY.format(temporal.address) in caplog.text)
            await engine.start("saga", "k2", name="a")
            await asyncio.sleep(12)
        finally:
            temporal.start()
        await until(lambda: IS_BACK.format(temporal.address) in caplog.text)
    said = [one.getMessage() for one in caplog.records if one.name.startswith("amends.engine")]
    assert [text[:30] for text in said] == [
        IS_AWAY.format(temporal.address)[:30], IS_BACK.format(temporal.address)[:30]
    ]  # fmt: skip
    assert "retry" not in capfd.readouterr().err


async def test_whoever_follows_for_another_process_leaves_nothing_behind(
    tmp_path: Path, temporal: TemporalServer
) -> None:
    async def tell(what: object) -> None:
        """Nobody listens."""

    async with driven(tmp_path, temporal) as ground, ground.engine() as engine:
        ground.shop.script("POST /reserve", HELD)
        run = await engine.start("saga", "k1", name="a")
        await until(lambda: ground.asked("/reserve"))
        following = asyncio.create_task(engine.driver.follow_for(run, 0, tell))
        await asyncio.sleep(0.3)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        await asyncio.sleep(0.1)
        left = [task for task in asyncio.all_tasks() if "Event.wait" in repr(task)]
        ground.shop.release()
        assert left == []
        await engine.until(run, "succeeded")


@pytest.mark.timeout(120)
def test_a_command_that_spoke_with_the_cluster_ends_with_its_code(tmp_path: Path, temporal: TemporalServer) -> None:
    """The library's threads would abort some of them as Python is taken down."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "amends.yaml").write_text(f'engine: {{ temporal: "{temporal.address}", namespace: wrong }}\n')
    for _ in range(10):
        done = subprocess.run(
            [*PROGRAM, "engine", "move", "--to", "temporal"], cwd=tmp_path, env=environment(), capture_output=True,
            text=True, timeout=30,
        )  # fmt: skip
        assert (done.returncode, "Fatal" in done.stderr) == (2, False), done.stderr
        assert 'has no namespace "wrong"' in done.stderr
