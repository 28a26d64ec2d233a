"""Everything that only SQLite knows: pragmas, locking words, error codes, whose file it is, online copies."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Column, Connection, Engine, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import NullPool, QueuePool

from runner.contract import Json
from runner.errors import NotFound, StoreCorrupt, StoreError, StoreUnwritable
from runner.store.database import Tidied, begin_reading

APPLICATION_ID = 0x416D6E64
"""What stands in the header of our files: `Amnd`."""

BUSY_TIMEOUT = 5_000
RESERVE, RESERVE_FILE = 4_000_000, "reserve"
"""Bytes that are set aside, and the file that holds them: the last outcomes are written there when all else is full."""
_NO_ROOM = 1_000_000
_PRAGMAS = (
    ("journal_mode", "wal"),
    ("synchronous", 2),
    ("foreign_keys", 1),
    ("busy_timeout", None),
    ("secure_delete", 1),
)
_SIZES = ("page_count", "freelist_count", "page_size")
_INCREMENTAL = 2
_NETWORK = frozenset(
    {
        "9p", "afs", "afpfs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs", "fuse.glusterfs",
        "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
        "smb3", "smbfs",
    }
)  # fmt: skip

_TOLD: tuple[tuple[tuple[str, ...], type[StoreError], str], ...] = (
    (("SQLITE_NOTADB",), StoreCorrupt, ("{path} is not a database: its beginning is damaged, or it is another kind of "
     "file; put back a copy made with `amends db backup`, or move it away to begin anew")),
    (("SQLITE_CORRUPT",), StoreCorrupt, ("{path} is damaged ({name}); stop the engine and put back a copy made with "
     "`amends db backup`")),
    (("SQLITE_BUSY", "SQLITE_LOCKED"), StoreUnwritable, ("{path} has been locked by another program for {busy} s; "
     "close that program (a database browser, a copy under way) and try again")),
    (("SQLITE_FULL",), StoreUnwritable, ("the disk is full: {path} cannot grow ({free} free on its disk); free some "
     "space and try again, nothing of this write was kept")),
    (("SQLITE_READONLY_DBMOVED",), StoreUnwritable, ("{path} was moved or deleted while in use; put it back and start "
     "again")),
    (("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"), StoreUnwritable, ("{path} cannot be written "
     "({name}); make the file and its folder writable for this user")),
    (("SQLITE_IOERR",), StoreUnwritable, ("{path} could not be read or written: the disk or a size limit refused it "
     "({name}); look at the disk ({free} free) and try again")),
    (("",), StoreError, "{path} refused a statement ({name}); nothing of this write was kept"),
)  # fmt: skip
"""How SQLite's names for an error begin -> what a person is told; the last one fits all."""


class SqliteFile:
    """One database file and how to talk to it. `busy` is how long another program's lock is waited for, in ms."""

    is_shared = False
    dialect = sqlite.dialect()
    insert = staticmethod(sqlite.insert)
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    when_away = ""

    def __init__(self, path: Path, busy: int = BUSY_TIMEOUT) -> None:
        self.path = path
        self.name = str(path)
        self.busy = busy

    def mark(self, column: Column[Any]) -> str:
        """The same for all."""
        return "?"

    # -- opening --

    def prepare(self, mounts: str | None = None) -> None:
        """Makes sure of the place and creates an empty file if there is none. Raises StoreUnwritable."""
        refuse_network(self.path, mounts)
        try:
            if self.path.is_dir():
                raise StoreUnwritable(f"{self.path} is a folder, and the database must be a file; move the folder away")
            # Never opened here when it exists: closing a descriptor drops the locks that SQLite holds on the file.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return
        except OSError as problem:
            raise StoreUnwritable(f"{self.path} cannot be opened for writing: {problem.strerror}") from None

    def writer(self) -> Engine:
        """An engine whose transactions take the write lock at their start. Its pragmas are set and read back."""
        engine = create_engine("sqlite://", creator=lambda: self._connect("rw"), poolclass=NullPool)
        event.listen(engine, "begin", _begin_to_write)
        return engine

    def readers(self, size: int = 8) -> Engine:
        """An engine of read-only connections; a transaction sees one state of the database and blocks nobody."""
        engine = create_engine(
            "sqlite://", creator=lambda: self._connect("ro"), poolclass=QueuePool, pool_size=size, max_overflow=64
        )
        event.listen(engine, "begin", begin_reading)
        return engine

    def _connect(self, mode: str) -> sqlite3.Connection:
        if not self.path.exists():
            raise NotFound(f"there is no database at {self.path}; it is made when the first flow is run")
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            timeout=self.busy / 1000,
        )
        try:
            if mode == "rw":
                self._set(connection)
            else:
                connection.execute(f"PRAGMA busy_timeout={self.busy}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _set(self, connection: sqlite3.Connection) -> None:
        _refuse_other_application(connection, self.path)
        if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            # Only possible before the first table: lets the file shrink again after old runs are pruned.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        for pragma, value in _PRAGMAS:
            wanted = self.busy if value is None else value
            connection.execute(f"PRAGMA {pragma}={wanted}").fetchall()
            found = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
            if found != wanted:
                raise StoreUnwritable(
                    f"{self.path} cannot be kept safely: SQLite answers {pragma} = {found} where {wanted} is needed; "
                    "put the project on a local disk"
                )

    def begin(self, cursor: sqlite3.Cursor) -> None:
        """Begins a transaction that takes the write lock at once."""
        cursor.execute("BEGIN IMMEDIATE")

    def end(self, connection: Connection, *, commit: bool) -> None:
        """Ends it; SQLAlchemy, that may have joined it for a statement, hears of it too."""
        driver = connection.connection.driver_connection
        if driver is not None:
            driver.commit() if commit else driver.rollback()
        if connection.in_transaction():
            connection.commit() if commit else connection.rollback()

    def sign(self, connection: Connection) -> None:
        """Marks the file as ours; inside the transaction that creates the tables."""
        connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")

    def is_empty(self, connection: Connection) -> bool:
        """Whether no table has been made yet."""
        return not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()

    # -- several engines: never --

    def home(self, connection: Connection) -> str:
        """The anchor beside the file knows."""
        return ""

    def let_in(self, cursor: sqlite3.Cursor) -> None:
        """Nothing: the operating system's lock lets one in."""

    def keep_out(self, connection: Connection) -> None:
        """Nothing, for the same reason."""

    def one_by_one(self, connection: Connection) -> None:
        """Nothing, for the same reason."""

    def is_passing(self, error: Exception) -> bool:
        """Never."""
        return False

    async def listen(self, told: Callable[[int, str], None]) -> None:
        """There is nobody to hear."""

    # -- errors --

    def spoils_everything(self, error: Exception) -> bool:
        """Whether it is the database that failed (full, locked, damaged), and not one of the works."""
        cause = getattr(error, "orig", error)
        return isinstance(cause, sqlite3.OperationalError) or type(cause) is sqlite3.DatabaseError

    def translate(self, error: Exception) -> StoreError:
        """An error of the driver (or SQLAlchemy's, around it) as one sentence for the person who must act."""
        name = str(getattr(getattr(error, "orig", error), "sqlite_errorname", "")) or "unknown error"
        free = self.room_left()
        if name.startswith("SQLITE_IOERR") and free < _NO_ROOM:
            name = "SQLITE_FULL"
        kind, what = next((kind, what) for beginnings, kind, what in _TOLD if name.startswith(beginnings))
        return kind(what.format(path=self.path, name=name, busy=f"{self.busy / 1000:g}", free=shown_size(free)))

    def room_left(self) -> int:
        """Free bytes on the disk that holds the file, as far as this user may use them."""
        try:
            disk = os.statvfs(self.path.parent)
        except OSError:
            return 0
        return disk.f_bavail * disk.f_frsize

    # -- a little room for the worst --

    def keep_reserve(self, floor: int) -> None:
        """Sets RESERVE bytes aside beside the database, where that leaves more than `floor` of the disk free."""
        place = self.path.with_name(RESERVE_FILE)
        if place.exists() or self.room_left() < floor + RESERVE * 2:
            return
        with contextlib.suppress(OSError):
            file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, RESERVE)
            finally:
                os.close(file)

    def open_reserve(self, error: Exception) -> bool:
        """Whether the error is a full disk, and what was set aside has made room: then it is worth one more try."""
        name = str(getattr(getattr(error, "orig", error), "sqlite_errorname", ""))
        if name != "SQLITE_FULL" and not (name.startswith("SQLITE_IOERR") and self.room_left() < _NO_ROOM):
            return False
        try:
            self.path.with_name(RESERVE_FILE).unlink()
        except OSError:
            return False
        return True

    def about(self, connection: Connection) -> dict[str, Json]:
        """What this database says of itself. `is_safe`: its journal is the one that readers and writer need."""
        files = [self.path, self.path.with_name(f"{self.path.name}-wal")]
        journal = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar())
        return {
            "path": self.name,
            "software": f"SQLite {sqlite3.sqlite_version}, journal {journal}",
            "is_safe": journal == "wal",
            "bytes": sum(file.stat().st_size for file in files if file.exists()),
            "free": self.room_left(),
        }

    # -- giving disk back --

    def build_anew(self, cursor: sqlite3.Cursor) -> None:
        """Writes the whole file anew without its free pages; from then on it can give them back by itself.

        Raises StoreUnwritable when there is no room for it: it needs the data twice more for a while.
        """
        pages, free, size = (cursor.execute(f"PRAGMA {each}").fetchone()[0] for each in _SIZES)
        needed = 2 * (pages - free) * size
        if self.room_left() < needed:
            raise StoreUnwritable(
                f"{self.path} cannot be built anew: that needs {shown_size(needed)} for a while, and "
                f"{shown_size(self.room_left())} are free; the {shown_size(free * size)} that were freed inside it are "
                "used again by new runs"
            )
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("VACUUM")

    def give_back(self, cursor: sqlite3.Cursor, pages: int) -> Tidied:
        """Gives free pages back to the disk, and empties the write-ahead file if no reader is in the way."""
        if pages:
            # As a script: the driver would take one step of the statement, and each step frees one page.
            cursor.executescript(f"PRAGMA incremental_vacuum({pages})")
        cursor.execute("PRAGMA busy_timeout=100")
        try:
            busy: int = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            cursor.execute(f"PRAGMA busy_timeout={self.busy}")
        free: int = cursor.execute("PRAGMA freelist_count").fetchone()[0]
        by_pieces = cursor.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL
        return Tidied(is_clean=not busy, free=free, by_pieces=by_pieces)

    # -- copies --

    def backup(self, to: Path) -> None:
        """An exact copy while the engine runs on. Raises StoreUnwritable."""
        if to.exists():
            raise StoreUnwritable(f"{to} is there already; name a file that does not exist yet")
        fresh = to.with_name(f".{to.name}.part")
        try:
            os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
            self._copy(fresh)
            fresh.replace(to)
        except OSError as problem:
            raise StoreUnwritable(f"{to} cannot be written: {problem.strerror}") from None
        except sqlite3.Error as problem:
            raise self.translate(problem) from None
        finally:
            fresh.unlink(missing_ok=True)

    def _copy(self, fresh: Path) -> None:
        source, target = self._connect("ro"), sqlite3.connect(fresh)
        try:
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")
        finally:
            target.close()
            source.close()
        file = os.open(fresh, os.O_RDONLY)
        os.fsync(file)
        os.close(file)


def _begin_to_write(connection: Connection) -> None:
    driver = connection.connection.driver_connection
    if driver is not None and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _refuse_other_application(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    if found == APPLICATION_ID:
        return
    if found == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        return
    raise StoreCorrupt(
        f"{path} is the database of another application; name another file in amends.yaml, or move this one away"
    )


def refuse_network(path: Path, mounts: str | None = None) -> None:
    """Raises StoreUnwritable when the path lies on a network file system, where SQLite can lose data.

    `mounts` is text in the form of /proc/mounts; by default the machine's own. Unknown: not refused.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text()
        except OSError:
            return
    place = path.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = Path(words[1].replace("\\040", " "))
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), words[2]
    if kind in _NETWORK:
        raise StoreUnwritable(
            f"{path} lies on a network file system ({kind}), where a database file can be damaged; put the project on "
            "a local disk, or name a PostgreSQL database in amends.yaml"
        )


def shown_size(size: int) -> str:
    """Bytes as people read them: 12 KB, 3.4 GB."""
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit in ("bytes", "KB") else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
