"""The real process is killed at the calls by which it writes, syncs, names files and sends; then it goes on to the end.

Each case runs a flow of `tests/crash` until the n-th such call ends the process (before it, in its middle with half of
the bytes, or after it), starts it again (some are killed again while they recover), and compares the log with what the
receivers did. The calls are counted by the shim; `straced` repeats some of it with strace, that knows nothing of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from runner.clock import MachineClock
from runner.core import events as e
from runner.store.sql import open_store
from tests.crash.bench import VARIANTS, Bench, said_last
from tests.crash.ledger import Receivers, mails_of
from tests.support.processes import ROOT
from tests.trust import shim
from tests.trust.figures import Figures
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import broken, key_at

WAYS = ("compensating", "undone_beside", "undone_list", "undone_pair", "undone_locks", "followed")
"""Of six flows: a step of every kind, branches, lists, runs that wait for each other, locks, a run that follows."""
COVERED = frozenset({"service", "mail"})
SOON = 60
"""A second kill comes within so many calls after the start: while what was left is taken up."""
LONG = 60
"""More calls than any way sends."""
PLANTED = (
    ("send_again", "compensating", "2 effects of "),
    ("a_lie", "compensating", "under several keys"),
    ("forget_items", "undone_list", "process ended 1"),
)
"""A mistake of the engine, the way that it shows in, and what is said of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """One case: the call that the first process dies at, `how` (see `shim`), and the second one's (0: it lives)."""

    number: int
    way: str
    at: int
    how: int
    again: int = 0
    which: int = shim.ALL


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What became of it: `kills` that happened, effects that the HTTP service saw, and what is wrong."""

    kill: Kill
    kills: int
    effects: int
    wrong: tuple[str, ...]


def calls_of(bench: Bench, way: str) -> int:
    """How many calls an undisturbed run makes; the run itself must hold."""
    variant = VARIANTS[way]
    bench.begin(variant)
    status = bench.child(f"calm{way}", variant, shim={})
    assert status == 0, said_last(bench.project)
    assert bench.verdict(f"calm{way}", variant) == []
    return int((bench.project / "passed").read_text())


def killed(bench: Bench, kill: Kill, **words: object) -> Found:
    """Plays one case to its end. `words` go to the processes after the first."""
    variant, case = VARIANTS[kill.way], f"k{kill.number}{kill.way}"
    bench.begin(variant)
    dies = {"how": kill.how, "which": kill.which}
    ends = [bench.child(case, variant, shim={"at": kill.at, **dies})]
    if kill.again:
        ends.append(bench.child(case, variant, shim={"at": kill.again, **dies}, **words))
    last = bench.child(case, variant, **words)
    wrong = [f"a process ended {end}, it was not killed" for end in ends if end not in (-9, 0)]
    wrong += _after(bench, kill.way, case, last)
    effects = sum(bench.http.ledger()["by_key"].values())
    return Found(kill=kill, kills=ends.count(-9), effects=effects, wrong=tuple(wrong))


def _after(bench: Bench, way: str, case: str, last: int) -> list[str]:
    if last != 0:
        return [f"the last process ended {last}: {said_last(bench.project)}"]
    receivers = Receivers.read(bench.http.ledger(), mails_of(bench.smtp.ledger_file), case)
    return [*bench.verdict(case, VARIANTS[way]), *against_oracle(bench.project, receivers)]


def against_oracle(folder: Path, receivers: Receivers) -> list[str]:
    """What the oracle says of what is stored; and calls that had an effect under more than one key: duplicates that no
    key shows."""
    effects = receivers.effects + receivers.mails
    store = open_store(folder, clock=MachineClock(), writable=False)
    try:
        log = Installation.read(store, now=MachineClock().now())
    finally:
        store.close()
    return several_keys(log, effects) + broken(log, Truth(effects=effects, covers=COVERED))


def several_keys(log: Installation, effects: Mapping[str, int]) -> list[str]:
    """Calls that had an effect under more than one key."""
    keys: dict[tuple[str, str, str, int], set[str]] = {}
    for run, events in log.logs.items():
        for event in events:
            if isinstance(event, e.CallIntended) and event.request and effects.get(key_at(event)):
                keys.setdefault((run, *event.call), set()).add(key_at(event))
    return [f"{call[1]} {call[2]} was done under several keys" for call, had in keys.items() if len(had) > 1]


def chosen(calls: dict[str, int], kills: int, again: int, rng: random.Random) -> list[Kill]:
    """Cases spread evenly over all calls of all ways; the first `again` of a shuffled order die a second time."""
    places = [(way, at) for way, count in calls.items() for at in range(1, count + 1)]
    step = max(len(places) / kills, 1)
    spread = [places[int(number * step)] for number in range(min(kills, len(places)))]
    while len(spread) < kills:
        spread.append(rng.choice(places))
    twice = set(rng.sample(range(kills), again))
    return [
        Kill(number=number, way=way, at=at, how=number % 3, again=rng.randrange(1, SOON) if number in twice else 0)
        for number, (way, at) in enumerate(spread)
    ]


def shows(bench: Bench, fault: str, way: str, said: str, first: int = 1) -> str:
    """Plants a mistake and kills right after the n-th sending, until it shows; what was said of it, empty if nothing."""
    for at in range(first, LONG):
        kill = Kill(number=at, way=way, at=at, how=shim.AFTER, which=shim.SENDS)
        found = killed(bench, kill, fault=fault, patience=3)
        seen = next((sentence for sentence in found.wrong if said in sentence), "")
        if seen or not found.kills:
            return seen.splitlines()[-1] if seen else ""
    return ""


def straced(bench: Bench, way: str, call: str, nth: int) -> Found | None:
    """As `killed`, by strace and in a process of its own; None where the process did not get as far."""
    variant, case = VARIANTS[way], f"s{call}{nth}{way}"
    bench.begin(variant)
    flows = [flow for flow, _ in variant.wanted[: variant.started]]
    command = json.dumps({"case": case, "flows": flows})
    place = bench.project / ".amends"
    files = [word for name in ("amends.db", "amends.db-wal", "anchor") for word in ("-P", str(place / name))]
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={nth}", *files,
         sys.executable, "-m", "tests.crash.zygote", str(bench.project), command],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return None
    last = bench.child(case, variant)
    wrong = _after(bench, way, case, last)
    effects = sum(bench.http.ledger()["by_key"].values())
    return Found(kill=Kill(number=0, way=way, at=nth, how=0), kills=1, effects=effects, wrong=tuple(wrong))


def why_not_strace() -> str:
    """Why strace cannot hurt anything here; empty where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    words = [
        "strace",
        "-f",
        "-qq",
        "-o",
        os.devnull,
        "-e",
        "inject=fsync:signal=SIGKILL:when=1",
        sys.executable,
        "-c",
        "",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else "this user may not trace processes here"


STRACED = ("pwrite64", "fdatasync", "fsync", "ftruncate")


def _lanes(benches: Sequence[Bench], cases: Sequence[Kill], play: Callable[[Bench, Kill], Found]) -> list[Found]:
    with ThreadPoolExecutor(len(benches)) as lanes:
        shares = [cases[lane :: len(benches)] for lane in range(len(benches))]
        told = list(lanes.map(lambda bench, share: [play(bench, each) for each in share], benches, shares))
    return [found for lane in told for found in lane]


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust kills`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust kills", description=__doc__)
    words.add_argument("--kills", type=int, default=600)
    words.add_argument("--again", type=int, default=200)
    words.add_argument("--straced", type=int, default=24)
    words.add_argument("--seed", type=int, default=1)
    told = words.parse_args(argv)
    if why := shim.why_not():
        print(f"skipped: {why}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        benches = [Bench(Path(folder) / f"bench{number}", shim.environment()) for number in range(2)]
        try:
            return _run(benches, told)
        finally:
            for bench in benches:
                bench.close()


def _run(benches: Sequence[Bench], told: argparse.Namespace) -> int:
    figures = Figures()
    calls = {way: calls_of(benches[0], way) for way in WAYS}
    figures.say("calls", ", ".join(f"{way} {count}" for way, count in calls.items()))
    found = _lanes(benches, chosen(calls, told.kills, told.again, random.Random(told.seed)), killed)
    figures.say("cases by way", ", ".join(f"{way} {n}" for way, n in Counter(one.kill.way for one in found).items()))
    if why := why_not_strace() if told.straced else "not asked for":
        figures.say("kills by strace", f"skipped: {why}")
    else:
        each = [
            straced(benches[0], WAYS[number % len(WAYS)], STRACED[number % 4], 1 + number * 2)
            for number in range(told.straced)
        ]
        figures.floor("kills by strace", sum(one is not None for one in each), told.straced // 3)
        found += [one for one in each if one is not None]
    strange = [one for one in found if one.wrong]
    figures.say("cases that went wrong", len(strange))
    figures.broken([f"{one.kill}: {'; '.join(one.wrong)}" for one in strange])
    figures.planted({fault: shows(benches[0], fault, way, said) for fault, way, said in PLANTED})
    figures.floor("killed", sum(one.kills > 0 for one in found), told.kills * 9 // 10)
    figures.floor("killed again during recovery", sum(one.kills > 1 for one in found), told.again * 9 // 10)
    figures.floor("effects", sum(one.effects for one in found), 3 * told.kills)
    return figures.code
