"""The demo's project folder, and the count of true effects: it can be made, and a duplicate cannot hide."""

from __future__ import annotations

import smtplib
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.demo import STORIES, Servers, count, make_project, prove, start_servers
from runner.demo.faults import Fault
from runner.demo.mails import MailFault
from runner.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runner" / "demo" / "project"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with start_servers(tmp_path / "servers") as running:
        yield running


def test_the_project_points_at_the_servers_and_keeps_the_token_apart(tmp_path: Path) -> None:
    make_project(tmp_path / "demo", backoffice_url="http://127.0.0.1:1234", smtp_port=2525, token="t0ken")
    connections = (tmp_path / "demo" / "connections.yaml").read_text()
    assert connections.count("http://127.0.0.1:1234") == 3
    assert "port: 2525" in connections
    assert "t0ken" not in connections
    secrets = tmp_path / "demo" / ".env"
    assert secrets.read_text() == "BACKOFFICE_TOKEN=t0ken\n"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    wanted = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file()}
    assert wanted == {
        path.relative_to(tmp_path / "demo") for path in (tmp_path / "demo").rglob("*") if path.is_file()
    } - {Path(".env")}


def test_the_demo_made_again_keeps_what_its_reader_changed(tmp_path: Path) -> None:
    make_project(tmp_path, backoffice_url="http://127.0.0.1:1", smtp_port=1)
    (tmp_path / "templates" / "welcome.md").write_text("subject: Mine\n\nMine\n")
    make_project(tmp_path, backoffice_url="http://127.0.0.1:2", smtp_port=2)
    assert (tmp_path / "templates" / "welcome.md").read_text() == "subject: Mine\n\nMine\n"
    assert "http://127.0.0.1:2" in (tmp_path / "connections.yaml").read_text()


def test_another_project_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "amends.yaml").write_text("project: acme\n")
    with pytest.raises(SettingsError, match="holds another project already; choose an empty folder"):
        make_project(tmp_path, backoffice_url="http://127.0.0.1:1", smtp_port=1)
    assert [path.name for path in tmp_path.iterdir()] == ["amends.yaml"]


@pytest.mark.parametrize("kind", ["flows", "connectors", "templates"])
def test_the_examples_hold_the_demo_word_for_word(kind: str) -> None:
    for file in (PACKAGE / kind).iterdir():
        if file.name == "signup_to_paid.yaml":  # the demo runs by itself; the example asks somebody first
            continue
        example = ROOT / "flows" / (file.name if kind == "flows" else f"{kind}/{file.name}")
        assert example.read_text() == file.read_text(), file.name


def test_the_four_stories_differ_in_people_and_ends() -> None:
    assert [story.end for story in STORIES] == ["succeeded", "compensated", "succeeded", "needs_person"]
    assert len({story.name for story in STORIES}) == len({story.inputs["email"] for story in STORIES}) == 4
    assert [len(story.faults) for story in STORIES] == [0, 1, 1, 1]


def test_the_faults_of_the_stories_are_taken_by_the_servers(servers: Servers) -> None:
    for story in STORIES:
        for fault in story.faults:
            servers.control(fault)
    armed = [fault for story in STORIES for fault in story.faults]
    assert servers.ledger()["faults_left"] == sum(isinstance(fault, Fault) for fault in armed)
    assert sum(isinstance(fault, MailFault) for fault in armed) == 1


def mail(servers: Servers, to: str, name: str) -> None:
    with smtplib.SMTP("127.0.0.1", servers.smtp_port, timeout=5) as client:
        client.sendmail("us@shop.test", [to], f"Subject: Welcome\r\nMessage-ID: <{name}@shop.test>\r\n\r\nHi\r\n")


def test_the_proof_counts_what_happened(servers: Servers) -> None:
    made = servers.ask("POST", "/contacts", {"name": "Aya", "email": "a@b.test", "reference": "k1"})
    servers.ask("POST", "/payments", {"customer": made["id"], "amount": 5, "reference": "k2"})
    servers.ask("POST", "/tasks", {"title": "Call", "reference": "k3"})
    mail(servers, "a@b.test", "m1")
    assert prove(servers) == [
        "Back office: 1 contact made, 1 payment taken, 1 follow-up made.",
        "Mail server: 1 mail accepted, 1 different Message-ID, 0 left without an answer.",
        "Duplicates: 0.",
    ]


def test_a_duplicate_cannot_hide(servers: Servers) -> None:
    """Planted: a payment taken twice, a mail sent twice under one id, and one sent again under a new id."""
    made = servers.ask("POST", "/contacts", {"name": "Aya", "email": "a@b.test", "reference": "k1"})
    for _ in range(2):
        servers.ask("POST", "/payments", {"customer": made["id"], "amount": 5, "reference": "k2"})
    for to, name in (("a@b.test", "m1"), ("a@b.test", "m1"), ("c@d.test", "m2"), ("c@d.test", "m3")):
        mail(servers, to, name)
    assert prove(servers)[2:] == [
        'DUPLICATE: "payment.taken" happened 2 times for the reference k2.',
        "DUPLICATE: the mail <m1@shop.test> was accepted 2 times.",
        'DUPLICATE: "Welcome" went to a@b.test 2 times.',
        'DUPLICATE: "Welcome" went to c@d.test 2 times.',
    ]
    assert count(servers, since=9_999_999_999_999).effects == {}
