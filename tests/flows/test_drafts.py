"""A flow in draft as it is lived with: the demo's back office and mail server, and the drafts of a real Dovecot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from runner.demo import Servers, make_project, start_servers
from tests.cli.terminal import Terminal
from tests.support.dovecot import PASSWORD, Dovecot, dovecot

pytestmark = pytest.mark.real
LINE = "    imap: 127.0.0.1\n    imap_port: {port}\n    imap_security: none\n    user: hello\n    password: {{ secret: BOX }}\n"
UNTOLD = """flow: telling
title: A task that waits for ever
owner: person:me
run_key: ${{ trigger.id }}
steps:
  - { id: task, do: tasks.create, with: { title: x, due: "2026-12-01" }, compensate: cancel }
  - { id: paid, wait_for: order.paid, match: { no: "7" } }
"""
GIVEN = ("-i", "name=Ben Okafor", "-i", "email=ben@customer.test", "-i", "plan=basic", "-i", "amount=4000")


@pytest.fixture(scope="module")
def box() -> Iterator[Dovecot]:
    with dovecot() as running:
        yield running


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with start_servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
def terminal(tmp_path: Path, servers: Servers, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """The demo's project, its flow in draft."""
    folder = tmp_path / "demo"
    make_project(folder, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
    change(folder / "flows/signup_to_paid.yaml", "mode: live", "mode: draft  # until we have read it")
    return Terminal(folder, capsys)


def change(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


def with_box(terminal: Terminal, box: Dovecot) -> None:
    """The mail connection knows where drafts are kept."""
    line = LINE.format(port=box.port).replace("    ", "  ")
    change(terminal.folder / "connections.yaml", "  allow_insecure: true\n", "  allow_insecure: true\n" + line)
    with (terminal.folder / ".env").open("a", encoding="utf-8") as secrets:
        secrets.write(f"BOX={PASSWORD}\n")


def drafts_in(box: Dovecot) -> list[Message]:
    with box.log_in("hello") as client:
        if client.select("Drafts", readonly=True)[0] != "OK" or client.search(None, "ALL")[1] == [b""]:
            return []
        told = client.fetch("1:*", "(RFC822)")[1]
    return [message_from_bytes(one[1]) for one in told if isinstance(one, tuple)]


def effects_of(servers: Servers) -> tuple[int, int]:
    """(changes at the back office, mails) that there truly were."""
    return len(servers.ledger()["effects"]), len(servers.mails())


def run_of(said: str) -> str:
    found = re.search(r"\d{6}-[a-z0-9]{8}", said)
    assert found
    return found[0]


def test_a_draft_of_the_demo_sends_nothing_and_says_what_it_would(terminal: Terminal, servers: Servers) -> None:
    before = effects_of(servers)
    said = terminal.type("run", "signup_to_paid", *GIVEN)
    assert (said.code, effects_of(servers)) == (0, before)
    assert said.out.endswith("\n\nDRAFT: nothing was sent\n")
    for line in (
        "What going live would send",
        "  contact: Makes a contact (crm.create_contact)",
        "    title:  Onboard Ben Okafor on Basic",
    ):
        assert line in said.out
    assert "Onboard Ben Okafor" in said.out
    asked = [path for path in servers.ledger()["requests_by_path"] if "contacts" in path]
    assert asked, "who is there already is looked for"


def test_a_mail_is_left_among_the_drafts_and_removed(terminal: Terminal, servers: Servers, box: Dovecot) -> None:
    with_box(terminal, box)
    before = effects_of(servers)
    said = terminal.type("run", "signup_to_paid", *GIVEN)
    assert said.code == 0, said
    run = run_of(said.out)
    [mail] = drafts_in(box)
    assert (mail["To"], mail["Subject"]) == ("ben@customer.test", "Welcome to the Basic plan")
    assert said.out.endswith("\n\nDRAFT: 1 draft was left at the services, nothing was sent\n")
    assert f"a draft, left at the service: {mail['Message-ID']}" in said.out.replace("\n    ", " ").replace("\n", "")
    shown = json.loads(terminal.type("runs", "show", run, "--json").out)
    assert [each["action"] for each in shown["would_be_sent"]] == [
        "crm.create_contact", "tasks.create", "mail.send", "billing.mark_paid",
    ]  # fmt: skip
    assert [(each["action"], each["disposition"]) for each in shown["effects"]] == [("mail.draft", "stands")]
    assert list(shown["can_do"]) == ["compensate"]
    refused = terminal.type("runs", "rerun", run)
    assert (refused.code, "would be there twice" in refused.err) == (2, True)
    removed = terminal.type("runs", "compensate", run)
    assert (removed.code, removed.out.endswith("DRAFT: nothing was sent\n")) == (0, True), removed
    assert (drafts_in(box), effects_of(servers)) == ([], before)
    log = json.loads(terminal.type("log", "export", run_of(removed.out)).out)["log"]
    kinds = [entry["type"] for entry in log]
    assert kinds.count("CallIntended") == kinds.count("CallApplied") == 1


def test_a_draft_that_fails_leaves_no_draft(terminal: Terminal, servers: Servers, box: Dovecot) -> None:
    with_box(terminal, box)
    before = effects_of(servers)
    change(
        terminal.folder / "flows/signup_to_paid.yaml",
        "${{ inputs.amount.value }}",
        "${{ inputs.amount.value / 0 }}",
    )
    said = terminal.type("run", "signup_to_paid", *GIVEN)
    assert (said.code, drafts_in(box), effects_of(servers)) == (1, [], before)
    assert "compensated: its drafts were removed" in said.out
    assert "DRAFT: nothing was sent" in said.out


def test_a_project_that_is_a_draft_keeps_every_flow_one(terminal: Terminal, servers: Servers, box: Dovecot) -> None:
    with_box(terminal, box)
    change(terminal.folder / "flows/signup_to_paid.yaml", "mode: draft", "mode: live")
    settings = terminal.folder / "amends.yaml"
    settings.write_text(settings.read_text(encoding="utf-8") + "mode: draft\n", encoding="utf-8")
    before = effects_of(servers)
    said = terminal.type("run", "signup_to_paid", *GIVEN)
    assert (said.code, effects_of(servers), len(drafts_in(box))) == (0, before, 1)
    assert "DRAFT: 1 draft was left" in said.out
    terminal.type("runs", "compensate", run_of(said.out))


def test_it_goes_live_and_back(terminal: Terminal, servers: Servers) -> None:
    file = terminal.folder / "flows/signup_to_paid.yaml"
    written = file.read_text(encoding="utf-8")
    drafted = run_of(terminal.type("run", "signup_to_paid", *GIVEN, "--key", "ben").out)
    refused = terminal.type("go-live", "signup_to_paid")
    assert (refused.code, refused.err) == (
        2,
        "amends: flows/signup_to_paid.yaml was not changed; say --yes if that is meant\n",
    )
    said = terminal.type("go-live", "signup_to_paid", "--yes")
    assert said.code == 0, said
    assert file.read_text(encoding="utf-8") == written.replace("mode: draft  #", "mode: live  #")
    assert said.out.endswith("flows/signup_to_paid.yaml: mode: live. New runs act from now on.\n")
    for line in (
        "  contact: Makes a contact (crm.create_contact)",
        "    Cannot be undone: A mail that has gone out cannot be taken back.",
    ):
        assert line in said.out
    again = terminal.type("go-live", "signup_to_paid", "--yes")
    assert (again.code, "is live already" in again.out) == (0, True)
    before = effects_of(servers)
    live = terminal.type("run", "signup_to_paid", *GIVEN, "--key", "ben")
    assert (live.code, effects_of(servers)) == (0, (before[0] + 3, before[1] + 1))
    assert run_of(live.out) != drafted, "the keys of drafts are apart"
    back = terminal.type("go-live", "signup_to_paid", "--back", "--yes")
    assert (back.code, file.read_text(encoding="utf-8")) == (0, written)
    assert back.out.endswith("mode: draft. New runs send nothing.\n")
    change(file, "mode: draft", "mode: live")
    change(file, "crm.create_contact", "crm.make_contact")
    assert terminal.type("go-live", "signup_to_paid", "--back", "--yes").code == 0, "whatever is wrong with it"


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("    unattended:", "    # unattended:", "flows/signup_to_paid.yaml:"),
        ("owner: person:me", "owner: team:nobody", "team:nobody is nobody"),
        ("crm.create_contact", "crm.make_contact", '"crm" has no action "make_contact"'),
    ],
)
def test_what_could_not_run_live_stays_a_draft(terminal: Terminal, before: str, after: str, what: str) -> None:
    file = terminal.folder / "flows/signup_to_paid.yaml"
    change(file, before, after)
    written = file.read_text(encoding="utf-8")
    said = terminal.type("go-live", "signup_to_paid", "--yes")
    assert (said.code, file.read_text(encoding="utf-8")) == (2, written)
    assert "signup_to_paid.yaml:" in said.err
    assert what in said.err


def test_what_leaves_something_of_which_nobody_is_told_stays_a_draft(terminal: Terminal) -> None:
    (terminal.folder / "flows/telling.yaml").write_text(UNTOLD, encoding="utf-8")
    assert terminal.type("check", "telling").code == 0
    said = terminal.type("go-live", "telling", "--yes")
    assert (said.code, (terminal.folder / "flows/telling.yaml").read_text(encoding="utf-8")) == (2, UNTOLD)
    assert "of which nobody is told (`amends drill telling`)" in said.err
