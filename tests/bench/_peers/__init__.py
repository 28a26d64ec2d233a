"""The peers: other engines with the same work on the same machine, in an environment of their own outside the repository.

It is made the first time in `~/.cache/amends-bench` (or `AMENDS_BENCH_PEERS`): `pip install dbos restate-sdk …`, and the
server of Restate by `npm install @restatedev/restate-server`. Each peer calls with httpx, 16 calls at once, as its users
would, and measures its floor: the same calls with no engine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench._goals import Finding, Judged
from tests.support.processes import HttpProcess

HERE = Path(__file__).parent
PACKAGES = ("dbos", "restate-sdk", "hypercorn", "httpx", "aiohttp")
MOST: Mapping[str, int] = {"dbos": 300, "restate": 1000}
"""Runs of a series: what a peer can do in a few seconds."""
KEYS: Mapping[str, tuple[int, int]] = {"saga": (5, 0), "rollback": (4, 4)}
"""Effects of one run: forward, and undone."""
LIMIT = 300


def place() -> Path:
    """Where the peers are installed; they are, the first time."""
    found = Path(os.environ.get("AMENDS_BENCH_PEERS") or Path.home() / ".cache" / "amends-bench")
    if not (found / "ready").exists():
        print(f"The peers are installed in {found}.", flush=True)
        subprocess.run([sys.executable, "-m", "venv", found / "venv"], check=True)
        subprocess.run([str(found / "venv" / "bin" / "pip"), "install", "-q", *PACKAGES], check=True)
        if (npm := shutil.which("npm")) is not None:
            words = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(found), "@restatedev/restate-server"]
            subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (found / "ready").touch()
    return found


def play(name: str, work: str, size: int, origin: str) -> dict[str, Any]:
    """One measurement of one peer, in processes of its own. Raises RuntimeError with what it said where it failed."""
    installed = place()
    server = next(installed.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"), None)
    if name == "restate" and server is None:
        raise RuntimeError("its server is not installed: that needs npm")
    with tempfile.TemporaryDirectory() as folder:
        program = str(installed / "venv" / "bin" / "python")
        words = [program, str(HERE / f"{name}_app.py"), work, str(size), origin, folder, str(server or "-")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"it ended with {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def measured(names: Sequence[str], work: str, size: int, service: HttpProcess | None = None) -> Judged:
    """What each of these does at the same work, against the same service. A peer that has effects twice is told so."""
    judged = Judged(findings=[], wrong=[])
    for name in names:
        number = min(size, MOST[name])
        before = effects(service)
        try:
            told = play(name, work, number, service.origin if service is not None else "")
        except (RuntimeError, OSError, subprocess.SubprocessError) as problem:
            judged.findings.append(Finding(goal=f"beside it: {name}", measured=f"0 measured: {problem}"))
            continue
        version = told.pop("version")
        line = ", ".join(f"{value:,.1f} {key}" for key, value in told.items())
        print(f"{name}: {number:,} runs: {line}", flush=True)
        if work in KEYS:
            seen = [now - was for now, was in zip(effects(service), before, strict=True)]
            wanted = [number * each for each in KEYS[work]]
            line += f"; {seen[0] + seen[1]:,} of {sum(wanted):,} effects"
            if any(now < least for now, least in zip(seen, wanted, strict=True)):
                judged.wrong.append(f"{name} had {seen} effects of {wanted}")
        judged.findings.append(Finding(goal=f"beside it: {name} {version}", measured=line))
    return judged


def effects(service: HttpProcess | None) -> tuple[int, int]:
    """How many there were at the service: forward, and undone."""
    if service is None:
        return 0, 0
    paths = [effect["path"] for effect in service.ledger()["effects"]]
    return paths.count("/effects"), paths.count("/undone")
