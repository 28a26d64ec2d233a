"""A second verifier of the action log, made from its description alone: nothing of Amends is in it but the tables.

It needs sqlite3, hashlib, json and an Ed25519. What it does not look at: the guards of entries (an index, not history),
and logs of runs that were removed after their time.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def bad_entries(database: Path, key: str = "") -> set[tuple[str, int]]:
    """(run, seq) of the first entry of each chain that does not hold; seq 0: a log of a run that is not there."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        ends = {run: (seq, head) for run, seq, head in db.execute("SELECT run_id, seq, head FROM runs")}
        ends["_site"] = db.execute("SELECT site_seq, site_head FROM meta").fetchone()
        rows: dict[str, list[tuple]] = {run: [] for run in ends}  # type: ignore[type-arg]
        for row in db.execute("SELECT run_id, seq, at, type, step, external_id, digest, hash, salt, data FROM log ORDER BY run_id, seq"):  # fmt: skip
            rows.setdefault(row[0], []).append(row[1:])
    bad = {(run, 0) for run in rows if run not in ends}
    bad |= {(run, seq) for run, end in ends.items() if (seq := _first_bad(run, rows[run], end))}
    hashes = {(run, row[0]): row[6] for run, its in rows.items() for row in its}
    previous = sha256(b"_site").hexdigest()
    for seq, _, kind, _, _, _, link, _, data in rows["_site"]:
        if kind == "Checkpoint":
            said = _record(data).get("data", {})
            bad |= {(run, at) for run, (at, head) in said.get("heads", {}).items() if hashes.get((run, at)) != head}
            if not _is_signed(said, seq, previous, key):
                bad.add(("_site", seq))
        previous = link
    return bad


def _first_bad(run: str, rows: list[tuple], end: tuple[int, str]) -> int:  # type: ignore[type-arg]
    previous, last = sha256(run.encode()).hexdigest(), 0
    for seq, at, kind, step, outside, digest, link, salt, data in rows:
        if seq != last + 1:
            return int(min(seq, last + 1))
        text = (
            f"{previous}\n{digest}\n{seq}\n{at}\n{kind}\n{len(run)}:{run}\n{len(step)}:{step}\n{len(outside)}:{outside}"
        )
        is_own = data is None or sha256(f"{salt or ''}{data}".encode()).hexdigest() == digest
        if not is_own or sha256(text.encode()).hexdigest() != link:
            return int(seq)
        previous, last = link, seq
    return 0 if (last, previous) == tuple(end) else min(last, end[0]) + (last != end[0])


def _record(data: str | None) -> dict:  # type: ignore[type-arg]
    try:
        return dict(json.loads(data or "{}"))
    except ValueError:
        return {}


def _is_signed(said: dict, seq: int, previous: str, key: str) -> bool:  # type: ignore[type-arg]
    text = json.dumps({"checkpoint": seq, "previous": previous, "commit": said.get("commit"), "heads": said.get("heads")},
                      sort_keys=True, separators=(",", ":"), ensure_ascii=False)  # fmt: skip
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["key"])).verify(
            bytes.fromhex(said["signature"]), text.encode()
        )
    except (KeyError, ValueError, InvalidSignature):
        return False
    return not key or bool(said["key"] == key)
