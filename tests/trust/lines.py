"""A proxy that does one thing to one connection at one moment of it, and remembers what came to it.

It reads whole requests, so "half of the head" and "all but the last byte" are what they say. `seen` is the judge: how many
bytes of the request have come here, whatever was passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from dataclasses import dataclass
from typing import Any, Literal

Moment = Literal["connect", "hello", "handshake", "first", "head", "body", "answer", "last"]
Fault = Literal[
    "reset", "close", "silence", "drip", "late", "garbage", "gateway", "unavailable", "half", "deaf", "after", "pause"
]
MOMENTS: tuple[Moment, ...] = ("connect", "hello", "handshake", "first", "head", "body", "answer", "last")
"""connect, hello and handshake are of a TLS line: nothing of a request can have left. Then: one byte of the request is
passed on, half its head, all but its last byte, all of it, and all but the last byte of the answer."""
FAULTS: tuple[Fault, ...] = (
    "reset", "close", "silence", "drip", "late", "garbage", "gateway", "unavailable", "half", "deaf", "after", "pause",
)  # fmt: skip
"""reset: RST. close: FIN. silence: open, and nothing more. drip: a byte a second. late: all passes when the client has
gone. garbage: other bytes. gateway, unavailable: somebody between answers 504 or 503. half: our side ends, the other goes
on. deaf: all goes up and nothing down. after: done, then RST. pause: a moment's rest, and all is well."""
PATIENT: frozenset[Fault] = frozenset({"silence", "drip", "late", "deaf"})
"""They end only with the client's patience."""

REST = 0.05
"""Seconds."""
LONGEST = 30.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SAID = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n%s\r\n{}"
GATEWAY = _SAID % (b"504 Gateway Timeout", b"")
UNAVAILABLE = _SAID % (b"503 Service Unavailable", b"Retry-After: 1\r\n")
GARBAGE = bytes(range(128, 256)) * 3


@dataclass(kw_only=True)
class Record:
    """What one connection came to."""

    seen: int = 0
    struck: bool = False
    delivered: bool = False


def reset(writer: asyncio.StreamWriter) -> None:
    """RST."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """One HTTP message with a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = _LENGTH.search(head)
    return head + (await reader.readexactly(int(size[1])) if size else b"")


async def gone(reader: asyncio.StreamReader) -> None:
    """Until the client has let go."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(LONGEST):
            while await reader.read(65_536):
                pass


class Line:
    """Listens on a free port for one connection; later ones pass unharmed."""

    def __init__(self, to: int, moment: Moment, fault: Fault) -> None:
        self._to, self._moment, self._fault = to, moment, fault
        self._work: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self._taken: socket.socket | None = None
        self._full: list[socket.socket] = []
        self.record = Record()
        self.port = 0

    async def __aenter__(self) -> Line:
        if self._moment == "connect" and self._fault != "pause":
            self._shut()
        else:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()
        for each in list(self._work):
            each.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        for one in self._full:
            one.close()
        if self._taken is not None:
            self._taken.close()

    async def mend(self) -> None:
        """From now on all passes, at the same place."""
        self._moment, self._fault = "connect", "pause"
        for one in self._full:
            one.close()
        if self._server is None:
            assert self._taken is not None
            self._server = await asyncio.start_server(self._accept, sock=self._taken)

    async def settled(self) -> None:
        """What was still under way has ended."""
        await asyncio.gather(*self._work, return_exceptions=True)

    def _shut(self) -> None:
        """A port that refuses; for those that wait, one whose queue is full, so that nobody answers at all."""
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        self.port = taken.getsockname()[1]
        self.record.struck = True
        self._taken = taken
        if self._fault in PATIENT:
            taken.listen(0)
            for _ in range(2):
                waiting = socket.socket()
                waiting.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    waiting.connect(("127.0.0.1", self.port))
                self._full.append(waiting)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        self._work.add(own)
        moment, self._moment = self._moment, "connect"
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._to)
            if moment == "connect":
                await self._pump(reader, writer, far_reader, far)
            elif moment in ("hello", "handshake"):
                await self._secret(moment, reader, writer, far_reader, far)
            else:
                await self._plain(moment, reader, writer, far_reader, far)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, TimeoutError):
            pass
        finally:
            for each in (writer, far):
                if each is not None:
                    each.close()
            self._work.discard(own)

    async def _pump(self, reader: Any, writer: Any, far_reader: Any, far: Any) -> None:
        async def one_way(source: Any, sink: Any) -> None:
            while piece := await source.read(65_536):
                sink.write(piece)
                await sink.drain()
            sink.write_eof() if sink.can_write_eof() else None

        ways = [asyncio.ensure_future(one_way(reader, far)), asyncio.ensure_future(one_way(far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _secret(self, moment: Moment, reader: Any, writer: Any, far_reader: Any, far: Any) -> None:
        """A line whose bytes cannot be read: it breaks before it stands."""
        hello = await reader.read(65_536)
        rest = b""
        if moment == "handshake":
            far.write(hello)
            hello, rest = b"", await far_reader.read(65_536)
            writer.write(rest[: len(rest) // 2])
            await writer.drain()
            rest = rest[len(rest) // 2 :]
        self.record.struck = True
        if self._fault == "pause":
            await asyncio.sleep(REST)
            far.write(hello)
            writer.write(rest)
            await self._pump(reader, writer, far_reader, far)
        elif self._fault == "drip":
            await self._strike(reader, writer, None, b"", rest or b"\x16\x03\x03", far_reader)
        else:
            await self._strike(reader, writer, None, hello, rest, far_reader)

    async def _plain(self, moment: Moment, reader: Any, writer: Any, far_reader: Any, far: Any) -> None:
        request = await read_message(reader)
        self.record.seen += len(request)
        head = request.index(b"\r\n\r\n")
        passed = {"first": 1, "head": head // 2, "body": len(request) - 1}.get(moment, len(request))
        far.write(request[:passed])
        answer = b""
        if moment in ("answer", "last"):
            answer = await read_message(far_reader)
        if moment == "last":
            writer.write(answer[:-1])
            await writer.drain()
            answer = answer[-1:]
        self.record.struck = True
        await self._strike(reader, writer, far, request[passed:], answer, far_reader)

    async def _strike(self, reader: Any, writer: Any, far: Any, up: bytes, down: bytes, far_reader: Any) -> None:
        """`up` is what the service has not got yet, `down` what the client has not; `far` is None where nothing of it
        may reach the service."""
        fault = self._fault
        if fault == "reset":
            reset(writer)
        elif fault == "silence":
            await gone(reader)
        elif fault == "drip":
            drips = asyncio.ensure_future(self._drip(writer, far, up, down))
            await gone(reader)
            drips.cancel()
            await asyncio.gather(drips, return_exceptions=True)
        elif fault in ("garbage", "gateway", "unavailable"):
            said = {"garbage": GARBAGE, "gateway": GATEWAY, "unavailable": UNAVAILABLE}
            writer.write(said[fault])
            await writer.drain()
            await asyncio.sleep(REST)
        elif fault == "half":
            writer.write_eof()
            await self._finished(far, up, down, far_reader)
            await gone(reader)
        elif fault == "late":
            await gone(reader)
            await self._finished(far, up, down, far_reader)
        elif fault == "deaf":
            await self._finished(far, up, down, far_reader)
            await gone(reader)
        elif fault == "after":
            await self._finished(far, up, down, far_reader)
            reset(writer)
        elif fault == "pause":
            await asyncio.sleep(REST)
            writer.write(await self._finished(far, up, down, far_reader))
            await writer.drain()
            self.record.delivered = True
            await gone(reader)

    async def _finished(self, far: Any, up: bytes, down: bytes, far_reader: Any) -> bytes:
        """The service gets what it lacks; what it answers."""
        if far is None:
            return b""
        far.write(up)
        await far.drain()
        return down or await read_message(far_reader)

    async def _drip(self, writer: Any, far: Any, up: bytes, down: bytes) -> None:
        for sink, bytes_left in ((far, up), (writer, down or b"HTTP/1.1 200")):
            for byte in bytes_left if sink is not None else b"":
                await asyncio.sleep(1)
                sink.write(bytes([byte]))
