"""Mailboxes by IMAP, for mail triggers and drafts. The home of imapclient (kept up, BSD, on Python's own imaplib).

It has no actions: what it offers is `open()`, a mailbox that is looked into. Nothing is changed there, unless the
connection says `mark_seen: true`. The library blocks, so each open mailbox has a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import imaplib
import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from imapclient import DELETED, DRAFT, SEEN, IMAPClient  # type: ignore[import-untyped]
from imapclient.imapclient import DRAFTS  # type: ignore[import-untyped]

from connectors import transport
from connectors.servers import HOST_SETTINGS, Server, read_login, read_server
from connectors.service import check_settings, no_such_action, resolver, switch
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools
from runner.errors import NotPossible, SettingsError
from runner.guard import AddressRefused

PORTS = {"tls": 993, "starttls": 143, "none": 143}
PATIENCE = 30
"""Seconds without a byte after which a connection counts as broken."""
LONGEST_HEADER = 200_000
LONGEST_LINE = 10_000_000

T = TypeVar("T")


class ImapKind:
    """The kind `imap`."""

    name = "imap"
    title = "A mailbox that mail triggers look into"

    def settings(self) -> Mapping[str, Json]:
        return {
            **HOST_SETTINGS,
            "user": "text",
            "password": "secret",
            "folder": "text or empty",
            "mark_seen": "yes_no or empty",
            "from_programs": "yes_no or empty",
        }

    def actions(self) -> Mapping[str, Action]:
        return {}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        server, login = read_server(name, settings, PORTS, "imap.example.com"), read_login(name, settings)
        folder = settings.get("folder", "INBOX")
        if not isinstance(folder, str) or not folder.strip():
            raise SettingsError(f"{name}: folder must be the name of a mailbox, like INBOX")
        return _Mailbox(
            entry=Entry(name=name, server=server, login=login, tools=tools), folder=folder,
            mark_seen=switch(name, settings, "mark_seen"), from_programs=switch(name, settings, "from_programs"),
        )  # fmt: skip


class Declined(ConnectionError):
    """The server answered, and said no."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """How mailboxes of a server are entered. `login` is user and password as the settings name them."""

    name: str
    server: Server
    login: tuple[Json, ...]
    tools: Tools

    async def log_in(self) -> OpenMailbox:
        """A conversation that is encrypted as is said, and logged in. Raises ConnectionError with a sentence (Declined
        where the server said no), SecretMissing."""
        user, password = (resolver(self.tools)(value) for value in self.login)
        try:
            async with asyncio.timeout(PATIENCE):
                sock = await self.server.connect()
        except AddressRefused as error:
            raise ConnectionError(f"{self.name}: {error}") from None
        except (OSError, TimeoutError) as error:
            raise ConnectionError(f"{self.name}: {self._fault(error)}") from None
        sock.settimeout(PATIENCE)
        box = OpenMailbox(sock, self._fault, self.name)
        try:
            await box.log_in(self.server, user, password)
        except BaseException:
            await box.close()
            raise
        return box

    def _fault(self, error: Exception) -> str:
        """What went wrong, as a sentence."""
        shown = self.server.shown
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the certificate of {shown} is not one that is trusted"
        if isinstance(error, socket.gaierror):
            return f"the name {self.server.host} has no address"
        if isinstance(error, TimeoutError):
            return f"{shown} did not answer within {PATIENCE} s"
        if _broke_off(error):
            return f"{shown} cannot be reached or broke off"
        words = " ".join(str(error).removeprefix("b'").removesuffix("'").split())
        return f"{shown} said: {self.tools.redact(words)[:200]}"


def _broke_off(error: Exception) -> bool:
    """Of a log-in that broke off, the library says so in the cause alone."""
    broken = OSError | EOFError | imaplib.IMAP4.abort
    return isinstance(error, broken) or isinstance(error.__context__, broken) or "* BYE" in str(error)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mailbox:
    """One connection of the kind `imap`. `from_programs`: mails that programs wrote count too."""

    entry: Entry
    folder: str
    mark_seen: bool
    from_programs: bool

    @property
    def actions(self) -> Mapping[str, Action]:
        return {}

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        no_such_action(self.entry.name, action, {})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        """Never to be called: there is nothing to send."""
        raise NotPossible(f"{self.entry.name} is a mailbox that is looked into; it sends nothing")

    async def close(self) -> None:
        """Whoever opened the mailbox closes it."""

    def origin(self) -> str:
        server = self.entry.server
        return f"{'imaps' if server.security == 'tls' else 'imap'}://{server.shown}"

    @property
    def place(self) -> str:
        """Which mailbox it is: server, user and folder."""
        return f"{self.origin()} {self.entry.login[0]} {self.folder}"

    async def open(self) -> OpenMailbox:
        """The mailbox, logged in. Raises ConnectionError with a sentence, SecretMissing."""
        box = await self.entry.log_in()
        try:
            await box.select(self.folder, is_readonly=not self.mark_seen)
        except BaseException:
            await box.close()
            raise
        return box


class _Wire(imaplib.IMAP4):
    """The conversation over a socket that is connected already: to an address that the guard has let through.

    It knows what was received and not read yet: news that came together with the answer to IDLE would otherwise wait
    for the next news.
    """

    def __init__(self, sock: socket.socket, host: str) -> None:
        self._given = sock
        self.received = bytearray()
        super().__init__(host)

    def _create_socket(self, timeout: float | None = None) -> socket.socket:
        return self._given

    def readline(self) -> bytes:
        while (end := self.received.find(b"\n")) < 0:
            if len(self.received) > LONGEST_LINE:
                raise self.abort("a line without end")
            if not self._receive():
                return b""
        return self._taken(end + 1)

    def read(self, size: int) -> bytes:
        while len(self.received) < size:
            if not self._receive():
                break
        return self._taken(size)

    def _receive(self) -> bool:
        found = self.sock.recv(65_536)
        self.received += found
        return bool(found)

    def _taken(self, size: int) -> bytes:
        found = bytes(self.received[:size])
        del self.received[:size]
        return found


class _Client(IMAPClient):  # type: ignore[misc]
    def __init__(self, sock: socket.socket, host: str) -> None:
        self._given = sock
        super().__init__(host, ssl=False, timeout=PATIENCE)
        self.normalise_times = False

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802 - the library's own name
        self.wire = _Wire(self._given, self.host)
        return self.wire


class OpenMailbox:
    """A mailbox as long as its connection holds. Everything raises ConnectionError with a sentence."""

    def __init__(self, sock: socket.socket, fault: Callable[[Exception], str], name: str) -> None:
        self.validity = 0
        """UIDVALIDITY: while it stays the same, a uid means the same mail."""
        self.next_uid = 1
        """Mails that come from now on have this uid or a higher one."""
        self._sock = sock
        self._fault = fault
        self._name = name
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"imap-{name}")
        self._client: Any = None

    async def _call(self, do: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, do, *arguments)
        except (imaplib.IMAP4.error, OSError, ValueError, EOFError) as error:
            is_no = isinstance(error, imaplib.IMAP4.error) and not _broke_off(error)
            raise (Declined if is_no else ConnectionError)(f"{self._name}: {self._fault(error)}") from None

    async def log_in(self, server: Server, user: str, password: str) -> None:
        """Encrypts and logs in."""
        await self._call(self._log_in, server, user, password)

    async def select(self, folder: str, *, is_readonly: bool) -> None:
        """Looks into this folder from now on."""
        told = await self._call(self._client.select_folder, folder, is_readonly)
        self.validity, last = int(told.get(b"UIDVALIDITY", 0)), 0
        if b"UIDNEXT" not in told:
            last = max(await self._call(self._client.search, "ALL"), default=0)
        self.next_uid = int(told.get(b"UIDNEXT", last + 1))

    def _log_in(self, server: Server, user: str, password: str) -> None:
        if server.security == "tls":
            self._sock = transport.trusting(server.ca).wrap_socket(self._sock, server_hostname=server.host)
        client = self._client = _Client(self._sock, server.host)
        if server.security == "starttls":
            if not client.has_capability("STARTTLS"):
                raise imaplib.IMAP4.error(
                    "no encryption (STARTTLS), so no password was given to it; write security: tls if it wants that"
                )
            client.starttls(transport.trusting(server.ca))
            client.wire.received.clear()  # what was slipped in before the encryption is nobody's answer
            self._sock = client.socket()
        client.login(user, password)
        client._cached_capabilities = None  # what it can do after the log-in is asked for anew

    async def after(self, uid: int) -> list[int]:
        """The uids above this one, in their order."""
        await self._call(self._client.noop)
        found = await self._call(self._client.search, ["UID", f"{uid + 1}:*"])
        return sorted(one for one in found if one > uid)

    async def arrived(self, since: int) -> list[int]:
        """The uids of mails that the server took in since then (ms), in their order."""
        day = datetime.fromtimestamp(since / 1000, tz=UTC).date() - timedelta(days=1)
        found = await self._call(self._client.search, ["SINCE", day])
        told = await self._call(self._client.fetch, found, ["INTERNALDATE"])
        return sorted(uid for uid, one in told.items() if one[b"INTERNALDATE"].timestamp() * 1000 + 999 >= since)

    async def head(self, uid: int) -> bytes | None:
        """A mail's header; None where it is gone."""
        return await self._part(uid, "HEADER", LONGEST_HEADER)

    async def mail(self, uid: int, largest: int) -> tuple[int, bytes] | None:
        """Its size, and the mail, or its header alone if it is larger than that; None where it is gone."""
        told = await self._call(self._client.fetch, [uid], ["RFC822.SIZE"])
        size = int(told.get(uid, {}).get(b"RFC822.SIZE", 0))
        whole = await self._part(uid, "", largest + 1) if size <= largest else await self.head(uid)
        return (max(size, len(whole)), whole) if whole is not None else None

    async def _part(self, uid: int, part: str, most: int) -> bytes | None:
        told = await self._call(self._client.fetch, [uid], [f"BODY.PEEK[{part}]<0.{most}>"])
        found = told.get(uid, {}).get(f"BODY[{part}]<0>".encode())
        return bytes(found) if found is not None else None

    async def mark_seen(self, uid: int) -> None:
        """As if somebody had read it."""
        await self._call(self._client.add_flags, [uid], ["\\Seen"], True)

    # -- drafts --

    async def drafts_folder(self, name: str) -> str:
        """Where drafts are kept: the folder of this name, or else the server's own; it is made where there is none."""
        folder = name or await self._call(self._client.find_special_folder, DRAFTS) or "Drafts"
        if not await self._call(self._client.folder_exists, folder):
            await self._call(self._client.create_folder, folder)
            await self._call(self._client.subscribe_folder, folder)
        return str(folder)

    async def append_draft(self, folder: str, message: bytes) -> None:
        """Puts a mail among the drafts."""
        await self._call(self._client.append, folder, message, [DRAFT, SEEN])

    async def drafts(self, message_id: str) -> list[int]:
        """The uids of what has this Message-ID in the selected folder."""
        found = await self._call(self._client.search, ["UNDELETED", "HEADER", "Message-ID", message_id])
        told = await self._call(self._client.fetch, found, ["BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]"]) if found else {}
        return sorted(uid for uid, one in told.items() if _is_id(one, message_id))

    async def remove(self, uids: list[int]) -> None:
        """Takes mails out of the selected folder; where the server cannot take out just these, they are marked."""
        await self._call(self._client.add_flags, uids, [DELETED], True)
        if await self._call(self._client.has_capability, "UIDPLUS"):
            await self._call(self._client.uid_expunge, uids)

    async def wait(self, seconds: float) -> None:
        """Until something comes, where the server tells (IDLE), else for so long."""
        if not await self._call(self._client.has_capability, "IDLE"):
            await asyncio.sleep(seconds)
            return
        await self._call(self._client.idle)
        has_news = self._client.wire.received or getattr(self._sock, "pending", int)()
        await self._call(self._client.idle_check, 0 if has_news else seconds)
        await self._call(self._client.idle_done)

    async def close(self) -> None:
        """Breaks off whatever is still asked."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.submit(self._end)
        await asyncio.shield(asyncio.to_thread(self._thread.shutdown))

    def _end(self) -> None:
        with contextlib.suppress(Exception):
            self._client.shutdown()
        self._sock.close()


def _is_id(told: Mapping[bytes, Any], message_id: str) -> bool:
    """A server may find parts of a header, and this is about one mail."""
    header = b"".join(value for name, value in told.items() if name.startswith(b"BODY[HEADER"))
    return header.partition(b":")[2].strip() == message_id.encode()


KIND: Any = ImapKind()
