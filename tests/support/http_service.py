"""A scripted HTTP service for tests: remembers keys, keeps a true ledger, fails as told. One raw asyncio protocol.

In the test's own loop:      async with HttpService() as service: …
For a test without a loop:   with running_http() as service: …
In a process of its own:     python -m tests.support.http_service --port 0      (then HttpProcess, or by hand
                             POST /_script, GET /_ledger)

`service.script("POST /payments", DROP_AFTER)` makes the next matching request go wrong and the ones after it usual
again; several say what the first, second … are told; `always=` what all further ones are told. What is told stands in
`says`, what the service does by itself in `world`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

from runner.demo.processes import announce, wait_for_end
from tests.support.says import AS_USUAL, Say, dumped, rendered
from tests.support.world import Seen, Told, World

LINGER_NONE = struct.pack("ii", 1, 0)


class Script:
    """What is told to the requests that match `match` (`POST /payments`, `* /tasks/*`)."""

    def __init__(self, match: str, says: tuple[Say, ...], always: Say | None) -> None:
        self.match = match
        self.queue = deque(says)
        self.always = always

    def take(self, line: str) -> Say | None:
        """The next thing to say to this request, or None where the script does not speak of it any more."""
        if not fnmatchcase(line, self.match):
            return None
        return self.queue.popleft() if self.queue else self.always


class HttpService:
    """The service. `requests` holds every request that arrived whole, `world.effects` what truly happened.

    `keep_requests` False keeps only the count (`request_count`), for measuring. `most_busy` is how many requests waited
    for their (late) answers at once.
    """

    def __init__(self, *, port: int = 0, keeps_keys: bool = True, keep_requests: bool = True) -> None:
        self.world = World(keeps_keys=keeps_keys)
        self.requests: list[Seen] = []
        self.request_count = 0
        self.connection_count = 0
        self.bytes_in = 0
        self.busy = self.most_busy = 0
        self.port = port
        self.connections: set[Connection] = set()
        self.doors_to_shut = 0
        self.held: list[Callable[[], None]] = []
        self._keep_requests = keep_requests
        self._scripts: list[Script] = []
        self._server: asyncio.Server | None = None

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens on 127.0.0.1; port 0 becomes a free one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", self.port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes the door and every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    def script(self, match: str, *says: Say, always: Say | None = None) -> None:
        """Tells the next matching requests what `says` says, in order; `always` answers all that come after."""
        self._scripts.append(Script(match, says, always))

    def release(self) -> None:
        """Lets the answers go that were held (`HELD`), and forgets what was still to be told."""
        self._scripts = []
        self.let_go()

    def let_go(self, many: int | None = None) -> None:
        """Lets so many of the answers go that are held, the oldest first; what is still to be told stays."""
        now = self.held[:many]
        del self.held[:many]
        for answer in now:
            answer()

    def shut_door(self, times: int = 1) -> None:
        """Closes the next `times` connections as soon as they are made: not one byte of a request is read."""
        self.doors_to_shut = times

    def reset(self) -> None:
        """Forgets records, effects, requests and scripts."""
        self.world = World(keeps_keys=self.world.keeps_keys)
        self.requests, self._scripts, self.request_count = [], [], 0

    def say_to(self, seen: Seen) -> Say:
        """What the scripts tell this request; the oldest script that still speaks wins."""
        line = f"{seen.method} {seen.path}"
        for script in self._scripts:
            said = script.take(line)
            if said is not None:
                if not script.queue and script.always is None:
                    self._scripts.remove(script)
                return said
        return AS_USUAL

    def note(self, seen: Seen) -> None:
        self.request_count += 1
        if self._keep_requests:
            self.requests.append(seen)

    def ledger(self) -> dict[str, Any]:
        """What truly happened, as JSON: effects in order, effects by key, and how many requests were seen."""
        return {
            "effects": [asdict(effect) for effect in self.world.effects],
            "by_key": dict(self.world.by_key()),
            "requests": self.request_count,
            "connections": self.connection_count,
        }

    def control(self, seen: Seen) -> Told:
        """The paths beginning with `/_`: `/_ledger`, `/_requests`, `/_script`, `/_reset`."""
        if seen.path == "/_ledger":
            return 200, self.ledger()
        if seen.path == "/_requests":
            return 200, [asdict(each) | {"body": each.body.decode("utf-8", "replace")} for each in self.requests]
        if seen.path == "/_reset":
            self.reset()
            return 200, {}
        told = seen.json
        if seen.path != "/_script" or not isinstance(told, dict):
            return 404, {"message": f"there is nothing at {seen.path}"}
        says = [Say.of_json(fields) for fields in told.get("says", [])]
        self.script(told["match"], *says, always=Say.of_json(told["always"]) if told.get("always") else None)
        return 200, {}


class Connection(asyncio.Protocol):
    """One connection: requests one after the other, each told what the service's scripts say."""

    def __init__(self, service: HttpService) -> None:
        self._service = service
        self._buffer = b""
        self._is_busy = False
        self._number = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._service.connection_count += 1
        self._number = self._service.connection_count
        self._service.connections.add(self)
        if self._service.doors_to_shut > 0:
            self._service.doors_to_shut -= 1
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._service.bytes_in += len(data)
        self._buffer += data
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        """Serves the requests that are complete in the buffer."""
        while not self._is_busy and not self.transport.is_closing():
            seen = self._cut_request()
            if seen is None:
                return
            self._serve(seen)

    def _cut_request(self) -> Seen | None:
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return None
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        whole = _chunked(rest) if headers.get("transfer-encoding", "").lower() == "chunked" else _sized(headers, rest)
        if whole is None:
            return None
        body, self._buffer = whole
        method, target, _ = lines[0].split(" ", 2)
        path, _, query = target.partition("?")
        return Seen(
            n=self._service.request_count + 1,
            at=time.time_ns() // 1_000_000,
            connection=self._number,
            method=method,
            path=unquote(path),
            query=dict(parse_qsl(query, keep_blank_values=True)) if query else {},
            headers=headers,
            body=body,
        )

    def _serve(self, seen: Seen) -> None:
        if seen.path.startswith("/_"):
            status, value = self._service.control(seen)
            self.transport.write(rendered(status, dumped(value), {}))
            return
        self._service.note(seen)
        say = self._service.say_to(seen)
        if say.cut == "before":
            self.transport.close()
            return
        status, value = self._service.world.serve(seen) if say.done else (200, {})
        body = say.raw if say.raw is not None else dumped(value if say.json is None else say.json)
        answer = rendered(say.status or status, body, say.headers)
        if say is AS_USUAL:
            self.transport.write(answer)
            return
        self._is_busy = True
        self._service.busy += 1
        self._service.most_busy = max(self._service.busy, self._service.most_busy)
        if say.delay < 0:
            self._service.held.append(partial(self._answer, say, answer, len(body)))
            return
        asyncio.get_running_loop().call_later(say.delay / 1000, self._answer, say, answer, len(body))

    def _answer(self, say: Say, answer: bytes, size: int) -> None:
        self._service.busy -= 1
        if say.cut == "reset":
            wire = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            self.transport.abort()
        elif say.cut == "after":
            self.transport.close()
        elif say.cut == "half":
            self.transport.write(answer[: len(answer) - max(1, size // 2)])
            self.transport.close()
        elif say.pause and size:
            head = len(answer) - size
            self.transport.write(answer[:head])
            self._drip(answer[head:], say.pause)
        else:
            self.transport.write(answer)
            self._go_on()

    def _drip(self, left: bytes, pause: int) -> None:
        if self.transport.is_closing() or not left:
            self._go_on()
            return
        self.transport.write(left[:1])
        asyncio.get_running_loop().call_later(pause / 1000, self._drip, left[1:], pause)

    def _go_on(self) -> None:
        self._is_busy = False
        self._next()


def _sized(headers: dict[str, str], rest: bytes) -> tuple[bytes, bytes] | None:
    size = int(headers.get("content-length", "0"))
    return (rest[:size], rest[size:]) if len(rest) >= size else None


def _chunked(rest: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        line, found, rest = rest.partition(b"\r\n")
        if not found:
            return None
        size = int(line.split(b";")[0], 16)
        if len(rest) < size + 2:
            return None
        body, rest = body + rest[:size], rest[size + 2 :]
        if size == 0:
            return body, rest


@contextlib.contextmanager
def running_http(*, keeps_keys: bool = True, keep_requests: bool = True) -> Iterator[HttpService]:
    """The service in a thread with a loop of its own, for tests that have none."""
    service = HttpService(keeps_keys=keeps_keys, keep_requests=keep_requests)
    with running_loop() as loop:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result(10)
        try:
            yield service
        finally:
            asyncio.run_coroutine_threadsafe(service.stop(), loop).result(10)


@contextlib.contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread; nothing is left of it afterwards."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="support")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def serve(port: int, keeps_keys: bool, keep_requests: bool) -> None:
    """Runs the service until this process is told to stop, or its parent is gone."""
    async with HttpService(port=port, keeps_keys=keeps_keys, keep_requests=keep_requests) as service:
        announce(str(service.port))
        await wait_for_end(until_stdin_closes=True)


def main() -> None:
    """The command line of this process."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.http_service")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ignores-keys", action="store_true", help="the same key twice is two effects")
    parser.add_argument("--counts-only", action="store_true", help="do not keep each request")
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.port, not chosen.ignores_keys, not chosen.counts_only))


if __name__ == "__main__":
    main()
