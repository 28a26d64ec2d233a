"""The demo's mail server: real SMTP in a process of its own, each accepted message kept as a file.

    python -m runner.demo.mailserver --port 0 --folder mails

The first line it prints holds two numbers: the SMTP port and the port of its control over HTTP. Accepted messages are
`0001.eml`, `0002.eml` …; `ledger.jsonl` beside them has one line for each (envelope, Message-ID, file).

`POST /_control` takes `{"fault": …, "to": "*", "times": 1}`: `drop_after` keeps the message and cuts the connection
before the 250; `refuse` answers the recipient with 550; `later` answers it with 451. `GET /_ledger` lists what was
accepted and what was turned away. Both want `Authorization: Bearer <token>` from the environment variable
MAILSERVER_TOKEN.
"""

from __future__ import annotations

import argparse
import asyncio
import email
import email.policy
import hmac
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from aiohttp import web
from aiosmtpd.smtp import SMTP, Envelope, Session

from runner.demo.mails import LEDGER, Mail, MailFault, read_ledger
from runner.demo.processes import announce, wait_for_end


class MailBox:
    """What the SMTP server does with mails: the handler that aiosmtpd calls."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.mails: list[Mail] = read_ledger(folder)
        self.turned_away: list[dict[str, Any]] = []
        self._faults: list[tuple[MailFault, int]] = []

    def add(self, fault: MailFault) -> int:
        """Arms a fault; gives how many are armed."""
        if fault.times > 0:
            self._faults.append((fault, fault.times))
        return sum(times for _, times in self._faults)

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd looks for
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accepts a recipient, or turns it away as told."""
        for kind, reply in (("refuse", "550 5.1.1 No such mailbox"), ("later", "451 4.7.1 Please try again later")):
            if self._take(kind, [address]):
                self.turned_away.append({"to": address, "reply": reply})
                return reply
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Keeps the message; then says so, or cuts the connection as told."""
        dropped = self._take("drop_after", envelope.rcpt_tos)
        self._keep(envelope, answered=not dropped)
        if dropped and isinstance(server.transport, asyncio.WriteTransport):
            server.transport.abort()
        return "250 2.0.0 Kept"

    def _keep(self, envelope: Envelope, answered: bool) -> None:
        raw = envelope.original_content or b""
        headers = email.message_from_bytes(raw, policy=email.policy.default)
        number = len(self.mails) + 1
        mail = Mail(
            n=number,
            file=f"{number:04}.eml",
            message_id=str(headers["Message-ID"] or "").strip(),
            sender=envelope.mail_from or "",
            to=tuple(envelope.rcpt_tos),
            subject=str(headers["Subject"] or ""),
            at=time.time_ns() // 1_000_000,
            answered=answered,
        )
        (self._folder / mail.file).write_bytes(raw)
        with (self._folder / LEDGER).open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(asdict(mail), ensure_ascii=False) + "\n")
        self.mails.append(mail)

    def _take(self, kind: str, addresses: list[str]) -> bool:
        for place, (fault, times) in enumerate(self._faults):
            if fault.fault == kind and any(fnmatchcase(address, fault.to) for address in addresses):
                if times == 1:
                    del self._faults[place]
                else:
                    self._faults[place] = (fault, times - 1)
                return True
        return False


def control(box: MailBox, token: str) -> web.Application:
    """The HTTP side: arm a fault, read the ledger."""

    async def arm(request: web.Request) -> web.Response:
        try:
            armed = box.add(MailFault.read(await request.json()))
        except (ValueError, TypeError) as error:
            return web.json_response({"message": f"{error}."}, status=422)
        return web.json_response({"armed": armed})

    async def ledger(request: web.Request) -> web.Response:
        return web.json_response({"mails": [asdict(mail) for mail in box.mails], "turned_away": box.turned_away})

    @web.middleware
    async def door(request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            return web.json_response({"message": "The bearer token is missing or wrong."}, status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    application = web.Application(middlewares=[door])
    application.router.add_post("/_control", arm)
    application.router.add_get("/_ledger", ledger)
    return application


async def run(
    port: int, folder: Path, token: str, until_stdin_closes: bool, control_port: int = 0,
    tell: Callable[[str], None] = announce,
) -> None:  # fmt: skip
    """Serves SMTP and its control on 127.0.0.1 until told to stop; tells both ports first. Raises OSError."""
    box = MailBox(folder)
    loop = asyncio.get_running_loop()

    def protocol() -> SMTP:
        return SMTP(box, hostname="mail.demo.test", ident="Amends demo mail", enable_SMTPUTF8=True, loop=loop)

    server = await loop.create_server(protocol, "127.0.0.1", port)
    runner = web.AppRunner(control(box, token), access_log=None, shutdown_timeout=0.2)
    try:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", control_port).start()
        tell(f"{server.sockets[0].getsockname()[1]} {runner.addresses[0][1]}")
        await wait_for_end(until_stdin_closes)
    finally:
        server.close()
        await runner.cleanup()


def main() -> None:
    """The command line of this process."""
    parser = argparse.ArgumentParser(prog="python -m runner.demo.mailserver", description="The demo's mail server.")
    parser.add_argument("--port", type=int, default=0, help="the SMTP port; 0 takes a free one")
    parser.add_argument("--control-port", type=int, default=0, help="the control's port; 0 takes a free one")
    parser.add_argument("--folder", type=Path, required=True, help="where accepted mails are kept")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when the parent process is gone")
    chosen = parser.parse_args()
    token = os.environ.get("MAILSERVER_TOKEN", "")
    if not token:
        parser.error("set the environment variable MAILSERVER_TOKEN to the control's bearer token")
    asyncio.run(run(chosen.port, chosen.folder, token, chosen.until_stdin_closes, chosen.control_port))


if __name__ == "__main__":
    main()
