"""Mail against real servers: what each stage of the conversation means."""

from __future__ import annotations

import email
import email.policy
import time
from pathlib import Path
from typing import Any

import pytest

from connectors.email import KIND
from runner.contract import Outcome, Retry
from runner.errors import RequestError, SettingsError
from runner.guard import Guard
from tests.connectors.mailserver import certificate, mail_server, raw_server, script
from tests.connectors.tools import Lent
from tests.support.smtp_service import SmtpScript, SmtpService

LOCAL = {
    "host": "127.0.0.1",
    "from": "Ops <ops@example.com>",
    "security": "none",
    "allow_insecure": True,
    "allow_private": True,
}
LENT = Lent(SMTP_PASSWORD="right")
HELLO = {"to": "aya@example.com", "subject": "Hello", "text": "Hi there"}


async def send(
    port: int, input: dict[str, Any] | None = None, *, limit: int = 2_000, tools: Lent = LENT, **settings: Any
) -> Outcome:
    mine = KIND.connect("mail", {**LOCAL, "port": port, **settings}, tools)
    request = mine.prepare("send", {**HELLO, **(input or {})}, key="key-1", purpose="do")
    found: Outcome = await mine.send("send", request, key="key-1", purpose="do", limit=limit)
    await mine.close()
    return found


def test_what_the_engine_is_told() -> None:
    action = KIND.actions()["send"]
    assert (action.effect, action.fan_out, action.renders_template) == ("once", "to", True)
    assert action.retry == Retry(tries=6, pause=300_000, growth="double", longest=14_400_000)
    assert action.cannot_undo == "A mail that has gone out cannot be taken back."


async def test_a_mail_arrives() -> None:
    tools = Lent()
    digest = tools.keep(b"%PDF-1.7")
    async with SmtpService() as service:
        found = await send(
            service.port,
            {"to": "佐藤 綾 <aya@example.com>", "subject": "ご案内", "html": "<p>やあ</p>", "attach": [{"name": "見積.pdf", "kind": "pdf", "sha256": digest, "size": 8}]},
            tools=tools, reply_to="desk@example.com",
        )  # fmt: skip
        mail = service.mails[0]
    assert found.result == "applied"
    assert found.output == {"message_id": mail.message_id, "to": "aya@example.com", "accepted": True}
    assert found.external_id == mail.message_id
    assert found.evidence == "250 2.0.0 Kept"
    assert (mail.sender, mail.to, mail.subject) == ("ops@example.com", ("aya@example.com",), "ご案内")
    parsed: Any = email.message_from_string(mail.text, policy=email.policy.default)
    assert parsed["Reply-To"] == "desk@example.com"
    assert abs(parsed["Date"].datetime.timestamp() - time.time()) < 60
    attached = next(iter(parsed.iter_attachments()))
    assert (attached.get_filename(), attached.get_content()) == ("見積.pdf", b"%PDF-1.7")


async def test_lines_that_begin_with_a_dot_arrive() -> None:
    async with mail_server() as server:
        text = ".\n..\n.a\nend\r\n.\r\nstill"
        assert (await send(server.port, {"text": text})).result == "applied"
        parsed: Any = email.message_from_bytes(server.mails[0], policy=email.policy.default)
        assert parsed.get_content().replace("\r\n", "\n").rstrip("\n") == text.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("told", "expected", "kept", "data"),
    [
        (SmtpScript(at_connect=["drop"]), ("not_sent", "connection"), 0, 0),
        (SmtpScript(at_ehlo=["drop"]), ("not_sent", "connection"), 0, 0),
        (SmtpScript(at_ehlo=["delay 3000"]), ("not_sent", "timeout"), 0, 0),
        (SmtpScript(replies={"aya@example.com": "451 4.2.0 later"}), ("refused", "unavailable"), 0, 0),
        (SmtpScript(replies={"aya@example.com": "550 5.1.1 gone"}), ("refused", "invalid"), 0, 0),
        (SmtpScript(after_dot=["451 4.3.0 later"]), ("refused", "unavailable"), 0, 1),
        (SmtpScript(after_dot=["552 5.3.4 too big"]), ("refused", "invalid"), 0, 1),
        (SmtpScript(after_dot=["drop"]), ("unknown", "connection"), 1, 1),
        (SmtpScript(after_dot=["reset"]), ("unknown", "connection"), 1, 1),
        (SmtpScript(after_dot=["delay 3000"]), ("unknown", "timeout"), 1, 1),
    ],
)
async def test_stages(told: SmtpScript, expected: tuple[str, str], kept: int, data: int) -> None:
    async with SmtpService(told) as service:
        found = await send(service.port, limit=400)
        assert (found.result, found.reason) == expected
        assert (len(service.mails), service.data_commands) == (kept, data)
    assert found.summary.startswith(f"127.0.0.1:{service.port} ") or found.summary.startswith(
        "the connection to 127.0.0.1"
    )
    assert found.retry_after is None


@pytest.mark.parametrize(
    ("steps", "then", "expected"),
    [
        ((), "drop", ("not_sent", "connection")),
        ((("EHLO", "250 ok"), ("MAIL", "452 full")), "hang", ("refused", "unavailable")),
        ((("EHLO", "250 ok"), ("MAIL", "553 who are you")), "hang", ("refused", "invalid")),
        ((("EHLO", "421 busy"),), "hang", ("refused", "unavailable")),
        ((("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "250 ok")), "hang", ("not_sent", "timeout")),
        ((("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "250 ok"), ("DATA", "451 wait")), "hang", ("refused", "unavailable")),
        ((("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "250 ok"), ("DATA", "554 no")), "hang", ("refused", "invalid")),
        ((("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "250 ok"), ("DATA", "354 go")), "hang", ("unknown", "timeout")),
        ((("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "250 ok"), ("DATA", "354 go")), "drop", ("unknown", "connection")),
        ((("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "250 ok"), ("DATA", "354 go"), (".", "421 closing")), "drop", ("refused", "unavailable")),
        ((("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "251 forwarded"), ("DATA", "354 go"), (".", "250 ok")), "drop", ("applied", "")),
    ],
)  # fmt: skip
async def test_stages_of_odd_servers(steps: Any, then: str, expected: tuple[str, str]) -> None:
    async with raw_server(script(*steps, then=then)) as port:
        found = await send(port, limit=400)
    assert (found.result, found.reason) == expected


async def test_a_greeting_that_is_a_no() -> None:
    async def talk(reader: Any, writer: Any) -> None:
        writer.write(b"554 go away\r\n")
        await reader.read()

    async with raw_server(talk) as port:
        found = await send(port, limit=400)
    assert (found.result, found.reason) == ("refused", "invalid")
    assert found.summary == f"127.0.0.1:{port} said 554 go away"


async def test_log_in() -> None:
    login: dict[str, Any] = {"user": "ops", "password": {"secret": "SMTP_PASSWORD"}}
    async with SmtpService(SmtpScript(users={"ops": "right"})) as service:
        assert (await send(service.port, **login)).result == "applied"
        assert service.mails[0].user == "ops"
        wrong = await send(service.port, tools=Lent(SMTP_PASSWORD="wr0ng"), **login)
        assert (wrong.result, wrong.reason) == ("refused", "forbidden")
        assert "wr0ng" not in repr(wrong)
        none = await send(service.port)
        assert (none.result, none.reason) == ("refused", "forbidden")
        unset = await send(service.port, tools=Lent(), **login)
        assert (unset.result, unset.summary) == ("not_sent", "mail: the secret SMTP_PASSWORD is not set")
        assert len(service.mails) == 1
    async with raw_server(script(("EHLO", "250 plain"))) as port:
        found = await send(port, **login)
        assert (found.result, found.reason) == ("refused", "forbidden")
        assert "offers no log-in" in found.summary


async def test_encrypted(tmp_path: Path) -> None:
    cert, context = certificate(tmp_path)
    login: dict[str, Any] = {"user": "ops", "password": {"secret": "SMTP_PASSWORD"}}
    async with mail_server(starttls=context) as server:
        found = await send(server.port, security="starttls", allow_insecure=False, ca=str(cert), **login)
        assert found.result == "applied"
        assert server.logins == [(b"ops", b"right", True)]
        stranger = await send(server.port, security="starttls", allow_insecure=False, **login)
        assert (stranger.result, stranger.reason) == ("not_sent", "connection")
        assert "certificate" in stranger.summary
        assert len(server.logins) == 1
    async with mail_server(tls=context) as server:
        assert (await send(server.port, security="tls", allow_insecure=False, ca=str(cert))).result == "applied"
        stranger = await send(server.port, security="tls", allow_insecure=False)
        assert (stranger.result, stranger.reason) == ("not_sent", "connection")
        assert len(server.mails) == 1


async def test_addresses_that_are_not_ascii() -> None:
    async with mail_server(wide=True) as server:
        assert (await send(server.port, {"to": "綾@example.com"})).result == "applied"
        parsed: Any = email.message_from_bytes(server.mails[0], policy=email.policy.SMTPUTF8)
        assert parsed["To"] == "綾@example.com"
    async with mail_server(wide=False) as server:
        found = await send(server.port, {"to": "綾@example.com"})
        assert (found.result, found.reason) == ("refused", "invalid")
        assert "SMTPUTF8" in found.summary
        assert (await send(server.port, {"to": "aya@例え.jp"})).output["to"] == "aya@xn--r8jz45g.jp"
        assert len(server.mails) == 1


async def test_an_attachment_must_be_the_file_that_was_given() -> None:
    tools = Lent()
    digest = tools.keep(b"one")
    attach = [{"name": "a.pdf", "kind": "pdf", "sha256": digest}]
    async with SmtpService() as service:
        tools._files[digest] = b"two"
        found = await send(service.port, {"attach": attach}, tools=tools)
        assert (found.result, found.reason) == ("not_sent", "not_found")
        found = await send(service.port, {"attach": attach}, tools=Lent())
        assert (found.result, found.reason) == ("not_sent", "not_found")
        assert service.connections == 0


async def test_the_guard_stands_before_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SmtpService() as service:
        mine = KIND.connect("mail", {**LOCAL, "host": "localhost", "port": service.port, "allow_private": False}, LENT)
        found = await mine.send(
            "send", mine.prepare("send", HELLO, key="k", purpose="do"), key="k", purpose="do", limit=1_000
        )
        assert (found.result, found.reason) == ("not_sent", "forbidden")
        assert service.connections == 0

        async def public(self: object, host: str, port: int) -> list[Any]:
            return [(2, "93.184.216.34")]

        monkeypatch.setattr(Guard, "resolve", public)
        found = await mine.send(
            "send", mine.prepare("send", HELLO, key="k", purpose="do"), key="k", purpose="do", limit=1_000
        )
        assert (found.result, found.reason) == ("refused", "forbidden")
        assert "encrypted or not at all" in found.summary


def test_the_same_request_each_time() -> None:
    mine = KIND.connect("mail", {**LOCAL, "port": 25}, LENT)
    one = mine.prepare("send", HELLO, key="k", purpose="do")
    assert one == mine.prepare("send", HELLO, key="k", purpose="undo")
    assert one != mine.prepare("send", HELLO, key="k2", purpose="do")
    assert mine.prepare("send", {**HELLO, "to": ["aya@example.com"]}, key="k", purpose="do") == one
    with pytest.raises(RequestError, match='send has no field "subjct"'):
        mine.prepare("send", {**HELLO, "subjct": "x"}, key="k", purpose="do")
    with pytest.raises(RequestError, match="can send a mail and nothing else"):
        mine.prepare("send", HELLO, key="k", purpose="lookup")


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"host": ""}, "host must be"),
        ({"host": "smtp.example.com/x"}, "host must be"),
        ({"port": 0.5}, "port must be"),
        ({"security": "ssl"}, 'security "ssl" must be starttls, tls or none'),
        ({"allow_insecure": False}, "allow_insecure: true"),
        ({"host": "93.184.216.34"}, "is public"),
        ({"allow_private": False}, "allow_private: true"),
        ({"host": "169.254.169.254"}, "never connected to"),
        ({"from": "ops"}, 'from: "ops" is not a mail address'),
        ({"from": "ops@example.com\r\nX: y"}, "from"),
        ({"reply_to": "x"}, "reply_to"),
        ({"user": "ops"}, "password must be"),
        ({"user": "ops", "password": "hunter2"}, "password holds the value itself"),
        ({"password": {"secret": "X"}}, "there is a password and no user"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError) as refused:
        KIND.connect("mail", {**LOCAL, **settings}, LENT)
    assert part in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_usual_settings() -> None:
    mine = KIND.connect("mail", {"host": "smtp.example.com", "from": "ops@example.com"}, LENT)
    assert mine.origin() == "smtp://smtp.example.com:587"
    assert (
        KIND.connect("mail", {"host": "smtp.example.com", "from": "o@example.com", "security": "tls"}, LENT).origin()
        == "smtps://smtp.example.com:465"
    )


@pytest.mark.parametrize("said", ["no words at all", "354 go on", "\x80\x81\x82", "999 what"])
async def test_an_answer_after_the_message_that_says_nothing_is_unknown(said: str) -> None:
    steps = (("EHLO", "250 ok"), ("MAIL", "250 ok"), ("RCPT", "250 ok"), ("DATA", "354 go"), (".", said))
    async with raw_server(script(*steps, then="drop")) as port:
        found = await send(port)
    assert (found.result, found.reason) in (("unknown", "unreadable"), ("unknown", "connection"))


async def test_an_answer_before_the_message_that_says_nothing_sent_nothing() -> None:
    async with raw_server(script(("EHLO", "250 ok"), ("MAIL", "what"), then="drop")) as port:
        assert (await send(port)).result == "not_sent"
