"""Mail by SMTP. The home of aiosmtplib.

The conversation is held command by command, because what an error means depends on how far it had come:

    connecting, TLS, EHLO, AUTH, MAIL, RCPT, DATA broken off   not_sent: no byte of the message has left
    a reply 4xx anywhere                                       refused, unavailable: may be tried again
    a reply 5xx anywhere                                       refused, final
    the connection lost or late after the message began        unknown: never sent again by itself
    250 after the final dot                                    applied

One call is one recipient, so one bad address never holds up or repeats another's mail.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiosmtplib

from connectors.client import trusting
from connectors.guard import AddressRefused, Guard, is_public, literal
from connectors.letter import address, build, freeze, wanted_files
from connectors.service import secret_only, secret_or_text, trusted_file
from runner.clock import HOUR, MINUTE, MachineClock
from runner.contract import Action, Connector, Json, Outcome, Purpose, Reason, Request, Retry, Tools
from runner.errors import NotFound, RequestError, SecretMissing, SettingsError

PORTS = {"starttls": 587, "tls": 465, "none": 25}

SEND = Action(
    name="send",
    title="Sends a mail. Several addresses in `to` are one mail and one outcome each.",
    effect="once",
    input={
        "to": "any",
        "subject": "text or empty",
        "text": "text or empty",
        "html": "text or empty",
        "template": "text or empty",
        "values": "record or empty",
        "language": "text or empty",
        "reply_to": "text or empty",
        "attach": {"list": "file", "empty": True},
    },
    output={"message_id": "text", "to": "text", "accepted": "yes_no"},
    cannot_undo="A mail that has gone out cannot be taken back.",
    sample={"message_id": "<draft@example.com>", "to": "someone@example.com", "accepted": True},
    retry=Retry(tries=6, pause=5 * MINUTE, growth="double", longest=4 * HOUR),
    timeout=60_000,
    fan_out="to",
    renders_template=True,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Host:
    """Where mails are handed in, and how."""

    host: str
    port: int
    security: str
    allow_private: bool
    allow_insecure: bool
    ca: str


class EmailKind:
    """The kind `email`."""

    name = "email"
    title = "Sends mails through an SMTP server"

    def settings(self) -> Mapping[str, Json]:
        return {
            "host": "text",
            "port": "integer or empty",
            "user": "text or empty",
            "password": "secret or empty",
            "from": "text",
            "reply_to": "text or empty",
            "security": {"choice": ["starttls", "tls", "none"], "empty": True},
            "allow_private": "yes_no or empty",
            "allow_insecure": "yes_no or empty",
            "ca": "text or empty",
        }

    def actions(self) -> Mapping[str, Action]:
        return {"send": SEND}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        where = _read_host(name, settings)
        try:
            sender = address(settings.get("from"), "from")
            reply_to = settings.get("reply_to") or ""
            if reply_to:
                address(reply_to, "reply_to")
        except RequestError as error:
            raise SettingsError(f"{name}: {error}") from None
        user = password = None
        if settings.get("user"):
            user = secret_or_text(name, "user", settings["user"])
            password = secret_only(name, "password", settings.get("password"))
        elif settings.get("password"):
            raise SettingsError(f"{name}: there is a password and no user")
        return _Mail(
            name=name, where=where, sender=sender, reply_to=str(reply_to), user=user, password=password, tools=tools
        )


def _read_host(name: str, settings: Mapping[str, Json]) -> _Host:
    host, security = settings.get("host"), settings.get("security") or "starttls"
    if not isinstance(host, str) or not host.strip() or not host.isascii() or any(char in host for char in " /@\r\n"):
        raise SettingsError(f"{name}: host must be the name of a mail server, like smtp.example.com")
    if security not in PORTS:
        raise SettingsError(f'{name}: security "{security}" must be starttls, tls or none')
    port = settings.get("port") or PORTS[str(security)]
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise SettingsError(f"{name}: port must be a number from 1 to 65535")
    for switch in ("allow_private", "allow_insecure"):
        if not isinstance(settings.get(switch, False), bool):
            raise SettingsError(f"{name}: {switch} must be true or false")
    allow_insecure = settings.get("allow_insecure", False)
    if security == "none" and not allow_insecure:
        raise SettingsError(
            f"{name}: security: none sends mail and password in clear text; for a server on this machine or network"
            " add allow_insecure: true"
        )
    try:
        number = literal(host)
        Guard(allow_private=settings.get("allow_private", False)).check_host(host)
    except AddressRefused as error:
        raise SettingsError(f"{name}: {error}") from None
    if security == "none" and number is not None and is_public(number):
        raise SettingsError(f"{name}: security: none is for a server on this machine or network, and {host} is public")
    return _Host(
        host=host,
        port=port,
        security=str(security),
        allow_private=settings.get("allow_private", False),
        allow_insecure=allow_insecure,
        ca=trusted_file(name, settings.get("ca")),
    )


class _Stopped(Exception):
    """The conversation ended before the message; the outcome says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.summary)
        self.outcome = outcome


class _Mail:
    """One connection of the kind `email`."""

    def __init__(
        self,
        *,
        name: str,
        where: _Host,
        sender: tuple[str, str],
        reply_to: str,
        user: Json,
        password: Json,
        tools: Tools,
    ) -> None:
        self._name = name
        self._where = where
        self._sender = sender
        self._reply_to = reply_to
        self._user = user
        self._password = password
        self._tools = tools
        self._guard = Guard(allow_private=where.allow_private)
        self._clock = MachineClock()

    @property
    def actions(self) -> Mapping[str, Action]:
        return {"send": SEND}

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        if action != "send" or purpose not in ("do", "undo"):
            raise RequestError(f"{self._name} can send a mail and nothing else; it was asked for {action} ({purpose})")
        unknown = [field for field in input if field not in SEND.input]
        if unknown:
            raise RequestError(f'send has no field "{unknown[0]}"; there are {", ".join(SEND.input)}')
        letter = freeze(input, sender=self._sender, reply_to=self._reply_to, key=key)
        build({**letter, "attach": []}, [], at=0)
        return Request.of(letter)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        talk = _Talk(self._where, self._guard)
        try:
            async with asyncio.timeout(limit / 1000):
                message, options = self._message(request.body)
                await talk.connect(trusting(self._where.ca))
                await talk.login(*self._credentials())
                await talk.address(str(request.body["sender"]), str(request.body["recipient"]), options)
                reply = await talk.hand_over(message)
            talk.leave()
        except _Stopped as stopped:
            return self._redacted(stopped.outcome)
        except (TimeoutError, aiosmtplib.SMTPTimeoutError):
            return self._broken(talk, "timeout", f"{talk.shown} did not answer within {limit / 1000:g} s")
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            return self._redacted(self._failed(talk, error))
        finally:
            talk.close()
        sent = str(request.body["message_id"])
        output = {"message_id": sent, "to": str(request.body["recipient"]), "accepted": True}
        return Outcome(result="applied", output=output, external_id=sent, evidence=self._tools.redact(reply))

    async def close(self) -> None:
        """Every mail has a connection of its own, so nothing is open."""

    def origin(self) -> str:
        return f"{'smtps' if self._where.security == 'tls' else 'smtp'}://{self._where.host}:{self._where.port}"

    def _credentials(self) -> tuple[str, str] | tuple[()]:
        if self._user is None:
            return ()
        try:
            user = self._tools.secret(str(self._user["secret"])) if isinstance(self._user, Mapping) else str(self._user)
            return user, self._tools.secret(str(self._password["secret"]))
        except SecretMissing as error:
            raise _Stopped(Outcome(result="not_sent", reason="forbidden", summary=f"{self._name}: {error}")) from None

    def _message(self, letter: Mapping[str, Json]) -> tuple[bytes, bool]:
        contents: list[bytes] = []
        for digest in wanted_files(letter):
            try:
                content = self._tools.file(digest)
            except NotFound as error:
                raise _Stopped(Outcome(result="not_sent", reason="not_found", summary=str(error))) from None
            if hashlib.sha256(content).hexdigest() != digest:
                summary = "an attachment is not the file that was given; nothing was sent"
                raise _Stopped(Outcome(result="not_sent", reason="invalid", summary=summary))
            contents.append(content)
        message = build(letter, contents, at=self._clock.now())
        wide = not (str(letter["recipient"]) + str(letter["sender"])).isascii()
        return message.as_bytes(), wide

    def _broken(self, talk: _Talk, reason: Reason, summary: str) -> Outcome:
        return Outcome(result="unknown" if talk.began else "not_sent", reason=reason, summary=summary)

    def _failed(self, talk: _Talk, error: Exception) -> Outcome:
        if isinstance(error, aiosmtplib.SMTPResponseException):
            return talk.refused(error.code, error.message)
        if isinstance(error, AddressRefused):
            return self._broken(talk, "forbidden", str(error))
        if isinstance(error, ssl.SSLCertVerificationError) or isinstance(error.__cause__, ssl.SSLCertVerificationError):
            return self._broken(talk, "connection", f"the certificate of {talk.shown} is not one that is trusted")
        if isinstance(error, socket.gaierror):
            return self._broken(talk, "connection", f"the name {self._where.host} has no address")
        if talk.began:
            return self._broken(talk, "connection", f"the connection to {talk.shown} broke before it answered")
        return self._broken(talk, "connection", f"{talk.shown} cannot be reached or broke off before the message")

    def _redacted(self, outcome: Outcome) -> Outcome:
        return Outcome(
            result=outcome.result,
            reason=outcome.reason,
            summary=self._tools.redact(outcome.summary),
            evidence=self._tools.redact(outcome.evidence),
        )


class _Talk:
    """One conversation with a server. `began` turns true when the first byte of the message may leave."""

    def __init__(self, where: _Host, guard: Guard) -> None:
        self.began = False
        self.shown = f"{where.host}:{where.port}"
        self._where = where
        self._guard = guard
        self._smtp: aiosmtplib.SMTP | None = None
        self._encrypted = False

    async def connect(self, context: ssl.SSLContext) -> None:
        """Connects to a checked address, encrypted as the settings say."""
        direct = self._where.security == "tls"
        sock = await self._open()
        self._smtp = aiosmtplib.SMTP(
            hostname=self._where.host,
            port=None,
            sock=sock,
            use_tls=direct,
            start_tls=False,
            tls_context=context if direct else None,
            local_hostname=_own_name(sock),
            timeout=None,
        )
        await self._smtp.connect()
        self._encrypted = direct
        await self._smtp.ehlo()
        if self._where.security == "starttls":
            if not self._smtp.supports_extension("starttls"):
                summary = f"{self.shown} offers no encryption (STARTTLS), so nothing was handed to it"
                raise _Stopped(Outcome(result="refused", reason="forbidden", summary=summary))
            await self._smtp.starttls(server_hostname=self._where.host, tls_context=context)
            await self._smtp.ehlo()
            self._encrypted = True

    async def login(self, user: str = "", password: str = "") -> None:
        """Logs in, if there is a user; in clear text only where `connect` has found the server to be a local one."""
        if user:
            if not self._smtp_now.supports_extension("auth"):
                summary = f"{self.shown} offers no log-in; leave user and password out if it needs none"
                raise _Stopped(Outcome(result="refused", reason="forbidden", summary=summary))
            await self._smtp_now.login(user, password)

    async def address(self, sender: str, recipient: str, wide: bool) -> None:
        """MAIL and RCPT."""
        options: list[str] = []
        if wide:
            if not self._smtp_now.supports_extension("smtputf8"):
                summary = f"{recipient} is not an ASCII address, and {self.shown} does not take others (SMTPUTF8)"
                raise _Stopped(Outcome(result="refused", reason="invalid", summary=summary))
            options = ["SMTPUTF8", "BODY=8BITMIME"]
        encoding = "utf-8" if wide else "ascii"
        await self._smtp_now.mail(sender, options=options, encoding=encoding)
        await self._smtp_now.rcpt(recipient, encoding=encoding)

    async def hand_over(self, message: bytes) -> str:
        """DATA, the message and the final dot. Returns the server's words."""
        smtp = self._smtp_now
        ready = await smtp.execute_command(b"DATA")
        if ready.code != 354:
            raise aiosmtplib.SMTPDataError(ready.code, ready.message)
        assert smtp.protocol is not None
        self.began = True
        smtp.protocol.write(_dotted(message))
        reply = await smtp.protocol.read_response()
        if reply.code != 250:
            raise aiosmtplib.SMTPDataError(reply.code, reply.message)
        return f"{reply.code} {reply.message}"

    def leave(self) -> None:
        """Says goodbye without waiting: what comes of it changes nothing, and nothing may come between."""
        with contextlib.suppress(aiosmtplib.SMTPException, OSError):
            if self._smtp_now.protocol is not None:
                self._smtp_now.protocol.write(b"QUIT\r\n")

    def close(self) -> None:
        """Closes the connection."""
        if self._smtp is not None:
            self._smtp.close()

    def refused(self, code: int, message: str) -> Outcome:
        """The outcome of a reply that is no yes."""
        words = " ".join(message.split())[:200]
        reason: Reason = "unavailable"
        if not 400 <= code < 500:
            reason = "forbidden" if code in (530, 534, 535, 538) else "invalid"
        return Outcome(
            result="refused",
            reason=reason,
            summary=f"{self.shown} said {code} {words}",
            evidence=f"SMTP {code} {words}",
        )

    @property
    def _smtp_now(self) -> aiosmtplib.SMTP:
        assert self._smtp is not None
        return self._smtp

    async def _open(self) -> socket.socket:
        """A socket that is connected to one of the host's checked addresses."""
        loop = asyncio.get_running_loop()
        last: OSError = OSError("no address")
        for family, found in await self._guard.resolve(self._where.host, self._where.port):
            self._check_clear_text(found)
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, (found, self._where.port))
                return sock
            except OSError as error:
                sock.close()
                last = error
            except BaseException:
                sock.close()
                raise
        raise last

    def _check_clear_text(self, found: str) -> None:
        if self._where.security == "none" and is_public(ipaddress.ip_address(found)):
            summary = f"{self.shown} is a public server; mail goes to it encrypted or not at all"
            raise _Stopped(Outcome(result="refused", reason="forbidden", summary=summary))


def _own_name(sock: socket.socket) -> str:
    """How this end is called at EHLO: by its address, which needs no name service and is always true."""
    address = str(sock.getsockname()[0]).partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _dotted(message: bytes) -> bytes:
    """The message as it stands between DATA and the final dot: CRLF line ends, leading dots doubled."""
    lines = message.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return b"".join((b"." + line if line.startswith(b".") else line) + b"\r\n" for line in lines) + b".\r\n"


KIND: Any = EmailKind()
