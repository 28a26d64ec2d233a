"""A command that starts processes leaves none, however it ends: by itself, told to stop (SIGTERM, Ctrl-C), or killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

GRACE, LAST = 15.0, 5.0
"""Seconds that the command gets to put its things away, and that what is left then gets to end by itself."""
LOOK = 0.05
SET_DEATH_SIGNAL, SET_SUBREAPER = 1, 36
"""What prctl(2) of Linux calls PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leaves_none(command: Callable[[], int]) -> int:
    """The command's exit code; 128 and the signal's number where it was told to stop, or killed.

    It runs in a child of this process, which inherits what is left of it. Elsewhere than on Linux it runs here.
    """
    if sys.platform != "linux":
        return command()
    watching = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    child = os.fork()
    if child == 0:
        return _obeying(watching, command)
    told = list[int]()

    def stop(number: int, frame: FrameType | None) -> None:
        told.append(number)
        with contextlib.suppress(ProcessLookupError):  # again: it has had its time
            os.killpg(child, signal.SIGINT if len(told) == 1 else signal.SIGKILL)

    ctypes.CDLL(None).prctl(SET_SUBREAPER, 1)
    with contextlib.suppress(OSError):  # it has done so itself
        os.setpgid(child, child)
    for number in STOPS:
        signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    code = _code_of(child, told)
    _end_all()
    if told or code < 0:
        return 128 + (told[0] if told else -code)
    return code


def _obeying(watching: int, command: Callable[[], int]) -> int:
    """In the child, a group of its own: what starts no session of its own is told to stop together with it."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where whoever began us ignores it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGINT)
    try:
        return command() if os.getppid() == watching else 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 1


def _code_of(child: int, told: list[int]) -> int:
    """Waits until it has ended; once it is told to stop, for so long."""
    until = 0.0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if told:
            until = until or time.monotonic() + GRACE
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
        time.sleep(LOOK)


def _end_all() -> None:
    """Whoever is left: asked, then killed. As each ends, what it had started is inherited here."""
    until, asked = time.monotonic() + LAST, set[int]()
    while left := descendants(os.getpid()):
        for process in left:
            if time.monotonic() > until:
                _send(process, signal.SIGKILL)
            elif process not in asked:
                asked.add(process)
                _send(process, signal.SIGINT)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(LOOK)


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def descendants(of: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            children.setdefault(int((each / "stat").read_text().rpartition(")")[2].split()[1]), []).append(
                int(each.name)
            )
    found, left = list[int](), [of]
    while left:
        found += (more := children.get(left.pop(), []))
        left += more
    return found
