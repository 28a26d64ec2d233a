"""What is PostgreSQL's alone: who may write, what is refused, and that a broken connection loses and repeats nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.core.events import StopRequested
from runner.engine.starting import Wish
from runner.errors import EngineBusy, NotFound, NotPossible, SettingsError, StoreCorrupt, StoreError, StoreUnwritable
from runner.language.connections import installed
from runner.language.project import Project
from runner.store.copying import copy_database
from runner.store.lock import EngineLock
from runner.store.postgres import LOCK
from runner.store.sql import SqlStore, open_store
from tests.bench._ground import NothingKind, write_project
from tests.store.samples import TurnedClock, applied, begun, intended, new_run
from tests.support.http_service import HttpService
from tests.support.postgres import PASSWORD, running_postgres

RUNS = 24
STEPS = 5


def opened(folder: Path, url: str, *, writable: bool = True) -> SqlStore:
    return open_store(folder, clock=TurnedClock(), writable=writable, floor=0, url=url)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "project"


async def test_what_one_engine_has_written_the_next_one_reads(place: Path, database: str) -> None:
    first = opened(place, database)
    await first.start(new_run("r1"))
    fence = first.fence()
    first.close()
    again = opened(place, database)
    assert again.run("r1").status == "queued"
    assert again.fence() == fence + 1
    told = again.about()
    assert str(told["software"]).startswith("PostgreSQL ")
    assert not again.verify()
    again.close()
    reader = opened(place, database, writable=False)
    assert reader.run("r1").flow == "signup"
    reader.close()


async def test_a_thread_that_reads_on_when_the_store_closes_leaves_no_connection(place: Path, database: str) -> None:
    store = opened(place, database)
    await store.start(new_run("r1"))
    with store._read() as connection:
        driver: Any = connection.connection.driver_connection
        store.close()
        assert not driver.closed
    assert driver.closed


def test_an_empty_database_has_nothing_to_read(place: Path, database: str) -> None:
    with pytest.raises(NotFound, match="is empty; its tables are made when the first flow is run"):
        opened(place, database, writable=False)


def test_an_engine_of_the_time_when_there_was_only_one_keeps_others_out(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.store.postgres.PATIENCE", 100)
    opened(tmp_path / "one", database).close()
    with psycopg.connect(database, autocommit=True) as older:
        older.execute(f"SELECT pg_advisory_lock({LOCK}, hashtext(current_schema()))".encode())
        with pytest.raises(EngineBusy, match="an engine of an older Amends writes to it; end that first"):
            opened(tmp_path / "two", database)
    opened(tmp_path / "two", database).close()


def test_another_application_s_tables_are_left_alone(place: Path, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE runs (mine integer)")
    for writable in (True, False):
        with pytest.raises(
            StoreCorrupt, match="holds the tables of another application; name a database that is empty"
        ):
            opened(place, database, writable=writable)


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("{url}", "does not let us in"),
        (
            "postgresql://ops:right-password@{at}/nowhere",
            'the database "nowhere" at 127.0.0.1:.* does not exist; make it with',
        ),
        ("postgresql://ops:right-password@127.0.0.1:1/x", "could not be reached, or the connection broke"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_without_its_password(
    place: Path, server: str, address: str, what: str
) -> None:
    at = server.rpartition("@")[2]
    url = address.format(url=f"postgresql://ops:wrong-password@{at}/postgres", at=at)
    with pytest.raises(StoreError, match=what) as told:
        opened(place, url)
    assert "password@" not in str(told.value)
    assert PASSWORD not in str(told.value)


def test_an_address_that_cannot_be_read(place: Path) -> None:
    with pytest.raises(SettingsError, match="signs such as @ or / in the password percent-encoded") as told:
        opened(place, "postgresql://ops:se%cret@host/x")
    assert "se%cret" not in str(told.value)


@pytest.fixture(scope="module")
def careless() -> Iterator[str]:
    with running_postgres() as running:
        yield running.address


def test_a_server_that_could_lose_what_it_confirmed_is_refused(place: Path, careless: str) -> None:
    with pytest.raises(StoreUnwritable, match="cannot be kept safely: fsync is off, and on is needed"):
        opened(place, f"{careless}/postgres")


def test_commits_wait_for_the_disk_whatever_the_user_s_default_is(place: Path, database: str) -> None:
    store = opened(place, f"{database}%20-csynchronous_commit%3Doff")
    found: list[str] = []

    async def ask() -> None:
        await store.write(
            lambda connection: found.append(str(connection.exec_driver_sql("SHOW synchronous_commit").scalar()))
        )

    asyncio.run(ask())
    store.close()
    assert found == ["on"]


def is_open(store: SqlStore, run: str) -> bool:
    """Whether it has not ended, as far as the database can be asked."""
    try:
        return store.run(run).ended_at is None
    except StoreUnwritable:
        return True


async def test_broken_connections_lose_nothing_and_repeat_nothing(
    place: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While runs are driven the server ends our connections again and again: also in the middle of a COMMIT, where
    nobody knows whether it was kept."""
    monkeypatch.setattr("runner.engine.carrier.AFTER_FAULT", 0.02)
    monkeypatch.setenv("DATABASE_URL", database)
    async with HttpService() as shop:
        write_project(place, shop.origin)
        (place / "amends.yaml").write_text("database: { secret: DATABASE_URL }\n")
        kinds = installed()
        kinds.python = {**kinds.python, "nothing": NothingKind()}
        project = Project.open(place, kinds=kinds)
        driver = OwnDriver(project, MachineClock(), EngineLock(place))
        async with driver.running():
            bundle = project.bundle("saga")
            ended, broken = asyncio.Event(), 0

            async def break_connections() -> None:
                nonlocal broken
                async with await psycopg.AsyncConnection.connect(database, autocommit=True) as own:
                    while not ended.is_set():
                        await asyncio.sleep(0.15)
                        cursor = await own.execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            "WHERE application_name = 'amends' AND pid <> pg_backend_pid()"
                        )
                        broken += len(await cursor.fetchall())

            breaking = asyncio.create_task(break_connections())
            started: list[str] = []
            while len(started) < RUNS:
                try:
                    started.append((await driver.start_bundle(bundle, Wish())).run)
                except StoreUnwritable:
                    continue
            for run in started:
                async with asyncio.timeout(60):
                    await driver.engine.rest(run)
                    # A run that could not be read is taken up again a moment later, and rests until then.
                    while await asyncio.to_thread(is_open, driver.store, run):  # noqa: ASYNC110 - it is read
                        await asyncio.sleep(0.1)
            ended.set()
            await breaking
            statuses = {driver.store.run(run).status for run in started}
            assert not driver.store.verify()
        sent = [(effect.body["run"], effect.body["step"]) for effect in shop.world.effects]
    assert broken > 3
    assert statuses == {"succeeded"}
    assert sorted(set(sent)) == sorted(sent)
    assert {run: sum(other == run for other, _ in sent) for run in started} == dict.fromkeys(started, STEPS)


async def test_a_project_moves_there_and_back_with_its_open_runs(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, clock = tmp_path / "project", TurnedClock()
    first = opened(place, "")
    for number in range(1_200):
        await first.start(new_run(f"r{number}"))
    await begun(first, "open", intended(), applied())
    kept = {run: first.log_end(run) for run in ("r7", "open")}
    first.close()
    copied = copy_database(place, source="", target=database, clock=clock)
    assert (copied["runs"], copied["meta"]) == (1_201, 1)
    with pytest.raises(NotPossible, match="has tables already; name an empty one, nothing was written"):
        copy_database(place, source="", target=database, clock=clock)
    there = opened(place, database)
    assert not there.restored
    assert {run: there.log_end(run) for run in kept} == kept
    await there.report("open", StopRequested(at=9, by="ada", compensate=False))
    there.close()
    # The file that was left behind is not taken for the present any more.
    behind = opened(place, "")
    assert behind.restored
    behind.close()


def test_a_copy_waits_for_nobody(tmp_path: Path, database: str) -> None:
    place = tmp_path / "project"
    running = opened(place, "")
    with pytest.raises(EngineBusy, match="another process drives this project; stop it first"):
        copy_database(place, source="", target=database, clock=TurnedClock())
    running.close()
