"""What a bench has to say: each goal with what was measured, in lines that `python -m tests.bench all` gathers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.bench import floor

HEAD = "| bench | goal | measured | |\n|---|---|---|---|"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One goal beside what was measured. `is_met` None: it is told for comparison only."""

    goal: str
    measured: str
    is_met: bool | None = None

    def told(self, bench: str) -> str:
        """Its line in the table."""
        word = {True: "met", False: "missed", None: ""}[self.is_met]
        return f"| {bench} | {self.goal} | {self.measured} | {word} |"


def most(goal: str, found: float, limit: float, unit: str, digits: int = 1) -> Finding:
    """A figure that must not be larger."""
    return Finding(goal=goal, measured=f"{found:,.{digits}f} {unit}".strip(), is_met=found <= limit)


def rate(goal: str, figures: floor.Figures, limit: float, unit: str, times: int = 1) -> Finding:
    """A rate that must not be smaller, with what a core of its own would hold by the CPU time alone."""
    found, held = figures.runs_per_second * times, 1000 / figures.cpu_ms_per_run * times
    measured = f"{found:,.0f} {unit} ({held:,.0f} by its CPU)"
    return Finding(goal=goal, measured=measured, is_met=found >= limit)


def least(goal: str, found: float, limit: float, unit: str, digits: int = 0) -> Finding:
    """A figure that must not be smaller."""
    return Finding(goal=goal, measured=f"{found:,.{digits}f} {unit}".strip(), is_met=found >= limit)


@dataclass(kw_only=True)
class Judged:
    """What was found, and what was wrong with it: then the figures are worth nothing."""

    findings: list[Finding]
    wrong: list[str]


def bench(
    name: str, summary: str, arguments: Sequence[str], measure: Callable[[argparse.Namespace], Judged],
    *, size: int, of: str, peers: bool = False, databases: bool = True, kept: str = "sqlite",
) -> int:  # fmt: skip
    """Runs one bench with its options and prints its lines. The exit code: 1 where the figures are worth nothing."""
    asked = argparse.ArgumentParser(prog=f"python -m tests.bench {name}", description=summary)
    asked.add_argument("--size", type=int, default=size, help=f"{of} (default {size})")
    if databases:
        asked.add_argument("--database", default=kept, choices=("sqlite", "postgresql"))
    if peers:
        asked.add_argument("--peer", action="append", default=[], choices=("dbos", "restate"))
    given = asked.parse_args(arguments)
    kept = getattr(given, "database", kept)
    durable = "SQLite, synchronous FULL" if kept == "sqlite" else "PostgreSQL, fsync and synchronous_commit on"
    print(f"{floor.machine()}; {given.size} {of}; {durable}", flush=True)
    judged = measure(given)
    print(HEAD)
    for finding in judged.findings:
        print(finding.told(name))
    for wrong in judged.wrong:
        print(f"The figures are worth nothing: {wrong}")
    return 1 if judged.wrong else 0
