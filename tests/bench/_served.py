"""`amends serve` for the benches, as a process of its own: the project's kinds with the one that does nothing, and the
route that starts a run once more with an empty handler (`POST /api/v1/nothing`).

    python -m tests.bench._served FOLDER

Its first line is the port and a token of `person:root`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from runner.app import Amends, OwnDriver
from runner.contract import Json
from runner.language.project import Project
from runner.people.access import new_access
from runner.serving import serve as serve_runs
from runner.web import api
from runner.web.guard import ApiStarts
from runner.web.server import WebDoor
from runner.web.shapes import Start, StartedRow, answer
from tests.bench import _ground as ground
from tests.support.processes import ROOT

EMPTY: Mapping[str, Json] = {
    **dict.fromkeys(
        ("run", "flow", "title", "mode", "status", "run_key", "record", "owner", "starter", "waiting_for", "at_step",
         "needs", "summary", "continues", "bundle", "phase"), "-"
    ),
    "started_at": "2026-09-01T09:00:00+00:00", "updated_at": "2026-09-01T09:00:00+00:00", "ended_at": None,
    "wake_at": None, "rerun": 0, "seq": 1, "stands": 0, "joined": False,
}  # fmt: skip


async def start_nothing(request: Request, caller: ApiStarts, wanted: Start, key: api.Key = "") -> Response:
    """The same route as the one that starts a run, and nothing is started."""
    return api._answer(EMPTY, 201)


async def serve(folder: Path) -> None:
    """Serves until SIGTERM; its last line is what it used."""
    api.ROUTES.post("/nothing", status_code=201, responses=answer(StartedRow, 201))(start_nothing)
    amends = Amends(Project.open(folder, kinds=ground.kinds()))
    door = WebDoor(amends, host="127.0.0.1", port=0, on_open=lambda address, link, why: None)
    plain = door.serving

    @contextlib.asynccontextmanager
    async def serving(driver: OwnDriver) -> AsyncIterator[None]:
        async with plain(driver):
            secret, row = new_access("token", "person:root", now=amends.clock.now(), name="bench")
            await driver.admit(row)
            print(json.dumps({"port": door._port, "token": secret}), flush=True)
            yield

    door.serving = serving  # type: ignore[method-assign]
    await serve_runs(amends, lambda active: None, lambda run, events, state: None, door)
    print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A server that runs."""

    process: subprocess.Popen[str]
    port: int
    token: str

    def used(self) -> float:
        """Seconds of CPU that it has used."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def holds(self) -> float:
        """MB that it has in memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize() / 1024 / 1024

    def kill(self) -> None:
        """At once (SIGKILL)."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Served]:
    """The project's server, until the block is left. Raises RuntimeError where it does not come up."""
    program = [sys.executable, "-m", "tests.bench._served", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the server did not come up")
        yield Served(process=process, **json.loads(line))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
