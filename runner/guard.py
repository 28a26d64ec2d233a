"""The address guard: which addresses an outgoing connection may go to. Every connection, passes here.

Public addresses only, unless the connection says `allow_private: true`; addresses where clouds keep their metadata
never. All answers of a name are checked, and whoever connects must connect to a checked address: `resolve` gives them,
and `check_address` is asked once more with the very address a socket is about to be opened to. Where a library opens
its sockets itself, `watched` looks at each of them.

`AddressRefused` is an OSError, so that libraries treat it like any other failure to connect: no byte has left.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressRefused(OSError):
    """The guard says no. `str(error)` is one sentence."""


def _networks(texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts.split())


NEVER = _networks(
    # link-local and the metadata of clouds, also of their containers; multicast and broadcast
    "169.254.0.0/16 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 fd00:ec2::/32 fd20:ce::254/128 fd00:42::42/128"
    " fe80::/10 224.0.0.0/4 255.255.255.255/32 ff00::/8"
)
"""Never, whatever a connection allows."""

NOT_PUBLIC = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24"
    " 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20"
)
"""Not on the public internet. For IPv6 everything outside `GLOBAL_IPV6` is added."""

GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")

_TRANSLATED = _networks("::ffff:0:0/96 64:ff9b::/96")
_LAST_32_BITS = _networks("::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_ISATAP = 0x5EFE
_NUMBER_LABEL = re.compile(r"^(0[xX][0-9a-fA-F]*|[0-9]+)$")


def embedded(address: Address) -> tuple[Address, ...]:
    """The IPv4 addresses inside an IPv6 address (mapped, NAT64, 6to4, Teredo, ISATAP …), to be checked like itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [address.sixtofour, *(address.teredo or ())]
    if _is_in(address, _LAST_32_BITS) or int(address) >> 32 & 0xFDFFFFFF == _ISATAP:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address in _LOCAL_NAT64:  # RFC 6052: behind 48 bits, parted by a byte of zeros
        whole = int(address)
        found.append(ipaddress.IPv4Address((whole >> 64 & 0xFFFF) << 16 | whole >> 40 & 0xFFFF))
    return tuple(one for one in found if one is not None)


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def is_public(address: Address) -> bool:
    """Whether the address is one of the public internet, whatever it is wrapped in."""
    if _is_in(address, NOT_PUBLIC + NEVER):
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in GLOBAL_IPV6 and not _is_in(address, _TRANSLATED):
        return False
    return all(is_public(one) for one in embedded(address))


def is_never(address: Address) -> bool:
    """Whether no connection may go there."""
    return _is_in(address, NEVER) or any(is_never(one) for one in embedded(address))


def literal(host: str) -> Address | None:
    """The address if `host` is written as one, None if it is a name.

    Raises AddressRefused for the odd spellings of an address (decimal, octal, hexadecimal, short, with a zone).
    """
    bare = host.strip("[]")
    if "%" in bare:
        raise AddressRefused(f"{host} carries a network zone; write a name or a plain address")
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        pass
    last = bare.rstrip(".").rpartition(".")[2]
    if ":" in bare or _NUMBER_LABEL.match(last):
        raise AddressRefused(f"{host} is an address in an odd spelling; write it as four numbers or as a name")
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """The rule of one connection."""

    allow_private: bool = False

    def check_address(self, address: str, host: str = "") -> Address:
        """The address, if a connection to it is allowed. Raises AddressRefused."""
        shown = f"{host} ({address})" if host and host.strip("[]") != address else address
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            raise AddressRefused(f"{shown} is no network address") from None
        if is_never(parsed):
            raise AddressRefused(f"{shown} is an address that is never connected to (metadata, link-local, multicast)")
        if not self.allow_private and not is_public(parsed):
            raise AddressRefused(
                f"{shown} is not a public address; a connection to it must say allow_private: true in connections.yaml"
            )
        return parsed

    def check_host(self, host: str) -> None:
        """Checks a host that is written as an address; a name passes and is checked when it is resolved."""
        _check_literal(self, host)

    async def resolve(self, host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
        """All addresses of a host, each of them checked. Raises AddressRefused if one of them is not allowed,
        and OSError (socket.gaierror) if there is none."""
        address = literal(host)
        if address is not None:
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            return [(family, str(self.check_address(str(address), host)))]
        answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found: list[tuple[socket.AddressFamily, str]] = list(
            dict.fromkeys((family, str(sockaddr[0])) for family, _, _, _, sockaddr in answers)
        )
        for _, text in found:
            self.check_address(text, host)
        if not found:
            raise OSError(f"{host} has no address")
        return found


@lru_cache(maxsize=2048)
def _check_literal(guard: Guard, host: str) -> None:
    address = literal(host)
    if address is not None:
        guard.check_address(str(address), host)


# --- libraries that open their sockets themselves --------------------------------------------------------------------


class Watch:
    """What became of connections that others opened: how many were let through, and why one was not."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.opened = 0
        self.refused = ""

    def look(self, told: Any) -> None:
        """Where a socket is about to go. Raises AddressRefused, also for what is no address of a network."""
        try:
            self.guard.check_address(str(told[0] if isinstance(told, tuple) and told else told))
        except AddressRefused as error:
            self.refused = self.refused or str(error)
            raise
        self.opened += 1


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_BEGUN = "amends_watch"


@contextmanager
def watched(guard: Guard) -> Iterator[Watch]:
    """Meanwhile every socket that is opened here, or in a thread that is begun here, goes where the guard allows."""
    _install()
    watch = Watch(guard)
    mark = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(mark)


def is_watched() -> bool:
    """Whether sockets that are opened here are looked at."""
    return _watch.get() is not None


def _look(event: str, told: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        watch = _watch.get() or getattr(threading.current_thread(), _BEGUN, None)
        if watch is not None and told[1] is not None:
            watch.look(told[1])
    elif event in ("_thread.start_new_thread", "_thread.start_joinable_thread"):
        watch, begun = _watch.get(), getattr(told[0], "__self__", None)
        if watch is not None and isinstance(begun, threading.Thread):
            setattr(begun, _BEGUN, watch)


@cache
def _install() -> None:
    """Python tells of every socket that is opened in the process, and asks nobody to take part."""
    sys.addaudithook(_look)
