"""A run goes by the business calendar of its version, holidays and all, whatever people.yaml says later."""

from __future__ import annotations

from pathlib import Path

from runner.core.place import Place
from runner.core.state import State
from runner.language.bundle import Bundle, restore
from runner.language.calendar import Calendar
from runner.language.project import Project
from runner.language.versions import changes

CALENDAR = "calendars:\n  tokyo: { zone: Asia/Tokyo, holidays: JP }\n"
FLOW = "flow: it\ntitle: It\nowner: person:me\nsteps:\n  - { id: pause, wait: 2 WORD }\n"
AT = 1_789_693_200_000
"""18 September 2026, 10:00 in Tokyo; the 21st to the 23rd are holidays."""


def bundle(folder: Path, people: str = CALENDAR, word: str = "business days") -> Bundle:
    (folder / "flows").mkdir(parents=True)
    (folder / "amends.yaml").write_text("zone: Asia/Tokyo\n", encoding="utf-8")
    (folder / "people.yaml").write_text(people, encoding="utf-8")
    (folder / "flows" / "it.yaml").write_text(FLOW.replace("WORD", word), encoding="utf-8")
    return Project.open(folder).bundle("it")


def tomorrow(made: Bundle) -> object:
    """The next business day, as an expression of the flow says it."""
    place = Place(bundle=made, state=State(), step=made.flow.steps[0], path="pause", now=AT)
    return place.value("${{ today() | add_business_days(1) }}", {})


def test_the_calendar_is_part_of_the_version(tmp_path: Path) -> None:
    made = bundle(tmp_path / "a")
    again = restore(made.digest, made.texts)
    assert again.working == made.working != Calendar(zone="Asia/Tokyo")
    assert tomorrow(again) == "2026-09-24"
    bare = bundle(tmp_path / "b", people="posts: {}\n")
    assert (bare.working, tomorrow(bare)) == (Calendar(zone="Asia/Tokyo"), "2026-09-21")
    assert [each.text for each in changes(bare, made)] == ["The business calendar changed."]


def test_a_flow_that_knows_no_business_days_pins_none(tmp_path: Path) -> None:
    assert "calendar" not in bundle(tmp_path / "a", word="days").texts
