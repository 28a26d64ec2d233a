"""A MariaDB of a test's own on a free port of 127.0.0.1, where the machine has one (apt install mariadb-server)."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.postgres import PASSWORD, USER

PROGRAM = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")


@contextlib.contextmanager
def running_mariadb() -> Iterator[int]:
    """Starts one with the database `shop` and gives its port. As root it runs as the user nobody."""
    if PROGRAM is None:
        pytest.skip("there is no MariaDB here: apt install mariadb-server")
    share, user = Path(PROGRAM).parents[1] / "share" / "mysql", "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="amends-maria-"))
    try:
        data = folder / "data"
        data.mkdir()
        for path in (folder, data):
            if user:
                shutil.chown(path, user)
        people = "".join(
            f"create user {USER}@'{host}' identified by '{PASSWORD}';\ngrant all on shop.* to {USER}@'{host}';\n"
            for host in ("127.0.0.1", "localhost")
        )
        begin = "create database mysql;\nuse mysql;\n" + "".join((share / name).read_text() for name in TABLES)
        begin += f"create database shop character set utf8mb4;\nflush privileges;\n{people}"
        command = [PROGRAM, "--no-defaults", f"--datadir={data}", f"--lc-messages-dir={share}"]
        made = subprocess.run([*command, "--bootstrap"], input=begin.encode(), capture_output=True, cwd="/", user=user)
        if made.returncode:
            pytest.skip(f"MariaDB cannot be set up here: {made.stderr.decode(errors='replace')[-200:]}")
        port = free_port()
        command += ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder}/s", f"--pid-file={folder}/p"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", user=user)
            try:
                for _ in range(300):
                    if "ready for connections" in (folder / "log").read_text(errors="replace"):
                        break
                    time.sleep(0.05)
                yield port
            finally:
                server.terminate()
                server.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
