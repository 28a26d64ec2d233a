"""Lines between an engine and its services that break for real: each passes connections on, and fails some of them.

A line speaks HTTP or SMTP as far as it must to know where a request ends; every connection carries one request.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from tests.support.ports import free_port

Mode = Literal["pass", "drop_answer", "drop_request", "hold_answer", "hold_request", "refuse", "nothing"]
"""What becomes of a connection: passed on; the answer is lost; the request is, on the way; the answer is held until
`release`; so is the request, and then it is lost; the service says no (550); it has no such thing (404)."""

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_NOTHING = (
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{}"
)
LIMIT = 10.0

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


class Cut(Exception):
    """The connection is cut here."""


class Line:
    """One line. `plan` says what becomes of each connection by its number, from 0; after `left` of them nobody listens
    any more. `held` is set when one is held.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, upstream: int, *, is_mail: bool) -> None:
        self.upstream = upstream
        self.is_mail = is_mail
        self.port = free_port()
        self.held = threading.Event()
        self._loop = loop
        self._released = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._plan: Callable[[int], Mode] = lambda number: "pass"
        self._left: int | None = None
        self._count = 0

    def begin(self, plan: Callable[[int], Mode] = lambda number: "pass", left: int | None = None) -> None:
        """Begins anew with this plan, on the port that it had."""
        asyncio.run_coroutine_threadsafe(self._begin(plan, left), self._loop).result(LIMIT)

    def release(self) -> None:
        """Lets go of what is held."""
        self._loop.call_soon_threadsafe(self._released.set)

    def end(self) -> None:
        """Nobody listens any more."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(LIMIT)

    async def _begin(self, plan: Callable[[int], Mode], left: int | None) -> None:
        await self._end()
        self._plan, self._left, self._count = plan, left, 0
        self.held.clear()
        self._released = asyncio.Event()
        if left != 0:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: Reader, writer: Writer) -> None:
        number, self._count = self._count, self._count + 1
        if self._left is not None and self._count >= self._left and self._server is not None:
            self._server.close()
        out: Writer | None = None
        try:
            async with asyncio.timeout(LIMIT):
                back, out = await asyncio.open_connection("127.0.0.1", self.upstream)
                talk = self._mail if self.is_mail else self._http
                await talk(self._plan(number), reader, writer, back, out)
        except (Cut, OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            for each in (out, writer):
                if each is not None:
                    each.close()

    async def _hold(self) -> None:
        self.held.set()
        await self._released.wait()

    async def _http(self, mode: Mode, reader: Reader, writer: Writer, back: Reader, out: Writer) -> None:
        request = await _message(reader)
        await self._before(mode)
        if mode == "nothing":
            writer.write(_NOTHING)
            await writer.drain()
            return
        out.write(request)
        answer = await _message(back)
        await self._after(mode)
        first, _, rest = answer.partition(b"\r\n")
        writer.write(first + b"\r\nConnection: close\r\n" + rest)
        await writer.drain()

    async def _mail(self, mode: Mode, reader: Reader, writer: Writer, back: Reader, out: Writer) -> None:
        writer.write(await _reply(back))
        while line := await reader.readline():
            word = line.split(b" ")[0].strip().upper()
            if word == b"RCPT" and mode == "refuse":
                writer.write(b"550 5.1.1 No such mailbox\r\n")
                continue
            out.write(line)
            writer.write(await _reply(back))
            if word != b"DATA":
                continue
            letter = await reader.readuntil(b"\r\n.\r\n")
            await self._before(mode)
            out.write(letter)
            reply = await _reply(back)
            await self._after(mode)
            writer.write(reply)

    async def _before(self, mode: Mode) -> None:
        if mode == "hold_request":
            await self._hold()
        if mode in ("drop_request", "hold_request"):
            raise Cut

    async def _after(self, mode: Mode) -> None:
        if mode == "hold_answer":
            await self._hold()
        if mode == "drop_answer":
            raise Cut


async def _message(reader: Reader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    found = _LENGTH.search(head)
    return head + (await reader.readexactly(int(found[1])) if found else b"")


async def _reply(reader: Reader) -> bytes:
    lines = b""
    while line := await reader.readline():
        lines += line
        if line[3:4] != b"-":
            break
    return lines


@contextmanager
def running_lines(**upstream: tuple[int, bool]) -> Iterator[dict[str, Line]]:
    """A line for each name, to a port of this machine; the flag says whether mail is spoken there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    lines = {name: Line(loop, port, is_mail=is_mail) for name, (port, is_mail) in upstream.items()}
    try:
        for line in lines.values():
            line.begin()
        yield lines
    finally:
        for line in lines.values():
            line.end()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()
