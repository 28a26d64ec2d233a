"""A scripted HTTP service on raw sockets: it can do to an answer what real networks do, and it keeps count.

Each request is answered by the next script of its path, or by the path's last one. A script gets the request and the
writer; helpers below make the usual ones.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Got:
    """One request as it came. `connection` numbers the connections from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[Got, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class HttpServer:
    """What the service has seen, and what it is going to say."""

    port: int = 0
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    bytes_seen: int = 0
    scripts: dict[str, list[Script]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def on(self, path: str, *scripts: Script) -> None:
        """What a path answers: one script after the other, the last one for ever."""
        self.scripts[path] = list(scripts)

    def at(self, path: str) -> list[Got]:
        return [one for one in self.got if one.path == path]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        current = asyncio.current_task()
        assert current is not None
        self._tasks.add(current)
        try:
            while (got := await self._read(reader, number)) is not None:
                self.got.append(got)
                line = self.scripts.get(got.path) or self.scripts.get("*") or [answer(404, {"message": "no such path"})]
                script = line.pop(0) if len(line) > 1 else line[0]
                await script(got, writer)
                if writer.is_closing() or got.headers.get("connection", "").lower() == "close":
                    break
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(current)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, number: int) -> Got | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self.bytes_seen += len(head)
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.bytes_seen += len(body)
        return Got(method=method, target=target, headers=headers, body=body, connection=number)


@asynccontextmanager
async def http_server(ssl: Any = None) -> AsyncIterator[HttpServer]:
    """A running service; everything of it is gone at the end."""
    made = HttpServer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=ssl)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for running in list(made._tasks):
            running.cancel()
        await asyncio.gather(*made._tasks, return_exceptions=True)


def message(status: int, body: bytes, headers: dict[str, str] | None = None, kind: str = "application/json") -> bytes:
    """An answer's bytes."""
    said = {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items() if value)
    return f"HTTP/1.1 {status} Because\r\n{lines}\r\n".encode("latin-1") + body


def answer(status: int, content: Any = None, **headers: str) -> Script:
    """A plain JSON answer (None: no body)."""
    body = b"" if content is None else json.dumps(content).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw(message(status, body, named, "application/json" if body else ""))


def raw(data: bytes) -> Script:
    """Exactly these bytes."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return script


def html(status: int, text: str = "<html><body><h1>Please sign in</h1></body></html>") -> Script:
    return raw(message(status, text.encode(), kind="text/html; charset=utf-8"))


def late(seconds: float, then: Script) -> Script:
    """Answers after a while."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        await then(got, writer)

    return script


def drop(after: bytes = b"") -> Script:
    """Writes a few bytes and closes."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(after)
        writer.close()

    return script


def reset(after: bytes = b"") -> Script:
    """Writes a few bytes and resets the connection."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(after)
        await writer.drain()
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return script


def drip(pause: float = 0.05) -> Script:
    """One byte at a time, for ever."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(pause)

    return script


def gzip_bomb(megabytes: int) -> Script:
    """A small compressed body that becomes a large one."""
    packed = gzip.compress(b"0" * (megabytes * 1_000_000), 9)
    return raw(message(200, packed, {"Content-Encoding": "gzip"}))


def redirect(status: int, to: str) -> Script:
    return answer(status, None, Location=to)
