"""Dates and times of the flow language: ISO texts in, ISO texts out.

A date is `2026-09-01`, a time `09:00`, a moment `2026-09-01T09:00:00+09:00`. A moment without an offset is taken in the
project's zone. Whatever works on a moment (`date`, `add_days` …) works on the clock of the project's zone.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from runner.contract import Json
from runner.errors import EvaluationError
from runner.language.values import shown

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_WORD = re.compile(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z']+|'")

_MONTHS = "January February March April May June July August September October November December".split()
_DAYS: Mapping[str, tuple[str, str]] = {
    "en": (
        "Mon Tue Wed Thu Fri Sat Sun",
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    ),
    "ja": ("月 火 水 木 金 土 日", "月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日"),
    "zh-TW": ("一 二 三 四 五 六 日", "星期一 星期二 星期三 星期四 星期五 星期六 星期日"),
}
LANGUAGES = tuple(_DAYS)
"""Languages in which `format_date` knows the names of days and months."""


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """The zone of a region name. Raises EvaluationError."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise EvaluationError(f'there is no time zone "{name}": write a region, such as Asia/Tokyo') from error


def read(value: Json, zone: str) -> date | datetime:
    """A date or a moment with its zone. Raises EvaluationError for anything else."""
    if isinstance(value, str):
        text = value.strip()
        try:
            if _DATE.fullmatch(text):
                return date.fromisoformat(text)
            if _MOMENT.fullmatch(text):
                moment = datetime.fromisoformat(text)
                return moment if moment.tzinfo else moment.replace(tzinfo=zone_of(zone))
        except ValueError as error:
            raise EvaluationError(f"{shown(value)} is not a day of the calendar or a time of the clock") from error
    raise EvaluationError(f"{shown(value)} is not a date: write it as 2026-09-01 or 2026-09-01T09:00:00+09:00")


def local(value: Json, zone: str) -> date | datetime:
    """The same, with a moment on the clock of the zone."""
    when = read(value, zone)
    try:
        return when.astimezone(zone_of(zone)) if isinstance(when, datetime) else when
    except (OverflowError, ValueError) as error:
        raise EvaluationError(f"{shown(value)} is outside the calendar") from error


def read_time(text: str) -> str:
    """A time of day as `09:00` or `09:00:30`. Raises ValueError with a sentence."""
    trimmed = text.strip()
    if not _TIME.fullmatch(trimmed):
        raise ValueError(f"{shown(text)} is not a time: write it as 09:00")
    try:
        time.fromisoformat(trimmed)
    except ValueError as error:
        raise ValueError(f"{shown(text)} is not a time of the clock") from error
    return trimmed


def text_of(when: date | datetime) -> str:
    """`2026-09-01` or `2026-09-01T09:00:00+09:00`."""
    return when.isoformat(timespec="seconds") if isinstance(when, datetime) else when.isoformat()


def moment_text(at: int, zone: str) -> str:
    """A moment given in ms since the epoch, on the clock of the zone."""
    return text_of(datetime.fromtimestamp(at // 1000, tz=UTC).astimezone(zone_of(zone)))


def date_text(value: Json, zone: str) -> str:
    """The day of a date or moment."""
    when = local(value, zone)
    return (when.date() if isinstance(when, datetime) else when).isoformat()


def time_text(value: Json, zone: str) -> str:
    """The time of day of a moment, `09:00`."""
    when = local(value, zone)
    if not isinstance(when, datetime):
        raise EvaluationError(f"{shown(value)} is a date and has no time of day")
    return f"{when:%H:%M}"


def days_later(value: Json, amount: int, zone: str) -> str:
    """The same time of day, that many days later."""
    when = local(value, zone)
    try:
        return text_of(_same_clock(when, timedelta(days=amount)))
    except OverflowError as error:
        raise EvaluationError(f"{amount} days from {shown(value)} is outside the calendar") from error


def months_later(value: Json, amount: int, zone: str) -> str:
    """The same day of the month, that many months later; where the month is shorter, its last day.

    So 31 January + 1 month is 28 February, and going back does not return to the 31st: recurring dates are always
    counted from the first one.
    """
    when = local(value, zone)
    months = when.year * 12 + when.month - 1 + amount
    year, month = divmod(months, 12)
    if not 1 <= year <= 9999:
        raise EvaluationError(f"{amount} months from {shown(value)} is outside the calendar")
    day = min(when.day, monthrange(year, month + 1)[1])
    if isinstance(when, datetime):
        moved = when.replace(tzinfo=None, year=year, month=month + 1, day=day, fold=0)
        return text_of(_existing(moved, when))
    return text_of(when.replace(year=year, month=month + 1, day=day))


def days_between(start: Json, end: Json, zone: str) -> int:
    """Whole days of the calendar from start to end; negative when the end is earlier."""
    first, last = date.fromisoformat(date_text(start, zone)), date.fromisoformat(date_text(end, zone))
    return (last - first).days


def in_zone(value: Json, zone: str, target: str) -> str:
    """The same moment on another zone's clock."""
    when = read(value, zone)
    if not isinstance(when, datetime):
        raise EvaluationError(f"{shown(value)} is a date and has no time of day to show in another zone")
    try:
        return text_of(when.astimezone(zone_of(target)))
    except OverflowError as error:
        raise EvaluationError(f"{shown(value)} is outside the calendar") from error


def format_date(value: Json, words: list[str], zone: str, language: str = "en") -> str:
    """The date in the author's pattern, given as its `pattern_words`.

    Words: `YYYY YY` year, `MMMM MMM MM M` month, `DD D` day, `dddd ddd` weekday, `HH H` hour, `mm` minute, `ss` second.
    Other ASCII letters stand in 'single quotes'; every other sign stands for itself.
    """
    when = local(value, zone)
    if not isinstance(when, datetime) and any(word in ("HH", "H", "mm", "ss") for word in words):
        raise EvaluationError(f"{shown(value)} is a date and has no time of day")
    return "".join(_written(word, when, language) for word in words)


def pattern_words(pattern: str, language: str = "en") -> list[str]:
    """The pattern in its parts. Raises EvaluationError for a letter that stands for nothing."""
    if language not in LANGUAGES:
        raise EvaluationError(f'format_date knows the languages {", ".join(LANGUAGES)}, not "{language}"')
    words = [match[0] for match in _WORD.finditer(pattern)]
    for word in words:
        if word == "'" or (word[0].isascii() and word[0].isalpha() and word not in _PARTS):
            raise EvaluationError(
                f'"{word}" stands for nothing in a date pattern: use YYYY MM DD HH mm ss, '
                "and 'single quotes' around words"
            )
    return words


_PARTS: Mapping[str, str] = {
    "YYYY": "{0.year:04}",
    "YY": "{0:%y}",
    "MM": "{0:%m}",
    "M": "{0.month}",
    "DD": "{0:%d}",
    "D": "{0.day}",
    "HH": "{0:%H}",
    "H": "{0.hour}",
    "mm": "{0:%M}",
    "ss": "{0:%S}",
    **dict.fromkeys(("MMMM", "MMM", "dddd", "ddd"), ""),
}


def _written(word: str, when: date | datetime, language: str) -> str:
    if word.startswith("'"):
        return word[1:-1]
    if word[0] == "M" and len(word) > 2:
        name = _MONTHS[when.month - 1] if language == "en" else f"{when.month}月"
        return name[:3] if len(word) == 3 else name
    if word[0] == "d":
        short, whole = _DAYS[language]
        return (short if len(word) == 3 else whole).split()[when.weekday()]
    return _PARTS.get(word, word).format(when)


def _same_clock(when: date | datetime, step: timedelta) -> date | datetime:
    if not isinstance(when, datetime):
        return when + step
    return _existing(when.replace(tzinfo=None, fold=0) + step, when)


def _existing(clock: datetime, model: datetime) -> datetime:
    """The clock time in the model's zone; a time that the change to summer time skips is taken after the jump."""
    return clock.replace(tzinfo=model.tzinfo).astimezone(UTC).astimezone(model.tzinfo)
