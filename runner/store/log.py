"""The action log's form: how an event is written, chained, read back and checked.

Each run has a chain of its own: `hash = SHA-256(previous hash, run, seq, at, type, step, external id, digest)` with
`digest = SHA-256(salt + payload)`. The first previous hash is the SHA-256 of the run id. Because only the digest is
chained, a payload can be erased with its salt and the chain still verifies.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runner.contract import Json, canonical
from runner.core.events import Event, OutcomeEvent, payload, restore
from runner.store.facts import ChainFault

SITE = "_site"
"""The run id of the chain that holds facts of no run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """An event in the form it is stored in, not yet placed in a chain. `data` is the payload as JSON text."""

    type: str
    at: int
    step: str
    external_id: str
    guard: str | None
    data: str
    digest: str
    salt: str
    size: int
    """Bytes of the payload."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRow:
    """One row of the log with its payload as it stands in the tables; `salt` and `data` are None once erased."""

    seq: int
    at: int
    type: str
    step: str
    external_id: str
    digest: str
    hash: str
    guard: str | None
    salt: str | None
    data: str | None


def first_hash(run: str) -> str:
    """What stands before the first entry of a run's chain."""
    return hashlib.sha256(run.encode()).hexdigest()


def payload_digest(salt: str, data: bytes) -> str:
    """What the chain knows of a payload."""
    return hashlib.sha256(salt.encode() + data).hexdigest()


def chained(previous: str, run: str, seq: int, *, at: int, kind: str, step: str, external_id: str, digest: str) -> str:
    """The hash of an entry. Each part has a fixed length, is a number, or is led by its length."""
    text = (
        f"{previous}\n{digest}\n{seq}\n{at}\n{kind}\n{len(run)}:{run}\n{len(step)}:{step}\n"
        f"{len(external_id)}:{external_id}"
    )
    return hashlib.sha256(text.encode()).hexdigest()


def encode(event: Event) -> Entry:
    """The event as it will be stored. An outcome is never refused: what cannot be written of its output is left out."""
    try:
        raw = _bytes(payload(event))
    except (ValueError, TypeError) as problem:
        if not isinstance(event, OutcomeEvent):
            raise
        event = without_output(event, f"it is not JSON ({problem})")
        raw = _bytes(payload(event))
    return _entry(event, raw)


def stands_for(event: Event, data: Mapping[str, Json]) -> Entry:
    """The entry of an event whose payload is kept elsewhere; `data` says where."""
    return _entry(event, canonical(data))


def apart(entry: Entry) -> bytes:
    """A payload as it is kept in a file of its own. The salt makes each file one entry's alone, so it can be erased."""
    return f'{{"payload":{entry.data},"salt":"{_SALTS.next()}"}}'.encode()


def read_apart(data: bytes) -> Mapping[str, Json]:
    """The payload in such a file."""
    found: Mapping[str, Json] = json.loads(data)["payload"]
    return found


def without_output(event: OutcomeEvent, why: str) -> OutcomeEvent:
    """The outcome alone, when its output cannot be kept. `output_lost` knows it again."""
    words: dict[str, Any] = {}
    if hasattr(event, "output"):
        words["output"] = {}
    if hasattr(event, "note"):
        words["note"] = LOST + why
    elif hasattr(event, "summary"):
        words["summary"] = LOST + why
    return replace(event, **words)


def output_lost(event: Event) -> bool:
    """Whether this outcome was recorded while its output could not be kept: a person must be asked."""
    return any(str(getattr(event, name, "")).startswith(LOST) for name in ("note", "summary"))


LOST = "output lost: "


def _bytes(value: Mapping[str, Json]) -> bytes:
    try:
        return canonical(value)
    except UnicodeEncodeError:
        # Half a character (a lone surrogate) has no UTF-8 form; escaped it survives the way there and back.
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _entry(event: Event, raw: bytes) -> Entry:
    salt = _SALTS.next()
    return Entry(
        type=type(event).__name__,
        at=event.at,
        step=event.step,
        external_id=_storable(event.external_id),
        guard=event.guard,
        data=raw.decode(),
        digest=payload_digest(salt, raw),
        salt=salt,
        size=len(raw),
    )


class _Salts(threading.local):
    """Random salts, drawn from the system many at a time: one system call each would cost more than all the rest."""

    def __init__(self) -> None:
        self._drawn = b""
        self._process = 0

    def next(self) -> str:
        """16 random bytes in hexadecimal. A forked process draws its own."""
        if not self._drawn or self._process != os.getpid():
            self._drawn, self._process = os.urandom(_SALT_BYTES * 256), os.getpid()
        salt, self._drawn = self._drawn[:_SALT_BYTES], self._drawn[_SALT_BYTES:]
        return salt.hex()


_SALT_BYTES = 16
_SALTS = _Salts()


def _storable(text: str) -> str:
    """Without what no database keeps in text: NUL and half characters."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def decode(row: StoredRow, data: Mapping[str, Json] | None = None) -> Event | None:
    """The event of a row; None where its payload was erased or a newer version wrote it. `data` if known already."""
    if row.data is None:
        return None
    try:
        return restore(
            row.type,
            at=row.at,
            step=row.step,
            external_id=row.external_id,
            data=json.loads(row.data) if data is None else data,
        )
    except (KeyError, TypeError, ValueError):
        return None


# --- checking --------------------------------------------------------------------------------------------------------


class ChainCheck:
    """Follows one run's chain row by row, in the order of `seq`; keeps the first fault and ignores what comes after."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.fault: ChainFault | None = None
        self.seq = 0
        self.hash = first_hash(run)

    def follow(self, row: StoredRow) -> None:
        """Takes the next row."""
        if self.fault is None:
            self.fault = self._look(row)
            self.seq, self.hash = row.seq, row.hash

    def end(self, seq: int, head: str) -> ChainFault | None:
        """The first fault, given where the run itself says that its log ends."""
        if self.fault is not None:
            return self.fault
        if self.seq < seq:
            return self._says(self.seq + 1, f"entries {self.seq + 1} to {seq} are missing at the end")
        if self.seq > seq:
            return self._says(seq + 1, f"entry {seq + 1} was inserted after the end of the log")
        if self.hash != head:
            return self._says(self.seq, f"entry {self.seq} is not the one the run ends with")
        return None

    def _look(self, row: StoredRow) -> ChainFault | None:
        expected = self.seq + 1
        if row.seq > expected:
            return self._says(expected, f"entry {expected} is missing")
        if row.seq < expected:
            return self._says(row.seq, f"entry {row.seq} was inserted")
        if row.data is not None and payload_digest(row.salt or "", _utf8(row.data)) != row.digest:
            return self._says(row.seq, f"the content of entry {row.seq} was changed ({row.type})")
        link = chained(
            self.hash,
            self.run,
            row.seq,
            at=row.at,
            kind=row.type,
            step=row.step,
            external_id=row.external_id,
            digest=row.digest,
        )
        if link != row.hash:
            return self._says(
                row.seq, f"entry {row.seq} was changed, moved or put in place of another one ({row.type})"
            )
        return self._look_at_guard(row)

    def _look_at_guard(self, row: StoredRow) -> ChainFault | None:
        event = decode(row)
        if event is not None and event.guard != row.guard:
            return self._says(row.seq, f"the guard of entry {row.seq} was changed ({row.type})")
        return None

    def _says(self, seq: int, what: str) -> ChainFault:
        return ChainFault(run=self.run, seq=seq, what=what)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def elsewhere(row: StoredRow) -> str:
    """The artifact that holds a row's payload, or empty when the row holds it itself (or it was erased)."""
    if row.data is None or not row.data.startswith('{"artifact":"'):
        return ""
    found: Mapping[str, Json] = json.loads(row.data)
    return str(found["artifact"]) if set(found) == {"artifact", "size"} else ""


def check_rows(run: str, rows: Iterable[StoredRow], seq: int, head: str) -> ChainFault | None:
    """The first fault of one run's log, or None when it holds."""
    check = ChainCheck(run)
    for row in rows:
        check.follow(row)
    return check.end(seq, head)


def check_pack(pack: Mapping[str, Any]) -> ChainFault | None:
    """The first fault of an exported evidence pack: needs nothing but the pack."""
    rows = (StoredRow(**entry) for entry in pack["log"])
    return check_rows(pack["run"]["run_id"], rows, pack["run"]["seq"], pack["run"]["head"])
