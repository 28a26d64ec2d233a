"""The outline and the chart of a flow word for word, and what its picture holds."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from runner.cli import run_command
from runner.cli import show as command
from runner.core.state import State, StepState, UndoState
from runner.drawing.measure import lines, width
from runner.drawing.outline import mermaid, outline
from runner.drawing.states import states_of
from runner.drawing.svg import drawing, inline
from runner.tongue import speaking
from tests.drawing.flows import TITLES, plan, project

OUTLINE = """\
新しいお客様の申込みから入金確認、発送、そして半年後のご案内までを最初から最後まで一つの流れで行う長い題名
middle · draft · owner: person:me
It begins with: form signup

look [read] Reads one record of ours: records.get
go [approve] Asks: 金額 {inputs.amount} 円の入金を確認し、お客様に正式な契約書と請求書をお送りしてもよろしいですか。問題があれば差し戻してください。
    asks person:aya / team:finance, 2 business days
    2 people must say yes
    then person:tom too
    for: one, inner_two
second [approve] Asks: And the second?
    asks person:tom, 2 business days
    for: inner_two
one [keyed] Adds a record to one of our own tables: records.create
    needs the yes of go
    if a later step fails: mark it for a person: records.update; asks team:finance before
size [choose] One of these ways
    if inputs.amount > 100000:
        inner_one [keyed] Adds a record to one of our own tables: records.create
            if a later step fails: set it aside: quarantine: notes
        inner_two_with_a_name_that_is_much_longer_than_others [keyed] Adds a record to one of our own tables: records.create
            if a later step fails: left as it is: 這筆紀錄留著也不會造成任何影響，之後有空再整理就好，不需要另外通知任何人，也不必補做。
    otherwise:
        inner_two [keyed] Adds a record to one of our own tables: records.create
            needs the yes of go, second
            if a later step fails: a person decides: team:finance; Compare both amounts.
both [parallel] At the same time
    stock:
        reserve [keyed] Adds a record to one of our own tables: records.create
            if a later step fails: cancel it: records.delete
    mail:
        told [emit] Sends the event order.ready
lines [each] For each of inputs.lines
        line [keyed] Adds a record to one of our own tables: records.create
            only if item.quantity_that_was_ordered > 0 and item.quantity_in_stock >= item.quantity_that_was_ordered
            if a later step fails: cancel it: records.delete

If a step fails, what was done is made good, the newest first. team:finance is told. Then the flow small runs.
read: changes nothing
keyed: a call that is repeated counts once"""

CHART = """\
---
title: "三步驟：登記並通知採購"
---
flowchart TB
    start(["It begins with: manual"])
    s_note["note (keyed)<br>Adds a record to one of our own tables<br>records.create"]
    start --> s_note
    s_note -.-> u_note["cancel it<br>records.delete"]:::undo
    s_rest["rest (wait)<br>Waits 2 business days"]
    s_note --> s_rest
    s_unsaid["unsaid (keyed)<br>Adds a record to one of our own tables<br>records.create"]
    s_rest --> s_unsaid
    classDef undo stroke-dasharray: 4 3
    classDef branch stroke-width: 0px
"""


def test_the_outline(tmp_path: Path) -> None:
    assert outline(plan(tmp_path, "middle")) == OUTLINE


def test_the_chart(tmp_path: Path) -> None:
    assert mermaid(plan(tmp_path, "small")) == CHART
    chart = mermaid(plan(tmp_path, "large"))
    assert chart.count("subgraph ") == chart.count("\n    end") == 3
    assert "    s_second -. yes .-> s_inner_two\n" in chart
    assert '        b5["if inputs.amount &gt; 100000"]:::branch\n        s_size --> b5\n' in chart


@pytest.mark.parametrize("name", TITLES)
def test_the_picture_holds_every_step_and_what_makes_it_good(name: str, tmp_path: Path) -> None:
    shown = plan(tmp_path, name)
    whole = ET.fromstring(drawing(shown))
    assert whole.attrib["role"] == "img"
    assert whole.attrib["aria-label"] == f"The flow {TITLES[name]} as a picture"
    said = [text.text for text in whole.iter("{http://www.w3.org/2000/svg}text") if text.attrib["class"] == "id"]
    assert [text.rstrip("…") for text in said if text] == [
        row.step[: len(text.rstrip("…"))]
        for row, text in zip([row for row in shown.rows if row.step], said, strict=True)
        if text
    ]
    good = [
        part for part in whole.iter("{http://www.w3.org/2000/svg}g") if part.attrib["class"] in ("good", "left", "bare")
    ]
    assert len(good) == sum(row.verb == "do" for row in shown.rows)
    rails = [part for part in whole.iter("{http://www.w3.org/2000/svg}circle") if part.attrib["class"] == "dot"]
    assert len(rails) == sum(len(row.covers) for row in shown.rows)


def test_two_approvals_have_rails_of_their_own(tmp_path: Path) -> None:
    picture = drawing(plan(tmp_path, "middle"))
    assert set(re.findall(r'class="rail r\d" d="M[\d.]+ [\d.]+H([\d.]+)V', picture)) == {"7.0", "20.0"}


def test_what_people_wrote_cannot_leave_its_place(tmp_path: Path) -> None:
    picture = inline(plan(tmp_path, "large"), link=lambda row: f'"><script>{row.line}')
    assert "<script>" not in picture
    assert "&lt;until&gt;" in picture


def test_the_picture_speaks_the_reader_s_language(tmp_path: Path) -> None:
    with speaking("ja"):
        assert "後のステップが失敗したとき" in drawing(plan(tmp_path, "small"))


def test_how_far_a_run_is(tmp_path: Path) -> None:
    [checked] = project(tmp_path).check("large")
    assert checked.flow is not None
    steps = {
        "look": StepState(status="found"), "go": StepState(), "one": StepState(status="done"),
        "size": StepState(status="skipped"), "reserve": StepState(status="done"),
        "lines/1/line": StepState(status="done"), "lines/2/line": StepState(status="refused"),
        "called": StepState(status="done"), "called/note": StepState(status="failed"),
    }  # fmt: skip
    state = State(steps=steps, undo={"one": UndoState(status="done"), "reserve": UndoState(status="handed_off")})
    states = states_of(checked.flow, state)
    assert states == {
        "look": "done", "go": "waiting", "one": "undone", "size": "skipped", "reserve": "failed", "line": "failed",
        "called": "done",
    }  # fmt: skip
    picture = inline(plan(tmp_path, "large"), states=states)
    assert picture.count('class="chiptext state"') == len(states)
    assert '<g class="approve is-waiting">' in picture
    assert states_of(checked.flow, replace(state, status="stopped"))["go"] == "skipped"


def test_lines_are_broken_where_they_may_be() -> None:
    assert lines("one two three", width("one two", 12) + 1, 12) == ["one two", "three"]
    assert lines("one two three four", width("one two", 12) + 1, 12) == ["one two", "three…"]
    assert lines("金額を確認し、お送りします。", 72, 12, 3) == ["金額を確認", "し、お送りし", "ます。"], (
        "no comma begins a line"
    )
    assert lines("", 100, 12) == []
    assert lines("abcdef", 1, 12) == ["a", "b…"], "no room at all"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_command(["show", "middle"]) == 0
    assert capsys.readouterr().out == f"{OUTLINE}\n"
    assert run_command(["show", "small", "--svg", "small.svg", "--mermaid", "-"]) == 0
    assert capsys.readouterr().out == f"small.svg\n{CHART}"
    assert (tmp_path / "small.svg").read_text(encoding="utf-8") == drawing(plan(tmp_path, "small"))
    assert run_command(["show", "smal"]) == 2
    assert capsys.readouterr().err == 'amends: there is no flow "smal"; did you mean "small"?\n'
    monkeypatch.setattr(command, "BROWSERS", ())
    assert run_command(["show", "small", "--png", "small.png"]) == 2
    assert capsys.readouterr().err == (
        "amends: a picture in pixels needs Chromium or Chrome, and none is on this computer: write it with --svg, which "
        "every browser shows\n"
    )
