"""A TCP proxy for tests that breaks lines: resets after so many bytes, goes silent, or is slow."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import Any, Literal, Self

Way = Literal["up", "down"]
"""up: from the client to the service. down: the other way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Break:
    """What happens to one connection. `after` counts bytes in direction `way` that still pass.

    `reset` sends RST to the client; `silence` passes nothing more and keeps the line open (half-open); `close` is a
    plain end. `delay` is ms before each piece is passed on.
    """

    kind: Literal["none", "reset", "silence", "close"] = "none"
    way: Way = "down"
    after: int = 0
    delay: int = 0


class TcpProxy:
    """Listens on a free port and passes bytes to `127.0.0.1:to`. `breaks` are used up one for each connection."""

    def __init__(self, to: int, *breaks: Break, always: Break | None = None) -> None:
        self._to = to
        self._always = always or Break()
        self._breaks = list(breaks)
        self._open: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.passed: dict[Way, int] = {"up": 0, "down": 0}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()
        for piece in list(self._open):
            piece.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        self._open.add(own)
        ends = self._breaks.pop(0) if self._breaks else self._always
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._to)
            ways = (self._pass_on("up", reader, far, ends), self._pass_on("down", far_reader, writer, ends))
            passing = {asyncio.ensure_future(way) for way in ways}
            try:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in passing:
                    way.cancel()
                await asyncio.gather(*passing, return_exceptions=True)
            if ends.kind == "reset":
                _reset(writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, far):
                if each is not None:
                    each.close()
            self._open.discard(own)

    async def _pass_on(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: Break) -> None:
        left = ends.after if ends.kind != "none" and ends.way == way else None
        while left is None or left > 0:
            piece = await reader.read(65_536 if left is None else left)
            if not piece:
                return
            await asyncio.sleep(ends.delay / 1000)
            writer.write(piece)
            await writer.drain()
            self.passed[way] += len(piece)
            left = None if left is None else left - len(piece)
        if ends.kind == "silence":
            while await reader.read(65_536):
                pass


def _reset(writer: asyncio.StreamWriter) -> None:
    wire = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
