"""Restate with its Python SDK: `python restate_app.py WORK SIZE ORIGIN FOLDER SERVER`; its last line is what was measured.

`python restate_app.py serve PORT ORIGIN` is the process of the handlers.
"""

# mypy: ignore-errors
from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

import aiohttp
import hypercorn.asyncio
import hypercorn.config
import restate
from poster import BACK, FORWARD, Poster, Rejected, cpu, disk, floor, memory, together
from restate import TerminalError, Workflow

ORIGIN = sys.argv[3]
POSTER: list[Poster] = []
saga, noop, wait = Workflow("saga"), Workflow("noop"), Workflow("wait")


async def post(path: str, key: str, step: int) -> dict[str, object]:
    if not POSTER:
        POSTER.append(Poster(ORIGIN))
    try:
        return await POSTER[0].post(path, key, step)
    except Rejected as refused:
        raise TerminalError(str(refused), status_code=422) from None


async def nothing(step: int) -> int:
    return step


@saga.main(name="run")
async def run_saga(ctx: restate.WorkflowContext, given: dict) -> str:
    key, done = ctx.key(), []
    try:
        for step in range(5):
            path = "refused" if given["is_refused"] and step == 4 else "effects"
            await ctx.run_typed(f"s{step}", post, path=path, key=f"{key}-{step}", step=step)
            done.append(step)
    except TerminalError:
        for step in reversed(done):
            await ctx.run_typed(f"u{step}", post, path="undone", key=f"{key}-undo-{step}", step=step)
        return "compensated"
    return "done"


@noop.main(name="run")
async def run_noop(ctx: restate.WorkflowContext, given: dict) -> str:
    for step in range(5):
        await ctx.run_typed(f"s{step}", nothing, step=step)
    return "done"


@wait.main(name="run")
async def run_wait(ctx: restate.WorkflowContext, given: dict) -> str:
    return await ctx.promise("approval", type_hint=str).value()


@wait.handler()
async def approve(ctx: restate.WorkflowSharedContext, given: dict) -> str:
    await ctx.promise("approval", type_hint=str).resolve("yes")
    return "ok"


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


class Restate:
    """The server and the process of the handlers, on ports of their own."""

    def __init__(self, folder: str, server: str) -> None:
        self.entry, self.admin, handlers, node = (free_port() for _ in range(4))
        self.handlers = f"http://127.0.0.1:{handlers}"
        there = {
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.entry}", "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin}",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}", "RESTATE_NODE_NAME": "n1", "RESTATE_BASE_DIR": f"{folder}/data",
            "DO_NOT_TRACK": "1", "RESTATE_DISABLE_TELEMETRY": "1", "RESTATE_LOG_FILTER": "warn",
        }  # fmt: skip
        out = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.server = subprocess.Popen([server], env={**os.environ, **there}, **out)
        self.worker = subprocess.Popen([sys.executable, __file__, "serve", str(handlers), ORIGIN], **out)
        self.pids = (os.getpid(), self.server.pid, self.worker.pid)

    async def register(self, client: aiohttp.ClientSession) -> None:
        for _ in range(300):
            with suppress(aiohttp.ClientError):
                asked = client.post(f"http://127.0.0.1:{self.admin}/deployments", json={"uri": self.handlers})
                async with asked as answer:
                    if answer.status < 300:
                        return
            await asyncio.sleep(0.1)
        raise SystemExit("the handlers were not registered within 30 s")

    def end(self) -> None:
        for process in (self.worker, self.server):
            process.kill()
            process.wait()


async def driven(peer: Restate, work: str, size: int, folder: str) -> dict[str, object]:
    flow = {"rollback": "saga", "start": "wait"}.get(work, work)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100)) as client:
        await peer.register(client)

        async def call(path: str, given: dict) -> None:
            async with client.post(f"http://127.0.0.1:{peer.entry}/{path}", json=given) as answer:
                if answer.status >= 300:
                    raise SystemExit(f"{path} was answered {answer.status}: {await answer.text()}")

        async def ended() -> int:
            asked = f"select count(*) as n from sys_invocation_status where target_handler_name='run' and status='completed' and target_service_key like 'restate-{work}-%'"
            words = {"json": {"query": asked}, "headers": {"accept": "application/json"}}
            async with client.post(f"http://127.0.0.1:{peer.admin}/query", **words) as answer:
                return int((await answer.json(content_type=None))["rows"][0]["n"])

        async def all_ended() -> None:
            while await ended() < size:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.2)

        given = {"is_refused": work == "rollback"}
        await call("noop/warm/run", given)
        used, held, kept, began = cpu(*peer.pids), memory(*peer.pids), disk(folder), time.perf_counter()
        starts = await together(lambda at: call(f"{flow}/restate-{work}-{at}/run/send", given), size)
        if work == "start":
            return {"starts/s": size / starts}
        if work == "wait":
            await asyncio.sleep(5)
            each, stored = (memory(*peer.pids) - held) / size, (disk(folder) - kept) / size / 1024
            began = time.perf_counter()
            await together(lambda at: call(f"wait/restate-{work}-{at}/approve", {}), size)
            await all_ended()
            rate = size / (time.perf_counter() - began)
            return {
                "starts/s": size / starts,
                "KB of memory each": each,
                "KB of disk each": stored,
                "approvals/s": rate,
            }
        await all_ended()
        took, ms = time.perf_counter() - began, (cpu(*peer.pids) - used) / size * 1000
    found: dict[str, object] = {"runs/s": size / took, "ms CPU a run": ms}
    if work == "noop":
        return {**found, "steps/s": 5 * size / took}
    return {**found, "ms CPU of its calls alone": await floor(ORIGIN, FORWARD if work == "saga" else BACK, size)}


async def main() -> None:
    work, size, folder, server = sys.argv[1], int(sys.argv[2]), sys.argv[4], sys.argv[5]
    peer = Restate(folder, server)
    try:
        found = await driven(peer, work, size, folder)
    finally:
        peer.end()
    print(json.dumps({"version": importlib.metadata.version("restate-sdk"), **found}), flush=True)


if sys.argv[1] == "serve":
    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{sys.argv[2]}"]
    config.h2_max_concurrent_streams = 1000
    asyncio.run(hypercorn.asyncio.serve(restate.app(services=[saga, noop, wait]), config))
else:
    asyncio.run(main())
