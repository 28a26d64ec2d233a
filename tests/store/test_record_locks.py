"""Locks on records: one run has a record until it ends, others stand in line in the order they began, no circles."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from runner.core.events import HoldLifted, HoldPlaced, RecordLocked, RunFinished, RunHeld
from runner.store.facts import RecordIsHeld
from runner.store.sql import SqlStore
from tests.store.samples import append, intended, new_run

LOCK: dict[str, Any] = {"records": ("x",), "since": 5}


async def test_a_locked_record_is_one_runs_until_it_ends(store: SqlStore) -> None:
    for run in ("r1", "r2", "r3", "r4"):
        await store.start(new_run(run))
    locked = RecordLocked(at=1, record="x")
    end = await store.append(append(store, "r1", store.log_end("r1"), locked, intended(), **LOCK))
    for run in ("r2", "r3"):
        with pytest.raises(RecordIsHeld, match="x is locked by run r1") as told:
            await store.append(append(store, run, store.log_end(run), locked, intended(), **LOCK))
        assert (told.value.why, told.value.by_run, told.value.circle) == ("lock", "r1", ())
        held = RunHeld(at=2, why="lock", name="x", by_run="r1")
        await store.append(append(store, run, store.log_end(run), held, waits=("x",), since=7 if run == "r3" else 9))
    assert (store.holder("x"), store.next_in_line("x")) == ("r1", "")
    done = append(store, "r1", end, RunFinished(at=3, status="succeeded"), frees=("x",))
    hasty = append(store, "r4", store.log_end("r4"), locked, intended(), records=("x",), since=8)
    both = await asyncio.gather(store.append(done), store.append(hasty), return_exceptions=True)
    assert isinstance(both[1], RecordIsHeld), "who comes later does not overtake those who wait"
    assert (store.holder("x"), store.next_in_line("x"), both[1].by_run) == ("", "r3", "r3")
    early = append(store, "r4", store.log_end("r4"), locked, intended(), records=("x",), since=6)
    await store.append(early)
    assert (store.holder("x"), store.next_in_line("x")) == ("r4", "")


async def test_two_who_want_a_record_in_the_same_group_do_not_both_get_it(store: SqlStore) -> None:
    for run in ("r1", "r2"):
        await store.start(new_run(run))
    locked = RecordLocked(at=1, record="x")
    wants = [store.append(append(store, run, store.log_end(run), locked, intended(), **LOCK)) for run in ("r1", "r2")]
    told = await asyncio.gather(*wants, return_exceptions=True)
    assert [isinstance(one, RecordIsHeld) for one in told] == [False, True]
    assert store.verify() == []


async def test_a_circle_of_those_who_wait_is_refused(store: SqlStore) -> None:
    ends = {}
    for run, record in (("r1", "a"), ("r2", "b")):
        await store.start(new_run(run))
        locked = RecordLocked(at=1, record=record)
        ends[run] = await store.append(append(store, run, store.log_end(run), locked, records=(record,)))
    held = RunHeld(at=2, why="lock", name="b", by_run="r2")
    waits = store.append(append(store, "r1", ends["r1"], held, waits=("b",)))
    closes = store.append(append(store, "r2", ends["r2"], replace(held, name="a", by_run="r1"), waits=("a",)))
    told = await asyncio.gather(waits, closes, return_exceptions=True)
    assert isinstance(told[1], RecordIsHeld), "in one group, too"
    assert told[1].circle == (("r2", "a", "r1"), ("r1", "b", "r2"))


async def test_a_person_may_hold_a_record(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    for _ in range(2):
        await store.site(HoldPlaced(at=1, name="x", by="person:ada"))
    await store.site(HoldPlaced(at=2, name="x", by="person:bob"))
    assert store.holder("x") == "person:ada"
    with pytest.raises(RecordIsHeld, match="^x is held by person:ada$"):
        await store.append(append(store, "r1", store.log_end("r1"), intended(), records=("x",)))
    await store.site(HoldLifted(at=3, name="x", by="person:bob"))
    assert store.holder("x") == ""
    await store.append(append(store, "r1", store.log_end("r1"), intended(), records=("x",)))
