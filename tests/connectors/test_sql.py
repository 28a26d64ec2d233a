"""Databases for real: SQLite, PostgreSQL and MariaDB by the same tests, with another client as the judge."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql  # type: ignore[import-untyped]
import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import Pool

from connectors.sql.databases import Mysql, Postgresql
from connectors.sql.kind import KIND, keys_statement
from runner.contract import Connector, Outcome, Purpose
from runner.errors import RequestError, SettingsError
from tests.connectors.mailserver import certificate
from tests.connectors.tools import Lent
from tests.support.mariadb import running_mariadb
from tests.support.postgres import PASSWORD, USER, Postgres, running_postgres
from tests.support.tcp_proxy import Break, TcpProxy

STATEMENTS: dict[str, Any] = {
    "customer": {"reads": "select id, name from customers where email = :email order by id", "input": {"email": "text"}},
    "everybody": {"reads": "select * from customers order by id", "most": 2},
    "add": {
        "writes": "insert into customers (email, name, total) values (:email, :name, :total) returning id",
        "input": {"email": "text", "name": "text or empty", "total": "number or empty"},
        "undo": {"action": "remove", "with": {"id": "${{ output.row.id }}"}},
    },
    "rename": {"writes": "update customers set name = :name where email = :email", "input": {"email": "text", "name": "text"}, "changes": 1},
    "remove": {"writes": "delete from customers where id = :id", "input": {"id": "integer"}, "cannot_undo": "It is gone."},
    "sneaky": {"reads": "with gone as (select 1) select * from gone"},
}  # fmt: skip
TABLE = "create table customers (id {serial} primary key, email varchar(200) not null unique, name text, total numeric(30, 6), on_day date)"
LENT = Lent(DB=PASSWORD)


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A database, how a connection to it is written, and a client of its own to judge by."""

    line: dict[str, Any]
    address: str

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        if self.address.endswith(".db"):
            with closing(sqlite3.connect(self.address, isolation_level=None)) as found:
                return found.execute(sql).fetchall()
        if self.line["database"] == "mysql":
            made = pymysql.connect(host="127.0.0.1", port=self.line["port"], user=USER, password=PASSWORD, database="shop", autocommit=True)  # fmt: skip
            with closing(made) as asked, asked.cursor() as told:
                told.execute(sql)
                return list(told.fetchall())
        with psycopg.connect(self.address, autocommit=True) as served:
            cursor = served.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def connect(self, tools: Lent = LENT, **settings: Any) -> Connector:
        made: Connector = KIND.connect("shop", {**self.line, "statements": STATEMENTS, "keys": "amends_keys", **settings}, tools)  # fmt: skip
        return made


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[int]:
    with running_mariadb() as port:
        yield port


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    if request.param == "sqlite":
        file = tmp_path / "shop 100%.db"
        sqlite3.connect(file).close()
        made, serial = Ground(line={"database": "sqlite", "file": str(file)}, address=str(file)), "integer"
    else:
        made, serial = of_postgres(request.getfixturevalue("postgres").port), "serial"
        if request.param == "mysql":
            line = {**made.line, "database": "mysql", "port": request.getfixturevalue("mariadb"), "name": "shop"}
            made, serial = Ground(line=line, address=""), "integer auto_increment"
        for table in ("customers", "amends_keys"):
            made.ask(f"drop table if exists {table}")
    made.ask(TABLE.format(serial=serial))
    made.ask(keys_statement("amends_keys"))
    return made


def of_postgres(port: int) -> Ground:
    line = {
        "database": "postgresql", "host": "127.0.0.1", "port": port, "name": "postgres", "user": USER,
        "password": {"secret": "DB"}, "security": "none", "allow_insecure": True, "allow_private": True,
    }  # fmt: skip
    return Ground(line=line, address=f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres")


async def did(
    mine: Connector, action: str, input: dict[str, Any], key: str = "am_1", purpose: Purpose = "do", limit: int = 5_000
) -> Outcome:
    request = mine.prepare(action, input, key=key, purpose=purpose)
    return await mine.send(action, request, key=key, purpose=purpose, limit=limit)


AYA = {"email": "aya@example.com", "name": "佐藤 綾", "total": 12.5}


async def test_a_write_is_found_by_a_read(ground: Ground) -> None:
    mine = ground.connect()
    added = await did(mine, "add", AYA)
    assert added.result == "applied", added
    assert added.output == {"changed": 1, "row": {"id": 1}, "rows": [{"id": 1}]}
    assert added.external_id == "1"
    found = await did(mine, "customer", {"email": "aya@example.com"}, purpose="read")
    row = {"id": 1, "name": "佐藤 綾"}
    assert found.output == {"found": True, "row": row, "rows": [row], "count": 1, "incomplete": False}
    none = await did(mine, "customer", {"email": "' or 1=1 --"}, purpose="read")
    assert none.output == {"found": False, "row": None, "rows": [], "count": 0, "incomplete": False}


async def test_the_same_key_is_one_effect_and_one_answer(ground: Ground) -> None:
    mine = ground.connect()
    first = await did(mine, "add", AYA)
    assert await did(mine, "add", AYA) == first
    other = await did(mine, "add", {**AYA, "name": "Somebody"})
    assert (other.result, other.reason) == ("refused", "conflict")
    assert other.summary == "its key was used for another statement or other values; nothing was done"
    assert ground.ask("select count(*) from customers") == [(1,)]
    assert ground.ask("select call_key from amends_keys") == [("am_1",)]


async def test_many_at_once_under_one_key_are_one_effect(ground: Ground) -> None:
    mine = ground.connect()
    # They wait for each other: on a file the one that is last for as long as it takes the others.
    found = await asyncio.gather(*(did(mine, "add", AYA, key="am_same", limit=30_000) for _ in range(8)))
    assert {one.result for one in found} == {"applied"}
    assert {one.external_id for one in found} == {"1"}
    assert ground.ask("select count(*) from customers") == [(1,)]


async def test_undo_undoes_under_its_own_key(ground: Ground) -> None:
    mine = ground.connect()
    undo = mine.actions["add"].undo
    assert undo is not None
    added = await did(mine, "add", AYA)
    removed = await did(mine, undo.action, {"id": added.output["row"]["id"]}, key="am_undo", purpose="undo")
    assert (removed.result, removed.output["changed"]) == ("applied", 1)
    assert ground.ask("select count(*) from customers") == [(0,)]


async def test_nothing_is_kept_of_what_is_refused(ground: Ground) -> None:
    mine = ground.connect()
    await did(mine, "add", AYA)
    twice = await did(mine, "add", AYA, key="am_2")
    assert (twice.result, twice.reason) == ("refused", "conflict")
    assert " said: " in twice.summary
    nobody = await did(mine, "rename", {"email": "no@example.com", "name": "x"}, key="am_3")
    assert (nobody.result, nobody.reason) == ("refused", "not_found")
    assert nobody.summary == "it changes 0 rows and should change 1; nothing is kept"
    assert ground.ask("select call_key from amends_keys") == [("am_1",)]


async def test_a_value_that_the_database_cannot_hold(ground: Ground) -> None:
    wide = {"put": {"writes": "insert into customers (email, id) values ('a', :id)", "input": {"id": "integer"}}}
    found = await did(ground.connect(statements=wide), "put", {"id": 10**25})
    assert (found.result, found.reason) == ("refused", "invalid")
    assert ground.ask("select count(*) from amends_keys") == [(0,)]


async def test_rows_beyond_the_limit_are_said_to_be_missing(ground: Ground) -> None:
    mine = ground.connect()
    for number in range(3):
        await did(mine, "add", {"email": f"{number}@example.com", "total": 10**15 + number}, key=f"am_{number}")
    found = await did(mine, "everybody", {}, purpose="read")
    assert (found.output["count"], found.output["incomplete"]) == (2, True)
    assert (await did(ground.connect(statements={"everybody": {"reads": "select id from customers", "most": 3}}), "everybody", {}, purpose="read")).output["incomplete"] is False  # fmt: skip


async def test_a_read_cannot_write(ground: Ground) -> None:
    ground.ask("insert into customers (email) values ('a@example.com')")
    for writes in (
        "with gone as (select 1) delete from customers",
        "with gone as (delete from customers returning id) select * from gone",
        "select nextval('customers_id_seq') as n",
        "select id from customers for update" if ground.line["database"] == "postgresql" else "with a as (select 1) x",
    ):
        found = await did(ground.connect(statements={"odd": {"reads": writes}}), "odd", {}, purpose="read")
        assert (found.result, found.reason) in (("refused", "forbidden"), ("refused", "invalid")), found
    assert ground.ask("select count(*) from customers") == [(1,)]


async def test_without_a_table_of_keys(ground: Ground) -> None:
    once = ground.connect(keys="")
    assert once.actions["add"].effect == "once"
    assert ground.connect().actions["add"].effect == "keyed"
    assert (await did(once, "add", AYA)).result == "applied"
    lacking = await did(ground.connect(keys="not_there"), "add", AYA)
    assert (lacking.result, lacking.reason) == ("refused", "invalid")
    assert lacking.summary.startswith(
        "the table of keys not_there cannot be read; make it with: create table not_there ("
    )


async def test_a_statement_that_takes_too_long(ground: Ground) -> None:
    kind = ground.line["database"]
    slow = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000000000)"
    told = {
        "count": {"reads": f"{slow} select count(*) as n from n"},
        "add": {"writes": f"{slow} insert into customers (email) select count(*) from n"},
    }
    if kind != "sqlite":
        told["add"] = {"writes": f"insert into customers (email) {slow} select count(*) from n"}
    if kind == "mysql":
        told = {
            "count": {"reads": "select sleep(5) as n"},
            "add": {"writes": "insert into customers (email) select sleep(5)"},
        }
    mine = ground.connect(statements=told)
    read = await did(mine, "count", {}, purpose="read", limit=300)
    assert (read.result, read.reason) in (("unknown", "timeout"), ("refused", "unavailable"))
    wrote = await did(mine, "add", {}, limit=300)
    assert (wrote.result, wrote.reason) == ("refused", "unavailable")
    await asyncio.sleep(0.3)
    assert ground.ask("select count(*) from customers") == [(0,)]
    assert ground.ask("select count(*) from amends_keys") == [(0,)]


@pytest.mark.parametrize("ground", ["sqlite"], indirect=True)
async def test_what_was_committed_is_never_said_not_to_be_kept(ground: Ground) -> None:
    """Closing the connection takes longer than anybody waits."""

    given_up = threading.Event()

    def slowly(*told: Any) -> None:
        given_up.wait(30)

    event.listen(Pool, "close", slowly)
    try:
        found = await did(ground.connect(), "add", AYA, limit=1_500)
    finally:
        given_up.set()
        event.remove(Pool, "close", slowly)
    assert ground.ask("select count(*) from customers") == [(1,)]
    assert (found.result, found.reason) == ("unknown", "timeout")


@pytest.mark.parametrize(
    ("database", "error", "is_answer"),
    [
        (Postgresql, psycopg.errors.UniqueViolation(), True),
        (Postgresql, psycopg.errors.SerializationFailure(), True),
        (Postgresql, psycopg.errors.AdminShutdown(), False),
        (Postgresql, psycopg.errors.StatementCompletionUnknown(), False),
        (Mysql, pymysql.err.IntegrityError(1062, "Duplicate entry"), True),
        (Mysql, pymysql.err.OperationalError(1927, "Connection was killed"), False),
        (Mysql, pymysql.err.OperationalError(1053, "Server shutdown in progress"), False),
    ],
)
def test_a_server_that_ends_the_connection_has_said_nothing_of_a_commit(
    database: Any, error: Exception, is_answer: bool
) -> None:
    told = DBAPIError("COMMIT", None, error)
    made = database(server=None, database="shop", login=())
    assert (made.answered(told) is not None) is is_answer


# --- PostgreSQL alone -----------------------------------------------------------------------------------------------


@pytest.fixture
def served(postgres: Postgres) -> Ground:
    ground = of_postgres(postgres.port)
    for table in ("customers", "amends_keys"):
        ground.ask(f"drop table if exists {table}")
    ground.ask(TABLE.format(serial="serial"))
    ground.ask(keys_statement("amends_keys"))
    return ground


async def test_values_come_back_as_json(served: Ground) -> None:
    values = (
        "select 12.50::numeric as price, 3::numeric as whole, 1.00000000000000000001::numeric as exact, true as yes,"
        " date '2026-01-31' as day, timestamptz '2026-01-31 10:00+09' at time zone 'UTC' as moment, null as nothing,"
        " '{\"a\": [1]}'::jsonb as record, 'a1b2c3d4-0000-4000-8000-000000000000'::uuid as name, '\\x00ff'::bytea as raw"
    )
    found = await did(served.connect(statements={"all": {"reads": values}}), "all", {}, purpose="read")
    assert found.output["row"] == {
        "price": 12.5, "whole": 3, "exact": "1.00000000000000000001", "yes": True, "day": "2026-01-31",
        "moment": "2026-01-31T01:00:00", "nothing": None, "record": {"a": [1]},
        "name": "a1b2c3d4-0000-4000-8000-000000000000", "raw": "AP8=",
    }  # fmt: skip
    put = {
        "put": {
            "writes": "insert into customers (email, on_day) values (:email, :day)",
            "input": {"email": "text", "day": "date"},
        }
    }
    assert (await did(served.connect(statements=put), "put", {"email": "a", "day": "2026-02-28"})).result == "applied"
    assert (
        await did(served.connect(statements=put), "put", {"email": "b", "day": "2026-02-28"}, key="am_2")
    ).result == "applied"
    twice = {"both": {"reads": "select 1 as a, 2 as a"}}
    assert "two columns" in (await did(served.connect(statements=twice), "both", {}, purpose="read")).summary


async def test_a_line_that_breaks(served: Ground) -> None:
    """The bytes of one whole call are counted first; then the line is cut after so many of them, everywhere."""
    port = served.line["port"]
    async with TcpProxy(port) as proxy:
        mine = served.connect(port=proxy.port)
        assert (await did(mine, "add", AYA, key="am_count")).result == "applied"
        up, down = proxy.passed["up"], proxy.passed["down"]
    seen: set[tuple[str, bool]] = set()
    for number, (way, after) in enumerate(
        [("up", at) for at in range(0, up, up // 12)] + [("down", at) for at in range(down - 60, down, 4)]
    ):
        key, email = f"am_cut_{number}", f"{number}@example.com"
        told = Break(kind="reset", way=way, after=after)  # type: ignore[arg-type]
        async with TcpProxy(port, told) as proxy:
            mine = served.connect(port=proxy.port)
            found = await did(mine, "add", {"email": email}, key=key)
            is_there = served.ask(f"select count(*) from customers where email = '{email}'") == [(1,)]
            seen.add((found.result, is_there))
            assert found.result in ("unknown", "applied") or not is_there, (way, after, found)
            if found.result in ("unknown", "not_sent", "refused"):
                again = await did(mine, "add", {"email": email}, key=key)
                assert again.result == "applied"
        assert served.ask(f"select count(*) from customers where email = '{email}'") == [(1,)]
    assert ("unknown", True) in seen, "no cut fell between the COMMIT and its answer"
    assert ("not_sent", False) in seen
    assert ("refused", False) in seen


async def test_half_open_lines_end_in_time(served: Ground) -> None:
    async with TcpProxy(served.line["port"], always=Break(kind="silence", way="down", after=600)) as proxy:
        found = await did(served.connect(port=proxy.port), "add", AYA, limit=700)
    assert (found.result, found.reason) in (("not_sent", "timeout"), ("refused", "unavailable"))
    assert served.ask("select count(*) from customers") == [(0,)]


async def test_who_is_not_let_in(served: Ground) -> None:
    wrong = await did(served.connect(tools=Lent(DB="wr0ng-word")), "everybody", {}, purpose="read")
    assert (wrong.result, wrong.reason) == ("not_sent", "forbidden")
    assert "wr0ng-word" not in repr(wrong)
    unset = await did(served.connect(tools=Lent()), "add", AYA)
    assert (unset.result, unset.summary) == ("not_sent", "shop: the secret DB is not set")
    gone = await did(served.connect(port=1), "add", AYA)
    assert (gone.result, gone.reason) == ("not_sent", "connection")
    private = {word: said for word, said in served.line.items() if word != "allow_private"} | {"host": "localhost"}
    refused = await did(KIND.connect("shop", {**private, "statements": STATEMENTS}, LENT), "add", AYA)
    assert (refused.result, refused.reason) == ("not_sent", "forbidden")
    assert "allow_private" in refused.summary


async def test_encrypted_and_proved(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path)
    with running_postgres(certificate=(cert, tmp_path / "key.pem")) as server:
        ground = of_postgres(server.port)
        ground.ask(TABLE.format(serial="serial"))
        ground.ask(keys_statement("amends_keys"))
        encrypted: dict[str, Any] = {"security": "tls", "allow_insecure": False}
        assert (await did(ground.connect(**encrypted, ca=str(cert)), "add", AYA)).result == "applied"
        found = await did(ground.connect(**encrypted), "add", AYA, key="am_2")
        assert (found.result, found.reason) == ("not_sent", "connection")


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("select 1", "shop: it must have either reads: or writes:, with its statement"),
        ({"reads": "delete from a"}, 'a statement that reads begins with select, with, values, not with "delete"'),
        ({"writes": "drop table a"}, 'not with "drop"'),
        ({"writes": "delete from a; commit"}, 'is one statement, without ";" and comments'),
        ({"reads": "select ${{ input.x }}"}, "is not put together out of text; write :name"),
        ({"reads": "select :x"}, ":x stands in the statement and not under input"),
        ({"reads": "select 1", "input": {"x": "text"}}, "x stands under input and not in the statement, as :x"),
        ({"reads": "select :x", "input": {"x": "texxt"}}, "texxt"),
        ({"reads": "select 1", "most": 20_000}, "most must be a whole number from 1 to 10,000"),
        ({"reads": "select 1", "changes": 1}, "changes is for a statement that writes"),
        ({"writes": "delete from a", "undo": {"action": "nope"}}, 'it is undone by "nope"'),
        ({"writes": "delete from a", "udno": 1}, 'has no "udno"; did you mean "undo"?'),
    ],
)
def test_statements_that_cannot_be(statement: Any, said: str) -> None:
    with pytest.raises(SettingsError) as told:
        KIND.connect("shop", {"database": "sqlite", "file": "a.db", "statements": {"it": statement}}, LENT)
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"database": "sqlite"}, "file must name the SQLite file"),
        ({"database": "sqlite", "file": ".amends/amends.db"}, "is Amends' own database"),
        ({"database": "sqlite", "file": "a.db", "host": "x"}, "host means nothing to a SQLite file"),
        ({"database": "oracle"}, 'database "oracle" must be one of sqlite, postgresql, mysql'),
        ({"database": "postgresql", "host": "db.example.com", "name": "a"}, "user and password are needed"),
        ({"database": "postgresql", "host": "10.0.0.1", "name": "a"}, "is not a public address"),
        ({"database": "postgresql", "host": "db.example.com", "name": "a", "security": "ssl"}, "must be tls or none"),
        ({"database": "sqlite", "file": "a.db", "keys": "a b"}, "keys must be the name of a table"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as told:
        KIND.connect("shop", {**settings, "statements": STATEMENTS}, LENT)
    assert said in str(told.value)


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    line = {"database": "sqlite", "file": str(tmp_path / "no.db"), "statements": STATEMENTS}
    found = await did(KIND.connect("shop", line, LENT), "add", AYA)
    assert (found.result, found.summary) == ("not_sent", f"there is no database {tmp_path / 'no.db'}")
    assert not (tmp_path / "no.db").exists()
    mine = KIND.connect("shop", line, LENT)
    with pytest.raises(RequestError, match="cannot be asked by a key"):
        mine.prepare("add", AYA, key="am_1", purpose="lookup")
