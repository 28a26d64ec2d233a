"""HTTP as it comes over the wire: uvicorn's protocol with the parser in C, and the bounds that it does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

LONGEST_HEAD = 64_000
"""Bytes of a request's line and header fields, and of anything that is not its body."""
MOST_BEHIND = 16
"""Requests that may have come behind the one that is being answered."""
_HOST = b"host"


class Unfit(Exception):
    """What came is no request of ours. The parser stops at it, and the protocol answers 400 and closes."""


class Wire(HttpToolsProtocol):
    """One connection. `within`: seconds in which a request's head must be there once it has begun."""

    within = 30.0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._unended = 0
        """Bytes since the last part that was whole: a head, a piece of a body, an end."""
        self._head = 0
        self._hosts = 0
        self._is_in_head = False
        self._late: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None

    def data_received(self, data: bytes) -> None:
        """Whatever has come; what does not end is not waited for."""
        self._unended += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as asked:
            self._step_aside(data[asked.args[0] :])
            return
        except HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._unended > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("What came does not end.")
        if self._is_in_head and self._late is None:
            self._late = self.loop.call_later(self.within, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever sent it is gone."""
        self._is_on_time()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= MOST_BEHIND:
            raise Unfit
        self._head, self._hosts, self._is_in_head = 0, 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of what is asked for."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field. One behind the body is counted and left: whoever stands before us has not seen it."""
        self._count(len(name) + len(value) + 4)
        if not self._is_in_head:
            return
        if name.lower() == _HOST:
            self._hosts += 1
            if self._hosts > 1:
                raise Unfit
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request can be answered."""
        self._is_on_time()
        self._unended, self._is_in_head = 0, False
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            if not self.pipeline:
                self._running = self.cycle

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unended = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request has ended."""
        self._unended = 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers what cannot be read, and closes. A whole request before it gets its own answer, and nothing behind
        that one is answered; one that has come in part gets no end."""
        self.pipeline.clear()
        before = self._running
        if before is not None and not before.response_complete:
            if not before.more_body:
                before.keep_alive = False
                return
            before.disconnected = True
            before.message_event.set()
            if before.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """The next one's turn, where it has come already."""
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()

    def _step_aside(self, rest: bytes) -> None:
        """Whoever asks for another protocol is read by the slower parser from here on: ours leaves the body of such a
        request unread, and would take it for the next one."""
        if self._running is not None and not self._running.response_complete:
            self.send_400_response("Invalid HTTP request received.")
            return
        fields = [name + b": " + value for name, value in self.headers]
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        other = H11Protocol(config=self.config, server_state=self.server_state, app_state=self.app_state)
        self.connections.discard(self)
        other.connection_made(self.transport)
        self.transport.set_protocol(other)
        other.data_received(b"\r\n".join([line, *fields, b"", rest]))

    def _is_on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > LONGEST_HEAD:
            raise Unfit
