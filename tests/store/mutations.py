"""Ways to change a log behind our back, each naming the entry (run, seq) at which it must be found; seq 0: the run."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

from runner.contract import canonical
from runner.core.events import SlotMissed
from runner.store.log import SITE, chained, first_hash, payload_digest
from runner.store.signing import Signer, checkpoint_statement
from runner.store.sql import open_store
from tests.store.samples import TurnedClock, act, applied, begun, intended

RUNS = 5
CALLS = 6
LENGTH = 1 + 2 * CALLS

Random = random.Random
Where = tuple[str, int]
Mutation = Callable[[sqlite3.Connection, Random], Where]


def fill_whole(folder: Path) -> None:
    """A project with a few runs, closed (so that a checkpoint remembers every head)."""
    store = open_store(folder, clock=TurnedClock(), writable=True, floor=0)

    async def fill() -> None:
        for number in range(RUNS):
            events = [event for i in range(CALLS) for event in (intended(i, input={"n": i}), applied(i))]
            await begun(store, f"r{number}", *events)
            await store.checkpoint()
        await store.site(SlotMissed(at=1, name="nightly"))

    act(fill())
    assert not store.verify()
    store.close()


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


def rewrite(db: sqlite3.Connection, rng: Random, signer: Signer | None = None) -> Where:
    """A whole history made anew: a payload is changed, its run hashed anew, and every checkpoint and the site's chain
    after it too. `signer` is the installation's key where the attacker has that as well."""
    run, _ = forged(db, rng)
    head, first = first_hash(SITE), 0
    new = dict(db.execute("SELECT seq, hash FROM log WHERE run_id = ?", (run,)).fetchall())
    asked = "SELECT seq, at, type, step, external_id, digest, salt, data FROM log WHERE run_id = ? ORDER BY seq"
    for seq, at, kind, step, external_id, digest, salt, data in db.execute(asked, (SITE,)).fetchall():
        told = json.loads(data)
        if kind == "Checkpoint" and (first or run in told["data"]["heads"]):
            first = first or seq
            said = told["data"]
            if run in said["heads"]:
                said["heads"][run] = [said["heads"][run][0], new[said["heads"][run][0]]]
            if signer is not None:
                said["signature"] = signer.sign(checkpoint_statement(seq, head, said["commit"], said["heads"]))
            data = canonical(told).decode()
            digest = payload_digest(salt, data.encode())
        head = chained(head, SITE, seq, at, kind, step, external_id, digest)
        where = (head, digest, data, SITE, seq)
        db.execute("UPDATE log SET hash = ?, digest = ?, data = ? WHERE run_id = ? AND seq = ?", where)
    db.execute("UPDATE meta SET site_head = ?", (head,))
    return SITE, first


def rewritten(db: sqlite3.Connection, rng: Random) -> Where:
    """By somebody who has the database and not the key."""
    return rewrite(db, rng)


def unsigned(db: sqlite3.Connection, rng: Random) -> Where:
    """The signature of a checkpoint is another one, and what follows is hashed anew."""
    asked = "SELECT seq, salt, data FROM log WHERE run_id = ? AND type = 'Checkpoint'"
    seq, salt, data = rng.choice(db.execute(asked, (SITE,)).fetchall())
    told = json.loads(data)
    told["data"]["signature"] = rng.choice(("0" * 128, letters(rng) * 2))
    data = canonical(told).decode()
    where = (data, payload_digest(salt, data.encode()), SITE, seq)
    db.execute("UPDATE log SET data = ?, digest = ? WHERE run_id = ? AND seq = ?", where)
    head = first_hash(SITE)
    asked = "SELECT seq, at, type, step, external_id, digest FROM log WHERE run_id = ? ORDER BY seq"
    for at_seq, at, kind, step, external_id, digest in db.execute(asked, (SITE,)).fetchall():
        head = chained(head, SITE, at_seq, at, kind, step, external_id, digest)
        db.execute("UPDATE log SET hash = ? WHERE run_id = ? AND seq = ?", (head, SITE, at_seq))
    db.execute("UPDATE meta SET site_head = ?", (head,))
    return SITE, seq


MUTATED += [rewritten, unsigned]
