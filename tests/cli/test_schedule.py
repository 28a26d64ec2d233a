"""`amends schedule`: the next slots, told without an engine."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.cases.processes import amends, serving
from tests.cli.terminal import Terminal

FLOW = """flow: {name}
title: What is due each day
owner: person:me
mode: live
run_key: ${{{{ trigger.id }}}}
trigger:
{trigger}
steps:
  - id: made
    do: records.create
    with: {{ collection: days, number: one }}
    compensate: cancel
"""
DAILY = "  - schedule: every day at 02:30\n  - cron: '*/10 * * * *'\n    zone: Asia/Tokyo\n    overlap: queue\n"


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "110")
    (tmp_path / "flows").mkdir()
    (tmp_path / "amends.yaml").write_text("project: shop\nzone: Europe/Berlin\n", encoding="utf-8")
    return Terminal(tmp_path, capsys)


def write(terminal: Terminal, name: str, trigger: str) -> None:
    text = FLOW.format(name=name, trigger=trigger)
    (terminal.folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")


def test_the_next_slots_are_told_in_words_and_as_json(terminal: Terminal) -> None:
    write(terminal, "daily", DAILY)
    write(terminal, "other", "  manual: true\n")
    said = terminal.type("schedule", "next")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert [lines[0], lines[6]] == ["daily: every day at 02:30 (Europe/Berlin)", "daily: */10 * * * * (Asia/Tokyo)"]
    assert len(lines) == 12
    daily, often = json.loads(terminal.type("schedule", "next", "daily", "--count", "3", "--json").out)
    slots = [datetime.fromisoformat(text) for text in daily["next"]]
    assert [f"{slot:%H:%M}" in ("02:30", "03:00") for slot in slots] == [True] * 3
    assert all(0 < slot.timestamp() - time.time() <= 25 * 3600 * number for number, slot in enumerate(slots, 1))
    at = slots[0]
    assert lines[1].startswith(f"  {at:%A} {at.day} {at:%B} {at:%Y}, {at:%H:%M} {daily['next'][0][-6:]}")
    assert often["next"][0].endswith("0:00+09:00")
    listed = terminal.type("schedule", "list").out.splitlines()
    assert [line.split()[0] for line in listed] == ["flow", "daily", "daily"]
    assert " latest  skip     " in listed[1]
    assert " latest  queue    " in listed[2]


def test_a_flow_with_problems_is_named_and_the_others_are_told(terminal: Terminal) -> None:
    write(terminal, "daily", DAILY)
    write(terminal, "wrong", "  - schedule: every day at 25:00\n")
    said = terminal.type("schedule", "list")
    assert said.err == "flows/wrong.yaml has problems (`amends check flows/wrong.yaml`): it starts nothing by itself\n"
    assert len(said.out.splitlines()) == 3


async def test_serve_says_what_fires_and_a_last_good_version_goes_on(terminal: Terminal) -> None:
    write(terminal, "daily", DAILY)
    async with serving(terminal.folder) as process:
        assert process.stdout is not None
        said = [(await process.stdout.readline()).decode() for _ in range(4)]
        assert [line.split(",")[0] for line in said if line.startswith("Fires")] == ["Fires by itself: daily"] * 2
        write(terminal, "daily", "  - schedule: every day at 25:00\n")
        code, out, err = await amends(terminal.folder, "schedule", "list", "--json")
        assert process.stderr is not None
        warned = (await process.stderr.readline()).decode()
    assert (code, [each["schedule"] for each in json.loads(out)]) == (0, ["every day at 02:30", "*/10 * * * *"])
    assert err == "flows/daily.yaml has problems (`amends check flows/daily.yaml`): its last good version is on\n"
    assert 'daily: flows/daily.yaml:7: "every day at 25:00" is not a time that can be read' in warned


def test_where_there_is_none_that_is_said(terminal: Terminal) -> None:
    write(terminal, "other", "  manual: true\n")
    assert terminal.type("schedule", "next").err == "No flow here has a schedule.\n"
    assert terminal.type("schedule", "next", "other").err == "The flow other has no schedule.\n"
    assert terminal.type("schedule", "next", "--json").out == "[]\n"
    said = terminal.type("schedule", "next", "othr")
    assert (said.code, said.err) == (2, 'amends: there is no flow "othr"; did you mean "other"?\n')
