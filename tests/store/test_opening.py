"""Opening, closing, locking, and everything that can be wrong with a database file: one sentence each, nothing lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from runner.core.events import Restored, RunPaused
from runner.errors import (
    EngineBusy,
    NotFound,
    NotPossible,
    SequenceConflict,
    SettingsError,
    StoreCorrupt,
    StoreError,
    StoreUnwritable,
)
from runner.people.restored import go_on_restored
from runner.store.anchor import Anchor, home_of, keep_anchor, read_anchor, why_elsewhere, why_restored
from runner.store.copying import put_back
from runner.store.facts import Append
from runner.store.lock import EngineLock
from runner.store.migrations.upgrade import upgrade
from runner.store.schema import ensure_schema, is_older
from runner.store.sql import SqlStore, open_store
from runner.store.sqlite import APPLICATION_ID, SqliteFile, refuse_network, shown_size
from runner.store.tables import SCHEMA, metadata
from tests.store.samples import TurnedClock, act, append, begun, columns, intended, new_run

CLOCK = TurnedClock()
KEPT = 10


def opened(folder: Path, **more: object) -> SqlStore:
    return open_store(folder, clock=CLOCK, writable=True, floor=0, **more)  # type: ignore[arg-type]


def database(folder: Path) -> Path:
    return folder / ".amends" / "amends.db"


def filled(folder: Path, runs: int = 3) -> Path:
    store = opened(folder)

    async def fill() -> None:
        for i in range(runs):
            await begun(store, f"r{i}", intended(input={"text": "x" * 500}))

    act(fill())
    store.close()
    return database(folder)


# --- the folder --------------------------------------------------------------------------------------------------------


def test_what_is_made_is_the_owner_s_alone(tmp_path: Path) -> None:
    store = opened(tmp_path)
    act(store.start(new_run("r1")))
    for path in (tmp_path / ".amends").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE((tmp_path / ".amends").stat().st_mode) == 0o700
    store.close()


def test_after_closing_everything_stands_in_one_file(tmp_path: Path) -> None:
    path = filled(tmp_path)
    assert sorted(one.name for one in path.parent.iterdir()) == ["amends.db", "anchor", "engine.lock", "log.key"]
    reader = open_store(tmp_path, clock=CLOCK, writable=False)
    assert reader.counts() == {"running": 3}
    reader.close()


def test_reading_needs_a_database(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no database at .*amends.db; it is made when the first flow is run"):
        open_store(tmp_path, clock=CLOCK, writable=False)


def test_a_reader_does_not_write(tmp_path: Path) -> None:
    filled(tmp_path)
    reader = open_store(tmp_path, clock=CLOCK, writable=False)
    with pytest.raises(StoreUnwritable, match="was opened for reading; only the engine writes to it"):
        act(reader.report("r1", RunPaused(at=1, by="ada")))
    reader.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = opened(tmp_path)
    act(store.start(new_run("r1")))
    store.close()
    store.close()
    with pytest.raises(StoreUnwritable, match="the database is being closed"):
        act(store.start(new_run("r2")))


def test_closing_writes_what_waits(tmp_path: Path) -> None:
    store = opened(tmp_path)

    async def rush() -> list[object]:
        started = [asyncio.ensure_future(store.start(new_run(f"r{i}"))) for i in range(200)]
        await asyncio.sleep(0)
        await asyncio.to_thread(store.close)
        return await asyncio.gather(*started, return_exceptions=True)

    told = act(rush())
    done = [one for one in told if not isinstance(one, BaseException)]
    reader = open_store(tmp_path, clock=CLOCK, writable=False)
    assert len(done) == reader.counts().get("queued", 0)
    reader.close()


@pytest.mark.parametrize("url", ["sqlite:///", "mysql://x"])
def test_a_database_address_that_cannot_be_used(tmp_path: Path, url: str) -> None:
    with pytest.raises(
        SettingsError, match="cannot be used: it must begin with postgresql:// or sqlite:///, or be left out"
    ):
        opened(tmp_path, url=url)


def test_a_database_elsewhere(tmp_path: Path) -> None:
    store = opened(tmp_path, url=f"sqlite:///{tmp_path / 'else where?.db'}")
    act(store.start(new_run("r1")))
    store.close()
    assert (tmp_path / "else where?.db").stat().st_size > 10_000


# --- one writing process -----------------------------------------------------------------------------------------------


def test_a_second_engine_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(EngineBusy) as told:
        opened(tmp_path)
    assert (
        str(told.value) == f"process {os.getpid()} is the engine of {tmp_path}; give it the command, or stop it first"
    )
    act(store.start(new_run("r1")))
    store.close()
    opened(tmp_path).close()


def test_a_second_engine_in_another_process_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    script = (
        "import sys\nfrom pathlib import Path\nfrom runner.clock import MachineClock\nfrom runner.store.sql import open_store\n"
        "open_store(Path(sys.argv[1]), clock=MachineClock(), writable=True)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=30)
    store.close()
    assert ran.returncode == 1
    assert f"EngineBusy: process {os.getpid()} is the engine of" in ran.stderr


def test_the_lock_tells_who_holds_it_and_where(tmp_path: Path) -> None:
    lock, other = EngineLock(tmp_path), EngineLock(tmp_path)
    assert lock.holder() is None
    assert lock.acquire(socket="/run/x.sock")
    assert lock.acquire()
    assert not other.acquire()
    holder = other.holder()
    assert holder is not None
    assert (holder.pid, holder.socket) == (os.getpid(), "/run/x.sock")
    lock.announce("")
    assert other.holder() is not None
    lock.release()
    lock.release()
    assert other.holder() is None
    assert other.acquire()
    other.release()
    (tmp_path / ".amends" / "engine.lock").write_text('{"pid": 999999999, "socket": "", "since": 1}')
    assert other.holder() is None
    with pytest.raises(RuntimeError):
        other.announce("x")


def test_a_lock_taken_before_is_used_and_left_alone(tmp_path: Path) -> None:
    lock = EngineLock(tmp_path)
    assert lock.acquire()
    opened(tmp_path, lock=lock).close()
    assert lock.held
    opened(tmp_path, lock=lock).close()
    lock.release()


def test_every_opening_raises_the_fence(tmp_path: Path) -> None:
    store = opened(tmp_path)
    first = store.fence()
    end = act(begun(store, "r1"))
    old = append(store, "r1", end, intended())
    store.close()
    store = opened(tmp_path)
    assert store.fence() == first + 1
    with pytest.raises(SequenceConflict):
        act(store.append(old))
    store.close()


def test_an_engine_whose_fence_was_raised_writes_no_more(tmp_path: Path) -> None:
    store = opened(tmp_path)
    act(store.start(new_run("r1")))
    thief = sqlite3.connect(database(tmp_path))
    thief.execute("UPDATE meta SET fence = fence + 1")
    thief.commit()
    thief.close()
    with pytest.raises(
        EngineBusy, match="another engine has taken over this database; this one must not write any more"
    ):
        act(store.report("r1", RunPaused(at=1, by="ada")))
    assert store.run("r1").seq == 1
    store.close()


def test_what_is_remembered_of_a_run_refuses_nothing(tmp_path: Path) -> None:
    """Another process has written: whoever has read that is told that its turn is over, and not of a conflict for ever."""
    store = opened(tmp_path)
    end = act(store.start(new_run("r1"))).end
    assert end is not None
    thief = open_store(tmp_path, clock=TurnedClock(), writable=True, floor=0, lock=_Broken(tmp_path))
    act(thief.report("r1", RunPaused(at=1, by="ada")))
    read = store.log_end("r1")
    assert read.seq == end.seq + 1
    late = Append(
        run="r1", seq=read.seq, fence=1, events=(), columns=columns("paused"), previous_hash=read.hash
    )  # fmt: skip
    with pytest.raises(EngineBusy, match="another engine has taken over"):
        act(store.append(late))
    store.close()
    thief.close()


class _Broken(EngineLock):
    """A lock that does not keep others out, as on a network's file system."""

    @property
    def held(self) -> bool:
        return True


# --- damaged and foreign files -----------------------------------------------------------------------------------------


def refused_files(folder: Path) -> None:
    for writable in (True, False):
        with pytest.raises(StoreCorrupt) as told:
            open_store(folder, clock=CLOCK, writable=writable).verify()
        assert "\n" not in str(told.value)
        assert str(database(folder)) in str(told.value)


def test_random_bytes(tmp_path: Path) -> None:
    path = filled(tmp_path)
    size = path.stat().st_size
    path.write_bytes(os.urandom(size))
    refused_files(tmp_path)
    assert path.stat().st_size == size


def test_a_truncated_file(tmp_path: Path) -> None:
    path = filled(tmp_path, runs=40)
    os.truncate(path, path.stat().st_size // 2)
    refused_files(tmp_path)


def test_damage_in_the_middle(tmp_path: Path) -> None:
    path = filled(tmp_path, runs=40)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    refused_files(tmp_path)


def test_damage_under_a_running_engine_is_told(tmp_path: Path) -> None:
    store = opened(tmp_path)
    act(begun(store, "r1", intended()))
    store.close()
    store = opened(tmp_path)
    path = database(tmp_path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(StoreCorrupt, match="is damaged"):
        store.log("r1")
    with pytest.raises(StoreError):
        act(store.start(new_run("r2")))
    store.close()


def test_the_database_of_another_application(tmp_path: Path) -> None:
    path = database(tmp_path)
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.execute("INSERT INTO theirs VALUES (1)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt) as told:
        opened(tmp_path)
    assert str(told.value) == (
        f"{path} is the database of another application; name another file in amends.yaml, or move this one away"
    )
    assert path.read_bytes() == before


def test_a_text_file_a_folder_and_an_empty_file(tmp_path: Path) -> None:
    path = database(tmp_path)
    path.parent.mkdir()
    path.write_text("hello\n" * 1_000)
    refused_files(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreUnwritable, match="is a folder, and the database must be a file; move the folder away"):
        opened(tmp_path)
    path.rmdir()
    path.touch()
    opened(tmp_path).close()


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path)
    db = sqlite3.connect(path)
    db.execute("UPDATE alembic_version SET version_num = '0999'")
    db.commit()
    db.close()
    for writable in (True, False):
        with pytest.raises(StoreError) as told:
            open_store(tmp_path, clock=CLOCK, writable=writable)
        assert str(told.value) == (
            f"{path} was written by a newer Amends (schema 0999; this one knows {SCHEMA}); install the newer Amends, or put "
            "back a copy made before the change"
        )


def first_schema(path: Path) -> None:
    """A database as the first release made it. The tables of that day stand in a file, which is never changed."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript((Path(__file__).parent / "schema_0001.sql").read_text())
    db.execute("INSERT INTO alembic_version VALUES ('0001')")
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.close()


def test_the_numbered_steps_lead_to_the_tables(tmp_path: Path) -> None:
    first_schema(tmp_path / "old.db")
    made, stepped = create_engine("sqlite://"), create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with made.begin() as connection:
        metadata.create_all(connection)
    with stepped.begin() as connection:
        upgrade(connection)
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == SCHEMA
    shapes = []
    for engine in (made, stepped):
        with engine.begin() as connection:
            rows = connection.exec_driver_sql("SELECT sql FROM sqlite_master").scalars()
            shapes.append(sorted(" ".join(row.split()) for row in rows if row))
        engine.dispose()
    assert shapes[0] == shapes[1]


def test_a_run_that_was_held_then_stands_in_line_now(tmp_path: Path) -> None:
    first_schema(tmp_path / "old.db")
    stepped = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with stepped.begin() as connection:
        names = [row[1] for row in connection.exec_driver_sql("PRAGMA table_info(runs)")]
        for run, held_on, ended in (("r1", "x", None), ("r2", "", None), ("r3", "x", 9)):
            known = {
                "run_id": run,
                "run_key": run,
                "held_on": held_on,
                "ended_at": ended,
                "started_at": 7,
                "wake_at": None,
            }
            row = [known.get(name, 0 if name in NUMBERS else "") for name in names]
            connection.exec_driver_sql(f"INSERT INTO runs VALUES ({', '.join('?' * len(row))})", tuple(row))
        upgrade(connection)
        assert connection.exec_driver_sql("SELECT record, run_id, at FROM waits").all() == [("x", "r1", 7)]
    stepped.dispose()


NUMBERS = ("rerun", "seq", "updated_at", "decided", "commit_no")


def test_an_older_database_is_upgraded(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "old.db")
    first_schema(file.path)
    engine = file.writer()
    with engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = ''")
    readers = file.readers()
    with readers.connect() as connection:
        assert is_older(connection, file)
    with engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("DELETE FROM alembic_version")
    with engine.connect() as connection, connection.begin():
        upgrade(connection)
    ensure_schema(engine, file)
    with readers.connect() as connection:
        assert not is_older(connection, file)
    readers.dispose()
    engine.dispose()


def test_network_file_systems_are_refused(tmp_path: Path) -> None:
    mounts = f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n/dev/sdb {tmp_path}/my\\040disk ext4 rw 0 0\nbroken\n"
    with pytest.raises(StoreUnwritable, match=r"lies on a network file system \(nfs4\)"):
        refuse_network(tmp_path / "p" / "amends.db", mounts)
    refuse_network(tmp_path / "my disk" / "amends.db", mounts)
    refuse_network(tmp_path.parent / "amends.db", mounts)
    refuse_network(tmp_path / "amends.db")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ".amends").write_text("in the way")
    with pytest.raises(StoreUnwritable, match=r"\.amends cannot be used: File exists; make it writable for this user"):
        opened(tmp_path)


def test_sizes_as_people_read_them() -> None:
    assert [shown_size(size) for size in (0, 999, 1_000, 12_345, 3_400_000, 5_600_000_000, 7 * 10**12)] == [
        "0 bytes", "999 bytes", "1 KB", "12 KB", "3.4 MB", "5.6 GB", "7.0 TB",
    ]  # fmt: skip


# --- locked and full ---------------------------------------------------------------------------------------------------


def test_a_database_locked_by_another_program(tmp_path: Path) -> None:
    store = opened(tmp_path, busy=200)
    act(store.start(new_run("r1")))
    other = sqlite3.connect(database(tmp_path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnwritable) as told:
        act(store.report("r1", RunPaused(at=1, by="ada")))
    assert str(told.value) == (
        f"{database(tmp_path)} has been locked by another program for 0.2 s; close that program (a database browser, a copy "
        "under way) and try again"
    )
    assert store.run("r1").seq == 1
    other.execute("ROLLBACK")
    other.close()
    assert act(store.report("r1", RunPaused(at=1, by="ada"))).seq == 2
    store.close()


def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    store = opened(tmp_path, busy=5_000)
    act(store.start(new_run("r1")))
    other = sqlite3.connect(database(tmp_path), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    async def both() -> int:
        writing = asyncio.ensure_future(store.report("r1", RunPaused(at=1, by="ada")))
        await asyncio.sleep(0.2)
        assert not writing.done()
        other.execute("ROLLBACK")
        return (await writing).seq

    assert act(both()) == 2
    other.close()
    store.close()


FULL = """
import asyncio, resource, signal, sys
from pathlib import Path
from runner.clock import MachineClock
from runner.core.events import RunPaused
from runner.errors import StoreUnwritable
from runner.store.sql import open_store
from tests.store.samples import begun

store = open_store(Path(sys.argv[1]), clock=MachineClock(), writable=True, floor=0)

async def fill():
    kept = 0
    await begun(store, "r1")
    if sys.argv[2] == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    try:
        for kept in range(100_000):
            await store.report("r1", RunPaused(at=kept, by="ada", reason="x" * 2_000))
    except StoreUnwritable as full:
        print(full)
    assert store.run("r1").seq == kept + 1, (store.run("r1").seq, kept)
    for _ in range(3):
        try:
            await store.report("r1", RunPaused(at=kept, by="ada", reason="x" * 9_000))
        except StoreUnwritable:
            continue
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        (Path(sys.argv[1]) / "ballast").unlink()
    end = await store.report("r1", RunPaused(at=1, by="ada"))
    assert store.run("r1").seq == end.seq
    assert store.verify() == []
    print("kept", end.seq)

asyncio.run(fill())
store.close()
"""


def fill_up(folder: Path, how: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(folder), how], capture_output=True, text=True, timeout=50, cwd=Path.cwd()
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a small disk; the next test limits the size of files instead")
    try:
        (disk / "ballast").write_bytes(b"x" * 500_000)
        full, kept = fill_up(disk, "disk")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert full.startswith(f"the disk is full: {database(disk)} cannot grow (")
    assert full.endswith("free on its disk); free some space and try again, nothing of this write was kept")
    assert int(kept.split()[1]) > KEPT


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    full, kept = fill_up(tmp_path, "limit")
    assert full.startswith(f"{database(tmp_path)} could not be read or written: the disk or a size limit refused it (")
    assert int(kept.split()[1]) > KEPT


# --- copies and restored databases -------------------------------------------------------------------------------------


def test_a_copy_is_made_while_the_engine_runs(tmp_path: Path) -> None:
    store = opened(tmp_path)
    act(begun(store, "r1", intended()))
    copy = tmp_path / "copy.db"
    store.backup(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with pytest.raises(StoreUnwritable, match="is there already; name a file that does not exist yet"):
        store.backup(copy)
    with pytest.raises(StoreUnwritable, match="cannot be written: No such file or directory"):
        store.backup(tmp_path / "nowhere" / "copy.db")
    act(begun(store, "r2"))
    store.close()
    reader = open_store(tmp_path, clock=CLOCK, writable=False, url=f"sqlite:///{copy}")
    assert reader.open_runs() == ["r1"]
    assert reader.verify() == []
    reader.close()


def test_what_a_database_says_of_itself(tmp_path: Path) -> None:
    store = opened(tmp_path)
    act(begun(store, "r1", intended()))
    told = store.about()
    store.close()
    assert (told["path"], told["is_safe"], told["schema"]) == (str(database(tmp_path)), True, SCHEMA)
    assert (told["software"], told["restored"]) == (f"SQLite {sqlite3.sqlite_version}, journal wal", False)
    assert told["commits"] == 3
    assert isinstance(told["bytes"], int)
    assert told["bytes"] > 10_000


def test_a_database_put_back_from_a_copy_is_noticed(tmp_path: Path) -> None:
    path = filled(tmp_path)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    store = opened(tmp_path)
    assert not store.restored
    act(begun(store, "later"))
    fence = store.fence()
    store.close()

    shutil.copy(copy, path)
    store = opened(tmp_path)
    assert store.restored
    assert store.fence() == fence + 1
    event = store.log("_site")[-1].event
    assert isinstance(event, Restored)
    assert str(event.data["why"]).startswith("the database ends at commit ")
    store.close()

    store = opened(tmp_path)
    assert store.restored
    act(store.go_on_restored("person:ada"))
    assert [row.type for row in store.log("_site")].count("Restored") == 2
    store.close()
    store = opened(tmp_path)
    assert not store.restored
    assert store.verify() == []
    store.close()


def test_a_database_that_only_stopped_is_not_called_restored(tmp_path: Path) -> None:
    for _ in range(3):
        store = opened(tmp_path)
        act(store.keep_bundle("b" * 64, {"x": "y"}))
        assert not store.restored
        store.close()


def test_a_copied_database_and_a_lost_one_are_noticed(tmp_path: Path) -> None:
    path = filled(tmp_path / "a")
    (tmp_path / "b" / ".amends").mkdir(parents=True)
    shutil.copy(path, database(tmp_path / "b"))
    store = opened(tmp_path / "b")
    assert store.restored
    store.close()
    path.unlink()
    store = opened(tmp_path / "a")
    assert store.restored
    assert store.counts() == {}
    store.close()


def test_a_copy_is_put_back_and_what_was_there_is_kept(tmp_path: Path) -> None:
    path, copy = filled(tmp_path), tmp_path / "copy.db"
    SqliteFile(path).backup(copy)
    store = opened(tmp_path)
    act(begun(store, "later"))
    store.close()
    open_runs, kept = put_back(tmp_path, copy, url="", clock=CLOCK)
    assert open_runs == 3
    assert kept is not None
    reader = open_store(tmp_path, clock=CLOCK, writable=False, url=f"sqlite:///{kept}")
    assert "later" in reader.open_runs()
    reader.close()
    store = opened(tmp_path)
    assert store.restored
    assert store.why_restored == f"it was put back from {copy}"
    assert (store.open_runs(), store.verify()) == (["r0", "r1", "r2"], [])
    store.close()
    with pytest.raises(NotPossible, match="it was not only moved; it was put back from"):
        act(go_on_restored(tmp_path, "", CLOCK, "person:ada", moved=True))
    assert act(go_on_restored(tmp_path, "", CLOCK, "person:ada")) == ["r0", "r1", "r2"]
    store = opened(tmp_path)
    assert not store.restored
    assert [each.at > 0 for each in store.restorations()] == [True]
    store.close()


def test_what_is_no_copy_of_a_database_is_not_put_back(tmp_path: Path) -> None:
    path = filled(tmp_path / "here")
    before = path.read_bytes()
    other, torn, foreign = tmp_path / "other.db", tmp_path / "torn.db", tmp_path / "foreign.db"
    other.write_bytes(b"no database at all, only words" * 200)
    torn.write_bytes(before[: len(before) // 2] + b"?" * (len(before) // 2))
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE things (id INTEGER)")
    cases = (
        (tmp_path / "nowhere", NotFound, "there is no copy of a database at"),
        (path, NotPossible, "is the database in use; name a copy of it"),
        (other, StoreError, "other.db"),
        (torn, StoreError, "torn.db is damaged"),
        (foreign, StoreCorrupt, "foreign.db is no database of Amends"),
    )
    for source, kind, said in cases:
        with pytest.raises(kind, match=said):
            put_back(tmp_path / "here", source, url="", clock=CLOCK)
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.fresh*"))
    store = opened(tmp_path / "here")
    assert not store.restored
    with pytest.raises(EngineBusy):
        put_back(tmp_path / "here", foreign, url="", clock=CLOCK)
    store.close()


def test_a_folder_that_was_copied_asks_and_one_that_was_moved_too(tmp_path: Path) -> None:
    filled(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    store = opened(tmp_path / "copy")
    assert store.why_restored == f"the folder is a copy of {tmp_path / 'one' / '.amends'}"
    store.close()
    assert act(go_on_restored(tmp_path / "copy", "", CLOCK, "person:ada", moved=True)) == []
    store = opened(tmp_path / "copy")
    assert (store.restored, store.restorations()) == (False, [])
    store.close()
    known = read_anchor(tmp_path / "copy" / ".amends")
    assert known is not None
    assert known.home is not None
    moved = replace(known, home=("another", *known.home[1:]))
    said = why_elsewhere(moved, tmp_path / "copy" / ".amends")
    assert said.startswith("the folder was used on another machine before, as ") == bool(known.home[0])
    assert why_elsewhere(replace(known, home=None), tmp_path / "one" / ".amends") == ""


def test_commit_numbers_are_reserved_ahead(tmp_path: Path) -> None:
    store = opened(tmp_path)
    place = tmp_path / ".amends"

    async def commits() -> None:
        await store.start(new_run("r1"))
        before = read_anchor(place)
        assert before is not None
        for i in range(1_005):
            await store.report("r1", RunPaused(at=i, by="ada"))
        after = read_anchor(place)
        assert after is not None
        assert after.start > before.end
        assert after.end == after.start + 999

    act(commits())
    store.close()


@pytest.mark.parametrize(
    ("anchor", "name", "commit", "why"),
    [
        (None, "db", 0, ""),
        (None, "db", 1, "the database has a history, and its anchor file is missing"),
        (Anchor(database="db", start=11, end=20, fence=1), "db", 10, ""),
        (Anchor(database="db", start=11, end=20, fence=1), "db", 15, ""),
        (Anchor(database="db", start=11, end=20, fence=1), "db", 9, "the database ends at commit 9, and commit 10 was made here before"),
        (Anchor(database="no", start=11, end=20, fence=1), "db", 15, "the database is not the one that was used here before"),
    ],
)  # fmt: skip
def test_why_a_database_counts_as_restored(anchor: Anchor | None, name: str, commit: int, why: str) -> None:
    assert why_restored(anchor, name, commit) == why


def test_an_anchor_that_cannot_be_read_counts_as_missing(tmp_path: Path) -> None:
    kept = Anchor(database="db", start=1, end=2, fence=3)
    keep_anchor(tmp_path, kept)
    assert read_anchor(tmp_path) == replace(kept, home=home_of(tmp_path))
    for text in ("", "[]", '{"database": "x"}', "\x00"):
        (tmp_path / "anchor").write_text(text)
        assert read_anchor(tmp_path) is None


def test_columns_and_summaries_survive_a_reopening(tmp_path: Path) -> None:
    store = opened(tmp_path)
    act(begun(store, "r1", intended(), told=columns("waiting", summary="waits for the bank")))
    store.close()
    store = opened(tmp_path)
    assert store.run("r1").summary == "waits for the bank"
    assert act(store.append(append(store, "r1", store.log_end("r1"), intended(2)))).seq == 3
    assert store.verify() == []
    store.close()
