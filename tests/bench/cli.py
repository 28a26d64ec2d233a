"""Whole commands, from the start of the interpreter to their end: `--help`, and `check` of many flows, cold and warm.

    python -m tests.bench cli [--size 200]

The floor is an interpreter that does nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench import check
from tests.bench._goals import Finding, Judged, bench
from tests.support.processes import ROOT

HELP, WARM, COLD = 0.3, 1.0, 4.0
REPEATS = 5


def command(words: Sequence[str], folder: Path) -> tuple[float, float, str]:
    """Wall and CPU seconds of one command, and its last line."""
    program = "from runner.cli import main; main()"
    said = [sys.executable, "-c", program if words else "pass", *words]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        said, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, (done.stdout.strip().splitlines() or [done.stderr[-300:]])[-1]


def usual(words: Sequence[str], folder: Path) -> tuple[float, float]:
    """The medians of several."""
    found = [command(words, folder) for _ in range(REPEATS)]
    return statistics.median(one[0] for one in found), statistics.median(one[1] for one in found)


def measure(given: argparse.Namespace) -> Judged:
    """The interpreter alone, then the commands."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        check.make_project(folder, given.size)
        bare, helped = usual((), folder), usual(("--help",), folder)
        cold = command(("check",), folder)
        warm = usual(("check",), folder)
    names = (
        f"amends --help <= {HELP} s",
        f"check of {given.size} flows, warm <= {WARM:.0f} s",
        f"cold <= {COLD:.0f} s",
    )
    wrong = [] if str(given.size) in cold[2] else [f"check says: {cold[2]}"]
    return Judged(
        findings=[
            Finding(
                goal=goal, is_met=wall <= limit,
                measured=f"{wall:.2f} s ({cpu:.2f} s of CPU; the interpreter alone {bare[0]:.2f} s)",
            )
            for goal, limit, (wall, cpu) in zip(names, (HELP, WARM, COLD), (helped, warm, cold[:2]), strict=True)
        ],
        wrong=wrong,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints how long commands take."""
    return bench("cli", "Whole commands.", arguments, measure, size=200, of="flows to check", databases=False)
