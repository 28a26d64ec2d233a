"""Clients that cost little: prepared requests over kept connections, answers read by their length."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


def request(path: str, body: Any, token: str, port: int) -> bytes:
    """A POST as it goes over the wire."""
    raw = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {token}\r\ncontent-length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What was answered, in any order, and how long all took, s."""

    bodies: Sequence[bytes]
    took: float

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.bodies) / self.took


async def send(port: int, requests: Sequence[bytes], clients: int) -> Answered:
    """Sends them all, each client one after the other. Raises RuntimeError for an answer that is no 2xx."""
    left = iter(requests)
    bodies: list[bytes] = []
    began = time.perf_counter()
    async with asyncio.TaskGroup() as lanes:
        for _ in range(clients):
            lanes.create_task(_client(port, left, bodies))
    return Answered(bodies=bodies, took=time.perf_counter() - began)


async def _client(port: int, left: Iterator[bytes], bodies: list[bytes]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for one in left:
            writer.write(one)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 2"):
                raise RuntimeError(f"answered {head.splitlines()[0].decode()}: {body[:300].decode()}")
            bodies.append(body)
    finally:
        writer.close()
