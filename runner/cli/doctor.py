"""`amends doctor`: is this computer fit, and is this project? One line for each question."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Literal
from urllib.parse import urlsplit

import typer

from runner.app import Amends
from runner.cli import FAILED, OK, page, place, watching
from runner.cli.secrets import needed
from runner.clock import MINUTE
from runner.engines import temporal_part
from runner.errors import AmendsError
from runner.language.connections import Connection
from runner.language.schema import is_stale
from runner.reading import SETTINGS, is_project
from runner.secrets import Secrets
from runner.store import outbox
from runner.store.lock import EngineLock
from runner.store.sqlite import refuse_network
from runner.telling import times, words
from runner.telling.times import counted
from runner.telling.words import plain

COMMANDS = place.verb()

LEAST_ROOM = 100_000_000
LIMIT = 3.0
LATE, MOST = 10 * MINUTE, 5
"""How old a message is that should be out by now, ms, and how many are named."""
SIGNS: dict[str, words.Sign] = {"ok": "done", "note": "note", "bad": "failed"}


Said = Iterator[tuple[Literal["ok", "note", "bad"], str]]
"""Answers to one question: ok, note (worth knowing) or bad (to be put right), and the sentence."""
Question = Callable[[Amends], Said]


@COMMANDS.command(help="Check this computer and this project; exit code 1 where something is to be put right.")
def doctor(as_json: place.AsJson = False) -> None:
    with watching.opened(anywhere=True) as amends:
        found = [finding for about, ask in QUESTIONS for finding in answers(about, ask, amends)]
    if as_json:
        page.say_json([{"about": about, "level": level, "text": text} for about, level, text in found])
    else:
        out = page.console()
        table = page.grid((1, 12, None))
        for about, level, text in found:
            table.add_row(page.sign(SIGNS[level], out), about, plain(text))
        page.show(table, out=out)
    raise typer.Exit(FAILED if any(level == "bad" for _, level, _ in found) else OK)


def answers(about: str, ask: Question, amends: Amends) -> list[tuple[str, str, str]]:
    """The findings of one question, (about, level, text); an error is a finding too."""
    try:
        return [(about, level, text) for level, text in ask(amends)]
    except AmendsError as error:
        return [(about, "bad", str(error))]
    except OSError as error:
        return [(about, "bad", f"cannot be looked at: {error.strerror or error}")]


def _python(amends: Amends) -> Said:
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield ("ok", version) if sys.version_info >= (3, 11) else ("bad", f"{version}; 3.11 or newer is needed")


def _folder(amends: Amends) -> Said:
    state = amends.folder / ".amends"
    place_of_state = state if state.exists() else amends.folder
    if not os.access(place_of_state, os.W_OK | os.X_OK):
        yield "bad", f"{place_of_state} cannot be written by this user"
        return
    refuse_network(state / "amends.db")
    if not is_project(amends.folder):
        way = f"`{words.PROGRAM} init` makes one"
        yield "bad", f"{amends.folder} is no project: it has no {SETTINGS} and no flows/; {way}"
        return
    yield "ok", str(amends.folder)
    for secret in (amends.folder / ".env", state / "amends.db"):
        if secret.exists() and secret.stat().st_mode & 0o077:
            yield "note", f"others on this computer can read {secret.name}; chmod 600 {secret}"


def _room(amends: Amends) -> Said:
    state = os.statvfs(amends.folder)
    free = state.f_bavail * state.f_frsize
    text = f"{free / 1e9:.1f} GB free"
    yield ("ok", text) if free >= LEAST_ROOM else ("bad", f"{text}; no new run is started without room")


def _database(amends: Amends) -> Said:
    if not amends.has_log:
        yield "note", "there is none yet; the first run makes it"
        return
    told = amends.store.about()
    text = "{path}, schema {schema}, {software}".format_map(told)
    yield ("ok", text) if told["is_safe"] else ("bad", f"{text}; the journal must be wal")
    if why := amends.rests:
        yield "bad", why


def _runs(amends: Amends) -> Said:
    if not amends.has_log:
        return
    counts = amends.store.counts()
    yield "ok", ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none yet"
    lost = amends.store.without_witness(amends.clock.now())
    if lost:
        yield "bad", f"nothing would ever wake {', '.join(lost)}; `amends runs watch` takes a run up"


def _messages(amends: Amends) -> Said:
    late = amends.store.ask(outbox.late(amends.clock.now() - LATE)) if amends.has_log else ()
    for each in late[:MOST]:
        yield "bad", f"run {each.run}: {each.person} could not be told by {each.channel}: {each.said}"
    if len(late) > MOST:
        yield "bad", f"and {len(late) - MOST} more"
    if not late:
        yield "ok", "none is stuck"


def _engine(amends: Amends) -> Said:
    holder, engines = EngineLock(amends.folder).holder(), amends.engines
    if engines:
        yield "ok", f"{place.engines(engines)} {'drives' if len(engines) == 1 else 'drive'} the project"
    if holder is None:
        if not engines:
            yield "ok", "nobody drives the project now; commands drive what they touch, `amends serve` drives all"
    elif _is_listened_at(holder.socket):
        yield "ok", f"process {holder.pid} drives the project and answers"
    else:
        yield "bad", f"process {holder.pid} drives the project but does not answer; end it and start it again"


def _cluster(amends: Amends) -> Said:
    cluster = amends.settings.cluster
    if cluster is None:
        return
    place_there = f"namespace {cluster.namespace}, queue {cluster.queue}"
    connect = temporal_part("cluster").connect
    try:
        asyncio.run(connect(cluster, amends.folder, Secrets(amends.folder).value, patience=LIMIT))
    except AmendsError as error:
        yield "bad", f"{error} ({place_there})"
    else:
        yield "ok", f"the Temporal cluster at {cluster.address} answers; {place_there}"


def _is_listened_at(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.settimeout(LIMIT)
        try:
            tried.connect(path)
        except OSError:
            return False
    return True


def _zone(amends: Amends) -> Said:
    settings, reader, now = amends.settings, place.zone_of(amends), amends.clock.now()
    text = (
        f"{settings.zone if settings.has_zone else reader}, now {times.short(now, reader)} {times.offset(now, reader)}"
    )
    unset = f"{text}; amends.yaml names none, so flows count dates in UTC"
    yield ("ok", text) if settings.has_zone else ("note", unset)


def _files(amends: Amends) -> Said:
    checked = amends.project.check()
    problems = [*amends.project.problems(), *(one for flow in checked for one in flow.problems)]
    errors = sum(one.level == "error" for one in problems)
    flows = counted(len(checked), "flow")
    wrong = f"{flows}, {counted(errors, 'error')}; `amends check` lists them"
    yield ("bad", wrong) if errors else ("ok", f"{flows}, no errors")


def _secrets(amends: Amends) -> Said:
    found = needed(amends.project)
    yield from (("bad", each.fault) for each in found if each.fault)
    if not any(each.fault for each in found):
        yield "ok", f"{len(found)} named, none is missing"


def _connections(amends: Amends) -> Said:
    connections = amends.project.connections.by_name.items()
    places = {name: spot for name, connection in connections if (spot := place_of(connection)) is not None}
    known = asyncio.run(_resolve({host for host, _ in places.values()}))
    for name, (host, port) in places.items():
        missing = f"{name}: the name {host} has no address here"
        yield ("ok", f"{name}: {host} has an address; port {port} was not tried") if host in known else ("bad", missing)
    if not places:
        yield "ok", "none goes outside"


def place_of(connection: Connection) -> tuple[str, int] | None:
    """(host, port) of a connection, or None where its settings name none."""
    origin, host, port = (connection.settings.get(name) for name in ("origin", "host", "port"))
    if isinstance(origin, str) and (parts := urlsplit(origin)).hostname:
        return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
    return (host, port if isinstance(port, int) else 587) if isinstance(host, str) else None


async def _resolve(hosts: set[str]) -> set[str]:
    """Those of the hosts that have an address."""
    loop = asyncio.get_running_loop()
    asked = [asyncio.wait_for(loop.getaddrinfo(host, None), LIMIT) for host in hosts]
    answered = await asyncio.gather(*asked, return_exceptions=True)
    return {host for host, answer in zip(hosts, answered, strict=True) if not isinstance(answer, BaseException)}


def _schemas(amends: Amends) -> Said:
    if is_stale(amends.folder / "schemas", amends.project.facts()):
        yield "note", "the project has changed since `amends schema write`: an editor knows the state of before"


QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("python", _python), ("folder", _folder), ("room", _room), ("database", _database), ("runs", _runs),
    ("messages", _messages), ("engine", _engine), ("temporal", _cluster), ("zone", _zone), ("files", _files),
    ("secrets", _secrets), ("connections", _connections), ("schemas", _schemas),
)  # fmt: skip
"""What is asked, in this order."""
