"""How long `amends drill` takes for a thousand rows: the examples of flows/ and the demo, and one long flow.

python -m tests.bench drill [--rows 1000] [--steps 30]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from runner.drilling import driller_of
from runner.language.project import Project
from tests.bench.floor import cpu_seconds, machine
from tests.drill.ground import DEMO, EXAMPLES, UNDO, driller
from tests.flows.stage import kinds


def drill_examples(wanted: int) -> tuple[int, int]:
    """(rows, runs) of the examples, gone through until there are enough rows."""
    rows = runs = 0
    while rows < wanted:
        for folder in (EXAMPLES, DEMO):
            project = Project.open(folder, kinds=kinds())
            for checked in project.check():
                if checked.flow is not None:
                    found = driller_of(project, checked.flow.id).drill()
                    rows, runs = rows + len(found.rows), runs + found.trials
    return rows, runs


def main(arguments: list[str]) -> int:
    """Prints both times."""
    asked = argparse.ArgumentParser(prog="python -m tests.bench drill", description="How long a drill takes.")
    asked.add_argument("--rows", type=int, default=1000)
    asked.add_argument("--steps", type=int, default=30)
    given = asked.parse_args(arguments)
    print(machine())
    began, spent = time.perf_counter(), cpu_seconds()
    rows, runs = drill_examples(given.rows)
    took, spent = time.perf_counter() - began, cpu_seconds() - spent
    print(
        f"examples: {rows} rows ({runs} runs) in {took:.1f} s, {spent:.1f} s of CPU: {rows / spent:.0f} rows a second"
    )
    steps = "".join(f"  - {{ id: step_{number}, do: svc.make, {UNDO} }}\n" for number in range(given.steps))
    with tempfile.TemporaryDirectory() as folder:
        long = driller(Path(folder), f"steps:\n{steps}")
        began, spent = time.perf_counter(), cpu_seconds()
        rows = len(long.drill().rows)
        took, spent = time.perf_counter() - began, cpu_seconds() - spent
    print(f"one flow of {given.steps} steps: {rows} rows in {took:.1f} s, {spent:.1f} s of CPU")
    return 0
