"""The action log's form: how an event is written, chained, read back and checked.

Each run has a chain of its own: `hash = SHA-256(previous hash, run, seq, at, type, step, external id, digest)` with
`digest = SHA-256(salt + payload)`. The first previous hash is the SHA-256 of the run id. Because only the digest is
chained, a payload can be erased with its salt and the chain still verifies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from runner.contract import Json, canonical
from runner.core.events import Event, OutcomeEvent, PersonalDataErased, payload, restore
from runner.store.facts import ChainFault, LogRow

SITE = "_site"
"""The run id of the chain that holds facts of no run."""

LOST = "output lost: "


class Entry(NamedTuple):
    """An event in the form it is stored in, not yet placed in a chain. `data` is the payload as JSON text."""

    type: str
    at: int
    step: str
    external_id: str
    guard: str | None
    digest: str
    salt: str
    data: str
    size: int
    """Bytes of the payload."""


class StoredRow(NamedTuple):
    """One row of the log as it stands in the table; `salt` and `data` are None once erased."""

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
    return sha256(run.encode()).hexdigest()


def payload_digest(salt: str, data: bytes) -> str:
    """What the chain knows of a payload."""
    return sha256(salt.encode() + data).hexdigest()


def chained(previous: str, run: str, seq: int, at: int, kind: str, step: str, external_id: str, digest: str) -> str:
    """The hash of an entry. Each part has a fixed length, is a number, or is led by its length."""
    text = (
        f"{previous}\n{digest}\n{seq}\n{at}\n{kind}\n{len(run)}:{run}\n{len(step)}:{step}\n"
        f"{len(external_id)}:{external_id}"
    )
    return sha256(text.encode()).hexdigest()


def encode(event: Event) -> Entry:
    """The event as it will be stored. An outcome is never refused: what cannot be written of its output is left out."""
    try:
        return stands_for(event, payload(event))
    except (ValueError, TypeError) as problem:
        if not isinstance(event, OutcomeEvent):
            raise
        alone = without_output(event, f"it is not JSON ({problem})")
        return stands_for(alone, payload(alone))


def stands_for(event: Event, data: Mapping[str, Json]) -> Entry:
    """The entry of an event with this payload: its own, or one that says where it is kept."""
    try:
        raw = canonical(data)
    except UnicodeEncodeError:
        # Half a character (a lone surrogate) has no UTF-8 form; escaped it survives the way there and back.
        raw = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    salt, external_id = _salt(), event.external_id
    if not external_id.isascii() or "\0" in external_id:
        # No database keeps NUL and half characters in text.
        external_id = external_id.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    digest = payload_digest(salt, raw)
    return Entry(
        type(event).__name__, event.at, event.step, external_id, event.guard, digest, salt, raw.decode(), len(raw)
    )


def apart(entry: Entry) -> bytes:
    """A payload as it is kept in a file of its own. The salt makes each file one entry's alone, so it can be erased."""
    return f'{{"payload":{entry.data},"salt":"{_salt()}"}}'.encode()


def read_apart(data: bytes) -> Mapping[str, Json]:
    """The payload in such a file."""
    found: Mapping[str, Json] = json.loads(data)["payload"]
    return found


def without_output(event: OutcomeEvent, why: str) -> OutcomeEvent:
    """The outcome alone, when its output cannot be kept."""
    words: dict[str, Any] = {"output": {}} if hasattr(event, "output") else {}
    for name in [name for name in ("note", "summary") if hasattr(event, name)][:1]:
        words[name] = LOST + why
    return replace(event, **words)


_SALTS: list[str] = []
os.register_at_fork(after_in_child=_SALTS.clear)


def _salt() -> str:
    """16 random bytes in hexadecimal, drawn from the system many at a time."""
    try:
        return _SALTS.pop()
    except IndexError:
        drawn = os.urandom(16 * 256).hex()
        _SALTS.extend(drawn[at : at + 32] for at in range(32, len(drawn), 32))
        return drawn[:32]


def decode(row: StoredRow, data: Mapping[str, Json] | None = None) -> Event | None:
    """The event of a row; None where its payload was erased or a newer version wrote it. `data` if known already."""
    if row.data is None:
        return None
    try:
        told = json.loads(row.data) if data is None else data
        return restore(row.type, at=row.at, step=row.step, external_id=row.external_id, data=told)
    except (KeyError, TypeError, ValueError):
        return None


def with_remains(rows: list[LogRow]) -> list[LogRow]:
    """The rows, each with what its erasing left of it."""
    erasings = [row.event for row in rows if isinstance(row.event, PersonalDataErased)]
    left = {int(seq): told for event in erasings for seq, told in event.left.items()}
    return [_remains(row, left) for row in rows] if left else rows


def _remains(row: LogRow, left: Mapping[int, Mapping[str, Json]]) -> LogRow:
    if not row.erased or row.seq not in left:
        return row
    event = restore(row.type, at=row.at, step=row.step, external_id=row.external_id, data=left[row.seq])
    return replace(row, event=event)


def elsewhere(row: StoredRow) -> str:
    """The artifact that holds a row's payload, or empty when the row holds it itself (or it was erased)."""
    if row.data is None or not row.data.startswith('{"artifact":"'):
        return ""
    found: Mapping[str, Json] = json.loads(row.data)
    return str(found["artifact"]) if set(found) == {"artifact", "size"} else ""


# --- checking --------------------------------------------------------------------------------------------------------


class ChainCheck:
    """Follows one run's chain row by row, in the order of `seq`; keeps the first fault and ignores what comes after."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.fault: ChainFault | None = None
        self.seq = 0
        self.hash = first_hash(run)
        self._nameless: dict[int, ChainFault] = {}

    def follow(self, row: StoredRow) -> None:
        """Takes the next row."""
        if self.fault is None:
            self.fault = self._look(row)
            self.seq, self.hash = row.seq, row.hash
        if row.type == "PersonalDataErased" and isinstance(event := decode(row), PersonalDataErased):
            for seq in event.ids:
                self._nameless.pop(seq, None)

    def end(self, seq: int, head: str) -> ChainFault | None:
        """The first fault, given where the run itself says that its log ends."""
        found = [*self._nameless.values(), *([self.fault] if self.fault is not None else [])]
        if found:
            return min(found, key=lambda fault: fault.seq)
        if self.seq < seq:
            return self._says(self.seq + 1, f"entries {self.seq + 1} to {seq} are missing at the end")
        if self.seq > seq:
            return self._says(seq + 1, f"entry {seq + 1} was inserted after the end of the log")
        if self.hash != head:
            return self._says(self.seq, f"entry {self.seq} is not the one the run ends with")
        return None

    def _look(self, row: StoredRow) -> ChainFault | None:
        seq, expected = row.seq, self.seq + 1
        if seq != expected:
            what = f"entry {expected} is missing" if seq > expected else f"entry {seq} was inserted"
            return self._says(min(seq, expected), what)
        data = None if row.data is None else row.data.encode("utf-8", "surrogatepass")
        if data is not None and payload_digest(row.salt or "", data) != row.digest:
            return self._says(seq, f"the content of entry {seq} was changed ({row.type})")
        if chained(self.hash, self.run, seq, row.at, row.type, row.step, row.external_id, row.digest) != row.hash:
            fault = self._says(seq, f"entry {seq} was changed, moved or put in place of another one ({row.type})")
            if data is not None or row.external_id:
                return fault
            # Its outside id may have been erased with its payload: then a later entry says so.
            self._nameless[seq] = fault
        event = decode(row)
        if event is not None and event.guard != row.guard:
            return self._says(seq, f"the guard of entry {seq} was changed ({row.type})")
        return None

    def _says(self, seq: int, what: str) -> ChainFault:
        return ChainFault(run=self.run, seq=seq, what=what)


def check_pack(pack: Mapping[str, Any]) -> ChainFault | None:
    """The first fault of an exported evidence pack, or None when it holds: needs nothing but the pack."""
    check = ChainCheck(pack["run"]["run_id"])
    for entry in pack["log"]:
        check.follow(StoredRow(**entry))
    return check.end(pack["run"]["seq"], pack["run"]["head"])
