"""Files of one folder on this machine, and nothing outside it: no step of a path is `..`, and no link is followed.

A file is written once: what is there under a name is never overwritten. It gets its name when all of it is on the disk,
so nobody sees half of it, and a second attempt finds the name with the same bytes under it. `remove` moves into the
folder that `trash` names, if the connection has one, and can be undone then.
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
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from connectors.disk import FOREVER, Doubtful, Refused, in_time, settle
from connectors.rendering import checked_input
from connectors.service import check_settings, no_such_action
from connectors.stored import content_of, stored_files
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools, Undo
from runner.errors import NotFound, RequestError, SettingsError

LARGEST = 100_000_000
MOST = 10_000
_PLACE = {"path": "text", "sha256": "text"}

_READ = Action(
    name="read",
    title="Reads a file into the store, so that other steps can send it.",
    effect="read",
    input={"path": "text"},
    output={"found": "yes_no", "file": "file or empty"},
)
_LIST = Action(
    name="list",
    title="Names the files of a folder, hidden ones not; `pattern` is like *.pdf.",
    effect="read",
    input={"folder": "text or empty", "pattern": "text or empty", "most": "integer or empty"},
    output={"found": "yes_no", "files": {"list": "record"}, "count": "integer", "incomplete": "yes_no"},
)
_WRITE = Action(
    name="write",
    title="Writes a file, or a text as one, under a name that is not taken; folders are made.",
    effect="keyed",
    key_life=FOREVER,
    input={"path": "text", "file": "file or empty", "text": "text or empty"},
    output={**_PLACE, "size": "integer"},
    undo=Undo(action="remove", with_={"path": "${{ output.path }}", "sha256": "${{ output.sha256 }}"}),
    sample={"path": "draft.txt", "sha256": "", "size": 0},
)
_MOVE = Action(
    name="move",
    title="Moves a file to a name that is not taken; folders are made.",
    effect="keyed",
    key_life=FOREVER,
    input={"path": "text", "to": "text"},
    output={"path": "text"},
    undo=Undo(action="move", with_={"path": "${{ input.to }}", "to": "${{ input.path }}"}),
    sample={"path": "draft.txt"},
)


def _remove(trash: str) -> Action:
    back = Undo(action="move", with_={"path": "${{ output.kept_at }}", "to": "${{ input.path }}"})
    return Action(
        name="remove",
        title="Takes a file away; with `sha256` only while it holds just these bytes.",
        effect="keyed",
        key_life=FOREVER,
        input={"path": "text", "sha256": "text or empty"},
        output={"removed": "yes_no", "kept_at": "text or empty"},
        undo=back if trash else None,
        cannot_undo="" if trash else "A file that was taken away is gone; with trash at the connection it is kept.",
        sample={"removed": True, "kept_at": "draft.txt"},
    )


class FilesKind:
    """The kind `files`."""

    name = "files"
    title = "The files of a folder on this machine"

    def settings(self) -> Mapping[str, Json]:
        return {"folder": "text", "trash": "text or empty"}

    def actions(self) -> Mapping[str, Action]:
        """Those of a connection without `trash`."""
        return self.actions_for({})

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """Those of a connection with these settings."""
        found = (_READ, _LIST, _WRITE, _MOVE, _remove(str(settings.get("trash") or "")))
        return {action.name: action for action in found}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        folder, trash = tools.place(str(settings["folder"])), str(settings.get("trash") or "")
        if ".amends" in folder.parts:
            raise SettingsError(f"{name}: folder lies in Amends' own state, which nobody else writes")
        try:
            _steps(trash) if trash else ()
        except RequestError as error:
            raise SettingsError(f"{name}: trash: {error}") from None
        return _Files(name=name, folder=folder, trash=trash, actions=self.actions_for(settings), tools=tools)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Files:
    """One folder."""

    name: str
    folder: Path
    trash: str
    actions: Mapping[str, Action]
    tools: Tools

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        declared = self.actions.get(action) or no_such_action(self.name, action, self.actions)
        if purpose not in ("do", "undo", "read"):
            raise RequestError(f"{self.name} cannot be asked by a key; its writes are keyed by name and content")
        given = {name: value for name, value in checked_input(declared, input).items() if value is not None}
        for word in ("path", "to", "folder"):
            if word in given:
                given[word] = "/".join(_steps(given[word]))
        if action == "write":
            if ("file" in given) == ("text" in given):
                raise RequestError("write takes either a file or a text")
            if "file" in given:
                given["file"] = stored_files(given["file"], "file")[0]
        if action == "remove" and self.trash:
            given["to"] = f"{self.trash}/{hashlib.sha256(key.encode()).hexdigest()[:16]}/{_steps(given['path'])[-1]}"
        return Request.of(given)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        work = partial(self._do, action, request.body)
        return await in_time(work, limit / 1000, "the disk did not answer in time")

    async def close(self) -> None:
        """Nothing is open between two calls."""

    def origin(self) -> str:
        return f"files:{self.folder.name}"

    def _do(self, action: str, body: Mapping[str, Json]) -> Outcome:
        """On a thread. What is refused has changed nothing."""
        shown = str(body.get("path") or body.get("folder") or self.folder.name)
        work = {"read": _Box.read, "list": _Box.names, "write": _Box.write, "move": _Box.move, "remove": _Box.remove}
        try:
            if not self.folder.is_dir():
                raise Refused("unavailable", f"the folder {self.folder} is not there")
            output = work[action](_Box(root=self.folder, tools=self.tools), body)
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


def _steps(path: Json) -> list[str]:
    """The steps of a path below the folder. Raises RequestError."""
    steps = str(path).split("/")
    if any(step in ("", ".", "..") or "\\" in step or not step.isprintable() for step in steps):
        raise RequestError(f'"{path}" is no path below the folder; write it like 2026/invoice.pdf')
    return steps


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
                raise Refused("invalid", f"{path} is larger than {LARGEST // 1_000_000} MB")
            return opened.read()

    def read(self, body: Mapping[str, Json]) -> Mapping[str, Json]:
        content = self._content(body["path"])
        if content is None:
            return {"found": False, "file": None}
        name = body["path"].rpartition("/")[2]
        kind = name.rpartition(".")[2].lower() if "." in name else ""
        file = {"name": name, "size": len(content), "kind": kind, "sha256": self.tools.keep(content)}
        return {"found": True, "file": file}

    def names(self, body: Mapping[str, Json]) -> Mapping[str, Json]:
        folder, pattern = body.get("folder", ""), body.get("pattern", "*")
        most = max(1, min(body.get("most") or 1_000, MOST))
        found: list[dict[str, Json]] = []
        try:
            with self._inside(folder.split("/") if folder else []) as here, os.scandir(here) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or not fnmatchcase(entry.name, pattern):
                        continue
                    if entry.is_file(follow_symlinks=False):
                        seen = entry.stat(follow_symlinks=False)
                        changed = datetime.fromtimestamp(seen.st_mtime, UTC).isoformat(timespec="seconds")
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        found.append({"path": path, "name": entry.name, "size": seen.st_size, "changed": changed})
        except FileNotFoundError:
            pass
        found.sort(key=lambda file: str(file["name"]))
        files = found[:most]
        return {"found": bool(files), "files": files, "count": len(files), "incomplete": len(found) > most}

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


KIND: Any = FilesKind()
