"""A long life: `amends serve` under mixed flows with faults of the receivers; what it holds must not grow with what it did.

Memory, open files, threads and the write-ahead log are sampled from outside. After a warm-up the slope of memory by runs
that have ended (the median of the slopes between all samples) must stay below a bound, files and threads must be flat, and
the write-ahead log bounded. One process lives the whole time: a leak needs a long life. At the end it is killed with runs
under way, another one brings all of them to their ends, and the oracle compares log, chain and the receivers' ledgers.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from runner.clock import MachineClock
from runner.demo.servers import end, first_line
from runner.people.access import new_access
from runner.store.access import Kind, admit
from runner.store.sql import SqlStore, open_store
from tests.cli.terminal import PROGRAM, environment
from tests.crash.ledger import mails_of
from tests.support.ports import free_port
from tests.support.processes import HttpProcess, SmtpProcess
from tests.trust.figures import Figures
from tests.trust.installation import EVERY_RUN, Installation, Truth
from tests.trust.oracle import broken
from tests.trust.traffic import Traffic, make_project

PATIENCE = 180.0
"""Seconds in which everything must have come to its end, once nothing new begins."""
WARM = 1 / 3
"""The part of the runs that the process is given to warm up: caches of a fixed size fill, pools open."""
MB = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """`memory`: bytes that it may grow with each run that ended. `files`, `threads`: how many more of them there may be
    at the end than behind the warm-up. `log`: bytes of the write-ahead log (it begins anew after 4 MB, once no reader
    needs the old pages)."""

    memory: int
    files: int = 6
    threads: int = 4
    log: int = 24 * MB


LONG, SHORT = Bounds(memory=512), Bounds(memory=400_000, files=20, threads=16)
"""What a process of a few runs takes is its warm-up, so a short life shows a large leak only."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The process from outside. Memory, log and database in bytes; `runs` is how many had ended by then."""

    runs: int
    memory: int
    files: int
    threads: int
    log: int
    database: int


def grown(samples: Sequence[Sample], bounds: Bounds) -> list[str]:
    """What grew that must not."""
    warm = behind_warm_up(samples)
    if len(warm) < 6:
        return [f"only {len(warm)} samples, that show nothing"]
    third = len(warm) // 3
    wrong = []
    if (found := slope(warm)) > bounds.memory:
        wrong.append(f"memory grows by {found:,.0f} bytes with each run; {bounds.memory:,} are the most")
    for name, most in (("files", bounds.files), ("threads", bounds.threads)):
        first, last = (statistics.median(getattr(one, name) for one in part) for part in (warm[:third], warm[-third:]))
        if last - first > most:
            wrong.append(f"open {name} went from {first:.0f} to {last:.0f}")
    if (most := max(one.log for one in samples)) > bounds.log:
        wrong.append(f"the write-ahead log came to {most:,} bytes; {bounds.log:,} are the most")
    return wrong


def behind_warm_up(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Those that count."""
    return [one for one in samples if one.runs >= samples[-1].runs * WARM]


def slope(samples: Sequence[Sample]) -> float:
    """Bytes of memory for each run that ended: the median of the slopes between each two samples."""
    pairs = ((one, other) for one, other in combinations(samples, 2) if one.runs != other.runs)
    return statistics.median([(other.memory - one.memory) / (other.runs - one.runs) for one, other in pairs] or [0.0])


# --- the process -------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Serving:
    """`amends serve` as a process. `first`: what it does before."""

    folder: Path
    port: int
    first: str = ""
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Until it says its first line."""
        with (self.folder.parent / "said").open("ab") as said:
            self.process = subprocess.Popen(
                [*PROGRAM[:2], f"{SMALL_CACHES}\n{self.first}\n{PROGRAM[2]}", "serve", "--port", str(self.port)],
                cwd=self.folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        assert first_line(self.process, PATIENCE), (self.folder.parent / "said").read_text()[-2_000:]
        assert self.process.stdout is not None
        # A line for each run that ends: unread, the pipe is full after 800 runs, and whoever writes into it stands still.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill(self) -> None:
        """At once."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """As it is asked to end; its exit code."""
        self.process.terminate()
        self.process.wait(60)
        return self.process.returncode

    def sample(self, store: SqlStore) -> Sample:
        """As it is now."""
        place = Path(f"/proc/{self.process.pid}")
        told = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        sizes = {name: _size(self.folder / ".amends" / name) for name in ("amends.db-wal", "amends.db")}
        counts = store.counts()
        return Sample(
            runs=sum(counts.values()) - len(store.open_runs()), memory=int(told["VmRSS"].split()[0]) * 1024,
            files=sum(1 for _ in (place / "fd").iterdir()), threads=int(told["Threads"]), log=sizes["amends.db-wal"],
            database=sizes["amends.db"],
        )  # fmt: skip


def admitted(folder: Path) -> dict[str, str]:
    """Tokens of two people, and what lets a browser in: a link, by the name `link`."""
    now = MachineClock().now()
    made = {name: new_access(kind, f"person:{who}", now=now) for name, kind, who in DOORS}
    with closing(open_store(folder, clock=MachineClock(), writable=True)) as store:
        for _, row in made.values():
            asyncio.run(store.write(admit(row)))
    return {name: secret for name, (secret, _) in made.items()}


DOORS: Sequence[tuple[str, Kind, str]] = (("root", "token", "root"), ("ann", "token", "ann"), ("link", "link", "root"))


def _size(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


@contextmanager
def serving(folder: Path, first: str) -> Iterator[Serving]:
    """Ended in any case."""
    made = Serving(folder=folder, port=free_port(), first=first)
    try:
        yield made
    finally:
        end([made.process])
        if made.process.stdout is not None:
            made.process.stdout.close()


# --- a life --------------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Life:
    """What was seen of one."""

    samples: list[Sample] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    begun: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    troubles: int = 0
    effects: int = 0
    mails: int = 0
    took: float = 0.0
    wrong: list[str] = field(default_factory=list)


async def _live(
    at: Serving, traffic: Traffic, life: Life, *, seconds: float, every: float, kills: bool, runs: int
) -> None:
    """The life itself, and how it ends."""
    began = time.monotonic()
    busy = asyncio.create_task(traffic.run())
    try:
        while time.monotonic() < began + seconds and not busy.done():
            await asyncio.sleep(every)
            life.samples.append(await asyncio.to_thread(at.sample, traffic.store))
            if life.samples[-1].runs >= runs:
                break
        life.took = time.monotonic() - began
        if kills:
            at.kill()
        traffic.is_on = False
        if kills:
            await asyncio.to_thread(at.begin)
        until = time.monotonic() + PATIENCE
        while traffic.store.open_runs() and not busy.done():
            if time.monotonic() > until:
                left = [traffic.store.run(run) for run in traffic.store.open_runs()]
                life.wrong.append(f"{len(left)} runs did not come to their ends: {left[:3]}")
                break
            await asyncio.sleep(0.3)
        traffic.over = True
        await busy
    finally:
        busy.cancel()


def live(
    seconds: float, *, every: float, rate: float, seed: int = 1, first: str = "", kills: bool = True, runs: int = EVERY_RUN
) -> Life:  # fmt: skip
    """One life of so many seconds, or until so many runs have ended; what was seen. Without a judge."""
    life = Life()
    with (
        tempfile.TemporaryDirectory() as place,
        HttpProcess(keep_requests=False) as http,
        SmtpProcess(Path(place)) as smtp,
    ):
        folder = Path(place) / "project"
        make_project(folder, http, smtp)
        doors = admitted(folder)
        with serving(folder, first) as at, closing(open_store(folder, clock=MachineClock(), writable=False)) as store:
            traffic = Traffic(
                address=f"http://127.0.0.1:{at.port}", doors=doors, store=store, http=http, smtp=smtp, rate=rate,
                rng=random.Random(seed),
            )  # fmt: skip
            asyncio.run(_live(at, traffic, life, seconds=seconds, every=every, kills=kills, runs=runs))
            code = at.end()
        life.begun, life.answers, life.troubles = traffic.begun, traffic.answers, traffic.troubles
        said = (Path(place) / "said").read_text(errors="replace")
        life.wrong += traffic.wrong
        life.wrong += [f"it ended with {code}"] if code else []
        life.wrong += [f"a stack trace: {said[said.index('Traceback') :][:800]}"] if "Traceback" in said else []
        _compare(folder, http, smtp, life)
    return life


def _compare(folder: Path, http: HttpProcess, smtp: SmtpProcess, life: Life) -> None:
    """The log against the receivers' ledgers. Mails to our own people are of no run's calls."""
    effects = Counter({key: int(times) for key, times in http.ledger()["by_key"].items()})
    mails = mails_of(smtp.ledger_file)
    sent = Counter(mail["message_id"] for mail in mails if all(to.endswith("@x.example") for to in mail["to"]))
    with closing(open_store(folder, clock=MachineClock(), writable=False)) as store:
        log = Installation.read(store, now=MachineClock().now())
    life.effects, life.mails = effects.total() + sent.total(), len(mails)
    life.ends = Counter(view.status for view in log.views.values())
    life.wrong += broken(log, Truth(effects=effects + sent, covers=frozenset({"service", "mail"})))


# --- mistakes ------------------------------------------------------------------------------------------------------------

SMALL_CACHES = """
import functools
from runner import clock
clock.iso = functools.lru_cache(maxsize=64)(clock.iso.__wrapped__)
from runner.store import writer
from runner.store.sqlite import SqliteFile
writer.HEADS = 64
import sqlite3
opened = sqlite3.connect
sqlite3.connect = lambda *told, **more: opened(*told, **more | {"cached_statements": 24})
connected = SqliteFile._connect
def with_few_pages(self, mode):
    made = connected(self, mode)
    made.execute("PRAGMA cache_size = -64")
    return made
SqliteFile._connect = with_few_pages
"""
"""What is remembered up to a fixed size (texts of times, places of runs, for each connection pages of the database and
prepared statements) is full within the warm-up: with the sizes of the product that takes 5,000 runs and more. What still
grows is none of it."""
BEFORE_EACH_START = """
from runner.store.sql import SqlStore
start, kept = SqlStore.start, []
async def started(self, new):
    kept.append({kept})
    return await start(self, new)
SqlStore.start = started
"""
MISTAKES = {
    "1,000,000 bytes are kept of each run": (BEFORE_EACH_START.format(kept="b'x' * 1_000_000"), "memory grows"),
    "a file is left open by each run": (BEFORE_EACH_START.format(kept="open('/dev/null')"), "open files"),
    "a checkpoint never comes": ("""
from runner.store.sqlite import SqliteFile
connected_before = SqliteFile._connect
def without_checkpoints(self, mode):
    made = connected_before(self, mode)
    made.execute("PRAGMA wal_autocheckpoint=0")
    return made
SqliteFile._connect = without_checkpoints
""", "write-ahead log"),
}  # fmt: skip
SMALL = {
    "1,000 bytes of each run": ("memory", 1_000, "memory grows"),
    "a file of each 50th run": ("files", 0.02, "open files"),
    "a thread of each 50th run": ("threads", 0.02, "open threads"),
    "10,000 bytes of log of each run": ("log", 10_000, "write-ahead log"),
}  # fmt: skip
"""Smaller ones, that only a long life shows: what each run adds to the samples of the life that was good."""


def see_mistakes(play: Callable[[str], Life]) -> dict[str, str]:
    """Each mistake in a short life of its own, and what was said of it."""
    return {
        name: next((one for one in grown(play(first).samples, SHORT) if said in one), "")
        for name, (first, said) in MISTAKES.items()
    }


def see_small_mistakes(samples: Sequence[Sample], bounds: Bounds, times: float = 1) -> dict[str, str]:
    """Each small mistake, and what was said of it."""
    caught = {}
    for name, (what, each, said) in SMALL.items():
        worse = [replace(one, **{what: getattr(one, what) + int(each * times * one.runs)}) for one in samples]
        caught[f"left of a life, {name}"] = next((one for one in grown(worse, bounds) if said in one), "")
    return caught


# --- the suite -----------------------------------------------------------------------------------------------------------


def tell(figures: Figures, life: Life, bounds: Bounds) -> None:
    """Its figures."""
    warm = behind_warm_up(life.samples) or life.samples
    first, last = warm[0], warm[-1]
    figures.say("lived", f"{life.took:,.0f} s, {last.runs:,} runs had ended; then killed once, and gone on with")
    figures.say("ends", ", ".join(f"{name} {count:,}" for name, count in sorted(life.ends.items())))
    figures.say("begun by", ", ".join(f"{name} {count:,}" for name, count in sorted(life.begun.items())))
    figures.say("faults of the receivers", f"{life.troubles:,}")
    answers = Counter({name.rpartition(" ")[2]: 0 for name in life.answers})
    for name, count in life.answers.items():
        answers[name.rpartition(" ")[2]] += count
    figures.say("requests by answer", ", ".join(f"{name} {count:,}" for name, count in sorted(answers.items())))
    figures.say(
        "memory",
        f"{first.memory / MB:.1f} MB at run {first.runs:,}, {last.memory / MB:.1f} MB at run {last.runs:,}; "
        f"slope {slope(warm):,.0f} bytes a run, {bounds.memory:,} at most ({len(warm)} samples)",
    )
    for name in ("files", "threads"):
        values = [getattr(one, name) for one in warm]
        figures.say(f"open {name}", f"{values[0]} behind the warm-up, {values[-1]} at the end, {max(values)} at most")
    figures.say(
        "write-ahead log", f"{max(one.log for one in life.samples) / MB:.1f} MB at most ({bounds.log / MB:.0f} allowed)"
    )
    figures.say(
        "database", f"{last.database / MB:.1f} MB, {last.database / max(last.runs, 1) / 1000:.1f} KB for each run"
    )
    figures.say("mails", f"{life.mails:,}")
    figures.broken(grown(life.samples, bounds))
    figures.broken(life.wrong)


def run(argv: Sequence[str]) -> int:
    """`python -m tests.trust soak`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust soak", description=__doc__)
    words.add_argument("--minutes", type=float, default=30)
    words.add_argument("--rate", type=float, default=6, help="runs a second, as far as the machine can")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--no-plants", action="store_true")
    told = words.parse_args(argv)
    if not Path("/proc/self/status").exists():
        print("skipped: this system has no /proc")
        return 0
    figures = Figures()
    life = live(told.minutes * 60, every=5, rate=told.rate, seed=told.seed)
    tell(figures, life, LONG)
    if not told.no_plants:
        short = functools.partial(live, 120, every=0.5, rate=20, kills=False, runs=120)
        figures.broken(grown(short().samples, SHORT))
        figures.planted(see_small_mistakes(life.samples, LONG) | see_mistakes(lambda first: short(first=first)))
    figures.floor("runs", life.samples[-1].runs, int(told.minutes * 100))
    figures.floor("effects", life.effects, int(told.minutes * 400))
    return figures.code
