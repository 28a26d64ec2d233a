"""Mails as drafts, in the folder of a real Dovecot: left, looked up, removed, and what each fault means."""

from __future__ import annotations

import asyncio
import email
import email.policy
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from connectors.email import KIND
from runner.contract import Draft, Outcome
from runner.errors import RequestError, SettingsError
from tests.connectors.test_email import HELLO, LOCAL
from tests.connectors.tools import Lent
from tests.support.dovecot import PASSWORD, Dovecot, dovecot

pytestmark = pytest.mark.real
TOOLS = Lent(BOX=PASSWORD, WRONG="wrong")


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with dovecot() as running:
        yield running


def settings(port: int, **more: Any) -> dict[str, Any]:
    ours = {
        "imap": "127.0.0.1",
        "imap_port": port,
        "imap_security": "none",
        "user": "ops",
        "password": {"secret": "BOX"},
    }
    return {**LOCAL, "port": 25, **ours, **more}


async def call(
    port: int,
    action: str,
    input: dict[str, Any],
    *,
    key: str = "k1",
    purpose: Any = "do",
    limit: int = 5_000,
    **more: Any,
) -> Outcome:
    mine = KIND.connect("mail", settings(port, **more), TOOLS)
    request = mine.prepare(action, input, key=key, purpose=purpose)
    found: Outcome = await mine.send(action, request, key=key, purpose=purpose, limit=limit)
    return found


def kept(server: Dovecot, folder: str = "Drafts", user: str = "ops") -> list[tuple[str, Any]]:
    """(flags, mail) of what stands among the drafts."""
    with server.log_in(user) as client:
        if client.select(folder, readonly=True)[0] != "OK" or client.search(None, "ALL")[1] == [b""]:
            return []
        told = client.fetch("1:*", "(FLAGS RFC822)")[1]
    pairs = [one for one in told if isinstance(one, tuple)]
    return [(head.decode(), email.message_from_bytes(body, policy=email.policy.default)) for head, body in pairs]


def test_only_a_line_with_imap_leaves_drafts() -> None:
    assert KIND.actions_for({})["send"].draft is None
    actions = KIND.actions_for({"imap": "imap.example.com"})
    assert actions["send"].draft == Draft(action="draft")
    assert (actions["draft"].effect, actions["draft"].has_lookup, actions["remove_draft"].effect) == (
        "lookup",
        True,
        "keyed",
    )
    with pytest.raises(RequestError, match="can send a mail and nothing else"):
        KIND.connect("mail", {**LOCAL, "port": 25}, TOOLS).prepare("draft", HELLO, key="k", purpose="do")


async def test_a_draft_is_left_looked_up_and_removed(server: Dovecot) -> None:
    digest = TOOLS.keep(b"%PDF-1.7")
    input = {**HELLO, "subject": "ご案内", "attach": [{"name": "a.pdf", "kind": "pdf", "sha256": digest, "size": 8}]}
    assert (await call(server.port, "draft", input, purpose="lookup")).count == 0
    done = await call(server.port, "draft", input)
    [(flags, mail)] = kept(server)
    assert (done.result, done.external_id) == ("applied", mail["Message-ID"])
    assert done.output == {"message_id": mail["Message-ID"], "to": "aya@example.com", "folder": "Drafts"}
    assert "\\Draft" in flags
    assert (mail["Subject"], mail["To"], next(iter(mail.iter_attachments())).get_content()) == (
        "ご案内",
        "aya@example.com",
        b"%PDF-1.7",
    )
    await call(server.port, "draft", input, key="k2")
    looked = await call(server.port, "draft", input, purpose="lookup")
    assert (looked.count, looked.output, looked.external_id) == (1, done.output, done.external_id)
    gone = {"message_id": done.external_id}
    for is_there in (True, False):
        removed = await call(server.port, "remove_draft", gone, purpose="undo")
        assert removed.output == {"message_id": done.external_id, "removed": is_there}
    assert (await call(server.port, "draft", input, purpose="lookup")).count == 0
    assert len(kept(server)) == 1


async def test_the_folder_may_be_named(server: Dovecot) -> None:
    done = await call(server.port, "draft", HELLO, user="tom", drafts="Entwürfe")
    assert done.output["folder"] == "Entwürfe"
    assert len(kept(server, "Entw&APw-rfe", "tom")) == 1
    assert kept(server, user="tom") == []


async def test_who_may_not_enter_leaves_nothing(server: Dovecot) -> None:
    found = await call(server.port, "draft", HELLO, password={"secret": "WRONG"})
    assert (found.result, found.reason) == ("refused", "forbidden")
    assert found.summary.startswith(f"mail: 127.0.0.1:{server.port} said: ")
    found = await call(server.port, "draft", HELLO, password={"secret": "MISSING"})
    assert (found.result, found.summary) == ("not_sent", "mail: the secret MISSING is not set")
    gone = [{"name": "a.pdf", "kind": "pdf", "sha256": "0" * 64, "size": 8}]
    found = await call(server.port, "draft", {**HELLO, "attach": gone})
    assert (found.result, found.reason) == ("not_sent", "not_found")


async def test_nobody_there_is_not_sent() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        found = await call(sock.getsockname()[1], "draft", HELLO)
    assert (found.result, found.reason) == ("not_sent", "connection")


@pytest.mark.parametrize(
    ("at", "then", "result", "reason"),
    [
        (b"APPEND", b"drop", "unknown", "connection"),
        (b"APPEND", b"NO [OVERQUOTA] full", "refused", "unavailable"),
        (b"body", b"drop", "unknown", "connection"),
        (b"body", b"NO [OVERQUOTA] full", "refused", "unavailable"),
        (b"body", b"wait", "unknown", "connection"),
        (b"LOGIN", b"drop", "not_sent", "connection"),
        (b"LOGIN", b"wait", "not_sent", "connection"),
    ],
)
async def test_what_a_broken_conversation_means(
    server: Dovecot, at: bytes, then: bytes, result: str, reason: str
) -> None:
    async with between(server.port, at, then) as port:
        found = await call(port, "draft", HELLO, key=f"{at!r}{then!r}", limit=1_500, user="cut")
    assert (found.result, found.reason) == (result, reason)


class between:  # noqa: N801 - a context manager
    """A line to the real server that breaks off, waits or answers no: at a command, or when the mail has gone over."""

    def __init__(self, port: int, at: bytes, then: bytes) -> None:
        self.port, self.at, self.then = port, at, then

    async def __aenter__(self) -> int:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self.server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self.port)
        back = asyncio.create_task(_copy(there, writer))
        seen = tag = b""
        try:
            while line := await reader.readline():
                seen += line
                tag = line.split()[0] if b" APPEND " in line else tag
                is_meant = self.at in line if self.at != b"body" else tag != b"" and line == b"Hi there\r\n"
                if is_meant and self.then == b"wait":
                    await asyncio.sleep(5)
                if is_meant and self.then.startswith(b"NO"):
                    back.cancel()
                    writer.write((line.split()[0] if self.at != b"body" else tag) + b" " + self.then + b"\r\n")
                    await asyncio.sleep(0.3)
                if is_meant:
                    return
                here.write(line)
        finally:
            back.cancel()
            for one in (writer, here):
                one.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while found := await reader.read(65_536):
        writer.write(found)


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"user": None, "password": None}, "imap needs user and password"),
        (
            {"imap": None, "imap_port": None, "imap_security": None, "drafts": "Entwürfe"},
            "drafts is about drafts; name their server",
        ),
        ({"imap": "imap.example.com/x"}, "mail, imap: host must be"),
        ({"imap_security": "ssl"}, 'mail, imap: security "ssl" must be'),
    ],
)
def test_a_line_that_cannot_be_used(more: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        KIND.connect("mail", settings(143, **more), TOOLS)
    mine = KIND.connect("mail", settings(143), TOOLS)
    with pytest.raises(RequestError, match="message_id must be"):
        mine.prepare("remove_draft", {"message_id": "7"}, key="k", purpose="undo")
