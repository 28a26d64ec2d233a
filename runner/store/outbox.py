"""Messages to people: written with the fact that causes them, sent after its commit, kept until they are out.

What is `due` is sent, or tried again, at its time; `sent`, `failed` (nobody could be reached so) and `dropped` (it no
longer matters) are over. A row of the kind `escalate` is no message but the time when silence is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, case, func, insert, or_, select, update

from runner.store.messages import Message, Outgoing
from runner.store.tables import outbox, runs

_KEY = ("run_id", "about", "round", "person", "channel", "kind")


def row_of(run: str, it: Message) -> tuple[Any, ...]:
    """The row of a message, in the order of the table's columns."""
    key = (run, it.about, it.round, it.person, it.channel, it.kind)
    return (*key, it.at, it.due, it.status, it.tries, it.said)


def due(now: int, limit: int = 200) -> Callable[[Connection], Sequence[Outgoing]]:
    """For `SqlStore.ask`: what is to be sent by now, the oldest first."""
    asked = select(outbox).where(outbox.c.status == "due", outbox.c.due <= now).order_by(outbox.c.due).limit(limit)
    return lambda connection: [_outgoing(row) for row in connection.execute(asked)]


def next_due(connection: Connection) -> int | None:
    """For `SqlStore.ask`: when the next one is to be sent."""
    found: int | None = connection.execute(select(func.min(outbox.c.due)).where(outbox.c.status == "due")).scalar()
    return found


def of_run(run: str) -> Callable[[Connection], Sequence[Outgoing]]:
    """For `SqlStore.ask`: everything that was to be told in a run, in the order it came."""
    asked = select(outbox).where(outbox.c.run_id == run).order_by(outbox.c.at, *(outbox.c[name] for name in _KEY))
    return lambda connection: [_outgoing(row) for row in connection.execute(asked)]


def late(since: int) -> Callable[[Connection], Sequence[Outgoing]]:
    """For `SqlStore.ask`: messages of open runs that could not be delivered, or not yet although they came before
    `since`."""
    is_late = and_(outbox.c.status == "due", outbox.c.tries > 0, outbox.c.at < since)
    asked = (
        select(outbox)
        .join(runs, runs.c.run_id == outbox.c.run_id)
        .where(runs.c.ended_at.is_(None), or_(outbox.c.status == "failed", is_late))
        .order_by(outbox.c.at)
    )
    return lambda connection: [_outgoing(row) for row in connection.execute(asked)]


def told_of(person: str) -> Callable[[Connection], Mapping[tuple[str, str], str]]:
    """For `SqlStore.ask`: the hand-offs that this person was told of, (run, hand-off), and the kind of message."""
    asked = select(outbox.c.run_id, outbox.c.about, outbox.c.kind).where(
        outbox.c.person == person, outbox.c.kind.in_(("handed_off", "escalated", "told"))
    )
    # "told" comes first, so that it never takes the place of a message that asks.
    asked = asked.order_by(case((outbox.c.kind == "told", 0), else_=1))
    return lambda connection: {(run, about): kind for run, about, kind in connection.execute(asked)}


def ends_told(person: str) -> Callable[[Connection], Sequence[str]]:
    """For `SqlStore.ask`: the runs of whose end this person was told, the newest first."""
    asked = select(outbox.c.run_id).where(outbox.c.person == person, outbox.c.about == "", outbox.c.kind != "unreached")
    asked = asked.group_by(outbox.c.run_id).order_by(func.max(outbox.c.at).desc())
    return lambda connection: connection.execute(asked).scalars().all()


def settle(outgoing: Outgoing, others: Sequence[Message] = ()) -> Callable[[Connection], None]:
    """For `SqlStore.write`: how a message stands now, and further ones of the same run, unless they are there."""

    def write(connection: Connection) -> None:
        values = dict(zip((column.name for column in outbox.c), row_of(outgoing.run, outgoing), strict=True))
        key = [outbox.c[name] == values.pop(name) for name in _KEY]
        connection.execute(update(outbox).where(*key).values(values))
        add(outgoing.run, others)(connection)

    return write


def add(run: str, messages: Sequence[Message]) -> Callable[[Connection], None]:
    """For `SqlStore.write`: further messages of a run, unless they are there."""

    def write(connection: Connection) -> None:
        for one in messages:
            row = row_of(run, one)
            key = [column == value for column, value in zip(outbox.c, row, strict=True) if column.name in _KEY]
            if connection.execute(select(outbox.c.run_id).where(*key)).first() is None:
                connection.execute(insert(outbox).values(row))

    return write


def _outgoing(row: Row[Any]) -> Outgoing:
    values = dict(row._mapping)
    return Outgoing(run=values.pop("run_id"), **values)
