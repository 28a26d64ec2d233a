"""Servers that say back whatever they are told, secrets first: over HTTP in every shape, over SMTP, IMAP and PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import html
import json
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import quote, unquote

import asyncssh

from tests.trust.lines import read_message


@dataclass(kw_only=True)
class Echo:
    """The ports, and all that was told to them."""

    http: int = 0
    smtp: int = 0
    imap: int = 0
    postgres: int = 0
    ssh: int = 0
    host_key: str = ""
    heard: bytearray = field(default_factory=bytearray)


def _forms(told: bytes) -> str:
    """What was told, as services repeat it: with what its base64 words and escapes stand for."""
    text = told.decode("utf-8", "replace")
    plain = [text, unquote(text)]
    for word in text.replace(",", " ").split():
        with contextlib.suppress(ValueError):
            plain.append(base64.b64decode(word + "=" * (-len(word) % 4)).decode())
    whole = " ".join(plain)
    coded = (json.dumps(whole), quote(whole), html.escape(whole), base64.b64encode(whole.encode()).decode(),
             whole.encode().hex())  # fmt: skip
    return " ".join((whole, *coded))


SHAPES = ("401", "422", "500 page", "200 odd", "302", "200 json", "wide", "reset", "429", "text")


def _answer(shape: str, told: bytes) -> bytes:
    said = _forms(told)
    line = " ".join(said.split())[:6_000]
    kind, status, body = "application/json", shape[:3], json.dumps({"error": said, "id": said, "access_token": "x"})
    more = f"X-Echo: {quote(line)}\r\n" if shape != "200 odd" else ""
    if shape == "500 page":
        kind, body = "text/html", f"<title>{html.escape(said)}</title>"
    elif shape == "200 odd":
        body = said
    elif shape == "302":
        more = f"Location: http://127.0.0.1:1/{quote(line)}\r\n"
    elif shape == "text":
        kind, status, body = "text/plain", "200", said
    content = body.encode()
    if shape == "wide":
        kind, status, content = "text/plain; charset=utf-16", "200", body.encode("utf-16")
    head = (
        f"HTTP/1.1 {status} {quote(line)[:200]}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}\r\n"
    )
    return head.encode("latin-1", "replace") + content


def _given(said: dict[str, object]) -> bytes:
    body = json.dumps(said).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@contextlib.asynccontextmanager
async def echoing(tokens: dict[str, object]) -> AsyncIterator[Echo]:  # noqa: C901 - five small servers
    """The servers. `tokens` is what `/token` gives."""
    made, turn = Echo(), count()

    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                told = await read_message(reader)
                made.heard += told
                shape = SHAPES[next(turn) % len(SHAPES)]
                if told.split(b" ", 2)[1].startswith(b"/token"):
                    writer.write(_given(tokens))
                elif shape == "reset":
                    break
                else:
                    writer.write(_answer(shape, told))
                await writer.drain()
        writer.close()

    async def smtp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                made.heard += line
                if line.upper().startswith(b"EHLO"):
                    writer.write(b"250-here\r\n250 AUTH PLAIN\r\n")
                else:
                    said = " ".join(_forms(line).split())
                    writer.write(f"535-5.7.8 {said[:900]}\r\n535 5.7.8 {said[900:1800]}\r\n".encode())
        writer.close()

    async def imap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK here\r\n")
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                made.heard += line
                tag = line.split(b" ")[0].decode()
                if b"CAPABILITY" in line.upper():
                    writer.write(f"* CAPABILITY IMAP4rev1\r\n{tag} OK done\r\n".encode())
                else:
                    said = " ".join(_forms(line).split())[:2_000]
                    writer.write(f"{tag} NO [AUTHENTICATIONFAILED] {said}\r\n".encode())
        writer.close()

    async def postgres(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            size = struct.unpack("!I", await reader.readexactly(4))[0]
            made.heard += await reader.readexactly(size - 4)
            writer.write(b"R" + struct.pack("!II", 8, 3))  # it asks for the password in the clear
            await reader.readexactly(1)
            size = struct.unpack("!I", await reader.readexactly(4))[0]
            password = await reader.readexactly(size - 4)
            made.heard += password
            said = _forms(password.rstrip(b"\0")).encode()
            parts = b"SFATAL\0C28P01\0M" + said + b"\0D" + said + b"\0\0"
            writer.write(b"E" + struct.pack("!I", len(parts) + 4) + parts)
            await writer.drain()
        writer.close()

    class Login(asyncssh.SSHServer):
        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            made.heard.extend(password.encode())
            return False

    key = asyncssh.generate_private_key("ssh-ed25519")
    ssh = await asyncssh.listen("127.0.0.1", 0, server_factory=Login, server_host_keys=[key])
    made.ssh, made.host_key = ssh.get_port(), key.export_public_key().decode().strip()
    servers = [await asyncio.start_server(one, "127.0.0.1", 0, limit=1 << 22) for one in (http, smtp, imap, postgres)]
    made.http, made.smtp, made.imap, made.postgres = (one.sockets[0].getsockname()[1] for one in servers)
    try:
        yield made
    finally:
        for one in servers:
            one.close()
        ssh.close()
