"""Moves everything from one database to another one, of another kind too, whatever state its runs are in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import DBAPIError

from runner.clock import Clock
from runner.errors import EngineBusy, NotPossible, StoreCorrupt, StoreError
from runner.store.artifacts import Artifacts
from runner.store.database import Database
from runner.store.lock import EngineLock
from runner.store.schema import is_older
from runner.store.sql import database_at, open_store
from runner.store.tables import artifacts, metadata

PORTION = 1_000
"""Rows that are read and written together."""


def copy_database(folder: Path, *, source: str, target: str, clock: Clock) -> Mapping[str, int]:
    """Copies a project's database to an empty one, all or nothing, and looks at every chain there. Answers the number
    of rows by table.

    The addresses are as `open_store` takes them. Large values go with it. Raises
    EngineBusy while an engine runs, NotPossible where the target is not empty, and what a database says.
    """
    lock = EngineLock(folder)
    if not lock.acquire():
        raise EngineBusy("another process drives this project; stop it first, so that nothing is written meanwhile")
    try:
        there = database_at(folder, target)
        _refuse_used(there)
        # Opened to write once: what an engine that was killed has left is put in order, and its anchor is exact.
        open_store(folder, clock=clock, writable=True, lock=lock, url=source).close()
        copied = _copy(database_at(folder, source), there, Artifacts(folder / ".amends"))
        copy = open_store(folder, clock=clock, writable=False, url=target)
        try:
            if faults := copy.verify():
                raise StoreCorrupt(f"use the copy for nothing, it does not hold: {faults[0].what} of {faults[0].run}")
        finally:
            copy.close()
    finally:
        lock.release()
    return copied


def _refuse_used(target: Database) -> None:
    """Raises NotPossible where there are tables already."""
    target.prepare()
    engine = target.writer()
    try:
        with engine.connect() as connection, connection.begin():
            if not target.is_empty(connection):
                raise NotPossible(f"{target.name} has tables already; name an empty one, nothing was written")
    except DBAPIError as error:
        raise target.translate(error) from None
    finally:
        engine.dispose()


def _copy(source: Database, target: Database, files: Artifacts) -> dict[str, int]:
    readers, writer = source.readers(), target.writer()
    try:
        return _carry(source, readers, target, writer, files)
    except DBAPIError as error:
        raise _told(error, source, target) from None
    finally:
        readers.dispose()
        writer.dispose()


def _carry(source: Database, readers: Engine, target: Database, writer: Engine, files: Artifacts) -> dict[str, int]:
    with readers.connect() as asked, asked.begin(), writer.connect() as written, written.begin():
        source.keep_out(asked)
        target.one_by_one(written)
        target.keep_out(written)
        if is_older(asked, source):
            raise StoreError(f"{source.name} was written by an older Amends; run `amends db upgrade` once")
        metadata.create_all(written, checkfirst=False)
        target.sign(written)
        if not target.is_shared:  # there they stand in files, and are on the disk before what names them
            for row in asked.execute(select(artifacts)):
                files.put(row.content)
        copied = {table.name: _rows(asked, written, table.name) for table in metadata.sorted_tables}
        if target.is_shared:
            for path in files.root.glob("??/*"):
                written.execute(
                    target.insert(artifacts)
                    .values(digest=path.name, content=path.read_bytes())
                    .on_conflict_do_nothing()
                )
        return copied


def _rows(asked: Connection, written: Connection, name: str) -> int:
    table, count = metadata.tables[name], 0
    if name in ("engines", "duties", "places"):  # of engines that are gone
        return count
    for portion in asked.execution_options(yield_per=PORTION).execute(select(table)).mappings().partitions(PORTION):
        written.execute(insert(table), [dict(row) for row in portion])
        count += len(portion)
    return count


def _told(error: DBAPIError, source: Database, target: Database) -> StoreError:
    return (source if isinstance(error.orig, source.errors) else target).translate(error)
