"""The commands on a project whose flows write to its own tables: what is said, and with which exit code."""

from __future__ import annotations

import io
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
import types
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import typer
from rich.console import Console

from runner.cli import NOUNS, page, run_command
from runner.cli.failures import guarded
from runner.cli.lists import run_lines
from runner.cli.logs import tell
from runner.cli.watching import code_of
from runner.core import events as e
from runner.core.state import State
from runner.telling.words import STATUS
from tests.cli.scripted import Play, bundle_of
from tests.cli.terminal import LIMIT, PROGRAM, Running, Terminal, amends, environment

ASKING = """\
flow: asking
title: A note is made, a person looks at it
owner: person:me
mode: live
run_key: ${{ inputs.number }}
record: note/${{ inputs.number }}
inputs: { number: text, lines: { list: { sku: text, qty: integer }, empty: true } }
steps:
  - id: note
    do: records.create
    with: { collection: notes, number: "${{ inputs.number }}" }
    compensate: cancel
  - id: look
    hand_off: person:me
    say: Is note ${{ inputs.number }} right?
  - id: more
    do: records.create
    with: { collection: notes, number: "${{ inputs.number }}" }
    compensate: { none: A second note harms nobody. }
"""
SLOW = """\
flow: slow
title: It waits for a while
owner: person:me
mode: live
run_key: ${{ trigger.id }}
steps:
  - id: note
    do: records.create
    with: { collection: notes, text: one }
    compensate: cancel
  - { id: pause, wait: 60 s }
"""
FAILING = """\
flow: failing
title: It fails before anything is done
owner: person:me
mode: live
run_key: ${{ trigger.id }}
inputs: { id: text }
steps:
  - { id: old, read: records.get, with: { collection: notes, id: "${{ inputs.id }}" } }
  - id: note
    do: records.create
    with: { collection: notes, text: "${{ steps.old.text }}" }
    compensate: cancel
"""

PEOPLE = "people:\n  tom: { name: Tom, mail: tom@example.test }\n"


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "shop"
    assert run_command(["init", str(folder)]) == 0
    for name, text in (("asking", ASKING), ("slow", SLOW), ("failing", FAILING)):
        (folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Terminal(folder, capsys)


def run_id(out: str) -> str:
    found = re.search(r"\d{6}-[a-z0-9]{8}", out)
    assert found, out
    return found[0]


# --- the first way through --------------------------------------------------------------------------------------------

QUICK = """
import sys, time
began = time.perf_counter()
from runner.cli import run_command
code = run_command(["--help"])
took = time.perf_counter() - began
heavy = {"typer", "rich", "sqlalchemy", "pydantic", "asyncio"} & set(sys.modules)
sys.exit(f"{code} {sorted(heavy)} {took < 0.3}")
"""


def test_help_is_quick_and_loads_nothing_heavy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUICK], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LIMIT
    )
    assert done.stderr == "0 [] True\n"
    for noun, summary in NOUNS.items():
        assert f"  {noun:<12} {summary}\n" in done.stdout


def test_from_nothing_to_a_verified_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first and the last of these are processes of their own, and so is one run."""
    said = amends("init", "shop", folder=tmp_path)
    assert said.code == 0
    assert "  amends run first_flow --input request=R-1 --input name=Aya\n" in said.out
    folder = tmp_path / "shop"
    terminal = Terminal(folder, capsys)
    assert terminal.type("check").out == "1 flow (1 in draft mode): nothing is wrong.\n"
    assert "2 cases, all green" in terminal.type("test").out
    said = terminal.type("run", "first_flow", "--input", "request=R-1", "--input", "name=Aya")
    assert said.code == 0
    assert said.out.endswith("\n\nDRAFT: nothing was sent\n")
    flow = folder / "flows" / "first_flow.yaml"
    flow.write_text(flow.read_text(encoding="utf-8").replace("mode: draft", "mode: live"), encoding="utf-8")
    said = amends("run", "flows/first_flow.yaml", "-i", "request=00123", "-i", "name=佐藤 綾", "--json", folder=folder)
    told = json.loads(said.out)
    assert (said.code, told["status"], told["run_key"]) == (0, "succeeded", "00123")
    assert [line["text"] for line in told["timeline"]][-1] == "Succeeded."
    assert [effect["became"] for effect in told["effects"]] == ["done", "done"]
    said = terminal.type("runs", "show", told["run"])
    assert f"Run       {told['run']}\n" in said.out
    assert "Status    succeeded: the flow came to its end\n" in said.out
    listed = json.loads(terminal.type("runs", "list", "--json").out)
    assert [each["status"] for each in listed] == ["succeeded", "drafted"]
    assert listed[0]["run"] == told["run"]
    checked = amends("log", "verify", folder=folder).out.splitlines()
    assert checked[0] == "2 runs, 10 entries: every chain holds."
    assert checked[1].startswith("Not seen without an anchor kept elsewhere: ")


def test_what_init_makes_is_not_made_twice(terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", str(terminal.folder)]) == 2
    assert capsys.readouterr().err == f"amends: {terminal.folder} holds a project already (amends.yaml)\n"


def test_init_leaves_what_is_there_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".gitignore").write_text("mine\n", encoding="utf-8")
    assert run_command(["init", str(tmp_path)]) == 0
    assert "Left as they were: .gitignore." in capsys.readouterr().out
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "mine\n"


# --- what goes wrong ----------------------------------------------------------------------------------------------------

WRONG = {
    "version": 'amends: there is no command "version"; write `amends --version`\n',
    "rusn": 'amends: there is no command "rusn"; did you mean "runs"?\n',
    "xyzzy": 'amends: there is no command "xyzzy"; `amends --help` lists all of them\n',
    "runs lst": "amends: no such command 'lst'. Did you mean 'list'? See `amends runs --help`.\n",
    "runs list --bogus": "amends: no such option: --bogus. See `amends runs list --help`.\n",
    "runs show": "amends: missing argument 'RUN'. See `amends runs show --help`.\n",
    "runs list --status broken": 'amends: there is no status "broken"; there are queued, running, waiting, paused, '
    "compensating, succeeded, drafted, failed, compensated, stopped, needs_person, closed\n",
    "run askin": 'amends: there is no flow "askin"; did you mean "asking"?\n',
    "run asking -i number": "amends: the inputs do not fit the flow, so nothing was started:\n"
    "  number: is not NAME=VALUE.\n",
    "run asking --inputs none.json": "amends: the inputs do not fit the flow, so nothing was started:\n"
    "  none.json: cannot be read; name a JSON file in UTF-8, or - for standard input.\n",
    "check nothing.yaml": "amends: there is no file nothing.yaml\n",
    "connectors show recods": 'amends: there is no connector "recods" that can be used; did you mean "records"?\n',
}


@pytest.mark.parametrize("typed", WRONG)
def test_a_wrong_word_gets_one_sentence(typed: str, terminal: Terminal) -> None:
    said = terminal.type(*typed.split())
    assert (said.code, said.out) == (2, "")
    assert said.err == WRONG[typed]


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["runs", "list", "--project", "/nowhere/at/all"]) == 2
    assert capsys.readouterr().err == 'amends: there is no folder "/nowhere/at/all" (--project)\n'


def test_all_problems_of_a_flow_are_printed_and_nothing_is_started(terminal: Terminal) -> None:
    flow = terminal.folder / "flows" / "asking.yaml"
    flow.write_text(ASKING.replace("inputs.number }", "inputs.numbr }").replace("owner:", "ownr:"), encoding="utf-8")
    said = terminal.type("run", "asking", "-i", "number=1")
    assert said.code == 2
    assert said.err.count("error FL101") >= 3
    assert 'did you mean "number"?' in said.err
    assert "FL003" in said.err
    assert terminal.type("runs", "list").out == "There are no runs yet.\n"
    checked = terminal.type("check", "--json")
    assert (checked.code, json.loads(checked.out)["fit"]) == (2, False)


def test_inputs_that_do_not_fit(terminal: Terminal) -> None:
    said = terminal.type("run", "asking", "-i", "nummer=1", "-i", "number=1", "-i", "lines=[1]")
    assert said.code == 2
    assert said.err.splitlines()[0] == "amends: the inputs do not fit the flow, so nothing was started:"
    assert any("nummer" in line and 'did you mean "number"' in line for line in said.err.splitlines())
    assert any("lines" in line for line in said.err.splitlines())
    assert terminal.type("runs", "list").out == "There are no runs yet.\n"


def test_an_unknown_run(terminal: Terminal) -> None:
    terminal.type("run", "slow", "--detach")
    for typed in (("runs", "show"), ("runs", "watch"), ("runs", "pause"), ("runs", "rerun"), ("log", "export")):
        said = terminal.type(*typed, "999999-nothing")
        assert said.code == 2
        assert "there is no run 999999-nothing" in said.err


def test_a_damaged_database(terminal: Terminal) -> None:
    terminal.type("run", "asking", "-i", "number=1")
    for file in (terminal.folder / ".amends").glob("amends.db*"):
        file.unlink()
    (terminal.folder / ".amends" / "amends.db").write_bytes(b"not a database" * 1000)
    for typed in (("runs", "list"), ("run", "asking", "-i", "number=2"), ("log", "verify")):
        said = terminal.type(*typed)
        assert said.code == 2
        assert said.err.startswith("amends: ")
        assert said.err.count("\n") == 1


def test_a_defect_of_ours_is_kept_and_told_in_one_sentence(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = types.ModuleType("runner.cli.broken")
    commands = typer.Typer()

    @commands.command()
    def burst() -> None:
        raise KeyError("planted with hunter2-and-more")

    broken.COMMANDS = commands  # type: ignore[attr-defined]
    sys.modules["runner.cli.broken"] = broken
    (terminal.folder / ".amends").mkdir(exist_ok=True)
    (terminal.folder / ".env").write_text("MAIL_PASSWORD=hunter2-and-more\n", encoding="utf-8")
    try:
        assert guarded("broken", [], terminal.folder) == 70
    finally:
        del sys.modules["runner.cli.broken"]
    told = capsys.readouterr()
    log = terminal.folder / ".amends" / "defects.log"
    assert told.err.count("\n") == 1
    assert str(log) in told.err
    assert "KeyError: 'planted with [secret MAIL_PASSWORD]'" in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o077 == 0


# --- exit codes and people ------------------------------------------------------------------------------------------------


def test_a_run_that_asks_a_person_and_its_answers(terminal: Terminal) -> None:
    said = terminal.type("run", "asking", "-i", "number=7")
    run = run_id(said.out)
    assert said.code == 3
    assert f"amends handoffs resolve {run} h1 go_on" in said.out
    joined = terminal.type("run", "asking", "-i", "number=7")
    assert joined.code == 3
    assert f"Run {run} has this key already (needs_person): it was joined" in joined.out
    clash = terminal.type("run", "asking", "-i", "number=7", "-i", 'lines=[{"sku": "A", "qty": 1}]')
    assert (clash.code, clash.err.count("\n")) == (2, 1)
    listed = terminal.type("handoffs", "list")
    assert run in listed.out
    assert f"Look at one: amends handoffs show {run} h1\n" in listed.out
    assert json.loads(terminal.type("handoffs", "list", "--json").out)[0]["choices"] == ["go_on", "compensate", "close"]
    assert "Is note 7 right?" in terminal.type("handoffs", "show", run[:10]).out
    (terminal.folder / "people.yaml").unlink()
    nobody = terminal.type("handoffs", "ack", run, "--by", "person:tom")
    assert (nobody.code, nobody.err) == (
        2,
        'amends: "person:tom" is nobody: there is no people.yaml, so person:me is the only name (--by)\n',
    )
    (terminal.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
    nobody = terminal.type("handoffs", "ack", run, "--by", "person:tmo")
    assert (nobody.code, nobody.err) == (
        2,
        'amends: there is nobody "person:tmo" in people.yaml (--by); did you mean "person:tom"?\n',
    )
    seen = terminal.type("handoffs", "ack", run, "--by", "person:tom")
    assert (seen.code, "person:tom has seen h1." in seen.out) == (0, True)
    assert "(seen)" in terminal.type("handoffs", "list").out
    wrong = terminal.type("handoffs", "resolve", run, "h1", "maybe")
    assert wrong.code == 2
    assert wrong.err.splitlines() == [
        'amends: "maybe" does not answer h1; these do:', f"  amends handoffs resolve {run} h1 go_on",
        f"  amends runs compensate {run}", f"  amends handoffs resolve {run} h1 close",
    ]  # fmt: skip
    wrong = terminal.type("handoffs", "resolve", run, "h1", "happened")
    assert wrong.code == 2
    assert f"amends handoffs resolve {run} h1 go_on" in wrong.err
    answered = terminal.type("handoffs", "resolve", run, "go-on", "--reason", "It is right.")
    assert answered.code == 0
    assert "person:me answers h1: go on. It is right." in answered.out
    assert terminal.type("handoffs", "list").out == "Nothing waits for a person.\n"
    assert "answered: go on" in terminal.type("handoffs", "list", "--all").out
    assert terminal.type("handoffs", "show", run).err == f"amends: run {run} (succeeded) asks nothing of a person\n"


def test_a_run_on_a_held_record_waits_and_says_for_whom(terminal: Terminal) -> None:
    holder = run_id(terminal.type("run", "asking", "-i", "number=7").out)
    flow = (terminal.folder / "flows" / "asking.yaml").read_text(encoding="utf-8")
    other = flow.replace("flow: asking", "flow: other")
    (terminal.folder / "flows" / "other.yaml").write_text(other, encoding="utf-8")
    said = terminal.type("run", "other", "-i", "number=7")
    assert said.code == 4
    assert f"which run {holder} (asking) holds until person:me has answered" in said.out
    listed = terminal.type("runs", "list").out
    assert f"which run {holder} (asking) holds until person:me has answered" in " ".join(listed.split())


def test_a_person_holds_a_record(terminal: Terminal) -> None:
    record = "order/7"
    assert terminal.type("runs", "hold", record, "--reason", "The books are closed.").out == (
        f"Held: no run changes anything on {record} until `amends runs release {record}`.\n"
    )
    again = terminal.type("runs", "hold", record)
    assert (again.code, again.out) == (
        0,
        f"amends: record {record} is held already, by person:me; `amends runs release {record}` lets it go on\n",
    )
    assert terminal.type("runs", "release", record).code == 0
    assert "is not held by a person" in terminal.type("runs", "release", record).out


def test_what_is_held_begins_nothing_until_it_is_released(terminal: Terminal) -> None:
    wrong = terminal.type("connections", "hold", "recods")
    assert (wrong.code, wrong.err) == (2, 'amends: there is no connection "recods"; did you mean "records"?\n')
    assert terminal.type("flows", "hold", "askin").err == 'amends: there is no flow "askin"; did you mean "asking"?\n'
    assert terminal.type("connections", "hold", "records", "--reason", "It is being mended.").code == 0
    again = terminal.type("connections", "hold", "records").out
    assert again.startswith("amends: connection records is held already, by person:me; `amends connections release")
    listed = {each["connection"]: each for each in json.loads(terminal.type("connections", "list", "--json").out)}
    assert listed["records"] == {
        "connection": "records", "connector": "records", "at_once": None, "rate": None, "in_use": None,
        "waiting": None, "share": None, "restored_in": None, "held_by": "person:me",
    }  # fmt: skip
    assert listed["quarantine"]["held_by"] is None
    waiting = terminal.type("run", "asking", "-i", "number=7")
    assert (waiting.code, "waits for the release of connection records (held by person:me)" in waiting.out) == (4, True)
    assert terminal.type("connections", "release", "records").code == 0
    assert terminal.type("runs", "watch", run_id(waiting.out)).code == 3, "it went on to its question"
    wrong = terminal.type("flows", "release", "asking")
    assert (wrong.code, wrong.out) == (
        0,
        "amends: flow asking is not held by a person, so there is nothing to release\n",
    )
    assert "The flow asking is held" in terminal.type("flows", "hold", "asking").out
    assert terminal.type("run", "asking", "-i", "number=8").code == 4
    assert "The flow asking is released" in terminal.type("flows", "release", "asking").out


def test_stopping_compensating_and_starting_anew(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=8").out)
    early = terminal.type("runs", "rerun", run)
    assert (early.code, f"`amends runs show {run}` says what can be done" in early.err) == (2, True)
    stopped = terminal.type("runs", "stop", run, "--reason", "A test.")
    assert "Stopped; what was done stays." in stopped.out
    assert f"\n    amends runs compensate {run}\n" in stopped.out
    assert terminal.type("runs", "watch", run).code == 1
    refused = terminal.type("runs", "rerun", run)
    assert refused.code == 2
    assert f"make them good first (amends runs compensate {run})" in refused.err
    cleaned = terminal.type("runs", "compensate", run)
    assert (cleaned.code, "Compensated; what was done is made good." in cleaned.out) == (0, True)
    assert run_id(cleaned.out) != run


def test_what_failed_before_anything_was_done_can_be_started_anew(terminal: Terminal) -> None:
    said = terminal.type("run", "failing", "--key", "K-1", "-i", "id=none")
    run = run_id(said.out)
    assert said.code == 1
    assert "failed: nothing had been done, so nothing is to be made good" in said.out
    assert terminal.type("run", "failing", "--key", "K-1", "-i", "id=none").out.startswith(f"Run {run} has this key")
    again = terminal.type("runs", "rerun", run)
    assert again.code == 1
    assert run_id(again.out) != run
    assert "K-1 (run again, 1)" in terminal.type("runs", "show", run_id(again.out)).out


def test_pausing_and_going_on(terminal: Terminal) -> None:
    said = terminal.type("run", "slow", "--detach")
    run = run_id(said.out)
    assert (said.code, said.out.splitlines()[1]) == (0, f"It goes on with `amends serve` or `amends runs watch {run}`.")
    paused = terminal.type("runs", "pause", run, "--reason", "Stocktaking.")
    assert "person:me pauses it. Stocktaking." in paused.out
    assert terminal.type("runs", "watch", run).code == 4
    twice = terminal.type("runs", "pause", run)
    assert (twice.code, twice.err, "is paused already" in twice.out) == (0, "", True)
    shown = terminal.type("runs", "show", run).out
    assert f"amends runs resume {run}" in shown


def test_a_copy_counts_as_the_check_does(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("run", "asking", "-i", "number=9")
    terminal.type("run", "slow", "--detach")
    copied = terminal.type("db", "copy", f"sqlite:///{tmp_path / 'c.db'}").out
    [checked] = re.findall(r"2 runs, \d+ entries", terminal.type("log", "verify").out)
    assert f"{checked.replace(',', ' with')} copied, and " in copied
    assert "entries of the project itself; every chain holds there." in copied


def test_a_copy_to_a_server_that_is_not_there(terminal: Terminal) -> None:
    terminal.type("run", "slow", "--detach")
    (terminal.folder / ".env").write_text("THERE=postgresql://ops:quiet-word@127.0.0.1:1/x\n", encoding="utf-8")
    said = terminal.type("db", "copy", "THERE")
    assert said.code == 2
    assert said.err.rstrip().endswith("; nothing was copied, try again once it answers")
    assert "goes on by itself" not in said.err


def test_settling_needs_a_clear_word(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=9").out)
    neither = terminal.type("runs", "settle", run, "note")
    assert neither.err == "amends: say either --happened or --did-not: nobody else can know it\n"
    both = terminal.type("runs", "settle", run, "note", "--happened", "--did-not")
    assert both.code == 2
    fields = terminal.type("runs", "settle", run, "note", "id=1", "--did-not")
    assert fields.err == "amends: what did not happen has no answer: leave the fields out\n"


def test_inputs_from_a_file_and_from_standard_input(terminal: Terminal) -> None:
    file = terminal.folder / "in.json"
    file.write_text('{"number": "20", "lines": [{"sku": "A", "qty": 2}]}', encoding="utf-8")
    assert terminal.type("run", "asking", "--inputs", str(file), "--draft", "--json").code == 3
    said = amends("run", "asking", "--inputs", "-", "--json", folder=terminal.folder, given='{"number": "21"}')
    assert (said.code, json.loads(said.out)["run_key"]) == (3, "21")
    file.write_text('{"number": \n nonsense', encoding="utf-8")
    said = terminal.type("run", "asking", "--inputs", str(file))
    assert (said.code, said.err.splitlines()[1]) == (2, f"  {file}: line 2 is not JSON.")


@pytest.mark.parametrize(
    "typed", ["serve", "runs list", "runs show x", "handoffs list", "approvals list", "log verify", "triggers list"]
)
def test_a_folder_that_is_no_project_is_said_to_be_none(
    typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["--project", str(tmp_path), *typed.split()]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"amends: {tmp_path} is no project: it has no amends.yaml and no flows/; go to the ")
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_says_of_a_folder_that_it_is_no_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--project", str(tmp_path), "doctor"]) == 1
    assert "is no project: it has no amends.yaml" in " ".join(capsys.readouterr().out.split())


def test_an_input_that_is_given_twice_is_refused(terminal: Terminal) -> None:
    said = terminal.type("run", "asking", "-i", "number=1", "-i", "number=2")
    assert (said.code, said.err.splitlines()[1]) == (2, "  number: is given twice; give it once.")


def test_another_start_with_the_same_key_is_told_where_the_key_comes_from(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=7").out)
    said = terminal.type("run", "asking", "-i", "number=7", "-i", 'lines=[{"sku": "A", "qty": 1}]')
    assert said.err == (
        f'amends: the run key "7" of asking belongs to run {run}, which was started with lines=nothing; the key comes '
        "from run_key: ${{ inputs.number }}. Give inputs that make another key, or change the flow\n"
    )


def test_words_that_were_copied_are_not_taken_for_a_reason(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=7").out)
    said = terminal.type("runs", "stop", run, "--reason", "…")
    assert (said.code, 'the "…" of --reason stands for your own words' in said.err) == (2, True)


def test_an_answer_is_told_from_the_answer_on(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=7").out)
    seen = terminal.type("handoffs", "ack", run).out
    assert "person:me has seen h1." in seen
    assert "Adds a record" not in seen
    answered = terminal.type("handoffs", "resolve", run, "go-on").out
    assert (answered.count("answers h1"), answered.count("Adds a record")) == (1, 1)


def test_a_run_that_was_started_anew_names_the_newest(terminal: Terminal) -> None:
    first = run_id(terminal.type("run", "failing", "--key", "K-1", "-i", "id=none").out)
    second = run_id(terminal.type("runs", "rerun", first).out)
    said = terminal.type("runs", "rerun", first)
    assert said.out == (
        f"amends: run {first} was run again as {second}; start that one anew: amends runs rerun {second}\n"
    )


def test_what_a_flow_says_where_it_hands_over_stands_in_the_list(terminal: Terminal) -> None:
    terminal.type("run", "asking", "-i", "number=7")
    assert "Is note 7 right?" in terminal.type("handoffs", "list").out


def test_help_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["runs", "--help"]) == 0
    said = capsys.readouterr().out
    assert "COMMAND" in said
    assert not [line for line in said.splitlines() if line.endswith("...") and "ARGS" not in line]


def test_a_draft_shows_what_it_would_do(terminal: Terminal) -> None:
    said = terminal.type("run", "asking", "-i", "number=7", "--draft")
    assert "What going live would send\n  note: Adds a record" in said.out
    assert "    collection:  notes\n    number:      7\n" in said.out


# --- two processes ----------------------------------------------------------------------------------------------------------


def test_serve_drives_what_other_commands_ask_for(terminal: Terminal) -> None:
    folder = terminal.folder
    with Running("serve", "--port", "0", folder=folder) as serving:
        assert serving.first == f"Amends drives shop ({folder}); 0 runs have not ended. Ctrl-C ends it."
        second = terminal.type("serve")
        assert (second.code, second.err.count("\n")) == (2, 1)
        assert f"process {serving.process.pid}" in second.err
        said = amends("run", "asking", "-i", "number=30", folder=folder)
        run = run_id(said.out)
        assert said.code == 3
        doctor = terminal.type("doctor")
        assert f"process {serving.process.pid} drives the project and answers" in doctor.out
        answered = terminal.type("handoffs", "resolve", run, "close")
        assert (answered.code, "Closed by a person." in answered.out) == (0, True)
        wrong = terminal.type("runs", "resume", run)
        assert wrong.code == 2
        bad = terminal.type("run", "asking", "-i", "nummer=1")
        assert (bad.code, "the inputs do not fit the flow" in bad.err) == (2, True)
        ended = serving.end()
    address, link, needs, closed, stopped = ended.out.splitlines()
    assert re.fullmatch(r"Its pages: http://127\.0\.0\.1:\d+", address)
    assert re.fullmatch(r"To sign in for the first time, .*: http://127\.0\.0\.1:\d+/enter/[\w-]{43}", link)
    assert (ended.code, stopped) == (0, "Stopped. Runs that have not ended go on with the next start.")
    assert needs.endswith(f" {run} (asking) needs person:me: amends handoffs show {run} h1")
    assert closed.endswith(f" {run} (asking) closed: a person has settled it")
    assert terminal.type("log", "verify").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_watching_is_told_where_the_run_is(number: int, terminal: Terminal) -> None:
    with Running("run", "slow", folder=terminal.folder) as running:
        run = run_id(running.first)
        for _ in range(100):
            if terminal.type("runs", "list").out.find("waiting") > 0:
                break
            time.sleep(0.05)
        said = running.end(number)
    assert said.code == 130
    assert f"See it with `amends runs show {run}`" in said.err
    shown = json.loads(terminal.type("runs", "show", run, "--json").out)
    assert (shown["status"], [effect["became"] for effect in shown["effects"]]) == ("waiting", ["stands"])
    assert terminal.type("runs", "stop", run, "--compensate").code == 0


# --- the rest -----------------------------------------------------------------------------------------------------------


def test_evidence_of_a_run(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=40").out)
    told = json.loads(terminal.type("log", "export", run).out)
    assert (told["run"]["run_id"], len(told["log"])) == (run, told["run"]["seq"])
    file = terminal.folder / "evidence.zip"
    said = terminal.type("log", "export", run, "--to", str(file))
    assert said.out.startswith(f"The evidence of run {run} stands in {file}. ")
    assert file.stat().st_mode & 0o777 == 0o600
    verified = terminal.type("log", "verify", "--pack", str(file))
    assert (verified.code, verified.out.splitlines()[-1]) == (0, "The pack holds.")
    assert terminal.type("log", "export", run, "--to", str(file)).err == (
        f"amends: {file} is there already; name another file\n"
    )
    assert terminal.type("log", "export", run, "--to", "evidence.json").err == (
        'amends: "evidence.json" is no archive: name a file that ends with .zip\n'
    )
    file.write_bytes(file.read_bytes().replace(b"RunStarted", b"RunStopped"))
    broken = terminal.type("log", "verify", "--pack", str(file))
    assert (broken.code, broken.out.splitlines()[0]) == (1, "log.jsonl: its bytes in the archive were changed")


def test_a_log_that_was_changed_is_found(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=41").out)
    database = sqlite3.connect(terminal.folder / ".amends" / "amends.db")
    with database:
        database.execute("UPDATE log SET at = at + 1 WHERE seq = 2")
    database.close()
    said = terminal.type("log", "verify")
    assert said.code == 1
    assert said.out.startswith(f"run {run}, entry 2: ")
    assert json.loads(terminal.type("log", "verify", "--json").out)["holds"] is False


def test_secrets_are_named_and_never_shown(terminal: Terminal) -> None:
    connections = terminal.folder / "connections.yaml"
    connections.write_text(
        "mail: { connector: email, host: mail.example.test, port: 587, user: ops, password: { secret: MAIL_PASSWORD }, "
        'from: "Ops <ops@example.test>" }\n',
        encoding="utf-8",
    )
    assert terminal.type("secrets", "check").code == 1
    listed = terminal.type("secrets", "list")
    assert re.search(r"MAIL_PASSWORD +mail +MISSING", listed.out)
    assert terminal.type("doctor").code == 1
    (terminal.folder / ".env").write_text("MAIL_PASSWORD=hunter2-and-more\nOTHER=something\n", encoding="utf-8")
    said = terminal.type("secrets", "check")
    assert (said.code, said.out) == (0, "1 secret named, none is missing.\n")
    listed = terminal.type("secrets", "list")
    assert re.search(r"OTHER +nothing names it +set", listed.out)
    assert "hunter2" not in listed.out + said.out + terminal.type("secrets", "list", "--json").out


def test_lists_for_people_and_for_machines(terminal: Terminal) -> None:
    assert re.search(r"asking +live +[0-9a-f]{8} +never ran +0 +ok +A note is made", terminal.type("flows", "list").out)
    told = json.loads(terminal.type("flows", "list", "--json").out)
    assert [each["flow"] for each in told] == ["asking", "failing", "first_flow", "slow"]
    assert all(each["is_fit_to_run"] for each in told)
    assert re.search(r"records +Our own tables", terminal.type("connectors", "list").out)
    shown = json.loads(terminal.type("connectors", "show", "records", "--json").out)
    assert shown["actions"]["create"]["undo"]["action"] == "delete"
    assert "undone by delete" in terminal.type("connectors", "show", "records").out
    assert "email" in [each["connector"] for each in json.loads(terminal.type("connectors", "list", "--json").out)]
    levels = {each["about"]: each["level"] for each in json.loads(terminal.type("doctor", "--json").out)}
    assert (levels["python"], levels["folder"], levels["files"]) == ("ok", "ok", "ok")
    said = terminal.type("schema", "write", str(terminal.folder / "made"))
    assert str(terminal.folder / "made" / "flow.schema.json") in said.out.splitlines()
    assert not (terminal.folder / ".vscode").exists()
    said = terminal.type("schema", "write")
    assert said.out.splitlines()[-1] == str(terminal.folder / ".vscode" / "extensions.json")
    mapped = json.loads((terminal.folder / ".vscode" / "settings.json").read_text(encoding="utf-8"))["yaml.schemas"]
    assert all((terminal.folder / name).is_file() for name in mapped)
    (terminal.folder / ".vscode" / "settings.json").write_text("{}", encoding="utf-8")
    assert '"./schemas/flow.schema.json": [\n      "flows/*.yaml"' in terminal.type("schema", "write", "--plain").out
    assert "$comment" not in json.loads((terminal.folder / "schemas" / "flow.schema.json").read_text(encoding="utf-8"))


def test_runs_are_filtered_and_paged(terminal: Terminal) -> None:
    for number in range(3):
        terminal.type("run", "asking", "-i", f"number=5{number}", "--draft")
    terminal.type("run", "slow", "--detach")
    assert len(json.loads(terminal.type("runs", "list", "--flow", "asking", "--json").out)) == 3
    assert len(json.loads(terminal.type("runs", "list", "--status", "needs_person", "--json").out)) == 3
    first = json.loads(terminal.type("runs", "list", "--limit", "2", "--json").out)
    rest = json.loads(terminal.type("runs", "list", "--before", first[-1]["run"], "--json").out)
    assert len({each["run"] for each in first + rest}) == 4
    assert "There may be more: amends runs list --before" in terminal.type("runs", "list", "--limit", "2").out
    assert terminal.type("runs", "list", "--flow", "nothing").out == "There are no such runs.\n"


def test_colours_are_for_terminals_and_can_be_refused(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=60").out)
    coloured = re.compile("\x1b\\[[0-9;]*3[0-7]")
    assert "\x1b" not in terminal.type("runs", "show", run).out
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert coloured.search(terminal.type("runs", "show", run).out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(terminal.type("runs", "show", run).out)


def test_a_pipe_that_is_closed_early_is_no_defect(terminal: Terminal) -> None:
    typed = subprocess.Popen(
        [*PROGRAM, "connectors", "show", "http"], cwd=terminal.folder, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert typed.stdout is not None
    assert typed.stderr is not None
    with typed, typed.stderr:
        typed.stdout.close()
        assert typed.stderr.read() == b""


def test_times_are_shown_in_the_readers_zone(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_id(terminal.type("run", "slow", "--detach").out)
    (terminal.folder / "amends.yaml").write_text("project: shop\nzone: Asia/Tokyo\n", encoding="utf-8")
    assert re.search(r"Started   .{19} \+09:00", terminal.type("runs", "show", run).out)
    (terminal.folder / "amends.yaml").write_text("project: shop\n", encoding="utf-8")
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    assert re.search(r"Started   .{19} \+05:30", terminal.type("runs", "show", run).out)


def test_every_status_has_its_exit_code() -> None:
    play = Play(bundle=bundle_of(), mode="draft").run().view()
    expected = {
        "succeeded": 0, "drafted": 0, "failed": 1, "compensated": 1, "stopped": 1, "closed": 1, "needs_person": 3,
        "paused": 4, "waiting": 4, "queued": 70, "running": 70, "compensating": 70,
    }  # fmt: skip
    assert set(expected) == set(STATUS)
    assert {status: code_of(replace(play, status=status, wake_at=None)) for status in STATUS} == expected
    assert code_of(replace(play, status="waiting", wake_at=1)) == 0


# --- what a list, a start and a page say -----------------------------------------------------------------------------


def test_a_list_of_runs_is_readable_at_80_columns_with_japanese_text() -> None:
    play = Play(bundle=bundle_of(), mode="draft").run().view()
    summary = "カードが拒否されました。別のカードでもう一度お試しください。それでもだめなら、担当者にお知らせください。"
    views = [
        replace(play, run="260829-k3x9m2qa", flow="signup_to_paid_for_everybody", status="failed", summary=summary),
        replace(play, run="260829-aaaaaaaa", flow="small", status="needs_person", needs="team:財務", at_step="支払い"),
    ]
    kept = io.StringIO()
    out = Console(file=kept, width=80, color_system=None, markup=False)
    page.show(*run_lines(views, "Asia/Tokyo"), out=out)
    assert (
        kept.getvalue()
        == """\
run              flow                    status                started (+09:00)
260829-k3x9m2qa  signup_to_paid_for_ev…  failed (draft)        2026-08-29 19:40
                 カードが拒否されました。別のカードでもう一度お試しください。そ
                 れでもだめなら、担当者にお知らせください。
260829-aaaaaaaa  small                   needs_person (draft)  2026-08-29 19:40
                 team:財務: 支払い
"""
    )


def test_what_the_check_warns_of_is_said_once_before_the_run(terminal: Terminal) -> None:
    said = terminal.type("run", "failing", "--key", "W-1", "-i", "id=none")
    warnings = [line for line in said.err.splitlines() if " warning " in line]
    checked = json.loads(terminal.type("check", "failing", "--json").out)["problems"]
    assert len(warnings) == sum(each["level"] == "warning" for each in checked)
    assert said.err.splitlines() == warnings


def test_a_run_whose_flow_can_no_longer_be_read_says_so_in_one_sentence(terminal: Terminal) -> None:
    run = run_id(terminal.type("run", "asking", "-i", "number=70").out)
    database = sqlite3.connect(terminal.folder / ".amends" / "amends.db")
    with database:
        database.execute("UPDATE texts SET content = 'nonsense' WHERE content LIKE 'flow: asking%'")
    database.close()
    for noun in ("runs", "handoffs"):
        said = amends(noun, "show", run, folder=terminal.folder)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
        assert said.err.startswith(f"amends: the flow that run {run} (asking, needs_person) began with can no longer ")
        assert f"`amends log export {run}`" in said.err
    assert run in terminal.type("runs", "list").out


LIGHT = """
import sys
from runner.cli import run_command
code = run_command(["--project", sys.argv[1], *sys.argv[2:]])
loaded = {name for name in sys.modules if name.startswith(("runner.engine", "runner.language.project", "connectors"))}
print(code, sorted(loaded), file=sys.stderr)
"""


@pytest.mark.parametrize("typed", ["runs list", "handoffs list", "log verify"])
def test_what_only_reads_loads_neither_flows_nor_engine(typed: str, terminal: Terminal) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, str(terminal.folder), *typed.split()], env=environment(), capture_output=True,
        text=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.stderr == "0 []\n"


def test_what_serve_prints_has_the_times_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    state = cast(State, types.SimpleNamespace(flow="small"))
    hours = set()
    for zone in ("Asia/Tokyo", "UTC"):
        tell(zone, "R-1", [e.RunFinished(at=0, status="succeeded")], state)
        hours.add(capsys.readouterr().out[:2])
    assert len(hours) == 2
