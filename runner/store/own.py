"""Our own tables as people look at them: what `records` actions have written, without personal data unless told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, func, select

from runner.contract import Json
from runner.errors import NotFound
from runner.store.personal import HIDDEN
from runner.store.tables import effects, records
from runner.store.views import Views


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """One of our own tables; `at` is when a record of it was last written, ms since the epoch."""

    name: str
    count: int
    at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A record of ours. `runs` have written it, the one that made it first; times in ms since the epoch."""

    collection: str
    id: str
    data: Mapping[str, Json]
    created_at: int
    updated_at: int
    runs: tuple[str, ...]


def collections(connection: Connection) -> list[Collection]:
    """For `Views.ask`: the tables that hold anything, by name."""
    name = records.c.collection
    asked = select(name, func.count(), func.max(records.c.updated_at)).group_by(name).order_by(name)
    return [Collection(name=name, count=count, at=at) for name, count, at in connection.execute(asked)]


def entries(collection: str, *, id: str = "", skip: int = 0, limit: int = 1) -> Callable[[Connection], Sequence[Entry]]:
    """For `Views.ask`: records of a table, newest first; or the one with this id."""
    asked = select(records).where(records.c.collection == collection, *((records.c.id == id,) if id else ()))
    asked = asked.order_by(records.c.created_at.desc(), records.c.id).offset(skip).limit(limit)

    def answer(connection: Connection) -> Sequence[Entry]:
        rows = connection.execute(asked).all()
        writers = {row.id: {row.created_by: None} for row in rows}
        ours = effects.c.external_id.in_(writers), effects.c.action.startswith("records.")
        for run, name in connection.execute(select(effects.c.run_id, effects.c.external_id).where(*ours)):
            writers[name][run] = None
        return [
            Entry(
                collection=collection, id=row.id, data=json.loads(row.data), created_at=row.created_at,
                updated_at=row.updated_at, runs=tuple(writers[row.id]),
            )
            for row in rows
        ]  # fmt: skip

    return answer


def veiled(views: Views, found: Sequence[Entry]) -> list[Entry]:
    """Records without what is personal in the runs that wrote them; one whose run was removed shows nothing."""
    known = {run: _veil(views, run) for run in dict.fromkeys(run for each in found for run in each.runs)}
    hidden = []
    for each in found:
        data = each.data
        for run in each.runs:
            data = known[run](data)
        hidden.append(replace(each, data=data))
    return hidden


def _veil(views: Views, run: str) -> Callable[[Json], Json]:
    try:
        personal = views.personal(run)
    except NotFound:
        return lambda data: dict.fromkeys(data, HIDDEN)
    return personal.json if personal is not None else lambda data: data
