"""The failure table: what each row says, that every step is reached, and that an untold effect is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner import cli
from runner.drill.rows import Row
from runner.drill.table import Drill
from runner.drilling import driller_of
from runner.errors import NotPossible
from runner.language.drills import recorded
from runner.language.project import Project
from runner.telling import drilled
from tests.drill.ground import CONNECTOR, DEMO, EXAMPLES, UNDO, demo, driller
from tests.flows.stage import kinds
from tests.house import ROOT

FLOWS = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if "\nflow:" in f"\n{path.read_text()}")


@pytest.fixture(scope="module")
def table() -> Drill:
    return demo().drill()


def row_of(drill: Drill, step: str, way: str) -> Row:
    (found,) = [row for row in drill.rows if (row.step, row.way) == (step, way)]
    return found


def said(drill: Drill, step: str, way: str) -> tuple[str, str, str, str]:
    row = row_of(drill, step, way)
    line = drilled.line_of(row, is_all=True)
    return line.good, line.there, line.knows, line.end


def test_every_step_of_the_demo_fails_in_every_way(table: Drill) -> None:
    counts = {step: sum(row.step == step for row in table.rows) for step in ("plan", "contact", "task", "paid")}
    assert counts == {"plan": 6, "contact": 18, "task": 16, "paid": 9}
    assert not table.unreached
    assert not table.untold
    assert len(table.rows) == 65


@pytest.mark.parametrize(
    ("step", "way", "good", "there", "knows", "end"),
    [
        ("plan", "refused", "-", "nothing", "-", "failed"),
        ("plan", "not_found", "contact marked", "contact (marked)", "-", "compensated"),
        ("contact", "several", "-", "nothing", "asked: the starter", "needs a person"),
        ("contact", "found", "welcome corrected, task cancelled", "welcome (corrected)", "-", "compensated"),
        ("task", "refused", "contact marked", "contact (marked)", "-", "compensated"),
        ("task", "lost_happened", "-", "as the flow means it", "-", "succeeded"),
        ("welcome", "lost_did_not", "-", "contact, task, welcome?", "asked: the starter", "needs a person"),
        (
            "paid", "refused", "welcome corrected, task cancelled, contact marked",
            "contact (marked), welcome (corrected)", "-", "compensated",
        ),
        (
            "paid", "killed_did_not", "-", "contact, task, welcome, paid?", "asked: the starter", "needs a person",
        ),
        (
            "welcome", "undo_refused", "welcome NOT made good, task cancelled, contact marked",
            "contact (marked), welcome", "asked: the starter", "needs a person",
        ),
        ("paid", "stop_here", "-", "contact, task, welcome, paid", "who stopped it", "stopped"),
        (
            "paid", "stop_compensate",
            "paid by hand: the starter, welcome corrected, task cancelled, contact marked",
            "contact (marked), welcome (corrected), paid", "asked: the starter, who stopped it", "needs a person",
        ),
    ],
)  # fmt: skip
def test_a_row_says_what_is_left(
    table: Drill, step: str, way: str, good: str, there: str, knows: str, end: str
) -> None:
    assert said(table, step, way) == (good, there, knows, end)


@pytest.mark.parametrize("flow", FLOWS)
def test_no_example_leaves_an_effect_of_which_nobody_is_told(flow: str) -> None:
    found = driller_of(Project.open(EXAMPLES, kinds=kinds()), flow).drill()
    assert not [f"{row.step} {row.way}" for row in found.untold]
    assert not found.unreached


BRANCHED = f"""
inputs: {{ kind: {{ choice: [small, large] }}, count: number, urgent: yes_no }}
steps:
  - id: way
    choose:
      - when: ${{{{ inputs.kind == "large" and inputs.count > 10 }}}}
        steps:
          - {{ id: first, do: svc.make, {UNDO} }}
      - when: ${{{{ inputs.urgent }}}}
        steps:
          - {{ id: second, do: svc.more, {UNDO} }}
      - steps:
          - {{ id: third, do: svc.once, unattended: It is small., compensate: {{ none: It is small. }} }}
  - id: last
    do: svc.make
    when: ${{{{ outcome.third == "skipped" }}}}
    {UNDO}
"""


def test_values_are_found_that_lead_into_every_branch(tmp_path: Path) -> None:
    found = driller(tmp_path, BRANCHED).drill()
    assert not found.unreached
    assert {row.step for row in found.rows} == {"first", "second", "third", "last"}
    assert [drilled.situation_line(*each) for each in enumerate(found.situations)][1] == ("B: kind = large, count = 11")


def test_what_was_not_reached_is_said(tmp_path: Path) -> None:
    text = f"""
inputs: {{ name: text }}
steps:
  - id: never
    do: svc.make
    when: ${{{{ inputs.name | length == 77 }}}}
    {UNDO}
  - {{ id: always, do: svc.make, {UNDO} }}
"""
    found = driller(tmp_path, text).drill()
    assert [drilled.unreached_line(one) for one in found.unreached] == [
        "never: no made-up value makes its condition so"
    ]
    given = driller(tmp_path / "given", text).drill([("long.json", {"name": "x" * 77})])
    assert not given.unreached
    assert drilled.as_json(given)["situations"] == [{"inputs": {}, "name": "long.json", "differs": []}]


LISTED = f"""
steps:
  - {{ id: before, do: svc.make, {UNDO} }}
  - {{ id: all, read: svc.get }}
  - id: rows
    each: ${{{{ steps.all.rows }}}}
    named: ${{{{ item.n }}}}
    if_one_fails: %s
    steps:
      - {{ id: one, do: svc.make, with: {{ note: "${{{{ item.n }}}}" }}, {UNDO} }}
      - {{ id: two, do: svc.more, {UNDO} }}
"""


@pytest.mark.parametrize(
    ("words", "good", "there", "end"),
    [
        (
            "stop", "rows › one [2] cancelled, rows › two [1] cancelled, rows › one [1] cancelled, before cancelled",
            "nothing", "compensated",
        ),
        (
            "continue", "rows › one [2] cancelled",
            "before, rows › one [1], rows › two [1], rows › one [3], rows › two [3]", "needs a person",
        ),
    ],
)  # fmt: skip
def test_one_item_fails_in_the_middle(tmp_path: Path, words: str, good: str, there: str, end: str) -> None:
    found = driller(tmp_path, LISTED % words).drill()
    assert not found.unreached
    (row,) = [row for row in found.rows if (row.step, row.way, row.item) == ("rows/two", "refused", "2")]
    line = drilled.line_of(row, is_all=True)
    assert (line.good, line.there, line.end) == (good, there, end)


def test_what_a_called_flow_did_is_made_good_with_it(tmp_path: Path) -> None:
    found = driller(
        tmp_path,
        f"steps:\n  - {{ id: inner, call: called }}\n  - {{ id: last, do: svc.make, {UNDO} }}\n",
        called=f"steps:\n  - {{ id: make, do: svc.make, {UNDO} }}\n",
    ).drill()
    assert said(found, "last", "refused") == ("inner › make cancelled", "nothing", "-", "compensated")
    assert row_of(found, "inner/make", "undo_refused").after == "last"


WAITS = f"""
steps:
  - {{ id: made, do: svc.make, {UNDO} }}
  - {{ id: paid, wait_for: payment.received, match: {{ id: "${{{{ steps.made.id }}}}" }}%s }}
"""


def test_waiting_for_ever_leaves_an_effect_of_which_nobody_is_told(tmp_path: Path) -> None:
    found = driller(tmp_path, WAITS % "").drill()
    assert [(row.step, row.way) for row in found.untold] == [("paid", "never")]
    assert said(found, "paid", "never") == ("-", "made", "NOBODY", "waiting")
    assert "leaves something outside of which nobody is told" in drilled.verdict(found)
    in_time = driller(tmp_path / "within", WAITS % ", within: 3 days").drill()
    assert not in_time.untold
    assert said(in_time, "paid", "never") == ("made cancelled", "nothing", "-", "compensated")


APPROVED = f"""
steps:
  - {{ id: made, do: svc.make, {UNDO} }}
  - {{ id: go, approve: Go on?, covers: [gone], by: team:ops, within: 1 day%s }}
  - {{ id: gone, do: svc.once, compensate: {{ hand_off: team:ops, say: Look. }} }}
"""
PEOPLE = "people: { a: { name: A, mail: a@x.example }, b: { name: B, mail: b@x.example } }\nteams: { ops: { members: [a, b] } }\n"


def test_an_approval_is_refused_and_late(tmp_path: Path) -> None:
    found = driller(tmp_path, APPROVED % "", people=PEOPLE).drill()
    assert said(found, "go", "no") == ("made cancelled", "nothing", "-", "compensated")
    assert said(found, "go", "late") == ("made cancelled", "nothing", "-", "compensated")
    ended = driller(tmp_path / "ended", APPROVED % ", if_no: end", people=PEOPLE).drill()
    assert [(row.step, row.way) for row in ended.untold] == [("go", "no"), ("go", "late")]


MAILED = """
steps:
  - id: letter
    do: mail.send
    with: { to: [a@x.example, b@x.example], subject: Hello, text: Hello }
    unattended: It is a greeting.
    compensate:
      correct: mail.send
      with: { to: [a@x.example, b@x.example], subject: Sorry, text: Sorry }
      unattended: It only says so.
"""


def test_some_of_several_recipients_fail(tmp_path: Path) -> None:
    found = driller(tmp_path, MAILED).drill()
    assert said(found, "letter", "part_refused") == ("letter corrected", "letter (corrected)", "-", "compensated")
    assert said(found, "letter", "part_lost") == ("-", "letter, letter?", "asked: the starter", "needs a person")


STOPS = f"""
on_failure: {{ do: compensate, if_one_fails: stop }}
steps:
  - {{ id: one, do: svc.make, {UNDO} }}
  - {{ id: two, do: svc.make, {UNDO} }}
  - {{ id: three, do: svc.more, {UNDO} }}
"""


def test_a_compensation_that_gives_up_halts_the_rest_where_the_flow_says_so(tmp_path: Path) -> None:
    halts = driller(tmp_path, STOPS).drill()
    assert said(halts, "two", "undo_refused") == (
        "two NOT made good",
        "one, two",
        "asked: the starter",
        "needs a person",
    )
    goes_on = driller(tmp_path / "on", STOPS.replace("if_one_fails: stop", "if_one_fails: go_on")).drill()
    assert said(goes_on, "two", "undo_refused")[:2] == ("two NOT made good, one cancelled", "two")


def test_a_person_chooses_where_the_flow_is_reviewed(tmp_path: Path) -> None:
    found = driller(tmp_path, STOPS.replace("compensate, if_one_fails: stop", "review")).drill()
    assert said(found, "three", "refused") == ("-", "one, two", "asked: the starter", "needs a person")
    assert row_of(found, "two", "undo_refused").after == "stop"


def test_inputs_that_are_not_taken_are_named(tmp_path: Path) -> None:
    text = f"inputs: {{ name: text }}\nsteps:\n  - {{ id: made, do: svc.make, {UNDO} }}\n"
    with pytest.raises(NotPossible, match="give some: --inputs FILE"):
        driller(tmp_path, text).drill([("wrong.json", {"nane": "x"})])


def test_the_table_says_the_same_each_time() -> None:
    assert demo().drill().rows == demo().drill().rows


def test_the_readme_shows_the_table_as_it_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    shutil.copytree(DEMO, tmp_path / "demo")
    html = tmp_path / "drill.html"
    words = ["--project", str(tmp_path / "demo"), "drill", "signup_to_paid", "--record", "--html", str(html)]
    assert cli.run_command(words) == 0
    printed = capsys.readouterr().out
    block = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("```text\nsignup_to_paid: ")[2].partition("\n```")[0]
    )
    head, _, last = f"signup_to_paid: {block}\n".partition(" paid ")
    assert printed.startswith(head.rpartition("\n")[0])
    assert printed.endswith(head.rpartition("\n")[2] + " paid " + last)
    assert html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    project = Project.open(tmp_path / "demo", kinds=kinds())
    assert recorded(tmp_path / "demo", "signup_to_paid") == project.bundle("signup_to_paid").digest
    flow = tmp_path / "demo" / "flows" / "signup_to_paid.yaml"
    flow.write_text(flow.read_text() + "# changed\n")
    assert recorded(tmp_path / "demo", "signup_to_paid") != project.again().bundle("signup_to_paid").digest


FAILS = f"""
steps:
  - {{ id: got, read: svc.get }}
  - {{ id: small, do: svc.make, when: "${{{{ steps.got.size == 7 }}}}", {UNDO} }}
  - {{ id: last, do: svc.make, with: {{ note: "n ${{{{ 10 / (steps.got.size - 7) }}}}" }}, {UNDO} }}
"""


def test_a_flow_that_fails_with_nothing_going_wrong_is_said_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = driller(tmp_path, FAILS).drill()
    ends = [(row.way, row.situations, row.end, row.failed_at) for row in found.calm]
    assert ends == [("nothing", (0,), "succeeded", ""), ("nothing", (1,), "compensated", "last")]
    assert drilled.verdict(found).startswith("With nothing going wrong, the flow fails by itself (B): last: ")
    died = [row for row in found.rows if (row.step, row.way, row.end) == ("got", "killed", "compensated")]
    assert [row.failed_at == "last" and "steps.got.size" in row.why for row in died] == [True]
    assert row_of(found, "small", "refused").why == "", "that it was refused is why"
    monkeypatch.setenv("COLUMNS", "120")
    assert cli.run_command(["--project", str(tmp_path), "drill", "tried", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (len(told["calm"]), told["failing"], len(told["rows"])) == (2, 1, len(found.rows))
    assert cli.run_command(["--project", str(tmp_path), "drill", "tried"]) == 1
    assert "nothing goes wrong (B)" in " ".join(capsys.readouterr().out.split())


def test_ways_of_a_step_that_come_to_the_same_stand_in_one_line(table: Drill) -> None:
    lines = drilled.shown_lines(table)
    assert lines[0].fails == "nothing goes wrong"
    assert next(line.what for line in lines if line.step == "paid") == "refused; cannot be sent"
    places = [line.step for line in lines]
    assert [line.step for line in drilled.lines_of(table) if line.step not in places] == []
    assert len({(line.step, line.good, line.there, line.knows, line.end, line.where) for line in lines}) == len(lines)
    assert sum(len(line.what.split("; ")) for line in lines) == len(table.rows) + 1


DEARER = CONNECTOR.replace("size: number, rows", "size: { money: JPY }, mail: email, rows")
ASKED = """
inputs: { mail: email }
steps:
  - { id: got, read: svc.get }
  - id: go
    approve: Go on?
    covers: [gone]
    by: team:ops
    when: ${{ steps.got.size > 20000 and steps.got.mail != inputs.mail }}
  - id: gone
    do: svc.once
    unattended: It is small.
    compensate: { none: It is the last step. }
"""


def test_values_that_are_tried_are_of_the_kind_that_stands_there(tmp_path: Path) -> None:
    found = driller(tmp_path, ASKED, people=PEOPLE, connector=DEARER).drill()
    assert (found.unreached, found.failing) == ((), ())
    assert {"no", "late"} <= {row.way for row in found.rows if row.step == "go"}
    said = drilled.situation_line(1, found.situations[1])
    assert ("size = 20,001 JPY" in said, "mail = other@example.test" in said) == (True, True)


def test_a_step_that_fails_before_it_begins_was_not_reached(tmp_path: Path) -> None:
    found = driller(
        tmp_path,
        f"""
steps:
  - {{ id: got, read: svc.get }}
  - id: odd
    do: svc.make
    when: ${{{{ steps.got.size > 5 and 10 / (steps.got.size - steps.got.size) > 3 }}}}
    {UNDO}
""",
    ).drill()
    assert [row.failed_at for row in found.failing] == ["odd"]
    assert [drilled.unreached_line(one) for one in found.unreached] == ["odd: it fails before it begins"]


def test_an_untold_effect_is_the_end_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driller(tmp_path, WAITS % "")
    assert cli.run_command(["--project", str(tmp_path), "drill", "tried"]) == 1
    out = capsys.readouterr().out
    assert "1 leaves something outside of which nobody is told." in out
    assert "Name somebody who is told" in out
    assert cli.run_command(["--project", str(tmp_path), "drill", "tried", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(row["step"], row["way"]) for row in told["rows"] if row["untold"]] == [("paid", "never")]
    assert told["untold"] == 1


@pytest.mark.parametrize("width", ["60", "120"])
def test_the_table_fits_the_terminal(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    driller(tmp_path, LISTED % "stop")
    assert cli.run_command(["--project", str(tmp_path), "drill", "tried"]) == 0
    assert max(map(len, capsys.readouterr().out.split("\n"))) <= int(width)
