"""Mail servers for tests beyond the shared one: with TLS, and ones that do not take what they are offered."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """(file of the certificate, server context) of a server called 127.0.0.1 that nobody else trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


@dataclass
class MailServer:
    """What was accepted (raw), and what logins were seen."""

    port: int = 0
    mails: list[bytes] = field(default_factory=list)
    logins: list[tuple[bytes, bytes, bool]] = field(default_factory=list)

    def login(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password, session.ssl is not None))
        return AuthResult(success=data.password == b"right", handled=False)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.mails.append(envelope.original_content or b"")
        return "250 kept as 17"


@asynccontextmanager
async def mail_server(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, wide: bool = True
) -> AsyncIterator[MailServer]:
    """A running aiosmtpd server that wants no log-in but takes one."""
    made = MailServer()

    def wire() -> SMTP:
        return SMTP(
            made, hostname="mx.test", tls_context=starttls, enable_SMTPUTF8=wide, authenticator=made.login,
            auth_require_tls=False, loop=asyncio.get_running_loop(),
        )  # fmt: skip

    server = await asyncio.get_running_loop().create_server(wire, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await asyncio.sleep(0.02)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(talk: Talk) -> AsyncIterator[int]:
    """A server that holds its end of the conversation as told; gives its port."""
    running: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = asyncio.current_task()
        assert current is not None
        running.add(current)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            running.discard(current)
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for one in list(running):
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def script(*steps: tuple[str, str], then: str = "hang") -> Talk:
    """Says 220, then to each awaited command its reply; afterwards hangs or drops."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mx.test\r\n")
        for command, reply in steps:
            line = await reader.readline() if command != "." else await reader.readuntil(b"\r\n.\r\n")
            assert command == "." or line.upper().startswith(command.encode()), line
            writer.write(reply.encode() + b"\r\n")
            await writer.drain()
        if then == "hang":
            await reader.read()

    return talk
