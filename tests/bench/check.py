"""How long `amends check` takes for many flows: the first time, and again with what it kept.

The examples of flows/ are copied until there are enough, each copy under a name of its own. Times are of this process,
after the program has been loaded; the last line is a whole command with what was kept.

    python -m tests.bench check [--flows 200]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runner.language.kept import check_again
from runner.language.project import CONNECTIONS, PEOPLE, SETTINGS, Project
from tests.bench.floor import cpu_seconds, machine
from tests.house import ROOT

FLOWS = ROOT / "flows"


def make_project(folder: Path, flows: int) -> int:
    """A project with that many flows. Returns how many lines they have."""
    shutil.copytree(FLOWS / "connectors", folder / "connectors")
    shutil.copytree(FLOWS / "templates", folder / "templates")
    for name in (SETTINGS, PEOPLE, CONNECTIONS):
        shutil.copy(FLOWS / name, folder / name)
    examples = sorted(path for path in FLOWS.glob("*.yaml") if path.name not in (SETTINGS, PEOPLE, CONNECTIONS))
    examples = [path for path in examples if not path.name.endswith(".test.yaml")]
    (folder / "flows").mkdir()
    lines = 0
    for number in range(flows):
        path, copy = examples[number % len(examples)], number // len(examples)
        text = path.read_text(encoding="utf-8")
        for other in examples:
            for key in ("flow", "call", "then_run"):
                text = text.replace(f"{key}: {other.stem}\n", f"{key}: {other.stem}_{copy}\n")
        lines += text.count("\n")
        (folder / "flows" / f"{path.stem}_{copy}.yaml").write_text(text, encoding="utf-8")
    return lines


def main(arguments: list[str]) -> int:
    """Prints both times."""
    asked = argparse.ArgumentParser(prog="python -m tests.bench check", description="How long a check takes.")
    asked.add_argument("--flows", type=int, default=200)
    flows = asked.parse_args(arguments).flows
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lines = make_project(folder, flows)
        print(f"{machine()}; {flows} flows of {lines / flows:.0f} lines")
        Project.open(folder).facts()
        for word in ("first", "again"):
            began, used = time.perf_counter(), cpu_seconds()
            project = Project.open(folder)
            found = check_again(project)
            problems = sum(len(one.problems) for one in found) + len(project.problems())
            wall, cpu = time.perf_counter() - began, cpu_seconds() - used
            print(f"{word:<8} {wall:6.2f} s {cpu:6.2f} s CPU   {len(found)} flows, {problems} problems")
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", "from runner.cli import main; main()", "check"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall, cpu = time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{'command':<8} {wall:6.2f} s {cpu:6.2f} s CPU   {done.stdout.splitlines()[-1]}")
    return 0
