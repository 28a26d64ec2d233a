"""`amends doctor`: is this computer fit, and is this project? One line for each question."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import typer

from runner.app import Amends
from runner.cli import FAILED, OK, page, place
from runner.cli.secrets import needed
from runner.cli.telling import Sign
from runner.cli.words import plain
from runner.contract import Json
from runner.errors import AmendsError
from runner.language.connections import Connection
from runner.store.lock import EngineLock
from runner.store.sqlite import refuse_network
from runner.store.tables import SCHEMA

COMMANDS = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

LEAST_ROOM = 100_000_000
RESOLVE_LIMIT = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The answer to one question. `level`: ok, note (worth knowing), bad (to be put right)."""

    about: str
    level: str
    text: str


Question = Callable[[Amends], Iterator[Finding]]


def _ok(about: str, text: str) -> Finding:
    return Finding(about=about, level="ok", text=text)


def _note(about: str, text: str) -> Finding:
    return Finding(about=about, level="note", text=text)


def _bad(about: str, text: str) -> Finding:
    return Finding(about=about, level="bad", text=text)


@COMMANDS.command(help="Check this computer and this project; exit code 1 where something is to be put right.")
def doctor(as_json: place.AsJson = False) -> None:
    with place.opened() as amends:
        found = [finding for ask in QUESTIONS for finding in answers(ask, amends)]
    if as_json:
        page.say_json([asdict(each) for each in found])
    else:
        out = page.console()
        table = page.grid((1, 12, None))
        signs: dict[str, Sign] = {"ok": "done", "note": "note", "bad": "failed"}
        for each in found:
            table.add_row(page.sign(signs[each.level], out), each.about, plain(each.text))
        page.show(table, out=out)
    raise typer.Exit(FAILED if any(each.level == "bad" for each in found) else OK)


def answers(ask: Question, amends: Amends) -> list[Finding]:
    """The findings of one question; an error of ours is a finding too."""
    about = ask.__name__.strip("_").replace("_", " ")
    try:
        return list(ask(amends))
    except AmendsError as error:
        return [_bad(about, str(error))]
    except OSError as error:
        return [_bad(about, f"cannot be looked at: {error.strerror or error}")]


def _python(amends: Amends) -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    fine = sys.version_info >= (3, 11)
    yield _ok("python", version) if fine else _bad("python", f"{version}; 3.11 or newer is needed")


def _folder(amends: Amends) -> Iterator[Finding]:
    folder = amends.project.folder
    state = folder / ".amends"
    writable = os.access(state if state.exists() else folder, os.W_OK | os.X_OK)
    if not writable:
        yield _bad("folder", f"{state if state.exists() else folder} cannot be written by this user")
        return
    refuse_network(state / "amends.db")
    yield _ok("folder", str(folder))
    for secret in (folder / ".env", state / "amends.db"):
        if secret.exists() and secret.stat().st_mode & 0o077:
            yield _note("folder", f"others on this computer can read {secret.name}; chmod 600 {secret}")


def _room(amends: Amends) -> Iterator[Finding]:
    state = os.statvfs(amends.project.folder)
    free = state.f_bavail * state.f_frsize
    text = f"{free / 1e9:.1f} GB free"
    yield _ok("room", text) if free >= LEAST_ROOM else _bad("room", f"{text}; no new run is started without room")


def _database(amends: Amends) -> Iterator[Finding]:
    library, journal = _header(amends.project.folder / amends.project.settings.database)
    if not place.has_log(amends):
        yield _note("database", "there is none yet; the first run makes it")
        return
    text = f"{amends.store.path}, schema {SCHEMA}, last written by SQLite {library}, journal {journal}"
    yield _ok("database", text) if journal == "WAL" else _bad("database", f"{text}; it must be WAL")
    if amends.store.restored:
        yield _bad("database", "it was put back from a copy and rests until somebody says that it may go on")
    counts = amends.store.counts()
    yield _ok("runs", ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none yet")
    lost = amends.store.without_witness(amends.clock.now())
    if lost:
        yield _bad("runs", f"nothing would ever wake {', '.join(lost)}; `amends runs watch` takes a run up")


def _header(file: Path) -> tuple[str, str]:
    """(version of SQLite that wrote it last, journal) as the file's head says; read before the database is opened,
    because closing a file gives up the locks that this process holds on it."""
    try:
        with file.open("rb") as opened:
            head = opened.read(100)
    except OSError:
        return "?", "?"
    if len(head) < 100:
        return "?", "?"
    number = int.from_bytes(head[96:100], "big")
    version = f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"
    return version, "WAL" if head[18:20] == b"\x02\x02" else "not WAL"


def _engine(amends: Amends) -> Iterator[Finding]:
    holder = EngineLock(amends.project.folder).holder()
    if holder is None:
        yield _ok("engine", "nobody drives the project now; commands drive what they touch, `amends serve` drives all")
        return
    answering = "and answers" if _answers(holder.socket) else "but does not answer"
    found = f"process {holder.pid} drives the project {answering}"
    yield _ok("engine", found) if answering == "and answers" else _bad("engine", f"{found}; end it and start it again")


def _answers(path: str) -> bool:
    if not path:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.settimeout(RESOLVE_LIMIT)
        try:
            tried.connect(path)
        except OSError:
            return False
    return True


def _zone(amends: Amends) -> Iterator[Finding]:
    settings, reader = amends.project.settings, place.zone_of(amends)
    now = amends.clock.now()
    text = f"{settings.zone if settings.has_zone else reader}, now {page.short(now, reader)} {page.offset(now, reader)}"
    if settings.has_zone:
        yield _ok("zone", text)
    else:
        yield _note("zone", f"{text}; amends.yaml names none, so flows count dates in UTC")


def _files(amends: Amends) -> Iterator[Finding]:
    project = amends.project
    checked = project.check()
    problems = [*project.problems(), *(one for flow in checked for one in flow.problems)]
    errors = sum(one.level == "error" for one in problems)
    flows = "1 flow" if len(checked) == 1 else f"{len(checked)} flows"
    if errors:
        yield _bad("files", f"{flows}, {errors} errors; `amends check` lists them")
    else:
        yield _ok("files", f"{flows}, no errors")


def _secrets(amends: Amends) -> Iterator[Finding]:
    found = needed(amends.project)
    faults = [each for each in found if each.fault]
    for each in faults:
        yield _bad("secrets", each.fault)
    if not faults:
        yield _ok("secrets", f"{len(found)} named, none is missing")


def _connections(amends: Amends) -> Iterator[Finding]:
    places = {
        name: spot
        for name, connection in amends.project.connections.by_name.items()
        if (spot := place_of(connection)) is not None
    }
    hosts = sorted({host for host, _ in places.values()})
    known = asyncio.run(_resolve(hosts))
    for name, (host, port) in places.items():
        fine = known[host]
        yield (
            _ok("connections", f"{name}: {host}:{port} can be found")
            if fine
            else _bad("connections", f"{name}: the name {host} has no address here")
        )
    if not places:
        yield _ok("connections", "none goes outside")


def place_of(connection: Connection) -> tuple[str, int] | None:
    """(host, port) of a connection, or None where its settings name none."""
    origin, host = connection.settings.get("origin"), connection.settings.get("host")
    if isinstance(origin, str) and urlsplit(origin).hostname:
        parts = urlsplit(origin)
        return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
    if isinstance(host, str):
        port: Json = connection.settings.get("port")
        return host, port if isinstance(port, int) else 587
    return None


async def _resolve(hosts: list[str]) -> dict[str, bool]:
    loop = asyncio.get_running_loop()

    async def one(host: str) -> bool:
        try:
            return bool(await asyncio.wait_for(loop.getaddrinfo(host, None), RESOLVE_LIMIT))
        except (OSError, TimeoutError, UnicodeError):
            return False

    found = await asyncio.gather(*(one(host) for host in hosts))
    return dict(zip(hosts, found, strict=True))


QUESTIONS: tuple[Question, ...] = (
    _python, _folder, _room, _database, _engine, _zone, _files, _secrets, _connections,
)  # fmt: skip
"""What is asked, in this order."""
