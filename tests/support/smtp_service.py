"""A scripted SMTP service for tests: real SMTP, a ledger of what was accepted, and failures as told.

In the test's own loop:      async with SmtpService(SmtpScript(…)) as service: …
For a test without a loop:   with running_smtp(…) as service: …
In a process of its own:     SmtpProcess(folder, …)       (script and ledger are files there)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import email
import email.policy
import json
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from runner.demo.processes import announce, wait_for_end
from tests.support.http_service import running_loop

QUIET_END = 0.2
"""Seconds that handlers get to end when the service stops."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SmtpScript:
    """What goes wrong. Lists are used up in order, then all is well again.

    `replies` maps an address to what RCPT is answered: a text = always, a list = first, second …
    `after_dot` speaks of messages that were received whole: `ok`, `drop` (kept, line closed), `reset` (kept, RST),
    `delay 3000` (kept, answered that many ms later), `held` (kept, answered at `release`), or a reply such as `451 4.3.0 try later` (not kept).
    `at_ehlo` and `at_connect` speak of connections: `ok`, `drop`; at EHLO also `delay 3000`. `users` are logins that
    are accepted (and then demanded), `plain_login` offers them without TLS.
    """

    replies: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    after_dot: Sequence[str] = ()
    at_ehlo: Sequence[str] = ()
    at_connect: Sequence[str] = ()
    users: Mapping[str, str] = field(default_factory=dict)
    plain_login: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """One message that was kept. `answered` is False where the 250 never left. `text` is the raw message."""

    n: int
    at: int
    message_id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    answered: bool
    user: str
    text: str

    def body(self, kind: str = "plain") -> str:
        """The part of this kind (`plain`, `html`), as it is read."""
        whole = email.message_from_bytes(self.text.encode("utf-8", "surrogateescape"), policy=email.policy.default)
        part = whole.get_body((kind,))
        return str(part.get_content()) if part is not None else ""


class _Wire(SMTP):
    """aiosmtpd's protocol, with the service told of connections and of DATA."""

    service: SmtpService

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.service.connections += 1
        self.service.open_wires.add(self)
        if self.service.take("at_connect").startswith("drop") and isinstance(transport, asyncio.WriteTransport):
            transport.abort()
            return
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.service.open_wires.discard(self)
        if self.transport is not None:
            super().connection_lost(error)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802 - aiosmtpd's name
        self.service.data_commands += 1
        await super().smtp_DATA(arg)


class SmtpService:
    """The service. `mails` is what was accepted; `refused` which recipient got which reply.

    `data_commands` counts DATA commands, so that "not one byte of the message left" can be checked.
    """

    def __init__(self, script: SmtpScript | None = None, *, port: int = 0, ledger: Path | None = None) -> None:
        self.mails: list[Accepted] = []
        self.refused: list[tuple[str, str]] = []
        self.connections = 0
        self.data_commands = 0
        self.port = port
        self.open_wires: set[_Wire] = set()
        self._ledger = ledger
        self._released = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._rcpt_replies: dict[str, deque[str]] = {}
        self._queues: dict[str, deque[str]] = {}
        self.script = SmtpScript()
        self.tell(script or SmtpScript())

    def tell(self, script: SmtpScript) -> None:
        """Replaces the script; what was left of the old one is forgotten."""
        self.script = script
        self._rcpt_replies = {
            address: deque(said) for address, said in script.replies.items() if not isinstance(said, str)
        }
        self._queues = {name: deque(getattr(script, name)) for name in ("after_dot", "at_ehlo", "at_connect")}

    def release(self) -> None:
        """Lets the answers go that are held, now and from now on."""
        self._released.set()

    def take(self, name: str) -> str:
        """The next word of a list, `ok` when it is used up."""
        queue = self._queues[name]
        return queue.popleft() if queue else "ok"

    @property
    def copies(self) -> dict[tuple[str, str], int]:
        """How often each recipient got each Message-ID."""
        found: dict[tuple[str, str], int] = {}
        for mail in self.mails:
            for address in mail.to:
                found[mail.message_id, address] = found.get((mail.message_id, address), 0) + 1
        return found

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens on 127.0.0.1; port 0 becomes a free one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._wire, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes the door and every connection."""
        if self._server is not None:
            self._server.close()
        wires = [wire for wire in self.open_wires if wire.transport is not None]
        for wire in wires:
            _abort(wire)
        handlers = [wire._handler_coroutine for wire in wires if wire._handler_coroutine is not None]
        if handlers:
            await asyncio.wait(handlers, timeout=QUIET_END)

    def _wire(self) -> _Wire:
        wire = _Wire(
            self,
            hostname="mail.support.test",
            enable_SMTPUTF8=True,
            authenticator=self._login,
            auth_require_tls=not self.script.plain_login,
            loop=asyncio.get_running_loop(),
        )
        wire.service = self
        return wire

    def _login(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        if not isinstance(data, LoginPassword):
            return AuthResult(success=False, handled=False)
        name, password = data.login.decode(), data.password.decode()
        return AuthResult(success=self.script.users.get(name) == password, handled=False, auth_data=name)

    # --- what aiosmtpd calls ---------------------------------------------------------------------------------------

    async def handle_EHLO(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        told = self.take("at_ehlo")
        if told == "drop":
            _abort(server)
        elif told.startswith("delay"):
            await asyncio.sleep(int(told.split()[1]) / 1000)
        return responses

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.script.users and not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = self._reply_to(address)
        if not reply.startswith("2"):
            self.refused.append((address, reply))
            return reply
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return reply

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        told = self.take("after_dot")
        if told[0].isdecimal():
            return told
        self._keep(
            envelope, str(session.auth_data) if session.authenticated else "", answered=told not in ("drop", "reset")
        )
        if told in ("drop", "reset"):
            _abort(server, resets=told == "reset")
        elif told.startswith("delay"):
            await asyncio.sleep(int(told.split()[1]) / 1000)
        elif told == "held":
            await self._released.wait()
        return "250 2.0.0 Kept"

    def _reply_to(self, address: str) -> str:
        queue = self._rcpt_replies.get(address)
        if queue:
            return queue.popleft()
        said = self.script.replies.get(address, "250 OK")
        return said if isinstance(said, str) else "250 OK"

    def _keep(self, envelope: Envelope, user: str, answered: bool) -> None:
        raw = envelope.original_content or b""
        headers = email.message_from_bytes(raw, policy=email.policy.default)
        mail = Accepted(
            n=len(self.mails) + 1,
            at=time.time_ns() // 1_000_000,
            message_id=str(headers["Message-ID"] or "").strip(),
            sender=envelope.mail_from or "",
            to=tuple(envelope.rcpt_tos),
            subject=str(headers["Subject"] or ""),
            answered=answered,
            user=user,
            text=raw.decode("utf-8", "surrogateescape"),
        )
        self.mails.append(mail)
        if self._ledger is not None:
            with self._ledger.open("a", encoding="utf-8") as ledger:
                ledger.write(json.dumps(asdict(mail)) + "\n")


def _abort(server: SMTP, resets: bool = False) -> None:
    transport = server.transport
    if not isinstance(transport, asyncio.WriteTransport):
        return
    if resets:
        wire = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


@contextlib.contextmanager
def running_smtp(script: SmtpScript | None = None) -> Iterator[SmtpService]:
    """The service in a thread with a loop of its own, for tests that have none."""
    service = SmtpService(script)
    with running_loop() as loop:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result(10)
        try:
            yield service
        finally:
            asyncio.run_coroutine_threadsafe(service.stop(), loop).result(10)


class FileScripted(SmtpService):
    """The service whose script is a file; a changed file is read with the next connection."""

    def __init__(self, port: int, ledger: Path, file: Path) -> None:
        self._file = file
        self._read_at = 0
        super().__init__(port=port, ledger=ledger)

    def _wire(self) -> _Wire:
        changed = self._file.stat().st_mtime_ns if self._file.exists() else 0
        if changed != self._read_at:
            self._read_at = changed
            self.tell(SmtpScript(**json.loads(self._file.read_text(encoding="utf-8"))))
        return super()._wire()


async def serve(port: int, ledger: Path, script: Path) -> None:
    """Runs the service until this process is told to stop, or its parent is gone."""
    async with FileScripted(port, ledger, script) as service:
        announce(str(service.port))
        await wait_for_end(until_stdin_closes=True)


def main() -> None:
    """The command line of this process."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.smtp_service")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ledger", type=Path, required=True, help="accepted messages, one JSON object a line")
    parser.add_argument("--script", type=Path, required=True, help="a JSON file with the fields of SmtpScript")
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.port, chosen.ledger, chosen.script))


if __name__ == "__main__":
    main()
