"""people.yaml: who is who. People, posts (a chair, not a face) and teams, and whether somebody can be reached.

Names in flows are `person:aya` (a person or a post) and `team:finance`; `person:me` is whoever starts a run from the
terminal, and the only name that is valid without a people file.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from runner.errors import Problem
from runner.language.clauses import DurationText, Model, Name, Sentence, Who, duration, given, optional, required
from runner.language.fitting import fit
from runner.language.flow import Duration
from runner.language.nearest import did_you_mean
from runner.language.source import Path, Source, read
from runner.language.zones import zone_fault

ME = "person:me"
_ADDRESS = re.compile(r"^[^@\s<>,;]+@[^@\s<>,;]+$")
_HOURS = re.compile(r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-4]):[0-5]\d$")

WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CHANGE = re.compile(
    rf"every (?:(day|weekday|{'|'.join(WEEK)})|(last|[1-9]|1\d|2[0-8])(?:st|nd|rd|th)? day of the month)"
    r" at ([01]\d|2[0-3]):([0-5]\d)"
)
"""When a rota changes: on some weekday, or on a day that every month has."""

Language = Literal["en", "ja", "zh-TW"]


def checked(holds: Callable[[str], object], sentence: str) -> AfterValidator:
    """Refuses a text for which `holds` is no or raises ValueError; the sentence names it as {}."""

    def check(text: str) -> str:
        try:
            if holds(text):
                return text
        except ValueError:
            pass
        raise ValueError(sentence.format(f'"{text}"'))

    return AfterValidator(check)


@lru_cache(maxsize=64)
def _has_holidays(country: str) -> bool:
    # Loaded by name: it costs a fifth of a second, and most projects name no country.
    known: bool = importlib.import_module("runner.language.holidays").is_known(country)
    return known


def _checked_zone(text: str) -> str:
    fault = zone_fault(text)
    if fault:
        raise ValueError(fault)
    return text


AddressText = Annotated[str, checked(_ADDRESS.match, "{} is not a mail address; it is written name@example.test")]
DateText = Annotated[str, checked(date.fromisoformat, "{} is not a date; it is written year-month-day: 2026-09-24")]
HoursText = Annotated[
    str,
    checked(lambda text: _HOURS.match(text) and text[:5] < text[6:], "{} are not hours; they are written 09:00-18:00"),
]
ChangeText = Annotated[
    str,
    checked(
        CHANGE.fullmatch,
        "{} is not when a rota changes; it is written every monday at 09:00, every weekday at 09:00, or every 1st day "
        "of the month at 09:00",
    ),
]
CountryText = Annotated[
    str,
    Field(pattern=r"^[A-Z]{2}(-[A-Z0-9]{1,3})?$"),
    checked(_has_holidays, "no holidays are known for {}; a country is written JP, a part of one DE-BY"),
]
ZoneText = Annotated[str, AfterValidator(_checked_zone)]


class SecretModel(Model, title="secret", spoken="a secret"):
    """A value that is kept outside of the files, named here."""

    secret: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = required("Its name in .env.", "TOM_SLACK_URL")


class PersonModel(Model, title="person", spoken="a person"):
    """One person."""

    name: Sentence = required("As people read it.", "Aya Sato")
    mail: AddressText = optional("Where mail reaches them.", "aya@acme.example")
    language: Language = optional("For pages and mails.", "ja")
    manager: Name = optional("A person.", "tom")
    chat: SecretModel = optional("Where a chat message reaches them.", {"secret": "TOM_SLACK_URL"})
    role: Literal["viewer", "author", "approver", "operator", "admin"] = optional("What they may do.", "approver")


class DutyModel(Model, title="on_duty", spoken="on_duty"):
    """Who of a team is told, in turn."""

    change: ChangeText = required("When the next one takes over.", "every monday at 09:00")
    order: list[Name] = required("In this order.", ["aya", "tom"], min_length=1)


class TeamModel(Model, title="team", spoken="a team"):
    """A team."""

    members: list[Name] = required("People or posts.", ["aya", "tom"])
    on_duty: DutyModel = optional(
        "Left out, all members are told.", {"change": "every monday at 09:00", "order": ["aya"]}
    )
    answer_within: DurationText = optional("Silence is passed on after this.", "4 business hours")
    escalate_to: list[Who] = optional("To these, in this order.", ["person:cfo"])


class AwayModel(Model, title="away", spoken="an absence"):
    """Somebody is away."""

    who: Name = required("A person.", "aya")
    from_: DateText = required("First day.", "2026-09-24", alias="from")
    to: DateText = required("Last day.", "2026-09-30")
    instead: Name = required("Who answers meanwhile.", "tom")


class CalendarModel(Model, title="calendar", spoken="a calendar"):
    """Business days and hours."""

    zone: ZoneText = required("A region name.", "Asia/Tokyo")
    days: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] = optional(
        "Working days.", ["mon", "tue"], min_length=1
    )
    hours: HoursText = optional("Working hours.", "09:00-18:00")
    holidays: CountryText = optional("A country.", "JP")


class PeopleModel(Model, title="People", spoken="people.yaml"):
    """people.yaml: people, posts, teams, absences, calendars."""

    people: dict[Name, PersonModel] = optional("Used as person:aya.", {"aya": {"name": "Aya Sato"}})
    posts: dict[Name, Name] = optional("A chair, not a face; used as person:cfo.", {"cfo": "tom"})
    teams: dict[Name, TeamModel] = optional("Used as team:finance.", {"finance": {"members": ["aya"]}})
    away: list[AwayModel] = optional(
        "Who is away.", [{"who": "aya", "from": "2026-09-24", "to": "2026-09-30", "instead": "tom"}]
    )
    calendars: dict[Name, CalendarModel] = optional("The first is the default.", {"tokyo": {"zone": "Asia/Tokyo"}})


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """One person. `chat` is the name of the secret that holds the address, or empty."""

    id: str
    name: str
    mail: str = ""
    language: str = ""
    manager: str = ""
    chat: str = ""
    role: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """A team. `escalate_to` are names as flows write them."""

    id: str
    members: tuple[str, ...]
    on_duty: tuple[str, ...] = ()
    change: str = ""
    answer_within: Duration | None = None
    escalate_to: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Away:
    """Somebody is away from one day to another, both included (ISO dates)."""

    who: str
    first: str
    last: str
    instead: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkingHours:
    """A calendar as written: zone, days (mon …), hours (from, to) and the holidays' country or empty."""

    zone: str
    days: tuple[str, ...] = ("mon", "tue", "wed", "thu", "fri")
    hours: tuple[str, str] = ("09:00", "18:00")
    holidays: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class People:
    """Everybody. `has_file` is False where there is no people.yaml: then `person:me` is the only name."""

    people: Mapping[str, Person] = field(default_factory=dict)
    posts: Mapping[str, str] = field(default_factory=dict)
    teams: Mapping[str, Team] = field(default_factory=dict)
    away: tuple[Away, ...] = ()
    calendars: Mapping[str, WorkingHours] = field(default_factory=dict)
    has_file: bool = False

    def resolve(self, name: str) -> tuple[Person, ...]:
        """The people behind `team:finance`, `person:aya`, `person:cfo` or `person:me`; empty for a name nobody has."""
        kind, _, key = name.partition(":")
        if name == ME:
            return (Person(id="me", name="whoever started the run"),)
        if kind == "team" and key in self.teams:
            found = [self._person(member) for member in self.teams[key].members]
            return tuple({person.id: person for person in found if person is not None}.values())
        person = self._person(key) if kind == "person" else None
        return (person,) if person is not None else ()

    def reachable(self, name: str) -> str:
        """Empty if somebody behind this name can be told, else the reason why not, as a sentence without a stop."""
        if name == ME:
            return ""
        if not self.has_file:
            return f"{name} is nobody: there is no people.yaml, so person:me is the only name"
        kind, _, key = name.partition(":")
        known = self.teams if kind == "team" else {**self.people, **self.posts}
        if key not in known:
            return f'there is no {kind} "{key}" in people.yaml'
        found = self.resolve(name)
        if not found:
            return f"{name} has no members" if kind == "team" else f"{name} is a post that nobody holds"
        if not any(person.mail or person.chat for person in found):
            return f"nobody of {name} has an address" if kind == "team" else f"{name} has no address (mail or chat)"
        return ""

    def names(self) -> tuple[str, ...]:
        """Every name a flow may use."""
        people = [f"person:{key}" for key in (*self.people, *self.posts)]
        return (ME, *people, *(f"team:{key}" for key in self.teams))

    def _person(self, key: str) -> Person | None:
        return self.people.get(self.posts.get(key, key))


def load_people(text: str, file: str) -> tuple[People, Source | None, tuple[Problem, ...]]:
    """Reads people.yaml. The people are there as far as they could be read; all problems come back."""
    source, problems = read(text, file)
    if source is None or source.data is None:
        return People(has_file=True), source, problems
    fitted = fit(PeopleModel, source, forms={}, fill={})
    if fitted.model is None:
        return People(has_file=True), source, (*problems, *fitted.problems)
    people = _people(fitted.model)
    found = [*problems, *fitted.problems, *_strangers(people, source)]
    return people, source, tuple(sorted(found, key=lambda one: (one.line, one.column)))


def _people(model: Any) -> People:
    return People(
        people={key: _person(key, one) for key, one in (model.people or {}).items()},
        posts=dict(model.posts or {}),
        teams={key: _team(key, one) for key, one in (model.teams or {}).items()},
        away=tuple(Away(who=one.who, first=one.from_, last=one.to, instead=one.instead) for one in model.away or ()),
        calendars={key: _hours(one) for key, one in (model.calendars or {}).items()},
        has_file=True,
    )


def _person(key: str, model: Any) -> Person:
    chat = model.chat.secret if model.chat is not None else ""
    return Person(id=key, name=model.name, chat=chat, **given(model, "mail", "language", "manager", "role"))


def _team(key: str, model: Any) -> Team:
    duty = model.on_duty
    return Team(
        id=key,
        members=tuple(model.members),
        on_duty=tuple(duty.order) if duty is not None else (),
        change=duty.change if duty is not None else "",
        answer_within=duration(model.answer_within) if model.answer_within else None,
        escalate_to=tuple(model.escalate_to or ()),
    )


def _hours(model: Any) -> WorkingHours:
    written: dict[str, Any] = {"days": tuple(model.days)} if model.days else {}
    if model.hours:
        written["hours"] = tuple(model.hours.split("-"))
    return WorkingHours(zone=model.zone, **written, **given(model, "holidays"))


def _strangers(people: People, source: Source) -> Iterator[Problem]:
    """Names in people.yaml that nobody in people.yaml has, and answers that go nowhere."""
    persons = _written(source, "people")
    everybody = persons | _written(source, "posts")
    for path, name, known in _named(people, persons, everybody):
        if name not in known:
            offered = people.people if path[0] == "posts" else known
            hint = did_you_mean(name, offered, "people")
            yield source.problem("FL006", path, f'there is no person "{name}" in this file', hint)
    for key in people.posts:
        if key in people.people:
            what, hint = f'"{key}" is a person already', "give the post another name"
            yield source.problem("FL006", ("posts", key), what, hint, on="key")
    for team in people.teams.values():
        here: Path = ("teams", team.id)
        for index, name in enumerate(team.on_duty):
            if name in everybody and name not in team.members:
                what = f'"{name}" is on duty and not a member of team:{team.id}'
                yield source.problem("FL006", (*here, "on_duty", "order", index), what)
        for index, name in enumerate(team.escalate_to):
            why = people.reachable(name)
            told_already = name.partition(":")[2] in everybody and not people.resolve(name)
            if why and not told_already:
                yield source.problem("FL301", (*here, "escalate_to", index), why)
    yield from _absences(people, source)


def _absences(people: People, source: Source) -> Iterator[Problem]:
    for number, away in enumerate(people.away):
        if people.posts.get(away.instead, away.instead) == away.who:
            what = f'"{away.instead}" cannot stand in for themselves'
            yield source.problem("FL006", ("away", number, "instead"), what)
        if away.last < away.first:
            what = f"the last day {away.last} is before the first, {away.first}"
            yield source.problem("FL006", ("away", number, "to"), what)


def _named(
    people: People, persons: frozenset[str], everybody: frozenset[str]
) -> Iterator[tuple[Path, str, frozenset[str]]]:
    """Every place where somebody is named: (path, name, the names that may stand there)."""
    for key, person in people.people.items():
        if person.manager:
            yield ("people", key, "manager"), person.manager, everybody
    for key, holder in people.posts.items():
        yield ("posts", key), holder, persons
    for team in people.teams.values():
        for place, names in ((("members",), team.members), (("on_duty", "order"), team.on_duty)):
            for index, name in enumerate(names):
                yield ("teams", team.id, *place, index), name, everybody
    for number, away in enumerate(people.away):
        yield ("away", number, "who"), away.who, everybody
        yield ("away", number, "instead"), away.instead, everybody


def _written(source: Source, part: str) -> frozenset[str]:
    """Who is named there, also where what stands behind the name could not be read."""
    written = source.data.get(part)
    return frozenset(written) if isinstance(written, dict) else frozenset()
