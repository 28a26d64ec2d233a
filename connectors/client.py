"""The one client policy: how every HTTP request leaves, whatever connector it comes from.

httpx over the aiohttp transport, and nothing of the environment: no proxy variables, no netrc, no cookies. One request
is one attempt: nothing below repeats it. What the caller is told is either an `Answer`, complete and within the size
limit, or an outcome, which says whether a byte of the request may have left:

- everything up to the finished TLS handshake (name, guard, connect) is `not_sent`;
- everything after is `unknown`, a stale kept-alive connection included.

The limit is one deadline around all of it, so a peer that drips a byte at a time gains nothing. Requests that must not
meet a stale connection (`fresh=True`) get one of their own. Requests are handed straight to the transport: the client
class of httpx would spend about 100 us of CPU a call on cookies, redirects and merging, none of which is wanted here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp import AiohttpTransport

from runner.contract import Outcome, Reason
from runner.errors import RequestError
from runner.guard import AddressRefused, Guard

MAX_BODY = 10_000_000
"""The largest decoded answer, in bytes."""

MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})

for _name in ("httpx", "httpcore", "aiohttp.client", "aiohttp.access"):
    # they write full URLs, and a URL may carry a token
    logging.getLogger(_name).setLevel(logging.CRITICAL)


DEFAULT_HEADERS: Mapping[str, str] = {
    "accept": "application/json, */*;q=0.5",
    "accept-encoding": "gzip",
    "user-agent": "Amends",
}
"""What every request carries unless it says otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wire:
    """One request as it goes on the wire. `url` is absolute and percent-encoded."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A complete answer. Header names are lower-case; repeated headers are joined by a comma."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Unreadable(Exception):
    """The answer's body is too large or cannot be decoded."""


_steps: ContextVar[list[str]] = ContextVar("steps")
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
        _steps.get().append("connected")
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


class Client:
    """Sends the requests of one connection. Connections are kept per client: two rules never share one."""

    def __init__(
        self, *, guard: Guard, ca: str = "", max_body: int = MAX_BODY, certificate: str = "",
        password: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        self._guard = guard
        self._ca = ca
        self._certificate = certificate
        self._password = password
        self._max_body = max_body
        self._transports: dict[bool, AiohttpTransport] = {}

    async def exchange(self, wire: Wire, *, limit: int, fresh: bool = False, follow: bool = False) -> Answer | Outcome:
        """Sends one request within `limit` ms. `follow` allows redirects of a GET within the same origin."""
        got: list[str] = []
        _steps.set(got)
        host = host_of(wire.url)
        try:
            async with asyncio.timeout(limit / 1000):
                answer = await self._once(wire, fresh)
                for _ in range(MAX_REDIRECTS if follow and wire.method == "GET" else 0):
                    target = redirect_target(wire.url, answer)
                    if target is None or not same_origin(wire.url, target):
                        break
                    wire = Wire(method="GET", url=target, headers=wire.headers)
                    answer = await self._once(wire, fresh)
                return answer
        except TimeoutError:
            what = "gave no complete answer" if got else "could not be connected to"
            return _lost(got, "timeout", f"{host} {what} within {limit / 1000:g} s")
        except _Unreadable as error:
            return _lost(got, "unreadable", f"the answer of {host} {error}")
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, ValueError) as error:
            return _lost(got, *_reason(error, host, sent=bool(got)))

    async def close(self) -> None:
        """Closes every connection."""
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    async def _once(self, wire: Wire, fresh: bool) -> Answer:
        self._guard.check_host(urlsplit(wire.url).hostname or "")
        transport = self._transports.get(fresh) or self._open_transport(fresh)
        request = httpx.Request(wire.method, _parsed(wire.url), headers=wire.headers, content=wire.body)
        response = await transport.handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        try:
            headers: dict[str, str] = {}
            for raw_name, raw_value in response.headers.raw:
                name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
            body = await _read(stream, headers, self._max_body)
        except BaseException:
            await _abandon(stream)
            raise
        await stream.aclose()
        return Answer(status=response.status_code, headers=headers, body=body)

    def prepare(self, *, fresh: bool) -> None:
        """Reads what the connections need, where that was not done before. Raises SecretMissing, RequestError."""
        if fresh not in self._transports:
            self._open_transport(fresh)

    def _trusted(self) -> ssl.SSLContext:
        try:
            context = trusting.__wrapped__(self._ca) if self._certificate else trusting(self._ca)
        except OSError:  # ssl.SSLError is one
            raise RequestError(f"{self._ca} holds no certificates to trust") from None
        if not self._certificate:
            return context
        try:
            context.load_cert_chain(self._certificate, password=self._password or "")
        except OSError:
            what = "is no certificate with its private key, or its password is another one"
            raise RequestError(f"{self._certificate} {what}") from None
        return context

    def _open_transport(self, fresh: bool) -> AiohttpTransport:
        trusted = self._trusted()
        session = aiohttp.ClientSession(
            connector=_Connector(
                resolver=_Resolver(self._guard),
                socket_factory=self._open_socket,
                ssl=trusted,
                limit=0,
                force_close=fresh,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            middlewares=(_send_once,),
            skip_auto_headers=("Content-Type", "Accept", "Accept-Encoding", "User-Agent"),
            trust_env=False,
        )
        transport = AiohttpTransport(client=session, verify=trusted, trust_env=False)
        self._transports[fresh] = transport
        return transport

    def _open_socket(self, info: Any) -> socket.socket:
        """The last look: the very address that is about to be connected to."""
        family, kind, protocol, _, address = info
        self._guard.check_address(str(address[0]))
        return socket.socket(family=family, type=kind, proto=protocol)


def redirect_target(url: str, answer: Answer) -> str | None:
    """Where the answer redirects to, as an absolute URL, or None if it does not."""
    location = answer.headers.get("location", "")
    if answer.status not in REDIRECTS or not location:
        return None
    try:
        return urljoin(url, location)
    except ValueError:
        return None


_parsed = lru_cache(maxsize=2048)(httpx.URL)
"""A URL, read once. Raises httpx.InvalidURL."""


async def _abandon(stream: httpx.AsyncByteStream) -> None:
    """Closes an answer that is not wanted any more. The deadline may be over, so this has a short one of its own."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(1):
            await stream.aclose()


def host_of(url: str) -> str:
    """Host and port of a URL for sentences, without user and password."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def origin_of(url: str) -> str:
    """`https://host:port` of a URL, port always said; empty if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname and port else ""
    except ValueError:
        return ""


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs share scheme, host and port."""
    return origin_of(one) == origin_of(other) != ""


async def _read(stream: httpx.AsyncByteStream, headers: Mapping[str, str], most: int) -> bytes:
    """The decoded body. Stops while decoding, so a small body never becomes a large one in memory."""
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise _Unreadable(f"has an encoding that was not asked for ({encoding[:20]})")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16) if "gzip" in encoding else None
    body = bytearray()
    async for chunk in stream:
        try:
            body += chunk if decoder is None else decoder.decompress(chunk, most - len(body) + 1)
        except zlib.error:
            raise _Unreadable("is not compressed as it says") from None
        if len(body) > most:
            raise _Unreadable(f"is larger than {most // 1_000_000} MB")
    if decoder is not None and body and (not decoder.eof or decoder.unused_data):
        raise _Unreadable("is not one complete compressed body")
    return bytes(body)


_NEVER_CONNECTED: tuple[tuple[type[Exception], Reason, str], ...] = (
    (socket.gaierror, "connection", "the name {} has no address"),
    (ssl.SSLCertVerificationError, "connection", "the certificate of {} is not one that is trusted"),
    (ssl.SSLError, "connection", "no encrypted connection to {} could be made"),
    (httpx.InvalidURL, "invalid", "the address of the request to {} cannot be used"),
    (ValueError, "invalid", "the address of the request to {} cannot be used"),
)


def _lost(got: list[str], reason: Reason, summary: str) -> Outcome:
    """The outcome of a request without a complete answer."""
    return Outcome(result="unknown" if got else "not_sent", reason=reason, summary=summary)


def _reason(error: Exception, host: str, *, sent: bool) -> tuple[Reason, str]:
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
