"""Many runs at once, by copying the rows of one with SQL: how they came to be is not measured, only what they cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Table, create_engine

from runner.clock import MachineClock
from runner.engine.starting import Wish, start_run
from runner.language.project import Project
from runner.reading import database_url
from runner.store.sql import open_store
from runner.store.tables import effects, log, runs
from tests.bench import _ground as ground

SOME = 50_000
"""Copies that one statement makes."""


def first_queued(folder: Path, flow: str) -> str:
    """One run that has begun, and that nobody has decided about."""
    project = Project.open(folder, kinds=ground.kinds())
    store = open_store(folder, clock=MachineClock(), writable=True, url=database_url(folder, project.settings))
    try:
        started, _ = asyncio.run(start_run(store, project.bundle(flow), Wish(), now=time.time_ns() // 1_000_000))
    finally:
        store.close()
    return started.run


def first_ended(folder: Path, flow: str) -> str:
    """One run that has succeeded."""

    async def play() -> str:
        async with ground.engine(folder) as driver:
            started = await driver.start(flow, Wish())
            await driver.engine.rest(started.run)
            return started.run

    return asyncio.run(play())


def copy(folder: Path, run: str, first: int, last: int) -> None:
    """Copies of a run, with its log and effects, numbered from `first` to below `last`; each began one ms later."""
    url = database_url(folder, Project.open(folder, kinds=ground.kinds()).settings)
    is_file = not url.startswith("postgres")
    place = (
        f"sqlite:///{folder / '.amends' / 'amends.db'}" if is_file else f"postgresql+psycopg{url[len('postgresql') :]}"
    )
    engine = create_engine(place)
    try:
        for at in range(first, last, SOME):
            with engine.begin() as connection:
                for table in (runs, log, effects):
                    words = _statement(table, run, at, min(at + SOME, last), is_file=is_file)
                    connection.exec_driver_sql(words)
        with engine.connect() as connection:
            connection.exec_driver_sql("ANALYZE runs" if not is_file else "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        engine.dispose()


def _statement(table: Table, run: str, first: int, last: int, *, is_file: bool) -> str:
    number = "printf('%08d', n)" if is_file else "lpad(n::text, 8, '0')"
    told: dict[str, str] = {"run_id": f"'{run}-' || {number}"}
    if table is runs:
        told |= {"run_key": f"run_key || '-' || {number}"}
        told |= {name: f"{name} + n" for name in ("started_at", "updated_at", "ended_at")}
    if table is log:
        told |= {"data": f"replace(data, '{run}', '{run}-' || {number})"}
    names = [column.name for column in table.c]
    numbers = (
        f"(WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {last}) SELECT n FROM s)"
        if is_file
        else f"(SELECT generate_series({first}, {last - 1}) AS n)"
    )
    chosen = ", ".join(told.get(name, name) for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {chosen} FROM {numbers} AS numbered, {table.name} WHERE run_id = '{run}'"


def times(do: Callable[[], object], number: int) -> list[float]:
    """ms that each of so many took, in order of size."""
    found = []
    for _ in range(number):
        began = time.perf_counter()
        do()
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found)
