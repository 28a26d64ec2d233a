"""The meta row: what is true of the database as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from runner.quick import quick
from runner.store.tables import meta


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """What is true of the database as a whole. With several engines `fence`, `commit_no` and `checkpointed` are this
    one's."""

    id: int
    database_id: str
    commit_no: int
    fence: int
    site_seq: int
    site_head: str
    checkpointed: int
    restored_at: int | None
    home: str = ""


def read_site(connection: Connection) -> Site:
    """The meta row."""
    return Site(**connection.execute(select(meta)).one()._mapping)
