"""A bucket of S3, or of a store that speaks as S3 does: each file is one object, put with `If-None-Match: *`.

Requests are signed (AWS Signature Version 4) as they leave; the bucket stands in the path.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from connectors.client import Client
from connectors.disk import Refused
from connectors.far import Errand, Found, Lost
from connectors.wire import Answer, Wire, host_of
from runner.clock import MachineClock
from runner.contract import Json, Outcome, Tools

_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def signed(wire: Wire, *, region: str, access: str, secret: str, at: datetime, service: str = "s3") -> dict[str, str]:
    """The headers of a request with its signature. `at` is the moment, in UTC."""
    parts, body = urlsplit(wire.url), hashlib.sha256(wire.body).hexdigest()
    stamp = at.strftime("%Y%m%dT%H%M%SZ")
    headers = {**wire.headers, "x-amz-content-sha256": body, "x-amz-date": stamp}
    covered = {"host": parts.netloc, **{name.lower(): value for name, value in headers.items()}}
    names = ";".join(sorted(covered))
    lines = "".join(f"{name}:{covered[name].strip()}\n" for name in sorted(covered))
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    request = "\n".join((wire.method, parts.path, query, lines, names, body))
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    mark = hmac.digest(key, text.encode(), "sha256").hex()
    proof = f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={mark}"
    return {**headers, "authorization": proof}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """One bucket, and what stands before every name in it."""

    origin: str
    bucket: str
    prefix: str
    region: str
    client: Client
    tools: Tools
    access: Callable[[], str]
    secret: Callable[[], str]

    @property
    def shown(self) -> str:
        return f"{host_of(self.origin)}/{self.bucket}"

    async def run(self, action: str, body: Mapping[str, Json], *, limit: int) -> Outcome:
        """What an action came to within `limit` ms."""
        return await Errand(self, self.tools).run(action, body, limit=limit)

    async def close(self) -> None:
        """Closes every connection."""
        await self.client.close()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Bucket]:
        """Connections are kept between calls."""
        yield self

    async def content(self, path: str) -> bytes | None:
        answer = await self._ask("GET", self._key(path))
        if answer.status == 404 and _code(answer) != "NoSuchBucket":
            return None
        return self._well(answer, path).body

    async def put(self, path: str, content: bytes) -> bool:
        # A store that does not know If-None-Match would write over what is there, so it is asked first.
        found = await self._ask("HEAD", self._key(path))
        if found.status == 200:
            return False
        if found.status != 404:
            self._well(found, path)
        kind = {"if-none-match": "*", "content-type": "application/octet-stream"}
        answer = await self._ask("PUT", self._key(path), content=content, headers=kind)
        if answer.status == 412:
            return False
        self._well(answer, path)
        return True

    async def drop(self, path: str) -> None:
        answer = await self._ask("DELETE", self._key(path))
        if answer.status != 404:
            self._well(answer, path)

    async def files(self, folder: str) -> list[Found]:
        before, found, mark = self._key(folder) + "/" if folder else self._key(""), list[Found](), ""
        for _ in range(20):
            query = {"delimiter": "/", "list-type": "2", "max-keys": "1000", "prefix": before}
            query |= {"continuation-token": mark} if mark else {}
            answer = self._well(await self._ask("GET", "", query=query), folder or self.bucket)
            try:
                if b"<!DOCTYPE" in answer.body or b"<!ENTITY" in answer.body:
                    raise ValueError("a document type")
                tree = ElementTree.fromstring(answer.body)
            except (ElementTree.ParseError, ValueError):
                raise Lost("unreadable", f"{self.shown} answered with no list") from None
            for item in tree.iter(f"{_NAMESPACE}Contents"):
                name = _text(item, "Key").removeprefix(before)
                if name and "/" not in name:
                    found.append(
                        (name, int(_text(item, "Size") or 0), datetime.fromisoformat(_text(item, "LastModified")))
                    )
            mark = _text(tree, "NextContinuationToken")
            if not mark:
                break
        return found

    def _key(self, path: str) -> str:
        return f"{self.prefix}/{path}" if self.prefix and path else f"{self.prefix}/" if self.prefix else path

    async def _ask(
        self, method: str, key: str, *, query: Mapping[str, str] | None = None, content: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        where = f"{self.origin}/{self.bucket}" + (f"/{quote(key, safe='/-_.~')}" if key and query is None else "")
        asked = "&".join(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in sorted((query or {}).items()))
        wire = Wire(method=method, url=f"{where}?{asked}" if asked else where, headers=headers or {}, body=content)
        at = datetime.fromtimestamp(MachineClock().now() / 1000, UTC)
        proved = signed(wire, region=self.region, access=self.access(), secret=self.secret(), at=at)
        wire = Wire(method=method, url=wire.url, headers=proved, body=content)
        found = await self.client.exchange(wire, limit=24 * 3_600_000, fresh=method in ("PUT", "DELETE"))
        if isinstance(found, Outcome):
            raise Lost(found.reason or "connection", found.summary, is_sent=found.result != "not_sent")
        return found

    def _well(self, answer: Answer, what: str) -> Answer:
        """The answer, if it is a success. Raises Refused, or Lost where it does not say what was done."""
        said = f"{self.shown} answered {answer.status} {self.tools.redact(_code(answer))[:60]}".rstrip()
        if answer.status // 100 == 2:
            return answer
        if answer.status == 403:
            raise Refused("forbidden", f"{what}: {said}")
        if answer.status == 501:
            raise Refused(
                "forbidden", f"{said}: it does not put a file only where there is none, so nothing is written"
            )
        if answer.status in (409, 429) or _code(answer) == "SlowDown":
            raise Refused("unavailable", f"{what}: {said}")
        if answer.status // 100 == 4:
            raise Refused("invalid", f"{what}: {said}")
        raise Lost("unknown", said)


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.find(f"{_NAMESPACE}{name}")
    return (found.text or "") if found is not None else ""


def _code(answer: Answer) -> str:
    """The service's word for what is wrong: <Code>NoSuchKey</Code>."""
    text = answer.body[:4_000].decode("utf-8", errors="replace")
    return text.partition("<Code>")[2].partition("</Code>")[0]
