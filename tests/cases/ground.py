"""The ground of the whole-engine cases: a project, real receivers, and the engine that stands between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psycopg

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.contract import Json
from runner.core import events as e
from runner.core.state import State
from runner.engine.embedded import Embedded
from runner.engine.past import read_state
from runner.engine.starting import Wish
from runner.language.project import Project
from runner.people.operations import Order
from runner.reading import Reading, database_url
from runner.store.database import is_address
from runner.store.facts import RunView
from runner.store.lock import EngineLock
from runner.store.sql import SqlStore
from runner.store.tables import metadata
from tests.flows.stage import kinds
from tests.support.http_service import HttpService
from tests.support.smtp_service import SmtpScript, SmtpService

T = TypeVar("T", bound=e.Event)
PATIENCE = 3_000
"""ms that a run may wait for a timer before a test lets go of it."""
ME = "person:me"

QUICK = """    timeout: {limit} ms
    retry: {{ tries: 4, pause: 20 ms, growth: none }}
"""
WRITE = """  {name}:
    {effect}
    input: {{ note: any, of: text or empty, amount: number or empty }}
    request:
      post: /{name}
      json: {{ note: "${{{{ input.note | default('none') }}}}", of: "${{{{ input.of | default('') }}}}", amount: "${{{{ input.amount | default(0) }}}}", reference: "${{{{ key }}}}" }}
    output: {{ id: text, note: any }}
    external_id: ${{{{ response.json.id }}}}
"""  # fmt: skip
EFFECTS = {
    "keyed": "writes: keyed\n    key: { header: Idempotency-Key, life: 1 hour }",
    "lookup": "writes: lookup",
    "once": "writes: once\n    cannot_undo: A person takes it back.",
}
LOOKUP = """    lookup:
      request: {{ get: /{name}, query: {{ reference: "${{{{ key }}}}" }} }}
      count: ${{{{ response.json.items | length }}}}
      output: {{ id: "${{{{ response.json.items[0].id }}}}", note: "${{{{ response.json.items[0].note }}}}" }}
      external_id: ${{{{ response.json.items[0].id }}}}
      delay: 20 ms
"""
READS = """connector: shop
title: The shop
{auth}actions:
  plan:
    reads: true
    input: { code: text }
    request: { get: "/plans/${{ input.code }}" }
    output: { id: text, label: any or empty }
    timeout: 1000 ms
    retry: { tries: 3, pause: 20 ms, growth: none }
"""
FAILURES = """    failures:
      - { when: "${{ response.status == 503 }}", is: unavailable }
      - { when: "${{ response.status == 422 }}", is: invalid, say: "${{ response.json.message }}" }
      - { when: "${{ response.status == 409 }}", is: conflict }
"""
ACTIONS = {
    "keyed": ("reserve", "charge", "ticket", "deal", "log", "release", "refund", "void", "undo_deal"),
    "lookup": ("book", "unbook"),
    "once": ("post",),
}


def connector(*, auth: str = "", limit: int = 1_000, more: str = "") -> str:
    """The connector of the shop: keyed, looked-up and once-only actions; 503 and 422 are a clear no."""
    text = READS.replace("{auth}", auth)
    for effect, names in ACTIONS.items():
        for name in names:
            text += WRITE.format(name=name, effect=EFFECTS[effect]) + QUICK.format(limit=limit) + FAILURES
            text += LOOKUP.format(name=name) if effect == "lookup" else ""
    return text + more


def flow(
    name: str, steps: str, *, inputs: str = "{ name: text }", on_failure: str = "compensate", record: str = "",
    outputs: str = "",
) -> str:  # fmt: skip
    """A live flow whose run key is the trigger's id."""
    return (
        f"flow: {name}\ntitle: A flow of the cases\nowner: person:me\nmode: live\nrun_key: ${{{{ trigger.id }}}}\n"
        + (f"record: {record}\n" if record else "")
        + f"inputs: {inputs}\nsteps:\n{steps}on_failure: {on_failure}\n"
        + (f"outputs: {outputs}\n" if outputs else "")
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """One project with its receivers."""

    folder: Path
    shop: HttpService
    post: SmtpService

    def write(self, *flows: str) -> None:
        """Puts flows into the project."""
        for text in flows:
            name = text.split("\n", 1)[0].removeprefix("flow: ")
            (self.folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")

    def connect(self, said: str) -> None:
        """Adds to the settings of the shop's connection."""
        lines = self.folder / "connections.yaml"
        lines.write_text(lines.read_text().replace("allow_private: true", f"allow_private: true, {said}", 1))

    def project(self) -> Project:
        return Project.open(self.folder, kinds=kinds())

    @asynccontextmanager
    async def engine(self, clock: MachineClock | None = None) -> AsyncIterator[Engine]:
        """The engine in this process, from the lock to its release."""
        own = OwnDriver(self.project(), clock or MachineClock(), EngineLock(self.folder))
        async with own.running():
            yield Engine(own)

    def made(self, path: str) -> list[str]:
        """The ids of the true effects at a path."""
        return [effect.id for effect in self.shop.world.effects if effect.path == path]

    def asked(self, path: str, method: str = "POST") -> int:
        """How many requests of a path arrived."""
        return len([seen for seen in self.shop.requests if (seen.method, seen.path) == (method, path)])

    def effects(self) -> list[str]:
        """Paths of the true effects in order."""
        return [effect.path for effect in self.shop.world.effects]


class LaterClock(MachineClock):
    """The machine's clock, `by` ms later."""

    by = 0

    def now(self) -> int:
        return super().now() + self.by


class Engine:
    """The engine as a test uses it."""

    def __init__(self, driver: OwnDriver) -> None:
        self.driver = driver

    @property
    def embedded(self) -> Embedded:
        """The engine itself, where a test looks into it."""
        assert isinstance(self.driver.engine, Embedded)
        return self.driver.engine

    @property
    def driving(self) -> int:
        """How many runs are being driven just now."""
        return len(vars(self.driver.engine)["_driving"])

    @property
    def store(self) -> SqlStore:
        return self.driver.store

    async def start(self, flow_id: str, key: str, starter: str = ME, **given: Json) -> str:
        """Starts a run, or joins one; its id."""
        return (await self.driver.start(flow_id, Wish(given=given, key=key, starter=starter))).run

    async def rest(self, run: str, patience: int = PATIENCE) -> RunView:
        """Follows a run until it rests."""
        return await self.driver.follow(run, lambda: None, patience)

    async def run(self, flow_id: str, key: str, **given: Json) -> RunView:
        """Starts a run and follows it until it rests."""
        return await self.rest(await self.start(flow_id, key, **given))

    async def order(self, run: str, action: str, **words: Json) -> RunView:
        """A person's order, and then until the run (or its clean-up run) rests."""
        return await self.rest((await self.act(run, action, **words)).run)

    async def act(self, run: str, action: str, **words: Json) -> RunView:
        """A person's order alone."""
        return await self.driver.act(run, Order(action=action, by=ME, **words))

    async def until(self, run: str, status: str) -> RunView:
        """Waits until the run has this status."""
        await until(lambda: self.store.run(run).status == status)
        return self.store.run(run)

    def state(self, run: str) -> State:
        return read_state(self.store, run)[0]

    def events(self, run: str) -> Sequence[e.Event]:
        return events_of(self.store, run)

    def dispositions(self, run: str) -> dict[str, str]:
        """What became of each step's effects."""
        return {effect.path: effect.disposition for effect in self.store.effects(run)}

    def dispositions_of(self, run: str) -> list[str]:
        """The disposition of every effect; a step of a list that was done anew has several."""
        return [effect.disposition for effect in self.store.effects(run)]

    def holds(self, run: str) -> None:
        """What must be true of every run, whatever happened."""
        assert self.store.verify() == []
        assert self.store.without_witness(MachineClock().now() + 3_600_000) == []
        view, state = self.store.run(run), self.state(run)
        assert view.seq == state.seq
        if state.has_ended:
            assert view.status == state.status
            assert "pending" not in self.dispositions(run).values()


async def until(is_so: Callable[[], object], seconds: float = 20.0) -> None:
    """Waits for something that another part of the test's world does."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def kept(folder: Path) -> dict[str, bytes]:
    """All that is kept of a project, byte for byte: the files of its state, and the tables of a database elsewhere."""
    files = {str(path.relative_to(folder)): path for path in (folder / ".amends").rglob("*") if path.is_file()}
    found = {name: path.read_bytes() for name, path in files.items()}
    url = database_url(folder, Reading(folder).settings)
    if not is_address(url):
        assert {".amends/amends.db", ".amends/amends.db-wal"} & found.keys()
        return found
    with psycopg.connect(url) as connection:
        for table in metadata.tables:
            with connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)".encode()) as rows:
                found[f"amends.db, {table}"] = b"".join(bytes(row) for row in rows)
    return found


def events_of(store: SqlStore, run: str) -> list[e.Event]:
    return [row.event for row in store.log(run) if row.event is not None]


def intents(events: Sequence[e.Event], step: str, purpose: str = "do") -> list[e.CallIntended]:
    """The attempts of a step's call."""
    return [one for one in events if isinstance(one, e.CallIntended) and (one.step, one.purpose) == (step, purpose)]


def first(events: Sequence[e.Event], kind: type[T]) -> T:
    """The first fact of a kind."""
    return next(one for one in events if isinstance(one, kind))


def kinds_of(events: Sequence[e.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def lines(origin: str, smtp_port: int, more: Mapping[str, str] | None = None) -> str:
    """connections.yaml."""
    said = "".join(f", {name}: {value}" for name, value in (more or {}).items())
    return (
        f'shop: {{ connector: shop, origin: "{origin}", allow_private: true{said} }}\n'
        f'mail: {{ connector: email, host: 127.0.0.1, port: {smtp_port}, from: "ops@acme.example", allow_private: true,'
        " security: none, allow_insecure: true }\n"
    )


def write_project(folder: Path, *, origin: str, smtp_port: int, text: str = "") -> None:
    """A project without flows in an empty folder."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    (folder / "connectors" / "shop.yaml").write_text(text or connector(), encoding="utf-8")
    (folder / "connections.yaml").write_text(lines(origin, smtp_port), encoding="utf-8")


@asynccontextmanager
async def opened(folder: Path, *flows: str, script: SmtpScript | None = None, text: str = "") -> AsyncIterator[Ground]:
    """A ground with an empty shop, an empty mailbox and these flows; the receivers live in the test's own loop."""
    place = folder / "project"
    async with HttpService() as shop, SmtpService(script) as post:
        write_project(place, origin=shop.origin, smtp_port=post.port, text=text)
        ground = Ground(folder=place, shop=shop, post=post)
        ground.write(*flows)
        yield ground
