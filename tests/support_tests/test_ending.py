"""What a command has started ends with it, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.house import ROOT
from tests.support.ending import leaves_none

MARK, ME = "TESTS_ENDING", "tests.support_tests.test_ending"
ENDS_LATE = 30
"""Seconds that it may take on a busy machine."""
STUBBORN = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; print('up', flush=True); time.sleep(600)"
ORPHAN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], start_new_session=True)"


def command(last: str) -> int:
    """Starts one of another session whose parent has ended, and ends so itself."""
    begun = subprocess.Popen([sys.executable, "-c", ORPHAN], start_new_session=True, stdout=subprocess.PIPE)
    assert begun.stdout is not None
    assert begun.stdout.readline() == b"up\n"
    print("begun", flush=True)
    try:
        if last == "waits":
            time.sleep(600)
        if last == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if last == "raises":
            raise RuntimeError("it went wrong")
    finally:
        print("put away", flush=True)
    return 3


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    yield mark
    for process in _marked(mark):
        os.kill(process, signal.SIGKILL)


def _marked(mark: str) -> list[int]:
    """The processes of this test, whoever is their parent now."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (each / "environ").read_bytes().split(b"\0"):
                found.append(int(each.name))
        except OSError:
            continue
    return found


@contextlib.contextmanager
def _begun(mark: str, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A command, and what it says."""
    with subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, env=os.environ | {MARK: mark}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("last", "told", "code", "says"),
    [
        ("ends", None, 3, b"put away\n"),
        ("raises", None, 1, b"put away\n"),
        ("kill", None, 128 + signal.SIGKILL, b""),
        ("waits", signal.SIGTERM, 128 + signal.SIGTERM, b"put away\n"),
        ("waits", signal.SIGINT, 128 + signal.SIGINT, b"put away\n"),
        ("waits", signal.SIGHUP, 128 + signal.SIGHUP, b"put away\n"),
    ],
)
def test_nothing_is_left_of_it(mark: str, last: str, told: int | None, code: int, says: bytes) -> None:
    with _begun(mark, ME, last) as (process, said):
        assert said.readline() == b"begun\n"
        if told is not None:
            process.send_signal(told)
        assert (said.read(), process.wait(ENDS_LATE)) == (says, code)
        assert _marked(mark) == []


@pytest.mark.timeout(90)
def test_it_is_told_to_stop_by_the_death_of_whoever_watches_it(mark: str) -> None:
    with _begun(mark, ME, "waits") as (process, said):
        assert said.readline() == b"begun\n"
        process.kill()
        assert said.readline() == b"put away\n"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "words",
    [
        ("tests.trust", "scenes", "--only", "tests/cases/test_engine_h.py"),
        ("tests.bench", "all", "--size", "100000", "--database", "postgresql"),
    ],
)
def test_what_a_suite_or_a_bench_has_started_ends_with_it(mark: str, words: tuple[str, ...]) -> None:
    with _begun(mark, *words) as (process, _):
        until = time.monotonic() + 60
        while not any(b"postgres" in _program(one) for one in _marked(mark)):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
        assert process.wait(ENDS_LATE) == 128 + signal.SIGTERM
        assert _marked(mark) == []


def _program(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(leaves_none(lambda: command(sys.argv[1])))
