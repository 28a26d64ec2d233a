"""Starts through the HTTP API: one by one with 32 clients, beside the same route with an empty handler; and in bulk.

    python -m tests.bench start [--size 4000] [--database postgresql] [--peer dbos] [--peer restate]

The flow waits 300 days, so that starting is all that is done. Each start is durable before its answer: the server is
killed (-9) right after the last one, and every run that was answered must be there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select

from runner.app import Amends
from runner.store.tables import runs
from tests.bench import _clients as clients
from tests.bench import _ground as ground
from tests.bench import _peers as peers
from tests.bench._goals import Finding, Judged, bench, least
from tests.bench._served import served

ONE_BY_ONE, SHARE, BULK = 2000.0, 60.0, 20_000.0
CLIENTS, TOGETHER, AT_ONCE = 32, 1000, 4
TICK = 0.01
"""Seconds: the system counts CPU in no smaller pieces, so none at all counts as one."""


def measure(given: argparse.Namespace) -> Judged:
    """Empty handler, starts, starts in bulk; then what is in the database after a kill."""
    size, many = given.size, given.size * 5
    with ground.project(given.database) as folder:
        with served(folder) as server:
            numbers = [{"flow": "parked", "inputs": {"number": f"N{number}"}} for number in range(size)]

            def ask(path: str, bodies: Sequence[object], lanes: int) -> tuple[clients.Answered, float]:
                sent = [clients.request(f"/api/v1/{path}", body, server.token, server.port) for body in bodies]
                used = server.used()
                found = asyncio.run(clients.send(server.port, sent, lanes))
                return found, max(server.used() - used, TICK) / len(bodies) * 1000

            ask("runs", numbers[: CLIENTS * 2], CLIENTS)
            empty, empty_cpu = ask("nothing", numbers, CLIENTS)
            single, single_cpu = ask("runs", numbers, CLIENTS)
            groups = [
                {"flow": "parked", "runs": [{"inputs": {"number": f"B{at}"}} for at in range(first, min(first + TOGETHER, many))]}
                for first in range(0, many, TOGETHER)
            ]  # fmt: skip
            bulk, bulk_cpu = ask("starts", groups, AT_ONCE)
            server.kill()
        answered = {json.loads(body)["run"] for body in single.bodies}
        answered |= {one.get("run", "") for body in bulk.bodies for one in json.loads(body)}
        wrong = lost(folder, answered, size + many)
        beside = peers.measured(given.peer, "start", size)
    share = single.rate / empty.rate * 100
    each = many / len(groups)
    rate, held = bulk.rate * each, each / bulk_cpu * 1000
    return Judged(
        findings=[
            Finding(
                goal=f">= {ONE_BY_ONE:,.0f} starts/s, 32 clients one by one",
                measured=f"{single.rate:,.0f}/s ({single_cpu:.2f} ms CPU each, runs' first turns included)",
                is_met=single.rate >= ONE_BY_ONE,
            ),
            least(f">= {SHARE:.0f} % of the route with an empty handler", share, SHARE, f"% ({empty.rate:,.0f}/s, {empty_cpu:.2f} ms)"),
            Finding(
                goal=f">= {BULK:,.0f} starts/s in bulk ({TOGETHER:,} a request)",
                measured=f"{rate:,.0f}/s ({held:,.0f} by its CPU)", is_met=rate >= BULK,
            ),
            *beside.findings,
        ],
        wrong=wrong + beside.wrong,
    )  # fmt: skip


def lost(folder: Path, answered: set[str], number: int) -> list[str]:
    """What is wrong where not every run that was answered is in the database, each once."""
    store = Amends.open(folder).store
    try:
        there = set(store.ask(lambda connection: connection.execute(select(runs.c.run_id)).scalars().all()))
    finally:
        store.close()
    wrong = [f"{len(answered - there):,} runs that were answered are not there"] if answered - there else []
    return wrong + ([f"{len(answered):,} runs were answered for {number:,} starts"] if len(answered) != number else [])


def main(arguments: Sequence[str]) -> int:
    """Prints the rates."""
    summary = "Starts through the HTTP API."
    return bench("start", summary, arguments, measure, size=4000, of="starts one by one", peers=True)
