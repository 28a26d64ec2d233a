"""The kind `sql`: each named statement of a connection is an action.

A write is one transaction. With a table of keys (`keys`) the call's key is put into it by the same transaction, so the
database itself sees to it that a second attempt changes nothing and gets the first one's answer. COMMIT leaves at the
very end and only while nobody has given up waiting: before it nothing is kept whatever happens (`refused`), after it a
lost answer is `unknown`. That holds for tables that know transactions.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    Text,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from connectors.rendering import checked_input
from connectors.servers import HOST_SETTINGS, read_login, read_server
from connectors.service import check_settings, no_such_action, resolver
from connectors.sql.databases import Database, Mysql, Postgresql, Served, Sqlite
from connectors.sql.rows import NotJson, parameter, read_rows
from connectors.sql.statements import FEW_ROWS, Statement, read_statements
from runner.clock import MachineClock
from runner.contract import Action, Connector, Json, Outcome, Purpose, Reason, Request, Tools
from runner.errors import RequestError, SecretMissing, SettingsError
from runner.guard import AddressRefused

_SERVED: Mapping[str, tuple[type[Served], int]] = {"postgresql": (Postgresql, 5432), "mysql": (Mysql, 3306)}
_TABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_STATES = ".amends"


class SqlKind:
    """The kind `sql`."""

    name = "sql"
    title = "A database, by named statements"

    def settings(self) -> Mapping[str, Json]:
        return {
            "database": {"choice": ["sqlite", *_SERVED]},
            "statements": "record",
            "keys": "text or empty",
            "file": "text or empty",
            "name": "text or empty",
            **HOST_SETTINGS,
            "host": "text or empty",
            "security": {"choice": ["tls", "none"], "empty": True},
            "user": "text or empty",
            "password": "secret or empty",
        }

    def actions(self) -> Mapping[str, Action]:
        """None: they are what a connection's statements are."""
        return {}

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """One for each statement. Raises SettingsError."""
        found = read_statements("sql", settings.get("statements"), keyed=bool(settings.get("keys")))
        return {name: statement.action for name, statement in found.items()}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        keys = settings.get("keys") or ""
        if keys and not _TABLE.fullmatch(str(keys)):
            raise SettingsError(f'{name}: keys must be the name of a table, like amends_keys, and "{keys}" is none')
        return _Sql(
            name=name,
            database=_database(name, settings, tools),
            statements=read_statements(name, settings["statements"], keyed=bool(keys)),
            keys=_keys_table(str(keys)) if keys else None,
            tools=tools,
        )


def _database(name: str, settings: Mapping[str, Json], tools: Tools) -> Database:
    word = settings["database"]
    if word == "sqlite":
        for other in settings:
            if other not in ("database", "statements", "keys", "file"):
                raise SettingsError(f"{name}: {other} means nothing to a SQLite file")
        path = tools.place(str(settings.get("file") or ""))
        if not settings.get("file"):
            raise SettingsError(f"{name}: file must name the SQLite file, like data/shop.db")
        if _STATES in path.parts:
            raise SettingsError(f"{name}: file is Amends' own database; no statement runs there")
        return Sqlite(file=path)
    if word not in _SERVED:
        raise SettingsError(f'{name}: database "{word}" must be one of sqlite, {", ".join(_SERVED)}')
    if "file" in settings:
        raise SettingsError(f"{name}: file is for SQLite; a {word} server has host and name")
    made, port = _SERVED[str(word)]
    if not settings.get("name") or not isinstance(settings["name"], str):
        raise SettingsError(f"{name}: name must be the name of the database on the server")
    server = read_server(name, settings, {"tls": port, "none": port}, "db.example.com", "database")
    login = read_login(name, settings)
    if not login:
        raise SettingsError(f"{name}: user and password are needed to log in to a {word} server")
    return made(server=server, database=settings["name"], login=login)


def _keys_table(name: str) -> Table:
    schema, _, table = name.rpartition(".")
    columns = [
        Column(word, Text if word == "answer" else String(300)) for word in ("call_key", "request", "answer", "made_at")
    ]
    return Table(table, MetaData(schema=schema or None), *columns)


def keys_statement(name: str) -> str:
    """What makes the table of keys."""
    columns = "call_key varchar(300) primary key, request varchar(300), answer text, made_at varchar(300)"
    return f"create table {name} ({columns})"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sql:
    """One connection of the kind `sql`."""

    name: str
    database: Database
    statements: Mapping[str, Statement]
    keys: Table | None
    tools: Tools

    @property
    def actions(self) -> Mapping[str, Action]:
        return {name: statement.action for name, statement in self.statements.items()}

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        """`{"sql": …, "values": {…}}` with `most` of a read, `changes` of a write that says so."""
        found = self.statements.get(action) or no_such_action(self.name, action, self.statements)
        if purpose not in ("do", "undo", "read"):
            raise RequestError(f"{self.name} cannot be asked by a key; its writes are keyed by a table of keys")
        given = checked_input(found.action, input)
        values = {name: parameter(given[name]) for name in found.parameters}
        body: dict[str, Json] = {"sql": found.sql, "values": values}
        if found.action.effect == "read":
            body["most"] = found.most
        elif found.changes is not None:
            body["changes"] = found.changes
        return Request.of(body)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        began, shown = asyncio.get_running_loop().time(), self.database.shown
        try:
            async with asyncio.timeout(limit / 1000):
                engine = await self.database.engine(limit, resolver(self.tools))
        except SecretMissing as error:
            return Outcome(result="not_sent", reason="forbidden", summary=f"{self.name}: {error}")
        except AddressRefused as error:
            return Outcome(result="not_sent", reason="forbidden", summary=str(error))
        except TimeoutError:
            return Outcome(result="not_sent", reason="timeout", summary=f"{shown} could not be connected to in time")
        except OSError as error:
            why = str(error) if str(error).startswith("there is no") else f"{shown} cannot be connected to"
            return Outcome(result="not_sent", reason="connection", summary=why)
        call = _Call(
            database=self.database, engine=engine, request=request, keys=self.keys, key=_short(key), limit=limit,
            reads=self.actions[action].effect == "read", redact=self.tools.redact,
        )  # fmt: skip
        running = asyncio.ensure_future(asyncio.to_thread(call.run))
        try:
            left = limit / 1000 - (asyncio.get_running_loop().time() - began)
            return await asyncio.wait_for(asyncio.shield(running), max(left, 0.01))
        except TimeoutError:
            call.give_up()
            return call.broken("timeout", f"{shown} did not answer within {limit / 1000:g} s")
        except BaseException:
            call.give_up()
            raise

    async def close(self) -> None:
        """Every call has a connection of its own, so nothing is open."""

    def origin(self) -> str:
        return f"sql:{self.database.shown}"


class _No(Exception):
    """Nothing is kept of this call."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


@dataclass(kw_only=True)
class _Call:
    """One call on its thread. `stage` is "" until the database has been reached, then began, committing, done."""

    database: Database
    engine: Engine
    request: Request
    keys: Table | None
    key: str
    limit: int
    reads: bool
    redact: Any
    stage: str = ""
    gave_up: bool = False
    open: Connection | None = None
    lock: Any = field(default_factory=threading.Lock)

    def run(self) -> Outcome:
        """All of it. Never raises for what the database does."""
        try:
            with self.engine.connect() as connection:
                self.database.bound(connection, self.limit)
                self._step("began", connection)
                try:
                    return self._read(connection) if self.reads else self._write(connection)
                finally:
                    self._leave(connection)
        except _No as error:
            return self._outcome("refused", error.reason, str(error))
        except DBAPIError as error:
            return self._failed(error)
        except NotJson as error:
            return self._outcome("refused", "invalid", f"{error}; nothing is kept")
        except (OverflowError, TypeError, ValueError):
            return self._outcome(
                "refused", "invalid", f"{self.database.shown} cannot hold one of the values; nothing is kept"
            )

    def give_up(self) -> None:
        """Nobody waits any more: COMMIT is not sent, if it has not been."""
        with self.lock:
            self.gave_up = True
            if self.open is not None:
                self.database.break_off(self.open)

    def broken(self, reason: Reason, why: str) -> Outcome:
        """What became of a call without a complete answer."""
        if not self.stage:
            return self._outcome("not_sent", reason, why)
        if self.reads or self.stage in ("committing", "done"):
            return self._outcome("unknown", reason, why)
        return self._outcome("refused", "unavailable", f"{why}; it was not committed, so nothing is kept of it")

    def _step(self, stage: str, connection: Connection) -> None:
        with self.lock:
            if self.gave_up:
                raise _No("unavailable", "nobody waits for the answer any more; nothing is kept")
            self.stage, self.open = stage, connection

    def _leave(self, connection: Connection) -> None:
        with self.lock:
            self.open = None
        if self.stage != "done" and not connection.closed and not connection.invalidated:
            try:
                connection.exec_driver_sql("ROLLBACK")
            except DBAPIError:
                connection.invalidate()

    def _read(self, connection: Connection) -> Outcome:
        most = self.request.body["most"]
        connection.exec_driver_sql(self.database.begin_read)
        names, blocks = self.database.read(connection, *self._statement(), most)
        rows, incomplete = read_rows(names, blocks, most)
        output = {"found": bool(rows), "row": rows[0] if rows else None, "rows": rows, "count": len(rows)}
        return Outcome(result="applied", output={**output, "incomplete": incomplete})

    def _write(self, connection: Connection) -> Outcome:
        connection.exec_driver_sql(self.database.begin_write)
        if self.keys is not None:
            known = self._known(connection)
            if known is not None:
                return known
        sql, values = self._statement()
        result = connection.execute(text(sql), values)
        changed = result.rowcount
        rows, incomplete = read_rows(list(result.keys()), result, FEW_ROWS) if result.returns_rows else ([], False)
        if result.returns_rows:
            changed = max(changed, len(rows))
        wanted = self.request.body.get("changes", changed)
        if changed != wanted:
            raise _No(
                "not_found" if not changed else "conflict",
                f"it changes {changed} rows and should change {wanted}; nothing is kept",
            )
        if incomplete:
            raise _No("invalid", f"it gives back more than {FEW_ROWS:,} rows; nothing is kept")
        output = {"changed": changed, "row": rows[0] if rows else None, "rows": rows}
        if self.keys is not None:
            row = self.keys.c
            connection.execute(update(self.keys).where(row.call_key == self.key).values(answer=json.dumps(output)))
        self._step("committing", connection)
        connection.exec_driver_sql("COMMIT")
        self.stage = "done"
        return _applied(output)

    def _known(self, connection: Connection) -> Outcome | None:
        """The answer of an earlier attempt; None where this is the first, whose key is then in the table."""
        assert self.keys is not None
        row = self.keys.c
        asked = select(row.request, row.answer).where(row.call_key == self.key)
        try:
            found = connection.execute(asked).first()
        except DBAPIError as error:
            if self.database.answered(error) is None:
                raise
            name = self.keys.fullname
            raise _No(
                "invalid", f"the table of keys {name} cannot be read; make it with: {keys_statement(name)}"
            ) from None
        if found is None:
            made = datetime.fromtimestamp(MachineClock().now() / 1000, UTC).isoformat(timespec="seconds")
            values = {"call_key": self.key, "request": self.request.hash, "answer": "", "made_at": made}
            try:
                connection.execute(insert(self.keys).values(**values))
            except IntegrityError:
                connection.exec_driver_sql("ROLLBACK")
                connection.exec_driver_sql(self.database.begin_write)
                found = connection.execute(asked).first()
            else:
                return None
        if found is None or found[0] != self.request.hash:
            raise _No("conflict", "its key was used for another statement or other values; nothing was done")
        return _applied(json.loads(found[1]))

    def _statement(self) -> tuple[str, Mapping[str, Json]]:
        return self.request.body["sql"], self.request.body["values"]

    def _failed(self, error: DBAPIError) -> Outcome:
        said = self.database.answered(error) if self.stage else None
        if said is None:
            words = str(error.orig)
            if not self.stage and ("authentication" in words or "denied" in words):
                return self._outcome("not_sent", "forbidden", f"{self.database.shown} does not let this user in")
            why = "cannot be connected to" if not self.stage else "broke off before it answered"
            return self.broken("connection", f"{self.database.shown} {why}")
        reason, words = said
        told = self.redact(" ".join(words.split()))[:200]  # a secret that is cut would not be known any more
        return self._outcome("refused", reason, f"{self.database.shown} said: {told}")

    def _outcome(self, result: Any, reason: Reason, why: str) -> Outcome:
        return Outcome(result=result, reason=reason, summary=self.redact(why))


def _applied(output: Mapping[str, Json]) -> Outcome:
    named = (output["row"] or {}).get("id")
    return Outcome(result="applied", output=output, external_id="" if named is None else str(named))


def _short(key: str) -> str:
    return key if len(key) <= 200 else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


KIND: Any = SqlKind()
