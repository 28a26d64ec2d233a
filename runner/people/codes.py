"""One-time codes by mail: how they look, and how what somebody types is read."""

from __future__ import annotations

import secrets
import unicodedata

from runner.people.access import digest_of
from runner.store.codes import LIFE, Code

SIGNS = "34679CDFGHJKMNPQRTWXY"
"""No two of them look alike, and no word comes out of them."""
LENGTH = 8


def new_code(locator: str, person: str, browser: str, now: int) -> tuple[str, Code]:
    """(what is mailed, what the database keeps). `browser` is the secret of the browser that asked."""
    code = "".join(secrets.choice(SIGNS) for _ in range(LENGTH))
    kept = Code(
        digest=digest_of_code(code, locator, browser), locator=locator, person=person, door=digest_of(browser), at=now,
        until=now + LIFE,
    )  # fmt: skip
    return f"{code[:4]}-{code[4:]}", kept


def digest_of_code(typed: str, locator: str, browser: str) -> str:
    """What the database knows of a code, however it is typed: small letters, spaces, full-width signs."""
    plain = unicodedata.normalize("NFKC", typed).upper()
    code = "".join(sign for sign in plain if sign.isalnum())
    return digest_of(f"code {locator} {browser} {code}")


def masked(address: str) -> str:
    """An address that its owner knows again: t•••@acme.example."""
    name, _sign, domain = address.rpartition("@")
    return f"{name[:1]}•••@{domain}" if name else ""
