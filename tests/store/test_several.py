"""Several engines on one PostgreSQL: whose a run is, who is refused, and what becomes of what an engine leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from runner.core.events import ConnectionHeld, FlowHeld, FlowReleased, RecordHeld, RunPaused, StopRequested
from runner.errors import EngineBusy, RunKeyConflict, SequenceConflict, StoreUnwritable
from runner.store.company import HeldByPerson, RunTaken
from runner.store.copying import copy_database
from runner.store.dividing import Grant, Wish
from runner.store.facts import Append, RecordIsHeld, RunColumns
from runner.store.shared import living
from runner.store.sql import SqlStore, open_store
from runner.store.work import BesideWork
from tests.store.samples import TurnedClock, intended, new_run
from tests.support.processes import ROOT

RUNNING = RunColumns(status="running", phase="forward")
WAITING = RunColumns(status="waiting", phase="forward")


def opened(folder: Path, url: str, *, drives: bool = True) -> SqlStore:
    return open_store(folder, clock=TurnedClock(), writable=True, floor=0, url=url, drives=drives)


@pytest.fixture
def engines(tmp_path: Path, database: str) -> Iterator[list[SqlStore]]:
    """Three, each on a machine of its own."""
    found = [opened(tmp_path / name, database) for name in ("one", "two", "three")]
    yield found
    for store in found:
        store.close()


async def test_a_number_without_a_commit_is_none_of_the_databases(tmp_path: Path, database: str) -> None:
    store = opened(tmp_path / "one", database)
    await store.write(lambda connection: None)
    for _ in range(3):
        await store.write_columns("nobody", 1, RUNNING)  # nothing is written, and a number was taken
    fence = store.fence()
    for _ in range(2):
        with pytest.raises(StoreUnwritable):
            await store.write(
                lambda connection: connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
            )
    await store.write(lambda connection: None)
    assert store.fence() == fence, "it took itself for dead"
    await store.write_columns("nobody", 1, RUNNING)
    store.close()
    again = opened(tmp_path / "one", database)
    assert not again.restored, again.why_restored
    again.close()


async def test_an_engine_whose_lease_is_over_or_whose_process_is_gone_does_not_live(
    tmp_path: Path, database: str, engines: list[SqlStore]
) -> None:
    here = f"{socket.gethostname()}:{os.getpid()}"
    reader = open_store(tmp_path / "desk", clock=TurnedClock(), writable=False, url=database)
    assert reader.ask(living) == [here] * 3
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE engines SET lease_until = 0 WHERE fence = %s", (engines[0].fence(),))
        connection.execute(
            "UPDATE engines SET name = replace(name, %s, %s) WHERE fence = %s",
            (f":{os.getpid()} ", f":{gone.pid} ", engines[1].fence()),
        )
        connection.execute(
            "INSERT INTO engines (fence, name, lease_until, commit_no, checkpointed, since) "
            "SELECT fence + 100, %s, lease_until, commit_no, checkpointed, since FROM engines WHERE fence = %s",
            ("far:7 another-boot/1", engines[2].fence()),
        )
    assert reader.ask(living) == [here, "far:7"]
    with psycopg.connect(database) as connection:
        connection.execute("DELETE FROM engines WHERE name LIKE 'far:%'")
    reader.close()


def decision(store: SqlStore, run: str, *, rests: bool = False) -> Append:
    end = store.log_end(run)
    return Append(
        run=run, seq=end.seq, fence=store.fence(), events=(RunPaused(at=2, by="ada"),),
        columns=WAITING if rests else RUNNING, previous_hash=end.hash, rests=rests,
    )  # fmt: skip


def forget(database: str, store: SqlStore) -> None:
    """Its lease is over."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE engines SET lease_until = 0 WHERE fence = %s", (store.fence(),))


async def until_buried(store: SqlStore, fence: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.store.shared.BEAT", 10)
    await store.write(lambda connection: None)
    asked = "SELECT fence FROM engines"
    await until(lambda: fence not in store.ask(lambda found: found.exec_driver_sql(asked).scalars().all()))


async def test_each_engine_has_a_fence_of_its_own(engines: list[SqlStore]) -> None:
    fences = [store.fence() for store in engines]
    assert fences == sorted(set(fences))


async def test_a_run_is_driven_by_one_engine_until_it_rests(engines: list[SqlStore]) -> None:
    one, two, _ = engines
    await one.start(new_run("r1"))
    assert [store.fence_of("r1") for store in engines] == [one.fence()] * 3
    assert (list(one.queued("signup", 0, 9)), list(two.queued("signup", 0, 9))) == (["r1"], [])
    with pytest.raises(RunTaken, match=f"run r1 is driven by another engine by now .fence {one.fence()}, not"):
        await two.append(decision(two, "r1"))
    assert not await two.take("r1")
    await one.append(decision(one, "r1", rests=True))
    assert two.fence_of("r1") == 0
    await two.append(decision(two, "r1"))
    assert one.fence_of("r1") == two.fence()
    with pytest.raises(RunTaken):
        await one.append(decision(one, "r1"))
    await two.give_back("r1")
    assert await one.take("r1")
    assert not one.verify()


async def test_what_is_reported_is_in_the_log_whoever_drives_the_run(engines: list[SqlStore]) -> None:
    one, two, three = engines
    await one.start(new_run("r1"))
    stale = decision(one, "r1")
    reports = [
        store.report("r1", StopRequested(at=3, by=f"person:{number}", compensate=False))
        for number, store in enumerate((two, three, two, three, one))
    ]
    ends = await asyncio.gather(*reports)
    assert sorted(end.seq for end in ends) == [2, 3, 4, 5, 6]
    with pytest.raises(SequenceConflict) as refused:
        await one.append(stale)
    assert not isinstance(refused.value, RunTaken)
    assert one.fence_of("r1") == one.fence()
    await one.append(decision(one, "r1", rests=True))
    await three.report("r1", StopRequested(at=4, by="person:7", compensate=False))
    assert one.fence_of("r1") == three.fence()
    assert not three.verify()


async def test_who_does_not_drive_leaves_the_run_to_others(tmp_path: Path, database: str) -> None:
    heard: list[tuple[int, str]] = []
    desk, driving = opened(tmp_path / "desk", database, drives=False), opened(tmp_path / "worker", database)
    listening = asyncio.create_task(driving.listen(lambda fence, what: heard.append((fence, what))))
    await until(lambda: bool(heard))
    await desk.start(new_run("r1"))
    await until(lambda: (0, "r1") in heard)
    assert driving.fence_of("r1") == 0
    assert await driving.take("r1")
    await desk.report("r1", StopRequested(at=3, by="person:ada", compensate=False))
    await until(lambda: (driving.fence(), "r1") in heard)
    desk.close()
    await until(lambda: heard.count((0, "left")) == 2)
    listening.cancel()
    driving.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what another process does is seen by looking
            await asyncio.sleep(0.02)


async def test_one_business_event_is_one_run_whichever_engine_hears_of_it(engines: list[SqlStore]) -> None:
    starts = [
        store.start(new_run(f"r{number}-{at}", key=f"k{number}", receipt=("hook", f"d{number}")))
        for number in range(40)
        for at, store in enumerate(engines)
    ]
    found = await asyncio.gather(*starts)
    assert sum(not started.joined for started in found) == 40
    assert [len({started.run for started in found[at : at + 3]}) for at in range(0, 120, 3)] == [1] * 40
    one, two, _ = engines
    with pytest.raises(RunKeyConflict):
        await two.start(new_run("other", key="k1", digest="d2"))
    deliveries = [
        store.start(new_run(f"s{number}-{at}", key=f"s{number}-{at}", receipt=("hook", f"s{number}")))
        for number in range(40)
        for at, store in enumerate(engines)
    ]
    found = await asyncio.gather(*deliveries)
    assert [len({started.run for started in found[at : at + 3]}) for at in range(0, 120, 3)] == [1] * 40
    assert not one.verify()


async def test_a_record_that_is_held_stops_the_intents_of_all(engines: list[SqlStore]) -> None:
    """Both are decided at one time, and one comes first."""
    one, two, _ = engines
    for number in range(20):
        await one.start(new_run(f"a{number}"))
        await two.start(new_run(f"b{number}"))
        holding = replace(
            decision(one, f"a{number}"),
            events=(RecordHeld(at=2, record=f"x{number}", handoff="h", step="a"),),
        )  # fmt: skip
        writing = replace(decision(two, f"b{number}"), events=(intended(),), records=(f"x{number}",))
        answers = await asyncio.gather(one.append(holding), two.append(writing), return_exceptions=True)
        assert not isinstance(answers[0], Exception)
        held = two.ask(lambda found: found.exec_driver_sql("SELECT at FROM holds").all())
        assert len(held) == number + 1
        if isinstance(answers[1], RecordIsHeld):
            assert two.log_end(f"b{number}").seq == 1


async def test_nothing_is_intended_after_a_person_s_hold_is_committed(engines: list[SqlStore]) -> None:
    """Whatever an intent that is older than the hold does, it is in the log before it."""
    one, two, _ = engines
    heard: list[tuple[int, str]] = []
    listening = asyncio.create_task(two.listen(lambda fence, what: heard.append((fence, what))))
    await until(lambda: bool(heard))
    for number in range(20):
        name = f"c{number}"
        await two.start(new_run(f"r{number}"))
        calls = replace(
            decision(two, f"r{number}"), events=(intended(action=f"{name}.do"),),
            passes=(f"connection:{name}", "flow:signup"),
        )  # fmt: skip
        hold, call = await asyncio.gather(
            one.site(ConnectionHeld(at=1, name=name, by="person:ada")), two.append(calls), return_exceptions=True
        )
        assert hold is None
        if isinstance(call, HeldByPerson):
            assert (call.name, call.by) == (f"connection:{name}", "person:ada")
            assert two.log_end(f"r{number}").seq == 1
        late = replace(decision(two, f"r{number}"), events=(intended(2),), passes=(f"connection:{name}",))
        with pytest.raises(HeldByPerson, match=f"connection {name} is held by person:ada"):
            await two.append(late)
        await two.append(replace(late, passes=("connection:other",)))
    await one.site(FlowHeld(at=1, name="signup", by="person:ada"))
    late = replace(decision(two, "r1"), events=(intended(3),), passes=("flow:signup",))
    with pytest.raises(HeldByPerson, match="flow signup is held by person:ada"):
        await two.append(late)
    await until(lambda: heard.count((0, "holds")) == 21)
    await one.site(FlowReleased(at=1, name="signup", by="person:ada"))
    await two.append(late)
    await until(lambda: heard.count((0, "holds")) == 22)
    listening.cancel()


async def test_an_intent_that_is_being_committed_comes_before_the_hold(engines: list[SqlStore], database: str) -> None:
    """The hold waits for it, so nobody is told that it holds while a call may still begin."""
    one, two, _ = engines
    await two.start(new_run("r1"))
    with psycopg.connect(database) as other:  # an engine between its question and its COMMIT
        other.execute("SELECT pg_advisory_xact_lock_shared(hashtext('holds'), hashtext(current_schema()))")
        hold = asyncio.create_task(one.site(ConnectionHeld(at=1, name="crm", by="person:ada")))
        with psycopg.connect(database, autocommit=True) as looking:
            asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            await until(lambda: looking.execute(asked).fetchone() == (1,))
        assert not two.site_holds()
        assert not hold.done()
    await hold
    assert two.site_holds() == {"connection:crm": "person:ada"}


async def test_whoever_drives_a_run_is_told_to_look_at_it(engines: list[SqlStore]) -> None:
    one, two, _ = engines
    heard: list[tuple[int, str]] = []
    listening = asyncio.create_task(two.listen(lambda fence, what: heard.append((fence, what))))
    await until(lambda: bool(heard))
    await one.start(new_run("r1"))
    await one.tell("r1")
    await two.tell("r1")
    await until(lambda: (one.fence(), "r1") in heard)
    assert len(heard) == 2
    listening.cancel()


async def test_places_of_a_bound_go_from_one_engine_to_another(engines: list[SqlStore]) -> None:
    one, two, three = engines
    heard: list[tuple[int, str]] = []
    listening = asyncio.create_task(three.listen(lambda fence, what: heard.append((fence, what))))
    await until(lambda: bool(heard))
    assert await one.divide({"crm": Wish(whole=3, wants=3)}) == {"crm": Grant(own=3, spare=0, has=3)}
    assert await two.divide({"crm": Wish(whole=3, wants=1)}) == {"crm": Grant(own=0, spare=0, has=0)}
    await until(lambda: (one.fence(), "places") in heard)
    given = {"crm": Grant(own=2, spare=0, has=2, owes=True)}
    assert await one.divide({"crm": Wish(whole=3, wants=3, used=2)}) == given
    await until(lambda: (two.fence(), "places") in heard)
    assert await two.divide({"crm": Wish(whole=3, wants=1)}) == {"crm": Grant(own=1, spare=0, has=1, owes=True)}
    wishes = [store.divide({"all": Wish(whole=50, wants=number)}) for number in range(40) for store in engines]
    await asyncio.gather(*wishes)
    asked = "SELECT sum(open) FROM places WHERE connection = 'all'"
    assert one.ask(lambda found: int(found.exec_driver_sql(asked).scalar_one())) <= 50
    listening.cancel()


async def test_what_an_engine_had_that_is_gone_is_free(
    engines: list[SqlStore], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a rate once the calls it may have made do not count any more."""
    one, two, three = engines
    fast, slow = Wish(whole=3, wants=3, lasts=1), Wish(whole=3, wants=3, lasts=10**9)
    await one.divide({"crm": Wish(whole=3, wants=3), "crm rate": fast, "shop rate": slow})
    fence = one.fence()
    monkeypatch.setattr("runner.store.shared.BEAT", 10)
    await two.write(lambda connection: None)

    def is_buried() -> bool:
        with psycopg.connect(database, autocommit=True) as connection:  # again and again: it says that it is there
            connection.execute("UPDATE engines SET lease_until = 0 WHERE fence = %s", (fence,))
            return connection.execute("SELECT 1 FROM engines WHERE fence = %s", (fence,)).fetchone() is None

    await until(is_buried)
    wishes = {"crm": Wish(whole=3, wants=3), "crm rate": fast, "shop rate": slow}
    got = await three.divide(wishes)
    assert [got[name].has for name in wishes] == [3, 3, 0]


async def test_facts_of_no_run_stand_in_one_chain(engines: list[SqlStore]) -> None:
    facts = [store.site(ConnectionHeld(at=1, name=f"c{number}", by="ada")) for number in range(20) for store in engines]
    await asyncio.gather(*facts)
    assert [row.seq for row in engines[0].log("_site")] == list(range(1, 61))
    assert not engines[1].verify()


async def test_an_engine_whose_lease_is_over_is_refused_and_comes_back_as_another(
    engines: list[SqlStore], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, _ = engines
    await one.start(new_run("r1"))
    await one.start(new_run("r2"))
    stale, fence = decision(one, "r1"), one.fence()
    taken: list[tuple[str, ...]] = []
    for store in engines[1:]:
        store.watch_left(lambda left: taken.append(left.runs))
    forget(database, one)
    await until_buried(two, fence, monkeypatch)
    assert taken == [("r1", "r2")] or sorted(taken[0]) == ["r1", "r2"]
    heir = next(store for store in engines[1:] if store.fence_of("r1") == store.fence())
    with pytest.raises(RunTaken, match=f"this engine's turn is over .fence {fence}, now"):
        await one.append(stale)
    assert one.fence() > max(fence, heir.fence())
    with pytest.raises(RunTaken):
        await one.append(replace(stale, fence=one.fence()))
    await one.report("r1", StopRequested(at=3, by="person:ada", compensate=False))
    await heir.append(decision(heir, "r1"))
    assert [row.type for row in heir.log("r1")] == ["RunStarted", "StopRequested", "RunPaused"]
    assert not heir.verify()


async def test_a_transaction_that_was_open_when_its_engine_was_held_up_is_refused_too(
    engines: list[SqlStore], database: str
) -> None:
    """Between its BEGIN and its COMMIT: nobody takes it for dead while it has its row, and the row is there at the end."""
    one, _, _ = engines
    await one.start(new_run("r1"))
    fence, buried = one.fence(), []

    def look(connection: object) -> None:
        forget_again = psycopg.connect(database, autocommit=True)
        with forget_again:
            found = forget_again.execute(
                "SELECT count(*) FROM engines WHERE fence = %s AND fence IN "
                "(SELECT fence FROM engines FOR UPDATE SKIP LOCKED)", (fence,),
            ).fetchone()  # fmt: skip
        buried.append(found)

    await one._put(BesideWork(do=look))
    assert buried == [(0,)]
    assert one.fence() == fence


BROKEN_OFF = """
import asyncio, os, pathlib, signal, sys
from tests.store.samples import new_run
from tests.store.test_several import opened
store = opened(pathlib.Path(sys.argv[1]), sys.argv[2])
asyncio.run(store.start(new_run("r1")))
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_nobody_waits_for_an_engine_whose_process_is_gone(tmp_path: Path, database: str) -> None:
    """Its lease is not over; of one on another machine nobody can say that."""
    killed = subprocess.run([sys.executable, "-c", BROKEN_OFF, str(tmp_path / "one"), database], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE engines SET name = replace(name, ' ', ' another-boot-')")
        two = opened(tmp_path / "two", database)
        assert two.fence_of("r1") not in (0, two.fence())
        connection.execute("UPDATE engines SET name = replace(name, ' another-boot-', ' ')")
    three = opened(tmp_path / "three", database)
    assert three.fence_of("r1") == three.fence()
    for store in (two, three):
        store.close()


async def test_an_engine_has_time_to_take_over_very_many_runs(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ended its connection where reading what was left took longer than half a lease: it never began."""
    opened(tmp_path / "one", database).close()

    def slow(connection: object, site: object) -> list[tuple[str, int, str]]:
        time.sleep(0.5)
        return []

    monkeypatch.setattr("runner.store.postgres.LEASE", 200)
    monkeypatch.setattr("runner.store.opening._untied", slow)
    opened(tmp_path / "one", database).close()


async def test_who_leaves_gives_back_what_it_had(tmp_path: Path, database: str) -> None:
    one, two = opened(tmp_path / "one", database), opened(tmp_path / "two", database)
    await one.start(new_run("r1"))
    assert await one.take_on("mails")
    assert not await two.take_on("mails")
    one.close()
    assert two.fence_of("r1") == 0
    assert list(two.queued("signup", 0, 9)) == ["r1"]
    assert await two.take_on("mails")
    two.close()


async def test_a_copy_is_made_while_nobody_writes(tmp_path: Path, database: str) -> None:
    one = opened(tmp_path / "one", database)
    with pytest.raises(EngineBusy, match="an engine writes to"):
        copy_database(tmp_path / "two", source=database, target="", clock=TurnedClock())
    one.close()


async def test_large_values_are_there_for_every_engine_and_go_with_a_copy(tmp_path: Path, database: str) -> None:
    one, two = opened(tmp_path / "one", database), opened(tmp_path / "two", database)
    await one.start(new_run("r1"))
    await one.report("r1", replace(StopRequested(at=3, by="person:ada", compensate=False), reason="x" * 100_000))
    assert not [path for path in one.artifacts.root.rglob("*") if path.is_file()]
    row = two.log("r1")[1]
    assert isinstance(row.event, StopRequested)
    assert len(row.event.reason) == 100_000
    assert not two.verify()
    one.close()
    two.close()
    copy_database(tmp_path / "one", source=database, target="sqlite:///" + str(tmp_path / "c.db"), clock=TurnedClock())
    copy = open_store(tmp_path / "one", clock=TurnedClock(), writable=False, url="sqlite:///" + str(tmp_path / "c.db"))
    assert copy.log("r1")[1].event == row.event
    assert not copy.verify()
    copy.close()
