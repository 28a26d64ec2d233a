"""A flow once for each row of a file: peak memory and time by the number of rows, beside the same command with one row.

    python -m tests.bench backfill [--rows 2000,20000] [--at-once 16] [--kind csv]

Each figure is a process of its own, with an empty database: the rows are checked, their runs are made (one action on
our own tables each, every fact durable), the report is written. What grows with the rows shows in the last column.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from openpyxl import Workbook

from tests.bench import floor

FLOW = """flow: note
title: Measured
owner: person:me
mode: live
run_key: ${{ inputs.number }}
inputs: { number: text, name: text, amount: { money: JPY }, day: date }
steps:
  - id: made
    do: records.create
    with: { collection: notes, number: "${{ inputs.number }}", name: "${{ inputs.name }}" }
    compensate: cancel
outputs: { id: "${{ steps.made.id }}" }
"""
HEAD = ("number", "name", "amount", "day")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one command cost: seconds, and MB of memory at the most."""

    seconds: float
    peak: float


def write_rows(folder: Path, rows: int, kind: str) -> Path:
    """A file with so many rows."""
    lines = ((f"N{number:07}", f"Customer number {number}", "12,000 JPY", "2026-09-01") for number in range(rows))
    file = folder / f"items.{kind}"
    if kind == "csv":
        with file.open("w") as out:
            out.write(",".join(HEAD) + "\n")
            out.writelines(f'{number},{name},"{amount}",{day}\n' for number, name, amount, day in lines)
        return file
    book = Workbook(write_only=True)
    page = book.create_sheet("items")
    page.append(HEAD)
    for line in lines:
        page.append(line)
    book.save(file)
    return file


def cost(rows: int, kind: str, *words: str) -> Cost:
    """Runs the command on a fresh project. Raises RuntimeError where not every row succeeded."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "flows").mkdir()
        (folder / "flows" / "note.yaml").write_text(FLOW)
        file = write_rows(folder, rows, kind)
        program = [sys.executable, "-c", "from runner.cli import main; main()"]
        began = time.perf_counter()
        process = subprocess.Popen(
            [*program, "--project", place, "run", "note", "--each", str(file), *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        said = process.stdout.read()
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0 or f"{rows} " not in said:
            raise RuntimeError(f"the command ended with {process.returncode}: {said}")
        return Cost(seconds=time.perf_counter() - began, peak=used.ru_maxrss / 1024)


def main(arguments: list[str]) -> int:
    """Prints one line for each number of rows, checked alone and run."""
    asked = argparse.ArgumentParser(prog="python -m tests.bench backfill", description="Memory and time by rows.")
    asked.add_argument("--rows", default="2000,20000")
    asked.add_argument("--at-once", default="16")
    asked.add_argument("--kind", default="csv", choices=("csv", "xlsx"))
    given = asked.parse_args(arguments)
    print(f"{floor.machine()}; {given.kind}, {given.at_once} at once, synchronous FULL")
    one = cost(1, given.kind)
    print(f"{'one row':<24} {one.seconds:8.1f} s {one.peak:22.0f} MB at the most")
    for rows in map(int, given.rows.split(",")):
        for name, words in (("checked alone", ["--dry-run"]), ("run and reported", ["--at-once", given.at_once])):
            found = cost(rows, given.kind, *words)
            speed, more = rows / found.seconds, (found.peak - one.peak) / rows * 1024
            print(
                f"{f'{rows} rows, {name}':<24} {found.seconds:8.1f} s {speed:8.0f} rows/s {found.peak:4.0f} MB at the most,"
                f" {more:6.2f} KB more for each row"
            )
    return 0
