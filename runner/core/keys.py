"""Idempotency keys: the same for every attempt, different for every generation and purpose.

A key is made of flow, run, step, part, purpose and generation; never of an attempt, a clock, a worker or chance.
"""

from __future__ import annotations

import hashlib


def make_key(*, flow: str, run: str, step: str, part: int, purpose: str, generation: int) -> str:
    """The reference we send: `am_` and 32 hexadecimal digits."""
    text = "\x1f".join((flow, run, step, str(part), purpose, str(generation)))
    return "am_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def name_key(author_key: str, *, part: int | None, generation: int) -> str:
    """The author's own reference; parts of a fan-out are told apart by `.1 .2`, generations by `-1 -2`."""
    text = author_key if part is None else f"{author_key}.{part + 1}"
    return text if generation == 0 else f"{text}-{generation}"


def spread(key: str, attempt: int, pause: int) -> int:
    """The pause in ms with its jitter: up to a quarter longer, decided by key and attempt."""
    chance = int.from_bytes(hashlib.sha256(f"{key}:{attempt}".encode()).digest()[:4], "big") / 2**32
    return pause + int(pause * 0.25 * chance)
