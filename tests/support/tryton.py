"""A real Tryton with the module party, on a free port of 127.0.0.1 and a database of its own."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import http.client
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port
from tests.support.processes import until_it_listens

USER, PASSWORD, DATABASE = "admin", "right-password", "crm"


@dataclass(kw_only=True)
class Tryton:
    """A running server, asked by a client of the test's own."""

    port: int
    place: Path
    _session: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, *params: Any) -> Any:
        """The result of one method of JSON-RPC. Raises RuntimeError with the server's error."""
        if not self._session:
            self._session = {"authorization": "-"}
            user, key, *_ = self.call("common.db.login", USER, {"password": PASSWORD})
            said = base64.b64encode(f"{USER}:{user}:{key}".encode()).decode()
            self._session = {"authorization": f"Session {said}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            body = json.dumps({"id": 1, "method": method, "params": params})
            head = {"content-type": "application/json"} | (self._session if method != "common.db.login" else {})
            connection.request("POST", f"/{DATABASE}/rpc/", body, head)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def parties(self, email: str) -> list[Any]:
        """Every party with this mail address, the archived ones too."""
        with_it = ["contact_mechanisms", "where", [["type", "=", "email"], ["value", "=", email]]]
        fields = ["name", "email", "active"]
        found: list[Any] = self.call(
            "model.party.party.search_read", [with_it, ["active", "in", [True, False]]], 0, None, None, fields, {}
        )
        return found

    def party(self, name: str, email: str) -> None:
        """Makes a party that is not ours."""
        by_mail = [["create", [{"type": "email", "value": email}]]]
        self.call("model.party.party.create", [{"name": name, "contact_mechanisms": by_mail}], {})

    def end_sessions(self) -> None:
        """Every session that was given is over."""
        with contextlib.closing(sqlite3.connect(self.place / "db" / f"{DATABASE}.sqlite")) as own:
            own.execute("delete from ir_session")
            own.commit()
        self._session = {}


@contextlib.contextmanager
def running_tryton(place: Path) -> Iterator[Tryton]:
    """Starts one that keeps its files in the folder."""
    if importlib.util.find_spec("trytond") is None:
        pytest.skip("there is no Tryton: pip install trytond trytond-party")
    port = free_port()
    (place / "db").mkdir()
    shutil.copyfile(_fresh_database(), place / "db" / f"{DATABASE}.sqlite")
    command = [*_program("trytond.cli"), "-c", str(_config(place, port)), "-d", DATABASE]
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until_it_listens(port, server, place / "log")
            yield Tryton(port=port, place=place)
        finally:
            server.terminate()
            server.wait(10)


LAUNCH = """
import functools, sys
import pwdlib.hashers.argon2 as argon2
sys.modules["email_validator"] = None  # by which it would ask for the mail servers of every address
argon2.Argon2Hasher = functools.partial(argon2.Argon2Hasher, time_cost=1, memory_cost=1024)  # a log-in took 0.6 s
from {module} import main
main()
"""


def _program(module: str) -> list[str]:
    """Tryton's command."""
    return [sys.executable, "-W", "ignore", "-c", LAUNCH.format(module=module)]


def _config(place: Path, port: int) -> Path:
    file = place / "tryton.cfg"
    file.write_text(f"[database]\nuri = sqlite://\npath = {place}/db\n[web]\nlisten = 127.0.0.1:{port}\n")
    return file


def _fresh_database() -> Path:
    """A database with nothing in it yet: it takes 7 s to make, so it is kept beside the virtual environment."""
    kept = Path(sys.prefix) / f"tryton-{version('trytond')}-{version('trytond-party')}.sqlite"
    with (kept.with_suffix(".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            work = kept.with_suffix(".work")
            shutil.rmtree(work, ignore_errors=True)
            (work / "db").mkdir(parents=True)
            (work / "pass").write_text(PASSWORD)
            made = work / "db" / f"{DATABASE}.sqlite"
            made.touch()
            command = [
                *_program("trytond.cli.admin"),
                "-c",
                str(_config(work, 1)),
                "-d",
                DATABASE,
                "-u",
                "ir",
                "res",
                "party",
            ]
            command += ["--activate-dependencies", "--email", "admin@example.test"]
            env = os.environ | {"TRYTONPASSFILE": str(work / "pass")}
            subprocess.run(command, check=True, capture_output=True, env=env)
            made.replace(kept)
            shutil.rmtree(work)
    return kept
