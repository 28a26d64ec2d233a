"""Moves everything from one database to another one, of another kind too; puts a copy back in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import DBAPIError

from runner.clock import Clock
from runner.errors import EngineBusy, NotFound, NotPossible, StoreCorrupt, StoreError, StoreUnwritable
from runner.store.anchor import sync_folder
from runner.store.artifacts import Artifacts
from runner.store.database import Database
from runner.store.lock import EngineLock
from runner.store.log import SITE
from runner.store.schema import is_older
from runner.store.sql import FILE, database_at, open_store
from runner.store.sqlite import APPLICATION_ID, SqliteFile
from runner.store.tables import artifacts, metadata

PORTION = 1_000
"""Rows that are read and written together."""


def copy_database(
    folder: Path, *, source: str, target: str, clock: Clock, keys: Collection[str] = ()
) -> Mapping[str, int]:
    """Copies a project's database to an empty one, all or nothing, and looks at every chain there. Answers the number
    of rows by table, and as `site` how many of the log's are of no run.

    The addresses are as `open_store` takes them. Large values go with it. `keys` are as for `verify`. Raises
    EngineBusy while an engine runs, NotPossible where the target is not empty, and what a database says.
    """
    lock = EngineLock(folder)
    if not lock.acquire():
        raise EngineBusy("another process drives this project; stop it first, so that nothing is written meanwhile")
    try:
        there = database_at(folder, target)
        there.when_away = "nothing was copied, try again once it answers"
        _refuse_used(there)
        there.when_away = "the copy is there whole or not at all, look at it once it answers"
        # Opened to write once: what an engine that was killed has left is put in order, and its anchor is exact.
        open_store(folder, clock=clock, writable=True, lock=lock, url=source).close()
        copied = _copy(database_at(folder, source), there, Artifacts(folder / ".amends"))
        copy = open_store(folder, clock=clock, writable=False, url=target)
        try:
            if faults := copy.verify(keys=keys):
                raise StoreCorrupt(f"use the copy for nothing, it does not hold: {faults[0].what} of {faults[0].run}")
            return {**copied, "site": copy.log_end(SITE).seq}
        finally:
            copy.close()
    finally:
        lock.release()


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


def put_back(folder: Path, source: Path, *, url: str, clock: Clock) -> tuple[int, Path | None]:
    """Puts a copy of the project's database (a file, or a folder that was `.amends`) in the place of the one in use.

    What is there now is kept beside it: its new path is answered, after the number of open runs. Nothing goes on before
    a person has said so (`restored`). Raises NotFound, NotPossible, EngineBusy, and what the copy says.
    """
    present, place = database_at(folder, url), folder / ".amends"
    if not isinstance(present, SqliteFile):
        raise NotPossible(f"{present.name} is put back with the server's own tools; Amends sees it, and asks")
    found = next((each for each in (source / FILE, source / ".amends" / FILE, source) if each.is_file()), None)
    if found is None:
        raise NotFound(f"there is no copy of a database at {source}")
    if found.resolve() == present.path.resolve():
        raise NotPossible(f"{found} is the database in use; name a copy of it")
    lock = EngineLock(folder)
    if not lock.acquire():
        raise EngineBusy("another process drives this project; stop it first")
    try:
        fresh = present.path.with_name(f"{present.path.name}.fresh")
        fresh.unlink(missing_ok=True)
        SqliteFile(found).backup(fresh)
        _refuse_unfit(SqliteFile(fresh), found)
        _bring_artifacts(found.parent, place)
        kept = _set_aside(present.path, clock.now()) if present.path.exists() else None
        fresh.replace(present.path)
        sync_folder(present.path.parent)
        said = f"it was put back from {found}"
        store = open_store(folder, clock=clock, writable=True, lock=lock, url=url, put_back=said)
        opened = len(store.open_runs())
        store.close()
    except OSError as problem:
        raise StoreUnwritable(f"{present.path} cannot be put back: {problem.strerror}") from None
    finally:
        lock.release()
    return opened, kept


def _refuse_unfit(fresh: SqliteFile, source: Path) -> None:
    """Raises where the copy is damaged, another application's, or of a newer version; then it is taken away again."""
    readers = fresh.readers(1)
    try:
        with readers.connect() as connection:
            if connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION_ID:
                raise StoreCorrupt(f"{source} is no database of Amends")
            if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok":
                raise StoreCorrupt(f"{source} is damaged; take an older copy")
            is_older(connection, SqliteFile(source))
    except DBAPIError as error:
        fresh.path.unlink()
        raise SqliteFile(source).translate(error) from None
    except StoreError:
        fresh.path.unlink()
        raise
    finally:
        readers.dispose()


def _set_aside(path: Path, now: int) -> Path:
    """The database that was in use, with what its write-ahead file holds, under another name."""
    kept = path.with_name(f"{path.name}.before-{now}")
    for end in ("-wal", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(kept.with_name(kept.name + end))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    return kept


def _bring_artifacts(source: Path, place: Path) -> None:
    """Large values that stand beside the copy and are not here; they are named by their content."""
    here = Artifacts(place)
    for file in sorted(source.glob("artifacts/??/*")):
        if len(file.name) == 64 and not here.has(file.name):
            here.put(file.read_bytes())
