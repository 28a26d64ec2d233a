"""`amends events`: sending what runs wait for, to an engine in this process and to one that runs beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.cli import run_command
from tests.cases.processes import amends, serving
from tests.cli.terminal import Terminal

CLAIM = """flow: claim
title: A claim that waits for its receipt
owner: person:me
mode: live
run_key: ${{ inputs.claim }}
inputs: { claim: text }
steps:
  - id: receipt
    wait_for: receipt.received
    match: { claim: "${{ inputs.claim }}" }
  - id: noted
    do: records.create
    with: { collection: receipts, number: "${{ steps.receipt.number | default('none') }}" }
    compensate: cancel
"""
SENT = ("events", "send", "receipt.received")


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "shop"
    (folder / "flows").mkdir(parents=True)
    (folder / "amends.yaml").write_text("project: shop\nzone: UTC\n", encoding="utf-8")
    (folder / "flows" / "claim.yaml").write_text(CLAIM, encoding="utf-8")
    return Terminal(folder, capsys)


def status(terminal: Terminal) -> list[str]:
    return [each["status"] for each in json.loads(terminal.type("runs", "list", "--json").out)]


def test_an_event_that_is_waited_for_lets_the_run_go_on(terminal: Terminal) -> None:
    assert terminal.type("events", "list").out == "No run waits for an event.\n"
    terminal.type("run", "claim", "--input", "claim=C1")
    assert status(terminal) == ["waiting"]
    listed = terminal.type("runs", "list").out
    assert "receipt waits for the event receipt.received" in listed
    waiting = json.loads(terminal.type("events", "list", "--json").out)["waiting"]
    assert [(each["path"], each["event"], each["fields"]) for each in waiting] == [
        ("receipt", "receipt.received", ["claim"])
    ]
    said = terminal.type(*SENT, "--data", "claim=C1", "--data", "number=0007", "--id", "scan-1")
    assert (said.code, said.err) == (0, "")
    run = waiting[0]["run"]
    assert said.out == f"The event receipt.received (scan-1) was sent: run {run} waited for it at step receipt.\n"
    assert status(terminal) == ["succeeded"]
    other = terminal.type(*SENT, "--data", "claim=C9", "--id", "scan-1")
    assert (other.code, "scan-1 came before as another one" in other.err) == (2, True)
    again = terminal.type(*SENT, "--data", "claim=C1", "--data", "number=0007", "--id", "scan-1")
    assert again.out == "An event with the id scan-1 came before (receipt.received), so nothing was done.\n"
    assert terminal.type("events", "list").out == "No run waits for an event.\n"


def test_an_event_that_comes_first_is_kept(terminal: Terminal) -> None:
    (terminal.folder / "data.json").write_text('{"claim": "C1", "number": "0007"}', encoding="utf-8")
    said = terminal.type(*SENT, "--data-file", str(terminal.folder / "data.json"), "--id", "scan-1")
    assert said.out.startswith("The event receipt.received (scan-1) is kept until 20")
    assert said.out.endswith(": nobody waits for it yet.\n")
    listed = terminal.type("events", "list").out
    assert "kept event        id      from" in listed
    assert "receipt.received  scan-1  person:me" in listed
    assert "0007" not in listed, "what is in an event may be personal"
    assert terminal.type("run", "claim", "--input", "claim=C1").code == 0
    assert "scan-1" not in terminal.type("events", "list").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "claim"), "amends: the event was not sent: claim: is not NAME=VALUE\n"),
        (("--data-file", "no.json"), "amends: the event was not sent: no.json: cannot be read; name a JSON file in"),
        (("--id", " "), "amends: the event's name or its --id is empty\n"),
        (("--by", "person:you"), 'amends: "person:you" is nobody: there is no people.yaml'),
    ],
)
def test_what_cannot_be_sent_is_said(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    wrong = terminal.type(*SENT, *words)
    assert (wrong.code, wrong.err.startswith(said)) == (2, True), wrong.err
    assert run_command(["--project", str(terminal.folder), "events", "list"]) == 0


@pytest.mark.slow
async def test_an_event_reaches_the_engine_that_runs(terminal: Terminal) -> None:
    folder = terminal.folder
    async with serving(folder):
        await amends(folder, "run", "claim", "--input", "claim=C1")
        code, out, _ = await amends(folder, *SENT, "--data", "claim=C1", "--id", "scan-1")
        assert (code, out.partition(":")[0]) == (0, "The event receipt.received (scan-1) was sent")
        (run,) = json.loads((await amends(folder, "runs", "list", "--json"))[1])
        assert (await amends(folder, "runs", "watch", run["run"]))[0] == 0
