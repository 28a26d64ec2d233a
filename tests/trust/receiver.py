"""What stands behind the lines: a small service with a true ledger, and how its connector is written."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from connectors.declarative import kind_from_text
from tests.connectors.tools import Lent
from tests.trust.lines import read_message

CLASSES = ("read", "keyed", "lookup", "once")
"""By what is known of a second attempt: it does no harm, the service dedupes it, the service can be asked, neither."""

DECLARED = """
connector: desk
title: A desk
actions:
  read: { reads: true, input: { note: text }, request: { get: /read }, output: { n: text } }
  keyed:
    writes: keyed
    key: { header: Idempotency-Key, life: 1 day }
    input: { note: text }
    request: { post: /do, json: { note: "${{ input.note }}" } }
    output: { n: text }
    external_id: ${{ response.json.n }}
    cannot_undo: It is done.
  lookup:
    writes: lookup
    input: { note: text }
    request: { post: /do, json: { note: "${{ input.note }}", reference: "${{ key }}" } }
    output: { n: text }
    external_id: ${{ response.json.n }}
    cannot_undo: It is done.
    lookup:
      request: { get: /find, query: { reference: "${{ key }}" } }
      count: ${{ response.json.count }}
      output: { n: "${{ response.json.n }}" }
      external_id: ${{ response.json.n }}
  once:
    writes: once
    input: { note: text }
    request: { post: /do, json: { note: "${{ input.note }}", case: "${{ input.note }}" } }
    output: { n: text }
    external_id: ${{ response.json.n }}
    cannot_undo: It is done.
"""


class Receiver:
    """`effects` counts what was done, by the note that each request carries; `bytes_in` what came of requests."""

    def __init__(self) -> None:
        self.port = self.secret_port = 0
        self.effects: Counter[str] = Counter()
        self.bytes_in: Counter[str] = Counter()
        self.secret_bytes = 0
        self._keys: dict[str, bytes] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                request = await read_message(reader)
                if writer.get_extra_info("ssl_object") is not None:
                    self.secret_bytes += len(request)
                writer.write(self._answer(request))
                await writer.drain()
        writer.close()

    def _answer(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        target = lines[0].split(" ")[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if target == "/read":
            return _said({"n": "1"})
        if target.startswith("/find"):
            count = self.effects[target.partition("reference=")[2]]
            return _said({"count": count, "n": str(count)})
        told = json.loads(body)
        name = headers.get("idempotency-key") or told.get("reference") or told["note"]
        if "idempotency-key" in headers and name in self._keys:
            return self._keys[name]
        self.effects[name] += 1
        answer = _said({"n": f"n-{name}"})
        if "idempotency-key" in headers:
            self._keys[name] = answer
        return answer


def _said(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@contextlib.asynccontextmanager
async def receiver(context: ssl.SSLContext) -> AsyncIterator[Receiver]:
    """One that listens twice: in the clear, and with TLS."""
    made = Receiver()
    plain = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    secret = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    made.port, made.secret_port = (one.sockets[0].getsockname()[1] for one in (plain, secret))
    try:
        yield made
    finally:
        for one in (plain, secret):
            one.close()


def connected(port: int, ca: str) -> Any:
    """The desk's connection, over a line."""
    kind, problems = kind_from_text(DECLARED, "desk.yaml")
    assert kind is not None, problems
    line: dict[str, Any] = {"origin": f"{'https' if ca else 'http'}://127.0.0.1:{port}", "allow_private": True}
    return kind.connect("desk", {**line, "ca": ca} if ca else line, Lent())
