"""What a scripted HTTP service answers to one request, as data."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Cut = Literal["", "before", "after", "half", "reset"]
"""before: the line is closed without doing anything. after: done, closed without an answer. half: done, half of the
answer is sent. reset: done, the connection is reset (RST) without an answer."""

TEXTS: Mapping[int, str] = {200: "OK", 201: "Created", 204: "No Content", 429: "Too Many Requests", 503: "Unavailable"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Say:
    """How one request is answered. All defaults together mean: as usual.

    `status` 0 keeps the usual status; `json` or `raw` replace the usual body. `done` says whether the effect happens
    (`cut="before"` never does it). `delay` is ms between the effect and the answer (below 0: until `release`), `pause`
    ms between single bytes of the body (a slow drip).
    """

    status: int = 0
    json: Any = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    done: bool = True
    delay: int = 0
    pause: int = 0
    cut: Cut = ""

    def as_json(self) -> dict[str, Any]:
        """For sending a script to a service in another process."""
        raw = None if self.raw is None else base64.b64encode(self.raw).decode()
        return asdict(self) | {"raw": raw}

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Say:
        raw = fields.get("raw")
        return cls(**{**fields, "raw": None if raw is None else base64.b64decode(raw)})


AS_USUAL = Say()
DROP_BEFORE = Say(cut="before", done=False)
DROP_AFTER = Say(cut="after")
RESET = Say(cut="reset")
HALF_ANSWER = Say(cut="half")
HELD = Say(delay=-1)


def refused(status: int = 422, message: str = "no") -> Say:
    """A clear no: nothing is done."""
    return Say(status=status, json={"message": message}, done=False)


def failing(status: int = 500, done: bool = False) -> Say:
    """A server error with a page; `done` says what became of the effect behind it."""
    return html(status, done=done)


def late(ms: int) -> Say:
    """Done at once, answered `ms` later."""
    return Say(delay=ms)


def html(status: int = 200, done: bool = True) -> Say:
    """A page where JSON was expected."""
    page = b"<!doctype html><title>Sign in</title>"
    return Say(status=status, raw=page, headers={"Content-Type": "text/html; charset=utf-8"}, done=done)


def rate_limit(retry_after: str = "1") -> Say:
    """429 with a Retry-After header, nothing is done."""
    return Say(status=429, json={"message": "slow down"}, headers={"Retry-After": retry_after}, done=False)


def redirect(to: str, status: int = 302) -> Say:
    """A redirect; nothing is done here."""
    return Say(status=status, raw=b"", headers={"Location": to}, done=False)


def drip(pause: int, body: bytes = b'{"id": "slow"}') -> Say:
    """Done, and answered one byte every `pause` ms."""
    return Say(status=200, raw=body, pause=pause)


def rendered(status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The bytes of one HTTP/1.1 answer."""
    lines = [f"HTTP/1.1 {status} {TEXTS.get(status, 'Said')}"]
    if not any(name.lower() == "content-type" for name in headers):
        lines.append("Content-Type: application/json")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def dumped(value: Any) -> bytes:
    """The JSON bytes of an answer's body."""
    return json.dumps(value, ensure_ascii=False).encode()
