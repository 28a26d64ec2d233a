"""`amends run --each` at a real receiver: killed and gone on with, bounded, beside a running engine, reported on."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openpyxl import load_workbook

from runner.cli import run_command
from tests.backfill.ground import GIVEN_KEY, most_at_once, report_of, unlike_once, write_csv, write_project
from tests.cli.terminal import LIMIT, PROGRAM, Running, Said, environment
from tests.support.processes import HttpProcess
from tests.support.says import late, refused

ROWS = 300
ANSWER = 40
"""ms after which the receiver answers."""


@pytest.fixture(scope="module")
def service() -> Iterator[HttpProcess]:
    with HttpProcess() as process:
        yield process


@pytest.fixture(autouse=True)
def clean(service: HttpProcess) -> None:
    service.reset()


@pytest.fixture
def folder(tmp_path: Path, service: HttpProcess) -> Path:
    return write_project(tmp_path / "shop", service.origin)


def begun(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """A backfill that goes on beside the test."""
    return subprocess.Popen(
        [*PROGRAM, "run", "charge", "--each", "items.csv", *words], cwd=folder, env=environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def wait_for(service: HttpProcess, effects: int) -> None:
    end = time.monotonic() + LIMIT
    while len(service.ledger()["effects"]) < effects:
        assert time.monotonic() < end, "the rows do not go on"
        time.sleep(0.02)


def type_in(folder: Path, *words: str) -> Said:
    """A command inside this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(folder):
        code = run_command(words)
    return Said(code=code, out=out.getvalue(), err=err.getvalue())


def run_each(folder: Path, *words: str, file: str = "items.csv") -> Said:
    return type_in(folder, "run", "charge", "--each", file, *words)


@pytest.mark.timeout(120)
def test_a_kill_in_the_middle_loses_and_repeats_no_row(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(ROWS))
    service.script("POST /effects", always=late(ANSWER))
    process = begun(folder, "--at-once", "5")
    try:
        wait_for(service, ROWS // 3)
        process.kill()
    finally:
        process.kill()
        process.communicate(timeout=LIMIT)
    assert 0 < len(service.ledger()["effects"]) < ROWS
    assert not (folder / "items.report.csv").exists()

    said = run_each(folder, "--at-once", "5")
    assert said.code == 0, said.err
    assert unlike_once(service.ledger(), range(ROWS)) == {}
    assert most_at_once(service.requests(), ANSWER) == 5
    rows = report_of(folder / "items.report.csv")
    assert [row["row"] for row in rows] == [str(number + 2) for number in range(ROWS)]
    assert {row["status"] for row in rows} == {"succeeded"}
    ids = {effect["body"]["number"]: effect["id"] for effect in service.ledger()["effects"]}
    assert {row["number"]: row["output id"] for row in rows} == ids
    joined = sum(row["this time"] == "joined" for row in rows)
    assert ROWS // 3 - 5 <= joined < ROWS
    assert f"{ROWS} rows: {joined} joined, {ROWS - joined} started; {ROWS} succeeded" in said.out

    assert f"{ROWS} joined, 0 started" in run_each(folder).out
    assert unlike_once(service.ledger(), range(ROWS)) == {}


def test_planted_keys_that_change_are_seen(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(3))
    assert run_each(folder).code == 0
    write_project(folder, service.origin, run_key="again-${{ inputs.number }}")
    assert run_each(folder).code == 0
    assert unlike_once(service.ledger(), range(4)) == {"0": 2, "1": 2, "2": 2, "3": 0}


def test_a_bound_that_is_planted_higher_is_seen(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(40))
    service.script("POST /effects", always=late(ANSWER))
    assert run_each(folder, "--at-once", "8").code == 0
    assert 5 < most_at_once(service.requests(), ANSWER) <= 8


def test_a_person_who_leaves_finds_a_report_and_goes_on(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(60))
    service.script("POST /effects", always=late(ANSWER))
    process = begun(folder, "--at-once", "3")
    wait_for(service, 10)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, err
    assert b"rows to go; the same command goes on with them" in err
    assert b"which is not complete" in err
    kept = [row["status"] for row in report_of(folder / "items.report.csv")]
    assert len(kept) == 60
    assert {"succeeded", "not started yet"} <= set(kept)
    assert run_each(folder).code == 0
    assert unlike_once(service.ledger(), range(60)) == {}
    assert {row["status"] for row in report_of(folder / "items.report.csv")} == {"succeeded"}
    assert not list(folder.glob(".*part"))


def test_beside_a_running_engine(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(40))
    service.script("POST /effects", always=late(ANSWER))
    with Running("serve", folder=folder) as engine:
        said = run_each(folder, "--at-once", "4")
        assert said.code == 0, said.err
        assert "0 joined, 40 started; 40 succeeded" in said.out
        assert "40 joined, 0 started; 40 succeeded" in run_each(folder).out
        engine.end()
    assert unlike_once(service.ledger(), range(40)) == {}
    assert most_at_once(service.requests(), ANSWER) == 4


ASKS = "  - { id: look, hand_off: person:me, say: Look at it. }\n"
NAP = "  - { id: nap, wait: 10 min }\n"


def test_runs_that_wait_for_a_person_do_not_block(tmp_path: Path, service: HttpProcess) -> None:
    folder = write_project(tmp_path / "shop", service.origin, after=ASKS)
    write_csv(folder / "items.csv", range(9))
    said = run_each(folder, "--at-once", "2")
    assert said.code == 3
    assert "9 started; 0 succeeded, 0 compensated, 9 need a person" in said.out
    assert unlike_once(service.ledger(), range(9)) == {}
    before = report_of(folder / "items.report.csv")
    assert {(row["status"], row["who must act"]) for row in before} == {("needs_person", "person:me")}
    assert all(row["what stands"].startswith("made (") for row in before)

    assert type_in(folder, "runs", "compensate", before[0]["run"]).code in (0, 1)
    assert run_each(folder, "--report-only").code == 3
    after = report_of(folder / "items.report.csv")
    assert [row["status"] != "needs_person" for row in after] == [True] + [False] * 8
    assert after[0]["this time"] == ""


def test_runs_that_wait_long_are_counted_apart(tmp_path: Path, service: HttpProcess) -> None:
    folder = write_project(tmp_path / "shop", service.origin, before=NAP)
    write_csv(folder / "items.csv", range(7))
    began = time.monotonic()
    said = run_each(folder, "--at-once", "2", "--json")
    assert time.monotonic() - began < 15
    assert said.code == 4
    told = json.loads(said.out)
    assert (told["rows"], told["started"], told["waits"]) == (7, 7, 7)
    assert service.ledger()["effects"] == []


def test_a_row_that_fails(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", ["a", "b"])
    service.script("POST /effects", refused(422, "too much"))
    said = run_each(folder, "--at-once", "1", "--report", "out.xlsx")
    assert said.code == 1
    assert "1 succeeded, 0 compensated, 0 need a person, 1 failed" in said.out
    page = load_workbook(folder / "out.xlsx").active
    assert page is not None
    head, first, second = page.iter_rows(values_only=True)
    told = dict(zip(head, first, strict=True))
    assert (told["status"], told["number"]) == ("failed", "a")
    assert "answered 422" in str(told["what happened"])
    assert dict(zip(head, second, strict=True))["status"] == "succeeded"


def test_how_far_it_is_on_a_terminal(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(30))
    service.script("POST /effects", always=late(ANSWER))
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*PROGRAM, "run", "charge", "--each", "items.csv", "--at-once", "2"], cwd=folder,
        env=environment(TERM="xterm", COLUMNS="120"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(LIMIT) == 0
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert b"30 started; 30 succeeded" in said
    assert "/30 rows, " in shown
    assert " per second: " in shown


# --- what is checked before anything starts ----------------------------------------------------------------------------


def test_nothing_starts_while_a_row_is_wrong(folder: Path, service: HttpProcess) -> None:
    (folder / "items.csv").write_text('number;amount\n1;"12,000 JPY"\n2;twelve\n;5 JPY\n1;7 JPY\n5;1.2E+05\n6;7 JPY\n')
    said = run_each(folder)
    assert said.code == 2
    assert said.err.splitlines() == [
        '  row 3, amount (twelve): the text "twelve" is not an amount of money: write it as 12,000 JPY.',
        "  row 4, number: must not be empty.",
        '  row 5: has the key "1", which row 2 has too.',
        "  row 6, amount (1.2E+05): is 1.2E+05, a number that a spreadsheet has shortened: show all its digits and save again.",
        "amends: 4 of 6 rows cannot be started, so nothing was started; put them right, or leave them out with --skip-bad",
    ]
    assert service.ledger()["effects"] == []
    assert not (folder / ".amends" / "amends.db").exists()

    said = run_each(folder, "--skip-bad")
    assert said.code == 2
    assert "2 started; 2 succeeded, 0 compensated, 0 need a person, 0 failed, 4 not started" in said.out
    assert unlike_once(service.ledger(), [1, 6]) == {}
    rows = report_of(folder / "items.report.csv")
    assert [(row["row"], row["status"]) for row in rows][1:3] == [("3", "not started"), ("4", "not started")]
    assert rows[1]["what happened"].startswith('amount: the text "twelve" is not an amount')


def test_a_file_that_was_put_right_starts_the_rest_alone(folder: Path, service: HttpProcess) -> None:
    write_project(folder, service.origin, run_key=GIVEN_KEY)
    (folder / "items.csv").write_text("order,number\nA1,1\nA2,\nA3,3\n")
    words = ("--key", "order", "--ignore", "order")
    assert run_each(folder, *words, "--skip-bad").code == 2
    (folder / "items.csv").write_text("order,number\nA1,1\nA2,2\nA3,3\n")
    assert "2 joined, 1 started; 3 succeeded" in run_each(folder, *words).out
    assert unlike_once(service.ledger(), [1, 2, 3]) == {}
    (folder / "items.csv").write_text("order,number\nA1,9\nA4,4\n")
    said = run_each(folder, *words)
    assert said.code == 2
    assert 'row 2: has the key "A1" of run ' in said.err
    assert "which was started with other inputs" in said.err
    assert unlike_once(service.ledger(), [1, 2, 3]) == {}


def test_a_key_is_asked_for_and_refused(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", [1])
    said = run_each(folder, "--key", "number")
    assert (said.code, "is made by run_key: ${{ inputs.number }}, so leave --key out" in said.err) == (2, True)
    write_project(folder, service.origin, run_key=GIVEN_KEY)
    said = run_each(folder)
    assert (said.code, "say which column names a row with --key COLUMN" in said.err) == (2, True)
    said = run_each(folder, "--key", "numbre")
    assert (said.code, 'no column "numbre" (--key); did you mean "number"?' in said.err) == (2, True)


@pytest.mark.parametrize(
    ("head", "words", "said"),
    [
        ("number,amuont", (), 'amuont: is no input of the flow; did you mean "amount"?'),
        ("Number", (), 'number: is required, and no column gives it'),
        ("No.", ("--column", "No.=number"), ""),
        ("No.", ("--column", "No=number"), 'No: is no column of the file; did you mean "No."?'),
        ("number,No.", ("--column", "No.=number"), 'No.: gives the input "number", which the column "number" gives too'),
        ("number,x", ("--ignore", "x"), ""),
        ("number,x", ("--ignore", "y"), "y: is no column of the file; there are: number, x"),
        ("amount", ("--input", "number=7"), ""),
        ("number", ("--column", "number"), "number: is not COLUMN=INPUT"),
    ],
)  # fmt: skip
def test_columns_by_their_exact_names(folder: Path, head: str, words: tuple[str, ...], said: str) -> None:
    (folder / "items.csv").write_text(
        f"{head}\n{','.join(['7 JPY' if head == 'amount' else '1'] * len(head.split(',')))}\n"
    )
    told = run_each(folder, *words, "--dry-run")
    assert (told.code, said in told.err) == (2 if said else 0, True), told.err


def test_a_dry_run_shows_three_rows_and_starts_none(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", ["00123", *range(9)])
    said = run_each(folder, "--dry-run")
    assert said.code == 0
    assert said.out.splitlines()[:2] == ["Row 2 (run key 00123)", "  number: 00123"]
    assert said.out.count("Row ") == 3
    assert said.out.splitlines()[-1].endswith("0 have a run already, 10 would be started. Nothing was started.")
    assert service.ledger()["effects"] == []


def test_some_of_the_rows(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(10))
    assert "2 rows: 0 joined, 2 started" in run_each(folder, "--from-row", "4", "--limit", "2").out
    assert unlike_once(service.ledger(), [2, 3]) == {}
    assert [row["row"] for row in report_of(folder / "items.report.csv")] == ["4", "5"]


def test_a_draft_sends_nothing(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", range(3))
    assert "3 started; 3 succeeded" in run_each(folder, "--draft").out
    assert {row["status"] for row in report_of(folder / "items.report.csv")} == {"drafted"}
    assert service.ledger()["effects"] == []


def test_json_lines_and_workbooks_go_the_same_way(folder: Path, service: HttpProcess) -> None:
    (folder / "items.jsonl").write_text('{"number": "a"}\n{"number": "b", "amount": "5 JPY"}\n{"nmber": "c"}\n')
    said = run_each(folder, "--skip-bad", file="items.jsonl")
    assert "row 3, nmber (c): is no input of the flow" in said.err
    assert unlike_once(service.ledger(), ["a", "b"]) == {}
    assert run_each(folder, "--report", "again.xlsx", file="items.jsonl").code == 2
    made = type_in(folder, "run", "charge", "--each", "items.report.csv", "--dry-run")
    assert made.code == 2


# --- the report --------------------------------------------------------------------------------------------------------

HOSTILE = ["=1+1", "+81 3 1234", "-5", "@SUM(A1)", "＝1", "a"]


def test_no_cell_of_a_report_is_run_by_a_spreadsheet(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", HOSTILE)
    assert run_each(folder).code == 0
    rows = report_of(folder / "items.report.csv")
    assert [row["number"] for row in rows] == [*(f"'{text}" for text in HOSTILE[:-1]), "a"]
    with (folder / "items.report.csv").open(encoding="utf-8-sig") as source:
        assert not [cell for line in source for cell in line.split(",") if cell.lstrip('"').startswith(tuple("=+-@"))]
    assert run_each(folder, "--report", "out.xlsx", "--report-only").code == 0
    page = load_workbook(folder / "out.xlsx").active
    assert page is not None
    cells = [row[1] for row in page.iter_rows(min_row=2)]
    assert [(cell.value, cell.data_type) for cell in cells] == [(text, "s") for text in HOSTILE]


def test_where_a_report_cannot_stand(folder: Path, service: HttpProcess) -> None:
    write_csv(folder / "items.csv", [1])
    for name, why in (
        ("items.csv", "would take the place of"),
        ("out.txt", "name a .csv or an .xlsx"),
        ("no/out.csv", "cannot be written"),
    ):
        said = run_each(folder, "--report", name)
        assert (said.code, why in said.err) == (2, True), said.err
    assert service.ledger()["effects"] == []


def test_columns_called_as_ours_keep_both(folder: Path) -> None:
    (folder / "items.csv").write_text("number,status\n1,new\n")
    assert run_each(folder, "--ignore", "status").code == 0
    [row] = report_of(folder / "items.report.csv")
    assert (row["status"], row["status (Amends)"]) == ("new", "succeeded")
