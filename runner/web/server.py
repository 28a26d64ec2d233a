"""The door of `amends serve`: a listening socket, and uvicorn in the engine's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn

from runner.app import Amends, OwnDriver
from runner.errors import NotPossible
from runner.language.settings import Settings
from runner.people.access import first_admin, new_access
from runner.store import access
from runner.web.application import served
from runner.web.console import Console
from runner.web.reach import why_not_reached
from runner.web.wire import LONGEST_HEAD, Wire

HOST, PORT = "127.0.0.1", 8484
GRACE = 5
"""Seconds that requests under way get when the engine stops."""
BACKLOG = 128


class WebDoor:
    """Pages beside the engine. `on_open` is told the address, the sign-in link of a first start and why the address
    does not lead here (else empty)."""

    def __init__(self, amends: Amends, *, host: str, port: int, on_open: Callable[[str, str, str], None]) -> None:
        self._amends = amends
        self._host, self._port = host, port
        self._on_open = on_open
        self._socket: socket.socket | None = None

    def bind(self) -> None:
        """Takes the port. Raises NotPossible where it is taken."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        taken = socket.socket(family, socket.SOCK_STREAM)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((self._host, self._port))
            taken.listen(BACKLOG)
        except OSError as error:
            taken.close()
            why = error.strerror or str(error)
            raise NotPossible(
                f"port {self._port} of {self._host} cannot be used ({why}); name another one with --port"
            ) from None
        self._port = taken.getsockname()[1]
        self._socket = taken

    @property
    def address(self) -> str:
        """Where people reach the pages, once the port is taken."""
        return _address(self._amends.settings, self._host, self._port)

    @contextlib.asynccontextmanager
    async def serving(self, driver: OwnDriver) -> AsyncIterator[None]:
        """Serves until it is left; requests under way are answered first."""
        assert self._socket is not None
        console = Console(self._amends, driver, public_url=self.address, port=self._port)
        driver.notifier.address = console.public_url
        server = _Server(
            uvicorn.Config(
                served(console), log_config=None, access_log=False, server_header=False, lifespan="off",
                timeout_graceful_shutdown=GRACE, http=Wire, h11_max_incomplete_event_size=LONGEST_HEAD,
            )
        )  # fmt: skip
        running = asyncio.create_task(server.serve(sockets=[self._socket]))
        try:
            self._on_open(console.public_url, await first_link(console), await _unreached(console, server))
            yield
        finally:
            console.feed.close()
            server.should_exit = True
            await running


class _Server(uvicorn.Server):
    """Whoever began it ends it: signals are not its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _address(settings: Settings, host: str, port: int) -> str:
    """What people type: public_url, or where we listen if amends.yaml leaves it out and that is elsewhere."""
    if settings.has_public_url or (host, port) == (HOST, PORT):
        return settings.public_url
    name = HOST if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


async def _unreached(console: Console, server: uvicorn.Server) -> str:
    while not server.started and not server.should_exit:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return await asyncio.to_thread(why_not_reached, console.public_url, console.sign)


async def first_link(console: Console) -> str:
    """A link that works once, for the admin of a project that nobody has come into yet; empty for any other."""
    if any(row.kind not in ("link", "review") for row in console.store.ask(access.listed(console.now))):
        return ""
    person = first_admin(console.people, console.project.settings.admin)
    secret, row = new_access("link", person, now=console.now, name="invite" if person != "person:me" else "")
    await console.driver.admit(row)
    return f"{console.public_url.rstrip('/')}/enter/{secret}"
