"""The anchor: a small file beside the database that knows how far the database had come.

Commit numbers are reserved here in blocks before the first one of a block is used, together with the last fence. A
database that stands below its anchor was put back from a copy: what it has forgotten may have happened.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from runner.errors import StoreUnwritable

BLOCK = 1_000
FILE = "anchor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """`start - 1` is a commit that the database `database` surely had; numbers up to `end` may have been used."""

    database: str
    start: int
    end: int
    fence: int


def read_anchor(place: Path) -> Anchor | None:
    """The anchor in the state folder; None when there is none or it cannot be read."""
    try:
        told = json.loads((place / FILE).read_text())
        return Anchor(
            database=str(told["database"]), start=int(told["start"]), end=int(told["end"]), fence=int(told["fence"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_anchor(place: Path, anchor: Anchor) -> None:
    """Writes it so that a crash leaves the old one or the new one, synced to the disk. Raises StoreUnwritable."""
    try:
        write_synced(place / FILE, json.dumps(asdict(anchor)).encode())
    except OSError as problem:
        raise StoreUnwritable(
            f"{place / FILE} cannot be written: {problem.strerror}; nothing of this write was kept"
        ) from None


def reserved(database: str, commit_no: int, fence: int) -> Anchor:
    """The block that follows a commit number."""
    return Anchor(database=database, start=commit_no + 1, end=commit_no + BLOCK, fence=fence)


def why_restored(anchor: Anchor | None, database: str, commit_no: int) -> str:
    """Empty when the database is the one the anchor knows, else one sentence that says what is wrong."""
    if anchor is None:
        return "the database has a history, and its anchor file is missing" if commit_no else ""
    if anchor.database != database:
        return "the database is not the one that was used here before"
    if commit_no < anchor.start - 1:
        return f"the database ends at commit {commit_no}, and commit {anchor.start - 1} was made here before"
    return ""


def write_synced(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, and returns when file and folder are on the disk. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        finally:
            os.close(file)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_once(path: Path, data: bytes) -> None:
    """Writes a file unless it is there already, whoever else is about to; it is on the disk when this returns. Raises
    OSError."""
    if path.exists():
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    write_synced(fresh, data)
    with contextlib.suppress(FileExistsError):
        os.link(fresh, path)
    fresh.unlink()
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
