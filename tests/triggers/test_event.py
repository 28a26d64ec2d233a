"""Flows that events start: sent from outside or emitted by another flow, also while nobody served."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runner.clock import MachineClock
from runner.store.arrivals import cursor
from runner.store.facts import RunFilter
from runner.triggers.event import CURSOR
from tests.cases.ground import Engine, flow, opened, until
from tests.triggers.ground import serving, starts

PAID = starts("paid", '  - event: payment.received\n    fill: { name: "${{ event.payer }}" }\n')
SENDS = flow("sends", '  - { id: told, emit: payment.received, with: { payer: "${{ inputs.name }}" } }\n')


async def payers(engine: Engine, count: int) -> list[str]:
    """The inputs of the runs that were started, once there are so many."""
    await until(lambda: len(engine.store.runs(RunFilter(flow="paid"))) >= count)
    return sorted(str(engine.state(view.run).inputs["name"]) for view in engine.store.runs(RunFilter(flow="paid")))


async def test_events_start_flows_once(tmp_path: Path) -> None:
    async with opened(tmp_path, PAID, SENDS) as ground:
        async with serving(ground) as engine:
            for _ in range(2):
                await engine.driver.send_event("e1", "payment.received", {"payer": "Ada"}, "person:me")
            await engine.driver.send_event("e2", "other.thing", {"payer": "Eve"}, "person:me")
            await engine.run("sends", "k", name="Bob")
            assert await payers(engine, 2) == ["Ada", "Bob"]
        began = MachineClock().now()
        async with ground.engine() as engine:
            await engine.run("sends", "k2", name="Cleo")
            assert await payers(engine, 2) == ["Ada", "Bob"]
        async with serving(ground) as engine:
            assert await payers(engine, 3) == ["Ada", "Bob", "Cleo"]
            assert int(engine.store.ask(cursor(CURSOR))) >= began
        async with serving(ground) as engine:
            assert await payers(engine, 3) == ["Ada", "Bob", "Cleo"]


async def test_what_was_sent_before_the_flow_was_there_starts_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, SENDS) as ground, serving(ground) as engine:
        await engine.driver.send_event("e1", "payment.received", {"payer": "Ada"}, "person:me")
        await asyncio.sleep(0.05)
        ground.write(PAID)
        await engine.driver.triggers.active.look()
        await engine.driver.send_event("e2", "payment.received", {"payer": "Bob"}, "person:me")
        assert await payers(engine, 1) == ["Bob"]
