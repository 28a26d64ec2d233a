"""Slots: the moments at which a schedule fires, in words or as a cron line, on the clock of a region.

- A schedule that names hours (`every day at 02:30`, `0 */2 * * *`) has each of its times once a day: one that the clock
  skips comes at the first moment after the jump, one that the clock shows twice comes the first time.
- A schedule with a time in every hour (`every 15 min`, `5 * * * *`) follows what the clock shows: nothing in an hour
  that is missing, everything twice in one that is shown twice.
- `every 15 min` and `every 2 hours` count from midnight on that clock, each day anew.

Of the cron libraries cronsim 2.8 is well kept and comes nearest, but gives another answer than 16 of the 98 rows of
tests/language/test_slots.py (asked inside an hour that is shown twice it offers a slot that was), and without its zone
three sets are all that is left of it.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from runner.clock import iso
from runner.contract import Json
from runner.language.dates import format_date, pattern_words

_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = "january february march april may june july august september october november december".split()
_AT = r"at ([01]\d|2[0-3]):([0-5]\d)"
_DAILY = re.compile(rf"every (day|weekday|{'|'.join(_WEEK)}) {_AT}")
_MONTHLY = re.compile(rf"every (last|\d{{1,2}})(?:st|nd|rd|th)? day of the month {_AT}")
_OFTEN = re.compile(r"every (\d{1,4}) (min|hours?)")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, tuple(month[:3] for month in _MONTHS)),
    ("weekday", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_CRON_PART = re.compile(r"(\*|[a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?(?:/(\d{1,2}))?")
_WHOLE_DAY = 24 * 60
_LONGEST_GAP = 8 * 366
"""Days without a slot after which none comes: 29 February may be eight years away."""
_IN_WORDS = pattern_words("dddd D MMMM YYYY, HH:mm")
HOW = "every weekday at 09:00, every 1st day of the month at 09:00, every last day of the month at 18:00, every 15 min"


class NoSchedule(ValueError):
    """A text that is no schedule: what is wrong in a sentence, and the way out."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Minutes since midnight, on the days that are in all three sets (Monday is 0), or at the end of each month."""

    said: str
    minutes: tuple[int, ...]
    days: frozenset[int] = frozenset(range(1, 32))
    months: frozenset[int] = frozenset(range(1, 13))
    weekdays: frozenset[int] = frozenset(range(7))
    is_last_day: bool = False

    @property
    def is_all_day(self) -> bool:
        """Whether it has a time in every hour."""
        return len({minute // 60 for minute in self.minutes}) == 24

    def falls_on(self, day: date) -> bool:
        """Whether it has slots on that day."""
        of_month = day.day == _length(day) if self.is_last_day else day.day in self.days
        return of_month and day.month in self.months and day.weekday() in self.weekdays

    @property
    def left_out(self) -> tuple[str, ...]:
        """The months that are too short for a day it names."""
        longest = max(self.days) if self.days and not self.is_last_day else 0
        named = longest > 28 and len(self.days) < 28
        short = [month for month in sorted(self.months) if named and monthrange(2027, month)[1] < longest]
        names = {2: "February in three years of four" if longest == 29 else "February"}
        return tuple(names.get(month, _MONTHS[month - 1].capitalize()) for month in short)


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """A trigger with a schedule, as it counts."""

    schedule: Schedule
    zone: str
    missed: Literal["latest", "skip", "all"]
    overlap: Literal["skip", "queue", "allow"]

    def __str__(self) -> str:
        return f"{self.schedule.said} ({self.zone})"

    def after(self, at: int) -> Iterator[int]:
        """Its slots later than `at`."""
        return slots_after(self.schedule, self.zone, at)

    def until(self, at: int) -> Iterator[int]:
        """Its slots up to `at` and at it, newest first."""
        return slots_back(self.schedule, self.zone, at)

    def skipped(self, at: int) -> tuple[str, ...]:
        """The times (`02:30`) for which this slot stands because the clock skips them; none for most slots."""
        local = _local(at, self.zone)
        days = () if self.schedule.is_all_day else (local.date() - timedelta(days=1), local.date())
        asked = (clock for day in days if self.schedule.falls_on(day) for clock in _clocks(self.schedule, day))
        return tuple(f"{clock:%H:%M}" for clock in asked if clock != local and _first(clock, ZoneInfo(self.zone)) == at)

    def told(self, at: int) -> str:
        """One of its slots in words: Sunday 29 March 2026, 03:00 +02:00 (the clock skips 02:30)."""
        local = iso(at, self.zone)
        skipped = ", ".join(self.skipped(at))
        note = f" (the clock skips {skipped})" if skipped else ""
        return f"{format_date(local, _IN_WORDS, self.zone)} {local[-6:]}{note}"


def timed(trigger: Mapping[str, Json], zone: str) -> Timed:
    """A trigger as written, in a project of this zone. Raises NoSchedule."""
    return Timed(
        schedule=schedule_of(trigger), zone=trigger.get("zone") or zone,
        missed=trigger.get("missed") or "latest", overlap=trigger.get("overlap") or "skip",
    )  # fmt: skip


def schedules_of(triggers: Iterable[Mapping[str, Json]], zone: str) -> tuple[Timed, ...]:
    """The schedules among the triggers of a flow that was checked."""
    return tuple(timed(each, zone) for each in triggers if "schedule" in each or "cron" in each)


def _length(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def schedule_of(trigger: Mapping[str, Json]) -> Schedule:
    """The schedule of a trigger as written, with `schedule` or `cron`. Raises NoSchedule."""
    return read_cron(str(trigger["cron"])) if "cron" in trigger else read_words(str(trigger["schedule"]))


def read_words(text: str) -> Schedule:
    """A schedule in words. Raises NoSchedule."""
    daily, monthly, often = (pattern.fullmatch(text) for pattern in (_DAILY, _MONTHLY, _OFTEN))
    if daily:
        word, minute = daily[1], _minute(daily[2], daily[3])
        weekdays = range(7) if word == "day" else range(5) if word == "weekday" else (_WEEK.index(word),)
        return Schedule(said=text, minutes=minute, weekdays=frozenset(weekdays))
    if monthly and monthly[1] == "last":
        return Schedule(said=text, minutes=_minute(monthly[2], monthly[3]), is_last_day=True)
    if monthly and 1 <= int(monthly[1]) <= 31:
        return Schedule(said=text, minutes=_minute(monthly[2], monthly[3]), days=frozenset({int(monthly[1])}))
    if often:
        step = int(often[1]) * (1 if often[2] == "min" else 60)
        if step == 0:
            raise NoSchedule(f'"{text}" never comes', HOW)
        if step > _WHOLE_DAY:
            raise NoSchedule(f'"{text}" is longer than a day', "write every day at 09:00, or every monday at 09:00")
        return Schedule(said=text, minutes=tuple(range(0, _WHOLE_DAY, step)))
    raise NoSchedule(f'"{text}" is not a time that can be read', HOW)


def _minute(hour: str, minute: str) -> tuple[int]:
    return (int(hour) * 60 + int(minute),)


def read_cron(text: str) -> Schedule:
    """A cron line. Raises NoSchedule; also where day and weekday are both named, and where no slot ever comes."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        hint = "minute hour day month weekday: 0 9 * * 1-5"
        raise NoSchedule(f'"{text}" has {len(fields)} fields, and a cron line has five', hint)
    found = [_values(field, *rule) for field, rule in zip(fields, _FIELDS, strict=True)]
    if fields[2] != "*" and fields[4] != "*":
        what = "a day of the month and a weekday are both named, and programs differ in what that means"
        raise NoSchedule(what, "name one of the two, or write two triggers")
    minutes, hours, days, months, weekdays = found
    schedule = Schedule(
        said=text, minutes=tuple(hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)),
        days=days, months=months, weekdays=frozenset((day - 1) % 7 for day in weekdays),
    )  # fmt: skip
    if next(slots_after(schedule, "UTC", 0), None) is None:
        raise NoSchedule(f'"{text}" never comes: no such month has a day {min(days)}')
    return schedule


def _values(field: str, name: str, low: int, high: int, words: tuple[str, ...]) -> frozenset[int]:
    """The numbers that a field stands for; `words` are names for the numbers from `low` on."""
    found: set[int] = set()
    for part in field.lower().split(","):
        match = _CRON_PART.fullmatch(part)
        first, last = _ends(match, low, high, words) if match else (-1, -1)
        step = int(match[3] or 1) if match else 0
        if step < 1 or not low <= first <= last <= high:
            hint = f"a {name} is a number from {low} to {high}, * or a list or range of them"
            raise NoSchedule(f'"{field}" is no {name} in a cron line', hint)
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _ends(match: re.Match[str], low: int, high: int, words: tuple[str, ...]) -> tuple[int, int]:
    if match[1] == "*":
        return (low, high) if not match[2] else (-1, -1)
    first, last = (
        words.index(word) + low if word in words else int(word) if word.isdigit() else -1
        for word in (match[1], match[2] or match[1])
    )
    return first, high if match[3] and not match[2] else last


# --- moments ------------------------------------------------------------------------------------------------------


def slots_after(schedule: Schedule, zone: str, after: int) -> Iterator[int]:
    """Its slots later than `after`, in order and without end; times are ms since the epoch."""
    day, left = _local(after, zone).date() - timedelta(days=1), _LONGEST_GAP
    while left:
        for at in _of_day(schedule, zone, day):
            if at > after:
                yield at
                after, left = at, _LONGEST_GAP
        day, left = day + timedelta(days=1), left - 1


def slots_back(schedule: Schedule, zone: str, until: int) -> Iterator[int]:
    """Its slots up to `until` and at it, newest first; without end."""
    day, left = _local(until, zone).date(), _LONGEST_GAP
    before = until + 1
    while left:
        for at in reversed(_of_day(schedule, zone, day)):
            if at < before:
                yield at
                before, left = at, _LONGEST_GAP
        day, left = day - timedelta(days=1), left - 1


@lru_cache(maxsize=512)
def _of_day(schedule: Schedule, zone: str, day: date) -> tuple[int, ...]:
    if not schedule.falls_on(day):
        return ()
    region, clocks = ZoneInfo(zone), _clocks(schedule, day)
    if schedule.is_all_day:
        return tuple(sorted(at for clock in clocks for at in _shown(clock, region)))
    return tuple(sorted({_first(clock, region) for clock in clocks}))


def _clocks(schedule: Schedule, day: date) -> Iterable[datetime]:
    midnight = datetime.combine(day, time())
    return (midnight + timedelta(minutes=minute) for minute in schedule.minutes)


def _first(clock: datetime, region: ZoneInfo) -> int:
    while not (moments := _shown(clock, region)):
        clock += timedelta(minutes=1)
    return min(moments)


def _shown(clock: datetime, region: ZoneInfo) -> set[int]:
    """The moments at which the region's clock shows this time: none, one or two."""
    both = (clock.replace(tzinfo=region, fold=fold).astimezone(UTC) for fold in (0, 1))
    return {round(at.timestamp() * 1000) for at in both if at.astimezone(region).replace(tzinfo=None) == clock}


def _local(at: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
