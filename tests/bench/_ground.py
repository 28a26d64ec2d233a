"""What the benches share: a project with flows that measure, its engine in this process, and its database."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.app import OwnDriver
from runner.clock import Clock, MachineClock
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools
from runner.engine.starting import Wish
from runner.language.connections import Kinds, installed
from runner.language.project import Project
from runner.store.lock import EngineLock
from tests.bench import floor
from tests.support.postgres import running_postgres
from tests.support.processes import HttpProcess
from tests.support.says import refused

STEPS = 5
AT_ONCE = 64
REPEATS = 3

CONNECTOR = """connector: service
title: The measuring service
actions:
  make:
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    undo: { action: take_back, with: { run: "${{ output.run }}", step: "${{ output.step }}" } }
    input: { run: text, step: integer }
    request: { post: /effects, json: { run: "${{ input.run }}", step: "${{ input.step }}" } }
    output: { run: text, step: integer }
  take_back:
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    cannot_undo: It only counts.
    input: { run: text, step: integer }
    request: { post: /undone, json: { run: "${{ input.run }}", step: "${{ input.step }}" } }
    output: { id: text or empty }
  refuse:
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    cannot_undo: It is never done.
    input: { run: text, step: integer }
    request: { post: /refused, json: { run: "${{ input.run }}", step: "${{ input.step }}" } }
    output: { id: text or empty }
"""
HEAD = "flow: {name}\ntitle: Measured\nowner: person:me\nmode: live\nrun_key: ${{{{ trigger.id }}}}\n"
MAKE = """  - id: s{number}
    do: {action}
    with: {{ {run}step: {number} }}
    unattended: It only counts.
    compensate: {compensate}
"""
NONE, RUN = "{ none: It only counts. }", "run: '${{ run.id }}', "
LATER = "inputs: { at: datetime }\nsteps:\n  - id: nap\n    wait: { until: '${{ inputs.at }}' }\n"
PARKED = "inputs: { number: text }\nsteps:\n  - { id: nap, wait: 300 days }\n"
ASKED = """inputs: { number: text }
steps:
  - id: go
    approve: Send ${{ inputs.number }}?
    covers: [sent]
    by: [person:ann, person:root]
    within: 300 days
  - id: sent
    do: nothing.make
    with: { step: 1 }
    compensate: { none: It only counts. }
"""
AMID = """inputs: { number: text }
steps:
  - { id: s0, do: nothing.make, with: { step: 0 }, unattended: It only counts., compensate: { none: It only counts. } }
  - { id: s1, do: nothing.make, with: { step: 1 }, unattended: It only counts., compensate: { none: It only counts. } }
  - id: go
    approve: Send ${{ inputs.number }}?
    covers: [s2, s3, s4]
    by: [person:ann, person:root]
    within: 300 days
  - { id: s2, do: nothing.make, with: { step: 2 }, compensate: { none: It only counts. } }
  - { id: s3, do: nothing.make, with: { step: 3 }, compensate: { none: It only counts. } }
  - { id: s4, do: nothing.make, with: { step: 4 }, compensate: { none: It only counts. } }
"""
"""Two steps, a person, three steps."""
PEOPLE = "people:\n  ann: { name: Ann, mail: ann@example.test, role: approver }\n  root: { name: Root, mail: root@example.test, role: admin }\n"


def steps(action: str, *, run: str = RUN, compensate: str = NONE, last: str = "") -> str:
    """Five steps, all of one action; with `last` the fifth is another one, that nothing makes good."""
    lines = [
        MAKE.format(number=number, action=action, run=run, compensate=compensate)
        for number in range(STEPS - bool(last))
    ]
    if last:
        lines.append(MAKE.format(number=STEPS - 1, action=last, run=run, compensate=NONE))
    return "steps:\n" + "".join(lines)


FLOWS: Mapping[str, str] = {
    "saga": steps("service.make"),
    "rollback": steps("service.make", compensate="cancel", last="service.refuse"),
    "noop": steps("nothing.make", run=""),
    "small": steps("nothing.make", run=""),
    "later": LATER,
    "parked": PARKED,
    "asked": ASKED,
    "amid": AMID,
}


def write_project(folder: Path, origin: str = "http://127.0.0.1:1", url: str = "", at_once: int = AT_ONCE) -> None:
    """A project with the flows of the benches. `url`: the address of its PostgreSQL database."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    database = "database: { secret: DATABASE_URL }\n" if url else ""
    (folder / "amends.yaml").write_text(f"limits: {{ runs_at_once: {at_once} }}\nadmin: person:root\n{database}")
    if url:
        (folder / ".env").write_text(f"DATABASE_URL={url}\n")
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / "connectors" / "service.yaml").write_text(CONNECTOR)
    (folder / "connections.yaml").write_text(
        f'service: {{ connector: service, origin: "{origin}", allow_private: true }}\nnothing: {{ connector: nothing }}\n'
    )
    for name, text in FLOWS.items():
        (folder / "flows" / f"{name}.yaml").write_text(HEAD.format(name=name) + text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Nothing:
    """A connection whose one action does nothing, at no cost."""

    actions: Mapping[str, Action]

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        return Request.of({"do": "nothing", "input": dict(input)})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        return Outcome(result="applied")

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return "nothing:"


class NothingKind:
    """The connector of `Nothing`."""

    name = "nothing"
    title = "Does nothing"

    def settings(self) -> Mapping[str, Json]:
        return {}

    def actions(self) -> Mapping[str, Action]:
        make = Action(
            name="make", effect="keyed", key_life=86_400_000, input={"step": "integer"}, cannot_undo="Nothing was done."
        )
        return {"make": make}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        return Nothing(actions=self.actions())


def kinds() -> Kinds:
    """Every connector, and the one that does nothing."""
    found = installed()
    found.python = {**found.python, "nothing": NothingKind()}
    return found


@contextlib.contextmanager
def project(kept: str = "sqlite", origin: str = "http://127.0.0.1:1", at_once: int = AT_ONCE) -> Iterator[Path]:
    """The folder of a fresh project, its database in a file or on a PostgreSQL of its own."""
    with contextlib.ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        url = ""
        if kept == "postgresql":
            server = opened.enter_context(running_postgres(is_durable=True))
            url = f"{server.address}/postgres"
        write_project(place / "bench", origin, url, at_once)
        yield place / "bench"


@contextlib.asynccontextmanager
async def engine(folder: Path, clock: Clock | None = None) -> AsyncIterator[OwnDriver]:
    """The project's engine in this process."""
    driver = OwnDriver(Project.open(folder, kinds=kinds()), clock or MachineClock(), EngineLock(folder))
    async with driver.running(settles=False):
        yield driver


async def play(
    folder: Path, flow: str, *, runs: int, repeats: int = REPEATS, alone: int = floor.ALONE
) -> floor.Measured:
    """The same measures as the floor's, with every call made by a run. `calls` are the runs that were started."""
    async with engine(folder) as driver:
        bundle = Project.open(folder, kinds=kinds()).bundle(flow)

        async def one_run(number: int) -> None:
            started = await driver.start_bundle(bundle, Wish())
            await driver.engine.rest(started.run)

        warm = min(runs, 2 * AT_ONCE)
        await floor.timed(one_run, runs=warm, at_once=AT_ONCE)
        found = [await floor.timed(one_run, runs=runs, at_once=AT_ONCE) for _ in range(repeats)]
        single = []
        for number in range(alone):
            began = time.perf_counter()
            await one_run(number)
            single.append(time.perf_counter() - began)
    found.sort(key=lambda each: each.cpu)
    return floor.Measured(
        figures=found[len(found) // 2],
        calls=warm + runs * repeats + alone,
        alone_p50=statistics.median(single) * 1000,
        spread=(found[0].cpu_ms_per_run, found[-1].cpu_ms_per_run),
    )


async def until(is_so: Callable[[], bool], end: float, every: float = 0.02) -> None:
    """Waits until it is so, or until `end` on the monotonic clock; looks `every` so many seconds."""
    while not is_so() and time.monotonic() < end:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(every)


def ended(folder: Path, flow: str, status: str, number: int) -> list[str]:
    """What is wrong where not exactly so many runs ended like this."""
    from_store = asyncio.run(_ended(folder))
    found = from_store[flow, status]
    return [] if found == number else [f"{found} of {number} runs of {flow} ended {status}"]


async def _ended(folder: Path) -> Counter[tuple[str, str]]:
    async with engine(folder) as driver:
        asked = "SELECT flow, status, count(*) FROM runs GROUP BY flow, status"
        rows = driver.store.ask(lambda connection: connection.exec_driver_sql(asked).all())
    return Counter({(row[0], row[1]): row[2] for row in rows})


@contextlib.contextmanager
def service() -> Iterator[HttpProcess]:
    """The service that counts; whoever asks it for `/refused` is refused."""
    with HttpProcess(keep_requests=False) as running:
        running.script("POST /refused", always=refused())
        yield running


def effects(running: HttpProcess, **wanted: int) -> list[str]:
    """What is wrong where the service saw other effects than these, by path, or any twice."""
    ledger: dict[str, Any] = running.ledger()
    found = Counter(effect["path"].strip("/") for effect in ledger["effects"])
    twice = [key for key, times in ledger["by_key"].items() if times > 1]
    wrong = [
        f"the service saw {found[path]:,} of {number:,} calls of /{path}"
        for path, number in wanted.items()
        if found[path] != number
    ]
    return wrong + ([f"{len(twice)} calls had their effect twice"] if twice else [])
