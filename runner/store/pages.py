"""Where the pages of a project are, as long as `amends serve` runs in its folder: `.amends/pages.lock` says it.

Who serves has the file locked, so what it says counts for nothing the moment that process is dead, however it died.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from runner.language.settings import Settings

FILE = "pages.lock"


@contextlib.contextmanager
def served_at(folder: Path, address: str) -> Iterator[None]:
    """As long as it is held, people reach the pages of the project in this folder at the address."""
    try:
        file = os.open(folder / ".amends" / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # then links lead where amends.yaml says
        yield
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH)  # shared: several may serve, and the last one that came is named
        os.ftruncate(file, 0)
        os.pwrite(file, address.encode(), 0)
        yield
    finally:
        if os.pread(file, len(address) + 1, 0) == address.encode():
            os.ftruncate(file, 0)
        os.close(file)


def pages_of(folder: Path, settings: Settings) -> str:
    """Where people reach the pages: public_url or, where amends.yaml names none, where they are served now."""
    found = "" if settings.has_public_url else _served(folder / ".amends" / FILE)
    return (found or settings.public_url).rstrip("/")


def _served(path: Path) -> str:
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().decode(errors="replace")
    except OSError:
        pass
    return ""
