"""The one client policy: how every HTTP request leaves, whatever connector it comes from.

aiohttp, and nothing of the environment: no proxy variables, no netrc, no cookies. One request is one attempt: nothing
below repeats it. What the caller is told is either an `Answer`, complete and within the size limit, or an outcome,
which says whether a byte of the request may have left:

- everything up to the finished TLS handshake (name, guard, connect) is `not_sent`;
- everything after is `unknown`, a stale kept-alive connection included.

The limit is one deadline around all of it, so a peer that drips a byte at a time gains nothing. Requests that must not
meet a stale connection (`fresh=True`) get one of their own. What is made of the libraries is `connectors.transport`,
which is loaded with the first request.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from connectors import transport
from connectors.wire import MAX_BODY, Answer, Wire, host_of, redirect_target, same_origin
from runner.contract import Outcome, Reason
from runner.errors import RequestError
from runner.guard import Guard

MAX_REDIRECTS = 5

for _name in ("httpx", "httpcore", "aiohttp.client", "aiohttp.access"):
    # they write full URLs, and a URL may carry a token
    logging.getLogger(_name).setLevel(logging.CRITICAL)


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
        self._transports: dict[bool, transport.Opened] = {}

    async def exchange(self, wire: Wire, *, limit: int, fresh: bool = False, follow: bool = False) -> Answer | Outcome:
        """Sends one request within `limit` ms. `follow` allows redirects of a GET within the same origin."""
        got: list[str] = []
        transport.STEPS.set(got)
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
        except transport.Unreadable as error:
            return _lost(got, "unreadable", f"the answer of {host} {error}")
        except transport.FAILURES as error:
            return _lost(got, *transport.reason_of(error, host, sent=bool(got)))

    async def close(self) -> None:
        """Closes every connection."""
        for opened in self._transports.values():
            await opened.close()
        self._transports.clear()

    async def _once(self, wire: Wire, fresh: bool) -> Answer:
        self._guard.check_host(urlsplit(wire.url).hostname or "")
        opened = self._transports.get(fresh) or self._open_transport(fresh)
        return await transport.send(opened, wire, self._max_body)

    def prepare(self, *, fresh: bool) -> None:
        """Reads what the connections need, where that was not done before. Raises SecretMissing, RequestError."""
        if fresh not in self._transports:
            self._open_transport(fresh)

    def _trusted(self) -> ssl.SSLContext:
        try:
            context = transport.trusting.__wrapped__(self._ca) if self._certificate else transport.trusting(self._ca)
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

    def _open_transport(self, fresh: bool) -> transport.Opened:
        opened = transport.open_transport(self._guard, self._open_socket, self._trusted(), fresh=fresh)
        self._transports[fresh] = opened
        return opened

    def _open_socket(self, info: Any) -> socket.socket:
        """The last look: the very address that is about to be connected to."""
        family, kind, protocol, _, address = info
        self._guard.check_address(str(address[0]))
        return socket.socket(family=family, type=kind, proto=protocol)


def _lost(got: list[str], reason: Reason, summary: str) -> Outcome:
    """The outcome of a request without a complete answer."""
    return Outcome(result="unknown" if got else "not_sent", reason=reason, summary=summary)
