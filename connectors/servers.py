"""Where a server is and how it is spoken to: what connections to mail servers and databases have alike."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from connectors.service import secret_only, secret_or_text, switch, trusted_file
from runner.contract import Json
from runner.errors import SettingsError
from runner.guard import AddressRefused, Guard, is_public, literal

HOST_SETTINGS: Mapping[str, Json] = {
    "host": "text",
    "port": "integer or empty",
    "security": {"choice": ["starttls", "tls", "none"], "empty": True},
    "allow_private": "yes_no or empty",
    "allow_insecure": "yes_no or empty",
    "ca": "text or empty",
}


class PublicServer(AddressRefused):
    """Without encryption nobody goes to a public server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """One server. `security` is starttls, tls or none."""

    host: str
    port: int
    security: str
    guard: Guard
    ca: str

    @property
    def shown(self) -> str:
        return f"{self.host}:{self.port}"

    async def addresses(self) -> list[tuple[socket.AddressFamily, str]]:
        """The host's addresses, each of them checked. Raises PublicServer, AddressRefused, OSError."""
        found = await self.guard.resolve(self.host, self.port)
        if self.security == "none" and any(is_public(ipaddress.ip_address(address)) for _, address in found):
            raise PublicServer(f"{self.shown} is a public server; it is spoken to encrypted or not at all")
        return found

    async def connect(self) -> socket.socket:
        """A non-blocking socket that is connected to one of the host's checked addresses. Raises PublicServer,
        AddressRefused, OSError."""
        last = OSError("no address")
        for family, found in await self.addresses():
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(sock, (found, self.port))
                return sock
            except OSError as error:
                sock.close()
                last = error
            except BaseException:
                sock.close()
                raise
        raise last


def read_server(
    name: str, settings: Mapping[str, Json], ports: Mapping[str, int], example: str, what: str = "mail"
) -> Server:
    """The server of a connection. `ports` are the usual ones by security, the first is the default. Raises
    SettingsError."""
    host, security = settings.get("host"), settings.get("security") or next(iter(ports))
    if not isinstance(host, str) or not host.strip() or not host.isascii() or any(char in host for char in " /@\r\n"):
        raise SettingsError(f"{name}: host must be the name of a {what} server, like {example}")
    if security not in ports:
        words = sorted(set(ports) - {"none"})
        raise SettingsError(f'{name}: security "{security}" must be {", ".join(words)} or none')
    port = settings.get("port") or ports[str(security)]
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise SettingsError(f"{name}: port must be a number from 1 to 65535")
    allow_private, allow_insecure = (switch(name, settings, word) for word in ("allow_private", "allow_insecure"))
    if security == "none" and not allow_insecure:
        why = "security: none sends everything in clear text, passwords too; for a server on this machine or network"
        raise SettingsError(f"{name}: {why} add allow_insecure: true")
    guard = Guard(allow_private=allow_private)
    try:
        number = literal(host)
        guard.check_host(host)
    except AddressRefused as error:
        raise SettingsError(f"{name}: {error}") from None
    if security == "none" and number is not None and is_public(number):
        raise SettingsError(f"{name}: security: none is for a server on this machine or network, and {host} is public")
    ca = trusted_file(name, settings.get("ca"))
    return Server(host=host, port=port, security=str(security), guard=guard, ca=ca)


def read_login(name: str, settings: Mapping[str, Json]) -> tuple[Json, ...]:
    """User and password as the settings name them, or nothing. Raises SettingsError."""
    user, password = settings.get("user"), settings.get("password")
    if user:
        secret_or_text(name, "user", user)
        secret_only(name, "password", password)
    elif password:
        raise SettingsError(f"{name}: there is a password and no user")
    return (user, password) if user else ()
