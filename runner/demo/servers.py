"""Starts the demo's two servers as processes of their own, and speaks to them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import runner
from runner.demo.faults import Fault
from runner.demo.mails import Mail, MailFault, read_ledger
from runner.errors import AmendsError

START_LIMIT = 20.0
"""Seconds a server may take until it says where it listens."""

END_LIMIT = 3.0
"""Seconds a server may take to end before it is killed."""


class ServerFailed(AmendsError):
    """One of the demo's servers did not start or does not answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where the servers listened last, and the token they want. Kept in `servers.json`, so that a project goes on."""

    token: str
    backoffice: int = 0
    smtp: int = 0
    control: int = 0

    @classmethod
    def read(cls, file: Path) -> Places:
        """The places out of the file; new ones where it is missing or unreadable."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        return cls(token=secrets.token_urlsafe(18))

    def write(self, file: Path) -> None:
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")


class Servers:
    """The back office and the mail server. A context manager: leaving it ends both processes.

    Their files stand in `folder`: `back.db`, `mails/*.eml`, `mails/ledger.jsonl`, and what they say in `*.log`.
    """

    def __init__(self, folder: Path, places: Places, processes: list[subprocess.Popen[bytes]]) -> None:
        self.folder = folder
        self.token = places.token
        self.backoffice_url = f"http://127.0.0.1:{places.backoffice}"
        self.smtp_port = places.smtp
        self._places = places
        self._processes = processes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends both processes and waits for them."""
        end(self._processes)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids, back office first."""
        return tuple(process.pid for process in self._processes)

    def ledger(self) -> dict[str, Any]:
        """What the back office truly did: `effects` in order, `by_key`, `requests`, `requests_by_path`, …"""
        return self._ask(self._places.backoffice, "GET", "/_ledger")

    def mails(self) -> list[Mail]:
        """The mails that were accepted, in order; readable after the servers have ended, too."""
        return read_ledger(self.folder / "mails")

    def turned_away(self) -> list[dict[str, Any]]:
        """The recipients that the mail server refused: `to` and `reply`."""
        found: list[dict[str, Any]] = self._ask(self._places.control, "GET", "/_ledger")["turned_away"]
        return found

    def control(self, fault: Fault | MailFault) -> None:
        """Arms a fault at the server it is meant for. Raises `ServerFailed` where the server refuses it."""
        if isinstance(fault, Fault):
            port = self._places.backoffice
        else:
            port = self._places.control
        self._ask(port, "POST", "/_control", asdict(fault))

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One request to the back office, as its owner would make it by hand."""
        return self._ask(self._places.backoffice, method, path, body)

    def _ask(self, port: int, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerFailed(f"The demo's server on port {port} does not answer {method} {path}.") from error
        finally:
            connection.close()
        if response.status >= 400:
            raise ServerFailed(f"{method} {path} was refused by the demo's server: {answer.get('message', '')}")
        return answer


def start_servers(folder: Path) -> Servers:
    """Starts both servers on free loopback ports, with their files in `folder`.

    A folder used before gets its old ports again where they are free, so that its project still fits. The servers end
    with `Servers.close`, and also by themselves when this process is gone. Raises `ServerFailed`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = Places.read(folder / "servers.json")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        office = ["backoffice", "--file", str(folder / "back.db")]
        (port,) = _start(folder, office, [("--port", before.backoffice)], before.token, processes)
        mail = ["mailserver", "--folder", str(folder / "mails")]
        ports = [("--port", before.smtp), ("--control-port", before.control)]
        smtp, control = _start(folder, mail, ports, before.token, processes)
    except BaseException:
        end(processes)
        raise
    places = Places(token=before.token, backoffice=port, smtp=smtp, control=control)
    places.write(folder / "servers.json")
    return Servers(folder, places, processes)


def _start(
    folder: Path,
    words: list[str],
    ports: list[tuple[str, int]],
    token: str,
    processes: list[subprocess.Popen[bytes]],
) -> list[int]:
    """Starts one server, on the ports given or else on free ones; gives the ports it names."""
    wanted = [[str(word) for pair in ports for word in pair]]
    if any(port for _, port in ports):
        wanted.append([word for name, _ in ports for word in (name, "0")])
    for arguments in wanted:
        process = _spawn(folder, [*words, *arguments], token)
        line = first_line(process)
        if line:
            processes.append(process)
            return [int(word) for word in line.split()]
        end([process])
    raise ServerFailed(f"The demo's {words[0]} did not start; {folder / f'{words[0]}.log'} says why.")


def _spawn(folder: Path, words: list[str], token: str) -> subprocess.Popen[bytes]:
    place = str(Path(runner.__file__).resolve().parent.parent)
    path = os.pathsep.join(part for part in (place, os.environ.get("PYTHONPATH", "")) if part)
    environment = os.environ | {"BACKOFFICE_TOKEN": token, "MAILSERVER_TOKEN": token, "PYTHONPATH": path}
    command = [sys.executable, "-m", f"runner.demo.{words[0]}", *words[1:], "--until-stdin-closes"]
    with (folder / f"{words[0]}.log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
        )


def first_line(process: subprocess.Popen[bytes], limit: float = START_LIMIT) -> str:
    """The first line a process prints, or nothing where it ends or takes longer than `limit` seconds."""
    stream: IO[bytes] | None = process.stdout
    if stream is None:
        return ""
    until = time.monotonic() + limit
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not said.endswith(b"\n") and selector.select(max(0.0, until - time.monotonic())):
            more = os.read(stream.fileno(), 1)
            if not more:
                return ""
            said += more
    return said.decode().strip() if said.endswith(b"\n") else ""


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Ends the processes: asked first, killed after `END_LIMIT` seconds; none is left."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
