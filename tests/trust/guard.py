"""Requests to where they must not go: every way out, more than 120 hostile addresses, 500 rounds of a name that turns.

Judges are a canary that listens on this machine, and a record of every socket that Python opens (nothing leaves the
machine: whatever is not loopback is refused there). Both are shown to see: each way out reaches the canary where it may.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from connectors import client, http
from runner import guard
from runner.people import provider
from tests.connectors.httpserver import answer, http_server, redirect
from tests.connectors.tools import Lent
from tests.trust.addresses import HOSTILE, NEVER, PUBLIC, PUBLIC6, NameService, name_service
from tests.trust.figures import Figures
from tests.trust.outlets import OUTLETS, attempt

LIBC = ("postgresql",)
"""Opens its sockets outside Python, where nobody refuses: it is given no public address that it might go to."""
TURNS: Sequence[tuple[Sequence[str], ...]] = (
    ([PUBLIC], ["127.0.0.1"]),
    (["127.0.0.1"], [PUBLIC]),
    ([PUBLIC, "127.0.0.1"],),
    ([PUBLIC], [PUBLIC], ["127.0.0.1"]),
    ([PUBLIC6], ["::1"]),
    ([PUBLIC], ["::ffff:127.0.0.1"]),
    ([PUBLIC], ["169.254.169.254"]),
    (["::1", PUBLIC6], [PUBLIC]),
)


@dataclass(kw_only=True)
class Seen:
    """What the judges saw since the last look."""

    connections: int = 0
    sockets: list[str] = field(default_factory=list)

    def take(self, *, allowed: Sequence[str] = ()) -> list[str]:
        """What was reached that must not be; then it begins anew."""
        found = [f"a socket to {one}" for one in self.sockets if one.rpartition("|")[0] not in allowed]
        found += ["a connection at the canary"] * self.connections
        self.connections, self.sockets = 0, []
        return found


@dataclass(kw_only=True)
class Tried:
    """How many attempts there were, and what was wrong."""

    tried: int = 0
    wrong: list[str] = field(default_factory=list)


_record: list[Seen] = []


def _hook(event: str, told: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto") and _record and isinstance(told[1], tuple):
        where = str(told[1][0])
        _record[-1].sockets.append(f"{where}|{told[1][1]}")
        if where not in ("127.0.0.1", "::1"):
            raise ConnectionRefusedError(111, "nothing leaves this machine")


@contextlib.contextmanager
def recorded() -> Iterator[Seen]:
    """Every socket that is opened meanwhile."""
    if not getattr(sys, "_trust_hook", False):
        guard._install()  # before ours: what it refuses was not opened
        sys.addaudithook(_hook)
        sys._trust_hook = True  # type: ignore[attr-defined]
    seen = Seen()
    _record.append(seen)
    try:
        yield seen
    finally:
        _record.pop()


@contextlib.asynccontextmanager
async def canary(seen: Seen) -> AsyncIterator[int]:
    """A port of this machine that nothing may come to."""

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    six: Any = contextlib.nullcontext()
    if socket.has_ipv6:
        with contextlib.suppress(OSError):
            six = await asyncio.start_server(met, "::1", port)
    async with server, six:
        yield port


# --- what is tried -----------------------------------------------------------------------------------------------------


async def reaches(seen: Seen, port: int) -> list[str]:
    """The ways out that reach the canary where they may: all of them, or the judges are blind."""
    blind = []
    for name in OUTLETS:
        seen.take()
        said = await attempt(name, "127.0.0.1", port, True)
        for _ in range(500):
            await asyncio.sleep(0.01)
            if seen.take():
                break
        else:
            blind.append(f"{name} cannot be seen at the canary: {said}")
    return blind


async def hostile(seen: Seen, port: int, hosts: Sequence[str], *, allow: bool = False, every: int = 1) -> Tried:
    """Each way out with each address; with `every` only one in so many, each address somewhere."""
    found = Tried()
    for shift, name in enumerate(OUTLETS):
        for host in hosts[shift % every :: every]:
            found.tried += 1
            seen.take()
            said = await attempt(name, host, port, allow)
            bad = seen.take(allowed=(PUBLIC, PUBLIC6))
            found.wrong += [f"{name} to {host!r}: {one} ({said})" for one in bad]
    return found


async def turning(seen: Seen, names: NameService, port: int, rounds: int) -> list[str]:
    """A name whose answers change from one question to the next."""
    wrong = []
    outlets = list(OUTLETS)
    for number in range(rounds):
        name = outlets[number % len(outlets)]
        turns = TURNS[number // len(outlets) % len(TURNS)]
        if name in LIBC and any(PUBLIC in one or PUBLIC6 in one for one in turns if "127.0.0.1" not in one):
            turns = TURNS[2]
        names.turns.clear()
        names.turns.extend(turns)
        seen.take()
        said = await attempt(name, "turning.test", port, False)
        wrong += [f"{name}, {turns}: {one} ({said})" for one in seen.take(allowed=(PUBLIC, PUBLIC6))]
    return wrong


async def redirected(seen: Seen, port: int) -> list[str]:
    """A service that may be asked sends us on to the canary."""
    wrong = []
    async with http_server() as server:
        for number, to in enumerate(
            (f"http://127.0.0.1:{port}/", f"//127.0.0.1:{port}/", f"http://localhost:{port}/x", f"http://[::1]:{port}/")
        ):
            for status in (301, 302, 303, 307, 308):
                server.on(f"/{number}", redirect(status, to))
                line = {"origin": server.origin, "allow_private": True}
                made = http.KIND.connect("x", line, Lent())
                request = made.prepare("get", {"url": f"/{number}"}, key="k", purpose="read")
                await made.send("get", request, key="k", purpose="read", limit=2_000)
                await made.close()
                await asyncio.sleep(0)
                wrong += [f"redirected by {status} to {to}"] * bool(seen.connections)
                seen.take()
        server.on("/room", redirect(302, f"http://127.0.0.1:{port}/"))
        await attempt("chat_json", "127.0.0.1", server.port, True)
        await asyncio.sleep(0.01)
        wrong += ["a chat was redirected"] * bool(seen.connections)
        seen.take()
    return wrong


async def proxied(seen: Seen, port: int) -> list[str]:
    """The environment names the canary as its proxy."""
    words = [f"{name}_proxy" for name in ("http", "https", "all", "ftp")]
    kept = {word: os.environ.get(word) for word in [*words, *map(str.upper, words)]}
    os.environ.update(dict.fromkeys(kept, f"http://127.0.0.1:{port}"))
    os.environ.pop("no_proxy", None)
    try:
        async with http_server() as server:
            server.on("*", answer(200, {}))
            wrong = []
            for name in ("http_origin", "http_anywhere", "caldav", "hook", "model", "chat_json", "chat_of_a_person",
                         "sign_in", "bucket", "declared"):  # fmt: skip
                before = server.connections
                said = await attempt(name, "127.0.0.1", server.port, True)
                await asyncio.sleep(0.01)
                wrong += [f"{name} went to the proxy of the environment ({said})"] * bool(seen.connections)
                wrong += [f"{name} did not reach the service itself ({said})"] * (server.connections == before)
                seen.take()
        return wrong
    finally:
        for word, value in kept.items():
            os.environ.pop(word, None)
            if value is not None:
                os.environ[word] = value


# --- mistakes ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def instead(owner: Any, name: str, made: Any) -> Iterator[None]:
    """A mistake in the product, for a while."""
    kept = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, made)
    guard._check_literal.cache_clear()
    try:
        yield
    finally:
        setattr(owner, name, kept)
        guard._check_literal.cache_clear()


def _first_only(real: Any) -> Any:
    async def resolve(self: Any, host: str, port: int) -> Any:
        answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys((one[0], str(one[4][0])) for one in answers))
        self.check_address(found[0][1], host)
        return found

    return resolve


def _twice(real: Any) -> Any:
    async def resolve(self: Any, host: str, port: int) -> Any:
        await real(self, host, port)
        answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys((one[0], str(one[4][0])) for one in answers))

    return resolve


class _Blind(guard.Watch):
    def look(self, told: Any) -> None:
        self.opened += 1


class _Plain(httpx.AsyncHTTPTransport):
    def __init__(self, *given: Any) -> None:
        super().__init__(trust_env=False)


def mistakes() -> dict[str, tuple[Callable[[], Any], str]]:
    """name -> (the mistake, what sees it)"""
    sending: Any = importlib.import_module("runner.chat")
    real = guard.Guard.resolve
    return {
        "private addresses count as public": (lambda: instead(guard, "is_public", lambda one: True), "hostile"),
        "wrapped addresses are not unwrapped": (lambda: instead(guard, "embedded", lambda one: ()), "hostile"),
        "only the first answer is checked": (lambda: instead(guard.Guard, "resolve", _first_only(real)), "hostile"),
        "a name is looked up twice": (lambda: instead(guard.Guard, "resolve", _twice(real)), "turning"),
        "sockets of chats are not looked at": (lambda: instead(guard, "Watch", _Blind), "turning"),
        "sign-ins pass no guard": (lambda: instead(provider, "_Guarded", _Plain), "hostile"),
        "nothing is never allowed": (lambda: instead(guard, "is_never", lambda one: False), "never"),
        "redirects lead anywhere": (lambda: instead(client, "same_origin", lambda one, other: True), "redirected"),
        "chats ask the environment": (lambda: instead(sending, "is_watched", lambda: False), "proxied"),
    }


async def see_mistakes(seen: Seen, names: NameService, port: int) -> dict[str, str]:
    """Each planted mistake, and what saw it."""
    few = ("127.0.0.1", "mixed.test", "2002:7f00:1::", "inner.test")
    ways: dict[str, Callable[[], Any]] = {
        "hostile": lambda: hostile(seen, port, few),
        "turning": lambda: turning(seen, names, port, len(OUTLETS)),
        "never": lambda: hostile(seen, port, ("169.254.169.254",), allow=True),
        "redirected": lambda: redirected(seen, port),
        "proxied": lambda: proxied(seen, port),
    }
    caught = {}
    for name, (plant, way) in mistakes().items():
        with plant():
            found = await ways[way]()
        wrong = found.wrong if isinstance(found, Tried) else found
        caught[name] = f"{way}, {len(wrong)} times" if wrong else ""
    return caught


# --- the suite ---------------------------------------------------------------------------------------------------------


async def play(figures: Figures, *, every: int, rounds: int) -> None:
    """All of it."""
    with recorded() as seen, name_service() as names:
        async with canary(seen) as port:
            blind = await reaches(seen, port)
            figures.broken(blind)
            figures.floor("ways out that reach the canary where they may", len(OUTLETS) - len(blind), len(OUTLETS))
            found = await hostile(seen, port, HOSTILE, every=every)
            figures.say("hostile addresses", f"{len(HOSTILE)}, {found.tried} attempts")
            figures.broken(found.wrong)
            never = await hostile(seen, port, NEVER, allow=True, every=every)
            figures.say("never, where private addresses are allowed", f"{len(NEVER)} addresses")
            figures.broken(never.wrong)
            wrong = await turning(seen, names, port, rounds)
            figures.say("rounds of a name that turns", f"{rounds}, {names.asked} questions")
            figures.broken(wrong)
            figures.broken(await redirected(seen, port))
            figures.broken(await proxied(seen, port))
            figures.say("connections where there must be none", len(figures.wrong))
            figures.planted(await see_mistakes(seen, names, port))


def run(argv: Sequence[str]) -> int:
    """The long form."""
    words = argparse.ArgumentParser(prog="python -m tests.trust guard")
    words.add_argument("--rounds", type=int, default=500)
    words.add_argument("--every", type=int, default=1)
    chosen = words.parse_args(argv)
    figures = Figures()
    asyncio.run(play(figures, every=chosen.every, rounds=chosen.rounds))
    return figures.code
