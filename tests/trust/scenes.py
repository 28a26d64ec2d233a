"""The scenario suite of the embedded engine, as it is, on a Temporal cluster and PostgreSQL: each file on fresh servers.

python -m tests.trust scenes                                           all of it
python -m tests.trust scenes --only tests/cases/test_engine_a.py       one file; may be said several times
python -m tests.trust scenes --at-once 4                               so many files at a time; tests wait more than work

A test that is about the embedded engine alone says so, and why (`embedded_only`); every other one must pass.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from temporalio.client import Client

from tests.house import ROOT
from tests.support.postgres import running_postgres
from tests.support.temporal import running_temporal
from tests.trust.figures import Figures
from tests.trust.on_temporal import LAST, SLOW_BOUND
from tests.trust.turning import PLANTED

ROOMS = ("tests/cases", "tests/lists", "tests/people")
STARTS = re.compile(r"\bengine\(\)|\b(OwnDriver|dying|serving)\(")
"""How a test of theirs starts an engine."""
SILENT = SLOW_BOUND + 2 * LAST
"""Seconds until a file is broken off of whose tests none has begun or ended."""
LOOK, TOLD = 0.1, "told"
STOPPED = threading.Event()
"""Whoever plays a file breaks it off."""
PLANT_IN = "tests/cases/test_engine_b.py"
"""The file that must report each planted mistake."""


@dataclass(kw_only=True)
class Told:
    """What became of a file's tests; `driven`: the runs that the cluster has driven."""

    file: str
    passed: list[str] = field(default_factory=list)
    differs: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    driven: int = 0
    seconds: float = 0.0

    def hear(self, line: Mapping[str, str]) -> None:
        """What the plugin tells of a test; one that has only begun has not ended."""
        test = line["test"].removeprefix(f"{self.file}::")
        if line["is"] == "begun":
            self.differs[test] = "did not come to its end"
        elif line["is"] == "skipped":
            self.differs.pop(test, None)
            self.skipped[test] = line["why"].removeprefix("Skipped: ")
        elif line["is"] == "failed":
            self.differs[test] = line["why"]
            self.passed = [one for one in self.passed if one != test]
        else:
            self.differs.pop(test, None)
            self.passed.append(test)

    @property
    def wrong(self) -> list[str]:
        """What is not as with the embedded engine."""
        found = [f"{self.file}::{test}: {why}" for test, why in self.differs.items()]
        if self.passed and not self.driven:
            found.append(f"{self.file}: the cluster has driven no run")
        return found


def suite() -> list[str]:
    """Its files: those of these rooms that start an engine."""
    files = [file for room in ROOMS for file in sorted((ROOT / room).glob("test_*.py"))]
    return [str(file.relative_to(ROOT)) for file in files if STARTS.search(file.read_text(encoding="utf-8"))]


def told_of(file: str, plant: str = "", tests: Sequence[str] = ()) -> Told:
    """One file, or these tests of it, on servers of its own. Nothing of it is left."""
    told, began = Told(file=file), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="amends-scenes-") as folder, running_temporal() as cluster:
        place = Path(folder, TOLD)
        with running_postgres(is_durable=True) as server:
            where = {"TESTS_TEMPORAL": cluster.address, "TESTS_DATABASE": server.address}
            asked = [f"{file}::{test}" for test in tests] or [file]
            why = _play(asked, os.environ | where | {"TESTS_TOLD": str(place), "TESTS_PLANT": plant}, Path(folder))
        for line in place.read_text(encoding="utf-8").splitlines() if place.exists() else ():
            told.hear(json.loads(line))
        if why:
            told.differs[why] = "the whole file"
        told.driven = asyncio.run(_driven(cluster.address))
    told.seconds = time.monotonic() - began
    return told


def _play(asked: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """What kept them from being played, with its last words; else empty."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.trust.on_temporal", "-p", "no:cacheprovider",
               f"--basetemp={folder / 'tests'}", *asked]  # fmt: skip
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = _code_of(process, folder / TOLD)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code is None:
        return f"no test began or ended within {SILENT:g} s"
    return "" if code in (0, 1) else f"pytest ended with {code}: {(folder / 'said').read_text()[-300:]}"


def _code_of(process: subprocess.Popen[bytes], told: Path) -> int | None:
    """None where nothing goes on any more, however slow the machine is; or where it is broken off."""
    heard, size = time.monotonic(), 0
    while (code := process.poll()) is None:
        if told.exists() and told.stat().st_size != size:
            heard, size = time.monotonic(), told.stat().st_size
        if time.monotonic() > heard + SILENT or STOPPED.wait(LOOK):
            break
    return code


async def _driven(address: str) -> int:
    return (await (await Client.connect(address)).count_workflows()).count


@contextlib.contextmanager
def _players(at_once: int) -> Iterator[ThreadPoolExecutor]:
    """So many at a time. Whoever tells the command to stop does not wait for what they play."""
    with ThreadPoolExecutor(at_once) as pool:
        try:
            yield pool
        except BaseException:
            STOPPED.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _say(told: Told) -> None:
    counts = f"{len(told.passed)} passed, {len(told.differs)} differ, {len(told.skipped)} skipped"
    print(f"{told.file}: {counts}; {told.driven} runs, {told.seconds:.0f} s", flush=True)
    for test, why in told.skipped.items():
        print(f"  skipped: {test}: {why}", flush=True)
    for test, why in told.differs.items():
        print(f"  differs: {test}: {why}", flush=True)


def run(argv: Sequence[str]) -> int:
    """See `tests.trust.__main__`."""
    words = argparse.ArgumentParser(prog="python -m tests.trust scenes")
    words.add_argument("--only", action="append", metavar="FILE", default=[])
    words.add_argument("--at-once", type=int, default=2)
    given = words.parse_args(argv)
    figures, began, all_told = Figures(), time.monotonic(), list[Told]()
    with _players(given.at_once) as pool:
        for each in as_completed([pool.submit(told_of, file) for file in given.only or suite()]):
            told = each.result()
            _say(told)
            all_told.append(told)
        planted = {} if given.only else dict(zip(PLANTED, pool.map(partial(told_of, PLANT_IN), PLANTED), strict=True))
    figures.planted({name: next(iter(told.wrong), "") for name, told in planted.items()})
    figures.broken([wrong for told in all_told for wrong in told.wrong])
    passed, differ, skipped = (
        sum(len(getattr(told, name)) for told in all_told) for name in ("passed", "differs", "skipped")
    )
    figures.say(
        "scenes", f"{len(all_told)} files on Temporal and PostgreSQL: {passed} passed, {differ} differ, {skipped} "
        f"skipped; {sum(told.driven for told in all_told)} runs driven by the cluster; {time.monotonic() - began:.0f} s",
    )  # fmt: skip
    return figures.code
