"""Several hosts of one project: a folder each, one PostgreSQL, one Temporal, and `amends worker` or `serve` on them.

The test itself is no engine: it writes reports into the database without telling anybody, or tells the cluster alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from runner.clock import MachineClock
from runner.engine.starting import Wish, start_run
from runner.engine.temporal.cluster import connect
from runner.engine.temporal.moving import begin_all
from runner.language.project import Project
from runner.store.facts import RunView
from runner.store.sql import SqlStore, open_store
from tests.cases.ground import connector, flow, lines
from tests.cli.terminal import Running
from tests.support.processes import HttpProcess
from tests.support.temporal import TemporalServer

LEASE = 6_000
"""ms after which a worker of these tests is taken for dead; the product's lease is longer, and so would be each test."""
QUICK = (
    f"import runner.store.shared as shared; shared.LEASE, shared.BEAT = {LEASE}, 1_000; "
    "import runner.engine.temporal.engine as engine; engine.SWEEPS_EVERY, engine.SETTLED = 1.0, 1_500; "
)
PATIENCE = 60.0


def step(name: str, undo: str) -> str:
    """A step of the shop that is undone by another action of it."""
    return f"""  - id: {name}
    do: shop.{name}
    with: {{ note: "${{{{ inputs.name }}}}", of: "", amount: 1 }}
    compensate: {{ cancel: shop.{undo}, with: {{ note: back, of: "${{{{ output.id }}}}", amount: 1 }} }}
"""


RESERVE, CHARGE, BOOK, DEAL = (
    step(*names) for names in (("reserve", "release"), ("charge", "refund"), ("book", "unbook"), ("deal", "undo_deal"))
)
WAIT = '  - { id: "yes", wait_for: said.yes, match: { who: "${{ inputs.name }}" } }\n'
NAP = "  - { id: nap, wait: 4 s }\n"
FLOWS = (
    flow("saga", RESERVE + BOOK + CHARGE), flow("rollback", RESERVE + BOOK + CHARGE + DEAL),
    flow("asks", RESERVE + WAIT + CHARGE), flow("naps", RESERVE + NAP + CHARGE),
)  # fmt: skip


@dataclass(kw_only=True)
class Hosts:
    """`settings` is what stands in amends.yaml under `engine:`."""

    place: Path
    shop: HttpProcess
    database: str
    temporal: TemporalServer
    settings: str = ""
    queue: str = field(default_factory=lambda: "q" + secrets.token_hex(6))

    def host(self, name: str) -> Path:
        """The project's folder there; made where there is none."""
        folder = self.place / name
        if folder.exists():
            return folder
        for part in ("flows", "connectors"):
            (folder / part).mkdir(parents=True)
        engine = f'engine: {{ temporal: "{self.temporal.address}", queue: {self.queue}{self.settings} }}\n'
        (folder / "amends.yaml").write_text(f"project: shop\ndatabase: {{ secret: DATABASE_URL }}\n{engine}")
        (folder / ".env").write_text(f"DATABASE_URL={self.database}\n")
        (folder / "connectors" / "shop.yaml").write_text(connector(limit=8_000))
        (folder / "connections.yaml").write_text(lines(self.shop.origin, 1))
        for text in FLOWS:
            (folder / "flows" / f"{text.split()[1]}.yaml").write_text(text)
        return folder

    def runs(self, name: str, *words: str, prefix: Sequence[str] = ()) -> Running:
        """A command on a host that goes on, with pauses that suit a test; `prefix` is the program that it is run by."""
        return Running(*(words or ("worker",)), folder=self.host(name), first=QUICK, prefix=prefix)

    # -- the log --

    @contextlib.contextmanager
    def store(self, *, writable: bool = False) -> Iterator[SqlStore]:
        """The log. One that is writable drives nothing and wakes nobody."""
        folder = self.host("desk")
        opened = open_store(folder, clock=MachineClock(), writable=writable, url=self.database, drives=False)
        try:
            yield opened
        finally:
            opened.close()

    async def start(self, *flows: str, tells: bool = True) -> list[str]:
        """Starts runs. `tells` False: as if this process had been killed before it could tell the cluster."""
        project = Project.open(self.host("desk"))
        with self.store(writable=True) as store:
            started = []
            for number, name in enumerate(flows):
                wish = Wish(given={"name": f"n{number}"}, key=secrets.token_hex(6), starter="person:me")
                started.append((await start_run(store, project.bundle(name), wish, now=MachineClock().now()))[0].run)
        if tells:
            cluster = project.settings.cluster
            assert cluster is not None
            client = await connect(cluster, project.folder, lambda _: "")
            await begin_all(client, self.queue, started)
        return started

    async def work_for(self, process: Running, *flows: str) -> list[str]:
        """Starts these runs, and again, until the process has begun a call of its own. Raises TimeoutError."""
        before, runs = self.calls_of(process), []
        for patience in (5, 5, 5, 5, 40):
            runs += await self.start(*flows)
            with contextlib.suppress(TimeoutError):
                await until(lambda: self.calls_of(process) > before, patience=patience)
                return runs
        raise TimeoutError(f"process {process.process.pid} begins no call")

    async def said_yes(self, who: str) -> None:
        """The event that such a run waits for is kept and fed; nobody is told."""
        with self.store(writable=True) as store:
            event = secrets.token_hex(8)
            await store.keep_event(event, "said.yes", {"who": who}, "test")
            assert await store.feed(event_id=event)

    def views(self, runs: Sequence[str]) -> list[RunView]:
        with self.store() as store:
            return [store.run(run) for run in runs]

    async def until(self, runs: Sequence[str], *statuses: str) -> None:
        """Waits until each run has one of these statuses. Raises TimeoutError that says what they have."""
        with self.store() as store:
            await until(
                lambda: all(store.run(run).status in statuses for run in runs),
                lambda: Counter(store.run(run).status for run in runs),
            )

    def count(self, asked: str, *given: object) -> int:
        """One number of the database."""
        with psycopg.connect(self.database) as connection:
            row = connection.execute(asked.encode(), given).fetchone()
            return int(row[0]) if row is not None else 0

    def calls_of(self, process: Running) -> int:
        """How many calls the engine of this process has begun."""
        asked = (
            "SELECT count(*) FROM log JOIN engines ON data::jsonb ->> 'fence' = engines.fence::text "
            "WHERE type = 'CallIntended' AND split_part(engines.name, ' ', 1) LIKE %s"
        )
        return self.count(asked, f"%:{process.process.pid}")

    def holds(self, runs: Sequence[str]) -> None:
        """What must be true whatever happened: whole chains, a witness for each open run, no run that anybody keeps."""
        with self.store() as store:
            faults = [
                each for each in store.verify() if "name it in amends.yaml" not in each.what
            ]  # each host has a key
            idle = list(store.without_witness(MachineClock().now() + 3_600_000))
            ended = [run for run in runs if store.run(run).ended_at is not None]
            kept = [run for run in ended if store.fence_of(run)]
        if faults or idle or kept:
            raise AssertionError(f"{faults=}, {idle=}, {kept=}")

    # -- what truly happened --

    def twice(self) -> list[str]:
        """Keys whose effect happened more than once."""
        ledger: Mapping[str, Any] = self.shop.ledger()
        return [key for key, times in ledger["by_key"].items() if times > 1]

    def effects(self) -> Counter[str]:
        """How many true effects each path had."""
        return Counter(effect["path"].strip("/") for effect in self.shop.ledger()["effects"])


async def until(
    is_so: Callable[[], bool], told: Callable[[], object] = lambda: "it", patience: float = PATIENCE
) -> None:
    """Waits for something that nobody tells of. Raises TimeoutError with `told`."""
    end = asyncio.get_running_loop().time() + patience
    while not is_so():
        if asyncio.get_running_loop().time() > end:
            raise TimeoutError(f"not so after {patience:g} s: {told()}")
        await asyncio.sleep(0.3)
