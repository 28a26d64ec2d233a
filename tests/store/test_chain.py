"""The hash chain finds whatever was done to a log behind our back, and names the entry."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.core.events import Checkpoint, PersonalDataErased, RunPaused, SlotMissed
from runner.store.log import StoredRow, chained, check_pack, first_hash, payload_digest
from runner.store.sql import SqlStore, open_store
from tests.store.samples import TurnedClock, act, append, applied, begun, intended, new_run

RUNS = 5
CALLS = 6
LENGTH = 1 + 2 * CALLS
MUTATIONS = 260

Random = random.Random
Where = tuple[str, int]
Mutation = Callable[[sqlite3.Connection, Random], Where]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a few runs, closed (so that a checkpoint remembers every head)."""
    folder = tmp_path_factory.mktemp("whole")
    store = open_store(folder, clock=TurnedClock(), writable=True, floor=0)

    async def fill() -> None:
        for number in range(RUNS):
            events = [event for i in range(CALLS) for event in (intended(i, input={"n": i}), applied(i))]
            await begun(store, f"r{number}", *events)
        await store.site(SlotMissed(at=1, name="nightly"))

    act(fill())
    assert not store.verify()
    store.close()
    return folder


def place(rng: Random, first: int = 1, last: int = LENGTH) -> Where:
    return f"r{rng.randrange(RUNS)}", rng.randint(first, last)


def column(name: str, value: Callable[[Random], object]) -> Mutation:
    def change(db: sqlite3.Connection, rng: Random) -> Where:
        where = place(rng)
        hit = db.execute(f"UPDATE log SET {name} = ? WHERE run_id = ? AND seq = ?", (value(rng), *where))
        assert hit.rowcount == 1
        return where

    change.__name__ = f"{name} of log"
    return change


def guard(db: sqlite3.Connection, rng: Random) -> Where:
    where = place(rng, 2)
    db.execute("UPDATE log SET guard = NULL WHERE run_id = ? AND seq = ?", where)
    return where


def removed(db: sqlite3.Connection, rng: Random) -> Where:
    where = place(rng, 1, LENGTH - 1)
    db.execute("DELETE FROM log WHERE run_id = ? AND seq = ?", where)
    return where


def removed_at_the_end(db: sqlite3.Connection, rng: Random) -> Where:
    where = place(rng, 2)
    db.execute("DELETE FROM log WHERE run_id = ? AND seq >= ?", where)
    return where


def removed_and_hidden(db: sqlite3.Connection, rng: Random) -> Where:
    """The end of a log goes, and the run's row says that it always ended there: a checkpoint knows better."""
    run, seq = removed_at_the_end(db, rng)
    [head] = db.execute("SELECT hash FROM log WHERE run_id = ? AND seq = ?", (run, seq - 1)).fetchone()
    db.execute("UPDATE runs SET seq = ?, head = ? WHERE run_id = ?", (seq - 1, head, run))
    return run, LENGTH


def run_removed(db: sqlite3.Connection, rng: Random) -> Where:
    run, _ = place(rng)
    for table in ("log", "runs"):
        db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run,))
    return run, LENGTH


def log_of_no_run(db: sqlite3.Connection, rng: Random) -> Where:
    run, _ = place(rng)
    db.execute("DELETE FROM runs WHERE run_id = ?", (run,))
    return run, 0


def exchanged(db: sqlite3.Connection, rng: Random) -> Where:
    run, seq = place(rng, 2, LENGTH - 1)
    other = rng.randint(seq + 1, LENGTH)
    for old, new in ((seq, 10_000), (other, seq), (10_000, other)):
        db.execute("UPDATE log SET seq = ? WHERE run_id = ? AND seq = ?", (new, run, old))
    return run, seq


def payloads_exchanged(db: sqlite3.Connection, rng: Random) -> Where:
    run, seq = place(rng, 1, LENGTH - 1)
    other = rng.randint(seq + 1, LENGTH)
    asked = "SELECT salt, data FROM log WHERE run_id = ? AND seq = ?"
    told = {at: db.execute(asked, (run, at)).fetchone() for at in (seq, other)}
    for at, payload in ((seq, told[other]), (other, told[seq])):
        db.execute("UPDATE log SET salt = ?, data = ? WHERE run_id = ? AND seq = ?", (*payload, run, at))
    return run, seq


def inserted(db: sqlite3.Connection, rng: Random) -> Where:
    """A forged entry at the end, with a hash that fits: the run's own row does not know it."""
    run, _ = place(rng)
    [previous] = db.execute("SELECT hash FROM log WHERE run_id = ? AND seq = ?", (run, LENGTH)).fetchone()
    data, salt, seq = '{"by":"ada"}', "0" * 32, LENGTH + 1
    digest = payload_digest(salt, data.encode())
    link = chained(previous, run, seq, at=9, kind="RunPaused", step="", external_id="", digest=digest)
    values = (run, seq, digest, link, salt, data)
    db.execute("INSERT INTO log VALUES (?, ?, 9, 'RunPaused', '', '', ?, ?, NULL, ?, ?)", values)
    return run, seq


def inserted_between(db: sqlite3.Connection, rng: Random) -> Where:
    run, seq = place(rng, 2, LENGTH)
    for old in range(LENGTH, seq - 1, -1):
        db.execute("UPDATE log SET seq = ? WHERE run_id = ? AND seq = ?", (old + 1, run, old))
    digest = payload_digest("0" * 32, b"{}")
    db.execute(
        "INSERT INTO log VALUES (?, ?, 9, 'RunPaused', '', '', ?, ?, NULL, NULL, NULL)", (run, seq, digest, "f" * 64)
    )
    return run, seq


def forged(db: sqlite3.Connection, rng: Random) -> Where:
    """One payload is changed and everything after it hashed anew, the run's row too: a checkpoint knows better."""
    run, seq = f"r{rng.randrange(RUNS)}", rng.randrange(3, LENGTH + 1, 2)
    where = (run, seq)
    data, salt = db.execute("SELECT data, salt FROM log WHERE run_id = ? AND seq = ?", where).fetchone()
    data = data.replace('"id":"c-', '"id":"d-')
    db.execute("UPDATE log SET data = ? WHERE run_id = ? AND seq = ?", (data, *where))
    digest = payload_digest(salt, data.encode())
    db.execute("UPDATE log SET digest = ? WHERE run_id = ? AND seq = ?", (digest, *where))
    head = first_hash(run)
    rows = db.execute("SELECT seq, at, type, step, external_id, digest FROM log WHERE run_id = ? ORDER BY seq", (run,))
    for at_seq, at, type_name, step, external_id, its_digest in rows.fetchall():
        head = chained(head, run, at_seq, at=at, kind=type_name, step=step, external_id=external_id, digest=its_digest)
        db.execute("UPDATE log SET hash = ? WHERE run_id = ? AND seq = ?", (head, run, at_seq))
    db.execute("UPDATE runs SET head = ? WHERE run_id = ?", (head, run))
    return run, LENGTH


def moved_to_another_run(db: sqlite3.Connection, rng: Random) -> Where:
    run, seq = place(rng)
    other = f"r{(int(run[1:]) + 1) % RUNS}"
    db.execute("DROP INDEX ix_log_guard")
    db.execute("UPDATE log SET seq = 10000 WHERE run_id = ? AND seq = ?", (other, seq))
    db.execute("UPDATE log SET run_id = ? WHERE run_id = ? AND seq = ?", (other, run, seq))
    db.execute("UPDATE log SET run_id = ?, seq = ? WHERE run_id = ? AND seq = 10000", (run, seq, other))
    return min(run, other), seq


def head_of_the_run(db: sqlite3.Connection, rng: Random) -> Where:
    run, _ = place(rng)
    db.execute("UPDATE runs SET head = ? WHERE run_id = ?", ("e" * 64, run))
    return run, LENGTH


def site_entry(db: sqlite3.Connection, rng: Random) -> Where:
    db.execute("UPDATE log SET at = at + ? WHERE run_id = '_site' AND seq = 1", (rng.randint(1, 99),))
    return "_site", 1


def letters(rng: Random) -> str:
    return "".join(rng.choice("abcdef0123456789") for _ in range(64))


MUTATED: list[Mutation] = [
    column("at", lambda rng: rng.randint(4_000, 9_000)),
    column("type", lambda rng: rng.choice(("RunPaused", "RunStopped", ""))),
    column("step", lambda rng: rng.choice(("other", "contact/1", "contact "))),
    column("external_id", lambda rng: rng.choice(("c-77", " ", "C-1"))),
    column("digest", letters),
    column("hash", letters),
    column("data", lambda rng: json.dumps({"by": letters(rng)})),
    column("data", lambda rng: "not json"),
    column("salt", letters),
    guard,
    removed,
    removed_at_the_end,
    removed_and_hidden,
    run_removed,
    log_of_no_run,
    exchanged,
    payloads_exchanged,
    inserted,
    inserted_between,
    forged,
    moved_to_another_run,
    head_of_the_run,
    site_entry,
]


def test_every_mutation_is_found_and_named(whole: Path, tmp_path: Path) -> None:
    missed: list[str] = []
    for number in range(MUTATIONS):
        mutate = MUTATED[number % len(MUTATED)]
        folder = tmp_path / str(number)
        (folder / ".amends").mkdir(parents=True)
        path = folder / ".amends" / "amends.db"
        shutil.copy(whole / ".amends" / "amends.db", path)
        db = sqlite3.connect(path, isolation_level=None)
        run, seq = mutate(db, Random(number))
        db.close()
        store = open_store(folder, clock=TurnedClock(), writable=False)
        found = [(fault.run, fault.seq) for fault in store.verify()]
        store.close()
        if (run, seq) not in found:
            missed.append(f"{mutate.__name__} at {run} {seq}: {found}")
        shutil.rmtree(folder)
    assert not missed, "\n".join(missed)


def test_nothing_is_found_where_nothing_was_done(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    store = open_store(tmp_path / "copy", clock=TurnedClock(), writable=False)
    assert store.verify() == []
    assert store.verify("r1") == []
    assert store.verify("_site") == []
    store.close()


def test_one_run_is_checked_alone(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    db = sqlite3.connect(tmp_path / "copy" / ".amends" / "amends.db", isolation_level=None)
    db.execute("UPDATE log SET step = 'x' WHERE run_id = 'r1' AND seq = 4")
    db.close()
    store = open_store(tmp_path / "copy", clock=TurnedClock(), writable=False)
    [fault] = store.verify("r1")
    assert (fault.run, fault.seq) == ("r1", 4)
    assert fault.what.startswith("entry 4 was changed")
    assert store.verify("r2") == []
    store.close()


def test_no_two_entries_share_a_hash_however_their_parts_are_cut() -> None:
    parts = [
        ("ab", "c", ""),
        ("a", "bc", ""),
        ("a", "b", "c"),
        ("", "abc", ""),
        ("a\n1:b", "c", ""),
        ("a", "b\n1:c", ""),
    ]
    seen = {chained("0" * 64, run, 1, at=1, kind="T", step=step, external_id=id, digest="") for run, step, id in parts}
    assert len(seen) == len(parts)


async def test_an_evidence_pack_can_be_checked_without_us(store: SqlStore) -> None:
    await store.keep_bundle("b" * 64, {"flow:signup": "id: signup"})
    await begun(store, "r1", intended(input={"text": "x" * 70_000}), applied())
    await store.erase("r1", PersonalDataErased(at=9, by="ada", seqs=(1,)))
    pack = json.loads(json.dumps(store.export("r1")))
    assert check_pack(pack) is None
    assert pack["bundle"] == {"flow:signup": "id: signup"}
    assert [entry["data"] is None for entry in pack["log"]] == [True, False, False, False]
    [content] = pack["artifacts"].values()
    assert "x" * 70_000 in content
    pack["log"][2]["data"] = pack["log"][2]["data"].replace("c-1", "c-2")
    fault = check_pack(pack)
    assert fault is not None
    assert (fault.seq, fault.what) == (3, "the content of entry 3 was changed (CallApplied)")


def test_an_evidence_pack_is_plain_rows(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    store = open_store(tmp_path / "copy", clock=TurnedClock(), writable=False)
    pack = store.export("r1")
    store.close()
    assert [StoredRow(**entry)._asdict() for entry in pack["log"]] == pack["log"]
    assert pack["first_hash"] == first_hash("r1")


async def test_checkpoints_come_with_the_commits_and_with_time(store: SqlStore, clock: TurnedClock) -> None:
    await store.start(new_run("r1"))
    assert not [row for row in store.log("_site") if row.type == "Checkpoint"]
    clock.turn(600_000)
    await store.report("r1", RunPaused(at=1, by="ada"))
    [checkpoint] = [row.event for row in store.log("_site")]
    assert isinstance(checkpoint, Checkpoint)
    assert checkpoint.data["heads"] == {"r1": [1, store.log("r1")[0].hash]}
    for _ in range(1_000):
        await store.report("r1", RunPaused(at=1, by="ada"))
    assert len(store.log("_site")) == 1
    await store.report("r1", RunPaused(at=1, by="ada"))
    assert len(store.log("_site")) == 2
    assert not store.verify()


async def test_what_no_checkpoint_has_yet_is_in_the_next_one_after_a_crash(tmp_path: Path) -> None:
    clock = TurnedClock()
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    await begun(store, "r1", intended())
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".amends").mkdir()
    store.backup(copy / ".amends" / "amends.db")
    store.close()
    again = open_store(copy, clock=clock, writable=True, floor=0)
    await begun(again, "r2")
    again.close()
    reader = open_store(copy, clock=clock, writable=False)
    checkpoints = [row.event for row in reader.log("_site") if isinstance(row.event, Checkpoint)]
    assert sorted(checkpoints[-1].data["heads"]) == ["r1", "r2"]
    assert reader.verify() == []
    reader.close()


async def test_an_append_after_an_outcome_report(store: SqlStore) -> None:
    end = await begun(store, "r1", intended())
    end = await store.report("r1", applied())
    await store.append(append(store, "r1", end, intended(2)))
    assert not store.verify()
