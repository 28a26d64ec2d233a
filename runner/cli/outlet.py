"""Standard output and error that never keep an event loop waiting, whoever reads them, or nobody does.

A pipe holds 64 KB. Who prints into one that nobody empties stands still, and with the printing all that the process
drives. So lines are handed to a thread, which may stand still in its place.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

MOST = 1_000_000
"""Bytes that are kept for a reader who is late; what comes then is left out, and how much is said."""
PATIENCE = 2.0
"""Seconds that a process which ends waits for its last lines to be read."""

Notice = Callable[[int], str]


def left_out(count: int) -> str:
    """What stands in the place of lines that were left out."""
    what = "1 line was" if count == 1 else f"{count:,} lines were"
    return f"amends: {what} left out here, because nobody read what was written"


class Outlet(io.TextIOBase):
    """A text stream in front of another one's descriptor. `most` None: nothing is left out."""

    def __init__(self, stream: TextIO, most: int | None, notice: Notice) -> None:
        self._to = stream.fileno()
        self._stream, self._most, self._notice = stream, most, notice
        self._part = ""
        self._waiting: deque[bytes] = deque()
        self._held = self._lost = 0
        self._is_left = False
        self._turn = threading.Condition()
        self._writing = threading.Thread(target=self._write_all, name="outlet", daemon=True)
        self._writing.start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As the stream behind it."""
        return self._stream.encoding

    def fileno(self) -> int:
        return self._to

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._turn:
            whole, newline, self._part = (self._part + text).rpartition("\n")
            self._put(whole + newline)
        return len(text)

    def flush(self) -> None:
        with self._turn:
            text, self._part = self._part, ""
            self._put(text)

    def leave(self, patience: float | None) -> None:
        """Ends when all is written, or the reader has not come for so many seconds (None: he is waited for)."""
        self.flush()
        until = None if patience is None else time.monotonic() + patience
        with self._turn:
            self._is_left = True
            self._turn.notify_all()
            while self._held or self._lost:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return
                self._turn.wait(left)

    def _put(self, text: str) -> None:
        if not text:
            return
        data = text.encode(self.encoding, errors="replace")
        if self._most is not None and self._held and self._held + len(data) > self._most:
            self._lost += text.count("\n") or 1
            return
        if self._lost:
            self._keep(self._told_lost())
        self._keep(data)
        self._turn.notify_all()

    def _keep(self, data: bytes) -> None:
        self._waiting.append(data)
        self._held += len(data)

    def _told_lost(self) -> bytes:
        lost, self._lost = self._lost, 0
        return f"{self._notice(lost)}\n".encode(self.encoding, errors="replace")

    def _write_all(self) -> None:
        while (data := self._next()) is not None:
            self._write(data)
            with self._turn:
                self._held -= len(data)
                self._turn.notify_all()

    def _next(self) -> bytes | None:
        with self._turn:
            while not (self._waiting or self._lost or self._is_left):
                self._turn.wait()
            if not self._waiting and self._lost:
                self._keep(self._told_lost())
            data = b"".join(self._waiting)
            self._waiting.clear()
            return data or None

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                select.select([], [self._to], [])
            except OSError:  # whoever read it is gone, or the disk is full: the runs go on
                return


@contextmanager
def never_waiting(
    *, most: int | None = MOST, patience: float | None = PATIENCE, notice: Notice = left_out, pipes_only: bool = False
) -> Iterator[None]:
    """As long as it is held, what is printed and logged is written by a thread; it is given `patience` in the end.

    With `pipes_only` a terminal is left as it is. `notice` words what is said on standard error of lines left out.
    """
    before = sys.stdout, sys.stderr
    made = [
        Outlet(stream, most, notice if stream is sys.stderr else left_out)
        if _has_descriptor(stream) and not (pipes_only and stream.isatty())
        else stream
        for stream in before
    ]
    for stream in before:
        if stream is not None:
            stream.flush()
    sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in made:
            if isinstance(stream, Outlet):
                stream.leave(patience)


def _has_descriptor(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.fileno() >= 0
    except (OSError, ValueError):
        return False
