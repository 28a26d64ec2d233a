"""Zombies: engines on one PostgreSQL, of which one is stopped past its lease and goes on as if nothing had been.

`python -m tests.trust zombies --rounds 200`. Each engine is a process of its own (`zombie_engine`). In a round one of
them is stopped at one of five places, another takes its runs over, and then it is let go on: what it still decides
under its old fence must be refused, and nobody's receiver may see an effect twice. A third of the runs send what
nobody dedupes or looks up; where that was out, a person looks at the receiver.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from runner.app import OwnDriver
from runner.clock import MachineClock
from runner.core.state import State
from runner.engine.past import read_state
from runner.errors import StoreError
from runner.language.project import Project
from runner.people.operations import Order
from runner.store.facts import RunFilter
from runner.store.lock import EngineLock
from runner.store.shared import NOW
from runner.store.signing import public_key
from runner.store.sql import SqlStore, open_store
from tests.bench._ground import HEAD, NONE, kinds, steps, write_project
from tests.support import says
from tests.support.http_service import HttpService
from tests.support.postgres import running_postgres
from tests.trust.figures import Figures
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import broken
from tests.trust.zombie_engine import JOINED, STARTED

PLACES = ("before the append", "before the commit", "after the commit", "before the call", "after the answer")
ENGINES = 2
PATIENCE = 150.0
ENDS_WITHIN = 40.0
NUDGED_AFTER = 10.0
RUNS_A_ROUND = 6
REFUSED = ("RunTaken", "StoreUnwritable")
"""By its fence, or because its connection was cut while it was stopped."""
CHARGE = """  charge:
    writes: once
    cannot_undo: It only counts.
    input: { run: text, step: integer }
    request: { post: /charges, json: { run: "${{ input.run }}", step: "${{ input.step }}", reference: "${{ key }}" } }
    output: { id: text }
"""
MISTAKES = ("fence not checked", "own row not checked", "taken over too early")


class Zombie:
    """One engine's process. What it says comes as JSON lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def begin(cls, folder: Path, mistake: str) -> Zombie:
        """As a process; the first that is `heard` says that it drives."""
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.trust.zombie_engine", str(folder), mistake,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )
        )  # fmt: skip

    async def heard(self) -> dict[str, Any]:
        """The next line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("an engine ended by itself")
        said: dict[str, Any] = json.loads(line)
        return said

    def tell(self, **what: object) -> None:
        """An order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")

    async def until_stopped(self) -> None:
        """Returns once it has stopped itself."""
        async with asyncio.timeout(PATIENCE):
            while Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)

    def go_on(self) -> None:
        """From where it was stopped."""
        os.kill(self._process.pid, signal.SIGCONT)

    async def end(self) -> None:
        """Lets it end by itself, or ends it."""
        with contextlib.suppress(ProcessLookupError):
            self.go_on()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(ENDS_WITHIN):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def _until_quiet(database: str) -> None:
    """Returns once what is driven or queued is little, so that a slow machine has no more to do in each round."""
    asked = "SELECT count(*) FROM runs WHERE ended_at IS NULL AND (fence <> 0 OR status = 'queued')"
    async with (
        asyncio.timeout(PATIENCE),
        await psycopg.AsyncConnection.connect(database, autocommit=True) as connection,
    ):
        while True:
            found = await (await connection.execute(asked)).fetchone()
            if found is not None and found[0] < RUNS_A_ROUND:
                return
            await asyncio.sleep(0.1)


async def _until_buried(database: str, fence: int) -> tuple[bool, dict[str, int]]:
    """Returns once its row is taken away: whether that was after its lease, and where the runs stand then."""
    until = 0
    asked = f"SELECT (SELECT lease_until FROM engines WHERE fence = %s), {NOW}"
    async with (
        asyncio.timeout(PATIENCE),
        await psycopg.AsyncConnection.connect(database, autocommit=True) as connection,
    ):
        while True:
            found = await (await connection.execute(asked.encode(), (fence,))).fetchone()
            assert found is not None
            if found[0] is None:
                rows = await (await connection.execute("SELECT run_id, seq FROM runs")).fetchall()
                return bool(found[1] >= until), {str(row[0]): int(row[1]) for row in rows}
            until = found[0]
            await asyncio.sleep(0.05)


async def _round(number: int, runs: int, engines: Sequence[Zombie], database: str) -> dict[str, Any]:
    """One engine is stopped and comes back; what it says of the append that it was held up at, or of the next one."""
    zombie, place = engines[number % len(engines)], PLACES[number % len(PLACES)]
    await _until_quiet(database)
    zombie.tell(stop=place)
    for engine in engines:
        engine.tell(start=runs)
    armed: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE):
        while "stops" not in armed:  # it may have to say something of the round before
            try:
                async with asyncio.timeout(NUDGED_AFTER):
                    armed = await zombie.heard()
            except TimeoutError:
                zombie.tell(start=1)  # the starts were refused, as its connection had been cut
    fence = armed["stops"]
    await zombie.until_stopped()
    in_time, known = await _until_buried(database, fence)
    zombie.go_on()
    zombie.tell(start=1)  # it has something to decide, though the others have taken all that it had
    while "answer" not in (said := await zombie.heard()):
        if said["seq"] > known.get(said["written"], 0):
            said |= {"answer": f"entry {said['seq']} of run {said['written']} was written"}
            break
    return {**said, "place": place, "fence": fence, "in_time": in_time}


async def play(
    rounds: Sequence[int], figures: Figures, mistake: str = "", *, database: str = "", runs: int = RUNS_A_ROUND
) -> int:
    """All of it, on a service of its own; on this database, or on a server of its own too. `runs` are started in each
    engine in each round. Answers how many effects the receiver saw."""
    with contextlib.ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        database = database or f"{opened.enter_context(running_postgres(is_durable=True)).address}/postgres"
        async with HttpService() as shop:
            shop.script("POST /refused", always=says.refused())
            folders = [place / f"engine{number}" for number in range(ENGINES)]
            for folder in folders:
                write_project(folder, shop.origin, database, at_once=8)
                with (folder / "connectors" / "service.yaml").open("a") as file:
                    file.write(CHARGE)
                flow = HEAD.format(name="charged") + steps("service.charge", compensate=NONE)
                (folder / "flows" / "charged.yaml").write_text(flow)
            engines: list[Zombie] = []
            said: list[dict[str, Any]] = []
            try:
                for folder in folders:
                    engines.append(await Zombie.begin(folder, mistake))  # noqa: PERF401 - so that each is ended
                for engine in engines:
                    await engine.heard()
                for number in rounds:
                    said += [await _round(number, runs, engines, database)]
            finally:
                await asyncio.gather(*(engine.end() for engine in engines))
            refused = []
            try:
                await _to_the_end(folders[0], shop)
            except StoreError as error:
                refused = [str(error)]
            effects = Counter(effect.key or effect.reference for effect in shop.world.effects)
            _judge(figures, said, folders, database, effects)
            figures.broken(refused)
            return len(effects)


async def _to_the_end(folder: Path, shop: HttpService) -> None:
    """Drives on whatever is open; who is asked looks at the receiver."""
    driver = OwnDriver(Project.open(folder, kinds=kinds()), MachineClock(), EngineLock(folder))
    async with driver.running(), asyncio.timeout(PATIENCE):
        while opened := driver.store.runs(RunFilter(open_only=True, limit=10_000)):
            for run in (view.run for view in opened):
                state, _ = read_state(driver.store, run)
                if state.open_handoffs:
                    await driver.act(run, _answer(state, shop))
            await asyncio.sleep(0.05)


def _answer(state: State, shop: HttpService) -> Order:
    question = state.open_handoffs[0]
    call = state.calls.get((question.step, question.purpose, question.part))
    if call is None:  # about no call: it was too busy to send in time, time after time
        word = "retry" if "retry" in question.choices else question.choices[0]
        return Order(action=word, by="person:root", handoff=question.id)
    key = call.key
    found = next((effect.id for effect in shop.world.effects if key in (effect.key, effect.reference)), "")
    if not found:
        return Order(action="did_not", by="person:root", handoff=question.id)
    return Order(
        action="happened", by="person:root", handoff=question.id, output={"id": found}, external_id=found
    )  # fmt: skip


def _judge(
    figures: Figures, said: Sequence[dict[str, Any]], folders: Sequence[Path], database: str, effects: Counter[str]
) -> None:
    store = open_store(folders[0], clock=MachineClock(), writable=False, url=database)
    try:
        counts, faults = store.counts(), _seen(store, folders, effects)
        known = {view.run for view in store.runs(RunFilter(limit=100_000))}
    finally:
        store.close()
    figures.say("rounds", len(said))
    for place in PLACES:
        answers = Counter(each["answer"] for each in said if each["place"] == place)
        figures.say(f"stopped {place}", ", ".join(f"{answer} {times}" for answer, times in sorted(answers.items())))
    figures.broken([f"not refused by its fence: {each}" for each in said if each["answer"] not in (*REFUSED, JOINED)])
    still = [each for each in said if each["now"] == each["fence"] and each["answer"] != "StoreUnwritable"]
    figures.broken([f"it goes on under the fence that was taken away: {each}" for each in still])
    figures.broken([f"taken over before its lease was over: {each}" for each in said if not each["in_time"]])
    figures.broken(faults)
    lost = [run for folder in folders for run in (folder / STARTED).read_text().split() if run not in known]
    figures.broken([f"run {run} was started, and is gone" for run in lost])
    figures.say("runs", ", ".join(f"{status} {many}" for status, many in sorted(counts.items())))
    figures.say("stale appends refused", sum(each["answer"] in REFUSED for each in said))


def _seen(store: SqlStore, folders: Sequence[Path], effects: Counter[str]) -> list[str]:
    """What the oracle sees, and the chain with the keys of all the machines."""
    log = Installation.read(store, now=MachineClock().now())
    keys = [public_key(folder / ".amends") for folder in folders]
    chain = tuple(f"run {fault.run}: {fault.what}" for fault in store.verify(keys=keys))
    return broken(replace(log, chain=chain), Truth(effects=effects, covers=frozenset({"service"})))


async def _plant(figures: Figures) -> None:
    """Each mistake at one place after the other, until it is seen."""
    caught = {}
    for mistake in MISTAKES:
        found = Figures()
        for number in range(len(PLACES)):
            try:
                await play([number], found, mistake)
            except (TimeoutError, RuntimeError) as error:
                print(f"planted, {mistake}: {type(error).__name__}, which says nothing", flush=True)
            if found.wrong:
                break
        caught[mistake] = found.wrong[0] if found.wrong else ""
    figures.planted(caught)


def run(argv: Sequence[str]) -> int:
    """See `suites`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust zombies")
    words.add_argument("--rounds", type=int, default=200)
    rounds, figures = words.parse_args(argv).rounds, Figures()
    figures.floor("effects", asyncio.run(play(range(rounds), figures)), rounds * RUNS_A_ROUND)
    asyncio.run(_plant(figures))
    return figures.code
