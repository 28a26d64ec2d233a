"""One order to many runs: which ones, why not the others, and that doing it again does the rest only."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from runner.app import Amends
from runner.cli import page, run_command
from runner.core.events import HandOffResolved
from runner.store.facts import RunFilter
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
BATCHES = """\
flow: batches
title: Orders are billed and booked, each alone
owner: person:me
mode: live
run_key: ${{ inputs.number }}
inputs: { number: text, orders: { list: { n: text } } }
steps:
  - id: rows
    each: ${{ inputs.orders }}
    named: ${{ item.n }}
    if_one_fails: continue
    steps:
      - id: billing
        do: records.update
        with: { collection: bills, id: "${{ item.n }}", paid: "yes" }
        unattended: Our own books.
        compensate: { none: A bill may stay paid. }
      - id: booking
        do: records.update
        with: { collection: books, id: "${{ item.n }}", paid: "yes" }
        unattended: Our own books.
        compensate: { none: A book may stay. }
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


@pytest.fixture
def batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Two batches: in the first A and C have no bill and B has no book, in the second B has no book."""
    folder = tmp_path / "shop"
    assert run_command(["init", str(folder)]) == 0
    (folder / "flows" / "batches.yaml").write_text(BATCHES, encoding="utf-8")
    for kind in ("bills", "books"):
        text = BILLS.replace("flow: bills", f"flow: {kind}").replace("collection: bills", f"collection: {kind}")
        (folder / "flows" / f"{kind}.yaml").write_text(text, encoding="utf-8")
    terminal = Terminal(folder, capsys)
    terminal.type("run", "bills", "-i", "id=B")
    for number, names in (("1", "ABC"), ("2", "B")):
        orders = json.dumps([{"n": name} for name in names])
        assert terminal.type("run", "batches", "-i", f"number={number}", "-i", f"orders={orders}").code == 3
    return terminal


def aside(terminal: Terminal) -> list[list[str]]:
    """The items that are set aside, of the runs in the order in which they began."""
    with closing(Amends.open(terminal.folder)) as amends:
        runs = sorted(amends.runs(RunFilter(flow="batches")), key=lambda view: view.run_key)
        states = [amends.state(view.run)[1] for view in runs]
    return [[one.name for one in state.lists["rows"].aside.values()] for state in states]


def done_at(said: Said) -> list[str]:
    return sorted(re.findall(r"after: (.*)$", said.out, re.MULTILINE))


def test_items_that_were_set_aside_at_a_step_are_done_anew(batches: Terminal) -> None:
    at_billing = ("--flow", "batches", "--failed-at", "billing")
    assert aside(batches) == [["A", "B", "C"], ["B"]]
    seen = batches.type("runs", "retry", *at_billing, "--dry-run")
    assert seen.out.startswith("1 run. To try the step again fits 2 of 2:\n")
    assert len(re.findall(r"do the item anew \(rows/[13]\)$", seen.out, re.MULTILINE)) == 2
    for kind in ("bills", "books"):
        batches.type("run", kind, "-i", "id=A")
    done = batches.type("runs", "retry", *at_billing)
    assert done_at(done) == ["do the item anew (rows/1)", "do the item anew (rows/3)"]
    assert aside(batches) == [["B", "C"], ["B"]], "A went through, C failed again"
    batches.type("run", "books", "-i", "id=B")
    done = batches.type("runs", "retry", "--flow", "batches", "--failed-at", "booking")
    assert done_at(done) == ["do the item anew (rows/2)", "do them all anew (rows)"]
    assert aside(batches) == [["C"], []]


@pytest.mark.parametrize(
    ("failed_at", "left"),
    [
        ("rows", [[], []]), ("rows/1", [["B", "C"], []]), ("rows/1/billing", [["B", "C"], ["B"]]),
        ("rows/2/booking", [["A", "C"], ["B"]]), ("nap", [["A", "B", "C"], ["B"]]),
    ],
)  # fmt: skip
def test_items_are_left_set_aside_by_their_paths(failed_at: str, left: list[list[str]], batches: Terminal) -> None:
    words = ("runs", "skip", "--flow", "batches", "--failed-at", failed_at, "--reason", "By hand.")
    said = batches.type(*words)
    assert said.code == 0
    assert aside(batches) == left
    again = batches.type(*words)
    assert (again.code, again.out) == (0, "No run fits, so there is nothing to do.\n")


def test_one_item_by_its_path(batches: Terminal) -> None:
    run = json.loads(batches.type("runs", "list", "--flow", "batches", "--json").out)[-1]["run"]
    for path, why in (
        ("rows/1/billing", f'"rows/1/billing" is not an open question of run {run}: h1 (step rows)'),
        ("rows/9", f"there is nothing to skip of item rows/9 of run {run}: the list has 3; set aside are rows/1 (A)"),
    ):
        said = batches.type("runs", "skip", run, path, "--reason", "By hand.")
        assert (said.code, why in said.err) == (2, True), said.err
    assert batches.type("runs", "skip", run, "rows/2", "--reason", "By hand.").code == 0
    assert aside(batches) == [["A", "C"], ["B"]]
    again = batches.type("runs", "skip", run, "rows/2", "--reason", "By hand.")
    assert (again.code, again.out) == (0, f"amends: item rows/2 of run {run} was left set aside already\n")


def test_a_step_that_is_not_there_is_named(shop: Terminal) -> None:
    listed = json.loads(shop.type("runs", "list", "--flow", "orders", "--json").out)
    waiting = next(each["run"] for each in listed if each["status"] == "waiting")
    asking = next(each["run"] for each in listed if each["status"] == "needs_person")
    for typed in (("retry",), ("skip", "--reason", "x"), ("settle", "--did-not")):
        said = shop.type("runs", typed[0], waiting, "biling", *typed[1:])
        assert said.err.startswith(
            f'amends: flow orders of run {waiting} has no step "biling"; did you mean "billing"?'
        )
        said = shop.type("runs", typed[0], asking, "biling", *typed[1:])
        assert said.err.startswith(f'amends: "biling" is not an open question of run {asking}: h1 (step billing)')
        assert said.code == 2


# --- one answer to many questions of one run --------------------------------------------------------------------------

PARCELS = """\
flow: parcels
title: Parcels are sent, and the books are told
owner: person:me
mode: live
run_key: ${{ trigger.id }}
inputs: { names: { list: { n: text } } }
steps:
  - id: van
    do: records.create
    with: { collection: vans, name: "One" }
    compensate: { hand_off: person:me, say: Call the van back. }
  - id: rows
    each: ${{ inputs.names }}
    named: ${{ item.n }}
    steps:
      - id: parcel
        do: records.create
        with: { collection: parcels, name: "${{ item.n }}" }
        compensate: { hand_off: person:me, say: Ask the carrier to bring it back. }
  - id: books
    do: records.update
    with: { collection: books, id: none, paid: "yes" }
    unattended: Our own books.
    compensate: { none: A book may stay. }
"""


@pytest.fixture
def parcels(shop: Terminal) -> str:
    """A run that asks alike of four parcels (h1 to h4), and otherwise of its van (h5)."""
    (shop.folder / "flows" / "parcels.yaml").write_text(PARCELS, encoding="utf-8")
    given = json.dumps([{"n": name} for name in ("Ito", "Kato", "Mori", "Sato")])
    said = shop.type("run", "parcels", "-i", f"names={given}")
    assert said.code == 3, said
    found = re.search(r"\d{6}-\w{8}", said.out)
    assert found is not None
    return found[0]


def answers(shop: Terminal, run: str) -> dict[str, tuple[str, str]]:
    """The answers in the log: by question, the choice and the reason."""
    with closing(Amends.open(shop.folder)) as amends:
        rows = [row.event for row in amends.store.log(run)]
    told = [event for event in rows if isinstance(event, HandOffResolved)]
    assert len({event.handoff for event in told}) == len(told), "each is answered once"
    return {event.handoff: (event.choice, event.reason) for event in told}


def test_alike_questions_of_a_run_are_answered_together(shop: Terminal, parcels: str) -> None:
    words = ("handoffs", "resolve", parcels, "h2", "done", "--and-alike", "--reason", "The carrier has it.")
    page_of_it = shop.type("runs", "show", parcels).out
    assert "All 4 of these together (done, stands; --dry-run only says which they are):\n" in page_of_it
    assert f'    amends handoffs resolve {parcels} h1 done --reason "…" --and-alike\n' in page_of_it
    seen = shop.type(*words, "--dry-run")
    assert (seen.code, seen.out.count("put right by hand (rows › ")) == (0, 4)
    assert seen.out.endswith("Nothing was done; 0 were so already, 0 refused.\n")
    assert answers(shop, parcels) == {}
    shop.type("handoffs", "resolve", parcels, "h3", "stands", "--reason", "It is lost.")
    done = shop.type(*words)
    assert (done.code, "3 done; 0 were so already, 0 refused.\n" in done.out) == (0, True), done
    same = ("done", "The carrier has it.")
    assert answers(shop, parcels) == {"h1": same, "h2": same, "h3": ("stands", "It is lost."), "h4": same}
    assert "h5  Please make step van good by hand.\n" in done.out, "another question stays open"
    assert shop.type(*words).code == 2


def test_together_they_are_answered_where_an_engine_serves_too(shop: Terminal, parcels: str) -> None:
    words = ("handoffs", "resolve", parcels, "h1", "stands", "--and-alike", "--reason", "Lost.", "--json")
    with Running("serve", "--port", "0", folder=shop.folder):
        assert results(shop.type(*words)) == {"done": 4}
    assert set(answers(shop, parcels).values()) == {("stands", "Lost.")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("h1 take_over --and-alike", '"take_over" is said of one question at a time; --and-alike takes again, retry,'),
        ("done --reason x --and-alike", "--and-alike needs an open question of run"),
        ("h1 done --reason … --and-alike", "stands for your own words"),
        ("h1 done --reason x --dry-run", "--dry-run goes with --and-alike"),
    ],
)
def test_what_cannot_be_answered_together(words: str, said: str, shop: Terminal, parcels: str) -> None:
    told = shop.type("handoffs", "resolve", parcels, *words.split())
    assert (told.code, said in told.err) == (2, True), told
    without = shop.type("handoffs", "resolve", parcels, "h1", "done", "--and-alike")
    assert (without.code, without.out.count("refused: done needs a reason")) == (1, 4)
    assert answers(shop, parcels) == {}
