"""The client policy against a scripted server: what has no answer, whether a byte may have left, and what is never done."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from pathlib import Path

import pytest

from connectors.client import Client
from connectors.wire import DEFAULT_HEADERS, MAX_BODY, Answer, Wire
from runner.contract import Outcome
from runner.guard import Guard
from tests.connectors.httpserver import (
    HttpServer,
    answer,
    drip,
    drop,
    gzip_bomb,
    http_server,
    late,
    message,
    raw,
    redirect,
    reset,
)
from tests.connectors.mailserver import certificate
from tests.connectors.test_guard import answers


def wire(server: HttpServer, path: str = "/x", method: str = "POST", body: bytes = b"{}") -> Wire:
    return Wire(method=method, url=server.origin + path, headers=DEFAULT_HEADERS, body=body)


def client(max_body: int = MAX_BODY) -> Client:
    return Client(guard=Guard(allow_private=True), max_body=max_body)


async def test_a_complete_answer() -> None:
    async with http_server() as server:
        server.on("/x", raw(message(201, b'{"a": 1}', {"X-One": "1", "x-one": "2"})))
        mine = client()
        found = await mine.exchange(wire(server), limit=2_000)
        await mine.close()
    assert isinstance(found, Answer)
    assert (found.status, found.body, found.headers["x-one"]) == (201, b'{"a": 1}', "1, 2")
    sent = server.got[0].headers
    assert sent["user-agent"] == "Amends"
    assert sent["accept-encoding"] == "gzip"
    assert "cookie" not in sent


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (drop(), "connection"),
        (drop(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), "connection"),
        (reset(), "connection"),
        (reset(b"HTTP/1.1 20"), "connection"),
        (raw(b"this is not HTTP\r\n\r\n"), "connection"),
        (late(5, answer(200)), "timeout"),
        (raw(message(200, b"xx", {"Content-Encoding": "br"})), "unreadable"),
        (raw(message(200, b"not gzip", {"Content-Encoding": "gzip"})), "unreadable"),
        (raw(message(200, gzip.compress(b"{}" * 500)[:20], {"Content-Encoding": "gzip"})), "unreadable"),
    ],
)
async def test_after_the_request_left_nothing_is_known(script: object, reason: str) -> None:
    async with http_server() as server:
        server.on("/x", script)  # type: ignore[arg-type]
        mine = client()
        found = await mine.exchange(wire(server), limit=400)
        await mine.close()
        assert len(server.got) == 1
    assert isinstance(found, Outcome)
    assert (found.result, found.reason) == ("unknown", reason)


async def test_before_the_connection_stands_nothing_was_sent() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    mine = client()
    found = await mine.exchange(Wire(method="POST", url=f"http://127.0.0.1:{port}/", headers={}), limit=2_000)
    assert found == Outcome(result="not_sent", reason="connection", summary=f"127.0.0.1:{port} cannot be connected to")

    async def speaks_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(speaks_plainly, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        found = await mine.exchange(Wire(method="POST", url=url, headers={}), limit=2_000)
        assert isinstance(found, Outcome)
        assert (found.result, found.reason) == ("not_sent", "connection")
        assert "encrypted" in found.summary
    await mine.close()


async def test_a_handshake_that_never_ends_sent_nothing() -> None:
    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(listens, "127.0.0.1", 0) as silent:
        url = f"https://127.0.0.1:{silent.sockets[0].getsockname()[1]}/"
        mine = client()
        found = await mine.exchange(Wire(method="POST", url=url, headers={}), limit=300)
        await mine.close()
        await asyncio.sleep(0.02)
    assert isinstance(found, Outcome)
    assert (found.result, found.reason) == ("not_sent", "timeout")


async def test_a_name_without_an_address_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", none)
    mine = client()
    found = await mine.exchange(Wire(method="POST", url="http://nowhere.test/", headers={}), limit=2_000)
    await mine.close()
    assert found == Outcome(result="not_sent", reason="connection", summary="the name nowhere.test has no address")


async def test_a_stale_kept_connection_is_unknown_and_nothing_is_repeated() -> None:
    """PUT and DELETE too, which the HTTP library would send again by itself."""
    for method in ("POST", "PUT", "DELETE"):
        async with http_server() as server:
            server.on("/x", answer(200, {}), drop(), answer(200, {}))
            mine = client()
            assert isinstance(await mine.exchange(wire(server, method=method), limit=2_000), Answer)
            found = await mine.exchange(wire(server, method=method), limit=2_000)
            assert isinstance(found, Outcome)
            assert found.result == "unknown", method
            assert len(server.got) == 2, method
            await mine.close()


async def test_connections_are_kept_unless_a_fresh_one_is_wanted() -> None:
    async with http_server() as server:
        server.on("/x", answer(200, {}))
        mine = client()
        for _ in range(3):
            await mine.exchange(wire(server), limit=2_000)
        assert server.connections == 1
        for _ in range(3):
            await mine.exchange(wire(server), limit=2_000, fresh=True)
        assert server.connections == 4
        assert server.got[-1].headers["connection"] == "close"
        await mine.close()


async def test_the_limit_is_for_everything() -> None:
    async with http_server() as server:
        server.on("/x", drip())
        mine = client()
        begin = time.monotonic()
        found = await mine.exchange(wire(server), limit=300)
        took = time.monotonic() - begin
        await mine.close()
    assert found == Outcome(
        result="unknown", reason="timeout", summary=f"127.0.0.1:{server.port} gave no complete answer within 0.3 s"
    )
    assert took < 1


async def test_a_large_answer_stops_early() -> None:
    async with http_server() as server:
        server.on("/x", gzip_bomb(60))
        server.on("/plain", answer(200, "x" * 5_000))
        server.on("/fits", raw(message(200, gzip.compress(b"y" * 900), {"Content-Encoding": "gzip"})))
        mine = client(max_body=1_000)
        for path in ("/x", "/plain"):
            found = await mine.exchange(wire(server, path), limit=3_000)
            assert isinstance(found, Outcome)
            assert (found.result, found.reason) == ("unknown", "unreadable")
        found = await mine.exchange(wire(server, "/fits"), limit=3_000)
        assert isinstance(found, Answer)
        assert found.body == b"y" * 900
        await mine.close()


async def test_redirects_of_a_get_stay_in_the_origin() -> None:
    async with http_server() as server, http_server() as other:
        server.on("/1", redirect(302, "/2"))
        server.on("/2", redirect(307, f"{server.origin}/3"))
        server.on("/3", answer(200, {"end": True}))
        server.on("/out", redirect(302, f"{other.origin}/3"))
        server.on("/loop", redirect(302, "/loop"))
        mine = client()
        found = await mine.exchange(wire(server, "/1", "GET", b""), limit=2_000, follow=True)
        assert isinstance(found, Answer)
        assert json.loads(found.body) == {"end": True}
        for path, status in (("/out", 302), ("/loop", 302)):
            found = await mine.exchange(wire(server, path, "GET", b""), limit=2_000, follow=True)
            assert isinstance(found, Answer)
            assert found.status == status
        assert other.got == []
        assert len(server.at("/loop")) == 6
        await mine.close()


async def test_the_address_is_checked_when_it_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose answer changes between check and connect does not get through: the socket itself is checked."""
    async with http_server() as server:
        mine = Client(guard=Guard())
        found = await mine.exchange(wire(server), limit=2_000)
        assert isinstance(found, Outcome)
        assert (found.result, found.reason) == ("not_sent", "forbidden")
        answers(monkeypatch, "127.0.0.1")
        found = await mine.exchange(Wire(method="GET", url=f"http://shop.test:{server.port}/", headers={}), limit=2_000)
        assert isinstance(found, Outcome)
        assert (found.result, found.reason) == ("not_sent", "forbidden")
        assert "shop.test (127.0.0.1)" in found.summary

        async def lies(self: object, host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
            return [(socket.AF_INET, "127.0.0.1")]

        monkeypatch.setattr(Guard, "resolve", lies)
        found = await mine.exchange(Wire(method="GET", url=f"http://late.test:{server.port}/", headers={}), limit=2_000)
        assert isinstance(found, Outcome)
        assert (found.result, found.reason) == ("not_sent", "forbidden")
        assert server.connections == 0
        await mine.close()


async def test_certificates(tmp_path: Path) -> None:
    cert, context = certificate(tmp_path)
    async with http_server(ssl=context) as server:
        server.on("/x", answer(200, {"a": 1}))
        url = f"https://127.0.0.1:{server.port}/x"
        trusting = Client(guard=Guard(allow_private=True), ca=str(cert))
        found = await trusting.exchange(Wire(method="POST", url=url, headers={}), limit=2_000)
        assert isinstance(found, Answer)
        await trusting.close()
        stranger = client()
        lost = await stranger.exchange(Wire(method="POST", url=url, headers={}), limit=2_000)
        await stranger.close()
        assert len(server.got) == 1
    sentence = f"the certificate of 127.0.0.1:{server.port} is not one that is trusted"
    assert lost == Outcome(result="not_sent", reason="connection", summary=sentence)


async def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with http_server() as server, http_server() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
        server.on("/x", answer(200, {}, Set_Cookie="a=b; Path=/"))
        mine = client()
        for _ in range(2):
            assert isinstance(await mine.exchange(wire(server), limit=2_000), Answer)
        await mine.close()
        assert proxy.connections == 0
        assert "cookie" not in server.got[1].headers


async def test_being_stopped_passes_through() -> None:
    async with http_server() as server:
        server.on("/x", late(5, answer(200)))
        mine = client()
        sending = asyncio.create_task(mine.exchange(wire(server), limit=5_000))
        await asyncio.sleep(0.1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await mine.close()


@pytest.mark.parametrize(
    "url", ["http://", "http://exa mple.test/", "ftp://example.test/", "http://[::1", "http://2130706433/"]
)
async def test_a_url_that_is_none_sent_nothing(url: str) -> None:
    mine = client()
    found = await mine.exchange(Wire(method="POST", url=url, headers={}), limit=1_000)
    await mine.close()
    assert isinstance(found, Outcome)
    assert found.result == "not_sent"
