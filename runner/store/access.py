"""The table of who may come in: each function is one write or one question, for `SqlStore.write` and `SqlStore.ask`.

Nothing in it opens anything: a password stands as its argon2 hash, everything else as the SHA-256 of what its holder
has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, bindparam, delete, insert, select, update

from runner.store.tables import access

Kind = Literal["password", "link", "session", "visit", "token", "review"]
"""`session` began with a password or at a provider, `visit` with a link that somebody was sent. `review`: a browser
that has proved by a code for whom it opens one locator (its `name`).
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """One way in. `at` and `until` are ms since the epoch; `name` is what its holder calls it, or where it is used."""

    digest: str
    kind: Kind
    person: str
    name: str = ""
    at: int
    until: int


def admit(row: Access) -> Callable[[Connection], None]:
    """One more. A new password takes the place of the old one and ends the person's sessions."""

    def write(connection: Connection) -> None:
        connection.execute(delete(access).where(access.c.until <= row.at))
        if row.kind == "password":
            replaced = access.c.kind.in_(("password", "session", "visit"))
            connection.execute(delete(access).where(access.c.person == row.person, replaced))
        connection.execute(insert(access).values(**asdict(row)))

    return write


def take(digest: str, now: int) -> Callable[[Connection], Access | None]:
    """Uses a link up: who comes in by it, or None where it is used, over, or never was."""

    def write(connection: Connection) -> Access | None:
        found = find(digest, now)(connection)
        if found is None or found.kind != "link":
            return None
        connection.execute(delete(access).where(access.c.digest == digest))
        return found

    return write


def end(digest: str, person: str = "") -> Callable[[Connection], bool]:
    """Ends one, by its digest or the beginning of it; of this person, where one is named. Whether there was one."""

    def write(connection: Connection) -> bool:
        named = [access.c.digest.startswith(digest, autoescape=True), access.c.kind != "password"]
        named += [access.c.person == person] if person else []
        return bool(digest) and connection.execute(delete(access).where(*named)).rowcount > 0

    return write


def move_end(digest: str, until: int) -> Callable[[Connection], None]:
    """It ends then."""

    def write(connection: Connection) -> None:
        connection.execute(update(access).where(access.c.digest == digest).values(until=until))

    return write


_FIND = select(access).where(access.c.digest == bindparam("digest"), access.c.until > bindparam("now"))
"""Worded once: it is asked at every request."""
_NAMES = tuple(access.c.keys())


def find(digest: str, now: int) -> Callable[[Connection], Access | None]:
    """The one with this digest, unless it is over."""

    def read(connection: Connection) -> Access | None:
        row = connection.execute(_FIND, {"digest": digest, "now": now}).first()
        return _row(row) if row is not None else None

    return read


def look_up(
    rows: Callable[[Select[Any], Mapping[str, Any]], Sequence[Sequence[Any]]], digest: str, now: int
) -> Access | None:
    """As `find`, for who asks at every request: `rows` is the store's."""
    found = rows(_FIND, {"digest": digest, "now": now})
    return Access(**dict(zip(_NAMES, found[0], strict=True))) if found else None


def listed(now: int, person: str = "") -> Callable[[Connection], Sequence[Access]]:
    """All that are not over, newest first; of one person, where one is named."""

    def read(connection: Connection) -> Sequence[Access]:
        asked = select(access).where(access.c.until > now).order_by(access.c.at.desc(), access.c.digest)
        return [_row(row) for row in connection.execute(asked.where(access.c.person == person) if person else asked)]

    return read


def _row(row: Row[Any]) -> Access:
    return Access(**row._mapping)
