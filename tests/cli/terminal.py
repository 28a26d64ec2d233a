"""The real command line: as a process of its own, or in this one where a second process would only cost time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from runner.cli import run_command
from runner.demo.servers import first_line
from tests.house import ROOT

PROGRAM = (sys.executable, "-c", "from runner.cli import main; main()")
LIMIT = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """The environment of a command."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"} | more


def amends(*words: str, folder: Path, given: str = "", **more: str) -> Said:
    """Runs one command as a process of its own."""
    done = subprocess.run(
        [*PROGRAM, *words], cwd=folder, env=environment(**more), input=given, text=True, capture_output=True,
        timeout=LIMIT,
    )  # fmt: skip
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return Said(code=done.returncode, out=done.stdout, err=done.stderr)


class Terminal:
    """Commands inside this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def type(self, *words: str) -> Said:
        """One command."""
        self._capsys.readouterr()
        code = run_command(["--project", str(self.folder), *words])
        told = self._capsys.readouterr()
        assert "Traceback" not in told.out + told.err, told.err
        return Said(code=code, out=told.out, err=told.err)


class Running:
    """A command that goes on: its first line is awaited, then it is told to end. `first` is what its Python does before;
    `prefix` the program that it is run by."""

    def __init__(self, *words: str, folder: Path, first: str = "", prefix: Sequence[str] = ()) -> None:
        program = (*prefix, *PROGRAM[:2], first + PROGRAM[2])
        self.process = subprocess.Popen(
            [*program, *words], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.first = first_line(self.process, LIMIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, number: int = signal.SIGTERM) -> Said:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=LIMIT)
        assert b"Traceback" not in err + out, err.decode()
        return Said(code=self.process.returncode, out=out.decode(), err=err.decode())
