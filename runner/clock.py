"""The only clock. Times are whole milliseconds since 1970-01-01 UTC; durations are whole milliseconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Clock(Protocol):
    """Tells the time. The embedded engine reads the machine's; drills and tests turn their own."""

    def now(self) -> int:
        """Wall clock, ms since the epoch."""

    def monotonic(self) -> int:
        """A clock that never goes back, ms from an arbitrary start: for leases and deadlines of one process."""


class MachineClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000


def shown(at: int, zone: str = "UTC") -> str:
    """`at` as people read it, in their zone with its offset: 2026-09-01 09:00:00 +09:00."""
    moment = datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(ZoneInfo(zone))
    offset = moment.strftime("%z")
    return f"{moment:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:]}"


@lru_cache(maxsize=4096)
def iso(at: int, zone: str = "UTC") -> str:
    """`at` as ISO 8601 text with offset, to the second: the form dates have inside expressions."""
    return datetime.fromtimestamp(at // 1000, tz=UTC).astimezone(ZoneInfo(zone)).isoformat()
