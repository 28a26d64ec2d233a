"""Who is on duty, who stands in, what business days are: over weeks, months, zones and changes to summer time."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from runner.language.calendar import Calendar, after
from runner.language.duty import calendar_of, chain, on_duty, told
from runner.language.flow import Duration
from runner.language.people import Away, People, Person, Team, WorkingHours


def ms(text: str, zone: str = "Asia/Tokyo") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def rota(change: str, *order: str) -> Team:
    return Team(id="ops", members=order or ("a", "b", "c"), on_duty=order or ("a", "b", "c"), change=change)


def turns(team: Team, zone: str, *moments: str) -> str:
    """Who is on duty at these moments, the first of them called A, whoever comes next B …"""
    first = team.on_duty.index(on_duty(team, ms(moments[0], zone), zone))
    order = team.on_duty[first:] + team.on_duty[:first]
    return "".join("ABC"[order.index(on_duty(team, ms(moment, zone), zone))] for moment in moments)


@pytest.mark.parametrize(
    ("change", "zone", "moments", "expected"),
    [
        # Weeks change on Monday at nine, neither before nor at midnight.
        ("every monday at 09:00", "Asia/Tokyo",
         "2026-09-07T09:00 2026-09-13T23:59 2026-09-14T08:59 2026-09-14T09:00 2026-09-21T09:00 2026-09-28T09:00", "AAABCA"),
        # Over New Year and a leap day.
        ("every friday at 18:30", "Asia/Tokyo",
         "2027-12-31T18:30 2028-01-07T18:29 2028-01-07T18:30 2028-02-25T18:30 2028-03-03T18:30", "AABCA"),
        ("every day at 00:00", "Asia/Tokyo", "2026-12-30T12:00 2026-12-31T00:00 2026-12-31T23:59 2027-01-01T00:00", "ABBC"),
        # Friday's turn lasts over the weekend.
        ("every weekday at 09:00", "Asia/Tokyo",
         "2026-09-10T09:00 2026-09-11T09:00 2026-09-12T10:00 2026-09-13T10:00 2026-09-14T08:59 2026-09-14T09:00", "ABBBBC"),
        ("every 1st day of the month at 09:00", "Asia/Tokyo",
         "2026-11-30T09:00 2026-12-01T08:59 2026-12-01T09:00 2027-01-01T09:00 2027-02-01T09:00", "AABCA"),
        ("every last day of the month at 18:00", "Asia/Tokyo",
         "2028-02-28T18:00 2028-02-29T17:59 2028-02-29T18:00 2028-03-31T18:00 2028-04-30T18:00", "AABCA"),
        # The clock is put forward over 02:30, so the change comes with the jump; put back, it comes once.
        ("every sunday at 02:30", "Europe/Berlin",
         "2026-03-28T12:00 2026-03-29T01:59 2026-03-29T03:00 2026-04-04T23:00", "AABB"),
        ("every sunday at 02:30", "Europe/Berlin",
         "2026-10-24T12:00 2026-10-25T01:59 2026-10-25T02:30 2026-10-25T03:30 2026-10-31T12:00", "AABBB"),
    ],
)  # fmt: skip
def test_whose_turn_it_is(change: str, zone: str, moments: str, expected: str) -> None:
    assert turns(rota(change), zone, *moments.split()) == expected


def test_a_rota_follows_the_clock_of_its_zone() -> None:
    team, at = rota("every monday at 09:00", "a", "b"), ms("2026-09-14T09:00", "Asia/Tokyo")
    assert on_duty(team, at, "Asia/Tokyo") != on_duty(team, at, "Europe/Berlin")
    assert on_duty(team, at - 1, "Asia/Tokyo") == on_duty(team, at, "Europe/Berlin")


def people(*away: Away) -> People:
    return People(
        people={name: Person(id=name, name=name.upper(), mail=f"{name}@acme.test") for name in "abcd"},
        posts={"chief": "d"},
        teams={"ops": rota("every monday at 09:00", "a", "b"), "all": Team(id="all", members=("a", "c", "chief"))},
        away=away,
        has_file=True,
    )


def away(who: str, instead: str, first: str = "2026-09-01", last: str = "2026-09-30") -> Away:
    return Away(who=who, first=first, last=last, instead=instead)


@pytest.mark.parametrize(
    ("name", "absent", "expected"),
    [
        ("team:all", (), "acd"),
        ("person:chief", (), "d"),
        ("person:nobody", (), ""),
        ("person:a", (away("a", "b"),), "b"),
        ("person:a", (away("a", "b", "2026-09-08"),), "a"),
        ("person:a", (away("a", "b", last="2026-09-06"),), "a"),
        ("person:a", (away("a", "b", "2026-09-07", "2026-09-07"),), "b"),
        ("person:a", (away("a", "b"), away("b", "chief")), "d"),
        ("person:a", (away("a", "b"), away("b", "a")), "a"),
        ("team:all", (away("a", "c"),), "cd"),
        ("person:chief", (away("d", "a"),), "a"),
    ],
)
def test_who_stands_in(name: str, absent: tuple[Away, ...], expected: str) -> None:
    found = told(people(*absent), name, ms("2026-09-07T12:00"), "Asia/Tokyo")
    assert "".join(person.id for person in found) == expected


def test_only_whoever_is_on_duty_is_told_and_whoever_stands_in() -> None:
    at = ms("2026-09-07T12:00")
    [first] = told(people(), "team:ops", at, "Asia/Tokyo")
    assert [one.id for one in told(people(away(first.id, "c")), "team:ops", at, "Asia/Tokyo")] == ["c"]


def test_an_absence_is_counted_in_local_days() -> None:
    absent, at = people(away("a", "b", "2026-09-24", "2026-09-24")), ms("2026-09-24T00:30", "Asia/Tokyo")
    assert [told(absent, "person:a", at, zone)[0].id for zone in ("Asia/Tokyo", "Europe/Berlin")] == ["b", "a"]


def test_who_comes_next_when_there_is_silence() -> None:
    staff = People(
        people={"a": Person(id="a", name="A", manager="b"), "b": Person(id="b", name="B")},
        teams={"ops": Team(id="ops", members=("a",), escalate_to=("person:b", "team:ops", "person:root"))},
        has_file=True,
    )
    assert chain(staff, "team:ops", "person:root") == ("person:b", "person:root")
    assert chain(staff, "person:a", "person:root") == ("person:b", "person:root")
    assert chain(staff, "person:b", "") == ()
    assert chain(staff, "person:me", "person:root") == ()


def test_business_days_leave_holidays_out() -> None:
    tokyo = calendar_of(People(calendars={"tokyo": WorkingHours(zone="Asia/Tokyo", holidays="JP")}), "UTC")
    # 21 to 23 September 2026 are holidays in Japan; the 19th and 20th are a weekend.
    start, two = ms("2026-09-18T10:00"), Duration(amount=2, unit="business_day")
    assert after(start, two, tokyo) == ms("2026-09-25T10:00")
    assert after(start, two, Calendar(zone="Asia/Tokyo")) == ms("2026-09-22T10:00")
    assert after(ms("2026-12-31T17:00"), Duration(amount=2, unit="business_hour"), tokyo) == ms("2027-01-04T10:00")


def test_without_a_calendar_the_project_s_zone_has_usual_hours() -> None:
    assert calendar_of(People(), "Asia/Tokyo") == Calendar(zone="Asia/Tokyo")
    berlin = WorkingHours(zone="Europe/Berlin", days=("sun", "tue"), hours=("08:30", "24:00"), holidays="DE-BY")
    made = calendar_of(People(calendars={"one": berlin}), "UTC")
    assert (made.zone, made.days, made.hours) == ("Europe/Berlin", frozenset({1, 6}), (510, 1440))
    assert Calendar.of_json(made.as_json()) == made
