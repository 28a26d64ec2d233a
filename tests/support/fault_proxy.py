"""A proxy before an HTTP server that loses, holds or refuses chosen requests, so that the same error of the client stands
for "done" and for "not done"."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from typing import Any, Literal, Self

Fault = Literal["refused", "unavailable", "limited", "denied", "slow", "late", "lost"]
"""refused: the line is closed before the server sees anything. unavailable: 503 with Retry-After, the server sees
nothing. limited: 429 the same. denied: 403 the same. slow: the server gets it only when the client has gone, that is never. late: done, and
answered after `LATE`. lost: done, and the line is reset instead of the answer."""

LATE = 30.0
"""Seconds, longer than any call here may take."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_KEY = re.compile(rb"\r\nidempotency-key: *([^\r]+)", re.IGNORECASE)
_OTHER = b'{"error": {"type": "idempotency_error", "message": "Keys can only be used with the same parameters"}}'
_OTHER_BODY = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_OTHER) + _OTHER
)
_SAID = b"HTTP/1.1 %s\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_SAYS = {
    "unavailable": _SAID % b"503 Service Unavailable",
    "limited": _SAID % b"429 Too Many Requests",
    "denied": _SAID % b"403 Forbidden",
}


class FaultProxy:
    """Listens on a free port, passes requests on to `127.0.0.1:to`, each on a connection of its own.

    With `keeps_keys` it EMULATES a service that knows Idempotency-Key again, for one that does not: the first answer to a
    key is kept, and given to whoever comes with this key; another body under it is refused.
    """

    def __init__(self, to: int, *, keeps_keys: bool = False) -> None:
        self._to = to
        self._keeps_keys = keeps_keys
        self._kept: dict[bytes, tuple[bytes, bytes]] = {}
        self._plans: list[tuple[bytes, list[Fault]]] = []
        self._open: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.seen: list[tuple[bytes, str]] = []
        """Every request that came whole, with what was done to it, oldest first."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def plan(self, match: str, *faults: Fault) -> None:
        """What becomes of the next requests that hold this text; then all is well again. The last plan counts first."""
        self._plans.insert(0, (match.encode(), list(faults)))

    def clear(self) -> None:
        """Forgets every plan and what was seen."""
        self._plans, self.seen = [], []

    def count(self, match: str) -> int:
        """How many requests with this text came."""
        return sum(match.encode() in request for request, _ in self.seen)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 22)
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
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._open.discard(own)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = _LENGTH.search(head)
        request = head + (await reader.readexactly(int(size[1])) if size else b"")
        fault = self._fault_for(request)
        self.seen.append((request, fault))
        if fault in _SAYS:
            writer.write(_SAYS[fault])
        if fault in ("refused", *_SAYS):
            return
        if fault == "slow":
            await reader.read()
            return
        line, rest = request.split(b"\r\n", 1)
        sent = b"\r\n".join(
            (line, b"Connection: close", re.sub(rb"(?i)^connection:[^\r]*\r\n", b"", rest, flags=re.MULTILINE))
        )
        answer = await self._pass_on(sent)
        if fault == "late":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), LATE)
        if fault in ("late", "lost"):
            _reset(writer)
            return
        writer.write(answer)
        await writer.drain()

    def _fault_for(self, request: bytes) -> str:
        for match, faults in self._plans:
            if match in request and faults:
                return faults.pop(0)
        return ""

    async def _pass_on(self, request: bytes) -> bytes:
        key, body = _KEY.search(request), request.partition(b"\r\n\r\n")[2]
        if not self._keeps_keys or key is None:
            return await self._asked(request)
        known = self._kept.get(key[1])
        if known is None:
            known = self._kept[key[1]] = (body, await self._asked(request))
        return known[1] if known[0] == body else _OTHER_BODY

    async def _asked(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
