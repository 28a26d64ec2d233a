"""The engine's process is killed (-9) in the middle of commits: everything acknowledged is there, and the chains hold."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.store.sql import open_store
from tests.store.samples import TurnedClock

WRITES = """
import asyncio, sys
from pathlib import Path
from runner.clock import MachineClock
from runner.store.sql import open_store
from tests.store.samples import append, applied, begun, columns, effect, intended

store = open_store(Path(sys.argv[1]), clock=MachineClock(), writable=True, floor=0)
word = sys.argv[2]

async def lane(number):
    run = f"{word}-{number}"
    end = await begun(store, run)
    print(run, end.seq, flush=True)
    for i in range(100_000):
        work = append(store, run, end, intended(i), applied(i), effects=(effect(i + 1),), fence=fence)
        end = await store.append(work)
        print(run, end.seq, flush=True)

async def all_lanes():
    await asyncio.gather(*(lane(number) for number in range(16)))

fence = store.fence()
asyncio.run(all_lanes())
"""


@pytest.mark.crash
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    rng = random.Random(7)
    acknowledged: dict[str, int] = {}
    for turn in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITES, str(tmp_path), f"turn{turn}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path.cwd(),
        )
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        assert first, child.stderr.read()
        time.sleep(0.05 + rng.random() * 0.3)
        child.send_signal(signal.SIGKILL)
        lines = [first, *child.stdout.read().splitlines(keepends=True)]
        child.wait(timeout=20)
        child.stderr.close()
        child.stdout.close()
        for line in lines:
            if line.endswith("\n"):
                name, number = line.split()
                acknowledged[name] = int(number)
        reader = open_store(tmp_path, clock=TurnedClock(), writable=False)
        assert [run for run, seq in acknowledged.items() if reader.run(run).seq < seq] == []
        reader.close()
        store = open_store(tmp_path, clock=TurnedClock(), writable=True, floor=0)
        assert not store.restored
        assert store.verify() == []
        for run, seq in acknowledged.items():
            view = store.run(run)
            assert view.seq >= seq
            assert view.seq % 2 == 1, "half an append"
            assert view.stands == (view.seq - 1) // 2
        store.close()
    assert len(acknowledged) == 64
    assert sum(acknowledged.values()) > 300
