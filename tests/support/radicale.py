"""A real Radicale (CalDAV) on a free port of 127.0.0.1, with one user and one calendar."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port

USER, PASSWORD = "ops", "right-password"
MAKE = '<?xml version="1.0"?><c:mkcalendar xmlns:c="urn:ietf:params:xml:ns:caldav"/>'


def ask(port: int, method: str, path: str, body: str = "") -> tuple[int, str]:
    """(status, text) as another client sees it."""
    login = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body.encode() or None, method=method, headers={"Authorization": f"Basic {login}"})  # fmt: skip
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


@contextlib.contextmanager
def running_radicale(folder: Path) -> Iterator[int]:
    """Starts one that keeps its files in the folder, and gives its port. The calendar is /ops/bookings/."""
    if importlib.util.find_spec("radicale") is None:
        pytest.skip("there is no Radicale: pip install radicale")
    port = free_port()
    (folder / "users").write_text(f"{USER}:{PASSWORD}\n")
    (folder / "radicale.conf").write_text(
        f"[server]\nhosts = 127.0.0.1:{port}\n[auth]\ntype = htpasswd\nhtpasswd_filename = {folder}/users\n"
        f"htpasswd_encryption = plain\ndelay = 0\n[storage]\nfilesystem_folder = {folder}/kept\n[web]\ntype = none\n"
    )
    command = [sys.executable, "-m", "radicale", "--config", str(folder / "radicale.conf")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    if ask(port, "MKCALENDAR", "/ops/bookings/", MAKE)[0] == 201:
                        break
                time.sleep(0.05)
            yield port
        finally:
            server.terminate()
            server.wait(10)
