"""What a power cut leaves of a folder: the shim's journal of writes and syncs, replayed up to a point.

Durable is what was synced. Of the rest each write may have reached the disk or not, whole or by sectors, and of the names
that were made in a folder since its last sync a first part. After a sync that failed the disk may lack what the file
still shows, though a later sync succeeds, until it is written again.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEAD = struct.Struct("<BQqIQ")
CREATE, WRITE, CUT, SYNC, RENAME, UNLINK, MKDIR, NOTE, LINK, LOST = range(1, 11)
SECTOR, PAGE = 512, 4096
NOTHING, ALL, SOME, TORN = range(4)
"""How much of what was not synced is left."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call: `file` is an inode, `at` a place or a size, `name` a path (a note: its text)."""

    kind: int
    file: int
    at: int
    name: str
    data: bytes


def read(path: Path) -> list[Entry]:
    """The journal, without an entry that was cut short."""
    return list(_entries(path.read_bytes()))


def _entries(raw: bytes) -> Iterator[Entry]:
    at = 0
    while at + HEAD.size <= len(raw):
        kind, file, place, name, size = HEAD.unpack_from(raw, at)
        begin = at + HEAD.size
        at = begin + name + size
        if at <= len(raw):
            yield Entry(kind, file, place, raw[begin : begin + name].decode(), raw[begin + name : at])


@dataclass(slots=True, eq=False)
class File:
    """What is surely on the disk, what was written since, and the sectors of which the disk may have an older state."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Entry] = field(default_factory=list)
    doubtful: dict[int, bytes] = field(default_factory=dict)

    def sync(self) -> None:
        for entry in self.pending:
            if entry.kind == WRITE:
                first, last = entry.at // PAGE, (entry.at + len(entry.data) - 1) // PAGE
                for sector in range(first * PAGE // SECTOR, (last + 1) * PAGE // SECTOR):
                    self.doubtful.pop(sector, None)
            _apply(self.durable, entry)
        self.pending.clear()

    def lose(self) -> None:
        """A sync has failed: what was to be written counts as clean, and may never get to the disk."""
        for entry in self.pending:
            if entry.kind == WRITE:
                for sector in range(entry.at // SECTOR, (entry.at + len(entry.data) - 1) // SECTOR + 1):
                    self.doubtful.setdefault(sector, bytes(self.durable[sector * SECTOR : (sector + 1) * SECTOR]))
            _apply(self.durable, entry)
        self.pending.clear()

    def left(self, how: int, rng: random.Random) -> bytes:
        found = bytearray(self.durable)
        for sector, before in self.doubtful.items():
            if how == NOTHING or (how != ALL and rng.random() < 0.5):
                room = found[sector * SECTOR : (sector + 1) * SECTOR]
                found[sector * SECTOR : (sector + 1) * SECTOR] = before.ljust(len(room), b"\0")[: len(room)]
        for entry in self.pending if how != NOTHING else ():
            if how == TORN and entry.kind == WRITE:
                for begin in range(0, len(entry.data), SECTOR):
                    if rng.random() < 0.5:
                        _put(found, entry.at + begin, entry.data[begin : begin + SECTOR])
            elif how == ALL or rng.random() < 0.5:
                _apply(found, entry)
        return bytes(found)


def _apply(content: bytearray, entry: Entry) -> None:
    if entry.kind == WRITE:
        _put(content, entry.at, entry.data)
    elif entry.at < len(content):
        del content[entry.at :]
    else:
        content.extend(bytes(entry.at - len(content)))


def _put(content: bytearray, at: int, data: bytes) -> None:
    if at > len(content):
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


class Disk:
    """The folder `root` as it goes through the journal."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: dict[int, File] = {}
        self.now: dict[str, File | None] = {root: None}
        self.names: dict[str, File | None] = {root: None}
        self._since: list[tuple[str, str, File | None, bool]] = []

    def play(self, entry: Entry) -> None:
        """One call more."""
        if entry.kind == CREATE:
            self.files[entry.file] = File()
            self._name(entry.name, self.files[entry.file])
        elif entry.kind == MKDIR:
            self._name(entry.name, None)
        elif entry.kind == UNLINK:
            self._name(entry.name, None, gone=True)
        elif entry.kind == RENAME:
            file = self.now.get(entry.name)
            self._name(entry.data.decode(), file)
            self._name(entry.name, None, gone=True)
        elif entry.kind == LINK:
            self._name(entry.data.decode(), self.now.get(entry.name))
        elif entry.kind == SYNC and self._is_folder(entry.name):
            for parent, name, file, gone in self._since:
                if parent == entry.name:
                    _keep(self.names, name, file, gone=gone)
            self._since = [each for each in self._since if each[0] != entry.name]
        elif entry.file in self.files:
            file = self.files[entry.file]
            if entry.kind == SYNC:
                file.sync()
            elif entry.kind == LOST:
                file.lose()
            else:
                file.pending.append(entry)

    def _is_folder(self, name: str) -> bool:
        return name in self.now and self.now[name] is None

    def _name(self, name: str, file: File | None, *, gone: bool = False) -> None:
        _keep(self.now, name, file, gone=gone)
        self._since.append((name.rpartition("/")[0], name, file, gone))

    def leave(self, folder: Path, how: int, rng: random.Random) -> None:
        """Writes what a cut leaves into an empty folder that stands for the root."""
        names = dict(self.names)
        waiting = [*self._since]
        kept = {NOTHING: 0, ALL: len(waiting)}.get(how, rng.randint(0, len(waiting)))
        for _, name, file, gone in waiting[:kept]:
            _keep(names, name, file, gone=gone)
        for name in sorted(names):
            path, file = folder / name[len(self.root) :].lstrip("/"), names[name]
            if not path.parent.is_dir() and path != folder:
                continue
            if file is None:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(file.left(how, rng))


def _keep(names: dict[str, File | None], name: str, file: File | None, *, gone: bool) -> None:
    if gone:
        names.pop(name, None)
    else:
        names[name] = file
