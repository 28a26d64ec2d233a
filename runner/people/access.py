"""Who may come in, and as what: passwords, one-time links, sessions, tokens, and the roles out of people.yaml.

The database never holds what opens a door, only its digest. Somebody whom people.yaml no longer names is nobody, and
what they had opens nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from runner.clock import DAY, HOUR, MINUTE, Clock
from runner.errors import NotPossible, StoreError
from runner.language.people import ME, People
from runner.people.restored import told_restored
from runner.store.access import Access, Kind, admit
from runner.store.lock import EngineLock
from runner.store.sql import open_store

LIVES: dict[Kind, int] = {
    "link": 24 * HOUR, "session": 7 * DAY, "visit": 7 * DAY, "token": 365 * DAY, "password": 36_500 * DAY,
    "review": 30 * MINUTE,
}  # fmt: skip
"""How long each opens a door, ms."""
SHORTEST = 12
LONGEST = 1_000
ROLES = ("viewer", "author", "approver", "operator", "admin")

_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash(secrets.token_urlsafe(16))
"""What a name that nobody has is checked against, so that it takes as long as a real one."""


def digest_of(secret: str) -> str:
    """What the database knows of a link, a session or a token."""
    return sha256(secret.encode()).hexdigest()


def new_access(kind: Kind, person: str, *, now: int, name: str = "", idle: int = 0) -> tuple[str, Access]:
    """(what its holder gets, what the database keeps) of a new link, session or token. `idle`: ms it lasts unused."""
    secret = secrets.token_urlsafe(32)
    until = now + min(LIVES[kind], idle or LIVES[kind])
    return secret, Access(digest=digest_of(secret), kind=kind, person=person, name=name, at=now, until=until)


def new_password(person: str, password: str, *, now: int, names: Iterable[str] = ()) -> Access:
    """What the database keeps of a password; takes a tenth of a second. Raises NotPossible where it is too short, or
    made of what stands in every list and of `names`."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise NotPossible(f"a password has {SHORTEST} characters or more; a few words in a row are easy to keep")
    if is_guessed(password, (person, *names)):
        raise NotPossible(
            "this password is guessed first: it is little more than usual words, names and signs in a row; "
            "a few words that do not belong together are easy to keep"
        )
    digest = _HASHER.hash(password)
    return Access(digest=digest, kind="password", person=person, at=now, until=now + LIVES["password"])


def is_guessed(password: str, names: Iterable[str]) -> bool:
    """Whether little is left of a password without usual words, these names, and signs that follow each other."""
    known = {word for name in names for word in re.split(r"\W+", name.lower()) if len(word) > 2}
    left = password.lower()
    for word in sorted({*USUAL, *known}, key=len, reverse=True):
        left = left.replace(word, " ")
    kept = [sign for before, sign in pairwise(f" {left}") if sign.isalnum() and abs(ord(sign) - ord(before)) > 1]
    return len(kept) < FEWEST or len({*kept}) < FEWEST - 2


USUAL = frozenset(
    "password passwort passw0rd p@ssw0rd p@ssword welcome willkommen letmein iloveyou loveyou qwertyuiop "
    "qwertzuiop qwerty qwertz asdfghjkl asdfgh asdf zxcvbnm zxcvbn 1q2w3e4r5t 1q2w3e4r 1q2w3e 1qaz2wsx 1qaz "
    "qazwsx admin administrator login secret geheim changeme change default guest user test hello monkey "
    "dragon football baseball sunshine princess master superman batman michael jordan shadow freedom whatever "
    "trustno1 summer winter spring autumn sommer herbst amends root abc123 love 1234".split()
)
FEWEST = 6
"""Signs that must be left."""


def password_fits(kept: Access | None, password: str) -> bool:
    """Whether this is the password; takes as long where there is none."""
    try:
        _HASHER.verify(kept.digest if kept is not None else _NOBODY, password[:LONGEST])
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None and len(password) <= LONGEST


def lasts_until(row: Access, now: int, idle: int) -> int:
    """When something that is used now ends: after so long unused (ms), and when its life is over at the latest.

    It is only moved by a twentieth of that or more, so that not every page writes a row.
    """
    until = min(row.at + LIVES[row.kind], now + idle)
    return until if abs(until - row.until) > idle // 20 else row.until


async def keep_access(folder: Path, url: str, clock: Clock, lock: EngineLock, row: Access, *, drives: bool) -> None:
    """Keeps a password, a link, a session or a token where no engine is asked, with the lock where it is needed:
    nothing is driven, and no cluster is asked. `drives`: as engines of this database do. Raises StoreError for a
    database that was put back from a copy."""
    store = open_store(folder, clock=clock, writable=True, lock=lock, url=url, drives=drives)
    try:
        if store.restored:
            raise StoreError(told_restored(store))
        await store.write(admit(row))
    finally:
        store.close()


def role_of(people: People, admin: str, person: str) -> str | None:
    """What somebody may do as people.yaml has it now; empty for no role, None for nobody. `admin`: amends.yaml's line.

    Whoever has the terminal (person:me) is the admin of a project that names none.
    """
    admins = {one.id for one in people.resolve(admin)} if admin and admin != ME else set()
    admins |= {one.id for one in people.people.values() if one.role == "admin"}
    if person == ME:
        return None if admins else "admin"
    known = people.people.get(person.removeprefix("person:"))
    if known is None:
        return None
    return "admin" if known.id in admins else known.role


def first_admin(people: People, admin: str) -> str:
    """Who is given the link of the first start."""
    named = [*(people.resolve(admin) if admin else ()), *people.people.values()]
    found = (f"person:{one.id}" for one in named if one.id in people.people)
    return next((person for person in found if role_of(people, admin, person) == "admin"), ME)


class Tries:
    """Limited tries: at most `most` failures of one name within `span` ms. Kept in this process alone."""

    def __init__(self, most: int = 5, span: int = 15 * MINUTE, names: int = 10_000) -> None:
        self._most, self._span, self._names = most, span, names
        self._failed: dict[str, tuple[int, ...]] = {}

    def wait(self, name: str, now: int) -> int:
        """ms until this name may try again; 0 for at once."""
        failed = self._failed.get(name)
        if failed is None or len(failed) < self._most:
            return 0
        return max(failed[0] + self._span - now, 0)

    def fail(self, name: str, now: int) -> None:
        """It did not fit. What is over is forgotten here; the names stand by their last failure, the oldest first."""
        failed = (*self._failed.pop(name, ()), now)[-self._most :]
        while self._failed:
            oldest = next(iter(self._failed))
            if len(self._failed) < self._names and self._failed[oldest][-1] > now - self._span:
                break
            del self._failed[oldest]
        self._failed[name] = failed

    def take_back(self, name: str) -> None:
        """The last one was none."""
        if left := self._failed.pop(name, ())[:-1]:
            self._failed[name] = left

    def forget(self, name: str) -> None:
        """It did fit."""
        self._failed.pop(name, None)
