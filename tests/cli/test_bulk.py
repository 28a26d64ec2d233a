"""One order to many runs: which ones, why not the others, and that doing it again does the rest only."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from runner.cli import page, run_command
from tests.cli.terminal import Running, Said, Terminal

ORDERS = """\
flow: orders
title: An order is noted and billed
owner: person:me
mode: live
run_key: ${{ inputs.number }}
inputs: { number: text, bill: text, until: { datetime: null, default: "2020-01-01T00:00:00Z" } }
steps:
  - id: note
    do: records.create
    with: { collection: notes, number: "${{ inputs.number }}" }
    compensate: cancel
  - { id: nap, wait: { until: "${{ inputs.until }}" } }
  - id: billing
    do: records.update
    with: { collection: bills, id: "${{ inputs.bill }}", paid: "yes" }
    unattended: Our own books.
    compensate: { none: A bill may stay paid. }
on_failure: review
"""
BILLS = """\
flow: bills
title: A bill is written
owner: person:me
mode: live
run_key: ${{ inputs.id }}
inputs: { id: text }
steps:
  - { id: bill, do: records.create, with: { collection: bills, id: "${{ inputs.id }}" }, compensate: cancel }
"""
LATER = "2099-01-01T00:00:00Z"


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Three orders that failed at billing, and one that waits."""
    folder = tmp_path / "shop"
    assert run_command(["init", str(folder)]) == 0
    (folder / "flows" / "orders.yaml").write_text(ORDERS, encoding="utf-8")
    (folder / "flows" / "bills.yaml").write_text(BILLS, encoding="utf-8")
    terminal = Terminal(folder, capsys)
    terminal.type("run", "orders", "-i", "number=4", "-i", "bill=B1", "-i", f"until={LATER}", "--detach")
    for number, bill in (("1", "B1"), ("2", "B1"), ("3", "B2")):
        assert terminal.type("run", "orders", "-i", f"number={number}", "-i", f"bill={bill}").code == 3
    return terminal


def results(said: Said) -> Counter[str]:
    return Counter(each["result"] for each in json.loads(said.out)["runs"])


def statuses(terminal: Terminal) -> Counter[str]:
    listed = json.loads(terminal.type("runs", "list", "--flow", "orders", "--json").out)
    return Counter(each["status"] for each in listed)


AT_BILLING = ("--flow", "orders", "--failed-at", "billing", "--since", "2h")


def test_what_failed_at_a_step_is_tried_again(shop: Terminal) -> None:
    before = statuses(shop)
    assert before == {"needs_person": 3, "waiting": 1}
    seen = shop.type("runs", "retry", *AT_BILLING, "--dry-run")
    assert seen.code == 0
    assert seen.out.startswith("3 runs. To try the step again fits 3 of 3:\n")
    assert len(re.findall(r"^  \d{6}-\w{8}  try the step again \(billing\)$", seen.out, re.MULTILINE)) == 3
    assert seen.out.endswith("Nothing was done; 0 were so already, 0 refused.\n")
    assert statuses(shop) == before
    shop.type("run", "bills", "-i", "id=B1")
    done = shop.type("runs", "retry", *AT_BILLING)
    assert done.code == 0
    assert (
        len(re.findall(r"^\d{6}-\w{8}  succeeded after: try the step again \(billing\)$", done.out, re.MULTILINE)) == 2
    )
    assert len(re.findall(r"^\d{6}-\w{8}  needs_person after: ", done.out, re.MULTILINE)) == 1
    assert done.out.endswith("3 done; 0 were so already, 0 refused.\n")
    assert statuses(shop) == {"succeeded": 2, "needs_person": 1, "waiting": 1}
    shop.type("run", "bills", "-i", "id=B2")
    assert results(shop.type("runs", "retry", *AT_BILLING, "--json")) == {"done": 1}, "the rest only"
    nothing = shop.type("runs", "retry", *AT_BILLING)
    assert (nothing.code, nothing.out) == (0, "No run fits, so there is nothing to do.\n")
    assert statuses(shop) == {"succeeded": 3, "waiting": 1}


def test_runs_in_other_situations_are_told_of_and_not_touched(shop: Terminal) -> None:
    done = shop.type("runs", "skip", "--flow", "orders", "--reason", "Billed by hand.", "--json")
    assert (done.code, results(done)) == (1, {"done": 3, "refused": 1})
    [refused] = [each for each in json.loads(done.out)["runs"] if each["result"] == "refused"]
    assert refused["status"] == "waiting"
    assert "waits for a time (step nap), so there is no failed step to go on without" in refused["says"]
    assert statuses(shop) == {"succeeded": 3, "waiting": 1}
    ended = shop.type("runs", "compensate", "--flow", "orders", "--status", "succeeded")
    assert (ended.code, ended.out.count("has ended (succeeded)")) == (1, 3)


@pytest.mark.parametrize(
    ("typed", "again", "after"),
    [
        ("compensate", {"done": 0}, {"compensated": 4}),
        ("stop", {"done": 0}, {"stopped": 4}),
        ("stop --compensate", {"done": 0}, {"compensated": 4}),
        ("pause", {"already": 4}, {"paused": 4}),
    ],
)
def test_every_order_to_all_open_runs(typed: str, again: dict[str, int], after: dict[str, int], shop: Terminal) -> None:
    words = ("runs", *typed.split(), "--flow", "orders", "--json")
    assert results(shop.type(*words)) == {"done": 4}
    twice = shop.type(*words)
    assert (twice.code, results(twice)) == (0, +Counter(again))
    assert statuses(shop) == after
    if typed == "pause":
        assert results(shop.type("runs", "resume", "--flow", "orders", "--json")) == {"done": 4}
        assert statuses(shop) == {"needs_person": 3, "waiting": 1}


def test_an_engine_that_serves_does_it_for_this_command(shop: Terminal) -> None:
    shop.type("run", "bills", "-i", "id=B1")
    with Running("serve", "--port", "0", folder=shop.folder):
        assert results(shop.type("runs", "retry", *AT_BILLING, "--json")) == {"done": 3}
    assert statuses(shop) == {"succeeded": 2, "needs_person": 1, "waiting": 1}


def test_a_terminal_shows_how_far_it_is(shop: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Console(force_terminal=True, width=100, record=True)
    monkeypatch.setattr(page, "console", lambda **_: shown)
    shop.type("runs", "retry", *AT_BILLING)
    assert "3/3" in shown.export_text(clear=False)
    assert shown.export_text().count("needs_person after: try the step again (billing)") == 3


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("retry", "name a run (`amends runs retry RUN`), or choose many with --flow, --failed-at, --since"),
        ("retry --dry-run", "name a run (`amends runs retry RUN`), or choose many with --flow, --failed-at, --since"),
        (
            "retry 2 --flow orders",
            "name one run, or choose many with --flow, --failed-at, --since and --status; not both",
        ),
        ("pause --flow oders", 'there is no run of a flow "oders" (--flow); `amends runs list` shows what there is'),
        ("pause --since 2moons", '"2moons" is no length of time (--since); write 30 min, 2h or 3 days'),
        ("pause --status brokn", 'there is no status "brokn"'),
    ],
)
def test_a_wrong_choice_gets_one_sentence(typed: str, said: str, shop: Terminal) -> None:
    told = shop.type("runs", *typed.split())
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"amends: {said}")
    assert statuses(shop) == {"needs_person": 3, "waiting": 1}
