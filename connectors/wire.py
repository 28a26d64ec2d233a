"""What goes over HTTP and what comes back, as plain values, and what can be told from a URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

MAX_BODY = 10_000_000
"""The largest decoded answer, in bytes."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})

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


def redirect_target(url: str, answer: Answer) -> str | None:
    """Where the answer redirects to, as an absolute URL, or None if it does not."""
    location = answer.headers.get("location", "")
    if answer.status not in REDIRECTS or not location:
        return None
    try:
        return urljoin(url, location)
    except ValueError:
        return None


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
