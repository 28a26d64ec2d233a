"""The power is cut: what was not synced is gone, in part or whole, and nothing that was acknowledged may be missing.

One process writes under the shim, which keeps a journal of every write and sync, and of what was acknowledged to whom.
Then the folder is made as thousands of cuts at any place of the journal leave it (`journal`), and opened: no cut may cost
an acknowledged commit, let a call have left without its intent, break a chain, or be taken for a copy that was put back.
The control writes with `synchronous = NORMAL`, and must lose.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.clock import MachineClock
from runner.core import events as e
from runner.errors import AmendsError, StoreUnwritable
from runner.store import anchor, artifacts, sql, sqlite
from runner.store.sql import SqlStore, open_store
from tests.store.samples import append, applied, begun, effect, intended
from tests.support.processes import ROOT
from tests.trust import journal, shim
from tests.trust.figures import Figures

LANES = 6
LARGE = "x" * 70_000
"""More than stands in the log itself: it goes into a file of its own."""
PAGES_BEFORE_CHECKPOINT = 60
FAULTS = (0.02, errno.EIO)
"""How often a sync fails where they do, and what it says."""

PLANTED: dict[str, dict[str, Any]] = {
    "synchronous = NORMAL": {"synchronous": 1},
    "folders are not synced": {"forgets": True},
}


# --- the process that writes -----------------------------------------------------------------------------------------


def write(folder: Path, kept: Path, *, appends: int, synchronous: int, failing: bool, forgets: bool) -> None:
    """Opens the store three times and appends to it in lanes; what is acknowledged is noted in the journal.

    `synchronous` is SQLite's word, 2 as we set it; with `failing` some syncs fail; with `forgets` no folder is synced.
    """
    for room in (sql, anchor, artifacts) if forgets else ():
        setattr(room, "sync_folder", lambda folder: None)  # noqa: B010
    sqlite._PRAGMAS = (
        *((name, synchronous if name == "synchronous" else value) for name, value in sqlite._PRAGMAS),
        ("wal_autocheckpoint", PAGES_BEFORE_CHECKPOINT),
    )  # type: ignore[assignment]
    shim.arm(folder)
    shim.keep_journal(kept)
    for opening in range(3):
        store = open_store(folder, clock=MachineClock(), writable=True, floor=0)
        assert not store.restored
        asyncio.run(_all_lanes(store, opening, appends, failing))
        store.close()


async def _all_lanes(store: SqlStore, opening: int, appends: int, failing: bool) -> None:
    breaking = asyncio.create_task(_break_syncs()) if failing else None
    await asyncio.gather(*(_lane(store, f"run-{opening}-{number}", appends) for number in range(LANES)))
    if breaking is not None:
        breaking.cancel()
        shim.refuse_here(0, 0)


async def _break_syncs() -> None:
    rng = random.Random(1)
    while True:
        await asyncio.sleep(0.002)
        if rng.random() < FAULTS[0] * 10:
            shim.refuse_here(FAULTS[1], shim.SYNCS, after=rng.randrange(3), most=1)


async def _lane(store: SqlStore, run: str, appends: int) -> None:
    end = None
    while end is None:
        try:
            end = await begun(store, run)
        except StoreUnwritable:
            continue
    shim.note(f"kept {run} {end.seq} {end.hash}")
    number = 0
    while number < appends:
        more: dict[str, Any] = {"request": {"text": LARGE}} if number % 17 == 5 else {}
        facts = intended(number, key=f"{run}-{number}", **more), applied(number)
        try:
            end = await store.append(append(store, run, end, *facts, effects=(effect(number + 1),)))
        except StoreUnwritable:
            end = store.log_end(run)  # what was refused is not there, or is: it is read again
            number = (end.seq - 1) // 2
            continue
        shim.note(f"kept {run} {end.seq} {end.hash}")
        shim.note(f"left {run} {run}-{number}")
        number += 1


# --- the cuts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A journal, the folder that it speaks of, and where something was acknowledged."""

    root: str
    entries: Sequence[journal.Entry]
    notes: Sequence[int]


def record(
    place: Path, *, appends: int, synchronous: int = 2, failing: bool = False, forgets: bool = False
) -> Recorded:
    """Has a process write and keeps its journal. Raises RuntimeError where the process fails."""
    folder, kept = place / "project", place / "journal"
    folder.mkdir(parents=True)
    words = json.dumps({"appends": appends, "synchronous": synchronous, "failing": failing, "forgets": forgets})
    done = subprocess.run(
        [sys.executable, "-m", "tests.trust.power", str(folder), str(kept), words],
        cwd=ROOT, env=shim.environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    entries = journal.read(kept)
    notes = [at for at, entry in enumerate(entries) if entry.kind == journal.NOTE]
    return Recorded(root=str(folder), entries=entries, notes=notes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """One cut: before which entry, how much was left of what was not synced, and what is wrong then."""

    at: int
    how: int
    lost: tuple[str, ...]
    wrong: tuple[str, ...]
    kept: int


def cuts(recorded: Recorded, count: int, rng: random.Random, place: Path) -> Iterator[Cut]:
    """That many cuts, half of them right after something was acknowledged, in the order of the journal."""
    disk, promised, left, played = journal.Disk(recorded.root), {}, set(), 0
    last = len(recorded.entries)
    points = [rng.choice(recorded.notes) + 1 if n % 2 else rng.randrange(1, last + 1) for n in range(count)]
    for number, at in enumerate(sorted(points)):
        for entry in recorded.entries[played:at]:
            if entry.kind != journal.NOTE:
                disk.play(entry)
                continue
            word, run, *rest = entry.name.split()
            if word == "kept":
                promised[run] = int(rest[0]), rest[1]
            else:
                left.add((run, rest[0]))
        played = at
        folder = place / f"cut{number}"
        folder.mkdir()
        how = number % 4
        disk.leave(folder, how, rng)
        lost, wrong = look(folder, promised, left)
        shutil.rmtree(folder)
        yield Cut(at=at, how=how, lost=tuple(lost), wrong=tuple(wrong), kept=sum(seq for seq, _ in promised.values()))


def look(folder: Path, promised: dict[str, tuple[int, str]], left: set[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Opens what a cut left: the acknowledged entries that are missing, and whatever else is wrong."""
    try:
        store = open_store(folder, clock=MachineClock(), writable=True, floor=0)
    except AmendsError as error:
        return [], [f"it does not open: {error}"]
    try:
        wrong = [f"the chain of {fault.run} does not hold at {fault.seq}: {fault.what}" for fault in store.verify()]
        # It stands elsewhere than it was written, and says so; nothing may be missing in it.
        short = [each.why for each in store.restorations() if not each.whole]
        wrong += [f"it is taken for a copy that was put back: {why}" for why in short]
        lost, keys = [], set()
        there = set(store.open_runs())
        for run, (seq, hash_) in promised.items():
            rows = {row.seq: row for row in store.log(run)} if run in there else {}
            keys |= {(run, row.event.key) for row in rows.values() if isinstance(row.event, e.CallIntended)}
            if seq not in rows or rows[seq].hash != hash_:
                lost.append(f"{run} was acknowledged up to {seq}, and ends at {max(rows, default=0)}")
        lost += [f"{key} of {run} had left, and its intent is gone" for run, key in sorted(left - keys)][:1]
        return lost, wrong
    except AmendsError as error:
        return [], [f"it cannot be read: {error}"]
    finally:
        store.close()


def caught(place: Path, name: str, count: int, appends: int) -> str:
    """What comes of writing with this mistake; empty if all the same nothing is lost."""
    recorded = record(place / name.partition(" ")[0], appends=appends, **PLANTED[name])
    costs = sum(bool(cut.lost) for cut in cuts(recorded, count, random.Random(count), place))
    return f"{costs} of {count} cuts lost acknowledged commits" if costs else ""


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust power`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust power", description=__doc__)
    words.add_argument("--cuts", type=int, default=2_000)
    words.add_argument("--appends", type=int, default=60)
    words.add_argument("--seed", type=int, default=1)
    told = words.parse_args(argv)
    if why := shim.why_not():
        print(f"skipped: {why}")
        return 0
    figures, rng = Figures(), random.Random(told.seed)
    with tempfile.TemporaryDirectory(dir=_quick_place()) as folder:
        found: list[Cut] = []
        for number, (failing, share) in enumerate(
            ((False, told.cuts * 3 // 4), (True, told.cuts - told.cuts * 3 // 4))
        ):
            recorded = record(Path(folder) / f"r{number}", appends=told.appends, failing=failing)
            kinds = Counter(entry.kind for entry in recorded.entries)
            figures.say(
                "journal" + (", syncs that fail" if failing else ""),
                f"{kinds[journal.WRITE]} writes, {kinds[journal.SYNC]} syncs, {kinds[journal.LOST]} failed syncs, "
                f"{len(recorded.notes)} acknowledgements",
            )
            found += cuts(recorded, share, rng, Path(folder))
        figures.say("cuts", len(found))
        figures.say("acknowledged commits lost", sum(len(cut.lost) for cut in found))
        figures.broken(
            [
                f"cut at {cut.at}, {cut.how}: {'; '.join((*cut.lost, *cut.wrong)[:2])}"
                for cut in found
                if cut.lost or cut.wrong
            ]
        )
        planted = {name: caught(Path(folder), name, max(told.cuts // 10, 20), told.appends) for name in PLANTED}
        figures.planted(planted)
        figures.floor("entries that had to be there", sum(cut.kept for cut in found), told.cuts * 20)
    return figures.code


def _quick_place() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), **json.loads(sys.argv[3]))
