"""A person agrees to a connection at the service's own pages; the browser comes back to this computer with a code.

Authorisation code with PKCE. Only what brings our `state` back counts; whatever else knocks meanwhile is sent away.
"""

from __future__ import annotations

import hmac
import secrets
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

from runner.cli import page
from runner.contract import Connector, Consenting
from runner.errors import NotPossible

PATIENCE = 600
"""Seconds that somebody may take."""
PATH = "/connected"
HOSTS = ("127.0.0.1", "localhost")


class _Door(HTTPServer):
    """Listens until the browser comes back with our state. `told` is what it brought."""

    def __init__(self, port: int, state: str) -> None:
        super().__init__(("127.0.0.1", port), _Knock)
        self.state = state
        self.told: dict[str, str] = {}


class _Knock(BaseHTTPRequestHandler):
    server: _Door
    timeout = 5

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        told = {name: values[0] for name, values in parse_qs(parts.query).items()}
        is_ours = parts.path == PATH and hmac.compare_digest(told.get("state", "").encode(), self.server.state.encode())
        if is_ours:
            self.server.told = told
        text = "This window can be closed; the terminal says how it went." if is_ours else "Nothing is here."
        self.send_response(200 if is_ours else 404)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        """Addresses carry codes, so they are not written."""


async def agree(connector: Connector, name: str, *, host: str, port: int) -> None:
    """Prints the address to open, waits for the browser, and takes what it brings. Raises NotPossible, NoToken."""
    if not isinstance(connector, Consenting):
        raise NotPossible(f"{name} needs nobody's consent")
    if host not in HOSTS:
        raise NotPossible(f'--host "{host}" must be {" or ".join(HOSTS)}: the browser comes back to this computer')
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    try:
        door = _Door(port, state)
    except OSError as error:
        raise NotPossible(
            f"nothing can listen at port {port} here ({error.strerror}); name another one: --port"
        ) from None
    with door:
        back = f"http://{host}:{door.server_port}{PATH}"
        page.say(
            "Open this address and agree:", "", connector.consent_address(back=back, state=state, verifier=verifier)
        )
        page.say("", f"Waiting for the browser at {back} …")
        ends = time.monotonic() + PATIENCE
        while not door.told and time.monotonic() < ends:
            door.timeout = max(ends - time.monotonic(), 0.1)
            door.handle_request()
    if not door.told.get("code"):
        why = (
            f"the service says {door.told['error'][:100]}" if door.told.get("error") else "no browser came back in time"
        )
        raise NotPossible(f"{name} is not connected: {why}")
    try:
        await connector.take_consent(door.told["code"], back=back, verifier=verifier)
    finally:
        await connector.close()
