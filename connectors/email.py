"""Mail by SMTP. The home of aiosmtplib.

The conversation is held command by command, because what an error means depends on how far it had come:

    connecting, TLS, EHLO, AUTH, MAIL, RCPT, DATA broken off   not_sent: no byte of the message has left
    a reply 4xx anywhere                                       refused, unavailable: may be tried again
    a reply 5xx anywhere                                       refused, final
    any other reply after the message                          unknown
    the connection lost or late after the message began        unknown: never sent again by itself
    250 after the final dot                                    applied

One call is one recipient, so one bad address never holds up or repeats another's mail.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import aiosmtplib

from connectors import transport
from connectors.letter import FIELDS, address, build, freeze, message_of
from connectors.mail_drafts import ACTIONS, SETTINGS, Drafts, read_drafts
from connectors.servers import HOST_SETTINGS, PublicServer, Server, read_login, read_server
from connectors.service import resolver
from runner.clock import HOUR, MINUTE
from runner.contract import Action, Connector, Draft, Json, Outcome, Purpose, Reason, Request, Result, Retry, Tools
from runner.errors import NotFound, RequestError, SecretMissing, SettingsError
from runner.guard import AddressRefused

UNENCRYPTED = (
    "{} offers no encryption (STARTTLS), so nothing was handed to it; if it wants TLS from the first byte, write "
    "security: tls, and for a server on this machine or network security: none with allow_insecure: true"
)
PORTS = {"starttls": 587, "tls": 465, "none": 25}

SEND = Action(
    name="send",
    title="Sends a mail. Several addresses in `to` are one mail and one outcome each.",
    effect="once",
    input=FIELDS,
    output={"message_id": "text", "to": "text", "accepted": "yes_no"},
    cannot_undo="A mail that has gone out cannot be taken back.",
    sample={"message_id": "<draft@example.com>", "to": "someone@example.com", "accepted": True},
    retry=Retry(tries=6, pause=5 * MINUTE, growth="double", longest=4 * HOUR),
    timeout=60_000,
    fan_out="to",
    renders_template=True,
)


class EmailKind:
    """The kind `email`."""

    name = "email"
    title = "Sends mails through an SMTP server"

    def settings(self) -> Mapping[str, Json]:
        return {
            **HOST_SETTINGS,
            "user": "text or empty",
            "password": "secret or empty",
            "from": "text",
            "reply_to": "text or empty",
            **SETTINGS,
        }

    def actions(self) -> Mapping[str, Action]:
        """Those of a connection without `imap`."""
        return self.actions_for({})

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """Those of a connection with these settings."""
        if not settings.get("imap"):
            return {"send": SEND}
        return {"send": replace(SEND, draft=Draft(action="draft")), **ACTIONS}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        server = read_server(name, settings, PORTS, "smtp.example.com")
        try:
            sender = address(settings.get("from"), "from")
            reply_to = settings.get("reply_to") or ""
            if reply_to:
                address(reply_to, "reply_to")
        except RequestError as error:
            raise SettingsError(f"{name}: {error}") from None
        login = read_login(name, settings)
        return _Mail(
            name=name, server=server, sender=sender, reply_to=str(reply_to), login=login, tools=tools,
            actions=self.actions_for(settings), drafts=read_drafts(name, settings, login, tools),
        )  # fmt: skip


class _Stopped(Exception):
    """The conversation ended before the message; the outcome says how."""

    def __init__(self, result: Result, reason: Reason, summary: str) -> None:
        super().__init__(summary)
        self.outcome = Outcome(result=result, reason=reason, summary=summary)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mail:
    """One connection of the kind `email`. `login` is user and password as the settings name them, or empty."""

    name: str
    server: Server
    sender: tuple[str, str]
    reply_to: str
    login: tuple[Json, ...]
    tools: Tools
    actions: Mapping[str, Action]
    drafts: Drafts | None

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        declared = self.actions.get(action)
        if declared is None or (purpose not in ("do", "undo") and not (purpose == "lookup" and declared.has_lookup)):
            can = "send a mail" if self.drafts is None else "send a mail, leave and remove drafts,"
            raise RequestError(f"{self.name} can {can} and nothing else; it was asked for {action} ({purpose})")
        for field in input:
            if field not in declared.input:
                raise RequestError(f'{action} has no field "{field}"; there are {", ".join(declared.input)}')
        if self.drafts is not None and action == "remove_draft":
            return Request.of(self.drafts.remove(input))
        letter = freeze(input, sender=self.sender, reply_to=self.reply_to, key=key)
        build({**letter, "attach": []}, [], at=0)
        return Request.of(letter if self.drafts is None or action == "send" else self.drafts.leave(letter))

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        if self.drafts is not None and action != "send":
            return await self.drafts.send(request.body, purpose=purpose, limit=limit)
        letter, redact = request.body, self.tools.redact
        talk = _Talk(self.server)
        try:
            async with asyncio.timeout(limit / 1000):
                message, login = self._message(letter), self._credentials()
                reply = await talk.deliver(message, str(letter["sender"]), str(letter["recipient"]), login)
        except _Stopped as stopped:
            found = stopped.outcome
        except (TimeoutError, aiosmtplib.SMTPTimeoutError):
            found = talk.broken("timeout", f"{self.server.shown} did not answer within {limit / 1000:g} s")
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            found = talk.failed(error)
        else:
            sent = str(letter["message_id"])
            output = {"message_id": sent, "to": str(letter["recipient"]), "accepted": True}
            return Outcome(result="applied", output=output, external_id=sent, evidence=redact(reply))
        finally:
            talk.close()
        return replace(found, summary=redact(found.summary)[:300], evidence=redact(found.evidence)[:300])

    async def close(self) -> None:
        """Every mail has a connection of its own, so nothing is open."""

    def origin(self) -> str:
        return f"{'smtps' if self.server.security == 'tls' else 'smtp'}://{self.server.shown}"

    def _credentials(self) -> list[str]:
        try:
            return [resolver(self.tools)(value) for value in self.login]
        except SecretMissing as error:
            raise _Stopped("not_sent", "forbidden", f"{self.name}: {error}") from None

    def _message(self, letter: Mapping[str, Json]) -> bytes:
        try:
            return message_of(letter, self.tools)
        except NotFound as error:
            raise _Stopped("not_sent", "not_found", str(error)) from None


class _Talk:
    """One conversation with a server. `began` turns true when the first byte of the message may leave."""

    def __init__(self, server: Server) -> None:
        self.began = False
        self._server = server
        self._smtp: aiosmtplib.SMTP | None = None

    async def deliver(self, message: bytes, sender: str, recipient: str, login: Sequence[str]) -> str:
        """The whole conversation. Returns the server's words. Who logs in does it encrypted, or where `_open` has found
        the server to be a local one."""
        smtp = await self._connect()
        if login:
            self._need(smtp, "auth", "forbidden", "{} offers no log-in; leave user and password out if it needs none")
            user, password = login
            await smtp.login(user, password)
        options, encoding = list[str](), "ascii"
        if not (sender + recipient).isascii():
            what = f"{recipient} is not an ASCII address, and {{}} does not take others (SMTPUTF8)"
            self._need(smtp, "smtputf8", "invalid", what)
            options, encoding = ["SMTPUTF8", "BODY=8BITMIME"], "utf-8"
        await smtp.mail(sender, options=options, encoding=encoding)
        await smtp.rcpt(recipient, encoding=encoding)
        reply = await smtp.execute_command(b"DATA")
        if reply.code != 354:
            raise aiosmtplib.SMTPDataError(reply.code, reply.message)
        assert smtp.protocol is not None
        self.began = True
        smtp.protocol.write(_dotted(message))
        reply = await smtp.protocol.read_response()
        if reply.code != 250:
            raise aiosmtplib.SMTPDataError(reply.code, reply.message)
        with contextlib.suppress(aiosmtplib.SMTPException, OSError):
            # goodbye without waiting: what comes of it changes nothing, and nothing may come between
            smtp.protocol.write(b"QUIT\r\n")
        return f"{reply.code} {reply.message}"

    async def _connect(self) -> aiosmtplib.SMTP:
        """Connects to a checked address, encrypted as the settings say."""
        server, context = self._server, transport.trusting(self._server.ca)
        direct = server.security == "tls"
        try:
            sock = await server.connect()
        except PublicServer as error:
            raise _Stopped("refused", "forbidden", str(error)) from None
        self._smtp = smtp = aiosmtplib.SMTP(
            hostname=server.host,
            port=None,
            sock=sock,
            use_tls=direct,
            start_tls=False,
            tls_context=context if direct else None,
            local_hostname=_own_name(sock),
            timeout=None,
        )
        await smtp.connect()
        await smtp.ehlo()
        if server.security == "starttls":
            self._need(smtp, "starttls", "forbidden", UNENCRYPTED)
            await smtp.starttls(server_hostname=server.host, tls_context=context)
            await smtp.ehlo()
        return smtp

    def close(self) -> None:
        """Closes the connection."""
        if self._smtp is not None:
            self._smtp.close()

    def broken(self, reason: Reason, summary: str) -> Outcome:
        """The outcome of a conversation that broke off."""
        return Outcome(result="unknown" if self.began else "not_sent", reason=reason, summary=summary)

    def failed(self, error: Exception) -> Outcome:
        """The outcome of a reply that is no yes, or of a failure."""
        shown = self._server.shown
        if isinstance(error, aiosmtplib.SMTPResponseException):
            if 400 <= error.code < 600:
                return _refused(shown, error.code, " ".join(error.message.split()))
            return self.broken("unreadable", f"{shown} answered what is neither a yes nor a no")
        if isinstance(error, AddressRefused):
            return self.broken("forbidden", str(error))
        what = f"{shown} cannot be reached or broke off before the message"
        if any(isinstance(one, ssl.SSLCertVerificationError) for one in (error, error.__cause__)):
            what = f"the certificate of {shown} is not one that is trusted"
        elif isinstance(error, socket.gaierror):
            what = f"the name {self._server.host} has no address"
        elif self.began:
            what = f"the connection to {shown} broke before it answered"
        return self.broken("connection", what)

    def _need(self, smtp: aiosmtplib.SMTP, extension: str, reason: Reason, otherwise: str) -> None:
        if not smtp.supports_extension(extension):
            raise _Stopped("refused", reason, otherwise.format(self._server.shown))


def _refused(shown: str, code: int, words: str) -> Outcome:
    reason: Reason = "invalid"
    if 400 <= code < 500:
        reason = "unavailable"
    elif code in (530, 534, 535, 538):
        reason = "forbidden"
    said = f"{code} {words}"
    return Outcome(result="refused", reason=reason, summary=f"{shown} said {said}", evidence=f"SMTP {said}")


def _own_name(sock: socket.socket) -> str:
    """How this end is called at EHLO: by its address, which needs no name service and is always true."""
    address = str(sock.getsockname()[0]).partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _dotted(message: bytes) -> bytes:
    """The message as it stands between DATA and the final dot: CRLF line ends, leading dots doubled."""
    lines = message.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n").split(b"\n")
    return b"".join((b"." + line if line.startswith(b".") else line) + b"\r\n" for line in lines) + b".\r\n"


KIND: Any = EmailKind()
