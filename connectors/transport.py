"""What carries the client's requests: aiohttp, with checked addresses, and what their errors mean.

httpx only reads the URL: a request of its own on the way would cost as much CPU as the call.

Loaded with the first request: the two libraries cost more than all the rest of a command that only looks at things.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult

from connectors.wire import Answer, Wire
from runner.contract import Reason
from runner.guard import AddressRefused, Guard

FAILURES = (httpx.InvalidURL, aiohttp.ClientError, OSError, ValueError)
"""What a request may raise that got no complete answer."""
Opened = aiohttp.ClientSession
"""Open connections that are kept for the next request."""


class Unreadable(Exception):
    """The answer's body is too large or cannot be decoded."""


STEPS: ContextVar[list[str]] = ContextVar("steps")
"""What the current request has come through: once it is connected, bytes of it may have left."""


class _Resolver(AbstractResolver):
    """Answers with checked addresses only."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=socket.AI_NUMERICHOST)
            for found, address in await self._guard.resolve(host, port)
            if family in (socket.AF_UNSPEC, found)
        ]

    async def close(self) -> None:
        """Nothing is open."""


class _Connector(aiohttp.TCPConnector):
    """Notes when a connection stands, which is when bytes of a request may begin to leave."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        connection = await super().connect(req, traces, timeout)
        STEPS.get().append("connected")
        return connection


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keeps aiohttp from silently repeating a request whose kept-alive connection broke."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientPayloadError("the connection broke") from error


@lru_cache(maxsize=16)
def trusting(ca: str = "") -> ssl.SSLContext:
    """The certificates that are trusted: those of the system and of certifi, and those in the file `ca`."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if ca:
        context.load_verify_locations(cafile=ca)
    return context


def open_transport(
    guard: Guard, open_socket: Callable[[Any], socket.socket], trusted: ssl.SSLContext, *, fresh: bool
) -> Opened:
    """Connections to wherever the guard allows; with `fresh` each is used once."""
    return aiohttp.ClientSession(
        connector=_Connector(
            resolver=_Resolver(guard),
            socket_factory=open_socket,
            ssl=trusted,
            limit=0,
            force_close=fresh,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        middlewares=(_send_once,),
        auto_decompress=False,
        skip_auto_headers=("Content-Type", "Accept", "Accept-Encoding", "User-Agent"),
        trust_env=False,
    )


async def send(opened: Opened, wire: Wire, most: int) -> Answer:
    """One request, and its complete answer. Raises Unreadable, FAILURES."""
    async with opened.request(
        wire.method, normalized(wire.url), headers=wire.headers, data=wire.body or None, allow_redirects=False
    ) as response:
        try:
            headers: dict[str, str] = {}
            for raw_name, raw_value in response.raw_headers:
                name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
            body = await read(response.content, headers, most)
        except BaseException:
            response.close()
            raise
    return Answer(status=response.status, headers=headers, body=body)


@lru_cache(maxsize=2048)
def normalized(url: str) -> str:
    """A URL as httpx writes it. Raises httpx.InvalidURL."""
    return str(httpx.URL(url))


async def read(stream: aiohttp.StreamReader, headers: Mapping[str, str], most: int) -> bytes:
    """The decoded body. Stops while decoding, so a small body never becomes a large one in memory."""
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise Unreadable(f"has an encoding that was not asked for ({encoding[:20]})")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16) if "gzip" in encoding else None
    body = bytearray()
    while chunk := await stream.readany():
        try:
            body += chunk if decoder is None else decoder.decompress(chunk, most - len(body) + 1)
        except zlib.error:
            raise Unreadable("is not compressed as it says") from None
        if len(body) > most:
            raise Unreadable(f"is larger than {most // 1_000_000} MB")
    if decoder is not None and body and (not decoder.eof or decoder.unused_data):
        raise Unreadable("is not one complete compressed body")
    return bytes(body)


_NEVER_CONNECTED: tuple[tuple[type[Exception], Reason, str], ...] = (
    (socket.gaierror, "connection", "the name {} has no address"),
    (ssl.SSLCertVerificationError, "connection", "the certificate of {} is not one that is trusted"),
    (ssl.SSLError, "connection", "no encrypted connection to {} could be made"),
    (httpx.InvalidURL, "invalid", "the address of the request to {} cannot be used"),
    (ValueError, "invalid", "the address of the request to {} cannot be used"),
)


def reason_of(error: Exception, host: str, *, sent: bool) -> tuple[Reason, str]:
    """What to tell of a failure: our own words, since the library's may carry a URL."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = getattr(cause, "os_error", None) or cause.__cause__
    for one in causes:
        if isinstance(one, AddressRefused):
            return "forbidden", str(one)
    if sent:
        return "connection", f"the connection to {host} broke before a complete answer came"
    for kind, reason, summary in _NEVER_CONNECTED:
        if any(isinstance(one, kind) for one in causes):
            return reason, summary.format(host)
    return "connection", f"{host} cannot be connected to"
