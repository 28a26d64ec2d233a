"""The records of the scripted HTTP service: any collection, made by its first POST, with a ledger of true effects.

POST /things makes a record, GET /things?field=value lists, GET /things/ID reads, PATCH and PUT change, DELETE removes,
POST /things/ID/VERB does something with one (its `status` becomes the verb). A key makes a write happen once: the same
key with the same body gets the stored answer, with another body 422.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One request that arrived whole. `at` is ms since the epoch, `connection` counts connections from 1."""

    n: int
    at: int
    connection: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")

    @property
    def json(self) -> Any:
        """The body's JSON, or None where it is none."""
        try:
            return json.loads(self.body) if self.body else None
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """One change that truly happened."""

    n: int
    at: int
    method: str
    path: str
    key: str
    reference: str
    id: str
    body: Any = None


Told = tuple[int, Any]
"""A status and the JSON value of the answer."""


@dataclass(kw_only=True, slots=True)
class World:
    """Collections by path, the ledger, and the answers that are remembered for keys.

    `keeps_keys` False is a service that ignores Idempotency-Key: the same key twice is two effects.
    """

    keeps_keys: bool = True
    collections: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    _answers: dict[tuple[str, str], tuple[bytes, Told]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def put(self, path: str, record: Mapping[str, Any]) -> None:
        """Seeds one record (`/plans/pro`) without an effect."""
        collection, _, name = path.rpartition("/")
        self.collections.setdefault(collection, {})[name] = {"id": name, **record}

    def record(self, path: str) -> dict[str, Any] | None:
        """The record at a path, or None."""
        collection, _, name = path.rpartition("/")
        return self.collections.get(collection, {}).get(name)

    def by_key(self) -> Counter[str]:
        """How many effects each key (or else reference) had."""
        return Counter(effect.key or effect.reference for effect in self.effects if effect.key or effect.reference)

    def serve(self, seen: Seen) -> Told:
        """What the service does and says, faults aside."""
        if seen.method not in WRITES:
            return self._read(seen)
        remembered = (seen.path, seen.key)
        if seen.key and self.keeps_keys and remembered in self._answers:
            body, told = self._answers[remembered]
            return told if body == seen.body else (422, {"message": "this key was used with another body"})
        told = self._write(seen)
        if seen.key and self.keeps_keys and told[0] < 400:
            self._answers[remembered] = (seen.body, told)
        return told

    def _read(self, seen: Seen) -> Told:
        record = self.record(seen.path)
        if record is not None:
            return 200, record
        if seen.path not in self.collections and seen.path.count("/") > 1:
            return 404, {"message": f"there is nothing at {seen.path}"}
        wanted = seen.query.items()
        rows = self.collections.get(seen.path, {}).values()
        return 200, {"items": [row for row in rows if all(str(row.get(name)) == value for name, value in wanted)]}

    def _write(self, seen: Seen) -> Told:
        body = seen.json
        fields = body if isinstance(body, dict) else {}
        parent, _, last = seen.path.rpartition("/")
        if seen.method == "POST":
            owner = self.record(parent)
            if owner is not None:
                return self._change(seen, owner, {**fields, "status": last})
            if parent.rpartition("/")[0] in self.collections:
                return 404, {"message": f"there is nothing at {parent}"}
            return self._make(seen, fields)
        record = self.record(seen.path)
        if record is None:
            return 404, {"message": f"there is nothing at {seen.path}"}
        if seen.method == "DELETE":
            del self.collections[parent][last]
        return self._change(seen, record, fields)

    def _make(self, seen: Seen, fields: dict[str, Any]) -> Told:
        self._counts[seen.path] += 1
        name = f"{seen.path.rpartition('/')[2]}-{self._counts[seen.path]}"
        record = {"reference": seen.key, **fields, "id": name}
        self.collections.setdefault(seen.path, {})[name] = record
        self._note(seen, record)
        return 201, dict(record)

    def _change(self, seen: Seen, record: dict[str, Any], fields: Mapping[str, Any]) -> Told:
        record.update(fields, id=record["id"])
        self._note(seen, record)
        return 200, dict(record)

    def _note(self, seen: Seen, record: Mapping[str, Any]) -> None:
        effect = Effect(
            n=len(self.effects) + 1,
            at=time.time_ns() // 1_000_000,
            method=seen.method,
            path=seen.path,
            key=seen.key,
            reference=str(record.get("reference") or ""),
            id=str(record["id"]),
            body=seen.json,
        )
        self.effects.append(effect)
