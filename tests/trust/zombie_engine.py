"""One engine of the suite `zombies`: starts what it is told to, and stops itself at the place that it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, or_, select, text

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.engine import carrier
from runner.engine.carrier import Carrier
from runner.engine.starting import Wish
from runner.errors import StoreError
from runner.language.project import Project
from runner.store import postgres, shared
from runner.store.batch import Batch, Head
from runner.store.facts import Append, LogEnd
from runner.store.lock import EngineLock
from runner.store.sql import SqlStore
from runner.store.tables import engines
from runner.store.work import AppendWork
from tests.bench._ground import kinds

LEASE, BEAT, LATEST_START = 1_500, 300, 700
"""A call is begun well within the lease, or not at all: as with the times that engines have by themselves."""
FLOWS = ("saga", "rollback", "charged")
JOINED = "joined again first"
STARTED = "started"
"""The file that names the runs whose start was acknowledged."""


class Places:
    """Where it stops itself, once; then the next answer to a decision under the fence of that time is told."""

    def __init__(self) -> None:
        self.place = ""
        self.fence = 0
        self.is_watched = False

    def pass_by(self, place: str, fence: int) -> None:
        """Stops here if that is the place."""
        if self.place != place:
            return
        self.place, self.fence, self.is_watched = "", fence, True
        say(stops=fence)
        os.kill(os.getpid(), signal.SIGSTOP)

    def tell(self, append: Append, answer: str, now: int) -> None:
        """What became of a decision; one under a new fence means that it joined the others again before it decided."""
        if self.is_watched:
            self.is_watched = False
            say(answer=answer if append.fence == self.fence else JOINED, now=now)

    def tell_written(self, append: Append, end: LogEnd, now: int) -> None:
        """It stands in the log, perhaps since before the stop: then another one must tell."""
        if self.is_watched and append.fence != self.fence:
            self.tell(append, JOINED, now)
        elif self.is_watched:
            say(written=append.run, seq=end.seq, now=now)


def say(**what: object) -> None:
    """One line, to whoever gives the orders."""
    print(json.dumps(what), flush=True)


def plant(mistake: str) -> None:
    """One mistake, for the suite to see."""
    if mistake == "fence not checked":
        plan, head_at = AppendWork.plan, Batch.head_at

        def planned(self: AppendWork, batch: Batch) -> LogEnd:
            self.append = replace(self.append, fence=batch.site.fence)
            return plan(self, batch)

        def blind(self: Batch, run: str, seq: int) -> Head:  # also where it is read again
            head = head_at(self, run, seq)
            head.fence = self.site.fence
            return head

        setattr(Batch, "head_at", blind)  # noqa: B010 - a method
        setattr(AppendWork, "plan", planned)  # noqa: B010 - a method
    if mistake == "own row not checked":
        begin = shared.Shared.begin

        def begun(self: shared.Shared, cursor: Any) -> int | None:
            if (number := begin(self, cursor)) is None:
                cursor.execute("SELECT nextval('commits')")
                number = int(cursor.fetchone()[0])
            return number

        setattr(shared.Shared, "begin", begun)  # noqa: B010 - a method
        setattr(shared.Shared, "beat", lambda self, cursor: True)  # noqa: B010 - a method
        # Its connection is cut while it is stopped; what it asks on a new one is not believed either.
        setattr(shared.Shared, "last_commit", lambda self, connection: 2**62)  # noqa: B010 - a method
    if mistake == "taken over too early":
        dead = engines.c.fence.in_(bindparam("dead", expanding=True))
        early = or_(engines.c.lease_until < text(f"{shared.NOW} + {LEASE - BEAT * 2}"), dead)
        setattr(shared, "_GONE", select(engines).where(early, engines.c.fence != bindparam("mine")))  # noqa: B010


def install(places: Places) -> None:
    """Puts the places around what is really called."""
    append, seal, perform, send = SqlStore.append, Batch.seal, Carrier._perform, Carrier._send

    async def appended(self: SqlStore, one: Append) -> LogEnd:
        if one.events:  # else it may be written though it is stale, and nobody sees it
            places.pass_by("before the append", one.fence)
        try:
            end = await append(self, one)
        except StoreError as refused:
            places.tell(one, type(refused).__name__, self.fence())
            raise
        places.tell_written(one, end, self.fence())
        places.pass_by("after the commit", one.fence)
        return end

    def sealed(self: Batch) -> Any:
        if self.heads:
            places.pass_by("before the commit", self.site.fence)
        return seal(self)

    async def performed(self: Carrier, *args: Any) -> Any:
        places.pass_by("before the call", self._fence)
        return await perform(self, *args)

    async def sent(self: Carrier, *args: Any) -> Any:
        outcome = await send(self, *args)
        places.pass_by("after the answer", self._fence)
        return outcome

    for owner, name, made in (
        (SqlStore, "append", appended), (Batch, "seal", sealed), (Carrier, "_perform", performed),
        (Carrier, "_send", sent),
    ):  # fmt: skip
        setattr(owner, name, made)


async def drive(folder: Path, places: Places) -> None:
    """Until its orders end."""
    project = Project.open(folder, kinds=kinds())
    driver = OwnDriver(project, MachineClock(), EngineLock(folder))
    loop, orders = asyncio.get_running_loop(), asyncio.Queue[str]()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(orders.put_nowait, line)
        loop.call_soon_threadsafe(orders.put_nowait, "")

    async with driver.running():
        bundles = [project.bundle(flow) for flow in FLOWS]
        say(ready=True)
        threading.Thread(target=listen, daemon=True).start()
        while line := await orders.get():
            order = json.loads(line)
            if "stop" in order:
                places.place, places.is_watched = order["stop"], False
            for number in range(order.get("start", 0)):
                with contextlib.suppress(StoreError):  # its connection was cut while it was stopped
                    started = await driver.start_bundle(bundles[number % len(bundles)], Wish())
                    with (folder / STARTED).open("a") as file:
                        file.write(f"{started.run}\n")


if __name__ == "__main__":
    for room, name, value in (
        (shared, "LEASE", LEASE), (shared, "BEAT", BEAT), (postgres, "LEASE", LEASE),
        (carrier, "LATEST_START", LATEST_START),
    ):  # fmt: skip
        setattr(room, name, value)
    armed = Places()
    install(armed)
    plant(sys.argv[2])
    asyncio.run(drive(Path(sys.argv[1]), armed))
