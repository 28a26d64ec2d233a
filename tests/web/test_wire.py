"""What may come over the wire: each attack on the parser is tried on a real port, and what is bounded stays so."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from runner.web.wire import LONGEST_HEAD, MOST_BEHIND, Wire

HEAD = b"POST /a HTTP/1.1\r\nHost: x\r\n"
WHOLE = HEAD + b"Content-Length: 2\r\n\r\nhi"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LIMIT = 20.0


class Quick(Wire):
    """With little patience."""

    within = 0.3


class Seen:
    """What the application was asked, and what it has read of each body; `None` where that broke off."""

    def __init__(self) -> None:
        self.heads: list[dict[bytes, bytes]] = []
        self.bodies: list[bytes | None] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.heads.append(dict(scope["headers"]))
        try:
            self.bodies.append(await Request(scope, receive).body())
        except ClientDisconnect:
            self.bodies.append(None)
        await self.may_answer.wait()
        await PlainTextResponse(f"answer {len(self.bodies)}")(scope, receive, send)


@contextlib.asynccontextmanager
async def listening(wire: type[Wire] = Wire) -> AsyncIterator[tuple[Seen, int]]:
    seen = Seen()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = uvicorn.Config(
            seen,
            log_config=None,
            lifespan="off",
            http=wire,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=LONGEST_HEAD,
        )
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        running = asyncio.create_task(server.serve(sockets=[taken]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield seen, taken.getsockname()[1]
        finally:
            server.should_exit = True
            await running


async def answers(port: int, pieces: Iterable[bytes], pause: float = 0.0) -> bytes:
    """All that is answered until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
            if reader.at_eof():
                break
    said = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(LIMIT):
            said = await reader.read()
    writer.close()
    return said


ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "a header line": (HEAD + b"X-Long: ", b"a" * 1_000),
    "a header's name": (HEAD + b"X-", b"a" * 1_000),
    "an address": (b"GET /", b"a" * 1_000),
    "many headers": (HEAD, b"X-One: 1\r\n" * 100),
    "what stands behind a chunk's size": (CHUNKED + b"2;", b"a" * 1_000),
    "what follows a body": (CHUNKED + b"2\r\nhi\r\n0\r\n", b"X-One: 1\r\n" * 100),
    "folded lines": (HEAD + b"X-Long: a\r\n", b" b\r\n" * 200),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_what_does_not_end_is_refused(what: str) -> None:
    begun, more = ENDLESS[what]
    async with listening() as (seen, port):
        said = await answers(port, [begun, *[more] * 400], pause=0.0002)
        assert said.startswith(b"HTTP/1.1 400 ") or not said, said
        assert said.count(b"HTTP/1.1 ") <= 1
        assert seen.bodies in ([], [None]), "nothing whole has come"
        assert b"answer" not in said


async def test_a_head_that_comes_at_once_has_the_same_bound() -> None:
    fits, not_any_more = (b"X: " + b"a" * size + b"\r\n" for size in (LONGEST_HEAD - 200, LONGEST_HEAD))
    last = b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    async with listening() as (seen, port):
        assert (await answers(port, [HEAD + fits + last])).startswith(b"HTTP/1.1 200 ")
        assert (await answers(port, [HEAD + not_any_more + last])).startswith(b"HTTP/1.1 400 ")
        assert (await answers(port, [HEAD + b"X: 1\r\n" * 20_000 + last])).startswith(b"HTTP/1.1 400 ")
        assert len(seen.bodies) == 1


async def test_a_body_is_no_head() -> None:
    """However large, and in however small pieces."""
    large = b"a" * LONGEST_HEAD * 5
    small = b"".join(b"1\r\na\r\n" for _ in range(LONGEST_HEAD))
    async with listening() as (seen, port):
        plain = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(large)
        assert (await answers(port, [plain, large])).startswith(b"HTTP/1.1 200 ")
        chunked = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await answers(port, [chunked, small, b"0\r\n\r\n"])).startswith(b"HTTP/1.1 200 ")
        assert seen.bodies == [large, b"a" * LONGEST_HEAD]


TWOFOLD = {
    "both lengths": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, the other way round": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "an unknown coding": b"Transfer-Encoding: gzip\r\n\r\nhello",
    "chunked is not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "a coding with a tab": b"Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\nhello",
    "a signed length": b"Content-Length: +5\r\n\r\nhello",
    "a length in base 16": b"Content-Length: 0x5\r\n\r\nhello",
    "a list of lengths": b"Content-Length: 5, 6\r\n\r\nhello",
    "an underlined length": b"Content-Length: 1_0\r\n\r\nhellohello",
    "a huge length": b"Content-Length: 99999999999999999999999\r\n\r\nhello",
    "a bare line end": b"Content-Length: 5\n\nhello",
    "a bare return": b"X: a\rContent-Length: 5\r\n\r\nhello",
    "a zero byte": b"X: a\x00b\r\nContent-Length: 5\r\n\r\nhello",
    "a chunk's size with a sign": b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "a chunk's size in other words": b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "a chunk that is longer than it says": b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
    "a chunk that ends with a bare line end": b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
    "a second host": b"Host: y\r\nContent-Length: 5\r\n\r\nhello",
}
"""Requests of which two readers could think that they end at different places, or go to different ones."""


@pytest.mark.parametrize("what", TWOFOLD)
async def test_nothing_is_smuggled_in(what: str) -> None:
    """It is refused, and nothing behind it is read as a request of its own."""
    async with listening() as (seen, port):
        said = await answers(port, [HEAD + TWOFOLD[what] + b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n"])
        assert said.startswith(b"HTTP/1.1 400 "), said
        assert said.count(b"HTTP/1.1 ") == 1, said
        assert seen.bodies in ([], [None])


async def test_what_stands_behind_a_body_is_no_header() -> None:
    """A proxy before us takes away what others may not say; it has not seen this."""
    behind = b"2\r\nhi\r\n0\r\nAuthorization: Bearer stolen\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n"
    async with listening() as (seen, port):
        asked = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + behind
        assert (await answers(port, [asked])).startswith(b"HTTP/1.1 200 ")
        [head] = seen.heads
        assert set(head) == {b"host", b"connection", b"transfer-encoding"}


async def test_requests_that_come_together_are_answered_in_order() -> None:
    async with listening() as (seen, port):
        said = await answers(port, [WHOLE * 3 + HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n"])
        assert [said.index(b"answer %d" % number) for number in (1, 2, 3, 4)] == sorted(
            said.index(b"answer %d" % number) for number in (1, 2, 3, 4)
        )
        assert seen.bodies == [b"hi", b"hi", b"hi", b""]


@pytest.mark.parametrize("behind", [b"NONSENSE\r\n\r\n", WHOLE * (MOST_BEHIND * 10)])
async def test_a_whole_request_has_its_own_answer_whatever_comes_behind_it(behind: bytes) -> None:
    async with listening() as (seen, port):
        seen.may_answer.clear()
        asked = asyncio.create_task(answers(port, [WHOLE, behind]))
        while not seen.bodies:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        seen.may_answer.set()
        said = await asked
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.count(b"HTTP/1.1 ") == 1, said
        assert seen.bodies == [b"hi"]


async def test_bytes_that_come_slowly_hold_up_nobody_and_have_their_time() -> None:
    slow = [HEAD[at : at + 1] for at in range(len(HEAD))]
    async with listening(Quick) as (seen, port):
        lines = [asyncio.create_task(answers(port, slow, pause=0.05)) for _ in range(20)]
        await asyncio.sleep(0.1)
        asked = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi"
        assert (await answers(port, [asked])).startswith(b"HTTP/1.1 200 ")
        assert await asyncio.gather(*lines) == [b""] * 20
        in_time = [asked[:10], asked[10:30], asked[30:]]
        assert (await answers(port, in_time, pause=0.02)).startswith(b"HTTP/1.1 200 ")
        assert seen.bodies == [b"hi", b"hi"]


@pytest.mark.parametrize(
    "length", [b"Content-Length: 2\r\n\r\nhi", b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
)
async def test_who_asks_for_another_protocol_is_answered_in_this_one(length: bytes) -> None:
    """With its body, however it comes; Java's client asks for h2c with each first request."""
    asked = HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + length
    async with listening() as (seen, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for pieces in ([asked], [asked[:-12], asked[-12:-1], asked[-1:]], [WHOLE]):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.05)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT)
            assert head.startswith(b"HTTP/1.1 200 ")
            await reader.readexactly(len(b"answer 1"))
        writer.close()
        assert seen.bodies == [b"hi", b"hi", b"hi"]


async def test_the_body_of_such_a_request_is_no_request() -> None:
    inner = b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n"
    words = b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: %d\r\n\r\n" % len(inner)
    async with listening() as (seen, port):
        last = HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n"
        said = await answers(port, [HEAD + words, inner, last], pause=0.1)
        assert said.count(b"HTTP/1.1 200 ") == 2
        assert seen.bodies == [inner, b""]


async def test_whoever_asks_for_it_has_the_same_bounds() -> None:
    begun = HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n2;"
    async with listening() as (_seen, port):
        said = await answers(port, [begun, *[b"a" * 1_000] * 400], pause=0.0002)
        assert said.startswith(b"HTTP/1.1 400 ") or not said, said
        assert b"answer" not in said
