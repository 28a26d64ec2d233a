"""Where a database is, how a connection to it is opened, and what its errors mean. The home of psycopg and pymysql.

Every call has a connection of its own: none is kept, so none can be stale. Nothing of the machine is used: no password
file, no service file, no environment.
"""

from __future__ import annotations

import contextlib
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql  # type: ignore[import-untyped]
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from connectors import transport
from connectors.servers import Server
from runner.contract import Json, Reason

Lost = tuple[Reason, str]
"""(reason, the database's own words in short) of an error that the database answered."""

Read = tuple[Sequence[str], Iterable[Sequence[Any]]]

_ALONE: Mapping[str, Any] = {"poolclass": NullPool, "isolation_level": "AUTOCOMMIT"}
"""BEGIN and COMMIT are said by us, so that it is known whether COMMIT has left."""

_BY_CODE: Mapping[str, Reason] = {
    "23": "conflict", "23502": "invalid", "23514": "invalid", "28": "forbidden", "42501": "forbidden",
    "25006": "forbidden",    "40": "unavailable", "53": "unavailable", "55": "unavailable", "57": "unavailable",
}  # fmt: skip
"""What an SQLSTATE says, by its five signs, else by its first two; everything else is `invalid`."""

_ENDED = ("08", "57P")
_ENDED_OF_MYSQL = (1053, 1927, 3169)
"""The server has ended the connection, and does not say whether a COMMIT was carried out."""

_OF_MYSQL: Mapping[int, Reason] = {
    1044: "forbidden", 1045: "forbidden", 1142: "forbidden", 1143: "forbidden", 1792: "forbidden",
    1062: "conflict", 1451: "conflict", 1452: "conflict",
    1040: "unavailable", 1205: "unavailable", 1213: "unavailable", 1317: "unavailable", 1969: "unavailable",
    3024: "unavailable",
}  # fmt: skip


class Database(ABC):
    """One database."""

    begin_read = "BEGIN READ ONLY"
    begin_write = "BEGIN"

    @property
    @abstractmethod
    def shown(self) -> str:
        """Where it is, without credentials."""

    @abstractmethod
    async def engine(self, limit: int, secret: Callable[[Json], str]) -> Engine:
        """What opens a connection within `limit` ms. Raises AddressRefused, OSError, SecretMissing; nothing is sent."""

    @abstractmethod
    def bound(self, connection: Connection, limit: int) -> None:
        """Makes the database itself give up a statement after `limit` ms."""

    def read(self, connection: Connection, sql: str, values: Mapping[str, Json], most: int) -> Read:
        """(the columns' names, the rows); not many more than `most` come into memory."""
        result = connection.execute(text(sql), values)
        return list(result.keys()), result

    @abstractmethod
    def break_off(self, connection: Connection) -> None:
        """Ends the connection from another thread."""

    @abstractmethod
    def answered(self, error: DBAPIError) -> Lost | None:
        """What the database said; None where the connection broke instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sqlite(Database):
    """A file on this machine. It must be there: a wrong name makes no new database."""

    file: Path

    begin_read = "BEGIN"
    begin_write = "BEGIN IMMEDIATE"

    @property
    def shown(self) -> str:
        return self.file.name

    async def engine(self, limit: int, secret: Callable[[Json], str]) -> Engine:
        if not self.file.is_file():
            raise OSError(f"there is no database {self.file}")
        where = {"timeout": limit / 1000, "check_same_thread": False}
        address = f"sqlite:///file:{str(self.file).replace('%', '%25').replace('?', '%3f')}?mode=rw&uri=true"
        return create_engine(address, connect_args=where, **_ALONE)

    def bound(self, connection: Connection, limit: int) -> None:
        """The file's own lock waits no longer, and what computes is broken off from outside."""
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(limit)}")

    def read(self, connection: Connection, sql: str, values: Mapping[str, Json], most: int) -> Read:
        connection.exec_driver_sql("PRAGMA query_only = ON")
        return Database.read(self, connection, sql, values, most)

    def break_off(self, connection: Connection) -> None:
        _driven(connection).interrupt()

    def answered(self, error: DBAPIError) -> Lost | None:
        said = str(error.orig)
        reason: Reason = "invalid"
        if "UNIQUE" in said or "FOREIGN KEY" in said or "PRIMARY KEY" in said:
            reason = "conflict"
        elif "locked" in said or "busy" in said or "interrupted" in said or "disk" in said:
            reason = "unavailable"
        elif "readonly" in said:
            reason = "forbidden"
        return reason, said


@dataclass(frozen=True, kw_only=True, slots=True)
class Served(Database):
    """A database server."""

    server: Server
    database: str
    login: tuple[Json, ...]

    @property
    def shown(self) -> str:
        return f"{self.server.shown}/{self.database}"

    def break_off(self, connection: Connection) -> None:
        with contextlib.suppress(OSError):
            line = socket.socket(fileno=os.dup(self.line(connection)))
            with line:
                line.shutdown(socket.SHUT_RDWR)

    @abstractmethod
    def line(self, connection: Connection) -> int:
        """The file number of the connection's socket."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Postgresql(Served):
    """PostgreSQL, by psycopg."""

    async def engine(self, limit: int, secret: Callable[[Json], str]) -> Engine:
        found = [address for _, address in await self.server.addresses()]
        user, password = (secret(value) for value in self.login)
        told = {
            "host": ",".join([self.server.host] * len(found)), "hostaddr": ",".join(found), "port": self.server.port,
            "dbname": self.database, "user": user, "password": password, "passfile": os.devnull,
            "sslmode": "disable", "gssencmode": "disable", "application_name": "Amends",
            "connect_timeout": max(2, limit // 1000), "client_encoding": "utf8",
        }  # fmt: skip
        if self.server.security == "tls":
            told |= {"sslmode": "verify-full", "sslrootcert": self.server.ca or "system"}
        return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(**told), **_ALONE)  # type: ignore[arg-type]

    def bound(self, connection: Connection, limit: int) -> None:
        connection.exec_driver_sql(f"SET statement_timeout = {int(limit)}")

    def read(self, connection: Connection, sql: str, values: Mapping[str, Json], most: int) -> Read:
        connection.execute(text(f"DECLARE amends_rows NO SCROLL CURSOR FOR {sql}"), values)
        first = connection.exec_driver_sql("FETCH 500 FROM amends_rows")

        def rows() -> Iterator[Sequence[Any]]:
            block = first.fetchall()
            while block:
                yield from block
                block = connection.exec_driver_sql("FETCH 500 FROM amends_rows").fetchall()

        return list(first.keys()), rows()

    def line(self, connection: Connection) -> int:
        return int(_driven(connection).fileno())

    def answered(self, error: DBAPIError) -> Lost | None:
        told: Any = error.orig
        code = getattr(told, "sqlstate", None)
        if not code or code == "40003" or code.startswith(_ENDED):
            return None
        reason = _BY_CODE.get(code) or _BY_CODE.get(code[:2], "invalid")
        return reason, str(told.diag.message_primary or code)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mysql(Served):
    """MySQL and MariaDB, by PyMySQL."""

    begin_read = "START TRANSACTION READ ONLY"
    begin_write = "START TRANSACTION"

    async def engine(self, limit: int, secret: Callable[[Json], str]) -> Engine:
        line = await self.server.connect()
        line.setblocking(True)
        line.settimeout(limit / 1000)
        try:
            user, password = (secret(value) for value in self.login)
        except BaseException:
            line.close()
            raise
        made = pymysql.Connection(
            host=self.server.host, port=self.server.port, user=user, password=password, database=self.database,
            ssl=transport.trusting(self.server.ca) if self.server.security == "tls" else None,
            ssl_disabled=self.server.security != "tls", read_timeout=max(1, limit // 1000),
            write_timeout=max(1, limit // 1000), charset="utf8mb4", local_infile=False, read_default_file=None,
            defer_connect=True,
        )  # fmt: skip

        def connect() -> Any:
            made.connect(line)
            return made

        return create_engine("mysql+pymysql://", creator=connect, **_ALONE)

    def bound(self, connection: Connection, limit: int) -> None:
        """The socket's own patience bounds every statement."""

    def read(self, connection: Connection, sql: str, values: Mapping[str, Json], most: int) -> Read:
        connection.exec_driver_sql(f"SET sql_select_limit = {most + 1}")
        return Database.read(self, connection, sql, values, most)

    def line(self, connection: Connection) -> int:
        return int(_driven(connection)._sock.fileno())

    def answered(self, error: DBAPIError) -> Lost | None:
        told: Any = error.orig
        code = told.args[0] if told.args and isinstance(told.args[0], int) else 0
        if not code or 2000 <= code < 3000 or code in _ENDED_OF_MYSQL:
            return None
        return _OF_MYSQL.get(code, "invalid"), str(told.args[1] if len(told.args) > 1 else code)


def _driven(connection: Connection) -> Any:
    return connection.connection.driver_connection
