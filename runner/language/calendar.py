"""Durations and business calendars: `30 s`, `2 business days`, and when they end.

Plain units have one length: `1 day` is 24 hours, also over a change to summer time. Business units follow a calendar's
local clock:

- `2 business days` from Friday 17:00 end on Tuesday 17:00. A start outside the open hours counts from the next
  opening: from Saturday noon they end on Wednesday at the opening.
- `4 business hours` add up the open time alone.

A local time that does not exist (the clock is put forward) is taken after the jump; one that exists twice is the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from zoneinfo import ZoneInfo

from runner.clock import HOUR
from runner.language.flow import Duration, Unit

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LONGEST_MS = 10 * 366 * 24 * HOUR
"""No duration is longer: ten years."""

_SEARCH_DAYS = 3_660
_DURATION = re.compile(r"([0-9]+)\s*([a-z][a-z ]*)")
_UNITS: Mapping[str, Unit] = {
    "ms": "ms",
    "s": "s",
    "second": "s",
    "seconds": "s",
    "min": "min",
    "minute": "min",
    "minutes": "min",
    "hour": "hour",
    "hours": "hour",
    "day": "day",
    "days": "day",
    "week": "week",
    "weeks": "week",
    "business day": "business_day",
    "business days": "business_day",
    "business hour": "business_hour",
    "business hours": "business_hour",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Calendar:
    """When people work. `days` are weekdays (Monday is 0); `hours` are minutes since midnight: opens, closes."""

    zone: str = "UTC"
    days: frozenset[int] = frozenset(range(5))
    hours: tuple[int, int] = (9 * 60, 18 * 60)
    holidays: frozenset[date] = frozenset()

    def __post_init__(self) -> None:
        if not self.days or not self.days <= frozenset(range(7)):
            raise ValueError("a calendar needs at least one weekday out of mon, tue, wed, thu, fri, sat, sun")
        if not 0 <= self.hours[0] < self.hours[1] <= 24 * 60:
            raise ValueError("a calendar's hours must end after they begin, such as 09:00-18:00")

    def is_open_on(self, day: date) -> bool:
        """Whether people work on that day."""
        return day.weekday() in self.days and day not in self.holidays


def parse_duration(text: str) -> Duration:
    """`2 business days` as a Duration. Raises ValueError with a sentence."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f'"{text}" is not a duration: write a whole number and a unit, such as 30 s or 2 business days'
        )
    words = " ".join(match[2].split())
    unit = _UNITS.get(words)
    if unit is None:
        raise ValueError(f'"{words}" is not a unit of time{_unit_hint(words)}')
    if len(match[1]) > 15:
        raise ValueError(f'"{text}" is longer than ten years')
    duration = Duration(amount=int(match[1]), unit=unit)
    if _at_least(duration) > LONGEST_MS:
        raise ValueError(f'"{text}" is longer than ten years')
    return duration


def duration_text(duration: Duration) -> str:
    """The duration as an author writes it: `2 business days`, `1 hour`, `30 s`."""
    words = duration.unit.replace("_", " ")
    plural = "s" if duration.amount != 1 and duration.unit not in ("ms", "s", "min") else ""
    return f"{duration.amount} {words}{plural}"


def after(at: int, duration: Duration, calendar: Calendar) -> int:
    """When the duration ends that begins at `at` (both ms since the epoch)."""
    if duration.unit == "business_day":
        return _business_days_after(at, duration.amount, calendar)
    if duration.unit == "business_hour":
        return _business_hours_after(at, duration.amount, calendar)
    return at + duration.ms


def business_day(start: date, amount: int, calendar: Calendar) -> date:
    """The day that many business days later (earlier, if negative); 0 is the start itself or the next business day."""
    day, one = start, timedelta(days=1 if amount >= 0 else -1)
    left = abs(amount)
    if left == 0:
        return _open_day(day, one, calendar)
    for _ in range(left):
        day = _open_day(day + one, one, calendar)
    return day


def _open_day(day: date, step: timedelta, calendar: Calendar) -> date:
    for _ in range(_SEARCH_DAYS):
        if calendar.is_open_on(day):
            return day
        day += step
    raise ValueError("the calendar has no business day within ten years")


def _business_days_after(at: int, amount: int, calendar: Calendar) -> int:
    start = _into_open_time(at, calendar)
    if amount == 0:
        return start
    local = _local(start, calendar)
    day = business_day(local.date(), amount, calendar)
    return _instant(datetime.combine(day, local.time()), calendar)


def _business_hours_after(at: int, amount: int, calendar: Calendar) -> int:
    left = amount * HOUR
    start = _into_open_time(at, calendar)
    for _ in range(_SEARCH_DAYS):
        day = _local(start, calendar).date()
        closes = _minute(day, calendar.hours[1], calendar)
        if start + left <= closes:
            return start + left
        left -= closes - start
        start = _minute(_open_day(day + timedelta(days=1), timedelta(days=1), calendar), calendar.hours[0], calendar)
    raise ValueError("the business hours do not end within ten years")


def _into_open_time(at: int, calendar: Calendar) -> int:
    """`at` itself when it is inside open hours, else the next opening."""
    today = _local(at, calendar).date()
    if calendar.is_open_on(today):
        opens, closes = (_minute(today, minute, calendar) for minute in calendar.hours)
        if at < opens:
            return opens
        if at < closes:
            return at
    day = _open_day(today + timedelta(days=1), timedelta(days=1), calendar)
    return _minute(day, calendar.hours[0], calendar)


def _local(at: int, calendar: Calendar) -> datetime:
    return datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(ZoneInfo(calendar.zone))


def _minute(day: date, minute: int, calendar: Calendar) -> int:
    midnight = datetime.combine(day, time())
    return _instant(midnight + timedelta(minutes=minute), calendar)


def _instant(local: datetime, calendar: Calendar) -> int:
    moment = local.replace(tzinfo=ZoneInfo(calendar.zone), fold=0)
    return round(moment.timestamp() * 1000)


def _at_least(duration: Duration) -> int:
    if duration.unit == "business_day":
        return duration.amount * 24 * HOUR
    if duration.unit == "business_hour":
        return duration.amount * HOUR
    return duration.ms


def _unit_hint(words: str) -> str:
    if words in ("month", "months", "year", "years"):
        return ": months have no fixed length, write days or weeks"
    near = get_close_matches(words, _UNITS, n=1)
    if near:
        return f': did you mean "{near[0]}"?'
    return ": write s, min, hours, days, weeks, business days or business hours"
