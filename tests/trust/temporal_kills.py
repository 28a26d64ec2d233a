"""Sagas on a Temporal cluster whose workers and server are killed all the time: nothing is lost and nothing done twice.

python -m tests.trust temporal_kills                                         500 sagas, 100 workers and 20 servers killed
python -m tests.trust temporal_kills --sagas 50 --kills 10 --servers 2       a smaller storm

Three workers with project folders of their own, the log in PostgreSQL, the real server. Every saga asks a person; a
third is refused at its last step, a tenth of the persons says no: those are compensated. Runs are started and decided
while the storm goes on, by a process that carries nothing itself. People are honest: asked what became of a call they
look at the receiver.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.core import events as e
from runner.core.state import HandOff, State
from runner.engine.past import read_state
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.language.project import Project
from runner.people.approvals import Decision
from runner.people.operations import Order, give
from runner.store import signing
from runner.store.facts import RunFilter, RunView
from runner.store.lock import EngineLock
from tests.crash.project import ASKED, KEYED, LOOKUP, ONCE, WRITE
from tests.support.postgres import running_postgres
from tests.support.processes import HttpProcess
from tests.support.says import DROP_AFTER, late, refused
from tests.support.temporal import TemporalServer, running_temporal
from tests.trust.figures import Figures
from tests.trust.installation import Installation, Truth
from tests.trust.kills import several_keys
from tests.trust.oracle import broken
from tests.trust.worker_host import SAID, WorkerHost

WORKERS, CARRIES_NOTHING = 3, ("nowhere",)
PATIENCE, LONGEST = 600.0, 7200.0
"""Seconds for the next run to end or to go on, after the last kill, however slow the machine is; and for all of them."""
SLOWLY, SLOWER, SLOWEST = 100, 600, 1500
"""ms until the receiver answers, so long for what is looked up, and for what is done once: so that such calls are out
when a worker dies."""
LOOK = 0.1
ENTRIES = "SELECT coalesce(sum(seq), 0) FROM runs"
LONGEST_WAIT = 60.0
"""Seconds that the next kill waits for a call that is out."""
ENTRIES_EACH = 30
"""So many entries of a saga's log, at the most, come between two kills."""
THERE = "SELECT name FROM engines"
BUSY = (
    "SELECT name FROM engines JOIN runs USING (fence) JOIN log ON log.run_id = runs.run_id AND log.seq = runs.seq"
    " WHERE type = 'CallIntended' GROUP BY name"
    " ORDER BY bool_or(data ~ 'service.(undo_)?(once|asked)') DESC, count(*) DESC, name"
)
"""Workers by the calls they have out; first those with one that a repeated request would do twice."""
NEEDS_LOOK = ("waiting", "needs_person")
SEVERAL = 500
NO = 10
"""One in so many persons says no."""
LOST = 12
"""So many answers of each looked-up or once-only action are lost on their way."""

CONNECTOR = (
    "connector: service\ntitle: The receiver\nactions:\n"
    + "".join(WRITE.format(name=name, effect=KEYED) for name in ("keyed", "undo_keyed", "last", "refused"))
    + "".join(WRITE.format(name=name, effect=LOOKUP) + ASKED.format(name=name) for name in ("asked", "undo_asked"))
    + "".join(WRITE.format(name=name, effect=ONCE) for name in ("once", "undo_once"))
).replace("timeout: 300 ms", "timeout: 3000 ms")
STEPS = """  - id: keyed
    do: service.keyed
    compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
  - id: nap
    wait: 1200 ms
  - id: asked
    do: service.asked
    compensate: { mark: service.undo_asked, with: { of: "${{ output.id }}" } }
  - id: go
    approve: Go on with ${{ inputs.name }}?
    covers: [once]
    by: [person:ann, person:root]
    within: 300 days
  - id: once
    do: service.once
    accept_order: It is put right.
    compensate: { correct: service.undo_once, with: { of: "${{ output.id }}" }, unattended: The case says so. }
  - id: both
    parallel:
      one:
        - id: beside
          do: service.keyed
          compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
      two:
        - id: own
          do: records.create
          with: { collection: cases, name: "${{ inputs.name }}" }
          compensate: cancel
"""
END = '  - id: last\n    do: service.{last}\n    compensate: {{ cancel: service.undo_keyed, with: {{ of: "${{{{ output.id }}}}" }} }}\n'
FLOWS = {name: STEPS + END.format(last=last) for name, last in (("trip", "last"), ("back", "refused"))}
PEOPLE = "people:\n  ann: { name: Ann, mail: ann@example.test, role: approver }\n  root: { name: Root, mail: root@example.test, role: admin }\n"
ENDS = {"trip": "succeeded", "back": "compensated", "no": "compensated"}


def write_project(folder: Path, *, origin: str, url: str, cluster: str, queue: str) -> None:
    """One host's copy of the project."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    (folder / "amends.yaml").write_text(
        f'engine: {{ temporal: "{cluster}", queue: {queue} }}\ndatabase: {{ secret: DATABASE_URL }}\n'
        "limits: { runs_at_once: 32 }\nadmin: person:root\n"
    )
    (folder / ".env").write_text(f"DATABASE_URL={url}\n")
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / "connectors" / "service.yaml").write_text(CONNECTOR)
    (folder / "connections.yaml").write_text(
        f'service: {{ connector: service, origin: "{origin}", allow_private: true }}\n'
    )
    for name, steps in FLOWS.items():
        head = f"flow: {name}\ntitle: A saga\nowner: person:me\nmode: live\nrun_key: ${{{{ trigger.id }}}}\n"
        (folder / "flows" / f"{name}.yaml").write_text(f"{head}inputs: {{ name: text }}\nsteps:\n{steps}")


@dataclass(kw_only=True)
class Storm:
    """What is hurt, and what came of it."""

    folder: Path
    server: TemporalServer
    service: HttpProcess
    workers: WorkerHost
    sagas: int
    kills: int
    servers: int
    rng: random.Random
    alive: list[int] = field(default_factory=list)
    killed: int = 0
    servers_killed: int = 0
    wanted: dict[str, str] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    taken_over: int = 0
    calm_after: float = 0.0
    """Seconds from the last kill until the last run had ended."""

    def host(self, number: int) -> Path:
        """The project folder of a worker; that of the conductor is the last."""
        return self.folder / f"host{number}"


@contextlib.contextmanager
def standing(fault: str, told: argparse.Namespace) -> Iterator[Storm]:
    """Servers, projects and workers, all of it taken away again."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        database = opened.enter_context(running_postgres(is_durable=True))
        server = opened.enter_context(running_temporal())
        opened.callback(server.kill)  # sooner than it ends by itself
        service = opened.enter_context(HttpProcess(keep_requests=False))
        storm = Storm(
            folder=folder, server=server, service=service, workers=opened.enter_context(WorkerHost(fault)),
            sagas=told.sagas, kills=told.kills, servers=told.servers, rng=random.Random(told.seed),
        )  # fmt: skip
        for number in range(WORKERS + 1):
            write_project(
                storm.host(number), origin=service.origin, url=f"{database.address}/postgres",
                cluster=server.address, queue="storm",
            )  # fmt: skip
        service.script("POST /refused", always=refused())
        for name in ("asked", "undo_asked", "once", "undo_once"):
            service.script(f"POST /{name}", *[late(SLOWLY), DROP_AFTER] * min(LOST, told.sagas // 10))
        for name in ("asked", "undo_asked", "once", "undo_once"):
            service.script(f"POST /{name}", always=late(SLOWEST if "once" in name else SLOWER))
        service.script("POST /*", always=late(SLOWLY))
        yield storm


@contextlib.asynccontextmanager
async def conducting(storm: Storm) -> AsyncIterator[OwnDriver]:
    """Starts runs and reports about them, and carries none."""
    folder = storm.host(WORKERS)
    driver = OwnDriver(Project.open(folder), MachineClock(), EngineLock(folder))
    async with driver.running(settles=False, only=CARRIES_NOTHING):
        yield driver


async def play(storm: Storm) -> list[str]:
    """The storm, then calm until all have ended. What is wrong."""
    async with conducting(storm) as driver:
        for number in range(WORKERS):  # the hosts share the key that checkpoints are signed with
            (storm.host(number) / ".amends").mkdir()
            shutil.copy(storm.host(WORKERS) / ".amends" / signing.FILE, storm.host(number) / ".amends")
        storm.alive = [storm.workers.start(storm.host(number)) for number in range(WORKERS)]
        people = asyncio.create_task(_answer_all(storm, driver))
        try:
            await _storm(storm, driver)
            await _calm(storm, driver, people)
        finally:
            people.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await people
        log = await asyncio.to_thread(Installation.read, driver.store, now=MachineClock().now() + 10**9)
    storm.taken_over = _taken_over(log)
    truth = Truth(effects=storm.service.ledger()["by_key"], covers=frozenset({"service"}))
    return [*_lost(storm, log), *several_keys(log, truth.effects), *broken(log, truth), *_died(storm)]


async def _storm(storm: Storm, driver: OwnDriver) -> None:
    """Starts a portion, waits until something goes on, kills; as often as it was asked for."""
    names = [f"s{number}" for number in range(storm.sagas)]
    portions = [names[at :: max(storm.kills, 1)] for at in range(max(storm.kills, 1))]
    for number, portion in enumerate(portions):
        await _start(storm, driver, portion)
        at = await _victim(storm, driver)
        if storm.servers_killed * storm.kills < storm.servers * number:
            await asyncio.to_thread(_kill_server, storm)
        if storm.killed < storm.kills:
            _kill_worker(storm, at)


async def _calm(storm: Storm, driver: OwnDriver, people: asyncio.Task[None]) -> None:
    """Returns when all runs have ended, or nothing goes on any more."""
    began = grown_at = time.monotonic()
    entries = 0
    while not people.done() and time.monotonic() < min(grown_at + PATIENCE, began + LONGEST):
        if driver.store.counts().keys() <= {*ENDS.values(), "closed"}:
            break
        if (now := _asked(driver, ENTRIES)[0][0]) != entries:
            entries, grown_at = now, time.monotonic()
        await asyncio.sleep(LOOK)
    storm.calm_after = time.monotonic() - began


async def _start(storm: Storm, driver: OwnDriver, names: Sequence[str]) -> None:
    for flow in FLOWS:
        some = [name for name in names if (int(name[1:]) % 3 == 0) == (flow == "back")]
        wishes = [Wish(given={"name": name}, key=name, starter="person:me") for name in some]
        for name, started in zip(some, await driver.start_many(flow, wishes) if some else (), strict=True):
            if isinstance(started, Exception):
                raise started
            storm.wanted[started.run] = "no" if int(name[1:]) % NO == 1 else flow


async def _victim(storm: Storm, driver: OwnDriver) -> int:
    """The worker that has most calls out, a moment after one has any: once all are there, and the log has grown a
    little. However slow the machine is, work goes on between two kills; after a long while whichever is taken."""
    grown = _asked(driver, ENTRIES)[0][0] + storm.rng.randint(
        1, ENTRIES_EACH * max(storm.sagas // max(storm.kills, 1), 1)
    )
    until = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < until:
        there = {_process(name) for (name,) in _asked(driver, THERE)}
        busy = [_process(name) for (name,) in _asked(driver, BUSY)]
        found = [storm.alive.index(worker) for worker in busy if worker in storm.alive]
        if found and there.issuperset(storm.alive) and _asked(driver, ENTRIES)[0][0] >= grown:
            await asyncio.sleep(storm.rng.uniform(0, SLOWEST / 2000))
            return found[0]
        await asyncio.sleep(LOOK)
    return storm.rng.randrange(WORKERS)


def _process(name: str) -> int:
    return int(name.partition(":")[2].split()[0])


def _asked(driver: OwnDriver, what: str) -> Sequence[Any]:
    return driver.store.ask(lambda connection: connection.exec_driver_sql(what).all())


def _kill_worker(storm: Storm, at: int) -> None:
    storm.killed += storm.workers.kill(storm.alive[at])
    storm.alive[at] = storm.workers.start(storm.host(at))


def _kill_server(storm: Storm) -> None:
    storm.server.kill()
    time.sleep(storm.rng.choice([0.0, 0.5, 2.0]))
    storm.server.start()
    storm.servers_killed += 1


# --- people ----------------------------------------------------------------------------------------------------------


async def _answer_all(storm: Storm, driver: OwnDriver) -> None:
    seen: dict[str, int] = {}  # whoever looks at every run each time takes the CPU that the workers need
    while True:
        for view in driver.store.runs(RunFilter(status=NEEDS_LOOK, limit=SEVERAL)):
            if seen.get(view.run) != view.seq:
                seen[view.run] = view.seq
                with contextlib.suppress(NotPossible):  # it went on meanwhile
                    await _answer(storm, driver, view)
        await asyncio.sleep(LOOK)


async def _answer(storm: Storm, driver: OwnDriver, view: RunView) -> None:
    state, _ = read_state(driver.store, view.run)
    gate = next((gate for gate in state.gates.values() if gate.status == "open"), None)
    if gate is not None:
        answer: Any = "no" if storm.wanted[view.run] == "no" else "yes"
        decision = Decision(
            approval="go", round=gate.round, hash=gate.hash, answer=answer, by="person:ann", proof="token"
        )
        await driver.record(view.run, decision)
        storm.asked["approval"] += 1
    elif state.open_handoffs:
        order = _honest(storm, state, state.open_handoffs[0])
        await _give(driver, view.run, order)
        storm.asked[order.action] += 1


async def _give(driver: OwnDriver, run: str, order: Order) -> None:
    """As the driver's `act`, without waiting for a worker that may be dead."""
    state, _ = read_state(driver.store, run)
    await give(
        driver.store, driver.outside.bundle(state.bundle), run, order, lambda at: max(MachineClock().now(), at.at)
    )
    driver.engine.wake(run)


def _honest(storm: Storm, state: State, question: HandOff) -> Order:
    """They look at the receiver."""
    if question.purpose not in ("do", "undo"):
        return Order(action="done", by="person:me", handoff=question.id, reason="Seen to.")
    key = state.calls[question.step, question.purpose, question.part].key
    found = next((it["id"] for it in storm.service.ledger()["effects"] if key in (it["key"], it["reference"])), None)
    if found is None:
        return Order(action="did_not", by="person:me", handoff=question.id)
    return Order(action="happened", by="person:me", handoff=question.id, output={"id": found}, external_id=found)


# --- what is wrong ---------------------------------------------------------------------------------------------------


def _lost(storm: Storm, log: Installation) -> list[str]:
    found = [f"run {run} is gone" for run in storm.wanted if run not in log.views]
    for run, flow in storm.wanted.items():
        view = log.views.get(run)
        if view is not None and view.status != ENDS[flow]:
            found.append(f"run {run} of {flow} is {view.status} ({view.at_step or 'nowhere'}) and not {ENDS[flow]}")
    return found


def _died(storm: Storm) -> list[str]:
    """Workers that ended by themselves."""
    said = [storm.host(number) / SAID for number in range(WORKERS)]
    return [f"a worker ended: {file.read_text()[-600:]}" for file in said if file.exists()]


def _taken_over(log: Installation) -> int:
    return sum(isinstance(each, e.CallUnknown) and each.take_over for events in log.logs.values() for each in events)


# --- the suite -------------------------------------------------------------------------------------------------------


def options(argv: Sequence[str]) -> argparse.Namespace:
    """The sizes."""
    words = argparse.ArgumentParser(prog="python -m tests.trust temporal_kills")
    words.add_argument("--sagas", type=int, default=500)
    words.add_argument("--kills", type=int, default=100, help="how many workers are killed")
    words.add_argument("--servers", type=int, default=20, help="how often the server is killed")
    words.add_argument("--seed", type=int, default=1)
    return words.parse_args(argv)


def run(argv: Sequence[str]) -> int:
    """See `tests.trust.__main__`."""
    told, figures, began = options(argv), Figures(), time.monotonic()
    logging.getLogger("amends.store").setLevel(logging.ERROR)
    with standing("", told) as storm:
        wrong = asyncio.run(play(storm))
        effects = storm.service.ledger()["by_key"]
    figures.say("wall", f"{time.monotonic() - began:.0f} s")
    figures.say("all had ended after the last kill within", f"{storm.calm_after:.0f} s")
    figures.say("runs by how they were to end", dict(Counter(ENDS[flow] for flow in storm.wanted.values())))
    figures.say("asked of people", dict(storm.asked))
    figures.broken(wrong)
    figures.say("wrong", len(wrong))
    with standing("send_again", options(["--sagas", "36", "--kills", "9", "--servers", "0"])) as planted:
        caught = next((what for what in asyncio.run(play(planted)) if what.startswith("I4")), "")
    figures.planted({"what a dead worker had sent counts as not sent": caught})
    figures.floor("workers killed", storm.killed, told.kills)
    figures.floor("servers killed", storm.servers_killed, told.servers)
    figures.floor("calls that were out when their worker died", storm.taken_over, told.kills // 4)
    figures.floor("effects", len(effects), 5 * told.sagas)
    return figures.code
