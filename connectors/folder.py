"""A folder on this machine, and nothing outside it: every step of a path is opened from the one before, links refused.

A file gets its name when all of it is on the disk, so nobody sees half of it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from connectors.disk import Doubtful, Refused, in_time, settle
from connectors.far import LARGEST, listed, read_output, too_large
from connectors.stored import content_of
from runner.contract import Json, Outcome, Tools
from runner.errors import NotFound


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """The folder of a connection."""

    root: Path
    tools: Tools

    @property
    def shown(self) -> str:
        return self.root.name

    async def run(self, action: str, body: Mapping[str, Json], *, limit: int) -> Outcome:
        """What an action came to within `limit` ms."""
        work = partial(self._do, action, body)
        return await in_time(work, limit / 1000, "the disk did not answer in time")

    async def close(self) -> None:
        """Nothing is open between two calls."""

    def _do(self, action: str, body: Mapping[str, Json]) -> Outcome:
        """On a thread. What is refused has changed nothing."""
        shown = str(body.get("path") or body.get("folder") or self.shown)
        work = {"read": _Box.read, "list": _Box.names, "write": _Box.write, "move": _Box.move, "remove": _Box.remove}
        try:
            if not self.root.is_dir():
                raise Refused("unavailable", f"the folder {self.root} is not there")
            output = work[action](_Box(root=self.root, tools=self.tools), body)
        except NotFound as error:
            return Outcome(result="not_sent", reason="not_found", summary=str(error))
        except Refused as error:
            return Outcome(result="refused", reason=error.reason, summary=str(error))
        except Doubtful:
            return Outcome(result="unknown", reason="unknown", summary=f"{shown} was changed, perhaps not for good")
        except OSError as error:
            return Outcome(result="refused", **_told(shown, error))
        external = str(output.get("path") or "")
        return Outcome(result="applied", output=output, external_id="" if action in ("read", "list") else external)


def _told(shown: str, error: OSError) -> dict[str, Any]:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return {"reason": "forbidden", "summary": f"{shown} leads over a link or through a file; neither is followed"}
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return {"reason": "forbidden", "summary": f"{shown}: this user may not do that ({error.strerror})"}
    if error.errno in (errno.ENAMETOOLONG, errno.EISDIR, errno.EINVAL):
        return {"reason": "invalid", "summary": f"{shown} cannot be a file here ({error.strerror})"}
    return {"reason": "unavailable", "summary": f"{shown} cannot be used: {error.strerror}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Box:
    """The folder as one call sees it. Every step is opened from the one before, links refused."""

    root: Path
    tools: Tools

    @contextlib.contextmanager
    def _inside(self, steps: list[str], *, make: bool = False) -> Iterator[int]:
        """The folder at the end of the steps, as an open file number."""
        here = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for step in steps:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(step, dir_fd=here)
                        os.fsync(here)
                deeper = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = deeper
            yield here
        finally:
            os.close(here)

    def _content(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none."""
        *folders, name = path.split("/")
        try:
            with self._inside(folders) as here:
                number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
        except FileNotFoundError:
            return None
        with os.fdopen(number, "rb") as opened:
            seen = os.fstat(number)
            if not stat.S_ISREG(seen.st_mode):
                raise Refused("invalid", f"{path} is no plain file")
            if seen.st_size > LARGEST:
                raise too_large(path)
            return opened.read()

    def read(self, body: Mapping[str, Json]) -> Mapping[str, Json]:
        return read_output(body["path"], self._content(body["path"]), self.tools)

    def names(self, body: Mapping[str, Json]) -> Mapping[str, Json]:
        folder, found = body.get("folder", ""), []
        try:
            with self._inside(folder.split("/") if folder else []) as here, os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        seen = entry.stat(follow_symlinks=False)
                        found.append((entry.name, seen.st_size, datetime.fromtimestamp(seen.st_mtime, UTC)))
        except FileNotFoundError:
            pass
        return listed(body, found)

    def write(self, body: Mapping[str, Json]) -> Mapping[str, Json]:
        path = body["path"]
        content = content_of(self.tools, body["file"]) if "file" in body else body["text"].encode()
        digest = hashlib.sha256(content).hexdigest()
        *folders, name = path.split("/")
        with self._inside(folders, make=True) as here:
            part = f".{digest[:16]}.{os.urandom(4).hex()}.part"
            try:
                number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=here)
                with os.fdopen(number, "wb") as out:
                    out.write(content)
                    out.flush()
                    os.fsync(number)
                self._name(here, part, here, name, path, digest)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(part, dir_fd=here)
            settle(here)
        return {"path": path, "sha256": digest, "size": len(content)}

    def _name(self, source: int, part: str, target: int, name: str, path: str, digest: str) -> bool:
        """Gives a whole file its name, unless that is taken by other bytes. Whether it did not have it before."""
        try:
            os.link(part, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            return True
        except FileExistsError:
            there = self._content(path)
            if there is None or hashlib.sha256(there).hexdigest() != digest:
                raise Refused(
                    "conflict", f"{path} is there already and holds something else; nothing was changed"
                ) from None
            return False

    def move(self, body: Mapping[str, Json]) -> Mapping[str, Json]:
        path, to = body["path"], body["to"]
        content = self._content(path)
        if content is None:
            if self._content(to) is None:
                raise Refused("not_found", f"there is no file {path}")
            return {"path": to}
        (*folders, name), (*others, new) = path.split("/"), to.split("/")
        with self._inside(folders) as here, self._inside(others, make=True) as there:
            is_new = self._name(here, name, there, new, to, hashlib.sha256(content).hexdigest())
            settle(there)
            try:
                os.unlink(name, dir_fd=here)
            except OSError:
                if is_new:
                    os.unlink(new, dir_fd=there)
                raise
            settle(here)
        return {"path": to}

    def remove(self, body: Mapping[str, Json]) -> Mapping[str, Json]:
        path, to = body["path"], body.get("to")
        content = self._content(path)
        if content is None:
            return {"removed": False, "kept_at": to if to and self._content(to) is not None else None}
        if "sha256" in body and hashlib.sha256(content).hexdigest() != body["sha256"]:
            raise Refused("conflict", f"{path} holds something else by now; nothing was changed")
        if to:
            self.move({"path": path, "to": to})
        else:
            *folders, name = path.split("/")
            with self._inside(folders) as here:
                os.unlink(name, dir_fd=here)
                settle(here)
        return {"removed": True, "kept_at": to}
