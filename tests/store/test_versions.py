"""Which texts of a flow ran: counted by the runs that are on them, and by those that were moved away."""

from __future__ import annotations

from dataclasses import replace

from runner.core.events import RunFinished, RunMoved
from runner.store.facts import Append, RunColumns
from runner.store.sql import SqlStore
from tests.store.samples import new_run

OLD, NEW = "a" * 64, "c" * 64
ENDED = RunColumns(status="succeeded", phase="forward", ended_at=9_000)


async def start(store: SqlStore, run: str, bundle: str, at: int, flow: str = "signup") -> None:
    await store.start(replace(new_run(run, at=at, flow=flow), bundle=bundle))


async def move(store: SqlStore, run: str, at: int, before: str, bundle: str) -> None:
    event = RunMoved(at=at, bundle=bundle, by="person:ops", before=before)
    await store.report(run, event, store.log_end(run).seq)


async def test_every_version_that_ran_is_counted(store: SqlStore) -> None:
    await start(store, "r1", OLD, 1_000)
    await start(store, "r2", OLD, 2_000)
    await start(store, "r3", NEW, 3_000)
    await start(store, "r4", OLD, 4_000, flow="other")
    end, done = store.log_end("r1"), RunFinished(at=9_000, status="succeeded")
    await store.append(
        Append(run="r1", seq=end.seq, fence=store.fence(), events=(done,), columns=ENDED, previous_hash=end.hash)
    )
    told = [(v.bundle, v.first_at, v.last_at, v.runs, v.open_runs) for v in store.versions("signup")]
    assert told == [(NEW, 3_000, 3_000, 1, 1), (OLD, 1_000, 2_000, 2, 1)]
    assert [(v.flow, v.bundle) for v in store.versions()] == [("other", OLD), ("signup", NEW), ("signup", OLD)]
    assert store.versions("nothing") == []


async def test_a_run_that_was_moved_counts_for_both(store: SqlStore) -> None:
    await start(store, "r1", OLD, 1_000)
    await move(store, "r1", 5_000, OLD, NEW)
    told = [(v.bundle, v.first_at, v.last_at, v.runs, v.open_runs) for v in store.versions("signup")]
    assert told == [(NEW, 5_000, 5_000, 1, 1), (OLD, 1_000, 1_000, 1, 0)]
    assert store.run("r1").bundle == NEW
    await move(store, "r1", 7_000, NEW, OLD)
    told = [(v.bundle, v.first_at, v.last_at, v.runs, v.open_runs) for v in store.versions("signup")]
    assert told == [(OLD, 7_000, 7_000, 1, 1), (NEW, 5_000, 5_000, 1, 0)]


async def test_a_move_leaves_the_run_to_be_decided_about(store: SqlStore) -> None:
    """Were the engine killed right after it, the next one takes the run up."""
    await start(store, "r1", OLD, 1_000)
    waits = RunColumns(status="waiting", phase="forward", wake_at=99_000)
    await store.write_columns("r1", store.log_end("r1").seq, waits)
    assert store.unfinished() == []
    await move(store, "r1", 5_000, OLD, NEW)
    assert store.unfinished() == ["r1"]
    assert store.run("r1").status == "waiting"
    assert store.verify() == []
    assert store.export("r1")["versions"].keys() == {OLD}
