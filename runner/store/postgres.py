"""Everything that only PostgreSQL knows: connections, who may write, durability, error codes."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper
from sqlalchemy import Column, Connection, Engine, Text, create_engine, event
from sqlalchemy.dialects import postgresql
from sqlalchemy.pool import NullPool, QueuePool

from runner.contract import Json
from runner.errors import EngineBusy, NotPossible, SettingsError, StoreCorrupt, StoreError, StoreUnwritable
from runner.store.company import LEFT
from runner.store.database import Tidied, begin_reading
from runner.store.shared import LEASE

log = logging.getLogger("amends.store")

OLDEST = 130_000
"""The oldest server that is spoken to: 13.0, as it numbers itself."""
LOCK, MAKING = 0x416D6E64, 0x416D6E65
"""Advisory locks of a schema: engines that write share the first one (`Amnd`), whoever wants to be alone has it; the
second one is had while tables are made."""
PATIENCE = 3_000
"""ms in which the server may notice that whoever kept engines out is gone."""
LONGEST_WAIT = 5_000
"""ms that a write waits for what others have locked, so that whoever asked for it is answered."""
LISTENS_AGAIN = 1.0
"""Seconds after which a broken connection that listens is made anew."""

_ALIVE = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_MUST = (("fsync", "on"), ("full_page_writes", "on"))

_TOLD: Sequence[tuple[tuple[str, ...], type[StoreError], str]] = (
    (("53100",), StoreUnwritable, ("the disk of the database server is full ({name}); free some space there and try "
     "again, nothing of this write was kept")),
    (("53",), StoreUnwritable, ("{name} has no room for another connection or for more work ({said}); give it more, or "
     "close what else uses it")),
    (("28",), StoreUnwritable, "{name} does not let us in ({said}); look at user and password in its address"),
    (("3D000",), StoreError, "{name} does not exist; make it with `createdb`, with the encoding UTF8"),
    (("25006",), StoreUnwritable, ("{name} is read-only (a standby, or a setting of it); name the server that may be "
     "written to")),
    (("42501",), StoreUnwritable, "{name} does not allow this user to do that ({said}); give it rights on the schema"),
    (("XX001", "XX002"), StoreCorrupt, "{name} is damaged ({said}); stop the engine and put back a copy of it"),
    (("08", "57P", "--"), StoreUnwritable, "{name} could not be reached, or the connection broke ({said}); {away}"),
    (("25P", "40", "55", "57"), StoreUnwritable, ("{name} held the write up ({said}); nothing of it was kept, it can "
     "be tried again")),
    (("",), StoreError, "{name} refused a statement ({said}); nothing of this write was kept"),
)  # fmt: skip
"""How a SQLSTATE begins (`--`: there was none, so no server answered) -> what a person is told; the last fits all."""

WHEN_AWAY = "the project goes on by itself once it answers, and a write that was under way may have been kept"


class PostgresDatabase:
    """One database of a server. `url` carries user and password; `name` does not."""

    is_shared = True
    dialect = postgresql.dialect(paramstyle="format")  # type: ignore[no-untyped-call]
    """Without a driver's own casts: `mark` sets them where they are needed."""

    insert = staticmethod(postgresql.insert)
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str) -> None:
        try:
            scheme, _, rest = url.partition("://")
            given = conninfo_to_dict(f"{scheme.partition('+')[0]}://{rest}")
        except psycopg.ProgrammingError:
            raise SettingsError(
                "the database's address cannot be read; write it as postgresql://user:password@host:5432/name, with "
                "signs such as @ or / in the password percent-encoded"
            ) from None
        words = {**_ALIVE, "application_name": "amends", **{name: str(value) for name, value in given.items()}}
        self._address = make_conninfo(**words)
        host, port = given.get("host") or "the local socket", given.get("port")
        self._database = str(given.get("dbname") or given.get("user") or "")
        self.name = f'the database "{self._database}" at {host}{f":{port}" if port else ""}'
        self.when_away = WHEN_AWAY

    def mark(self, column: Column[Any]) -> str:
        """With its type: in a list of VALUES nothing else says what a NULL is."""
        return "%s::TEXT" if isinstance(column.type, Text) else "%s::BIGINT"

    # -- opening --

    def prepare(self) -> None:
        """Looks at the server, so that what is said of it is said before anything is begun. Raises StoreUnwritable."""
        try:
            with self._connect() as connection:
                self._refuse_unsafe(connection)
        except psycopg.Error as error:
            raise self.translate(error) from None

    def writer(self) -> Engine:
        """An engine of connections that commit to the disk. Raises StoreUnwritable."""
        return create_engine("postgresql+psycopg://", creator=self._connect_to_write, poolclass=NullPool)

    def readers(self, size: int = 8) -> Engine:
        """An engine of read-only connections; a transaction sees one state of the database and blocks nobody."""
        engine = create_engine(
            "postgresql+psycopg://", creator=self._connect_to_read, poolclass=QueuePool, pool_size=size, max_overflow=64
        )
        event.listen(engine, "begin", begin_reading)
        return engine

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._address)
        # Every number goes as the type of our columns, so a statement is prepared once and not for each size.
        connection.adapters.register_dumper(int, Int8Dumper)
        return connection

    def _connect_to_read(self) -> psycopg.Connection[Any]:
        connection = self._connect()
        connection.autocommit = True
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return connection

    def _connect_to_write(self) -> psycopg.Connection[Any]:
        connection = self._connect()
        try:
            self._refuse_unsafe(connection)
            if _asked(connection, "SHOW synchronous_commit") == "off":
                connection.execute("SET synchronous_commit = on")
            # Whoever is stopped in the middle of a transaction must not keep the runs it has locked from others.
            connection.execute(f"SET idle_in_transaction_session_timeout = {LEASE // 2}".encode())
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_unsafe(self, connection: psycopg.Connection[Any]) -> None:
        if connection.info.server_version < OLDEST:
            raise StoreUnwritable(
                f"{self.name} is PostgreSQL {_asked(connection, 'SHOW server_version')}; 13 or newer is needed"
            )
        for setting, wanted in (*_MUST, ("server_encoding", "UTF8")):
            found = _asked(connection, f"SHOW {setting}")
            if found != wanted:
                raise StoreUnwritable(
                    f"{self.name} cannot be kept safely: {setting} is {found}, and {wanted} is needed; change the "
                    "server's settings, or make the database anew"
                )
        connection.rollback()

    # -- several engines --

    def home(self, connection: Connection) -> str:
        """The server's own name for itself and for this database, where it may be asked."""
        asked = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
        if not connection.exec_driver_sql(asked).scalar():
            return ""
        found = "SELECT system_identifier || '/' || current_database() || '/' || current_schema()"
        return str(connection.exec_driver_sql(f"{found} FROM pg_control_system()").scalar())

    def let_in(self, cursor: Any) -> None:
        """Shares the lock, as long as the connection stands."""
        try:
            cursor.execute(f"SET lock_timeout = {PATIENCE}")
            cursor.execute(f"SELECT pg_advisory_lock_shared({LOCK}, hashtext(current_schema()))")
            cursor.execute(f"SET lock_timeout = {LONGEST_WAIT}")
        except psycopg.errors.LockNotAvailable:
            raise EngineBusy(
                f"{self.name} is kept from engines just now: it is copied or brought up to date, or an engine of an "
                "older Amends writes to it; end that first"
            ) from None

    def keep_out(self, connection: Connection) -> None:
        """Has the lock alone."""
        asked = f"SELECT pg_try_advisory_xact_lock({LOCK}, hashtext(current_schema()))"
        if not connection.exec_driver_sql(asked).scalar():
            raise EngineBusy(f"an engine writes to {self.name}; stop every one of them first")

    def one_by_one(self, connection: Connection) -> None:
        """Has the second lock."""
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MAKING}, hashtext(current_schema()))")

    async def listen(self, told: Callable[[int, str], None]) -> None:
        """Hears on a connection of its own."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._address, autocommit=True) as connection:
                    row = await (await connection.execute("SELECT 'amends_' || md5(current_schema())")).fetchone()
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(str(row and row[0]))))
                    told(0, LEFT)
                    async for heard in connection.notifies():
                        fence, _, what = heard.payload.partition(" ")
                        told(int(fence), what)
            except psycopg.Error as error:
                log.warning("%s", self.translate(error))
            await asyncio.sleep(LISTENS_AGAIN)

    def begin(self, cursor: Any) -> None:
        """Nothing: the driver begins a transaction with its first statement."""

    def end(self, connection: Connection, *, commit: bool) -> None:
        """Ends it; SQLAlchemy, that may have joined it for a statement, hears of it too."""
        # Where it was SQLAlchemy that met the broken connection, there is no driver's one left to ask.
        driver = None if connection.invalidated else connection.connection.driver_connection
        if driver is not None:
            driver.commit() if commit else driver.rollback()
        if connection.in_transaction():
            connection.commit() if commit else connection.rollback()

    def sign(self, connection: Connection) -> None:
        """Marks the schema as ours; inside the transaction that creates the tables."""
        connection.exec_driver_sql("CREATE SEQUENCE commits")
        connection.exec_driver_sql("COMMENT ON TABLE meta IS 'Amends'")

    def is_empty(self, connection: Connection) -> bool:
        """Whether no table has been made yet. Raises StoreCorrupt where the tables are another application's."""
        asked = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"
        if not connection.exec_driver_sql(asked).scalar():
            return True
        signed = connection.exec_driver_sql("SELECT obj_description(to_regclass('meta'), 'pg_class')").scalar()
        if signed != "Amends":
            raise StoreCorrupt(
                f"{self.name} holds the tables of another application; name a database that is empty, or give its user "
                "a schema of its own"
            )
        return False

    # -- errors --

    def is_passing(self, error: Exception) -> bool:
        """A deadlock, which the server has ended."""
        return isinstance(getattr(error, "orig", error), psycopg.errors.DeadlockDetected)

    def spoils_everything(self, error: Exception) -> bool:
        """Whether it is the database that failed (gone, full, locked), and not one of the works."""
        cause = getattr(error, "orig", error)
        return isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError)

    def translate(self, error: Exception) -> StoreError:
        """An error of the driver (or SQLAlchemy's, around it) as one sentence for the person who must act."""
        cause = getattr(error, "orig", error)
        state = str(getattr(cause, "sqlstate", None) or "--")
        said = _first_line(cause) or state
        if state == "--" and not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
            state = ""
        if state == "--" and "authentication failed" in said:
            state = "28"
        elif state == "--" and "does not exist" in said:
            state = "3D000"
        kind, what = next((kind, what) for beginnings, kind, what in _TOLD if state.startswith(beginnings))
        return kind(what.format(name=self.name, said=said, away=self.when_away))

    # -- room: the server's own matter --

    def room_left(self) -> int:
        """More than anybody needs: a client is not told."""
        return sys.maxsize

    def keep_reserve(self, floor: int) -> None:
        """Nothing: what is committed there cannot be made room for from here."""

    def open_reserve(self, error: Exception) -> bool:
        """There is none."""
        return False

    def about(self, connection: Connection) -> dict[str, Json]:
        """What this database says of itself."""
        row = connection.exec_driver_sql(
            "SELECT current_setting('server_version'), pg_database_size(current_database())"
        ).one()
        return {"path": self.name, "software": f"PostgreSQL {row[0].split()[0]}", "bytes": row[1], "is_safe": True}

    def build_anew(self, cursor: Any) -> None:
        """Nothing: autovacuum makes room for new rows, and `VACUUM FULL` is for whoever keeps the server."""

    def give_back(self, cursor: Any, pages: int) -> Tidied:
        """Nothing is left to give back: autovacuum does."""
        return Tidied(is_clean=True, free=0, by_pieces=True)

    def backup(self, to: Path) -> None:
        """Never. Raises NotPossible."""
        raise NotPossible(f"{self.name} is copied with its server's own tools: `pg_dump --format=custom`")


def _asked(connection: psycopg.Connection[Any], question: str) -> str:
    row = connection.execute(question.encode()).fetchone()
    return str(row[0]) if row is not None else ""


def _first_line(error: BaseException) -> str:
    """What the server says, without the address that the driver puts before it."""
    told = getattr(getattr(error, "diag", None), "message_primary", None)
    return str(told or next(iter(str(error).strip().splitlines()), "")).strip()
