"""`python -m tests.bench NAME [options]` runs one bench, `all [options]` those that have a goal; without a name it lists
them."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench import floor
from tests.bench._goals import HEAD
from tests.support.ending import leaves_none
from tests.support.processes import ROOT

WITH_GOALS = (
    "saga", "rollback", "noop", "idle", "start", "wait", "queue", "timers", "crash", "growth", "cli",
)  # fmt: skip
"""In the order of the table."""


def bench_names() -> list[str]:
    """The modules of this folder that can be run, by name."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(each.name for each in found if not each.name.startswith(("_", "test_")))


def every(names: Sequence[str], arguments: list[str]) -> int:
    """Runs these, each in a process of its own, and prints one table. 1 where any of them was worth nothing."""
    lines, failed = [], []
    for name in names:
        program = [sys.executable, "-m", "tests.bench", name, *arguments]
        done = subprocess.run(program, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
        print(done.stdout, flush=True)
        lines += [line for line in done.stdout.splitlines() if line.startswith(f"| {name} |")]
        failed += [name] if done.returncode else []
    print(floor.machine(), HEAD, *lines, sep="\n")
    for name in failed:
        print(f"{name} failed: its figures are worth nothing.")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    """Runs the bench that the first argument names. Returns its exit code, 2 for an unknown name."""
    names = bench_names()
    if arguments[:1] == ["all"]:
        return every(WITH_GOALS, arguments[1:])
    if not arguments or arguments[0] not in names:
        if arguments:
            print(f'There is no bench "{arguments[0]}".', file=sys.stderr)
        print(f"python -m tests.bench NAME, one of: {', '.join(names)}", file=sys.stderr)
        return 2
    bench = importlib.import_module(f"tests.bench.{arguments[0]}")
    code: int = bench.main(arguments[1:])
    return code


if __name__ == "__main__":
    sys.exit(leaves_none(lambda: main(sys.argv[1:])))
