"""The disk is full, fails, is slow, or its database is locked: what cannot be stored is not said to be, and nothing is sent.

`amends serve` runs as a process of its own: its file over the shim, or on a PostgreSQL (`disk_server`). Each fault comes while runs are under way, and starts, deliveries
of a webhook and answers to approvals come in: each must be told 503 and a plain sentence, or be there afterwards. Once the
fault is gone everything goes on by itself. At the end the oracle compares the log with what the receiver saw.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import hmac
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from runner.clock import MachineClock
from runner.demo.servers import end, first_line
from runner.store.facts import RunFilter
from runner.store.sql import open_store
from tests.bench._ground import CONNECTOR, HEAD, PEOPLE, RUN, steps
from tests.support.processes import ROOT, HttpProcess
from tests.support.says import late
from tests.trust import shim
from tests.trust.disk_server import Mend, Server, hurt_server
from tests.trust.figures import Figures
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import broken

PROGRAM = "from runner.cli import main; main()"
SENDER = "the-secret-of-the-sender"
PATIENCE = 60.0
ANSWERS_WITHIN = 30.0
SERVICE = 200
"""ms that the service takes for a call."""
ASKED = f"""steps:
  - id: go
    approve: Make it?
    covers: [made]
    by: [person:ann, person:root]
    within: 300 days
  - id: made
    do: service.make
    with: {{ {RUN}step: 1 }}
    compensate: {{ none: It only counts. }}
"""
HOOKED = "trigger:\n  - webhook: made\n    signed_by: sender\ninputs: { name: text }\n"
MISTAKES = {
    "sent though its intent is not stored": """
from runner.store.sql import SqlStore
from runner.errors import StoreUnwritable
from runner.store.facts import LogEnd
append = SqlStore.append
async def lied(self, one):
    try:
        return await append(self, one)
    except StoreUnwritable:
        return LogEnd(seq=one.seq + len(one.events), hash=one.previous_hash)
SqlStore.append = lied
""",
    "what cannot be stored is accepted": """
import runner.app as app
from runner.errors import StoreUnwritable
from runner.store.facts import RunFilter, Started
begin = app.OwnDriver.start
async def lied(self, *args, **words):
    try:
        return await begin(self, *args, **words)
    except StoreUnwritable:
        known = self.store.runs(RunFilter())[0]
        return Started(run=known.run, joined=False, status="queued", rerun=0)
app.OwnDriver.start = lied
""",
}
UNANSWERED = "from runner.store import postgres; postgres.LONGEST_WAIT = 0"


@dataclass(kw_only=True)
class Served:
    """A project that is being served over the shim, and what was asked of it."""

    folder: Path
    address: str
    tokens: Mapping[str, str]
    control: shim.Control
    server: Server | None = None
    accepted: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    number: int = 0

    def ask(self, method: str, path: str, *, by: str = "root", **words: Any) -> httpx.Response:
        """One request, with this person's token."""
        headers = {"authorization": f"Bearer {self.tokens[by]}", **words.pop("headers", {})}
        try:
            return httpx.request(method, f"{self.address}{path}", headers=headers, timeout=ANSWERS_WITHIN, **words)
        except httpx.TimeoutException:
            self.wrong.append(f"{method} {path} had no answer within {ANSWERS_WITHIN:g} s")
            return httpx.Response(504, json={})

    def start(self, flow: str) -> int:
        """A start by the API; its key is new."""
        self.number += 1
        said = self.ask("POST", "/api/v1/runs", json={"flow": flow, "key": f"k{self.number}"})
        if said.status_code == 201:
            run = said.json()["run"]
            if run in self.accepted:
                self.wrong.append(f"run {run} was given to two starts")
            self.accepted.add(run)
        return self._told("start", said)

    def deliver(self) -> int:
        """A delivery of the webhook."""
        self.number += 1
        body = json.dumps({"name": f"n{self.number}"}).encode()
        sum_ = hmac.new(SENDER.encode(), body, hashlib.sha256).hexdigest()
        said = self.ask(
            "POST", "/hooks/made", content=body, headers={"X-Sum": sum_, "content-type": "application/json"}
        )
        return self._told("delivery", said)

    def asked(self) -> Sequence[Any]:
        """The approvals that are open."""
        said = self.ask("GET", "/api/v1/approvals", by="ann").json()
        return said if isinstance(said, list) else ()

    def decide(self, one: Any = None) -> int:
        """A yes to this approval, or to the first that is open; 0 where there is none."""
        one = one or next(iter(self.asked()), None)
        if one is None:
            return 0
        given = {"approval": one["approval"], "round": one["round"], "hash": one["hash"], "answer": "yes"}
        return self._told("decision", self.ask("POST", f"/api/v1/approvals/{one['run']}", by="ann", json=given))

    def _told(self, what: str, said: httpx.Response) -> int:
        self.answers[f"{what} {said.status_code}"] += 1
        text = said.text
        if said.status_code == 503 and (not text.strip() or "Traceback" in text or "sqlalchemy" in text.lower()):
            self.wrong.append(f"a {what} was told {text[:200]!r}")
        if said.status_code >= 500 and said.status_code != 503:
            self.wrong.append(f"a {what} was answered {said.status_code}: {text[:200]}")
        return said.status_code


def write_project(folder: Path, origin: str, url: str = "") -> None:
    """Flows that are started, delivered and approved; all of them send what is deduplicated."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    database = "database: { secret: DATABASE }\n" if url else ""
    (folder / "amends.yaml").write_text(f"admin: person:root\n{database}")
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / ".env").write_text(f"SENDER={SENDER}\nDATABASE={url}\n" if url else f"SENDER={SENDER}\n")
    (folder / "connectors" / "service.yaml").write_text(CONNECTOR)
    (folder / "connections.yaml").write_text(
        f'service: {{ connector: service, origin: "{origin}", allow_private: true }}\n'
        "sender: { connector: webhook, scheme: hmac, header: X-Sum, secret: { secret: SENDER } }\n"
    )
    for name, text in (("saga", steps("service.make")), ("asked", ASKED), ("hooked", HOOKED + steps("service.make"))):
        (folder / "flows" / f"{name}.yaml").write_text(HEAD.format(name=name) + text)


def _token(folder: Path, person: str, environment: Mapping[str, str]) -> str:
    words = [sys.executable, "-c", PROGRAM, "people", "token", person, "--for", "suite"]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout.strip()


@contextmanager
def served(place: Path, origin: str, first: str = "", server: Server | None = None) -> Iterator[Served]:
    """`first` is what the process does before it serves."""
    folder = place / "project"
    write_project(folder, origin, server.address if server is not None else "")
    control = shim.Control(place, folder / ".amends")
    quiet = {**os.environ, "PYTHONPATH": str(ROOT)}
    tokens = {person: _token(folder, person, quiet) for person in ("root", "ann")}
    with (place / "told").open("wb") as told:
        process = subprocess.Popen(
            [sys.executable, "-c", first + "\n" + PROGRAM, "serve", "--port", "0"],
            cwd=folder, env={**control.environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        found = re.search(r"http://[^\s/]+", first_line(process))
        found = found or re.search(r"http://[^\s/]+", process.stdout.readline().decode())
        assert found is not None, (place / "told").read_text()
        yield Served(folder=folder, address=found[0], tokens=tokens, control=control, server=server)
    finally:
        control.mend()
        end([process])
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        control.close()


def _refused(error: int, which: int) -> Callable[[Served], Mend]:
    def begin(at: Served) -> Mend:
        at.control.refuse(error, which)
        return at.control.mend

    return begin


def _slow(at: Served) -> Mend:
    at.control.slow(150)
    return at.control.mend


def _locked(at: Served) -> Mend:
    holder = sqlite3.connect(at.folder / ".amends" / "amends.db", isolation_level=None, timeout=PATIENCE)
    holder.execute("BEGIN IMMEDIATE")

    def mend() -> None:
        with closing(holder):
            holder.execute("ROLLBACK")

    return mend


def _of(name: str) -> Callable[[Served], Mend]:
    """What is done to the server."""

    def begin(at: Served) -> Mend:
        mend: Mend = getattr(at.server, name)()
        return mend

    return begin


FAULTS: dict[str, Callable[[Served], Mend]] = {
    "the disk is full": _refused(errno.ENOSPC, shim.WRITES),
    "writes fail": _refused(errno.EIO, shim.WRITES),
    "syncs fail": _refused(errno.EIO, shim.SYNCS),
    "it is read-only": _refused(errno.EROFS, shim.WRITES | shim.NAMING),
    "it is locked": _locked,
    "it is slow": _slow,
}
SERVER_FAULTS: dict[str, Callable[[Served], Mend]] = {
    "the server is gone": _of("gone"),
    "the server is read-only": _of("read_only"),
    "its rows are locked": _of("locked"),
    "its commits are slow": _of("slow"),
    "its disk is full": _of("full"),
    "the disk of its log is full": _of("log_full"),
}
TAKEN = ("it is slow", "its commits are slow")
"""Whatever comes is stored meanwhile."""
FILLING = "its disk is full"
"""Here a row may still find room."""


def hurt(at: Served, name: str, *, runs: int) -> None:
    """One fault while runs are under way; then everything goes on by itself."""
    for _ in range(2):
        _until(at, lambda: at.start("asked") == 201, "starts are accepted")
    _until(at, lambda: bool(at.asked()), "somebody is asked")
    one = at.asked()[0]
    for _ in range(runs):
        at.start("saga")  # last: their calls are out when it comes
    mend = (FAULTS | SERVER_FAULTS)[name](at)
    if name == FILLING:
        _until(at, lambda: at.start("saga") == 503, f"{name}: starts are refused")
    told = [at.start("saga"), at.deliver(), at.decide(one), at.start("asked"), at.deliver()]
    page = at.ask("GET", "/sign-in")
    mend()
    if "Traceback" in page.text or page.status_code not in (200, 503):
        at.wrong.append(f"{name}: the page says {page.text[:300]}")
    if any((code // 100 != 2) if name in TAKEN else (code != 503 and name != FILLING) for code in told):
        at.wrong.append(f"{name}: a start, a delivery, a decision, a start and a delivery were told {told}")
    _until(at, lambda: at.start("saga") == 201, f"{name}: starts are accepted again")
    _until(at, lambda: at.deliver() < 300, f"{name}: deliveries are accepted again")
    _until(at, lambda: at.decide() in (0, 200), f"{name}: decisions are accepted again")


def _until(at: Served, holds: Callable[[], bool], what: str) -> None:
    last = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > last:
            at.wrong.append(f"not within {PATIENCE:g} s: {what}")
            return
        time.sleep(0.2)


def play(names: Sequence[str], figures: Figures, *, runs: int, first: str = "", server: Server | None = None) -> int:
    """All of it with these faults; how many effects the receiver saw."""
    with tempfile.TemporaryDirectory() as place, HttpProcess() as shop:
        shop.script("POST /effects", always=late(SERVICE))
        with served(Path(place), shop.origin, first, server) as at:
            for name in names:
                hurt(at, name, runs=runs)
            while at.decide() == 200:
                pass
            _until(at, lambda: at.ask("GET", "/api/v1/runs?status=running,queued").json() == [], "all runs rest")
        url = server.address if server is not None else ""
        store = open_store(at.folder, clock=MachineClock(), writable=False, url=url)
        with closing(store):
            known = {view.run: view.status for view in store.runs(RunFilter(limit=100_000))}
            log = Installation.read(store, now=MachineClock().now())
        effects = Counter({key: int(times) for key, times in shop.ledger()["by_key"].items()})
        figures.say("answers", ", ".join(f"{what} {times}" for what, times in sorted(at.answers.items())))
        figures.say("runs", ", ".join(f"{status} {times}" for status, times in sorted(Counter(known.values()).items())))
        figures.broken(at.wrong)
        figures.broken([f"run {run} was accepted, and is gone" for run in at.accepted - {*known}])
        figures.broken(broken(log, Truth(effects=effects, arrived=frozenset(effects), covers=frozenset({"service"}))))
        said = (Path(place) / "told").read_text(errors="replace")
        figures.say("lines in the log of the process", len(said.splitlines()))
        unforeseen = next((word for word in ("Traceback", "a defect in Amends") if word in said), "")
        if unforeseen and not first:
            figures.broken([f"unforeseen: {said[max(said.index(unforeseen) - 300, 0) :][:600]}"])
        return len(effects)


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust disk`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust disk", description=__doc__)
    words.add_argument("--times", type=int, default=3)
    times = words.parse_args(argv).times
    if why := shim.why_not():
        print(f"skipped: {why}")
        return 0
    figures = Figures()
    effects = play([*FAULTS] * times, figures, runs=4)
    caught = {f"{name}, in a file": _seen("the disk is full", first) for name, first in MISTAKES.items()}
    figures.floor("effects", effects, times * len(FAULTS) * 20)
    with hurt_server() as server:
        names = [name for name in SERVER_FAULTS if name != FILLING or server.disk is not None]
        if server.disk is None:
            figures.say(FILLING, "skipped: no disk can be mounted here")
        effects = play(names * times, figures, runs=4, server=server)
    figures.floor("effects with PostgreSQL", effects, times * len(names) * 20)
    for name, first in MISTAKES.items():
        caught[f"{name}, on PostgreSQL"] = _seen("the server is read-only", first, on_server=True)
    caught["who has to wait is not answered"] = _seen("its rows are locked", UNANSWERED, on_server=True)
    figures.planted(caught)
    return figures.code


def _seen(fault: str, first: str, *, on_server: bool = False) -> str:
    """What the suite says where this mistake is planted."""
    found = Figures()
    with hurt_server() if on_server else nullcontext() as server:
        try:
            play([fault], found, runs=4, first=first, server=server)
        except KeyError as error:
            found.wrong.append(f"the log does not fold: an outcome of {error} has no intent")
    return found.wrong[0] if found.wrong else ""
