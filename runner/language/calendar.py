"""Business calendars: when `30 s` or `2 business days` end.

Plain units have one length: `1 day` is 24 hours, also over a change to summer time. Business units follow a calendar's
local clock:

- `2 business days` from Friday 17:00 end on Tuesday 17:00. A start outside the open hours counts from the next
  opening: from Saturday noon they end on Wednesday at the opening.
- `4 business hours` add up the open time alone.

A local time that does not exist (the clock is put forward) is taken after the jump; one that exists twice is the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from runner.clock import HOUR, MINUTE
from runner.contract import Json
from runner.language.flow import Duration

_SEARCH_DAYS = 3_660


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

    def as_json(self) -> dict[str, Json]:
        """As a bundle keeps it, with every holiday: a list of a later date changes no run under way."""
        free = sorted(day.isoformat() for day in self.holidays)
        return {"zone": self.zone, "days": sorted(self.days), "hours": list(self.hours), "holidays": free}

    @classmethod
    def of_json(cls, kept: Mapping[str, Json]) -> Calendar:
        """What was kept."""
        free = frozenset(date.fromisoformat(day) for day in kept["holidays"])
        opens, closes = kept["hours"]
        return cls(zone=kept["zone"], days=frozenset(kept["days"]), hours=(opens, closes), holidays=free)

    def is_open_on(self, day: date) -> bool:
        """Whether people work on that day."""
        return day.weekday() in self.days and day not in self.holidays


def after(at: int, duration: Duration, calendar: Calendar) -> int:
    """When the duration ends that begins at `at` (both ms since the epoch)."""
    if duration.unit == "business_day":
        return _business_days_after(at, duration.amount, calendar)
    if duration.unit == "business_hour":
        return _open_ms_after(at, duration.amount * HOUR, calendar)
    return at + duration.ms


def half_way(at: int, duration: Duration, calendar: Calendar) -> int:
    """When half of the duration is over, in its own kind of time: never outside business hours for a business one."""
    if duration.unit not in ("business_day", "business_hour"):
        return at + duration.ms // 2
    opens, closes = calendar.hours
    unit = HOUR if duration.unit == "business_hour" else (closes - opens) * MINUTE
    return _into_open_time(_open_ms_after(at, duration.amount * unit // 2, calendar), calendar)


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


def _open_ms_after(at: int, left: int, calendar: Calendar) -> int:
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
