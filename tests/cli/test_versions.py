"""Versions on the command line: lists, histories, differences, and a run that is moved; held word for word."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runner.cli import run_command
from tests.cli.terminal import Running, Terminal

PARCEL = """\
flow: parcel
title: A parcel is sent
owner: person:me
mode: live
run_key: ${{ trigger.id }}
inputs: { number: text }
steps:
  - id: note
    do: records.create
    with: { collection: notes, number: "${{ inputs.number }}" }
    compensate: cancel
  - id: look
    hand_off: person:me
    say: Is it right?
  - id: sent
    do: records.create
    with: { collection: sent, number: "${{ inputs.number }}" }
    compensate: cancel
"""
FILED = """\
  - id: filed
    do: records.create
    with: { collection: files, number: "${{ inputs.number }}" }
    compensate: { none: A file harms nobody. }
"""
WITH_FILE = PARCEL.replace("Is it right?", "Is it right?  # a comment") + FILED
BROKEN = PARCEL.replace("  - id: note\n", FILED + "  - id: notes\n").replace("sent, number", "gone, number")


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "shop"
    assert run_command(["init", str(folder)]) == 0
    for file in (folder / "flows").iterdir():
        file.unlink()
    (folder / "amends.yaml").write_text("project: shop\nzone: UTC\n", encoding="utf-8")
    write(folder, PARCEL)
    return Terminal(folder, capsys)


def write(folder: Path, text: str) -> None:
    (folder / "flows" / "parcel.yaml").write_text(text, encoding="utf-8")


def begun(terminal: Terminal, number: str = "7") -> str:
    said = terminal.type("run", "parcel", "--input", f"number={number}", "--key", number)
    assert said.code == 3, said.err
    found = re.search(r"\d{6}-[a-z0-9]{8}", said.out)
    assert found
    return found[0]


def masked(text: str, known: dict[str, str]) -> str:
    """Digests, runs and times by their names."""
    for digest in re.findall(r"(?<![0-9a-f-])[0-9a-f]{8}(?![0-9a-z])", text):
        text = text.replace(digest, known.setdefault(digest, f"VERSION{len(known) + 1}"))
    text = re.sub(r"\d{6}-[a-z0-9]{8}", "THE-RUN-ITSELF", text)
    return re.sub(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?(:\d\d)?", lambda at: "TODAY     " + (" AT:TM" if at[1] else ""), text)


def test_a_history_from_the_first_text_on(terminal: Terminal) -> None:
    known: dict[str, str] = {}
    assert masked(terminal.type("flows", "list").out, known) == (
        "flow    mode  version   since      open  check  title\n"
        "parcel  live  VERSION1  never ran  0     ok     A parcel is sent\n"
    )
    assert masked(terminal.type("flows", "history", "parcel").out, known) == (
        "version   first used  last used  runs  open\nVERSION1  never ran                          the file\n"
    )
    said = terminal.type("flows", "diff", "parcel")
    assert (said.code, said.err) == (2, "amends: flow parcel never ran, so there is nothing to compare its file with\n")
    begun(terminal)
    begun(terminal, "8")
    assert terminal.type("flows", "diff", "parcel").out.startswith("Nothing differs: both are version ")
    write(terminal.folder, WITH_FILE)
    begun(terminal, "9")
    write(terminal.folder, WITH_FILE + FILED.replace("filed", "kept"))
    assert masked(terminal.type("flows", "list").out, known) == (
        "flow    mode  version   since      open        check  title\n"
        "parcel  live  VERSION2  never ran  0 +3 older  ok     A parcel is sent\n"
    )
    assert masked(terminal.type("flows", "history", "parcel").out, known) == (
        "version   first used (+00:00)  last used         runs  open\n"
        "VERSION2  never ran                                          the file\n"
        "VERSION3  TODAY      AT:TM     TODAY      AT:TM  1     1\n"
        "VERSION1  TODAY      AT:TM     TODAY      AT:TM  2     2\n"
    )
    told = json.loads(terminal.type("flows", "history", "parcel", "--json").out)
    assert [(one["is_file"], one.get("runs"), one.get("open_runs")) for one in told] == [
        (True, None, None), (False, 1, 1), (False, 2, 2)
    ]  # fmt: skip


def test_a_difference_in_words_and_as_a_diff(terminal: Terminal) -> None:
    begun(terminal)
    write(
        terminal.folder,
        WITH_FILE.replace("owner: person:me", "owner: person:me\nkeep: 90 days").replace(
            "cancel", "{ none: It stays. }", 1
        ),
    )
    known: dict[str, str] = {}
    said = terminal.type("flows", "diff", "parcel")
    assert said.code == 0
    assert (
        masked(said.out, known)
        == """\
Step note is made good by none now, not by cancel. Step filed is new: do
records.create, after sent. The flow's keep changed.

--- flow:parcel (VERSION1)
+++ flow:parcel (VERSION2)
@@ -1,6 +1,7 @@
 flow: parcel
 title: A parcel is sent
 owner: person:me
+keep: 90 days
 mode: live
 run_key: ${{ trigger.id }}
 inputs: { number: text }
@@ -8,11 +9,15 @@
   - id: note
     do: records.create
     with: { collection: notes, number: "${{ inputs.number }}" }
-    compensate: cancel
+    compensate: { none: It stays. }
   - id: look
     hand_off: person:me
-    say: Is it right?
+    say: Is it right?  # a comment
   - id: sent
     do: records.create
     with: { collection: sent, number: "${{ inputs.number }}" }
     compensate: cancel
+  - id: filed
+    do: records.create
+    with: { collection: files, number: "${{ inputs.number }}" }
+    compensate: { none: A file harms nobody. }
"""
    )
    told = json.loads(terminal.type("flows", "diff", "parcel", "--json").out)
    assert [(one["kind"], one["step"]) for one in told["changes"]] == [
        ("changed", "note"), ("added", "filed"), ("changed", "")
    ]  # fmt: skip
    back = terminal.type("flows", "diff", "parcel", told["new"][:10], told["old"][:10]).out
    assert back.startswith("Step filed is gone (do records.create).")
    said = terminal.type("flows", "diff", "parcel", "xyz")
    assert masked(said.err, known) == 'amends: there is no version "xyz" of parcel; there are VERSION2, VERSION1\n'
    assert terminal.type("flows", "diff", "parcels").code == 2


def test_a_run_is_moved(terminal: Terminal) -> None:
    run, known = begun(terminal), dict[str, str]()
    write(terminal.folder, WITH_FILE)
    said = terminal.type("runs", "move", run[:9], "--to", "latest", "--dry-run")
    assert (said.code, masked(said.out, known)) == (
        0,
        """\
Run THE-RUN-ITSELF of parcel, from version VERSION1 to VERSION2:
  Step filed is new: do records.create, after sent.
Nothing speaks against it.
""",
    )
    said = terminal.type("runs", "move", run, "--to", "latest")
    assert said.code == 0, said.err
    assert "person:me moved the run from version VERSION1 of its flow to VERSION2." in " ".join(
        masked(said.out, known).split()
    )
    again = terminal.type("runs", "move", run, "--to", "latest")
    assert (again.code, masked(again.out, known)) == (
        0,
        "amends: run THE-RUN-ITSELF is on version VERSION2 already\n",
    )
    assert terminal.type("runs", "move", run, "--to", "latest", "--dry-run").code == 0
    assert terminal.type("handoffs", "resolve", run, "h1", "go_on").code == 0
    shown = terminal.type("runs", "show", run).out
    assert "moved the run from version" in shown
    assert "filed" in shown
    write(terminal.folder, PARCEL)
    ended = terminal.type("runs", "move", run, "--to", "latest", "--json")
    assert (ended.code, json.loads(ended.out)["reasons"]) == (2, ["It has ended (succeeded)."])


def test_a_move_that_would_be_wrong_says_every_reason(terminal: Terminal) -> None:
    run, known = begun(terminal), dict[str, str]()
    write(terminal.folder, BROKEN)
    for more in ((), ("--dry-run",)):
        said = terminal.type("runs", "move", run, "--to", "latest", *more)
        assert (said.code, said.err) == (
            2,
            """\
amends: it cannot be moved:
  Step note has an effect that stands, and it is gone.
  Step filed stands before step look, which has begun: it would be run late.
  Step notes stands before step look, which has begun: it would be run late.
""",
        )
        assert (
            masked(said.out, known)
            == """\
Run THE-RUN-ITSELF of parcel, from version VERSION1 to VERSION2:
  Step note is gone (do records.create).
  Step filed is new: do records.create, at the beginning.
  Step notes is new: do records.create, after filed.
  Step sent: with.collection changed.
"""
        )
    write(terminal.folder, PARCEL.replace("inputs.number", "inputs.numbr"))
    said = terminal.type("runs", "move", run, "--to", "latest")
    assert (said.code, said.err.count("there is no input")) == (2, 2)


def test_the_engine_that_runs_moves_it(terminal: Terminal) -> None:
    """Through the socket of `serve`, which reads the files anew."""
    run = begun(terminal)
    with Running("serve", folder=terminal.folder) as engine:
        write(terminal.folder, WITH_FILE)
        assert terminal.type("runs", "move", run, "--to", "latest").code == 0
        said = terminal.type("runs", "move", run, "--to", "latest", "--json")
        assert said.code == 0
        assert terminal.type("handoffs", "resolve", run, "h1", "go_on").code == 0
        engine.end()
    assert "filed" in terminal.type("runs", "show", run).out
