"""Values too large for the log: files named by their content, `.amends/artifacts/ab/<sha256>`.

A file is synced, and its folder too, before the event that names it is written. `fit` cuts what must stay inline: the
output of a call that changes something is never a file that could be missing when it is to be undone.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Executable, Select, delete, select
from sqlalchemy.exc import DBAPIError

from runner.contract import Json, canonical
from runner.core.events import CallApplied, CallSettled, Event, payload
from runner.errors import NotFound, StoreCorrupt
from runner.store.anchor import sync_folder, write_synced
from runner.store.database import Database
from runner.store.tables import artifacts

LIMIT = 64 * 1024
"""Bytes of a payload that the log itself carries."""
LARGE = 2**63

WRITING = frozenset({"do", "undo"})
_NAME = re.compile(r"[0-9a-f]{64}")
_ROOM_FOR_THE_REST = 8 * 1024
_CUTS = ((8_000, 400), (2_000, 100), (500, 50), (100, 20), (40, 8), (20, 3), (0, 0))


class Artifacts:
    """The files of one project. `place` is the state folder."""

    def __init__(self, place: Path) -> None:
        self.root = place / "artifacts"
        self._durable: set[Path] = set()
        """Folders whose names this process has synced: whoever made one may have been killed before."""

    def put(self, data: bytes) -> str:
        """Keeps the bytes and returns their digest, once file and folders are on the disk. Raises OSError."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if path.parent not in self._durable:
            self.root.mkdir(mode=0o700, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self.root)
            sync_folder(self.root.parent)
            self._durable.add(path.parent)
        if self._stands(path, digest):
            sync_folder(path.parent)
        else:
            write_synced(path, data)
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes. Raises NotFound, or StoreCorrupt when they are no longer what they were."""
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"the stored file {digest} is not there; restore {path} from a backup") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreCorrupt(f"the stored file {path} was changed or is damaged; restore it from a backup")
        return data

    def has(self, digest: str) -> bool:
        """Whether there is such a file."""
        return self._path(digest).is_file()

    def drop(self, digest: str) -> None:
        """The file goes, if it is there."""
        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        if not _NAME.fullmatch(digest):
            raise NotFound(f"{digest[:80]!r} does not name a stored file: its name is a SHA-256 in hexadecimal")
        return self.root / digest[:2] / digest

    def _stands(self, path: Path, digest: str) -> bool:
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest() == digest
        except OSError:
            return False


class TableArtifacts(Artifacts):
    """The same in a table, where engines on several machines share a database. What stood in files is still found."""

    def __init__(self, place: Path, file: Database, readers: Engine) -> None:
        super().__init__(place)
        self._file = file
        self._readers = readers

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        words = self._file.insert(artifacts).values(digest=digest, content=data).on_conflict_do_nothing()
        self._write(words)
        return digest

    def get(self, digest: str) -> bytes:
        found = self._read(select(artifacts.c.content).where(artifacts.c.digest == digest))
        if found is None:
            return super().get(digest)
        data = bytes(found)
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreCorrupt(f"the stored value {digest} was changed or is damaged; restore it from a backup")
        return data

    def has(self, digest: str) -> bool:
        is_there = select(artifacts.c.digest).where(artifacts.c.digest == digest)
        return self._read(is_there) is not None or super().has(digest)

    def drop(self, digest: str) -> None:
        self._write(delete(artifacts).where(artifacts.c.digest == digest))
        super().drop(digest)

    def _read(self, asked: Select[Any]) -> Any:
        try:
            with self._readers.connect() as connection:
                return connection.execute(asked).scalar()
        except DBAPIError as error:
            raise self._file.translate(error) from None

    def _write(self, words: Executable) -> None:
        engine = self._file.writer()
        try:
            with engine.begin() as connection:
                connection.execute(words)
        except DBAPIError as error:
            raise OSError(errno.EIO, str(self._file.translate(error))) from None
        finally:
            engine.dispose()


def fit(event: Event) -> Event:
    """The event with an output that fits the log, where the output must stay inline; else the event itself.

    The state is folded from what is stored, so whoever folds an outcome before it is read back folds `fit(outcome)`.
    Short values (ids, amounts, dates) survive; long texts and lists are cut, and a note says so.
    """
    if not isinstance(event, CallApplied | CallSettled) or event.purpose not in WRITING or _is_small(event.output):
        return event
    try:
        size = len(canonical(payload(event)))
    except (ValueError, TypeError):
        return event
    if size <= LIMIT:
        return event
    note = f"output cut to fit the log: it was {size:,} bytes"
    if isinstance(event, CallApplied):
        return replace(event, output=_cut_to_fit(event.output), note=note)
    return replace(event, output=_cut_to_fit(event.output), summary=note)


def _is_small(output: Mapping[str, Json]) -> bool:
    """Whether it fits without being written out: a few short values, as most answers are (48,000 bytes at the most)."""
    return len(output) <= 40 and all(
        len(name) <= 100
        and (
            value is None
            or isinstance(value, bool | float)
            or (isinstance(value, str) and len(value) <= 100)
            or (isinstance(value, int) and -LARGE < value < LARGE)
        )
        for name, value in output.items()
    )


def _cut_to_fit(output: Mapping[str, Json]) -> dict[str, Json]:
    for letters, items in _CUTS:
        smaller = {name: _cut(value, letters, items) for name, value in output.items()}
        if len(canonical(smaller)) <= LIMIT - _ROOM_FOR_THE_REST:
            return smaller
    kept: dict[str, Json] = {}
    room = LIMIT - _ROOM_FOR_THE_REST
    for name, value in output.items():
        room -= len(canonical({name: _cut(value, 0, 0)})) + 1
        if room < 0:
            break
        kept[name] = _cut(value, 0, 0)
    return kept


def _cut(value: Json, letters: int, items: int) -> Json:
    if isinstance(value, str):
        return value if len(value) <= max(letters, 200) else f"{value[:letters]}… (cut, it had {len(value):,} letters)"
    if isinstance(value, list):
        return [_cut(item, letters, items) for item in value[:items]]
    if isinstance(value, Mapping):
        return {name: _cut(item, letters, items) for name, item in list(value.items())[:items]}
    return value
