"""Several workers of one project as an operator runs them: `amends worker` and `serve`, PostgreSQL and Temporal."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.conftest import database, server
from tests.support.hosts import Hosts
from tests.support.processes import HttpProcess
from tests.support.says import late, refused
from tests.support.temporal import TemporalServer, running_temporal

__all__ = ["database", "server"]
LONG = pytest.mark.timeout(240)
"""Seconds; what is waited for are leases and pauses, not work."""
LONG_FORM = pytest.mark.skipif(not os.environ.get("TESTS_LONG"), reason="the long form: python -m tests.trust workers")
RUNS = 48 if os.environ.get("TESTS_LONG") else 12


@pytest.fixture
def shop() -> Iterator[HttpProcess]:
    with HttpProcess(keep_requests=False) as running:
        yield running


@LONG
async def test_workers_share_the_work_and_follow_one_that_is_killed_or_told_to_stop(
    tmp_path: Path, database: str, shop: HttpProcess, temporal: TemporalServer
) -> None:
    hosts = Hosts(place=tmp_path, shop=shop, database=database, temporal=temporal)
    shop.script("POST /deal", always=refused())
    shop.script("POST /book", always=late(400))
    with contextlib.ExitStack() as opened:
        kept, killed, drained = (
            opened.enter_context(hosts.runs(name, *words))
            for name, words in (("one", ("serve", "--port", "0")), ("two", ()), ("three", ()))
        )
        runs: list[str] = []
        for victim in (killed, drained):
            runs += await hosts.work_for(victim, *("saga", "rollback") * (RUNS // 2))
            if victim is killed:
                victim.process.kill()
        began = time.monotonic()
        said = drained.end()
        assert time.monotonic() - began < 30
        assert (said.code, said.out.splitlines()[-1]) == (
            0,
            "Stopped. Other workers go on, or the next one that is started.",
        )
        await hosts.until(runs, "succeeded", "compensated")
        assert Counter(view.status for view in hosts.views(runs)) == {
            "succeeded": len(runs) // 2,
            "compensated": len(runs) // 2,
        }
        hosts.holds(runs)
        assert kept.end().code == 0
    half, whole = len(runs) // 2, len(runs)
    assert hosts.twice() == []
    assert hosts.effects() == {
        "reserve": whole, "book": whole, "charge": whole, "refund": half, "unbook": half, "release": half
    }  # fmt: skip


@LONG
async def test_whatever_the_cluster_has_lost_no_run_is(tmp_path: Path, database: str, shop: HttpProcess) -> None:
    """A start of which nobody told the cluster, a report too; and its database begun empty."""
    with running_temporal() as temporal:
        hosts = Hosts(place=tmp_path, shop=shop, database=database, temporal=temporal)
        with hosts.runs("one") as worker:
            untold = await hosts.start("saga", tells=False)
            asks, naps = await hosts.start("asks", "naps")
            await hosts.until([asks, naps], "waiting")
            temporal.forget()
            temporal.start()
            await hosts.said_yes("n0")
            await hosts.until([*untold, asks, naps], "succeeded")
            hosts.holds([*untold, asks, naps])
            assert worker.end().code == 0
    assert hosts.twice() == []
    assert hosts.effects() == {"reserve": 3, "charge": 3, "book": 1}


@LONG
@LONG_FORM
async def test_a_cluster_that_was_put_back_from_a_copy_loses_nothing(
    tmp_path: Path, database: str, shop: HttpProcess
) -> None:
    with running_temporal() as temporal:
        hosts = Hosts(place=tmp_path, shop=shop, database=database, temporal=temporal)
        with hosts.runs("one") as worker:
            older = await hosts.start("asks", "naps")
            await hosts.until(older, "waiting")
            temporal.keep_copy()
            temporal.start()
            await hosts.said_yes("n0")
            newer = await hosts.start("asks", "naps")
            await hosts.until([*older, newer[1]], "succeeded")
            temporal.put_back()
            temporal.start()
            await hosts.said_yes("n0")
            await hosts.until(newer, "succeeded")
            hosts.holds([*older, *newer])
            assert worker.end().code == 0
    assert hosts.twice() == []
    assert hosts.effects() == {"reserve": 4, "charge": 4}


@LONG
@LONG_FORM
async def test_a_connection_is_reached_by_its_own_workers_alone(
    tmp_path: Path, database: str, shop: HttpProcess, temporal: TemporalServer
) -> None:
    hosts = Hosts(place=tmp_path, shop=shop, database=database, temporal=temporal, settings=", apart: [shop]")
    with hosts.runs("one") as all_else, hosts.runs("two", "worker", "--connections", "shop") as inside:
        runs = await hosts.start("saga", "naps", "asks")
        await hosts.until(runs[2:], "waiting")
        await hosts.said_yes("n2")
        await hosts.until(runs, "succeeded")
        assert (hosts.calls_of(all_else), hosts.calls_of(inside)) == (0, 7)
        hosts.holds(runs)
        assert (all_else.end().code, inside.end().code) == (0, 0)
    assert hosts.twice() == []
