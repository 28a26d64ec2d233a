"""Workers in processes of their own: a process that has imported everything forks one whenever it is asked to.

`python -m tests.trust.worker_host [FAULT]` reads lines: `start FOLDER` answers the new worker's process id, `kill PID`
answers once it is gone. At the end of its input it kills what is left and ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.app import Amends
from runner.engine.temporal import engine
from runner.errors import NotPossible
from runner.serving import serve
from runner.store import shared
from tests.crash.zygote import FAULTS
from tests.support.processes import ROOT

LOADED = (engine,)
"""Once, before any worker is forked; else each loads it by its name."""
LEASE, BEAT = 4_000, 1_000
"""ms: a dead worker is missed sooner than by the product's own figures, so that many can die."""
AGAIN_AFTER = 0.2
SAID = "worker.err"


class WorkerHost:
    """The process, from outside."""

    def __init__(self, fault: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.trust.worker_host", fault], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def start(self, folder: Path) -> int:
        """A worker of this project; its process id."""
        return int(self._ask(f"start {folder}"))

    def kill(self, worker: int) -> bool:
        """kill -9. False where it had ended by itself."""
        return self._ask(f"kill {worker}") == str(-signal.SIGKILL)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def _work(folder: Path) -> None:
    """The forked worker: what `amends worker` does, until it is killed; where the cluster is away as it begins, it ends
    and is started again, as by whoever looks after services.
    """
    sys.stdin.close()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while True:
        try:
            asyncio.run(serve(Amends.open(folder), lambda _: None, lambda run, events, state: None, None))
        except NotPossible:
            time.sleep(AGAIN_AFTER)
        except BaseException:  # noqa: BLE001 - nobody else hears of it
            with (folder / SAID).open("a") as said:
                said.write(traceback.format_exc())
            os._exit(1)
        else:
            os._exit(0)


def main() -> None:
    """The command line of this process."""
    FAULTS[sys.argv[1] if len(sys.argv) > 1 else ""]()
    shared.LEASE, shared.BEAT = LEASE, BEAT
    alive: set[int] = set()
    for line in sys.stdin:
        word, what = line.split()
        if word == "start":
            worker = os.fork()
            if worker == 0:
                _work(Path(what))
            alive.add(worker)
            print(worker, flush=True)
        else:
            print(_killed(int(what)), flush=True)
            alive.discard(int(what))
    for worker in alive:
        _killed(worker)


def _killed(worker: int) -> int:
    os.kill(worker, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])


if __name__ == "__main__":
    main()
