"""people.yaml: who is behind a name, and who can be reached."""

from __future__ import annotations

import pytest

from runner.language.flow import Duration
from runner.language.people import Away, People, Team, WorkingHours, load_people
from runner.language.problems import render_all

WHOLE = """people:
  aya: { name: 佐藤 綾, mail: aya@acme.example, language: ja, manager: tom, role: approver }
  tom: { name: Tom Ito, mail: tom@acme.example, language: en, chat: { secret: TOM_SLACK_URL }, role: admin }
posts:
  cfo: tom
teams:
  finance:
    members: [aya, cfo]
    on_duty: { change: every monday at 09:00, order: [aya, cfo] }
    answer_within: 4 business hours
    escalate_to: [person:cfo]
away:
  - { who: aya, from: 2026-09-24, to: 2026-09-30, instead: tom }
calendars:
  tokyo: { zone: Asia/Tokyo, days: [mon, tue, wed, thu, fri], hours: 09:00-18:00, holidays: JP }
"""


def people_of(text: str) -> People:
    people, _, problems = load_people(text, "people.yaml")
    assert not problems, render_all(problems, text)
    return people


def told(text: str) -> list[str]:
    return [
        f"{one.code} {one.line}:{one.column} {one.what} | {one.hint}" for one in load_people(text, "people.yaml")[2]
    ]


def test_the_whole_file_is_read() -> None:
    people = people_of(WHOLE)
    assert people.people["tom"].chat == "TOM_SLACK_URL"
    assert people.teams["finance"] == Team(
        id="finance",
        members=("aya", "cfo"),
        on_duty=("aya", "cfo"),
        change="every monday at 09:00",
        answer_within=Duration(amount=4, unit="business_hour"),
        escalate_to=("person:cfo",),
    )
    assert people.away == (Away(who="aya", first="2026-09-24", last="2026-09-30", instead="tom"),)
    assert people.calendars["tokyo"] == WorkingHours(zone="Asia/Tokyo", holidays="JP")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("person:aya", ["aya"]),
        ("person:cfo", ["tom"]),
        ("team:finance", ["aya", "tom"]),
        ("person:me", ["me"]),
        ("person:bob", []),
        ("team:bobs", []),
        ("aya", []),
    ],
)
def test_a_name_stands_for_people(name: str, found: list[str]) -> None:
    assert [person.id for person in people_of(WHOLE).resolve(name)] == found


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("person:me", ""),
        ("person:aya", ""),
        ("person:cfo", ""),
        ("team:finance", ""),
        ("person:bob", 'there is no person "bob" in people.yaml'),
        ("team:bobs", 'there is no team "bobs" in people.yaml'),
        ("team:empty", "team:empty has no members"),
        ("team:silent", "nobody of team:silent has an address"),
        ("person:mute", "person:mute has no address (mail or chat)"),
    ],
)
def test_who_can_be_reached(name: str, why: str) -> None:
    text = WHOLE.replace("posts:", "  mute: { name: M }\nposts:").replace(
        "away:", "  empty: { members: [] }\n  silent: { members: [mute] }\naway:"
    )
    assert people_of(text).reachable(name) == why


def test_without_a_file_there_is_only_whoever_starts_the_run() -> None:
    people = People()
    assert people.reachable("person:me") == ""
    assert people.reachable("team:x") == "team:x is nobody: there is no people.yaml, so person:me is the only name"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("manager: tom", "manager: tim", 'FL006 2:69 there is no person "tim" in this file | did you mean "tom"?'),
        ("cfo: tom", "cfo: tim", 'FL006 5:8 there is no person "tim" in this file | did you mean "tom"?'),
        ("cfo: tom", "cfo: tom\n  aya: tom", 'FL006 6:3 "aya" is a person already | give the post another name'),
        ("members: [aya, cfo]", "members: [cfo]", 'FL006 9:55 "aya" is on duty and not a member of team:finance | '),
        ("order: [aya, cfo]", "order: [aya, zoe]", 'FL006 9:60 there is no person "zoe" in this file | people: aya, cfo, tom'),
        ("[person:cfo]", "[team:no]", 'FL301 11:19 there is no team "no" in people.yaml | '),
        ("instead: tom", "instead: zoe", 'FL006 13:60 there is no person "zoe" in this file | people: aya, cfo, tom'),
        ("to: 2026-09-30", "to: 2026-09-01", "FL006 13:39 the last day 2026-09-01 is before the first, 2026-09-24 | "),
        ("2026-09-24", "2026-02-30", 'FL006 13:23 "2026-02-30" is not a date | it is written year-month-day: 2026-09-24'),
        ("aya@acme.example", "aya", 'FL006 2:28 "aya" is not a mail address | it is written name@example.test'),
        ("language: ja", "language: jp", 'FL006 2:56 "language" cannot be "jp" | it is one of: en, ja, zh-TW'),
        ("Asia/Tokyo", "Asia/Tokio", 'FL006 15:18 "Asia/Tokio" is not the zone of a region | did you mean "Asia/Tokyo"?'),
        ("09:00-18:00", "18:00-09:00", 'FL006 15:70 "18:00-09:00" are not hours | they are written 09:00-18:00'),
        ("role: admin", "rool: admin", 'FL003 3:96 "rool" is not a key of a person | did you mean "role"?'),
        ("name: Tom Ito, ", "", 'FL005 3:8 a person has no "name" | for example name: Aya Sato'),
        ("{ secret: TOM_SLACK_URL }", "https://chat.example", 'FL006 3:69 "chat" needs a map (lines of key: value), not the text "https://chat.example"'),
        ("every monday at 09:00", "every 31st day of the month at 09:00", 'FL006 9:24 "every 31st day of the month at 09:00" is not when a rota changes | it is written every monday'),
        ("holidays: JP", "holidays: XX", 'FL006 15:93 no holidays are known for "XX" | a country is written JP, a part of one DE-BY'),
        ("instead: tom", "instead: aya", 'FL006 13:60 "aya" cannot stand in for themselves | '),
        ("4 business hours", "soon", 'FL006 10:20 "soon" is not a duration'),
    ],
)  # fmt: skip
def test_a_mistake_is_told(old: str, new: str, expected: str) -> None:
    assert old in WHOLE
    found = told(WHOLE.replace(old, new))
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_a_file_that_cannot_be_read_leaves_nobody() -> None:
    people, source, problems = load_people("people: {", "people.yaml")
    assert source is None
    assert people.has_file
    assert [one.code for one in problems] == ["FL004"]
    assert load_people("", "people.yaml")[2] == ()
