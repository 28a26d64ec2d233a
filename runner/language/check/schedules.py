"""Schedules: a zone, a time that can be read, and a time that comes (FL402)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runner.contract import Json
from runner.errors import Problem
from runner.language.check.context import Context, rule
from runner.language.source import Path
from runner.language.zones import zone_fault

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_AT = r"at ([01]\d|2[0-3]):[0-5]\d"
_DAILY = re.compile(rf"^every (day|weekday|{'|'.join(_DAYS)}) {_AT}$")
_MONTHLY = re.compile(rf"^every (last|\d{{1,2}})(st|nd|rd|th)? day of the month {_AT}$")
_OFTEN = re.compile(r"^every (\d{1,4}) (min|hours?)$")
_FIELDS = (
    ("minute", 0, 59, ""),
    ("hour", 0, 23, ""),
    ("day", 1, 31, ""),
    ("month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    ("weekday", 0, 7, "sun mon tue wed thu fri sat"),
)
_CRON_PART = re.compile(r"(\*|[a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?(?:/(\d{1,2}))?")
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
HOW = "every weekday at 09:00, every 1st day of the month at 09:00, every last day of the month at 18:00, every 15 min"


@rule("FL402")
def find_wrong_schedules(context: Context) -> Iterator[Problem]:
    """Schedules without a zone, with a zone that is none, that cannot be read or that never fire."""
    many = len(context.flow.trigger) > 1 or ("trigger", 0) in context.source.values
    for number, trigger in enumerate(context.flow.trigger):
        path: Path = ("trigger", number) if many else ("trigger",)
        if "schedule" in trigger or "cron" in trigger:
            yield from _of_one(context, path, trigger)


def _of_one(context: Context, path: Path, trigger: Mapping[str, Json]) -> Iterator[Problem]:
    word = "schedule" if "schedule" in trigger else "cron"
    written = str(trigger[word])
    fault, hint = schedule_fault(written) if word == "schedule" else cron_fault(written)
    if fault:
        yield context.source.problem("FL402", (*path, word), fault, hint)
    zone = trigger.get("zone")
    if isinstance(zone, str):
        sentence, _, more = zone_fault(zone).partition("; ")
        if sentence:
            yield context.source.problem("FL402", (*path, "zone"), sentence, more)
    elif not context.facts.has_zone and not _OFTEN.match(written):
        what = "the schedule has no zone, so nobody knows whose nine o'clock it is"
        yield context.source.problem(
            "FL402", (*path, word), what, "write zone: Asia/Tokyo here, or in amends.yaml", on="key"
        )


def schedule_fault(text: str) -> tuple[str, str]:
    """What is wrong with a schedule in words, and the way out; empty if nothing is."""
    monthly, often = _MONTHLY.match(text), _OFTEN.match(text)
    if _DAILY.match(text) or (monthly and (monthly[1] == "last" or 1 <= int(monthly[1]) <= 31)):
        return "", ""
    if often:
        return ("", "") if int(often[1]) > 0 else (f'"{text}" never comes', HOW)
    return f'"{text}" is not a time that can be read', HOW


def cron_fault(text: str) -> tuple[str, str]:
    """What is wrong with a cron line, and the way out; empty if nothing is."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        what = f'"{text}" has {len(fields)} fields, and a cron line has five'
        return what, "minute hour day month weekday: 0 9 * * 1-5"
    read: list[frozenset[int]] = []
    for field, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        values = _cron_values(field, low, high, names.split())
        if values is None:
            hint = f"a {name} is a number from {low} to {high}, * or a list or range of them"
            return f'"{field}" is no {name} in a cron line', hint
        read.append(values)
    if fields[2] != "*" and fields[4] != "*":
        what = "a day of the month and a weekday are both named, and programs differ in what that means"
        return what, "name one of the two, or write two triggers"
    if not any(day <= _MONTH_DAYS[month - 1] for month in read[3] for day in read[2]):
        return f'"{text}" never comes: no such month has a day {min(read[2])}', ""
    return "", ""


def _cron_values(field: str, low: int, high: int, names: list[str]) -> frozenset[int] | None:
    """The numbers that a field stands for; `names` are words for the numbers from `low` on."""
    found: set[int] = set()
    for part in field.lower().split(","):
        match = _CRON_PART.fullmatch(part)
        if match is None or (match[1] == "*" and match[2]):
            return None
        ends = [
            names.index(word) + low if word in names else int(word) if word.isdigit() else -1
            for word in (match[1], match[2])
            if word and word != "*"
        ]
        step = int(match[3] or 1)
        first, last = (low, high) if match[1] == "*" else (ends[0], ends[-1] if len(ends) > 1 or not match[3] else high)
        if step < 1 or not low <= first <= last <= high:
            return None
        found.update(range(first, last + 1, step))
    return frozenset(found)
