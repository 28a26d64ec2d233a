"""Actions on our own tables: `records` and `quarantine`.

They are carried out inside the transaction that records their outcome, so an outcome is never unknown and the action
happens exactly once. Actions register themselves by name in `CARRIED_OUT`. Input and output are as the connectors of
the same names declare them; a record's own fields stand beside `collection` and `id`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from runner.contract import Json, Outcome, Reason, canonical
from runner.store.batch import Batch, set_aside
from runner.store.facts import OwnOperation
from runner.store.tables import quarantine, records

CarryOut = Callable[[Batch, OwnOperation], Outcome]
CARRIED_OUT: dict[str, CarryOut] = {}
"""`records.create` and so on -> what does it."""

_OURS = frozenset({"collection", "id"})
_MOST_ROWS = 1_000


def carry_out(batch: Batch, operation: OwnOperation) -> Outcome:
    """Does it in the batch's transaction. What cannot be done is refused with a reason; then nothing was changed."""
    act = CARRIED_OUT.get(operation.action)
    if act is None:
        return _refused("invalid", f"there is no action {operation.action} on our own tables")
    for name in _needed(operation.action):
        if not isinstance(operation.input.get(name), str) or not operation.input[name]:
            return _refused("invalid", f"{operation.action} needs {name}, a text that is not empty")
    return act(batch, operation)


def _needed(action: str) -> tuple[str, ...]:
    if action.startswith("quarantine."):
        return ("record",)
    return ("collection",) if action in ("records.create", "records.find") else ("collection", "id")


def _action(name: str) -> Callable[[CarryOut], CarryOut]:
    def keep(act: CarryOut) -> CarryOut:
        CARRIED_OUT[name] = act
        return act

    return keep


def _refused(reason: Reason, summary: str) -> Outcome:
    return Outcome(result="refused", reason=reason, summary=summary)


def _fields(given: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in given.items() if name not in _OURS}


def _text(value: Json) -> str:
    return canonical(value).decode()


def _row(connection: Connection, given: Mapping[str, Json]) -> Any:
    return connection.execute(
        select(records).where(records.c.collection == given["collection"], records.c.id == given["id"])
    ).first()


def now(connection: Connection, given: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """The record of ours with this `collection` and `id`; None where there is none."""
    row = _row(connection, given)
    return None if row is None else _shown(row)


def _shown(row: Any) -> dict[str, Json]:
    return {**json.loads(row.data), "collection": row.collection, "id": row.id}


@_action("records.create")
def _create(batch: Batch, operation: OwnOperation) -> Outcome:
    given = operation.input
    chosen = given.get("id")
    if chosen is not None and (not isinstance(chosen, str) or not chosen):
        return _refused("invalid", "the id of a record is a text that is not empty")
    name = chosen or hashlib.sha256(f"record:{operation.key}".encode()).hexdigest()[:24]
    there = _row(batch.connection, {"collection": given["collection"], "id": name})
    if there is not None:
        if there.created_key != operation.key:
            return _refused("conflict", f"{given['collection']} has a record {name} already")
        return Outcome(result="applied", output=_shown(there), external_id=name)
    row = (given["collection"], name, _text(_fields(given)), operation.key, operation.run, batch.now, batch.now)
    batch.connection.execute(insert(records).values(row))
    output = {**_fields(given), "collection": given["collection"], "id": name}
    return Outcome(result="applied", output=output, external_id=name)


@_action("records.update")
def _update(batch: Batch, operation: OwnOperation) -> Outcome:
    given = operation.input
    there = _row(batch.connection, given)
    if there is None:
        return _not_there(given)
    fields = {**json.loads(there.data), **_fields(given)}
    batch.connection.execute(
        update(records)
        .where(records.c.collection == there.collection, records.c.id == there.id)
        .values(data=_text(fields), updated_at=batch.now)
    )
    output = {**fields, "collection": there.collection, "id": there.id}
    return Outcome(result="applied", output=output, external_id=there.id)


@_action("records.delete")
def _delete(batch: Batch, operation: OwnOperation) -> Outcome:
    given = operation.input
    gone = batch.connection.execute(
        delete(records).where(records.c.collection == given["collection"], records.c.id == given["id"])
    )
    if gone.rowcount != 1:
        return _not_there(given)
    output = {"collection": given["collection"], "id": given["id"]}
    return Outcome(result="applied", output=output, external_id=given["id"])


@_action("records.get")
def _get(batch: Batch, operation: OwnOperation) -> Outcome:
    there = _row(batch.connection, operation.input)
    if there is None:
        return Outcome(result="applied", output={"found": False}, count=0)
    return Outcome(result="applied", output={**_shown(there), "found": True}, external_id=there.id, count=1)


@_action("records.find")
def _find(batch: Batch, operation: OwnOperation) -> Outcome:
    given = operation.input
    where = given.get("where") or {}
    if not isinstance(where, Mapping):
        return _refused("invalid", "`where` names fields and the values they must have")
    rows: list[Json] = []
    asked = (
        select(records).where(records.c.collection == given["collection"]).order_by(records.c.created_at, records.c.id)
    )
    for row in batch.connection.execute(asked):
        shown = _shown(row)
        if all(name in shown and shown[name] == value for name, value in where.items()):
            rows.append(shown)
            if len(rows) > _MOST_ROWS:
                return _refused(
                    "invalid", f"more than {_MOST_ROWS:,} records of {given['collection']} fit; ask narrower"
                )
    return Outcome(
        result="applied",
        output={"found": bool(rows), "rows": rows, "count": len(rows)},
        external_id=str(rows[0]["id"]) if len(rows) == 1 else "",
        count=len(rows),
    )


def _not_there(given: Mapping[str, Json]) -> Outcome:
    return _refused("not_found", f"{given['collection']} has no record {given['id']}")


@_action("quarantine.add")
def _add(batch: Batch, operation: OwnOperation) -> Outcome:
    given = operation.input
    reason, content = str(given.get("reason") or ""), _text(given.get("content") or {})
    row = set_aside(operation.run, given["record"], operation.step, reason, batch.now, content)
    batch.words.quarantine.run(batch.cursor, [row])
    return Outcome(result="applied", output={"record": given["record"]}, external_id=given["record"])


@_action("quarantine.release")
def _release(batch: Batch, operation: OwnOperation) -> Outcome:
    record = operation.input["record"]
    freed = batch.connection.execute(
        update(quarantine)
        .where(quarantine.c.record == record, quarantine.c.status == "set_aside")
        .values(status="released", answered_by=f"run {operation.run}", answered_at=batch.now)
    )
    if not freed.rowcount:
        return _refused("not_found", f"{record} is not in quarantine")
    return Outcome(result="applied", output={"record": record}, external_id=record)


@_action("quarantine.get")
def _is_aside(batch: Batch, operation: OwnOperation) -> Outcome:
    record = operation.input["record"]
    asked = select(quarantine.c.reason).where(quarantine.c.record == record, quarantine.c.status == "set_aside")
    row = batch.connection.execute(asked.order_by(quarantine.c.at.desc())).first()
    found = {"found": row is not None, "why": row.reason if row is not None else None}
    return Outcome(result="applied", output=found, external_id=record if row is not None else "")
