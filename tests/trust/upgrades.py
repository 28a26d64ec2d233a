"""Databases that each released schema left, with runs in every status: brought to the newest, killed on the way, gone on with.

`released/NNNN.sql.gz` is what that release itself wrote, and is never changed. Each is put into SQLite and PostgreSQL and
opened: every entry and chain is there as it was, the laws hold, and deciding again gives the commands of the log. The
process that upgrades is killed at ten places; whoever comes next finds it as it was, or whole. Then an engine goes on with
the runs, people answer, and each comes to the end that it should.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import os
import re
import signal
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine, MetaData, create_engine, event

from runner.app import Amends, OwnDriver
from runner.clock import MINUTE, Clock, MachineClock
from runner.errors import EngineBusy, StoreError
from runner.people.operations import Order
from runner.store.lock import EngineLock
from runner.store.migrations.upgrade import upgrade
from runner.store.sql import SqlStore, open_store
from runner.store.tables import SCHEMA
from tests.support.http_service import HttpService
from tests.support.postgres import running_postgres
from tests.support.processes import ROOT
from tests.trust.figures import Figures
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import broken

RELEASED = Path(__file__).with_name("released")
NUMBERS = tuple(path.name[:4] for path in sorted(RELEASED.glob("*.sql.gz")))
FIRST = ROOT / "tests/store/schema_0001.sql"
LOGS = ROOT / "tests/logs"
STATUSES = frozenset({
    "queued", "waiting", "paused", "compensating", "succeeded", "drafted", "failed", "compensated", "stopped", "needs_person",
    "closed",
})  # fmt: skip
"""What is in each; `running` is only said while an engine is at work."""
OTHERWISE = (
    r"I26: \d+ TimerSet book: deciding again gives TimerSet book ",
    r"I26: \d+ DraftRecorded note: deciding again gives DraftRecorded note ",
)
"""Two decisions that were changed on purpose before the first release: when a call whose engine was killed goes again, and
what a draft is answered with. What was decided then holds; it is not decided again.

No rule by version in the core makes them equal again: a log does not say by which rules it was decided, and its entries
have the same fields before 0007 and since. Whatever such a rule took for logs without a mark, it would decide one of the
two kinds otherwise; and runs of then that are still under way would keep the pause and the answers that were mended."""
KILLS = 10
PATIENCE = 20.0
"""Seconds for a run to come to its end, and for PostgreSQL to see that a client is gone."""


# --- putting them there ------------------------------------------------------------------------------------------------


def text_of(number: str) -> str:
    """The statements that make it; the first two lines are its anchor, and the key that signed its log, if it was signed."""
    return gzip.decompress((RELEASED / f"{number}.sql.gz").read_bytes()).decode()


def put(number: str, folder: Path) -> Path:
    """Its file in this project folder, with the anchor beside it."""
    place = folder / ".amends"
    place.mkdir(parents=True, exist_ok=True)
    text = text_of(number)
    anchor, key, _ = text.split("\n", 2)
    (place / "anchor").write_text(anchor.removeprefix("-- "), encoding="utf-8")
    if signed_by := bytes.fromhex(key.removeprefix("-- ")):
        (place / "log.key").write_bytes(signed_by)
        (place / "log.key").chmod(0o600)
    path = place / "amends.db"
    for file in place.glob("amends.db*"):
        file.unlink()
    connection = sqlite3.connect(path)
    connection.executescript(text)
    connection.close()
    return path


def put_there(number: str, file: Path, url: str) -> None:
    """The same rows in an empty PostgreSQL schema, in the tables of that day."""
    target = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    source = create_engine(f"sqlite:///{file}")
    with target.begin() as written, source.begin() as asked:
        made = [
            one for one in FIRST.read_text(encoding="utf-8").replace(" WITHOUT ROWID", "").split(";\n") if one.strip()
        ]
        for statement in sorted(made, key=lambda one: ("INDEX" in one, "REFERENCES" in one)):
            written.exec_driver_sql(statement)
        written.exec_driver_sql("INSERT INTO alembic_version VALUES ('0001')")
        written.exec_driver_sql("COMMENT ON TABLE meta IS 'Amends'")
        upgrade(written, number)
        tables = MetaData()
        tables.reflect(written)
        for table in tables.sorted_tables:
            if table.name != "alembic_version":
                names = ", ".join(f'"{column.name}"' for column in table.columns)
                rows = asked.exec_driver_sql(f"SELECT {names} FROM {table.name}").mappings().all()
                if rows:
                    written.execute(table.insert(), [dict(row) for row in rows])
    target.dispose()
    source.dispose()


@contextmanager
def place_for(server: str) -> Iterator[str]:
    """The address of an empty PostgreSQL schema; empty for none."""
    if not server:
        yield ""
        return
    name = f"amends_{uuid.uuid4().hex}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
        try:
            yield f"{server}/postgres?options=-csearch_path%3D{name}"
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


# --- what is in them ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What no upgrade may change: each entry of the log by its place, and each run's status and bundle."""

    entries: Mapping[tuple[str, int], tuple[str, str]]
    runs: Mapping[str, tuple[str, str, str]]


def kept_in(file: Path) -> Kept:
    """As the release itself left it, read by nothing of ours."""
    connection = sqlite3.connect(file)
    entries = connection.execute("SELECT run_id, seq, type, hash FROM log WHERE run_id <> '_site'").fetchall()
    runs = connection.execute("SELECT run_id, flow, status, bundle FROM runs").fetchall()
    connection.close()
    return Kept(entries={(run, seq): (kind, hash_) for run, seq, kind, hash_ in entries},
                runs={run: (flow, status, bundle) for run, flow, status, bundle in runs})  # fmt: skip


def told(wrong: Sequence[str]) -> list[str]:
    """Without what is decided otherwise since."""
    return [said for said in wrong if not any(re.match(known, said) for known in OTHERWISE)]


def opened(folder: Path, url: str, clock: Clock | None = None) -> SqlStore:
    """The store, for writing; an engine that was killed a moment ago is waited for."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return open_store(folder, clock=clock or MachineClock(), writable=True, floor=0, url=url)
        except EngineBusy:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def faults(folder: Path, url: str, kept: Kept) -> list[str]:
    """What is wrong once this has been opened."""
    try:
        store = opened(folder, url)
    except StoreError as error:
        return [f"it does not open: {error}"]
    try:
        found = Installation.read(store, now=MachineClock().now())
        entries = {(run, row.seq): (row.type, row.hash) for run in found.views for row in store.log(run)}
        runs = {run: (view.flow, view.status, view.bundle) for run, view in found.views.items()}
        wrong = [] if store.about()["schema"] == SCHEMA else [f"the schema is {store.about()['schema']}"]
        wrong += ["it is taken for a copy"] if store.restored else []
        wrong += found.chain
        wrong += [f"entry {place} is not what it was" for place in entries.keys() | kept.entries.keys()
                  if entries.get(place) != kept.entries.get(place)][:3]  # fmt: skip
        wrong += [
            f"run {run} is not what it was"
            for run in runs.keys() | kept.runs.keys()
            if runs.get(run) != kept.runs.get(run)
        ][:3]
        return wrong or told(broken(found, Truth()))
    except StoreError as error:
        return [f"it cannot be read: {error}"]
    finally:
        store.close()


# --- killed on the way -------------------------------------------------------------------------------------------------


def killed(folder: Path, url: str, at: int, *, in_pieces: bool = False) -> int:
    """Opens it in a process that is killed before its statement `at` (0: it lives). How many it would have been: only
    of one that lives. `in_pieces`: a mistake, each statement is committed by itself."""
    reading, writing = os.pipe()
    if pid := os.fork():
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            said = file.read()
        os.waitpid(pid, 0)
        return int(said or 0)
    try:
        counted = [0]

        def before(connection: Any, cursor: Any, *more: Any) -> None:
            counted[0] += 1
            if in_pieces:
                cursor.connection.commit()
            if counted[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(Engine, "before_cursor_execute", before)
        opened(folder, url).close()
        os.write(writing, str(counted[0]).encode())
    finally:
        os._exit(0)


def points(count: int, wanted: int) -> list[int]:
    """Where it is killed: evenly from the first to the last."""
    return sorted({1 + (count - 1) * number // max(wanted - 1, 1) for number in range(wanted)})


def all_kills(number: str, server: str, wanted: int = KILLS, *, in_pieces: bool = False) -> tuple[int, list[str]]:
    """(kills, what is wrong) of one schema, in SQLite where `server` is empty."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def anew(do: Callable[[str], Any]) -> Any:
            file = put(number, folder)
            with place_for(server) as url:
                if url:
                    put_there(number, file, url)
                return do(url)

        kept = kept_in(put(number, folder))
        count = anew(lambda url: killed(folder, url, 0))

        def play(at: int) -> Callable[[str], list[str]]:
            def one(url: str) -> list[str]:
                killed(folder, url, at, in_pieces=in_pieces)
                return [f"{number}, killed at {at} of {count}: {said}" for said in faults(folder, url, kept)]

            return one

        chosen = points(count, wanted)
        return len(chosen), [said for at in chosen for said in anew(play(at))]


# --- gone on with ------------------------------------------------------------------------------------------------------


class Then(MachineClock):
    """A clock that goes on from a time of then."""

    def __init__(self, at: int) -> None:
        self._behind = super().now() - at

    def now(self) -> int:
        return super().now() - self._behind


ORDERS = {
    ("waits", "paused"): ("resume", "waiting"),
    ("asks", "needs_person"): ("go_on", "succeeded"),
    ("waits", "waiting"): ("stop_compensate", "compensated"),
    ("slow", "waiting"): ("", "succeeded"),
    ("slow", "running"): ("", "succeeded"),
    ("unslow", "compensating"): ("", "compensated"),
    ("good", "queued"): ("", "succeeded"),
}
"""What is said to a run of this flow in this status, and where it comes to."""


def project_out_of(folder: Path, origin: str, url: str) -> None:
    """The project's files, out of its own database."""
    connection = sqlite3.connect(folder / ".amends/amends.db")
    texts = connection.execute("SELECT b.name, t.content FROM bundles b JOIN texts t ON t.digest = b.text_digest")
    for name, text in dict(texts.fetchall()).items():
        kind, _, word = name.partition(":")
        if kind in ("flow", "connector"):
            file = folder / f"{kind}s" / f"{word}.yaml"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    connection.close()
    database = "database: { secret: DATABASE_URL }\n" if url else ""
    (folder / "amends.yaml").write_text(f"project: upgrades\nzone: UTC\n{database}", encoding="utf-8")
    (folder / ".env").write_text(f"DATABASE_URL={url}\n", encoding="utf-8")
    (folder / "people.yaml").write_text(
        "people: { olga: { name: Olga Ops, mail: olga@acme.test } }\nteams: { ops: { members: [olga] } }\n",
        encoding="utf-8",
    )
    (folder / "connections.yaml").write_text(
        f'shop: {{ connector: shop, origin: "{origin}", allow_private: true }}\n', encoding="utf-8"
    )


async def gone_on(number: str, server: str) -> tuple[int, list[str]]:
    """(runs that came to an end or a rest, what is wrong) once an engine of now has driven them and people have answered."""
    with tempfile.TemporaryDirectory() as place, place_for(server) as url:
        folder = Path(place)
        kept = kept_in(file := put(number, folder))
        if url:
            put_there(number, file, url)
        async with AsyncExitStack() as stack:
            service, is_there = await _service_at(stack, file)
            project_out_of(folder, service.origin, url)
            amends, lock = Amends.open(folder), EngineLock(folder)
            assert lock.acquire()
            connection = sqlite3.connect(file)
            clock = Then(connection.execute("SELECT max(updated_at) FROM runs").fetchone()[0] + MINUTE)
            connection.close()
            driver = OwnDriver(amends.project, clock, lock)
            wrong = []
            async with driver.running(settles=False):
                for run, (flow, status, _) in kept.runs.items():
                    order, wanted = ORDERS.get((flow, status), ("", status))
                    if flow in ("slow", "unslow") and not is_there:
                        continue  # their requests were made for a port that somebody else has now
                    if order:
                        await driver.act(run, Order(action=order, by="person:olga", reason="It is right."))
                    if not await _came_to(driver.store, run, wanted):
                        wrong.append(
                            f"{number}: {flow}, {status}, came to {driver.store.run(run).status}, not to {wanted}"
                        )
                found = Installation.read(driver.store, now=clock.now())
                effects: dict[str, int] = {}
                for effect in service.world.effects:
                    effects[effect.key] = effects.get(effect.key, 0) + 1
                wrong += [f"{number}: {said}" for said in told(broken(found, Truth(effects=effects)))]
            amends.close()
        return len(kept.runs), wrong


async def _service_at(stack: AsyncExitStack, file: Path) -> tuple[HttpService, bool]:
    """The service where it was then, because no request goes elsewhere; or, where that port is taken, at another one."""
    connection = sqlite3.connect(file)
    asked = connection.execute("SELECT data FROM log WHERE data LIKE '%http://127.0.0.1:%' LIMIT 1").fetchone()[0]
    connection.close()
    port = int(re.findall(r"http://127\.0\.0\.1:(\d+)", asked)[0])
    with suppress(OSError):
        return await stack.enter_async_context(HttpService(port=port)), True
    return await stack.enter_async_context(HttpService()), False


async def _came_to(store: SqlStore, run: str, wanted: str) -> bool:
    until = time.monotonic() + PATIENCE * 2
    while store.run(run).status != wanted:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.02)
    return True


# --- a newer one, and logs that were written once ------------------------------------------------------------------------


def refused(number: str, server: str) -> str:
    """What is said where a newer Amends wrote the database."""
    with tempfile.TemporaryDirectory() as place, place_for(server) as url:
        folder = Path(place)
        file = put(number, folder)
        if url:
            put_there(number, file, url)
        opened(folder, url).close()
        engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:") if url else f"sqlite:///{file}")
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0999'")
        engine.dispose()
        try:
            opened(folder, url).close()
        except StoreError as error:
            return str(error).replace(str(file), "amends.db")
        return "it was opened"


def log_faults(folder: Path = LOGS) -> list[str]:
    """The recorded logs that are not what they were when they were recorded, or are listed nowhere."""
    listed = dict(line.split() for line in (LOGS / "digests.txt").read_text(encoding="utf-8").splitlines())
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.json")
    }
    return [
        f"{name} is not what it was" for name in sorted(listed.keys() | found) if listed.get(name) != found.get(name)
    ]


# --- the suite -----------------------------------------------------------------------------------------------------------


def see_mistakes() -> dict[str, str]:
    """Upgrades that are wrong, and what saw it."""
    caught = {"an upgrade in pieces": next(iter(all_kills(NUMBERS[0], "", in_pieces=True)[1]), "")}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kept = kept_in(file := put(NUMBERS[0], folder))
        connection = sqlite3.connect(file)
        run = connection.execute("SELECT run_id FROM runs WHERE status = 'succeeded'").fetchone()[0]
        connection.execute("DELETE FROM log WHERE run_id = ? AND seq = 2", (run,))
        connection.commit()
        connection.close()
        caught["an entry is lost"] = ", ".join(faults(folder, "", kept)[:1])
        put(NUMBERS[0], folder)
        gone = replace(kept, runs={one: what for one, what in kept.runs.items() if one != run})
        caught["a run is there that was not"] = ", ".join(faults(folder, "", gone)[:1])
        first = next(iter(sorted(LOGS.glob("*.json"))))
        (folder / "logs").mkdir()
        (folder / "logs" / first.name).write_text(json.dumps(json.loads(first.read_text(encoding="utf-8"))))
        caught["a log is recorded anew"] = next(
            (said for said in log_faults(folder / "logs") if first.name in said), ""
        )
    return caught


def play(figures: Figures, server: str, numbers: Sequence[str], kills: int) -> None:
    """All of it on one kind of database."""
    kind, count, driven = "PostgreSQL" if server else "SQLite", 0, 0
    for number in numbers:
        with tempfile.TemporaryDirectory() as place, place_for(server) as url:
            kept = kept_in(file := put(number, Path(place)))
            if url:
                put_there(number, file, url)
            figures.broken([f"{number}: {said}" for said in faults(Path(place), url, kept)])
            missing = STATUSES - {status for _, status, _ in kept.runs.values()}
            figures.broken([f"{number} has no run that is {status}" for status in sorted(missing)])
        happened, wrong = all_kills(number, server, kills)
        count += happened
        figures.broken(wrong)
        runs, wrong = asyncio.run(gone_on(number, server))
        driven += runs
        figures.broken(wrong)
    said = refused(numbers[0], server)
    if not re.search(
        r"was written by a newer Amends \(schema 0999; this one knows \d{4}\); install the newer Amends", said
    ):
        figures.broken([f"a newer database: {said}"])
    figures.say(f"{kind}, a newer database", said)
    figures.floor(f"{kind}, upgrades killed", count, kills * len(numbers) * 8 // 10)
    figures.floor(f"{kind}, runs gone on with", driven, 10 * len(numbers))


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust upgrades`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust upgrades", description=__doc__)
    words.add_argument("--kills", type=int, default=KILLS)
    chosen, figures = words.parse_args(argv), Figures()
    figures.say("schemas", ", ".join(NUMBERS))
    play(figures, "", NUMBERS, chosen.kills)
    with running_postgres(is_durable=True) as server:
        play(figures, server.address, NUMBERS, chosen.kills)
    figures.broken(log_faults())
    figures.say("recorded logs that are what they were", len([*LOGS.rglob("*.json")]))
    figures.planted(see_mistakes())
    return figures.code
