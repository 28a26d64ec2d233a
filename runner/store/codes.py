"""The table of codes: who was sent one, for which locator and which browser. Each function is one write of the store.

A code stands as a digest that its browser's secret is part of, so that the table alone gives none away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy import Connection, delete, func, insert, select, update

from runner.clock import DAY, HOUR, MINUTE
from runner.store.tables import codes

LIFE = 10 * MINUTE
TRIES = 5
PER_LOCATOR, PER_PERSON = 5, 20
"""Codes within an hour."""

Tried = Literal["fits", "wrong", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """One code. `door` is the digest of the browser's secret; times are ms since the epoch."""

    digest: str
    locator: str
    person: str
    door: str
    wrong: int = 0
    at: int
    until: int


def ask(code: Code) -> Callable[[Connection], bool]:
    """Keeps a new code, the only one of its browser for its locator. False where too many were asked for."""

    def write(connection: Connection) -> bool:
        connection.execute(delete(codes).where(codes.c.at <= code.at - DAY))
        for column, value, most in (
            (codes.c.locator, code.locator, PER_LOCATOR),
            (codes.c.person, code.person, PER_PERSON),
        ):
            asked = select(func.count()).select_from(codes).where(column == value, codes.c.at > code.at - HOUR)
            if connection.execute(asked).scalar_one() >= most:
                return False
        mine = (codes.c.locator == code.locator, codes.c.door == code.door)
        connection.execute(update(codes).where(*mine).values(until=0))
        connection.execute(insert(codes).values(**asdict(code)))
        return True

    return write


def take(locator: str, door: str, digest: str, now: int) -> Callable[[Connection], Tried]:
    """Uses a code up. `none`: this browser has none that still counts."""

    def write(connection: Connection) -> Tried:
        mine = (codes.c.locator == locator, codes.c.door == door, codes.c.until > now, codes.c.wrong < TRIES)
        row = connection.execute(select(codes).where(*mine)).first()
        if row is None:
            return "none"
        fits = row.digest == digest
        changed = {"until": 0} if fits else {"wrong": row.wrong + 1}
        connection.execute(update(codes).where(codes.c.digest == row.digest).values(**changed))
        return "fits" if fits else "wrong" if row.wrong + 1 < TRIES else "none"

    return write


def is_waiting(locator: str, door: str, now: int) -> Callable[[Connection], bool]:
    """For `SqlStore.ask`: whether this browser has a code to type."""
    mine = (codes.c.locator == locator, codes.c.door == door, codes.c.until > now, codes.c.wrong < TRIES)
    return lambda connection: connection.execute(select(codes.c.digest).where(*mine)).first() is not None
