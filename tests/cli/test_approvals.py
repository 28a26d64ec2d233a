"""`amends approvals` and `amends quarantine`: what is printed is what would leave, and what was looked at is decided."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from runner.telling.consequences import consequence
from runner.telling.story import Story
from tests.cli.terminal import Said, Terminal
from tests.support.smtp_service import SmtpService, running_smtp

GOLDEN = Path(__file__).parent / "approval_shown.txt"
PEOPLE = """\
people:
  aya: { name: Aya Sato, mail: aya@acme.test }
  tom: { name: Tom Ito, mail: tom@acme.test }
"""
FLOW = """\
flow: offer
title: An offer goes out
owner: person:me
mode: live
run_key: ${{ trigger.id }}
inputs: { name: text, amount: { money: JPY } }
steps:
  - id: note
    do: records.create
    with: { collection: notes, text: begun }
    compensate: { quarantine: note }
  - id: go
    approve: Send the offer of ${{ inputs.amount }} to ${{ inputs.name }}?
    covers: [letter, booked]
    shows: [inputs.name]
    by: [person:aya, person:tom]
  - id: letter
    do: mail.send
    with: { to: "kato@customer.test", subject: Our offer, text: "Dear ${{ inputs.name }}, ${{ inputs.amount }}." }
    compensate: { none: A letter stays sent. }
    accept_order: The booking is our own table.
  - id: booked
    do: records.create
    with: { collection: offers, amount: "${{ inputs.amount.value }}" }
    compensate: cancel
"""


@pytest.fixture
def mail() -> Iterator[SmtpService]:
    with running_smtp() as running:
        yield running


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], mail: SmtpService) -> Terminal:
    """A project with an offer that asks first."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "offer.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "people.yaml").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "amends.yaml").write_text("project: offers\nzone: Asia/Tokyo\n", encoding="utf-8")
    (tmp_path / "connections.yaml").write_text(
        f"mail: {{ connector: email, host: 127.0.0.1, port: {mail.port}, from: ops@acme.test, allow_private: true,"
        " security: none, allow_insecure: true }\n",
        encoding="utf-8",
    )
    return Terminal(tmp_path, capsys)


def begun(terminal: Terminal, by: str = "person:tom") -> tuple[Said, str]:
    """What `amends run` says, and the run."""
    said = terminal.type("run", "offer", "-i", "name=Kato", "-i", "amount=5000 JPY", "--by", by)
    found = re.search(r"Run (\S+) of offer", said.out)
    assert found, said
    return said, found[1]


def hash_of(terminal: Terminal, run: str) -> str:
    found: str = json.loads(terminal.type("approvals", "show", run, "--json").out)["hash"]
    return found


def token_of(terminal: Terminal, person: str) -> str:
    return terminal.type("people", "token", person).out.strip()


def fixed(text: str, run: str, hash_: str) -> str:
    """The text without what is another at each time."""
    text = text.replace(run, "RUN").replace(hash_[:12], "HASH")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "WHEN", text)
    return re.sub(r"\([0-9a-f]{24}\)", "(ID)", text)


def test_a_run_that_asks_leaves_with_4_and_says_who_is_asked(terminal: Terminal, mail: SmtpService) -> None:
    said, run = begun(terminal)
    assert said.code == 4
    assert "waits for an approval by person:aya or person:tom until" in said.out
    assert "Asks person:aya or person:tom: Send the offer of 5,000 JPY to Kato?" in said.out
    assert f"    amends approvals show {run}\n" in said.out
    assert mail.mails == []
    listed = terminal.type("approvals", "list")
    assert (listed.code, run in listed.out, "Send the offer of 5,000 JPY to Kato?" in listed.out) == (0, True, True)
    one = json.loads(terminal.type("approvals", "list", "--json").out)[0]
    assert (one["run"], one["approval"], one["asked"], one["yes"]) == (run, "go", ["person:aya"], [])
    assert terminal.type("approvals", "list", "--for", "person:tom").out == "Nothing waits for a yes.\n"


def test_what_is_shown_is_what_would_leave(terminal: Terminal) -> None:
    _, run = begun(terminal)
    said = terminal.type("approvals", "show", run)
    assert said.code == 0, said.err
    shown = fixed(said.out, run, hash_of(terminal, run))
    assert shown == GOLDEN.read_text(encoding="utf-8")


def test_what_is_to_be_typed_is_never_cut(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = begun(terminal)
    start = f"    amends approvals approve {run} go --hash {hash_of(terminal, run)[:12]}"
    for columns in ("40", "60"):
        monkeypatch.setenv("COLUMNS", columns)
        assert start in terminal.type("approvals", "show", run).out.splitlines()


def test_a_yes_lets_it_leave_once(terminal: Terminal, mail: SmtpService) -> None:
    _, run = begun(terminal)
    hash_, token = hash_of(terminal, run), token_of(terminal, "aya")
    said = terminal.type("approvals", "approve", run, "--hash", hash_[:12], "--token", token, "--comment", "Fine.")
    assert said.code == 0, said.err
    assert "person:aya says yes. Fine." in said.out
    assert [one.subject for one in mail.mails] == ["Our offer"]
    again = terminal.type("approvals", "approve", run, "go", "--hash", hash_, "--token", token)
    assert (again.code, len(mail.mails)) == (2, 1)
    assert again.err == f"amends: approval go of run {run} is not open any more (yes)\n"
    assert terminal.type("approvals", "show", run).err == f"amends: run {run} (succeeded) asks for no yes\n"


def test_a_no_makes_good_and_what_is_set_aside_is_listed(terminal: Terminal, mail: SmtpService) -> None:
    _, run = begun(terminal)
    said = terminal.type(
        "approvals", "reject", run, "--hash", hash_of(terminal, run), "--token", token_of(terminal, "aya"),
        "--reason", "Too much.",
    )  # fmt: skip
    assert (said.code, mail.mails) == (0, [])
    assert "person:aya says no. Too much." in said.out
    listed = terminal.type("quarantine", "list")
    assert (listed.code, run in listed.out) == (0, True)
    record = json.loads(terminal.type("quarantine", "list", "--json").out)[0]["record"]
    wrong = terminal.type("quarantine", "release", run, "note/other")
    assert (wrong.code, wrong.err) == (2, f"amends: note/other of run {run} is not set aside (any more)\n")
    assert terminal.type("quarantine", "release", run).out == f"Released: {record} counts again.\n"
    assert terminal.type("quarantine", "list").out == "Nothing is set aside.\n"
    gone = terminal.type("quarantine", "discard", run)
    assert (gone.code, gone.err) == (2, f"amends: run {run} has nothing set aside (any more)\n")
    assert record in terminal.type("quarantine", "list", "--all").out


def test_changes_are_asked_for_in_words(terminal: Terminal, mail: SmtpService) -> None:
    _, run = begun(terminal)
    given = ("approvals", "reject", run, "--hash", hash_of(terminal, run), "--token", token_of(terminal, "aya"))
    for words, why in (
        (("--changes", " "), "say what should be changed"),
        (("--changes", "…"), 'the "…" of --changes stands for your own words; write them in its place'),
        (("--changes", "Less.", "--reason", "Too much."), "say it once: --changes takes the place of --reason"),
    ):
        refused = terminal.type(*given, *words)
        assert (refused.code, refused.err) == (2, f"amends: {why}\n")
    said = terminal.type(*given, "--changes", "Less, please")
    assert (said.code, mail.mails) == (0, [])
    assert said.out.count("person:aya asked for changes: Less, please.") == 2
    shown = terminal.type("runs", "show", run).out
    assert "person:aya asked for changes: Less, please." in shown
    assert "says no" not in said.out + shown


def test_who_may_not_decide_is_told_why(terminal: Terminal, mail: SmtpService) -> None:
    _, run = begun(terminal)
    hash_ = hash_of(terminal, run)
    for words, why in (
        (("--hash", hash_), "deciding needs your own token (AMENDS_TOKEN); `amends people token NAME` makes one"),
        (
            ("--hash", hash_, "--token", "made-up"),
            "this token opens nothing (any more); `amends people token NAME` makes one",
        ),
        (("--hash", hash_, "--token", token_of(terminal, "tom")), "you cannot decide this: you have started this run"),
        (
            ("--hash", "0123456789ab", "--token", token_of(terminal, "aya")),
            f"what would be sent is not what has the hash 0123456789ab; look at it with `amends approvals show {run} go`",
        ),
        (
            ("--token", token_of(terminal, "aya")),
            f"say what you have looked at: `amends approvals show {run} go` prints it with its hash, for --hash",
        ),
        (
            ("--hash", hash_, "--leave-out", "booked", "--token", token_of(terminal, "aya")),
            "booked may not be left out: it is no item of a list, or only a part of one",
        ),
    ):
        said = terminal.type("approvals", "approve", run, *words)
        assert said.code == 2
        assert why in said.err, said.err
    assert mail.mails == []


def test_whoever_sits_there_is_shown_it_and_asked(
    terminal: Terminal, mail: SmtpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = begun(terminal)
    monkeypatch.setenv("AMENDS_TOKEN", token_of(terminal, "aya"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda question: False)
    said = terminal.type("approvals", "approve", run)
    assert (said.code, said.err, "| Dear Kato, 5,000 JPY." in said.out) == (2, "amends: nothing was decided\n", True)
    monkeypatch.setattr("typer.confirm", lambda question: True)
    assert terminal.type("approvals", "approve", run).code == 0
    assert len(mail.mails) == 1


def test_a_draft_of_the_terminal_is_decided_at_the_terminal(terminal: Terminal, mail: SmtpService) -> None:
    said = terminal.type("run", "offer", "-i", "name=Kato", "-i", "amount=5000 JPY", "--draft")
    found = re.search(r"Run (\S+) of offer", said.out)
    assert found, said
    assert (
        f"You can\n  See what is asked. It prints what to type for a yes or a no.\n    amends approvals show {found[1]}\n"
        in said.out
    )
    assert "without a token:" in terminal.type("approvals", "show", found[1]).out
    done = terminal.type("approvals", "approve", found[1], "--hash", hash_of(terminal, found[1]))
    assert (done.code, "drafted" in done.out, mail.mails) == (0, True, [])


@pytest.mark.parametrize(("yes", "is_told"), [(("person:tom",), True), ((), False)])
def test_only_a_run_that_was_approved_is_approved_again(yes: tuple[str, ...], is_told: bool) -> None:
    gates = {"go": SimpleNamespace(yes=yes)}
    story = SimpleNamespace(view=SimpleNamespace(mode="live"), state=SimpleNamespace(gates=gates))
    assert ("Who approved this one is asked again." in consequence(cast(Story, story), "rerun")) == is_told
