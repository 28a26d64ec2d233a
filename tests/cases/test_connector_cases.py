"""Cases from the field as far as a connector alone decides them, each named after its id."""

from __future__ import annotations

import asyncio
import email
import email.policy
import gzip
import json
import logging
import socket
import time
import traceback
from email.utils import formatdate
from typing import Any

import pytest

from connectors.declarative import kind_from_text
from connectors.email import KIND as MAIL
from connectors.http import KIND as HTTP
from runner.contract import Outcome, Purpose
from runner.errors import RequestError
from tests.connectors.httpserver import (
    Script,
    answer,
    drip,
    gzip_bomb,
    html,
    http_server,
    late,
    message,
    raw,
    redirect,
    reset,
)
from tests.connectors.mailserver import mail_server, raw_server, script
from tests.connectors.tools import Lent, forms
from tests.support.smtp_service import SmtpScript, SmtpService

LETTER = {"to": "aya@example.com", "subject": "Hello", "text": "Hi"}
BATCH = """
connector: batch
title: A service that answers 200 to everything
auth: { header: { name: X-Api-Key, value: token } }
actions:
  add:
    writes: keyed
    key: { header: Idempotency-Key, life: 1 day }
    input: { name: text }
    request: { post: /rows, json: { name: "${{ input.name }}" } }
    success: ${{ response.json.ok }}
    output: { id: text }
    external_id: ${{ response.json.id }}
    failures:
      - { when: "${{ response.status == 207 }}", is: unknown, say: "only some rows were written" }
  refund:
    writes: keyed
    key: { header: Idempotency-Key, life: 1 day }
    input: { charge: text }
    request: { post: "/refunds", json: { charge: "${{ input.charge }}" } }
    failures:
      - { when: "${{ response.status == 409 }}", is: conflict }
"""


def mail(port: int, **settings: Any) -> Any:
    local = {"host": "127.0.0.1", "port": port, "from": "ops@example.com", "security": "none"}
    return MAIL.connect("mail", {**local, "allow_insecure": True, "allow_private": True, **settings}, Lent(PW="right"))


async def mailed(
    port: int, input: dict[str, Any], *, limit: int = 1_000, key: str = "key-1", **settings: Any
) -> Outcome:
    mine = mail(port, **settings)
    request = mine.prepare("send", {**LETTER, **input}, key=key, purpose="do")
    found: Outcome = await mine.send("send", request, key=key, purpose="do", limit=limit)
    return found


async def asked(
    origin: str, action: str, input: dict[str, Any], *, purpose: Purpose = "do", limit: int = 2_000, **settings: Any
) -> Outcome:
    mine = HTTP.connect("shop", {"origin": origin, "allow_private": True, **settings}, Lent(TOKEN="tok-3n"))
    request = mine.prepare(action, input, key="key-1", purpose=purpose)
    found: Outcome = await mine.send(action, request, key="key-1", purpose=purpose, limit=limit)
    await mine.close()
    return found


async def batched(origin: str, action: str, input: dict[str, Any], purpose: Purpose = "do") -> Outcome:
    kind, problems = kind_from_text(BATCH, "batch.yaml")
    assert kind is not None, problems
    line = {"origin": origin, "allow_private": True, "token": {"secret": "TOKEN"}}
    mine = kind.connect("batch", line, Lent(TOKEN="tok-3n"))
    request = mine.prepare(action, input, key="key-1", purpose=purpose)
    found = await mine.send(action, request, key="key-1", purpose=purpose, limit=2_000)
    await mine.close()
    return found


# --- B1 ------------------------------------------------------------------------------------------------------------


async def test_b1_a_reply_that_is_late_or_lost_after_the_message_is_unknown() -> None:
    for told in ("delay 3000", "reset", "drop"):
        async with SmtpService(SmtpScript(after_dot=[told])) as service:
            found = await mailed(service.port, {}, limit=400)
            assert (found.result, len(service.mails)) == ("unknown", 1), told


async def test_b1_before_the_message_it_may_be_tried_again() -> None:
    async with SmtpService(SmtpScript(at_ehlo=["delay 3000"])) as service:
        found = await mailed(service.port, {}, limit=400)
        assert (found.result, service.data_commands) == ("not_sent", 0)


async def test_b1_every_attempt_has_the_same_message_id() -> None:
    async with SmtpService(SmtpScript(at_connect=["drop"])) as service:
        assert (await mailed(service.port, {})).result == "not_sent"
        first = await mailed(service.port, {})
        second = await mailed(service.port, {})
        other = await mailed(service.port, {}, key="key-2")
        assert first.external_id == second.external_id == service.mails[0].message_id == service.mails[1].message_id
        assert other.external_id != first.external_id


# --- H1 ------------------------------------------------------------------------------------------------------------


async def test_h1_each_recipient_has_an_outcome_of_its_own() -> None:
    told = SmtpScript(
        replies={"gone@example.com": "550 5.1.1 no such user", "later@example.com": ["451 4.7.1 greylisted"]}
    )
    async with SmtpService(told) as service:
        outcomes = {
            name: await mailed(service.port, {"to": f"{name}@example.com"}, key=name)
            for name in ("good", "gone", "later")
        }
        assert {name: (one.result, one.reason) for name, one in outcomes.items()} == {
            "good": ("applied", ""),
            "gone": ("refused", "invalid"),
            "later": ("refused", "unavailable"),
        }
        assert (await mailed(service.port, {"to": "later@example.com"}, key="later")).result == "applied"
        assert [mail.to for mail in service.mails] == [("good@example.com",), ("later@example.com",)]


def test_h1_retry_by_hours() -> None:
    retry = MAIL.actions()["send"].retry
    assert retry is not None
    assert (retry.tries, retry.pause, retry.growth, retry.longest) == (6, 5 * 60_000, "double", 4 * 3_600_000)


# --- H2 ------------------------------------------------------------------------------------------------------------


async def test_h2_form_text_cannot_add_headers_or_recipients() -> None:
    async with mail_server() as server:
        found = await mailed(
            server.port,
            {
                "to": "Aya\r\nBcc: spy@evil.test <aya@example.com>",
                "subject": "Order\u2028no.\x0b7\u0085\r\nBcc: spy@evil.test",
            },
        )
        assert found.result == "applied"
        parsed: Any = email.message_from_bytes(server.mails[0], policy=email.policy.default)
    assert parsed["Subject"] == "Order no. 7 Bcc: spy@evil.test"
    assert parsed["Bcc"] is None
    assert [one.addr_spec for one in parsed["To"].addresses] == ["aya@example.com"]


@pytest.mark.parametrize("sign", ["\r\n", "\n", "\u2028", "\u0085", "\v", "\f"])
def test_h2_line_breaks_in_an_address_are_refused(sign: str) -> None:
    with pytest.raises(RequestError, match="line break"):
        mail(25).prepare("send", {**LETTER, "to": f"aya@example.com{sign}"}, key="k", purpose="do")


async def test_h2_long_japanese_texts_and_names_arrive() -> None:
    tools = Lent()
    name = "二〇二六年度お見積書（控え）・営業本部第一課・佐藤綾子様分・最終版・訂正済み・再発行.pdf"
    subject = "【重要】お申し込み内容の確認とお見積書の送付について（営業本部第一課・佐藤綾子様）二〇二六年度分・再送・ご確認のほどよろしくお願いいたします"
    assert len(name) > 40
    assert len(subject) > 60
    attach = [{"name": name, "kind": "pdf", "sha256": tools.keep(b"%PDF")}]
    async with mail_server() as server:
        mine = MAIL.connect(
            "mail",
            {"host": "127.0.0.1", "port": server.port, "from": "ops@example.com", "security": "none", "allow_insecure": True, "allow_private": True},
            tools,
        )  # fmt: skip
        request = mine.prepare("send", {**LETTER, "subject": subject, "attach": attach}, key="k", purpose="do")
        assert (await mine.send("send", request, key="k", purpose="do", limit=2_000)).result == "applied"
        parsed: Any = email.message_from_bytes(server.mails[0], policy=email.policy.default)
    assert parsed["Subject"] == subject
    assert next(iter(parsed.iter_attachments())).get_filename() == name
    assert not parsed.defects


# --- I1 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_i1_a_write_follows_no_redirect(status: int) -> None:
    async with http_server() as first, http_server() as second:
        first.on("/orders", redirect(status, f"{second.origin}/orders"))
        found = await asked(
            first.origin,
            "post",
            {"url": "/orders", "json": {"n": 1}},
            auth={"header": {"name": "X-Api-Key", "value": {"secret": "TOKEN"}}},
        )
        assert (found.result, found.reason) == ("unknown", "redirect")
        assert f"redirects to 127.0.0.1:{second.port}" in found.summary
        assert second.connections == 0
        same = await asked(first.origin, "post", {"url": "/orders"})
        assert same.result == "unknown"
        assert len(first.got) == 2


async def test_i1_a_read_takes_no_secret_to_another_host() -> None:
    async with http_server() as first, http_server() as second:
        first.on("/a", redirect(302, f"{second.origin}/b"))
        first.on("/c", redirect(302, "/d"))
        first.on("/d", answer(200, {"end": 1}))
        secret = {"header": {"name": "X-Api-Key", "value": {"secret": "TOKEN"}}}
        away = await asked(first.origin, "get", {"url": "/a"}, purpose="read", auth=secret)
        assert (away.result, away.reason, second.connections) == ("unknown", "redirect", 0)
        within = await asked(first.origin, "get", {"url": "/c"}, purpose="read", auth=secret)
        assert within.output["json"] == {"end": 1}
        assert first.at("/d")[0].headers["x-api-key"] == "tok-3n"


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "[64:ff9b::a9fe:a9fe]"],
)  # fmt: skip
async def test_i1_metadata_addresses_are_never_asked(host: str) -> None:
    mine = HTTP.connect("http", {"allow_private": True}, Lent())
    try:
        request = mine.prepare("get", {"url": f"http://{host}/latest/meta-data"}, key="k", purpose="read")
        found = await mine.send("get", request, key="k", purpose="read", limit=1_000)
    except RequestError:
        return
    finally:
        await mine.close()
    assert (found.result, found.reason) == ("not_sent", "forbidden")


async def test_i1_a_name_that_changes_between_check_and_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is resolved once, and what was checked is what is connected to."""
    asked_for: list[str] = []

    def moves(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        asked_for.append(str(host))
        address = "93.184.216.34" if len(asked_for) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    connected: list[str] = []

    def opens(self: Any, info: Any) -> socket.socket:
        connected.append(str(info[4][0]))
        raise OSError("not in a test")

    monkeypatch.setattr(socket, "getaddrinfo", moves)
    monkeypatch.setattr("connectors.client.Client._open_socket", opens)
    mine = HTTP.connect("http", {}, Lent())
    request = mine.prepare("get", {"url": "http://moves.test/"}, key="k", purpose="read")
    assert (await mine.send("get", request, key="k", purpose="read", limit=1_000)).result == "not_sent"
    await mine.close()
    assert asked_for == ["moves.test"]
    assert set(connected) == {"93.184.216.34"}


# --- I2 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (answer(200, {"ok": True, "id": 1}), ("applied", "")),
        (answer(200, {"ok": False, "id": 1}), ("unknown", "unknown")),
        (answer(207, {"ok": True, "rows": [1, "bad"]}), ("unknown", "unknown")),
        (html(200), ("unknown", "unreadable")),
        (html(503, "<html>token tok-3n</html>"), ("unknown", "unknown")),
        (answer(204), ("unknown", "unreadable")),
        (raw(message(200, b'\xef\xbb\xbf{"ok": true, "id": "x"}')), ("applied", "")),
        (raw(message(200, gzip.compress(b'{"ok": true, "id": "x"}'), {"Content-Encoding": "gzip"})), ("applied", "")),
    ],
)
async def test_i2_success_is_what_the_connector_says(told: Script, expected: tuple[str, str]) -> None:
    async with http_server() as server:
        server.on("/rows", told)
        found = await batched(server.origin, "add", {"name": "a"})
    assert (found.result, found.reason) == expected
    if found.result == "unknown":
        assert found.evidence.startswith("HTTP ")
        assert len(found.evidence) < 400
        assert "tok-3n" not in found.evidence + found.summary


async def test_i2_the_evidence_shows_status_type_and_a_short_text() -> None:
    async with http_server() as server:
        server.on("/rows", html(200, "<html><body><h1>Please sign in</h1>" + "x" * 9_000 + "</body></html>"))
        found = await batched(server.origin, "add", {"name": "a"})
    assert found.evidence.startswith("HTTP 200 text/html Please sign in xxx")


# --- R3 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("said", "low", "high"),
    [
        ("3", 3_000, 3_000),
        ("0.5", 500, 500),
        (lambda: formatdate(time.time() + 60, usegmt=True), 57_000, 60_000),
        (lambda: formatdate(time.time() - 60, usegmt=True), 0, 0),
        ("Fri, 31 Dec 2099 23:59:59 GMT", 3_600_000, 3_600_000),
        ("in a while", None, None),
    ],
)
async def test_r3_retry_after_in_every_form(status: int, said: Any, low: int | None, high: int | None) -> None:
    async with http_server() as server:
        server.on("/rows", answer(status, {}, Retry_After=said() if callable(said) else said))
        found = await batched(server.origin, "add", {"name": "a"})
    if low is None or high is None:
        assert found.retry_after is None
    else:
        assert found.retry_after is not None
        assert low <= found.retry_after <= high


# --- R5 ------------------------------------------------------------------------------------------------------------


async def test_r5_small_reply_and_slow_drip() -> None:
    async with http_server() as server:
        server.on("/bomb", gzip_bomb(60))
        server.on("/drip", drip())
        bomb = await asked(server.origin, "post", {"url": "/bomb"})
        assert (bomb.result, bomb.reason) == ("unknown", "unreadable")
        assert "larger than 10 MB" in bomb.summary
        begin = time.monotonic()
        slow = await asked(server.origin, "post", {"url": "/drip"}, limit=400)
        assert time.monotonic() - begin < 1.5
        assert (slow.result, slow.reason) == ("unknown", "timeout")


async def test_r5_a_mail_server_that_drips() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"220-wait\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with raw_server(talk) as port:
        begin = time.monotonic()
        found = await mailed(port, {}, limit=400)
        assert time.monotonic() - begin < 1.5
    assert (found.result, found.reason) == ("not_sent", "timeout")


# --- R7 ------------------------------------------------------------------------------------------------------------


async def test_r7_a_conflict_on_an_undo_is_to_be_verified() -> None:
    async with http_server() as server:
        server.on("/refunds", answer(409, {"message": "already refunded"}))
        forward = await batched(server.origin, "refund", {"charge": "c"})
        undo = await batched(server.origin, "refund", {"charge": "c"}, "undo")
    assert (forward.result, forward.reason) == ("refused", "conflict")
    assert (undo.result, undo.reason) == ("unknown", "conflict")


# --- R8 ------------------------------------------------------------------------------------------------------------


async def test_r8_no_log_in_without_encryption() -> None:
    login: dict[str, Any] = {"user": "ops", "password": {"secret": "PW"}}
    async with mail_server() as server:
        found = await mailed(server.port, {}, security="starttls", **login)
        assert (found.result, found.reason) == ("refused", "forbidden")
        assert found.summary == (
            f"127.0.0.1:{server.port} offers no encryption (STARTTLS), so nothing was handed to it; if it wants TLS from "
            "the first byte, write security: tls, and for a server on this machine or network security: none with "
            "allow_insecure: true"
        )
        assert server.logins == []
        assert server.mails == []
        allowed = await mailed(server.port, {}, **login)
        assert allowed.result == "applied"
        assert server.logins == [(b"ops", b"right", False)]


async def test_r8_a_server_that_promises_and_then_refuses() -> None:
    steps = (("EHLO", "250-mx\r\n250-AUTH PLAIN\r\n250 STARTTLS"), ("STARTTLS", "454 not now"))
    async with raw_server(script(*steps)) as port:
        found = await mailed(port, {}, security="starttls", user="ops", password={"secret": "PW"}, limit=500)
    assert found.result in ("refused", "not_sent")


# --- L1 ------------------------------------------------------------------------------------------------------------

SECRETS = [
    "tok-3n-tok-3n",
    "a\"quoted'one",
    "per%cent&and=more",
    '{"type": "service", "key": "abc/def+ghi=="}',
    "日本の長い鍵",
]
WAYS: list[dict[str, Any]] = [
    {"bearer": {"secret": "S"}},
    {"header": {"name": "X-Api-Key", "value": {"secret": "S"}}},
    {"basic": {"user": "ops", "password": {"secret": "S"}}},
    {"query": {"name": "api_key", "value": {"secret": "S"}}},
]
FAILS: list[Script] = [
    answer(500, {"echo": "x"}),
    html(200),
    reset(),
    late(3, answer(200)),
    redirect(302, "https://elsewhere.test/"),
    raw(b"nonsense\r\n\r\n"),
]


@pytest.mark.parametrize("secret", SECRETS)
async def test_l1_no_secret_leaves_the_send(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[Any] = []
    async with http_server() as server:

        async def echoes(got: Any, writer: Any) -> None:
            await answer(418, {"headers": got.headers, "target": got.target})(got, writer)

        for way in WAYS:
            for told in (*FAILS, echoes):
                server.on("/a", told)
                mine = HTTP.connect(
                    "shop", {"origin": server.origin, "allow_private": True, "auth": way}, Lent(S=secret)
                )
                request = mine.prepare("post", {"url": "/a"}, key="k", purpose="do")
                seen += [request, await mine.send("post", request, key="k", purpose="do", limit=150), mine.origin()]
                await mine.close()
        assert len(server.got) >= len(WAYS) or not secret.isascii()
        unreachable = HTTP.connect(
            "shop", {"origin": "http://127.0.0.1:9", "allow_private": True, "auth": WAYS[3]}, Lent(S=secret)
        )
        request = unreachable.prepare("post", {"url": "/a"}, key="k", purpose="do")
        seen.append(await unreachable.send("post", request, key="k", purpose="do", limit=500))
        await unreachable.close()
    assert_clean(secret, seen, caplog)


@pytest.mark.parametrize("secret", SECRETS)
async def test_l1_no_mail_password_leaves_the_send(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[Any] = []
    login: dict[str, Any] = {"user": "ops", "password": {"secret": "S"}}
    replies = ("535 no", f"535 {secret} is wrong" if secret.isascii() else "535 no", "454 later", "250 what")
    for reply in replies:
        async with raw_server(script(("EHLO", "250 AUTH PLAIN"), ("AUTH", reply), then="drop")) as port:
            local = {
                "host": "127.0.0.1",
                "port": port,
                "from": "ops@example.com",
                "security": "none",
                "allow_insecure": True,
            }
            mine = MAIL.connect("mail", {**local, "allow_private": True, **login}, Lent(S=secret))
            request = mine.prepare("send", LETTER, key="k", purpose="do")
            seen += [request, await mine.send("send", request, key="k", purpose="do", limit=500)]
    assert_clean(secret, seen, caplog)


def assert_clean(secret: str, seen: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    logged = caplog.text + "".join(
        "".join(traceback.format_exception(*one.exc_info)) for one in caplog.records if one.exc_info and one.exc_info[0]
    )
    shown = repr(seen) + json.dumps([str(one) for one in seen], ensure_ascii=False) + logged
    for form in forms(secret):
        assert form not in shown, form
