"""Durations and business calendars, over weekends, holidays and summer time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.language.calendar import Calendar, after, business_day, half_way
from runner.language.clauses import duration as parse_duration
from runner.language.flow import Duration

TOKYO = Calendar(zone="Asia/Tokyo")
BERLIN = Calendar(zone="Europe/Berlin")


def at(text: str, zone: str = "Asia/Tokyo") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def ends(start: str, duration: str, calendar: Calendar = TOKYO, by: Callable[..., int] = after) -> str:
    found = by(at(start, calendar.zone), parse_duration(duration), calendar)
    return datetime.fromtimestamp(found / 1000, tz=UTC).astimezone(ZoneInfo(calendar.zone)).strftime("%a %m-%d %H:%M")


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("30 s", 30, "s"),
        ("1 second", 1, "s"),
        ("10 min", 10, "min"),
        ("10 minutes", 10, "min"),
        ("1 hour", 1, "hour"),
        ("4 hours", 4, "hour"),
        ("1 day", 1, "day"),
        ("2 weeks", 2, "week"),
        ("2 business days", 2, "business_day"),
        ("1 business day", 1, "business_day"),
        ("4 business hours", 4, "business_hour"),
        ("250 ms", 250, "ms"),
        ("0 s", 0, "s"),
        (" 5s ", 5, "s"),
    ],
)
def test_durations_are_read(text: str, amount: int, unit: str) -> None:
    found = parse_duration(text)
    assert (found.amount, found.unit) == (amount, unit)


@pytest.mark.parametrize(
    "text", ["soon", "1.5 hours", "-1 day", "", "2 month", "3 dys", "3 fortnights", "9" * 5000 + " s", "٣ days"]
)
def test_what_is_no_duration_gets_a_sentence(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == (
        f'"{text}" is not a duration; '
        "a duration is a number and a unit: 30 s, 10 min, 4 hours, 1 day, 2 weeks, 2 business days"
    )


@pytest.mark.parametrize(
    ("start", "duration", "end"),
    [
        ("2026-09-04T17:00", "90 s", "Fri 09-04 17:01"),
        ("2026-09-04T17:00", "1 week", "Fri 09-11 17:00"),
        ("2026-09-04T17:00", "2 business days", "Tue 09-08 17:00"),
        ("2026-09-05T12:00", "2 business days", "Wed 09-09 09:00"),
        ("2026-09-04T20:00", "1 business day", "Tue 09-08 09:00"),
        ("2026-09-04T18:00", "1 business day", "Tue 09-08 09:00"),
        ("2026-09-04T17:59", "1 business day", "Mon 09-07 17:59"),
        ("2026-09-04T07:00", "1 business day", "Mon 09-07 09:00"),
        ("2026-09-05T12:00", "0 business days", "Mon 09-07 09:00"),
        ("2026-09-04T10:00", "0 business days", "Fri 09-04 10:00"),
        ("2026-09-04T16:00", "4 business hours", "Mon 09-07 11:00"),
        ("2026-09-04T16:00", "2 business hours", "Fri 09-04 18:00"),
        ("2026-09-06T16:00", "1 business hour", "Mon 09-07 10:00"),
        ("2026-09-04T09:00", "20 business hours", "Tue 09-08 11:00"),
    ],
)
def test_business_time_ends_when_people_expect_it(start: str, duration: str, end: str) -> None:
    assert ends(start, duration) == end


@pytest.mark.parametrize(
    ("start", "duration", "half"),
    [
        ("2026-09-04T17:00", "2 business days", "Mon 09-07 17:00"),  # a Friday
        ("2026-09-04T20:00", "2 business days", "Tue 09-08 09:00"),
        ("2026-09-04T10:00", "1 business day", "Fri 09-04 14:30"),
        ("2026-09-04T16:00", "1 business day", "Mon 09-07 11:30"),
        ("2026-09-04T16:00", "4 business hours", "Mon 09-07 09:00"),
        ("2026-09-04T20:00", "4 hours", "Fri 09-04 22:00"),
    ],
)
def test_half_of_the_time_is_of_the_same_kind(start: str, duration: str, half: str) -> None:
    assert ends(start, duration, by=half_way) == half


def test_holidays_do_not_count() -> None:
    calendar = Calendar(zone="Asia/Tokyo", holidays=frozenset({date(2026, 9, 7), date(2026, 9, 8)}))
    assert ends("2026-09-04T17:00", "1 business day", calendar) == "Wed 09-09 17:00"
    assert ends("2026-09-04T17:00", "2 business hours", calendar) == "Wed 09-09 10:00"
    assert business_day(date(2026, 9, 9), -1, calendar) == date(2026, 9, 4)


def test_summer_time_moves_a_plain_day_and_not_a_business_day() -> None:
    assert ends("2026-03-27T10:00", "3 days", BERLIN) == "Mon 03-30 11:00"
    assert ends("2026-03-27T10:00", "1 business day", BERLIN) == "Mon 03-30 10:00"
    assert ends("2026-10-23T17:00", "2 business hours", BERLIN) == "Mon 10-26 10:00"


def test_a_local_time_that_does_not_exist_is_taken_after_the_jump() -> None:
    night = Calendar(zone="Europe/Berlin", days=frozenset(range(7)), hours=(0, 1440))
    assert ends("2026-03-28T02:30", "1 business day", night) == "Sun 03-29 03:30"


def test_calendars_that_never_open_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one weekday"):
        Calendar(days=frozenset())
    with pytest.raises(ValueError, match="end after they begin"):
        Calendar(hours=(600, 600))
    years = frozenset(
        date.fromordinal(day) for day in range(date(2026, 1, 1).toordinal(), date(2038, 1, 1).toordinal())
    )
    with pytest.raises(ValueError, match="no business day within ten years"):
        after(at("2026-09-04T10:00"), parse_duration("1 business day"), Calendar(holidays=years))


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1_700_000_000_000, 2_000_000_000_000),
    st.integers(0, 60),
    st.sampled_from(["business_day", "business_hour"]),
    st.sampled_from([TOKYO, BERLIN, Calendar(zone="America/New_York", hours=(480, 1020))]),
)
def test_business_time_never_ends_early_and_grows(start: int, amount: int, unit: str, calendar: Calendar) -> None:
    one = after(start, Duration(amount=amount, unit=unit), calendar)  # type: ignore[arg-type]
    more = after(start, Duration(amount=amount + 1, unit=unit), calendar)  # type: ignore[arg-type]
    assert start <= one < more
    local = datetime.fromtimestamp(one / 1000, tz=UTC).astimezone(ZoneInfo(calendar.zone))
    assert calendar.is_open_on(local.date())
    assert calendar.hours[0] <= local.hour * 60 + local.minute <= calendar.hours[1]
