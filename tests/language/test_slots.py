"""Slots: the table of daylight changes, month ends and cron lines, each expectation worked out by hand.

The changes of 2026. Berlin: 29 March 02:00 +01 to 03:00 +02; 25 October 03:00 +02 to 02:00 +01. New York: 8 March
02:00 -05 to 03:00 -04; 1 November 02:00 -04 to 01:00 -05. Santiago: 4 April 24:00 -03 to 23:00 -04; 6 September 00:00
-04 to 01:00 -03. Lord Howe: 5 April 02:00 +11 to 01:30 +10:30; 4 October 02:00 +10:30 to 02:30 +11. Sydney: 5 April
03:00 +11 to 02:00 +10; 4 October 02:00 +10 to 03:00 +11. Tokyo: none. Each of these days is a Sunday but 4 April.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from runner.language.slots import (
    NoSchedule,
    Schedule,
    read_cron,
    read_words,
    schedule_of,
    slots_after,
    slots_back,
    timed,
)


def slots_between(rule: Schedule, zone: str, after: int, until: int) -> list[int]:
    """Its slots later than `after`, up to `until` and at it."""
    return list(takewhile(lambda at: at <= until, slots_after(rule, zone, after)))


TABLE = """
Europe/Berlin | every day at 02:30 | 03-27 12:00+01 | 03-28 02:30+01, 03-29 03:00+02, 03-30 02:30+02
Europe/Berlin | every day at 02:00 | 03-27 12:00+01 | 03-28 02:00+01, 03-29 03:00+02, 03-30 02:00+02
Europe/Berlin | every day at 00:00 | 03-27 12:00+01 | 03-28 00:00+01, 03-29 00:00+01, 03-30 00:00+02, 03-31 00:00+02
Europe/Berlin | every day at 00:30 | 03-28 12:00+01 | 03-29 00:30+01, 03-30 00:30+02, 03-31 00:30+02
Europe/Berlin | every day at 03:00 | 03-28 12:00+01 | 03-29 03:00+02, 03-30 03:00+02
Europe/Berlin | every day at 02:30 | 03-29 03:00+02 | 03-30 02:30+02
Europe/Berlin | every day at 02:30 | 03-29 01:59+01 | 03-29 03:00+02, 03-30 02:30+02
Europe/Berlin | every sunday at 02:30 | 03-23 12:00+01 | 03-29 03:00+02, 04-05 02:30+02
Europe/Berlin | every monday at 00:00 | 03-24 00:00+01 | 03-30 00:00+02, 04-06 00:00+02
Europe/Berlin | every weekday at 09:00 | 03-27 08:59+01 | 03-27 09:00+01, 03-30 09:00+02, 03-31 09:00+02
Europe/Berlin | 30 2 * * * | 03-28 12:00+01 | 03-29 03:00+02, 03-30 02:30+02
Europe/Berlin | 0,30 2 * * * | 03-28 02:10+01 | 03-28 02:30+01, 03-29 03:00+02, 03-30 02:00+02, 03-30 02:30+02
Europe/Berlin | 0 2,3 * * * | 03-28 12:00+01 | 03-29 03:00+02, 03-30 02:00+02, 03-30 03:00+02
Europe/Berlin | 0 * * * * | 03-29 00:00+01 | 03-29 01:00+01, 03-29 03:00+02, 03-29 04:00+02
Europe/Berlin | 30 * * * * | 03-29 00:30+01 | 03-29 01:30+01, 03-29 03:30+02, 03-29 04:30+02
Europe/Berlin | every 15 min | 03-29 01:30+01 | 03-29 01:45+01, 03-29 03:00+02, 03-29 03:15+02
Europe/Berlin | every 2 hours | 03-28 23:00+01 | 03-29 00:00+01, 03-29 03:00+02, 03-29 04:00+02, 03-29 06:00+02
Europe/Berlin | 0 */2 * * * | 03-28 23:00+01 | 03-29 00:00+01, 03-29 03:00+02, 03-29 04:00+02, 03-29 06:00+02
Europe/Berlin | */20 2 * * * | 03-28 02:40+01 | 03-29 03:00+02, 03-30 02:00+02, 03-30 02:20+02, 03-30 02:40+02
Europe/Berlin | 0 0 29 3 * | 01-01 00:00+01 | 03-29 00:00+01, 2027-03-29 00:00+02
Europe/Berlin | every last day of the month at 02:30 | 2024-03-01 12:00+01 | 2024-03-31 03:00+02, 2024-04-30 02:30+02
Europe/Berlin | every day at 02:30 | 10-24 12:00+02 | 10-25 02:30+02, 10-26 02:30+01, 10-27 02:30+01
Europe/Berlin | every day at 02:30 | 10-25 02:30+02 | 10-26 02:30+01
Europe/Berlin | every day at 02:30 | 10-25 02:15+01 | 10-26 02:30+01
Europe/Berlin | every day at 02:30 | 10-25 02:30+01 | 10-26 02:30+01
Europe/Berlin | every day at 02:00 | 10-24 12:00+02 | 10-25 02:00+02, 10-26 02:00+01
Europe/Berlin | every day at 03:00 | 10-24 12:00+02 | 10-25 03:00+01, 10-26 03:00+01
Europe/Berlin | 30 2 * * * | 10-24 12:00+02 | 10-25 02:30+02, 10-26 02:30+01
Europe/Berlin | 30 2 * * * | 10-25 02:00+01 | 10-26 02:30+01
Europe/Berlin | 0 * * * * | 10-25 01:00+02 | 10-25 02:00+02, 10-25 02:00+01, 10-25 03:00+01
Europe/Berlin | every 30 min | 10-25 02:00+02 | 10-25 02:30+02, 10-25 02:00+01, 10-25 02:30+01, 10-25 03:00+01
Europe/Berlin | every 2 hours | 10-24 23:00+02 | 10-25 00:00+02, 10-25 02:00+02, 10-25 04:00+01
Europe/Berlin | 0,30 1-3 * * * | 10-25 01:00+02 | 10-25 01:30+02, 10-25 02:00+02, 10-25 02:30+02, 10-25 03:00+01, 10-25 03:30+01, 10-26 01:00+01
Europe/Berlin | every sunday at 02:30 | 10-19 12:00+02 | 10-25 02:30+02, 11-01 02:30+01
Europe/Berlin | every 25th day of the month at 02:30 | 10-01 12:00+02 | 10-25 02:30+02, 11-25 02:30+01
Europe/Berlin | every last day of the month at 02:30 | 2027-10-01 12:00+02 | 2027-10-31 02:30+02, 2027-11-30 02:30+01

America/New_York | every day at 02:30 | 03-07 12:00-05 | 03-08 03:00-04, 03-09 02:30-04
America/New_York | every day at 02:59 | 03-07 12:00-05 | 03-08 03:00-04, 03-09 02:59-04
America/New_York | every monday at 00:00 | 03-03 12:00-05 | 03-09 00:00-04, 03-16 00:00-04
America/New_York | 15 * * * * | 03-08 00:15-05 | 03-08 01:15-05, 03-08 03:15-04, 03-08 04:15-04
America/New_York | every 45 min | 03-08 00:45-05 | 03-08 01:30-05, 03-08 03:00-04, 03-08 03:45-04
America/New_York | 0 2 * * sun | 03-02 12:00-05 | 03-08 03:00-04, 03-15 02:00-04
America/New_York | every day at 01:30 | 10-31 12:00-04 | 11-01 01:30-04, 11-02 01:30-05
America/New_York | every day at 01:30 | 11-01 01:00-05 | 11-02 01:30-05
America/New_York | every 1st day of the month at 01:00 | 10-02 12:00-04 | 11-01 01:00-04, 12-01 01:00-05
America/New_York | */30 * * * * | 11-01 01:30-04 | 11-01 01:00-05, 11-01 01:30-05, 11-01 02:00-05
America/New_York | every 90 min | 11-01 00:00-04 | 11-01 01:30-04, 11-01 03:00-05, 11-01 04:30-05
America/New_York | every day at 02:00 | 10-31 12:00-04 | 11-01 02:00-05, 11-02 02:00-05
America/New_York | 30 0-23/2 * * * | 10-31 23:00-04 | 11-01 00:30-04, 11-01 02:30-05, 11-01 04:30-05
America/New_York | every 30th day of the month at 09:00 | 01-30 10:00-05 | 03-30 09:00-04, 04-30 09:00-04

America/Santiago | every day at 23:30 | 04-03 12:00-03 | 04-03 23:30-03, 04-04 23:30-03, 04-05 23:30-04
America/Santiago | every day at 23:30 | 04-04 23:10-04 | 04-05 23:30-04
America/Santiago | every day at 00:00 | 04-03 12:00-03 | 04-04 00:00-03, 04-05 00:00-04, 04-06 00:00-04
America/Santiago | 0 * * * * | 04-04 22:00-03 | 04-04 23:00-03, 04-04 23:00-04, 04-05 00:00-04
America/Santiago | 0 * * * 6 | 04-04 22:00-03 | 04-04 23:00-03, 04-04 23:00-04, 04-11 00:00-04
America/Santiago | every saturday at 23:00 | 03-30 12:00-03 | 04-04 23:00-03, 04-11 23:00-04
America/Santiago | every day at 00:00 | 09-04 12:00-04 | 09-05 00:00-04, 09-06 01:00-03, 09-07 00:00-03
America/Santiago | every day at 00:30 | 09-05 12:00-04 | 09-06 01:00-03, 09-07 00:30-03
America/Santiago | every sunday at 00:00 | 08-31 12:00-04 | 09-06 01:00-03, 09-13 00:00-03
America/Santiago | */30 * * * 0 | 09-05 12:00-04 | 09-06 01:00-03, 09-06 01:30-03
America/Santiago | 0 0,1 * * * | 09-05 12:00-04 | 09-06 01:00-03, 09-07 00:00-03, 09-07 01:00-03
America/Santiago | every 2 hours | 09-05 22:00-04 | 09-06 01:00-03, 09-06 02:00-03, 09-06 04:00-03
America/Santiago | every 6th day of the month at 00:15 | 08-07 12:00-04 | 09-06 01:00-03, 10-06 00:15-03

Australia/Lord_Howe | every day at 01:45 | 04-04 12:00+11 | 04-05 01:45+11, 04-06 01:45+10:30
Australia/Lord_Howe | every day at 01:45 | 04-05 01:30+10:30 | 04-06 01:45+10:30
Australia/Lord_Howe | every day at 02:00 | 04-04 12:00+11 | 04-05 02:00+10:30, 04-06 02:00+10:30
Australia/Lord_Howe | every 15 min | 04-05 01:30+11 | 04-05 01:45+11, 04-05 01:30+10:30, 04-05 01:45+10:30, 04-05 02:00+10:30
Australia/Lord_Howe | 0 * * * * | 04-05 00:00+11 | 04-05 01:00+11, 04-05 02:00+10:30, 04-05 03:00+10:30
Australia/Lord_Howe | 30 * * * * | 04-05 00:30+11 | 04-05 01:30+11, 04-05 01:30+10:30, 04-05 02:30+10:30
Australia/Lord_Howe | every day at 02:15 | 10-03 12:00+10:30 | 10-04 02:30+11, 10-05 02:15+11
Australia/Lord_Howe | every day at 02:30 | 10-03 12:00+10:30 | 10-04 02:30+11, 10-05 02:30+11
Australia/Lord_Howe | 0,30 2 * * * | 10-03 12:00+10:30 | 10-04 02:30+11, 10-05 02:00+11, 10-05 02:30+11
Australia/Lord_Howe | 0 * * * * | 10-04 00:00+10:30 | 10-04 01:00+10:30, 10-04 03:00+11, 10-04 04:00+11
Australia/Lord_Howe | every 15 min | 10-04 01:30+10:30 | 10-04 01:45+10:30, 10-04 02:30+11, 10-04 02:45+11

Australia/Sydney | every day at 02:30 | 04-04 12:00+11 | 04-05 02:30+11, 04-06 02:30+10
Australia/Sydney | every day at 02:30 | 04-05 02:00+10 | 04-06 02:30+10
Australia/Sydney | 0 2 5 * * | 04-01 12:00+11 | 04-05 02:00+11, 05-05 02:00+10
Australia/Sydney | every 30 min | 04-05 02:00+11 | 04-05 02:30+11, 04-05 02:00+10, 04-05 02:30+10, 04-05 03:00+10
Australia/Sydney | every day at 02:30 | 10-03 12:00+10 | 10-04 03:00+11, 10-05 02:30+11
Australia/Sydney | every sunday at 02:05 | 09-28 12:00+10 | 10-04 03:00+11, 10-11 02:05+11
Australia/Sydney | 59 1-3 * * * | 10-04 01:00+10 | 10-04 01:59+10, 10-04 03:00+11, 10-04 03:59+11

Asia/Tokyo | every day at 02:30 | 03-28 12:00+09 | 03-29 02:30+09, 03-30 02:30+09
Asia/Tokyo | every weekday at 09:00 | 10-23 12:00+09 | 10-26 09:00+09, 10-27 09:00+09
Asia/Tokyo | 0 9 * * 1-5 | 10-23 12:00+09 | 10-26 09:00+09, 10-27 09:00+09
Asia/Tokyo | 0 9 * * 0 | 03-28 12:00+09 | 03-29 09:00+09, 04-05 09:00+09
Asia/Tokyo | 0 9 * * 7 | 03-28 12:00+09 | 03-29 09:00+09, 04-05 09:00+09
Asia/Tokyo | 0 9 * jan-mar mon | 03-24 12:00+09 | 03-30 09:00+09, 2027-01-04 09:00+09
Asia/Tokyo | 5/20 9 * * * | 03-28 12:00+09 | 03-29 09:05+09, 03-29 09:25+09, 03-29 09:45+09
Asia/Tokyo | every 15 min | 12-31 23:40+09 | 12-31 23:45+09, 2027-01-01 00:00+09
Asia/Tokyo | every 7 min | 12-31 23:50+09 | 12-31 23:55+09, 2027-01-01 00:00+09, 2027-01-01 00:07+09
Asia/Tokyo | every 5 hours | 03-28 19:00+09 | 03-28 20:00+09, 03-29 00:00+09, 03-29 05:00+09
Asia/Tokyo | every 24 hours | 03-28 19:00+09 | 03-29 00:00+09, 03-30 00:00+09
Asia/Tokyo | every last day of the month at 17:00 | 2028-01-31 17:00+09 | 2028-02-29 17:00+09, 2028-03-31 17:00+09, 2028-04-30 17:00+09
Asia/Tokyo | every last day of the month at 17:00 | 01-31 17:00+09 | 02-28 17:00+09, 03-31 17:00+09
Asia/Tokyo | every 31st day of the month at 18:00 | 01-31 18:00+09 | 03-31 18:00+09, 05-31 18:00+09, 07-31 18:00+09, 08-31 18:00+09
Asia/Tokyo | every 29th day of the month at 09:00 | 01-30 09:00+09 | 03-29 09:00+09, 04-29 09:00+09
Asia/Tokyo | 0 9 29 2 * | 01-01 00:00+09 | 2028-02-29 09:00+09, 2032-02-29 09:00+09
Asia/Tokyo | 0 9 29 2 * | 2096-03-01 00:00+09 | 2104-02-29 09:00+09
"""
ROWS = [tuple(part.strip() for part in line.split("|")) for line in TABLE.splitlines() if line]
ZONES = sorted({row[0] for row in ROWS})


def at_of(text: str) -> int:
    """`03-29 03:00+02` (of 2026) or `2027-03-29 03:00+02:00` in ms."""
    day, clock = text.split()
    sign = max(clock.find("+"), clock.find("-"))
    whole = f"{day if len(day) == 10 else f'2026-{day}'}T{clock if ':' in clock[sign:] else f'{clock}:00'}"
    return round(datetime.fromisoformat(whole).timestamp() * 1000)


def expected_of(row: tuple[str, ...]) -> list[int]:
    return [at_of(text.strip()) for text in row[3].split(",")] if row[1] else []


def schedule(text: str) -> Schedule:
    return schedule_of({"schedule" if text.startswith("every") else "cron": text})


def local(slots: list[int], zone: str) -> list[str]:
    return [f"{datetime.fromtimestamp(at / 1000, tz=ZoneInfo(zone)):%Y-%m-%d %H:%M%z}" for at in slots]


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_a_row_of_the_table(row: tuple[str, ...]) -> None:
    zone, said, start, _ = row
    expected, found = expected_of(row), schedule(said)
    assert local(list(islice(slots_after(found, zone, at_of(start)), len(expected))), zone) == local(expected, zone)
    assert slots_between(found, zone, at_of(start), expected[-1]) == expected
    assert list(islice(slots_back(found, zone, expected[-1]), len(expected))) == expected[::-1]


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_a_row_with_a_restart_after_every_slot(row: tuple[str, ...]) -> None:
    zone, said, start, _ = row
    for lag in (0, 1, 59_999):
        after, found = at_of(start), []
        for _ in expected_of(row):
            found.append(next(slots_after(schedule(said), zone, after)))
            after = found[-1] + lag
        assert found == expected_of(row)


def test_the_table_is_wide_enough() -> None:
    assert len(ROWS) >= 60
    assert len(ZONES) == 6
    assert len({said for _, said, *_ in ROWS if not said.startswith("every")}) >= 20


def test_times_taken_as_they_stand_would_fail_the_table() -> None:
    """The usual mistake: the day's time with the zone put on it, nothing moved, nothing shown twice."""
    wrong = 0
    for row in ROWS:
        zone, said, start, _ = row
        found, region = schedule(said), ZoneInfo(zone)
        first = datetime.fromtimestamp(at_of(start) / 1000, tz=region)
        days = (datetime.combine(first.date() + timedelta(days=n), time(), tzinfo=region) for n in range(60))
        moments = [
            (day + timedelta(minutes=minute)).astimezone(UTC)
            for day in days if found.falls_on(day.date()) for minute in found.minutes
        ]  # fmt: skip
        after = [round(at.timestamp() * 1000) for at in moments if at > first.astimezone(UTC)]
        wrong += after[: len(expected_of(row))] != expected_of(row)
    assert wrong >= 20


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("said", ["every 15 min", "every 90 min", "every day at 02:30", "0,30 0-3 * * *", "0 23 * * 6"])
def test_back_is_forward_turned_round(said: str, zone: str) -> None:
    start, end = at_of("03-01 00:00+00"), at_of("11-15 00:00+00")
    slots = slots_between(schedule(said), zone, start, end)
    assert slots == sorted(set(slots))
    assert list(islice(slots_back(schedule(said), zone, end), len(slots))) == slots[::-1]


@pytest.mark.parametrize("zone", ZONES)
def test_a_daily_time_has_one_slot_for_each_day(zone: str) -> None:
    """Whatever the clock does: 365 days, 365 slots, for every half hour."""
    start, end = at_of("2026-01-01 00:00+00"), at_of("2027-01-01 00:00+00")
    for minute in range(0, 24 * 60, 30):
        daily = read_words(f"every day at {minute // 60:02}:{minute % 60:02}")
        assert len(slots_between(daily, zone, start, end)) == 365


def test_a_slot_says_which_time_was_skipped() -> None:
    twice = timed({"cron": "0,30 2 * * *", "zone": "Europe/Berlin"}, "UTC")
    spring = next(twice.after(at_of("03-29 00:00+01")))
    assert twice.told(spring) == "Sunday 29 March 2026, 03:00 +02:00 (the clock skips 02:00, 02:30)"
    assert twice.told(next(twice.after(at_of("10-25 00:00+02")))) == "Sunday 25 October 2026, 02:00 +02:00"
    often = timed({"schedule": "every 15 min"}, "Europe/Berlin")
    assert often.told(at_of("03-29 03:00+02")) == "Sunday 29 March 2026, 03:00 +02:00"


def test_a_trigger_says_what_it_does_not_say() -> None:
    plain = timed({"schedule": "every day at 09:00"}, "Asia/Tokyo")
    assert (str(plain), plain.missed, plain.overlap) == ("every day at 09:00 (Asia/Tokyo)", "latest", "skip")


def test_a_day_that_a_region_left_out() -> None:
    """Samoa had no 30 December 2011: its slot comes when the next day begins."""
    daily = read_words("every day at 09:00")
    found = list(islice(slots_after(daily, "Pacific/Apia", at_of("2011-12-29 12:00-10")), 2))
    assert local(found, "Pacific/Apia") == ["2011-12-31 00:00+1400", "2011-12-31 09:00+1400"]


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("every 31st day of the month at 18:00", ("February", "April", "June", "September", "November")),
        ("every 30th day of the month at 18:00", ("February",)),
        ("0 9 15,31 1-4 *", ("February", "April")),
        ("0 9 29 * *", ("February in three years of four",)),
        ("every last day of the month at 18:00", ()),
        ("every day at 18:00", ()),
        ("0 9 28 * *", ()),
        ("0 9 31 1,3 *", ()),
    ],
)
def test_months_without_such_a_day_are_named(text: str, months: tuple[str, ...]) -> None:
    assert schedule(text).left_out == months


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("every day", "is not a time that can be read"),
        ("every day at 24:00", "is not a time that can be read"),
        ("every 32nd day of the month at 09:00", "is not a time that can be read"),
        ("every 0th day of the month at 09:00", "is not a time that can be read"),
        ("daily at 09:00", "is not a time that can be read"),
        ("every 0 min", "never comes"),
        ("every 48 hours", "is longer than a day"),
    ],
)
def test_other_words_are_no_schedule(text: str, sentence: str) -> None:
    with pytest.raises(NoSchedule, match=sentence) as fault:
        read_words(text)
    assert fault.value.hint


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0 9 * *", "has 4 fields"),
        ("@daily", "has 1 fields"),
        ("60 9 * * *", '"60" is no minute'),
        ("0 9 * * 8", '"8" is no weekday'),
        ("0 9 * * 5-1", '"5-1" is no weekday'),
        ("0 9 * * *-5", '"*-5" is no weekday'),
        ("*/0 9 * * *", '"*/0" is no minute'),
        ("0 9 1 * 1", "a day of the month and a weekday are both named"),
        ("0 9 30 2 *", "never comes"),
        ("0 9 31 4,6 *", "never comes"),
        ("0 9 L * *", '"L" is no day'),
    ],
)
def test_a_cron_line_that_surprises_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(NoSchedule) as fault:
        read_cron(text)
    assert sentence in str(fault.value)
