"""The scripted SMTP service does what tests believe it does."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import SmtpProcess
from tests.support.smtp_service import SmtpScript, SmtpService, running_smtp

LIMIT = 5.0


@pytest.fixture
def service() -> Iterator[SmtpService]:
    with running_smtp() as running:
        yield running


def send(port: int, *to: str, name: str = "m1", limit: float = LIMIT, login: tuple[str, str] | None = None) -> None:
    """One mail as Python's own client sends it. Raises what that client raises."""
    with smtplib.SMTP("127.0.0.1", port, timeout=limit) as client:
        if login:
            client.login(*login)
        client.sendmail("us@a.test", list(to), f"Subject: Hi\r\nMessage-ID: <{name}@a.test>\r\n\r\nText\r\n")


def test_a_mail_is_accepted_and_counted_for_each_recipient(service: SmtpService) -> None:
    send(service.port, "a@b.test", "c@d.test")
    send(service.port, "a@b.test")
    mail = service.mails[0]
    assert (mail.sender, mail.to, mail.subject, mail.answered) == ("us@a.test", ("a@b.test", "c@d.test"), "Hi", True)
    assert "Text" in mail.text
    assert service.copies == {("<m1@a.test>", "a@b.test"): 2, ("<m1@a.test>", "c@d.test"): 1}


def test_recipients_are_answered_as_told(service: SmtpService) -> None:
    service.tell(SmtpScript(replies={"gone@b.test": "550 5.1.1 gone", "later@b.test": ["451 4.7.1 later"]}))
    for codes in ({"gone@b.test": 550, "later@b.test": 451}, {"gone@b.test": 550}):
        with smtplib.SMTP("127.0.0.1", service.port, timeout=LIMIT) as client:
            refused = client.sendmail("us@a.test", ["good@b.test", "gone@b.test", "later@b.test"], "Subject: x\r\n\r\n")
        assert {address: reply[0] for address, reply in refused.items()} == codes
    assert [mail.to for mail in service.mails] == [("good@b.test",), ("good@b.test", "later@b.test")]
    assert len(service.refused) == 3


@pytest.mark.parametrize("told", ["drop", "reset"])
def test_the_line_is_cut_after_the_dot_and_the_mail_is_kept(service: SmtpService, told: str) -> None:
    service.tell(SmtpScript(after_dot=[told]))
    with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionResetError)):
        send(service.port, "a@b.test")
    send(service.port, "a@b.test", name="m2")
    assert [(mail.message_id, mail.answered) for mail in service.mails] == [
        ("<m1@a.test>", False),
        ("<m2@a.test>", True),
    ]


def test_a_late_answer_leaves_one_mail(service: SmtpService) -> None:
    service.tell(SmtpScript(after_dot=["delay 1500"]))
    with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected)):
        send(service.port, "a@b.test", limit=0.3)
    assert [mail.message_id for mail in service.mails] == ["<m1@a.test>"]


def test_a_reply_after_the_dot_keeps_nothing(service: SmtpService) -> None:
    service.tell(SmtpScript(after_dot=["451 4.3.0 try later"]))
    with pytest.raises(smtplib.SMTPDataError) as error:
        send(service.port, "a@b.test")
    assert (error.value.smtp_code, service.mails, service.data_commands) == (451, [], 1)


def test_the_line_is_cut_before_any_mail(service: SmtpService) -> None:
    service.tell(SmtpScript(at_connect=["drop"], at_ehlo=["drop", "delay 1500"]))
    for limit in (LIMIT, LIMIT, 0.3):
        with pytest.raises((OSError, smtplib.SMTPServerDisconnected)):
            send(service.port, "a@b.test", limit=limit)
    assert (service.mails, service.data_commands, service.connections) == ([], 0, 3)


def test_a_login_is_demanded_and_checked(service: SmtpService) -> None:
    service.tell(SmtpScript(users={"ops": "right"}))
    with pytest.raises(smtplib.SMTPSenderRefused, match="Authentication required"):
        send(service.port, "a@b.test")
    with pytest.raises(smtplib.SMTPAuthenticationError):
        send(service.port, "a@b.test", login=("ops", "wrong"))
    send(service.port, "a@b.test", login=("ops", "right"))
    assert [mail.user for mail in service.mails] == ["ops"]


def test_a_login_is_not_offered_on_an_open_line(service: SmtpService) -> None:
    service.tell(SmtpScript(users={"ops": "right"}, plain_login=False))
    with pytest.raises(smtplib.SMTPNotSupportedError):
        send(service.port, "a@b.test", login=("ops", "right"))
    assert service.mails == []


async def test_it_runs_in_the_test_own_loop_and_stops_with_a_mail_half_way() -> None:
    async with SmtpService(SmtpScript(after_dot=["ok", "delay 30000"])) as service:
        await asyncio.to_thread(send, service.port, "a@b.test")
        with contextlib.suppress(OSError, smtplib.SMTPException):
            await asyncio.to_thread(send, service.port, "a@b.test", limit=0.2)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert len(service.mails) == 2


def test_it_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    with SmtpProcess(tmp_path, after_dot=["drop"]) as service:
        with pytest.raises(smtplib.SMTPServerDisconnected):
            send(service.port, "a@b.test")
        assert [(mail["message_id"], mail["answered"]) for mail in service.mails()] == [("<m1@a.test>", False)]
        service.script(replies={"gone@b.test": "550 gone"})
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            send(service.port, "gone@b.test")
        send(service.port, "a@b.test", name="m2")
        assert len(service.mails()) == 2
