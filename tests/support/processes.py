"""The support services as processes of their own: started, asked and ended; none is left behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from runner.demo.servers import end, first_line
from tests.support.says import Say

ROOT = Path(__file__).resolve().parents[2]


class ServiceProcess:
    """A module of this package run with `python -m`. `ports` is what it says on its first line."""

    def __init__(self, module: str, *arguments: str) -> None:
        path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.support.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,
        )
        said = first_line(self.process)
        if not said:
            self.close()
            raise RuntimeError(f"{module} did not start")
        self.ports = [int(word) for word in said.split()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process and waits for it."""
        end([self.process])


class HttpProcess(ServiceProcess):
    """The scripted HTTP service in its own process."""

    def __init__(self, *, keeps_keys: bool = True, keep_requests: bool = True) -> None:
        words = [] if keeps_keys else ["--ignores-keys"]
        super().__init__("http_service", *words, *([] if keep_requests else ["--counts-only"]))
        self.port = self.ports[0]
        self.origin = f"http://127.0.0.1:{self.port}"

    def script(self, match: str, *says: Say, always: Say | None = None) -> None:
        told = {"match": match, "says": [say.as_json() for say in says], "always": always and always.as_json()}
        self.ask("POST", "/_script", told)

    def ledger(self) -> dict[str, Any]:
        """See `HttpService.ledger`."""
        ledger: dict[str, Any] = self.ask("GET", "/_ledger")
        return ledger

    def requests(self) -> list[dict[str, Any]]:
        """Every request seen, oldest first."""
        requests: list[dict[str, Any]] = self.ask("GET", "/_requests")
        return requests

    def reset(self) -> None:
        self.ask("POST", "/_reset")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request with a JSON body; the answer's JSON."""
        return ask(self.port, method, path, body)


class SmtpProcess(ServiceProcess):
    """The scripted SMTP service in its own process; its ledger is the file `ledger`, its script the file `script`."""

    def __init__(self, folder: Path, **script: Any) -> None:
        self.ledger_file = folder / "smtp-ledger.jsonl"
        self.script_file = folder / "smtp-script.json"
        self.script(**script)
        super().__init__("smtp_service", "--ledger", str(self.ledger_file), "--script", str(self.script_file))
        self.port = self.ports[0]

    def script(self, **script: Any) -> None:
        """Replaces the script; fields as in `SmtpScript`. It holds from the next connection on."""
        beside = self.script_file.with_suffix(".new")
        beside.write_text(json.dumps(script), encoding="utf-8")
        beside.replace(self.script_file)

    def mails(self) -> list[dict[str, Any]]:
        """The messages that were accepted, oldest first."""
        lines = self.ledger_file.read_text(encoding="utf-8").splitlines() if self.ledger_file.exists() else []
        return [json.loads(line) for line in lines]


class OidcProcess(ServiceProcess):
    """A provider of sign-ins, and whoever stands in front of it."""

    def __init__(self, *options: str) -> None:
        super().__init__("oidc_provider", *options)
        self.origin = f"http://127.0.0.1:{self.ports[0]}"

    def plant(self, **what: Any) -> None:
        """From now on answers are changed like this, and only like this."""
        self.ask("PUT", "/planted", what)

    def asked(self) -> list[str]:
        """The paths of every request so far."""
        found: list[str] = self.ask("GET", "/asked")
        return found

    def know(self, sub: str, **claims: Any) -> None:
        """Has the provider know somebody."""
        self.ask("PUT", f"/users/{sub}", claims)

    def sign_in(self, address: str, sub: str) -> str:
        """What somebody does at the provider; where the browser is sent then."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}" == self.origin
        connection = http.client.HTTPConnection(parts.netloc, timeout=10)
        try:
            headers = {"content-type": "application/x-www-form-urlencoded"}
            connection.request("POST", f"{parts.path}?{parts.query}", f"sub={sub}", headers)
            answer = connection.getresponse()
            assert answer.status == 302, answer.read()
            return answer.headers["Location"]
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request with a JSON body; the answer's JSON."""
        return ask(self.ports[0], method, path, body)


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    """One request with a JSON body to a service here; the answer's JSON, None for none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers = {"content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        said = connection.getresponse().read()
        return json.loads(said) if said else None
    finally:
        connection.close()


def until_it_listens(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Waits, 90 s at most. Raises RuntimeError with the end of its log."""
    for _ in range(900):
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"{server.args!r} does not start: {log.read_text(errors='replace')[-2000:]}")
