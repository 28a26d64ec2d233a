"""The demo's servers are real: they keep books, honour keys, and fail as told."""

from __future__ import annotations

import http.client
import os
import smtplib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.demo import Servers, start_servers
from runner.demo.faults import Fault, FaultList
from runner.demo.mails import MailFault
from runner.demo.servers import ServerFailed

LIMIT = 5.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with start_servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


def post(servers: Servers, path: str, body: str, key: str = "", method: str = "POST") -> tuple[int, str, str]:
    """One raw request: status, content type and text. Raises where the line is cut."""
    connection = http.client.HTTPConnection("127.0.0.1", int(servers.backoffice_url.rsplit(":", 1)[1]), timeout=LIMIT)
    headers = {"Authorization": f"Bearer {servers.token}"} | ({"Idempotency-Key": key} if key else {})
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read().decode()
    finally:
        connection.close()


def effects(servers: Servers, key: str) -> list[str]:
    """What was truly done under a key or reference."""
    return [each["what"] for each in servers.ledger()["effects"] if key in (each["key"], each["reference"])]


def test_a_contact_is_made_found_and_changed(servers: Servers) -> None:
    made = servers.ask("POST", "/contacts", {"name": "Aya", "email": "aya@a.test", "reference": "r-1"})
    assert (made["email"], made["status"], made["reference"]) == ("aya@a.test", "new", "r-1")
    assert servers.ask("GET", "/contacts?email=aya@a.test")["items"] == [made]
    changed = servers.ask("PATCH", f"/contacts/{made['id']}", {"status": "needs_review"})
    assert servers.ask("GET", f"/contacts/{made['id']}") == changed == made | {"status": "needs_review"}
    servers.ask("PATCH", f"/contacts/{made['id']}", {"status": "needs_review"})
    assert effects(servers, "r-1") == ["contact.created", "contact.changed"], "no change, no effect"


def test_a_task_is_made_and_closed_once(servers: Servers) -> None:
    made = servers.ask("POST", "/tasks", {"title": "Call", "due": "2026-09-01", "reference": "r-2"})
    closed = servers.ask("POST", f"/tasks/{made['id']}/close", {"comment": "done"})
    again = servers.ask("POST", f"/tasks/{made['id']}/close", {"comment": "twice"})
    assert (closed["status"], closed["comment"]) == ("closed", "done")
    assert again == closed
    assert servers.ask("GET", "/tasks?reference=r-2")["items"] == [closed]
    assert effects(servers, "r-2") == ["task.created", "task.closed"]


def test_a_payment_is_taken_and_given_back_never_more_than_it_was(servers: Servers) -> None:
    contact = servers.ask("POST", "/contacts", {"name": "Ben", "email": "ben@b.test"})
    paid = servers.ask("POST", "/payments", {"customer": contact["id"], "amount": 100.5, "reference": "r-3"})
    assert paid["amount"] == "100.5"
    servers.ask("POST", f"/payments/{paid['id']}/refund", {"amount": 40})
    with pytest.raises(ServerFailed, match=r"Of this payment 60\.5 can be given back, not 61"):
        servers.ask("POST", f"/payments/{paid['id']}/refund", {"amount": "61"})
    rest = servers.ask("POST", f"/payments/{paid['id']}/refund", {})
    assert (rest["refunded"], rest["status"]) == ("100.5", "refunded")
    assert effects(servers, "r-3") == ["payment.taken", "payment.refunded", "payment.refunded"]


def test_a_key_binds_one_request_to_one_effect(servers: Servers) -> None:
    first = post(servers, "/tasks", '{"title": "One"}', key="k-1")
    assert first[0] == 201
    assert post(servers, "/tasks", '{"title": "One"}', key="k-1") == first, "the remembered answer"
    status, _, text = post(servers, "/tasks", '{"title": "Two"}', key="k-1")
    assert (status, "This key was used before with another body." in text) == (422, True)
    assert effects(servers, "k-1") == ["task.created"]
    assert servers.ledger()["requests_by_key"]["k-1"] == 3
    assert servers.ledger()["by_key"]["k-1"] == 1


def test_without_a_key_the_same_request_is_a_second_effect(servers: Servers) -> None:
    for _ in range(2):
        post(servers, "/tasks", '{"title": "Twice", "reference": "r-4"}')
    assert effects(servers, "r-4") == ["task.created", "task.created"], "the count can show a duplicate"


def test_many_requests_at_once_with_one_key_have_one_effect(servers: Servers) -> None:
    seen: list[tuple[int, str, str]] = []
    senders = [
        threading.Thread(target=lambda: seen.append(post(servers, "/tasks", '{"title": "Rush"}', key="k-2")))
        for _ in range(20)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(LIMIT)
    assert len(seen) == 20
    assert len(set(seen)) == 1
    assert effects(servers, "k-2") == ["task.created"]


@pytest.mark.parametrize(
    ("path", "body", "status", "say"),
    [
        ("/contacts", '{"name": "x"}', 422, 'The field "email" is missing or is no text.'),
        ("/contacts", '{"name": "x", "email": "nobody"}', 422, '"nobody" is no mail address.'),
        ("/payments", '{"customer": "C-999", "amount": 1}', 404, 'There is no contact "C-999".'),
        ("/tasks/T-999/close", "{}", 404, 'There is no task "T-999".'),
        ("/tasks", "[1]", 422, "The body is no JSON object."),
        ("/tasks", "{", 400, "The body is no JSON."),
        ("/nothing", "{}", 404, "POST /nothing: Not Found."),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    servers: Servers, path: str, body: str, status: int, say: str
) -> None:
    before = len(servers.ledger()["effects"])
    answered, _, text = post(servers, path, body)
    assert (answered, say.replace('"', '\\"') in text) == (status, True), text
    assert len(servers.ledger()["effects"]) == before


def test_a_plan_that_does_not_exist_is_not_found(servers: Servers) -> None:
    assert servers.ask("GET", "/plans/pro")["label"] == "Pro"
    assert post(servers, "/plans/gold", "", method="GET")[0] == 404


def test_nobody_gets_in_without_the_token(servers: Servers) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(servers.backoffice_url.rsplit(":", 1)[1]), timeout=LIMIT)
    connection.request("GET", "/_ledger", headers={"Authorization": "Bearer wrong"})
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.parametrize(
    ("fault", "status", "done"),
    [
        (Fault(path="/tasks", fault="refuse", say="No."), 422, 0),
        (Fault(path="/tasks", fault="error"), 500, 0),
        (Fault(path="/tasks", fault="rate_limit", after_ms=2500), 429, 0),
        (Fault(path="/tasks", fault="html"), 200, 1),
        (Fault(path="/tasks", fault="late", after_ms=300), 201, 1),
        (Fault(path="/tasks", fault="drop_before"), None, 0),
        (Fault(path="/tasks", fault="drop_after"), None, 1),
    ],
    ids=lambda value: value.fault if isinstance(value, Fault) else "",
)
def test_each_fault_does_what_it_says_once(servers: Servers, fault: Fault, status: int | None, done: int) -> None:
    reference = f"fault-{fault.fault}"
    body = f'{{"title": "Fault", "reference": "{reference}"}}'
    servers.control(fault)
    began = time.monotonic()
    try:
        answered, kind, _ = post(servers, "/tasks", body)
    except (ConnectionError, http.client.RemoteDisconnected):
        answered, kind = None, ""
    assert answered == status
    assert kind.startswith("text/html") == (fault.fault == "html")
    assert (time.monotonic() - began >= 0.3) == (fault.fault == "late")
    assert len(effects(servers, reference)) == done
    assert servers.ledger()["faults_left"] == 0
    assert post(servers, "/tasks", body)[0] == 201, "the fault is used up"


def test_a_fault_waits_for_its_path_and_leaves_reading_alone() -> None:
    faults = FaultList()
    faults.add(Fault(path="/tasks/*/close", fault="error", times=2))
    assert faults.take("GET", "/tasks/T-1/close") is None
    assert faults.take("POST", "/tasks") is None
    assert faults.take("POST", "/tasks/T-1/close") is not None
    assert faults.count == 1
    faults.add(Fault(path="/tasks/*/close", fault="error", times=0))
    assert faults.count == 0, "times 0 disarms"


@pytest.mark.parametrize(
    ("body", "say"),
    [
        ('{"path": "/x", "fault": "explode"}', "is no fault"),
        ('{"path": "x", "fault": "error"}', "begins with /"),
        ('{"path": "/x", "fault": "error", "tymes": 1}', "has no field"),
        ('{"path": "/x", "fault": "error", "times": "2"}', "is a whole number"),
    ],
)
def test_a_wrong_fault_is_refused(servers: Servers, body: str, say: str) -> None:
    status, _, text = post(servers, "/_control", body)
    assert (status, say in text) == (422, True), text


def send(servers: Servers, to: str, subject: str = "Hello") -> None:
    """One mail over real SMTP, as Python's own client sends it."""
    with smtplib.SMTP("127.0.0.1", servers.smtp_port, timeout=LIMIT) as client:
        text = f"Subject: {subject}\r\nMessage-ID: <{subject}-{to}>\r\n\r\nHi.\r\n"
        client.sendmail("us@shop.test", [to], text)


def test_a_mail_is_kept_as_a_file(servers: Servers) -> None:
    send(servers, "one@c.test")
    mail = servers.mails()[-1]
    assert (mail.to, mail.subject, mail.message_id, mail.answered) == (
        ("one@c.test",),
        "Hello",
        "<Hello-one@c.test>",
        True,
    )
    assert b"Hi." in (servers.folder / "mails" / mail.file).read_bytes()


def test_a_mail_is_kept_though_its_answer_is_lost(servers: Servers) -> None:
    servers.control(MailFault(fault="drop_after", to="lost@*"))
    send(servers, "other@c.test")
    with pytest.raises(smtplib.SMTPServerDisconnected):
        send(servers, "lost@c.test")
    assert [(mail.to[0], mail.answered) for mail in servers.mails()[-2:]] == [
        ("other@c.test", True),
        ("lost@c.test", False),
    ]


@pytest.mark.parametrize(("kind", "code"), [("refuse", 550), ("later", 451)])
def test_a_recipient_is_turned_away_once(servers: Servers, kind: str, code: int) -> None:
    servers.control(MailFault(fault=kind, to=f"{kind}@c.test"))  # type: ignore[arg-type]
    with pytest.raises(smtplib.SMTPRecipientsRefused) as error:
        send(servers, f"{kind}@c.test")
    assert error.value.recipients[f"{kind}@c.test"][0] == code
    send(servers, f"{kind}@c.test")
    assert [mail.to for mail in servers.mails()].count((f"{kind}@c.test",)) == 1
    assert servers.turned_away()[-1]["to"] == f"{kind}@c.test"


def test_a_wrong_mail_fault_is_refused(servers: Servers) -> None:
    with pytest.raises(ServerFailed, match="one of drop_after, refuse, later"):
        servers.control(MailFault(fault="explode"))  # type: ignore[arg-type]


def test_the_servers_come_back_on_their_ports_with_their_books_and_leave_no_process(tmp_path: Path) -> None:
    with start_servers(tmp_path) as first:
        first.ask("POST", "/tasks", {"title": "Kept"})
        send(first, "kept@c.test")
        token = first.token
    for pid in first.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert [mail.to for mail in first.mails()] == [("kept@c.test",)]
    with start_servers(tmp_path) as second:
        assert (second.backoffice_url, second.smtp_port, second.token) == (first.backoffice_url, first.smtp_port, token)
        assert [each["what"] for each in second.ledger()["effects"]] == ["task.created"]
        assert len(second.mails()) == 1
        with pytest.raises(ServerFailed, match="port"):
            first._ask(1, "GET", "/_ledger")


def test_a_taken_port_is_exchanged_for_a_free_one(tmp_path: Path) -> None:
    with start_servers(tmp_path) as first:
        (tmp_path / "again").mkdir()
        (tmp_path / "again" / "servers.json").write_text((tmp_path / "servers.json").read_text())
        with start_servers(tmp_path / "again") as second:
            assert second.backoffice_url != first.backoffice_url
            assert second.ledger()["effects"] == []


def test_the_servers_end_when_their_parent_is_gone(tmp_path: Path) -> None:
    servers = start_servers(tmp_path)
    for process in servers._processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(LIMIT) for process in servers._processes] == [0, 0]
    servers.close()


def test_a_server_that_cannot_start_is_named(tmp_path: Path) -> None:
    (tmp_path / "back.db").mkdir()
    with pytest.raises(ServerFailed, match=r"backoffice did not start; .*backoffice\.log says why"):
        start_servers(tmp_path)
