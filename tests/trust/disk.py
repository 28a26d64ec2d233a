"""The disk is full, fails, is slow, or its database is locked: what cannot be stored is not said to be, and nothing is sent.

`amends serve` runs as a process of its own over the shim. Each fault comes while runs are under way, and starts, deliveries
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
from contextlib import closing, contextmanager
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
from tests.trust.figures import Figures
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import broken

PROGRAM = "from runner.cli import main; main()"
SENDER = "the-secret-of-the-sender"
PATIENCE = 60.0
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


@dataclass(kw_only=True)
class Served:
    """A project that is being served over the shim, and what was asked of it."""

    folder: Path
    address: str
    tokens: Mapping[str, str]
    control: shim.Control
    accepted: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    number: int = 0

    def ask(self, method: str, path: str, *, by: str = "root", **words: Any) -> httpx.Response:
        """One request, with this person's token."""
        headers = {"authorization": f"Bearer {self.tokens[by]}", **words.pop("headers", {})}
        return httpx.request(method, f"{self.address}{path}", headers=headers, timeout=PATIENCE, **words)

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

    def decide(self) -> int:
        """A yes to the first approval that is open; 0 where there is none."""
        asked = self.ask("GET", "/api/v1/approvals", by="ann").json()
        if not isinstance(asked, list) or not asked:
            return 0
        one = asked[0]
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


def write_project(folder: Path, origin: str) -> None:
    """Flows that are started, delivered and approved; all of them send what is deduplicated."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    (folder / "amends.yaml").write_text("admin: person:root\n")
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / ".env").write_text(f"SENDER={SENDER}\n")
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
def served(place: Path, origin: str, first: str = "") -> Iterator[Served]:
    """`first` is what the process does before it serves."""
    folder = place / "project"
    write_project(folder, origin)
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
        yield Served(folder=folder, address=found[0], tokens=tokens, control=control)
    finally:
        control.mend()
        end([process])
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        control.close()


def _refused(error: int, which: int) -> Callable[[Served], Callable[[], object]]:
    def begin(at: Served) -> Callable[[], object]:
        at.control.refuse(error, which)
        return at.control.mend

    return begin


def _slow(at: Served) -> Callable[[], object]:
    at.control.slow(150)
    return at.control.mend


def _locked(at: Served) -> Callable[[], object]:
    holder = sqlite3.connect(at.folder / ".amends" / "amends.db", isolation_level=None, timeout=PATIENCE)
    holder.execute("BEGIN IMMEDIATE")

    def mend() -> None:
        with closing(holder):
            holder.execute("ROLLBACK")

    return mend


FAULTS: dict[str, Callable[[Served], Callable[[], object]]] = {
    "the disk is full": _refused(errno.ENOSPC, shim.WRITES),
    "writes fail": _refused(errno.EIO, shim.WRITES),
    "syncs fail": _refused(errno.EIO, shim.SYNCS),
    "it is read-only": _refused(errno.EROFS, shim.WRITES | shim.NAMING),
    "it is locked": _locked,
    "it is slow": _slow,
}


def hurt(at: Served, name: str, shop: HttpProcess, *, runs: int) -> None:
    """One fault while runs are under way; then everything goes on by itself."""
    for _ in range(2):
        _until(at, lambda: at.start("asked") == 201, "starts are accepted")
    for _ in range(runs):
        at.start("saga")
    _until(at, lambda: bool(at.ask("GET", "/api/v1/approvals", by="ann").json()), "somebody is asked")
    mend = FAULTS[name](at)
    told = [at.start("saga"), at.deliver(), at.decide(), at.start("asked"), at.deliver()]
    mend()
    if name != "it is slow" and any(code != 503 for code in told):
        at.wrong.append(f"{name}: a start, a delivery, a decision, a start and a delivery were told {told}")
    if name == "it is slow" and not all(200 <= code < 300 for code in told):
        at.wrong.append(f"{name}: told {told}")
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


def play(names: Sequence[str], figures: Figures, *, runs: int, first: str = "") -> int:
    """All of it with these faults; how many effects the receiver saw."""
    with tempfile.TemporaryDirectory() as place, HttpProcess() as shop:
        shop.script("POST /effects", always=late(20))
        with served(Path(place), shop.origin, first) as at:
            for name in names:
                hurt(at, name, shop, runs=runs)
            while at.decide() == 200:
                pass
            _until(at, lambda: not at.ask("GET", "/api/v1/runs?status=running,queued").json(), "all runs rest")
        store = open_store(at.folder, clock=MachineClock(), writable=False)
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
        figures.broken(
            [f"a stack trace: {said[max(said.index('Traceback') - 300, 0) :][:600]}"]
            if "Traceback" in said and not first
            else []
        )
        return len(effects)


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust disk`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust disk", description=__doc__)
    words.add_argument("--times", type=int, default=3)
    told = words.parse_args(argv)
    if why := shim.why_not():
        print(f"skipped: {why}")
        return 0
    figures = Figures()
    effects = play([*FAULTS] * told.times, figures, runs=4)
    caught = {}
    for name, first in MISTAKES.items():
        found = Figures()
        try:
            play(["the disk is full"], found, runs=4, first=first)
        except KeyError as error:
            found.wrong.append(f"the log does not fold: an outcome of {error} has no intent")
        caught[name] = found.wrong[0] if found.wrong else ""
    figures.planted(caught)
    figures.floor("effects", effects, told.times * len(FAULTS) * 20)
    return figures.code
