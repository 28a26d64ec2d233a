"""Runs that a Temporal cluster drives, on the real server: what travels, what may be lost, who carries what."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from runner.cli import engine as engine_command
from runner.cli import place
from runner.engine.driven import ELSEWHERE, Bell, Rest
from runner.engine.temporal import engine as engine_module
from runner.engine.temporal.cluster import connect, is_newer, shows_attributes
from runner.engine.temporal.engine import TemporalEngine
from runner.errors import NotPossible, SettingsError
from runner.language.settings import Cluster, load_settings
from tests.cases.ground import Engine, Ground, connector, flow, opened
from tests.support.says import DROP_AFTER, HELD, refused
from tests.support.temporal import TemporalServer
from tests.support.tls_door import chain, tls_door


def step(name: str, undo: str) -> str:
    return f"""  - id: {name}
    do: shop.{name}
    with: {{ note: "${{{{ inputs.name }}}}", of: "", amount: 1 }}
    compensate: {{ cancel: shop.{undo}, with: {{ note: back, of: "${{{{ output.id }}}}", amount: 1 }} }}
"""


RESERVE, CHARGE = step("reserve", "release"), step("charge", "refund")
WAIT = '  - { id: "yes", wait_for: said.yes, match: { who: "${{ inputs.name }}" } }\n'
NAP = "  - { id: nap, wait: 1500 ms }\n"
ASKS = flow("asks", RESERVE + WAIT + CHARGE)
NAPS = flow("naps", RESERVE + NAP + CHARGE)
SAGA = flow("saga", RESERVE + CHARGE)
BESIDE = flow(
    "beside",
    "  - id: both\n    parallel:\n      one:\n"
    + indent(NAP + CHARGE, "      ")
    + "      two:\n"
    + indent(RESERVE, "      "),
)
PERSONAL = "Aya-who-is-nobodys-business"


@asynccontextmanager
async def driven(folder: Path, server: TemporalServer, *, more: str = "") -> AsyncIterator[Ground]:
    """A project whose runs the cluster drives."""
    async with opened(folder, ASKS, NAPS, SAGA) as ground:
        said = f'engine: {{ temporal: "{server.address}", queue: q{secrets.token_hex(6)}{more} }}\n'
        (ground.folder / "amends.yaml").write_text(said)
        yield ground


def cluster_of(ground: Ground) -> Cluster:
    found = ground.project().settings.cluster
    assert found is not None
    return found


async def client_of(ground: Ground) -> Client:
    return await connect(cluster_of(ground), ground.folder, lambda _: "")


@asynccontextmanager
async def embedded_at_first(ground: Ground) -> AsyncIterator[Engine]:
    """An engine of the project before it went to its cluster; amends.yaml names that again afterwards."""
    settings = ground.folder / "amends.yaml"
    in_cluster = settings.read_text()
    settings.write_text("engine: embedded\n")
    async with ground.engine() as engine:
        yield engine
    settings.write_text(in_cluster)


async def said_yes(engine: Engine, who: str = PERSONAL) -> None:
    assert await engine.driver.send_event(secrets.token_hex(8), "said.yes", {"who": who}, "test")


async def ended(handle: WorkflowHandle[object, object]) -> None:
    async with asyncio.timeout(30):
        while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_run_goes_its_way_and_only_ids_and_times_travel(tmp_path: Path, temporal: TemporalServer) -> None:
    async with driven(tmp_path, temporal) as ground:
        client = await client_of(ground)
        async with ground.engine() as engine:
            run = await engine.start("asks", "k1", name=PERSONAL)
            assert await engine.start("asks", "k1", name=PERSONAL) == run
            await engine.until(run, "waiting")
            await said_yes(engine)
            await engine.driver.engine.rest(run)
            assert engine.store.run(run).status == "succeeded"
            engine.holds(run)
            ground.shop.script("POST /charge", refused(422))
            lost = await engine.run("saga", "k2", name=PERSONAL)
            assert (lost.status, engine.dispositions(lost.run)) == ("compensated", {"reserve": "undone"})
        assert ground.effects() == ["/reserve", "/charge", "/reserve", "/release"]
        for each in (run, lost.run):
            handle: WorkflowHandle[object, object] = client.get_workflow_handle(each)
            await ended(handle)
            history = (await handle.fetch_history()).to_json()
            assert PERSONAL not in history
            shown = {str(pair.value) for pair in (await handle.describe()).typed_search_attributes}
            assert shown >= ({"asks", "succeeded"} if each == run else {"saga", "compensated"})


async def test_the_log_is_the_truth_whatever_the_cluster_has_lost(tmp_path: Path, temporal: TemporalServer) -> None:
    async with driven(tmp_path, temporal) as ground:
        client = await client_of(ground)
        async with ground.engine() as engine:
            asks, naps = await engine.start("asks", "k1", name=PERSONAL), await engine.start("naps", "k2", name="b")
            for run in (asks, naps):
                await engine.until(run, "waiting")
                await client.get_workflow_handle(run).terminate(reason="lost")
            await said_yes(engine)
            assert (await engine.rest(asks)).status == "succeeded"
            wakes = engine.store.run(naps).wake_at
            assert wakes is not None
            assert isinstance(engine.driver.engine, TemporalEngine)
            await asyncio.sleep(max(wakes - engine.driver._clock.now(), 0) / 1000)
            assert engine.store.run(naps).status == "waiting"
            assert await engine.driver.engine.wake_forgotten(settled=0) == 1
            await engine.until(naps, "succeeded")
            engine.holds(naps)
        assert sorted(ground.effects()) == ["/charge", "/charge", "/reserve", "/reserve"]


async def test_what_another_worker_had_is_looked_at_again(
    tmp_path: Path, temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that one has let go of it by then: nothing else would wake the run."""
    plain, times = TemporalEngine.carry, list[str]()

    async def carry(self: TemporalEngine, run: str, woken: Bell) -> Rest:
        times.append(run)
        return await plain(self, run, woken) if len(times) > 1 else ELSEWHERE

    monkeypatch.setattr(TemporalEngine, "carry", carry)
    async with driven(tmp_path, temporal) as ground, ground.engine() as engine:
        run = await engine.start("saga", "k1", name="a")
        await engine.until(run, "succeeded")
        assert times == [run, run]


async def test_an_engine_without_a_cluster_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, SAGA) as ground:
        (ground.folder / "amends.yaml").write_text('engine: { temporal: "127.0.0.1:1" }\n')
        with pytest.raises(NotPossible, match="cannot be reached; start it, or correct the address"):
            async with ground.engine():
                pass


async def test_what_is_due_does_not_wait_for_a_call_that_is_out(tmp_path: Path, temporal: TemporalServer) -> None:
    async with driven(tmp_path, temporal) as ground:
        (ground.folder / "connectors" / "shop.yaml").write_text(connector(limit=60_000))
        ground.write(BESIDE)
        async with ground.engine() as engine:
            ground.shop.script("POST /charge", DROP_AFTER)
            ground.shop.script("POST /reserve", HELD)
            run = await engine.start("beside", "k1", name="a")
            async with asyncio.timeout(50):
                while ground.asked("/charge") < 2:  # noqa: ASYNC110 - the receiver tells nobody
                    await asyncio.sleep(0.02)
            assert engine.state(run).calls["reserve", "do", 0].is_open
            ground.shop.release()
            await engine.until(run, "succeeded")
            engine.holds(run)


async def test_the_server_is_killed_and_comes_back(tmp_path: Path, temporal: TemporalServer) -> None:
    async with driven(tmp_path, temporal) as ground, ground.engine() as engine:
        runs = [await engine.start("naps", f"k{number}", name="a") for number in range(4)]
        await engine.until(runs[-1], "waiting")
        temporal.kill()
        started = await engine.start("saga", "late", name="b")
        temporal.start()
        for run in (*runs, started):
            async with asyncio.timeout(40):
                while engine.store.run(run).status != "succeeded":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        assert sorted(ground.effects()) == sorted(["/reserve", "/charge"] * 5)


async def test_who_watches_a_run_that_a_defect_meets_does_not_wait_for_ever(
    tmp_path: Path, temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def carrying(engine: TemporalEngine, *args: Any) -> Rest:
        raise RuntimeError("a planted defect")

    async with driven(tmp_path, temporal) as ground, ground.engine() as engine:
        with monkeypatch.context() as planted:
            planted.setattr(TemporalEngine, "carry", carrying)
            run = await engine.start("saga", "k1", name="a")
            async with asyncio.timeout(20):
                assert (await engine.driver.follow(run, lambda: None)).status == "queued"
        await engine.until(run, "succeeded")
        engine.holds(run)


async def test_runs_change_their_engine_while_they_wait(
    tmp_path: Path, temporal: TemporalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    async with driven(tmp_path, temporal) as ground:
        settings = ground.folder / "amends.yaml"
        in_cluster = settings.read_text()
        client = await client_of(ground)
        async with embedded_at_first(ground) as engine:
            asks, naps = await engine.start("asks", "k1", name=PERSONAL), await engine.start("naps", "k2", name="b")
            for run in (asks, naps):
                await engine.until(run, "waiting")
        await asyncio.to_thread(moved, ground.folder, "temporal")
        assert "2 runs have a driver" in capsys.readouterr().out
        async with ground.engine() as engine:
            await engine.until(naps, "succeeded")
            more = await engine.start("asks", "k3", name="c")
            await engine.until(more, "waiting")
        await asyncio.to_thread(moved, ground.folder, "embedded")
        assert "2 drivers ended" in capsys.readouterr().out
        assert settings.read_text() == f"# {in_cluster}engine: embedded\n"
        for run in (asks, more):
            assert (await client.get_workflow_handle(run).describe()).status is WorkflowExecutionStatus.TERMINATED
        async with ground.engine() as engine:
            for who, run in ((PERSONAL, asks), ("c", more)):
                await said_yes(engine, who)
                assert (await engine.rest(run)).status == "succeeded"
                engine.holds(run)
        assert sorted(ground.effects()) == sorted(["/reserve", "/charge"] * 3)


def moved(folder: Path, to: str) -> None:
    token = place.FOLDER.set(folder)
    try:
        engine_command.move(engine_command.Engine(to))
    finally:
        place.FOLDER.reset(token)


async def test_a_connection_is_reached_by_its_own_workers_alone(tmp_path: Path, temporal: TemporalServer) -> None:
    async with driven(tmp_path, temporal, more=", apart: [shop]") as ground, ground.engine() as engine:
        run = await engine.start("saga", "k1", name="a")
        await asyncio.sleep(2)
        assert ground.effects() == []
        apart = beside(ground, engine, only=("shop",))
        await apart.start()
        await engine.until(run, "succeeded")
        await apart.stop()
        engine.holds(run)
        assert ground.effects() == ["/reserve", "/charge"]


async def test_a_cluster_that_does_not_answer_is_not_said_to_lack_anything(
    tmp_path: Path, temporal: TemporalServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with driven(tmp_path, temporal) as ground:
        client = await client_of(ground)
        assert await shows_attributes(client)
        temporal.kill()
        try:
            assert await shows_attributes(client) is None
        finally:
            temporal.start()
        assert "cannot be found" not in caplog.text


async def test_a_run_that_stands_still_is_woken_ever_more_seldom(
    tmp_path: Path, temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reaches its connection: the cluster has not lost it, and is not told so each minute."""
    ended, plain = list[str](), TemporalEngine.carry

    async def carry(self: TemporalEngine, run: str, woken: Bell) -> Rest:
        try:
            return await plain(self, run, woken)
        finally:
            ended.append(run)

    monkeypatch.setattr(TemporalEngine, "carry", carry)
    async with driven(tmp_path, temporal, more=", apart: [shop]") as ground, ground.engine() as engine:
        run, found = await engine.start("saga", "k1", name="a"), list[int]()
        driver = engine.driver.engine
        assert isinstance(driver, TemporalEngine)
        for _ in range(9):
            async with asyncio.timeout(30):  # it has come to where it stands, and the last wake has been sent
                while driver.is_at_work(run) or not ended:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0.02)
            found.append(await driver.wake_forgotten(settled=0))
        assert found == [1, 1, 0, 1, 0, 0, 0, 1, 0]
        assert ground.effects() == []


def beside(ground: Ground, engine: Engine, **words: Any) -> TemporalEngine:
    """Another engine of the same log."""
    return TemporalEngine(
        engine.store, engine.driver.outside, engine.driver._clock, cluster=cluster_of(ground), folder=ground.folder,
        secret=lambda _: "", **words,
    )  # fmt: skip


async def test_after_an_upgrade_the_old_workers_get_nothing_any_more(
    tmp_path: Path, temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old and new at once: what the old ones began goes on with the new ones, and a still older one takes nothing."""
    carried: dict[str, set[str]] = {"old": set(), "new": set(), "older": set()}
    monkeypatch.setattr(engine_module, "BUILD", "1.9-1")
    async with driven(tmp_path, temporal) as ground, ground.engine() as engine:
        engine.driver.engine.observers.append(lambda run, *_: carried["old"].add(run))
        began = await engine.start("asks", "k1", name="a")
        await engine.until(began, "waiting")
        assert carried["old"] == {began}
        others = []
        for name, build in (("new", "1.10-1"), ("older", "1.8-7")):
            monkeypatch.setattr(engine_module, "BUILD", build)
            other = beside(ground, engine, lasts=True)
            other.observers.append(lambda run, *_, to=carried[name]: to.add(run))
            await other.start()
            others.append(other)
            await has_the_work(ground, "1.10-1")
        carried["old"].clear()
        await said_yes(engine, "a")
        after = await engine.start("saga", "k2", name="b")
        for run in (began, after):
            await engine.until(run, "succeeded")
            engine.holds(run)
        assert carried == {"old": set(), "new": {began, after}, "older": set()}
        for other in others:
            await other.stop()
    assert sorted(ground.effects()) == ["/charge", "/charge", "/reserve", "/reserve"]


async def has_the_work(ground: Ground, build: str) -> None:
    """Waits until the cluster gives its work to this version of the workers."""
    client, cluster = await client_of(ground), cluster_of(ground)
    asked = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=cluster.queue)
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(RPCError):  # it answers so many of them a second
                found = await client.workflow_service.describe_worker_deployment(asked)
                if found.worker_deployment_info.routing_config.current_deployment_version.build_id == build:
                    return
            await asyncio.sleep(1)


def test_versions_go_by_their_numbers() -> None:
    assert is_newer("0.10.0-1", "0.9.9-4")
    assert is_newer("0.9.0-2", "0.9.0-1")
    assert not is_newer("0.9.0-1", "0.9.0-1")
    assert not is_newer("0.9.0-1", "1.0.0-1")


async def test_the_cluster_is_reached_over_tls(tmp_path: Path, temporal: TemporalServer) -> None:
    """Only where it proves who it is, and we do where it asks for that."""
    context = chain(tmp_path)
    key = (tmp_path / "key.pem").read_text()
    async with tls_door(temporal.port, context) as port:
        reached = {"ca": "ca.pem", "cert": "cert.pem", "key": "TEMPORAL_KEY"}
        cluster = Cluster(address=f"127.0.0.1:{port}", tls=reached, api_key="TEMPORAL_API_KEY")
        client = await connect(cluster, tmp_path, {"TEMPORAL_KEY": key, "TEMPORAL_API_KEY": "an-api-key"}.__getitem__)
        assert client.api_key == "an-api-key"
        assert (await client.count_workflows()).count >= 0
        for tls in ({"ca": "ca.pem"}, {"cert": "cert.pem", "key": "TEMPORAL_KEY"}, None):
            with pytest.raises(NotPossible, match="cannot be reached"):
                await connect(Cluster(address=cluster.address, tls=tls), tmp_path, lambda _: key)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{ temporal: '127.0.0.1:1' }", "the Temporal cluster at 127.0.0.1:1 (amends.yaml, engine) cannot be reached; start it, or correct the address"),
        ("{ temporal: 'HERE', namespace: nowhere }", 'has no namespace "nowhere"; make it with `temporal operator namespace create nowhere`, or correct the name'),
        ("{ temporal: 'HERE', tls: { ca: none.pem } }", "none.pem that engine: tls names cannot be read"),
        ("{ temporal: 'HERE', tls: { key: { secret: K } } }", "engine: tls has cert or key alone; our certificate needs both, or neither"),
        ("{ temporal: 'HERE', tls: true }", "cannot be reached; look at its address and at tls"),
    ],
)  # fmt: skip
async def test_a_cluster_that_cannot_be_used_is_told_in_a_sentence(
    said: str, told: str, tmp_path: Path, temporal: TemporalServer
) -> None:
    settings, _, problems = load_settings(f"engine: {said}".replace("HERE", temporal.address), "a", folder="a")
    assert not problems
    assert settings.cluster is not None
    with pytest.raises((NotPossible, SettingsError)) as raised:
        await connect(settings.cluster, tmp_path, lambda _: "")
    assert told in str(raised.value)
