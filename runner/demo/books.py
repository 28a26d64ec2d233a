"""The back office's books: contacts, tasks and payments in one SQLite file, with a ledger of every true change.

Each write is one transaction that holds the change itself, its line in the ledger and the answer that is remembered
for its key. Everything runs on the caller's thread, one call after the other, so two requests never mix.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

Record = dict[str, Any]

PLANS: Mapping[str, Record] = {
    "basic": {"code": "basic", "label": "Basic", "price": 4000},
    "pro": {"code": "pro", "label": "Pro", "price": 12000},
}

TABLES = """
CREATE TABLE IF NOT EXISTS contacts (
    n INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, note TEXT NOT NULL, status TEXT NOT NULL,
    reference TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS contacts_email ON contacts (email);
CREATE TABLE IF NOT EXISTS tasks (
    n INTEGER PRIMARY KEY, title TEXT NOT NULL, due TEXT NOT NULL, status TEXT NOT NULL, comment TEXT NOT NULL,
    reference TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS tasks_reference ON tasks (reference);
CREATE TABLE IF NOT EXISTS payments (
    n INTEGER PRIMARY KEY, customer TEXT NOT NULL, amount TEXT NOT NULL, refunded TEXT NOT NULL, status TEXT NOT NULL,
    reference TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS payments_reference ON payments (reference);
CREATE TABLE IF NOT EXISTS effects (
    n INTEGER PRIMARY KEY, what TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, reference TEXT NOT NULL,
    at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    key TEXT NOT NULL, path TEXT NOT NULL, body TEXT NOT NULL, status INTEGER NOT NULL, answer TEXT NOT NULL,
    PRIMARY KEY (key, path));
"""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "contacts": ("name", "email", "note", "status", "reference"),
    "tasks": ("title", "due", "status", "comment", "reference"),
    "payments": ("customer", "amount", "refunded", "status", "reference"),
}
PREFIXES: Mapping[str, str] = {"contacts": "C", "tasks": "T", "payments": "P"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An HTTP status and the JSON that goes with it."""

    status: int
    body: Record


class Refused(Exception):
    """The request cannot be done; nothing was changed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.answer = Answer(status=status, body={"message": message})


class Books:
    """The back office's records. Every method answers or raises `Refused`."""

    def __init__(self, file: Path | str) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(TABLES)

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def change(self, path: str, key: str, body: Record, do: Callable[[Record, str], Answer]) -> Answer:
        """Carries out `do(body, key)` in one transaction, once for each key.

        The same key with the same body gives the remembered answer; with another body it is refused (422).
        """
        said = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            known = self._remembered(path, key, said) if key else None
            answer = known or do(body, key)
            if key and known is None:
                row = (key, path, said, answer.status, json.dumps(answer.body))
                self._db.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", row)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        return answer

    def _remembered(self, path: str, key: str, said: str) -> Answer | None:
        row = self._db.execute("SELECT * FROM answers WHERE key = ? AND path = ?", (key, path)).fetchone()
        if row is None:
            return None
        if row["body"] != said:
            raise Refused(422, "This key was used before with another body.")
        return Answer(status=row["status"], body=json.loads(row["answer"]))

    # --- contacts ------------------------------------------------------------------------------------------------

    def add_contact(self, body: Record, key: str) -> Answer:
        email = _text(body, "email")
        if "@" not in email:
            raise Refused(422, f'"{email}" is no mail address.')
        fields = {
            "name": _text(body, "name"),
            "email": email,
            "note": _text(body, "note", ""),
            "status": _text(body, "status", "new"),
            "reference": _text(body, "reference", key),
        }
        return Answer(status=201, body=self._add("contacts", fields, "contact.created", key))

    def patch_contact(self, id: str, body: Record, key: str) -> Answer:
        before = self.find_one("contacts", id)
        allowed = {"name", "email", "note", "status"}
        unknown = sorted(set(body) - allowed)
        if unknown:
            raise Refused(422, f'A contact has no field "{unknown[0]}".')
        fields = {name: _text(body, name) for name in body}
        if all(before[name] == value for name, value in fields.items()):
            return Answer(status=200, body=before)
        return Answer(status=200, body=self._set("contacts", id, fields, "contact.changed", key))

    # --- tasks ---------------------------------------------------------------------------------------------------

    def add_task(self, body: Record, key: str) -> Answer:
        fields = {
            "title": _text(body, "title"),
            "due": _text(body, "due", ""),
            "status": "open",
            "comment": "",
            "reference": _text(body, "reference", key),
        }
        return Answer(status=201, body=self._add("tasks", fields, "task.created", key))

    def close_task(self, id: str, body: Record, key: str) -> Answer:
        before = self.find_one("tasks", id)
        if before["status"] == "closed":
            return Answer(status=200, body=before)
        fields = {"status": "closed", "comment": _text(body, "comment", "")}
        return Answer(status=200, body=self._set("tasks", id, fields, "task.closed", key))

    # --- billing -------------------------------------------------------------------------------------------------

    def add_payment(self, body: Record, key: str) -> Answer:
        customer = _text(body, "customer")
        self.find_one("contacts", customer)
        amount = _amount(body, "amount")
        fields = {
            "customer": customer,
            "amount": str(amount),
            "refunded": "0",
            "status": "paid",
            "reference": _text(body, "reference", key),
        }
        return Answer(status=201, body=self._add("payments", fields, "payment.taken", key))

    def refund_payment(self, id: str, body: Record, key: str) -> Answer:
        before = self.find_one("payments", id)
        left = Decimal(before["amount"]) - Decimal(before["refunded"])
        wanted = _amount(body, "amount") if "amount" in body else left
        if wanted > left or wanted <= 0:
            raise Refused(409, f"Of this payment {left} can be given back, not {wanted}.")
        refunded = Decimal(before["refunded"]) + wanted
        status = "refunded" if refunded == Decimal(before["amount"]) else "paid"
        fields = {"refunded": str(refunded), "status": status}
        return Answer(status=200, body=self._set("payments", id, fields, "payment.refunded", key))

    # --- asking --------------------------------------------------------------------------------------------------

    def plan(self, code: str) -> Record:
        if code not in PLANS:
            raise Refused(404, f'There is no plan "{code}".')
        return dict(PLANS[code])

    def find_one(self, table: str, id: str) -> Record:
        """The record with this id, or `Refused` with 404."""
        prefix, _, number = id.partition("-")
        row = None
        if prefix == PREFIXES[table] and number.isdecimal():
            row = self._db.execute(f"SELECT * FROM {table} WHERE n = ?", (int(number),)).fetchone()  # noqa: S608
        if row is None:
            raise Refused(404, f'There is no {table[:-1]} "{id}".')
        return _shown(table, row)

    def find_many(self, table: str, query: Mapping[str, str]) -> list[Record]:
        """All records whose fields have these values, oldest first."""
        for name in query:
            if name not in FIELDS[table]:
                raise Refused(422, f'A {table[:-1]} has no field "{name}".')
        where = " AND ".join(f"{name} = ?" for name in query) or "1"
        rows = self._db.execute(f"SELECT * FROM {table} WHERE {where} ORDER BY n", tuple(query.values()))  # noqa: S608
        return [_shown(table, row) for row in rows]

    def effects(self) -> list[Record]:
        """Every change ever made, in order."""
        return [dict(row) for row in self._db.execute("SELECT * FROM effects ORDER BY n")]

    # --- writing -------------------------------------------------------------------------------------------------

    def _add(self, table: str, fields: Record, what: str, key: str) -> Record:
        names, marks = ", ".join(fields), ", ".join("?" * len(fields))
        cursor = self._db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(fields.values()))  # noqa: S608
        made = f"{PREFIXES[table]}-{cursor.lastrowid}"
        self._note(what, made, key, fields["reference"])
        return self.find_one(table, made)

    def _set(self, table: str, id: str, fields: Record, what: str, key: str) -> Record:
        marks = ", ".join(f"{name} = ?" for name in fields)
        number = int(id.partition("-")[2])
        self._db.execute(f"UPDATE {table} SET {marks} WHERE n = ?", (*fields.values(), number))  # noqa: S608
        after = self.find_one(table, id)
        self._note(what, id, key, after["reference"])
        return after

    def _note(self, what: str, id: str, key: str, reference: str) -> None:
        row = (what, id, key, reference, time.time_ns() // 1_000_000)
        self._db.execute("INSERT INTO effects (what, id, key, reference, at) VALUES (?, ?, ?, ?, ?)", row)


def _shown(table: str, row: sqlite3.Row) -> Record:
    record: Record = {"id": f"{PREFIXES[table]}-{row['n']}"} | {name: row[name] for name in FIELDS[table]}
    for name in ("amount", "refunded"):
        if name in record:
            record[name] = str(record[name])
    return record


def _text(body: Record, name: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str) or (value == "" and default is None):
        raise Refused(422, f'The field "{name}" is missing or is no text.')
    return value


def _amount(body: Record, name: str) -> Decimal:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Refused(422, f'The field "{name}" is missing or is no number.')
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        raise Refused(422, f'"{value}" is no number.') from None
    if not amount.is_finite() or amount <= 0:
        raise Refused(422, f'"{value}" is no amount.')
    return amount
