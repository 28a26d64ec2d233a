"""The store under test. The contract suite knows nothing but this fixture, so another database needs only another one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runner.store.sql import SqlStore, open_store
from runner.store.tables import metadata
from tests.store.samples import TurnedClock
from tests.support.postgres import running_postgres


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL, without a database."""
    with running_postgres(is_durable=True) as running:
        yield running.address


@pytest.fixture
def database(server: str) -> Iterator[str]:
    """The address of a PostgreSQL schema of the test's own."""
    name = f"amends_{uuid.uuid4().hex}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
        yield f"{server}/postgres?options=-csearch_path%3D{name}"
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@pytest.fixture(scope="session")
def older_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of tables on Debian's PostgreSQL 15, the oldest server that is tried."""
    with running_postgres(is_durable=True, is_older=True) as running:
        address = f"{running.address}/postgres"
        open_store(tmp_path_factory.mktemp("older"), clock=TurnedClock(), writable=True, url=address).close()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE TABLE public.first AS SELECT * FROM meta")
        yield address


@pytest.fixture
def older(older_schema: str) -> Iterator[str]:
    """These tables as they were made: that costs a tenth of making them anew."""
    yield older_schema
    emptied = [f"DELETE FROM {name}" for name in metadata.tables if name != "alembic_version"]
    with psycopg.connect(older_schema) as connection:
        for word in ("SET session_replication_role = replica", *emptied, "INSERT INTO meta SELECT * FROM first"):
            connection.execute(word.encode())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The contract, and it alone, holds on the oldest server as well."""
    chosen = [one for one in metafunc.definition.iter_markers("parametrize") if one.args[0] == "store"]
    if "store" in metafunc.fixturenames and not chosen:
        older = ["postgresql 15"] if metafunc.module.__name__.endswith(".test_contract") else []
        metafunc.parametrize("store", ["sqlite", "postgresql", *older], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: TurnedClock) -> Iterator[SqlStore]:
    named = {"sqlite": "", "postgresql": "database", "postgresql 15": "older"}[request.param]
    url = request.getfixturevalue(named) if named else ""
    opened = open_store(tmp_path, clock=clock, writable=True, floor=0, url=url)
    yield opened
    opened.close()
