"""Who is told of what, by which address: one unguessable locator for each person, approval and round.

A locator leads to a page and proves nothing. The rows of an approval are written with the fact that it is asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from runner.store.tables import notices, runs

HANDOFF = "handoff:"
"""Before a hand-off's id, so that it is no approval's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """Who is told. `about` is the approval's name as in the log, `round` its round, `at` ms since the epoch. For a
    hand-off, `about` is HANDOFF and its id.
    """

    locator: str
    run: str
    about: str
    round: int
    person: str
    at: int

    @property
    def handoff(self) -> str:
        """The hand-off's id; empty for an approval."""
        return self.about.removeprefix(HANDOFF) if self.about.startswith(HANDOFF) else ""


def notices_of(run: str, about: str, number: int, people: Iterable[str], at: int) -> list[tuple[Any, ...]]:
    """The rows of these people, each with a new locator."""
    return [(secrets.token_urlsafe(16), run, about, number, person, at) for person in dict.fromkeys(people)]


def tell(
    run: str, about: str, number: int, people: Iterable[str], at: int
) -> Callable[[Connection], Mapping[str, str]]:
    """For `SqlStore.write`: everybody's locator, made for those of these people who have none yet."""

    def write(connection: Connection) -> Mapping[str, str]:
        told = {one.person: one.locator for one in of_run(run, about, number)(connection)}
        new = notices_of(run, about, number, [person for person in people if person not in told], at)
        for row in new:
            connection.execute(insert(notices).values(row))
        return told | {row[4]: row[0] for row in new}

    return write


def find(locator: str) -> Callable[[Connection], Notice | None]:
    """For `SqlStore.ask`: what a locator leads to."""
    return lambda connection: next(iter(_rows(connection, notices.c.locator == locator)), None)


def of_run(run: str, about: str = "", number: int = 0) -> Callable[[Connection], Sequence[Notice]]:
    """For `SqlStore.ask`: everybody who was told in a run, of one approval and round where they are named."""
    named = [column == value for column, value in ((notices.c.about, about), (notices.c.round, number)) if value]
    return lambda connection: _rows(connection, notices.c.run_id == run, *named)


def open_for(person: str = "") -> Callable[[Connection], Sequence[Notice]]:
    """For `SqlStore.ask`: approvals asked for in open runs (of one person, where one is named), oldest first."""
    named = [~notices.c.about.startswith(HANDOFF), *([notices.c.person == person] if person else [])]
    return lambda connection: _rows(connection, runs.c.ended_at.is_(None), *named)


def _rows(connection: Connection, *where: Any) -> list[Notice]:
    asked = select(notices).join(runs, runs.c.run_id == notices.c.run_id).where(*where)
    found = connection.execute(asked.order_by(notices.c.at, notices.c.round, notices.c.locator))
    return [
        Notice(locator=row.locator, run=row.run_id, about=row.about, round=row.round, person=row.person, at=row.at)
        for row in found
    ]
