"""Messages to people: written with the fact that causes them, sent after its commit, kept until they are out.

What is `due` is sent, or tried again, at its time; `sent`, `failed` (nobody could be reached so) and `dropped` (it no
longer matters) are over. A row of the kind `escalate` is no message but the time when silence is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from runner.store.messages import Message, Outgoing
from runner.store.tables import outbox

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


def settle(outgoing: Outgoing, others: Sequence[Message] = ()) -> Callable[[Connection], None]:
    """For `SqlStore.write`: how a message stands now, and further ones of the same run, unless they are there."""

    def write(connection: Connection) -> None:
        values = dict(zip((column.name for column in outbox.c), row_of(outgoing.run, outgoing), strict=True))
        key = [outbox.c[name] == values.pop(name) for name in _KEY]
        connection.execute(update(outbox).where(*key).values(values))
        for other in others:
            connection.execute(
                insert(outbox).prefix_with("OR IGNORE", dialect="sqlite").values(row_of(outgoing.run, other))
            )

    return write


def _outgoing(row: Row[Any]) -> Outgoing:
    values = dict(row._mapping)
    return Outgoing(run=values.pop("run_id"), **values)
