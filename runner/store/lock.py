"""The engine's lock: whoever holds it is the only writing process of this project folder.

It is an operating system lock on `.amends/engine.lock`, so it is free the moment its holder is dead, however it died.
The file says who holds it and where it listens, so that other commands can hand their facts over.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from runner.errors import StoreUnwritable

FILE = "engine.lock"


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """The process that holds the lock. `socket` is the path it listens at, or empty. `since` is ms since the epoch."""

    pid: int
    socket: str
    since: int


class EngineLock:
    """The lock of one project. `folder` is the project's folder; the lock stands in its `.amends`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".amends" / FILE
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None

    def acquire(self, socket: str = "") -> bool:
        """Takes the lock if it is free and writes down who holds it. False: another process (or object) has it.

        Raises StoreUnwritable.
        """
        if self._file is not None:
            return True
        try:
            return self._take(socket)
        except OSError as error:
            self.release()
            raise StoreUnwritable(f"{self.path} cannot be written: {error.strerror or error}") from None

    def _take(self, socket: str) -> bool:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._file = file
        self.announce(socket)
        return True

    def announce(self, socket: str) -> None:
        """Writes down where the holder listens. Only while the lock is held."""
        if self._file is None:
            raise RuntimeError("the engine lock is not held")
        text = json.dumps({"pid": os.getpid(), "socket": socket, "since": time.time_ns() // 1_000_000})
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text.encode(), 0)

    def holder(self) -> Holder | None:
        """Who holds the lock, as the file says; None when it does not say or that process is gone."""
        try:
            told = json.loads(self.path.read_text())
            found = Holder(pid=int(told["pid"]), socket=str(told["socket"]), since=int(told["since"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if _is_alive(found.pid) else None

    def release(self) -> None:
        """Gives the lock back. Harmless when it is not held."""
        if self._file is None:
            return
        file, self._file = self._file, None
        os.ftruncate(file, 0)
        os.close(file)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
