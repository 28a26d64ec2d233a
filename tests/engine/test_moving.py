"""`amends engine move`: who must not run meanwhile, what is told, and drivers that stand on another task queue."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

from runner.engine.temporal.moving import begin_all
from tests.cases.ground import flow, opened
from tests.cli.terminal import Running, Terminal, amends
from tests.engine.test_temporal import ASKS, NAP, client_of, driven, embedded_at_first, moved, said_yes
from tests.store.conftest import database, server
from tests.support.temporal import TemporalServer

__all__ = ["database", "server"]
NOWHERE = 'engine: { temporal: "127.0.0.1:1" }'


def host(folder: Path, database: str, engine: str) -> Path:
    """The folder of a project on this database."""
    (folder / "flows").mkdir(parents=True)
    (folder / "amends.yaml").write_text(f"project: shop\ndatabase: {{ secret: DATABASE_URL }}\n{engine}\n")
    (folder / "flows" / "nap.yaml").write_text(flow("nap", NAP))
    (folder / ".env").write_text(f"DATABASE_URL={database}\n")
    return folder


@pytest.mark.timeout(120)
@pytest.mark.parametrize("to", ["temporal", "embedded"])
def test_no_run_is_moved_while_an_engine_of_the_database_lives(tmp_path: Path, database: str, to: str) -> None:
    """In another folder too, and where the lock of this one is free: who had it was killed."""
    here, there = host(tmp_path / "here", database, "engine: embedded"), host(tmp_path / "there", database, "")
    named, beside = here / "amends.yaml", socket.gethostname()
    with (
        Running("worker", folder=here) as killed, Running("serve", "--port", "0", folder=here) as served,
        Running("worker", folder=there) as worker,
    ):  # fmt: skip
        killed.end(signal.SIGKILL)
        named.write_text(named.read_text().replace("engine: embedded", NOWHERE))
        said = amends("engine", "move", "--to", to, folder=here)
        told = " ".join(said.err.split())
        assert said.code != 0, said.out
        assert " run still: " in told, told
        assert f": {beside}:{served.process.pid}, {beside}:{worker.process.pid}; end them, then say this again" in told
        assert "; one that was killed is counted as gone within 15 s" in told
        assert f":{killed.process.pid}" not in told
        assert served.end().code == 0
        said = amends("engine", "move", "--to", to, folder=here)
        told = " ".join(said.err.split())
        assert "1 engine of " in told
        assert f" runs still: {beside}:{worker.process.pid}; end it, then say this again" in told
        assert worker.end().code == 0
    said = amends("engine", "move", "--to", to, folder=here)
    assert "cannot be reached; start it, or correct the address" in " ".join(said.err.split())


@pytest.mark.timeout(120)
def test_one_database_is_not_driven_by_both_engines_at_once(
    tmp_path: Path, database: str, temporal: TemporalServer
) -> None:
    """Whichever came first; a command that drives for a moment is refused too."""
    queue = f"q{secrets.token_hex(6)}"
    clustered = host(tmp_path / "there", database, f'engine: {{ temporal: "{temporal.address}", queue: {queue} }}')
    embedded = host(tmp_path / "here", database, "engine: embedded")
    kinds = {clustered: ("a Temporal cluster", "has a Temporal cluster"), embedded: ("no cluster", "is embedded")}
    for first, late in ((clustered, embedded), (embedded, clustered)):
        with Running("worker", folder=first) as worker, Running("worker", folder=first) as another:
            assert another.end().code == 0
            for words in (("worker",), ("serve", "--port", "0"), ("run", "nap", "--input", "name=a")):
                said = amends(*words, folder=late)
                told = " ".join(said.err.split())
                assert said.code != 0, said.out
                assert f"amends.yaml names {kinds[late][0]}, and what runs on " in told, told
                who = f"{socket.gethostname()}:{worker.process.pid}"
                assert f" {kinds[first][1]} ({who}); give them all one `engine:`, or end them and say" in told
            assert worker.end().code == 0


def test_an_engine_of_a_file_is_to_be_ended_first(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    with Running("serve", "--port", "0", folder=tmp_path) as served:
        (tmp_path / "amends.yaml").write_text(f"{NOWHERE}\n")
        said = amends("engine", "move", "--to", "temporal", folder=tmp_path)
        assert said.code != 0
        told = " ".join(said.err.split())
        assert f"process {served.process.pid} drives this project" in told
        assert told.rstrip(".").endswith("; end it, then say this again")


def test_runs_that_are_embedded_already_need_no_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "amends.yaml").write_text("engine: embedded\n")
    terminal = Terminal(tmp_path, capsys)
    said = terminal.type("engine", "move", "--to", "embedded")
    assert (said.code, " ".join(said.out.split()), said.err) == (
        0, "amends.yaml names no cluster, so the embedded engine has the runs already; nothing was to be done.", "",
    )  # fmt: skip
    assert (tmp_path / "amends.yaml").read_text() == "engine: embedded\n"
    said = terminal.type("engine", "move", "--to", "temporal")
    assert said.code != 0
    assert "amends.yaml names no cluster; for --to temporal write" in " ".join(said.err.split())


async def test_a_driver_on_another_task_queue_is_begun_anew_on_this_one(
    tmp_path: Path, temporal: TemporalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """`queue` in amends.yaml was changed after a first move: no worker of these settings asks the old queue."""
    async with driven(tmp_path, temporal) as ground:
        client = await client_of(ground)
        async with embedded_at_first(ground) as engine:
            runs = [await engine.start("asks", f"k{number}", name=f"n{number}") for number in range(3)]
            for run in runs:
                await engine.until(run, "waiting")
        assert await begin_all(client, f"old-{secrets.token_hex(6)}", runs[:2]) == 0
        old = [(await client.get_workflow_handle(run).describe()).run_id for run in runs[:2]]
        await asyncio.to_thread(moved, ground.folder, "temporal")
        told = " ".join(capsys.readouterr().out.split())
        assert told.startswith("3 runs have a driver in ")
        assert ". 2 drivers on another task queue ended and began anew." in told
        for run, before in zip(runs, old, strict=False):
            ended = await client.get_workflow_handle(run, run_id=before).describe()
            assert ended.status is WorkflowExecutionStatus.TERMINATED
        await asyncio.to_thread(moved, ground.folder, "temporal")
        assert "anew" not in capsys.readouterr().out
        async with ground.engine() as engine:
            for number, run in enumerate(runs):
                await said_yes(engine, f"n{number}")
                await engine.until(run, "succeeded")
                engine.holds(run)
        assert sorted(ground.effects()) == sorted(["/reserve", "/charge"] * 3)


async def test_one_run_has_a_driver_and_goes_on(
    tmp_path: Path, temporal: TemporalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path, ASKS) as ground:
        async with ground.engine() as engine:
            await engine.until(await engine.start("asks", "k1", name="a"), "waiting")
        said = f'engine: {{ temporal: "{temporal.address}", queue: q{secrets.token_hex(6)} }}\n'
        (ground.folder / "amends.yaml").write_text(said)
        await asyncio.to_thread(moved, ground.folder, "temporal")
        told = " ".join(capsys.readouterr().out.split())
        assert told.startswith("1 run has a driver in ")
        assert told.endswith(" It goes on with `amends serve` or `amends worker`.")
        await asyncio.to_thread(moved, ground.folder, "embedded")
        assert "; 1 run goes on with `amends serve`." in " ".join(capsys.readouterr().out.split())
