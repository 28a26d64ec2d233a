"""Idempotency keys: the same for every attempt, different for every generation and purpose.

A key is made of flow, run, step, part, purpose and generation; never of an attempt, a clock, a worker or chance.
"""

from __future__ import annotations

import hashlib


def make_key(*, flow: str, run: str, step: str, part: int, purpose: str, generation: int) -> str:
    """The reference we send: `am_` and 32 hexadecimal digits."""
    text = "\x1f".join((flow, run, step, str(part), purpose, str(generation)))
    return "am_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def spread(key: str, attempt: int, pause: int) -> int:
    """The pause in ms with its jitter: up to a quarter longer, decided by key and attempt."""
    chance = int.from_bytes(hashlib.sha256(f"{key}:{attempt}".encode()).digest()[:4], "big") / 2**32
    return pause + int(pause * 0.25 * chance)
