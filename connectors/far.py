"""Files that are somewhere else, in a store that can say: is it there, put it unless the name is taken, take it away.

What S3 (`bucket`) and SFTP (`sftp`) have alike: the actions of `files` made of these, and what became of a call whose
answer was lost. Before the first change nothing has happened; after it the call is unknown, and the same call again
finds what the first one did.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Protocol

from connectors.disk import Refused
from connectors.stored import content_of
from runner.contract import Json, Outcome, Reason, Tools
from runner.errors import NotFound, SecretMissing

LARGEST = 100_000_000
MOST = 10_000
Found = tuple[str, int, datetime]
"""(name, size, when it was changed) of a file in a folder."""


class Lost(Exception):
    """No complete answer came. `is_sent` says whether the store may have got the request."""

    def __init__(self, reason: Reason, why: str, *, is_sent: bool = True) -> None:
        super().__init__(why)
        self.reason, self.is_sent = reason, is_sent


class Store(Protocol):
    """One store. All of it raises Refused (nothing was done) and Lost."""

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """The store during one call."""
        ...

    async def content(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none."""
        ...

    async def put(self, path: str, content: bytes) -> bool:
        """Makes a file, whole or not at all; False where the name is taken."""
        ...

    async def drop(self, path: str) -> None:
        """Takes a file away, if it is there."""
        ...

    async def files(self, folder: str) -> list[Found]:
        """The files of a folder, not of those below it."""
        ...


def too_large(path: str) -> Refused:
    return Refused("invalid", f"{path} is larger than {LARGEST // 1_000_000} MB")


def read_output(path: str, content: bytes | None, tools: Tools) -> dict[str, Json]:
    """The output of `read`; the content is kept."""
    if content is None:
        return {"found": False, "file": None}
    name = path.rpartition("/")[2]
    kind = name.rpartition(".")[2].lower() if "." in name else ""
    return {"found": True, "file": {"name": name, "size": len(content), "kind": kind, "sha256": tools.keep(content)}}


def listed(body: Mapping[str, Json], found: Iterable[Found]) -> dict[str, Json]:
    """The output of `list`: hidden files and those that do not fit the pattern left out."""
    folder, pattern = body.get("folder", ""), body.get("pattern", "*")
    most = max(1, min(body.get("most") or 1_000, MOST))
    files = [
        {
            "path": f"{folder}/{name}" if folder else name,
            "name": name,
            "size": size,
            "changed": changed.isoformat(timespec="seconds"),
        }
        for name, size, changed in sorted(found)
        if not name.startswith(".") and fnmatchcase(name, pattern)
    ]
    return {"found": bool(files), "files": files[:most], "count": len(files[:most]), "incomplete": len(files) > most}


class Errand:
    """One call to a store."""

    def __init__(self, store: Store, tools: Tools) -> None:
        self._store, self._tools = store, tools
        self._is_under_way = self._is_changed = False

    async def run(self, action: str, body: Mapping[str, Json], *, limit: int) -> Outcome:
        """What the action came to within `limit` ms."""
        work = {
            "read": self._read,
            "list": self._list,
            "write": self._write,
            "move": self._move,
            "remove": self._remove,
        }
        try:
            async with asyncio.timeout(limit / 1000), self._store.opened() as self._store:
                output = await work[action](body)
        except NotFound as error:
            return Outcome(result="not_sent", reason="not_found", summary=str(error))
        except SecretMissing as error:
            return Outcome(result="not_sent", reason="forbidden", summary=str(error))
        except Refused as error:
            return Outcome(result="unknown" if self._is_changed else "refused", reason=error.reason, summary=str(error))
        except Lost as error:
            return self._lost(error)
        except TimeoutError:
            return self._lost(Lost("timeout", f"it took longer than {limit / 1000:g} s"))
        external = str(output.get("path") or "")
        return Outcome(result="applied", output=output, external_id="" if action in ("read", "list") else external)

    def _lost(self, error: Lost) -> Outcome:
        """Without a change under way nothing was changed, and a later try is as good as the first."""
        if self._is_changed or (self._is_under_way and error.is_sent):
            return Outcome(result="unknown", reason=error.reason, summary=str(error))
        if not error.is_sent:
            return Outcome(result="not_sent", reason=error.reason, summary=str(error))
        return Outcome(result="refused", reason="unavailable", summary=str(error))

    async def _drop(self, path: str) -> None:
        self._is_under_way = True
        await self._store.drop(path)

    async def _read(self, body: Mapping[str, Json]) -> dict[str, Json]:
        return read_output(body["path"], await self._store.content(body["path"]), self._tools)

    async def _list(self, body: Mapping[str, Json]) -> dict[str, Json]:
        return listed(body, await self._store.files(body.get("folder", "")))

    async def _write(self, body: Mapping[str, Json]) -> dict[str, Json]:
        content = content_of(self._tools, body["file"]) if "file" in body else body["text"].encode()
        await self._named(body["path"], content)
        return {"path": body["path"], "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}

    async def _named(self, path: str, content: bytes) -> bool:
        """Makes the file, unless its name holds the same bytes already; whether it did. Raises Refused where it holds
        others."""
        self._is_under_way = True
        is_new = await self._store.put(path, content)
        self._is_under_way = False
        if not is_new and await self._store.content(path) != content:
            raise Refused("conflict", f"{path} is there already and holds something else; nothing was changed")
        return is_new

    async def _moved(self, path: str, to: str, content: bytes) -> None:
        """Puts the file under its new name and takes the old one away: both, or neither where that can be."""
        is_new = self._is_changed = await self._named(to, content)
        try:
            await self._drop(path)
        except Refused:
            if is_new:
                await self._store.drop(to)
            self._is_changed = False
            raise

    async def _move(self, body: Mapping[str, Json]) -> dict[str, Json]:
        path, to = body["path"], body["to"]
        content = await self._store.content(path)
        if content is not None:
            await self._moved(path, to, content)
        elif await self._store.content(to) is None:
            raise Refused("not_found", f"there is no file {path}")
        return {"path": to}

    async def _remove(self, body: Mapping[str, Json]) -> dict[str, Json]:
        path, to = body["path"], body.get("to")
        content = await self._store.content(path)
        if content is None:
            is_kept = to is not None and await self._store.content(to) is not None
            return {"removed": False, "kept_at": to if is_kept else None}
        if "sha256" in body and hashlib.sha256(content).hexdigest() != body["sha256"]:
            raise Refused("conflict", f"{path} holds something else by now; nothing was changed")
        if to is not None:
            await self._moved(path, to, content)
        else:
            await self._drop(path)
        return {"removed": True, "kept_at": to}
