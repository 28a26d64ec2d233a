"""The action log against whoever changes it: 25 kinds of changes, history made anew, and what only an anchor shows.

    python -m tests.trust log [--mutations 2000]

Each change is made to a copy of a database, and `verify` must name the very entry; so must a second verifier that knows
only the description of the log. A whole history made anew by somebody who has the key too must *not* be seen without an
anchor (the product says so), and must be seen with one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from runner.store import audit, log
from runner.store.notary import sign
from runner.store.signing import open_signer, public_key
from runner.store.sql import SqlStore, open_store
from tests.store.mutations import MUTATED, Mutation, fill_whole, guard, rewrite
from tests.store.samples import TurnedClock
from tests.trust.figures import Figures
from tests.trust.verifier import bad_entries

ANCHORED = 25
PLANTED = {
    "signatures are not looked at": (audit, "_unsigned", lambda *_: ()),
    "checkpoints are not compared": (audit, "_checkpoints", lambda *_: ()),
    "contents are not compared with their digests": (log, "payload_digest", lambda salt, data: _Same()),
    "an entry's hash is believed": (log, "chained", lambda *_: _Same()),
    "logs of no run are passed over": (audit, "_strays", lambda *_: ()),
}
"""Mistakes of the verifier: the module, the function, and what stands in its place."""


class _Same(str):
    """Equal to every text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


@dataclass(kw_only=True)
class Found:
    """What was seen of the changes that were made."""

    made: int = 0
    named: int = 0
    agreed: int = 0
    asked_both: int = 0
    missed: list[str] = field(default_factory=list)


@contextmanager
def changed(whole: Path, mutate: Mutation, seed: int) -> Iterator[tuple[SqlStore, Path, tuple[str, int]]]:
    """A copy of a project with one change in its database, opened for reading."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(whole, folder, dirs_exist_ok=True)
        path = folder / ".amends" / "amends.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            where = mutate(db, random.Random(seed))
        store = open_store(folder, clock=TurnedClock(), writable=False)
        try:
            yield store, path, where
        finally:
            store.close()


def attack(whole: Path, count: int) -> Found:
    """Makes so many changes, kind after kind."""
    found, key = Found(), public_key(whole / ".amends")
    for number in range(count):
        mutate = MUTATED[number % len(MUTATED)]
        with changed(whole, mutate, number) as (store, path, where):
            seen = {(fault.run, fault.seq) for fault in store.verify()}
            found.made += 1
            found.named += where in seen
            if where not in seen:
                found.missed.append(f"{mutate.__name__}, seed {number}, at {where}: {sorted(seen)}")
            if mutate is not guard:
                found.asked_both += 1
                second = bad_entries(path, key)
                found.agreed += second == seen
                if second != seen:
                    found.missed.append(f"{mutate.__name__}, seed {number}: {sorted(seen)} and {sorted(second)}")
    return found


def attack_with_key(whole: Path, count: int) -> tuple[int, int]:
    """History made anew with the key: (how often it was seen without an anchor, and with one)."""
    signer = open_signer(whole / ".amends")
    store = open_store(whole, clock=TurnedClock(), writable=False)
    anchor = sign(store.noted(1), signer).line
    store.close()
    alone = anchored = 0
    for number in range(count):
        with changed(whole, lambda db, rng: rewrite(db, rng, signer), number) as (store, _, _):
            alone += bool(store.verify())
            anchored += bool(store.anchor_faults(anchor, "anchors"))
    return alone, anchored


def planted(whole: Path, kinds: int) -> dict[str, str]:
    """Each mistake of the verifier, and by which change it is seen."""
    caught = {}
    for name, (module, function, instead) in PLANTED.items():
        with mock.patch.object(module, function, instead):
            missed = attack(whole, kinds).missed
        caught[name] = missed[0].partition(",")[0] if missed else ""
    return caught


def run(argv: Sequence[str]) -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.trust log")
    asked.add_argument("--mutations", type=int, default=2_000)
    count = asked.parse_args(argv).mutations
    figures = Figures()
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place)
        fill_whole(whole)
        found = attack(whole, count)
        figures.say("mutations found and named", f"{found.named} of {found.made}, {len(MUTATED)} kinds")
        figures.say("the second verifier says the same", f"{found.agreed} of {found.asked_both}")
        figures.broken(found.missed)
        alone, anchored = attack_with_key(whole, ANCHORED)
        figures.say("made anew with the key", f"{alone} seen without an anchor, {anchored} of {ANCHORED} with one")
        if alone or anchored != ANCHORED:
            figures.broken([f"an anchor must be what shows it: {alone} and {anchored} of {ANCHORED}"])
        figures.planted(planted(whole, len(MUTATED)))
        figures.floor("mutations", found.made, min(count, 2_000))
    return figures.code
