"""Suite 1: the real engine and store on a virtual clock, in many small worlds that each go wrong in their own way.

python -m tests.trust simulation --seeds 20000     the long form: about 15 minutes on two cores
python -m tests.trust simulation --seed 525        one seed again, with its trace, made smaller where it is wrong
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.trust.figures import Figures
from tests.trust.sim.city import TROUBLE
from tests.trust.sim.mistakes import MISTAKES, caught_by
from tests.trust.sim.play import FAULTS, Played, empty_project, flows_of, play

ROOT = Path(__file__).parent.parent.parent
SEEDS, PORTION, MOST_WRONG = 2_000, 25, 10
TRIED = 100
"""Seeds that a planted mistake gets."""
SAME = range(0, 60, 5)
"""Seeds whose traces are compared between two processes."""
EFFECTS, FEW = 3, 200
"""True effects for each seed, at least; and of so many seeds each fault must have happened once."""


@dataclass(kw_only=True)
class Sum:
    """What many seeds gave."""

    seeds: int = 0
    events: int = 0
    effects: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, played: Played) -> None:
        """One seed more."""
        self.seeds += 1
        self.events += played.events
        self.effects += played.effects
        self.happened.update(played.happened)
        self.ended.update(played.ended)
        if played.wrong:
            again = f"python -m tests.trust simulation --seed {played.seed}"
            self.wrong.append(f"seed {played.seed} ({', '.join(played.flows)}): {played.wrong[0]} | {again}")

    def merge(self, other: Sum) -> None:
        """What another process played."""
        self.seeds += other.seeds
        self.events += other.events
        self.effects += other.effects
        self.happened.update(other.happened)
        self.ended.update(other.ended)
        self.wrong += other.wrong


def play_all(seeds: Sequence[int]) -> Sum:
    """These seeds, one after the other."""
    found = Sum()
    for seed in seeds:
        found.add(play(seed))
    return found


def run(argv: Sequence[str]) -> int:
    """See `tests.trust.__main__`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust simulation")
    words.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds are played")
    words.add_argument("--first", type=int, default=0, help="the first of them")
    words.add_argument("--seed", type=int, help="play one seed again and print its trace")
    words.add_argument("--flows", default="", help="with --seed: these flows instead, with commas between")
    words.add_argument("--trouble", help="with --seed: this trouble instead, with semicolons between; may be empty")
    words.add_argument("--processes", type=int, default=2)
    told = words.parse_args(argv)
    if told.seed is not None:
        trouble = None if told.trouble is None else [each for each in told.trouble.split(";") if each]
        return replay(told.seed, [name for name in told.flows.split(",") if name], trouble)
    figures, began = Figures(), time.monotonic()
    numbers = range(told.first, told.first + told.seeds)
    found = Sum()
    empty_project()  # once for all processes
    with multiprocessing.get_context("fork").Pool(told.processes) as pool:
        for part in pool.imap(play_all, [numbers[at : at + PORTION] for at in range(0, len(numbers), PORTION)]):
            found.merge(part)
            if len(found.wrong) > MOST_WRONG:
                break
        took = time.monotonic() - began
        caught = pool.map(_caught, list(MISTAKES), chunksize=1)
    report(figures, found)
    figures.say("wall", f"{took:.0f} s, {1000 * took / max(found.seeds, 1):.1f} ms a seed")
    traces = {seed: traces_of(SAME, seed) for seed in ("0", "4242")}
    figures.say("same traces under two hash seeds", len(set(traces.values())) == 1)
    if len(set(traces.values())) != 1:
        figures.broken(["the same seeds give other traces in a process with another hash seed"])
    figures.planted(dict(zip(MISTAKES, caught, strict=True)))
    figures.floor("effects", found.effects, EFFECTS * found.seeds)
    return figures.code


def report(figures: Figures, found: Sum) -> None:
    """The figures of many seeds."""
    figures.say("seeds", found.seeds)
    figures.say("facts", found.events)
    figures.say("runs by their end", dict(found.ended.most_common()))
    figures.say("fault kinds that happened", f"{sum(found.happened[name] > 0 for name in FAULTS)} of {len(FAULTS)}")
    for name in FAULTS:
        figures.floor(name, found.happened[name], found.seeds // FEW)
    figures.broken(found.wrong)


def _caught(name: str) -> str:
    return caught_by(name, TRIED)


def traces_of(seeds: Sequence[int], hash_seed: str) -> str:
    """The hashes of these seeds' traces, out of a process of its own with this hash seed."""
    code = (
        "from tests.trust.sim.play import play\n"
        f"print([play(seed).hash for seed in range({seeds[0]}, {seeds[-1] + 1}, {seeds[1] - seeds[0]})])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    return answer.stdout or answer.stderr


def replay(seed: int, flows: Sequence[str], trouble: Sequence[str] | None) -> int:
    """One seed again with its trace. One that is wrong is made smaller: fewer runs, less trouble."""
    played = play(seed, flows, trouble=trouble)
    small = shrunk(played, flows or flows_of(seed), trouble)
    print("\n".join(line[:300] for line in (small or played).trace))
    print(f"flows: {', '.join((small or played).flows)}")
    print(f"trace: {(small or played).hash[:16]}, {len((small or played).trace)} lines")
    for what in (small or played).wrong:
        print(f"wrong: {what}")
    return 1 if played.wrong else 0


def shrunk(played: Played, flows: Sequence[str], trouble: Sequence[str] | None) -> Played | None:
    """The shortest of a few smaller worlds in which the same law is broken; None where there is none."""
    if not played.wrong:
        return None
    law, best = played.wrong[0].partition(":")[0], None
    for some in [*([[flow] for flow in flows] if len(flows) > 1 else []), list(flows)]:
        for less in [[], *([one] for one in TROUBLE), trouble]:
            found = play(played.seed, some, trouble=less)
            if any(what.startswith(f"{law}:") for what in found.wrong):
                best = found if best is None or len(found.trace) < len(best.trace) else best
    return best if best is not None and len(best.trace) < len(played.trace) else None
