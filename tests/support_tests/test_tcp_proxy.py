"""The proxy breaks lines as told: in front of a real service, and the service's ledger says what came through."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.http_service import HttpService
from tests.support.tcp_proxy import Break, TcpProxy

BODY = b'{"n": 1}'
REQUEST = b"POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n" + BODY


async def ask(port: int, limit: float = 1.0) -> bytes:
    """One raw request; everything that came back before the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        said = b""
        async with asyncio.timeout(limit):
            while not said.endswith(b"}"):
                piece = await reader.read(4096)
                if not piece:
                    return said
                said += piece
        return said
    finally:
        writer.close()


async def test_it_passes_everything_on_when_nothing_is_told() -> None:
    async with HttpService() as service, TcpProxy(service.port) as proxy:
        assert (await ask(proxy.port)).startswith(b"HTTP/1.1 201")
        assert proxy.passed["up"] == len(REQUEST)


async def test_a_reset_on_the_way_up_leaves_nothing_done() -> None:
    async with HttpService() as service, TcpProxy(service.port, Break(kind="reset", way="up", after=20)) as proxy:
        with pytest.raises(ConnectionResetError):
            await ask(proxy.port)
        assert (service.bytes_in <= 20, service.world.effects) == (True, [])
        assert (await ask(proxy.port)).startswith(b"HTTP/1.1 201"), "the break is used up"


async def test_a_reset_on_the_way_down_hides_what_was_done() -> None:
    async with HttpService() as service, TcpProxy(service.port, Break(kind="reset", after=10)) as proxy:
        with pytest.raises(ConnectionResetError):
            await ask(proxy.port)
        assert len(service.world.effects) == 1


async def test_a_half_open_line_says_nothing_and_stays() -> None:
    async with HttpService() as service, TcpProxy(service.port, always=Break(kind="silence", after=0)) as proxy:
        with pytest.raises(TimeoutError):
            await ask(proxy.port, limit=0.3)
        assert (len(service.world.effects), proxy.passed["down"]) == (1, 0)


async def test_a_plain_end_cuts_the_answer() -> None:
    async with HttpService() as service, TcpProxy(service.port, Break(kind="close", after=12)) as proxy:
        assert await ask(proxy.port) == b"HTTP/1.1 201"
        assert len(service.world.effects) == 1


async def test_a_slow_line_is_slow() -> None:
    async with HttpService() as service, TcpProxy(service.port, always=Break(delay=100)) as proxy:
        began = time.monotonic()
        assert (await ask(proxy.port, limit=3)).startswith(b"HTTP/1.1 201")
        assert time.monotonic() - began >= 0.2


async def test_nobody_behind_it_ends_the_line() -> None:
    async with HttpService() as service:
        gone = service.port
    async with TcpProxy(gone) as proxy:
        assert await ask(proxy.port) == b""
