"""The anchor: a small file beside the database that knows how far the database had come.

Commit numbers are reserved here in blocks before the first one of a block is used, together with the last fence. A
database that stands below its anchor was put back from a copy: what it has forgotten may have happened. The anchor
knows the folder it was written in too: one that was copied, or moved to another machine, asks before it does anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from runner.errors import StoreUnwritable

BLOCK = 1_000
FILE = "anchor"
MACHINE = ("/etc/machine-id", "/var/lib/dbus/machine-id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """`start - 1` is a commit that the database `database` surely had; numbers up to `end` may have been used.

    `home` is where it was written, see `home_of`; empty in those of older versions.
    """

    database: str
    start: int
    end: int
    fence: int
    home: tuple[str, str, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Restoration:
    """At `at` a person let the database go on. What happened after `since` (ms, both) may be missing in it.

    `why` it was stopped; `whole`: nothing is missing, but the folder is a copy of one that may have gone on.
    """

    at: int
    since: int
    why: str
    whole: bool


@lru_cache(maxsize=1)
def machine() -> str:
    """This machine, as a digest of the id that its system gave it; empty where it has none."""
    for name in MACHINE:
        try:
            if told := Path(name).read_text().strip():
                return hashlib.sha256(f"amends {told}".encode()).hexdigest()[:16]
        except OSError:
            continue
    return ""


def home_of(place: Path) -> tuple[str, str, str]:
    """Machine, path and identity of a state folder. A copy has another identity, and elsewhere another path too."""
    found = place.stat()
    return machine(), str(place.resolve()), f"{found.st_dev}:{found.st_ino}"


def why_elsewhere(anchor: Anchor | None, place: Path) -> str:
    """Empty where the folder is the one in which the anchor was written, else one sentence that says what is wrong.

    After a start of the machine the same disk may have another number, and a folder may be renamed: path or identity is
    enough.
    """
    if anchor is None or anchor.home is None:
        return ""
    (there, path, _), here = anchor.home, home_of(place)
    if there and here[0] and there != here[0]:
        return f"the folder was used on another machine before, as {path}"
    return (
        "" if any(a == b for a, b in zip(anchor.home[1:], here[1:], strict=True)) else f"the folder is a copy of {path}"
    )


def read_anchor(place: Path) -> Anchor | None:
    """The anchor in the state folder; None when there is none or it cannot be read."""
    try:
        told = json.loads((place / FILE).read_text())
        home = told.get("home")
        return Anchor(
            database=str(told["database"]), start=int(told["start"]), end=int(told["end"]), fence=int(told["fence"]),
            home=(str(home[0]), str(home[1]), str(home[2])) if home else None,
        )  # fmt: skip
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def keep_anchor(place: Path, anchor: Anchor) -> None:
    """Writes it, with where this is, so that a crash leaves the old one or the new one, synced to the disk. Raises
    StoreUnwritable."""
    try:
        write_synced(place / FILE, json.dumps(asdict(anchor) | {"home": home_of(place)}).encode())
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
