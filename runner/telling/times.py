"""Times and counts as people read them, in the reader's zone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

from runner.clock import DAY, HOUR, MINUTE, SECOND
from runner.language.zones import zone_fault
from runner.tongue import _, day, length

LOCAL = Path("/etc/localtime")
UNITS = (
    (SECOND, "second", "s", 2 * MINUTE),
    (MINUTE, "minute", "min", 2 * HOUR),
    (HOUR, "hour", "h", 2 * DAY),
)
"""Sizes of times with their names, and up to where they are told in these."""


def reader_zone(zone: str = "", has_zone: bool = False) -> str:
    """The zone to show times in: the project's, else that of this computer, else UTC."""
    if has_zone:
        return zone
    name = os.environ.get("TZ", "").lstrip(":")
    if not name or zone_fault(name):
        name = _linked_zone(LOCAL)
    return name if name and not zone_fault(name) else "UTC"


def _linked_zone(link: Path) -> str:
    try:
        return _zone_behind(link, os.readlink(link))  # noqa: PTH115 - asked at every request
    except OSError:
        return ""


@lru_cache(maxsize=16)
def _zone_behind(link: Path, target: str) -> str:
    """The zone that a link to `target` stands for. Raises OSError."""
    return str(link.resolve(strict=True)).partition("zoneinfo/")[2]


def moment(at: int, zone: str) -> datetime:
    """A time in a zone."""
    return datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(ZoneInfo(zone))


def offset(at: int, zone: str) -> str:
    """The zone's offset at that time: +09:00."""
    text = moment(at, zone).strftime("%z")
    return f"{text[:3]}:{text[3:]}"


def short(at: int, zone: str) -> str:
    """A time for a column whose head tells the offset (`offsets`): 2026-09-01 09:00."""
    then = moment(at, zone)
    return f"{day(then)} {then:%H:%M}"


def offsets(times: Iterable[int], zone: str) -> str:
    """The offsets of these times, for the head of a column."""
    return "/".join(sorted({offset(at, zone) for at in times}))


def left(ms: int) -> str:
    """What is left of a wait: in 3 s; now."""
    return _("in {time}", time=span(-(-ms // SECOND) * SECOND)) if ms > 0 else _("now")


def counted(count: int, word: str) -> str:
    """1 flow; 2 flows."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def span(ms: int) -> str:
    """A length of time in words: 450 ms, 3 s, 2 min, 5 h, 4 days."""
    if ms < SECOND:
        return length(max(ms, 0), "millisecond", "ms")
    for size, unit, english, longest in UNITS:
        if ms < longest:
            return length(ms // size, unit, english)
    return length(ms // DAY, "day", "days")
