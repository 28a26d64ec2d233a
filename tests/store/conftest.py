"""The store under test. The contract suite knows nothing but this fixture, so another database needs only another one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runner.store.sql import SqlStore, open_store
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


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: TurnedClock) -> Iterator[SqlStore]:
    url = "" if request.param == "sqlite" else request.getfixturevalue("database")
    opened = open_store(tmp_path, clock=clock, writable=True, floor=0, url=url)
    yield opened
    opened.close()
