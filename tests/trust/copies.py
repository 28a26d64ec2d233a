"""Copies and restores: a copy that is started elsewhere asks first, and what a copy has forgotten is done no second time.

A run of `tests/crash` goes to its end while a copy of the database is made after its n-th commit; the copy is put back, a
person lets it go on, and it goes to the end again: the receivers, that forget nothing, must see every effect once. What
was started after the copy was made is not in it, and is another run when somebody starts it again.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from runner.clock import MachineClock
from runner.people.restored import go_on_restored
from runner.store.copying import put_back
from runner.store.facts import RunFilter
from runner.store.sql import open_store
from tests.cases.ground import Engine, flow, opened
from tests.cases.situations import CHARGE, RESERVE
from tests.crash.bench import VARIANTS, Bench, said_last
from tests.crash.ledger import Receivers, mails_of
from tests.trust.figures import Figures
from tests.trust.installation import Installation, Truth
from tests.trust.kills import against_oracle
from tests.trust.oracle import broken

WAYS = ("forward", "compensating", "undone_beside", "undone_list", "lost", "locks")
ALL = RunFilter(limit=100_000)
ME = "person:me"
FEW = 3
"""Commits before a run has begun: its flow's text is kept, and it starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """One run that went to its end twice: `forgotten` entries were lost with the copy."""

    way: str
    copy: int
    forgotten: int
    effects: int
    wrong: tuple[str, ...]


def again(bench: Bench, way: str, copy: int, **words: object) -> Again | None:
    """Makes a copy after so many commits and puts it back at the end; None where there are not as many commits."""
    variant, case, place = VARIANTS[way], f"c{copy}{way}", bench.project
    (place / "copy.db").unlink(missing_ok=True)
    bench.begin(variant)
    if bench.child(case, variant, copy=copy) != 0:
        return Again(way=way, copy=copy, forgotten=0, effects=0, wrong=(said_last(place),))
    if not (place / "copy.db").exists():
        return None
    before = entries(place)
    put_back(place, place / "copy.db", url="", clock=MachineClock())
    if (left := entries(place)).runs < variant.started:
        return Again(way=way, copy=copy, forgotten=0, effects=0, wrong=())  # whoever starts it again starts another run
    forgotten = before.entries - left.entries
    asyncio.run(go_on_restored(place, "", MachineClock(), ME))
    last = bench.child(case, variant, **words)
    receivers = Receivers.read(bench.http.ledger(), mails_of(bench.smtp.ledger_file), case)
    wrong = [said_last(place)] if last else [*bench.verdict(case, variant), *against_oracle(place, receivers)]
    effects = sum(bench.http.ledger()["by_key"].values())
    return Again(way=way, copy=copy, forgotten=forgotten, effects=effects, wrong=tuple(wrong))


class Count(NamedTuple):
    """How many runs there are, and entries in their logs."""

    runs: int
    entries: int


def entries(folder: Path) -> Count:
    """What the project's database holds."""
    store = open_store(folder, clock=MachineClock(), writable=False)
    try:
        views = store.runs(ALL)
        return Count(len(views), sum(view.seq for view in views))
    finally:
        store.close()


async def under_load(folder: Path, backups: int) -> tuple[int, list[str]]:
    """Copies that are made while runs go on: how many entries they have in all, and what is wrong with one."""
    found: list[str] = []
    count = 0
    async with opened(folder, flow("order", RESERVE + CHARGE)) as ground, ground.engine() as engine:
        load = asyncio.create_task(_load(engine))
        while not load.done() and engine.store.counts().get("succeeded", 0) < 4:  # noqa: ASYNC110 - it is a database
            await asyncio.sleep(0.02)
        for number in range(0 if load.done() else backups):
            place = folder / f"copy{number}"
            (place / ".amends").mkdir(parents=True)
            await asyncio.to_thread(engine.store.backup, place / ".amends" / "amends.db")
            copy = open_store(place, clock=MachineClock(), writable=False)
            log = Installation.read(copy, now=MachineClock().now())
            copy.close()
            count += sum(map(len, log.logs.values()))
            found += [f"copy {number}: {what}" for what in broken(log, Truth())]
        load.cancel()
        ended = await asyncio.gather(load, return_exceptions=True)
        found += [f"the load ended: {each!r}" for each in ended if not isinstance(each, asyncio.CancelledError)]
    return count, found


async def _load(engine: Engine) -> None:
    for number in range(100_000):
        await asyncio.gather(*(engine.run("order", f"{number}-{lane}", name="ann") for lane in range(4)))


def elsewhere(folder: Path) -> list[str]:
    """A folder that is copied, and one that is renamed: what is wrong with how they come up."""
    place, copy, moved = folder / "one", folder / "copy", folder / "moved"
    place.mkdir()
    open_store(place, clock=MachineClock(), writable=True).close()
    shutil.copytree(place, copy)
    wrong = []
    for where, wanted in ((copy, True), (place, False)):
        store = open_store(where, clock=MachineClock(), writable=True)
        if store.restored != wanted:
            wrong.append(f"the {where.name} {'goes on' if wanted else 'asks'}")
        store.close()
    place.rename(moved)
    store = open_store(moved, clock=MachineClock(), writable=True)
    wrong += ["a folder that was renamed asks"] if store.restored else []
    store.close()
    return wrong


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust copies`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust copies", description=__doc__)
    words.add_argument("--step", type=int, default=4, help="Every how many commits a copy is made.")
    words.add_argument("--backups", type=int, default=20)
    told = words.parse_args(argv)
    figures = Figures()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        figures.broken(elsewhere(folder))
        count, wrong = asyncio.run(under_load(folder / "load", told.backups))
        figures.say("copies under load", f"{told.backups}, with {count} entries in all")
        figures.broken(wrong)
        bench = Bench(folder / "bench")
        try:
            found = [each for way in WAYS for each in _all_of(bench, way, told.step)]
            figures.say("put back", f"{len(found)} copies, {sum(each.forgotten for each in found)} entries forgotten")
            figures.broken([f"{each.way}, copy {each.copy}: {'; '.join(each.wrong)}" for each in found if each.wrong])
            seen = again(bench, "forward", 9, fault="remember_nothing")
            figures.planted({"what is forgotten was not done": "; ".join(seen.wrong if seen else ())[:200]})
        finally:
            bench.close()
        figures.floor("entries in copies under load", count, told.backups * 20)
        figures.floor("effects", sum(each.effects for each in found), 3 * len(found))
    return figures.code


def _all_of(bench: Bench, way: str, step: int) -> list[Again]:
    found: list[Again] = []
    while (each := again(bench, way, FEW + len(found) * step)) is not None:
        found.append(each)
    return found
