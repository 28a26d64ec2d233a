"""The PostgreSQL of the suite `disk`: how it is hurt. Its log is written over the shim, its tables lie on a small disk."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.support.postgres import Postgres, running_postgres
from tests.trust import shim

SMALL = "48m"
"""As large as the disk of the tables is."""
SLOW = 150
"""ms that a commit takes."""
Mend = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server with a database `amends`. `disk` is the folder of its tables where that is a disk of its own."""

    running: Postgres
    control: shim.Control
    disk: Path | None

    @property
    def address(self) -> str:
        """The address of the database."""
        return f"{self.running.address}/amends"

    def say(self, *words: str) -> None:
        """As the superuser, in a session that may write whatever the server's setting is."""
        with psycopg.connect(f"{self.running.address}/postgres", autocommit=True) as connection:
            for word in ("SET default_transaction_read_only = off", *words):
                connection.execute(word.encode())

    def gone(self) -> Mend:
        """It is stopped: connections break, and new ones are refused."""
        self.running.stop()
        return self.running.begin

    def read_only(self) -> Mend:
        """Nothing may be written, in the sessions that are open either."""
        self.say("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
        return lambda: self.say("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")

    def locked(self) -> Mend:
        """Somebody else keeps the rows that every write needs."""
        holder = psycopg.connect(self.address)
        for name in ("meta", "engines", "runs"):
            holder.execute(f"SELECT * FROM {name} FOR UPDATE".encode())
        return holder.close

    def slow(self) -> Mend:
        """Every sync of its log takes long."""
        self.control.slow(SLOW)
        return self.control.mend

    def full(self) -> Mend:
        """The disk of its tables has no room for another page."""
        assert self.disk is not None
        filler = self.disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        return filler.unlink

    def log_full(self) -> Mend:
        """Its log cannot be written, so it breaks down; it does not come back before there is room."""
        self.control.refuse(errno.ENOSPC, shim.WRITES | shim.SYNCS)

        def mend() -> None:
            self.control.mend()
            self.running.stop()
            self.running.begin()

        return mend


@contextlib.contextmanager
def hurt_server() -> Iterator[Server]:
    """One that is begun over the shim. Its tables lie on a disk of their own where this user may mount one."""
    with contextlib.ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        place.chmod(0o755)  # the server is another user
        control = shim.Control(place, place)
        opened.callback(control.close)
        (place / "shim-control").chmod(0o666)
        disk = opened.enter_context(_disk(place))
        running = opened.enter_context(
            running_postgres(
                is_durable=True,
                environment=lambda data: {**control.environment, "AMENDS_SHIM_FOLDER": str(data / "pg_wal")},
            )
        )
        server = Server(running=running, control=control, disk=disk)
        opened.callback(control.mend)
        if disk is None:
            server.say("CREATE DATABASE amends")
        else:
            server.say(f"CREATE TABLESPACE small LOCATION '{disk}'", "CREATE DATABASE amends TABLESPACE small")
        yield server


@contextlib.contextmanager
def _disk(place: Path) -> Iterator[Path | None]:
    disk = place / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "amends-disk", str(disk)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        shutil.chown(disk, "nobody")
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], capture_output=True, check=False)
