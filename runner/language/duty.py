"""Who is told at one moment: whoever of a team is on duty, and those who stand in for people who are away. Pure.

A rota changes at its times on the clock of the zone. Whose turn it is follows from the calendar alone: its turns are
counted through from 1 January of the year 1, so every reader comes to the same answer, and what was is not remembered.
"""

from __future__ import annotations

import importlib
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from runner.language.calendar import Calendar
from runner.language.people import CHANGE, ME, WEEK, People, Person, Team, WorkingHours

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def on_duty(team: Team, at: int, zone: str) -> str:
    """Whose turn it is in a team with a rota, as people.yaml names them. `at` is ms since the epoch."""
    found = CHANGE.fullmatch(team.change)
    if found is None:
        return team.on_duty[0]
    local = _local(at, zone)
    day = local.date() - timedelta(days=(local.hour, local.minute) < (int(found[3]), int(found[4])))
    return team.on_duty[_turns(found[1] or "", found[2] or "", day) % len(team.on_duty)]


def _turns(word: str, of_month: str, day: date) -> int:
    """How many changes there have been up to the end of that day."""
    if of_month:
        due = (date(day.year + day.month // 12, day.month % 12 + 1, 1) - timedelta(days=1)).day
        due = due if of_month == "last" else int(of_month)
        return day.year * 12 + day.month - (day.day < due)
    if word == "day":
        return day.toordinal()
    weeks, weekday = divmod(day.toordinal() - 1, 7)
    if word == "weekday":
        return weeks * 5 + min(weekday, 4)
    return weeks - (weekday < WEEK.index(word))


def told(people: People, name: str, at: int, zone: str) -> tuple[Person, ...]:
    """The people who are told for `team:finance` or `person:cfo` at that moment; empty for a name nobody has."""
    kind, _, key = name.partition(":")
    team = people.teams.get(key) if kind == "team" else None
    meant = f"person:{on_duty(team, at, zone)}" if team is not None and team.on_duty else name
    return tuple(dict.fromkeys(_instead_of(people, person, at, zone) for person in people.resolve(meant)))


def _instead_of(people: People, person: Person, at: int, zone: str) -> Person:
    """Who answers for this person then, who may be away. Where all who stand in are away too, it is the person."""
    today, seen, first = _local(at, zone).date().isoformat(), {person.id}, person
    while True:
        instead = next(
            (one.instead for one in people.away if one.who == person.id and one.first <= today <= one.last), ""
        )
        if not instead:
            return person
        person = next(iter(people.resolve(f"person:{instead}")), first)
        if person.id in seen:
            return first
        seen.add(person.id)


def chain(people: People, owner: str, admin: str) -> tuple[str, ...]:
    """Who is told next when this owner is silent, in order; the admin of the project last."""
    kind, _, key = owner.partition(":")
    if owner == ME:
        return ()
    team = people.teams.get(key) if kind == "team" else None
    person = next(iter(people.resolve(owner)), None) if kind == "person" else None
    next_ones = team.escalate_to if team is not None else ()
    if person is not None and person.manager:
        next_ones = (f"person:{person.manager}",)
    return tuple(name for name in dict.fromkeys((*next_ones, admin)) if name and name not in (owner, ME))


def calendar_of(people: People, zone: str) -> Calendar:
    """The project's business calendar: the first of people.yaml; without one, usual hours in this zone."""
    return _calendar(next(iter(people.calendars.values()), WorkingHours(zone=zone)))


@lru_cache(maxsize=16)
def _calendar(hours: WorkingHours) -> Calendar:
    opens, closes = (int(text[:2]) * 60 + int(text[3:]) for text in hours.hours)
    # Loaded by name: it costs a fifth of a second, and most projects name no country.
    free = importlib.import_module("runner.language.holidays").days(hours.holidays) if hours.holidays else ()
    return Calendar(
        zone=hours.zone, days=frozenset(DAYS.index(day) for day in hours.days), hours=(opens, closes),
        holidays=frozenset(date.fromisoformat(day) for day in free),
    )  # fmt: skip


def _local(at: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(ZoneInfo(zone))
