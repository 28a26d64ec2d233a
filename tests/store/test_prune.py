"""Ended runs go after their time, in portions; the chain tells pruned from stolen, and the disk has its room back."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from runner.clock import DAY
from runner.core.events import RunPaused, RunsPruned
from runner.errors import NotFound, RunKeyConflict, StoreUnwritable
from runner.people import pruning
from runner.people.pruning import prune
from runner.store import prune as pruned_in
from runner.store.arrivals import Arrival, listed
from runner.store.facts import HandOffChange
from runner.store.log import SITE
from runner.store.prune import REMEMBERED, Keep, due
from runner.store.sql import SqlStore, open_store
from runner.store.tables import log, metadata, quarantine
from tests.store.samples import (
    TurnedClock,
    act,
    append,
    applied,
    begun,
    columns,
    effect,
    handoff,
    intended,
    new_run,
)

KEEP = Keep(other=10 * DAY)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def store(tmp_path: Path, clock: TurnedClock) -> SqlStore:
    return open_store(tmp_path, clock=clock, writable=True, floor=0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BETWEEN", 0.0)


async def ended(
    store: SqlStore, run: str, *, at: int, status: str = "succeeded", text: str = "x", handoffs: tuple[HandOffChange, ...] = (),
    **more: object,
) -> None:  # fmt: skip
    """A run that ended at a time."""
    end = await begun(store, run, intended(input={"text": text}), at=at, **more)  # type: ignore[arg-type]
    told = columns(status, ended_at=at)
    events = (applied(output={"text": text}),)
    await store.append(append(store, run, end, *events, told=told, effects=(effect(1),), handoffs=handoffs))


def pass_of(store: SqlStore, clock: TurnedClock, keep: Keep = KEEP, **words: bool) -> pruning.Pruned:
    return act(prune(store, keep, "person:tom", clock.at, **words))


def rows(store: SqlStore, run: str) -> int:
    """How many rows of any table speak of the run."""
    with store._read() as connection:
        return sum(
            connection.exec_driver_sql(f"SELECT count(*) FROM {table.name} WHERE run_id = ?", (run,)).scalar() or 0
            for table in metadata.sorted_tables
            if "run_id" in table.c and table.name != "receipts"
        )


def names(store: SqlStore) -> list[str]:
    with store._read() as connection:
        return sorted(connection.exec_driver_sql("SELECT run_id FROM runs").scalars())


# --- which ones ------------------------------------------------------------------------------------------------------


async def test_only_what_ended_and_whose_time_is_over_goes(store: SqlStore, clock: TurnedClock) -> None:
    old = clock.at - 11 * DAY
    await ended(store, "old", at=old, handoffs=(handoff("h1", "resolved"),))
    await ended(store, "young", at=clock.at - 9 * DAY)
    await begun(store, "open", intended(), at=old)
    await ended(store, "kept", at=old, flow="longer")
    await ended(store, "short", at=clock.at - 2 * DAY, flow="shorter")
    await ended(store, "unread", at=old, flow="broken")
    keep = Keep(other=10 * DAY, flows={"longer": 20 * DAY, "shorter": DAY}, unread=frozenset({"broken"}))
    assert [run for run, _, _ in due(store, keep, clock.at).ends] == ["old", "short"]
    done = await prune(store, keep, "person:tom", clock.at)
    assert (done.runs, done.entries, done.note) == (2, 6, "")
    assert names(store) == ["kept", "open", "unread", "young"]
    assert rows(store, "old") == 0
    assert store.verify() == []
    with pytest.raises(NotFound, match=r"there is no run old: it ended, and was removed after its time on \d{4}-"):
        store.run("old")
    store.close()


async def test_what_is_tied_stays(store: SqlStore, clock: TurnedClock) -> None:
    old = clock.at - 11 * DAY
    for run in ("holds", "locks", "waits", "aside", "stopped"):
        await ended(store, run, at=old, status="stopped" if run == "stopped" else "closed")
    await begun(store, "cleaner", intended(), key="clean-up/stopped")
    await store.write(lambda c: c.exec_driver_sql("INSERT INTO locks (record, run_id, at) VALUES ('r/1', 'locks', 1)"))
    await store.write(lambda c: c.exec_driver_sql("INSERT INTO waits (record, run_id, at) VALUES ('r/1', 'waits', 1)"))
    await store.write(lambda c: c.exec_driver_sql("INSERT INTO holds VALUES ('r/2', 'holds', 'h1', 1)"))

    async def put_aside(status: str) -> None:
        await store.write(lambda c: c.exec_driver_sql("DELETE FROM quarantine"))
        row = {
            "record": "r/3",
            "run_id": "aside",
            "step": "s",
            "reason": "",
            "content": "{}",
            "at": 1,
            "answered_by": "",
        }
        await store.write(lambda c: c.execute(quarantine.insert().values({**row, "status": status})))

    await put_aside("set_aside")
    assert due(store, KEEP, clock.at).ends == ()
    await put_aside("released")
    assert [run for run, _, _ in due(store, KEEP, clock.at).ends] == ["aside"]
    end = store.log_end("cleaner")
    await store.append(append(store, "cleaner", end, told=columns("compensated", ended_at=old)))
    assert "stopped" not in [run for run, _, _ in due(store, KEEP, clock.at).ends], "the one that cleans up goes first"
    await prune(store, KEEP, "person:tom", clock.at)
    assert names(store) == ["holds", "locks", "waits"]
    store.close()


# --- the chain -------------------------------------------------------------------------------------------------------


def test_pruned_is_told_from_stolen(tmp_path: Path, clock: TurnedClock) -> None:
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    for number in range(4):
        act(ended(store, f"r{number}", at=clock.at - 11 * DAY))
    store.close()
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    act(ended(store, "young", at=clock.at))
    assert pass_of(store, clock).runs == 4
    assert store.verify() == []
    [told] = [row.event for row in store.log(SITE) if isinstance(row.event, RunsPruned)]
    assert (told.by, sorted(told.data["runs"]), told.data["runs"]["r1"][0]) == (
        "person:tom",
        ["r0", "r1", "r2", "r3"],
        3,
    )
    assert store.gaps() == {"erased": 0, "pruned": 4}
    store.close()
    thief = sqlite3.connect(tmp_path / ".amends" / "amends.db")
    with thief:
        for table in ("log", "effects", "runs"):
            thief.execute(f"DELETE FROM {table} WHERE run_id = 'young'")
    thief.close()
    reader = open_store(tmp_path, clock=clock, writable=False)
    assert [fault.run for fault in reader.verify()] == ["young"]
    reader.close()


def test_a_pruned_run_whose_last_hash_does_not_fit_the_checkpoint_is_found(tmp_path: Path, clock: TurnedClock) -> None:
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    act(ended(store, "r1", at=clock.at - 11 * DAY))
    store.close()
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    [doomed] = due(store, KEEP, clock.at).ends
    act(store.prune(pruned_in.Portion(ends=((doomed[0], doomed[1], "f" * 64),)), "eve"))
    act(store.write(lambda c: pruned_in.drop_entries(c, log.c.run_id == "r1")))
    assert [(fault.run, fault.seq) for fault in store.verify()] == [("r1", 3)]
    store.close()


async def test_a_pass_that_broke_off_is_finished_by_the_next(
    store: SqlStore, clock: TurnedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await ended(store, f"r{number}", at=clock.at - 11 * DAY, text="x" * 70_000)
    assert len([path for path in store.artifacts.root.rglob("*") if path.is_file()]) == 3

    def broken(*args: object) -> list[object]:
        raise StoreUnwritable("planted")

    with monkeypatch.context() as broke:
        broke.setattr(pruning, "files_of", broken)
        with pytest.raises(StoreUnwritable):
            await prune(store, KEEP, "person:tom", clock.at)
    assert names(store) == []
    assert rows(store, "r0") == 3, "its entries are still there"
    assert store.verify() == [], "and it counts as pruned already"
    assert (await prune(store, KEEP, "person:tom", clock.at)).runs == 0
    assert rows(store, "r0") == 0
    assert [path for path in store.artifacts.root.rglob("*") if path.is_file()] == []
    store.close()


async def test_a_run_that_is_reported_about_meanwhile_is_not_half_removed(store: SqlStore, clock: TurnedClock) -> None:
    await ended(store, "r1", at=clock.at - 11 * DAY)
    portion = due(store, KEEP, clock.at)
    await store.report("r1", RunPaused(at=1, by="late"))
    assert await store.prune(portion, "person:tom") == 0
    assert rows(store, "r1") == 6
    assert (await prune(store, KEEP, "person:tom", clock.at)).runs == 1
    store.close()


# --- keys and versions -----------------------------------------------------------------------------------------------


async def test_a_late_delivery_of_a_removed_run_starts_nothing_for_a_while(store: SqlStore, clock: TurnedClock) -> None:
    await ended(store, "r1", at=clock.at - 11 * DAY, key="order-7", receipt=("webhook:orders", "d-1"))
    await prune(store, KEEP, "person:tom", clock.at)
    for again in (
        new_run("r2", key="another", receipt=("webhook:orders", "d-1")), new_run("r3", key="order-7", digest="other"),
    ):  # fmt: skip
        with pytest.raises(RunKeyConflict) as told:
            await store.start(again)
        assert "came before and led to run r1, which ended and was removed after its time; nothing was started" in str(
            told.value
        )
    assert names(store) == []
    assert [row.type for row in store.log(SITE)].count("DeliveryConflict") == 2
    await store.start(new_run("r4", key="order-7", mode="draft"))
    clock.turn(REMEMBERED + DAY)
    await prune(store, KEEP, "person:tom", clock.at)
    assert not (await store.start(new_run("r5", key="order-7", receipt=("webhook:orders", "d-1")))).joined
    store.close()


async def test_arrivals_are_known_as_long_as_their_run_and_thirty_days(store: SqlStore, clock: TurnedClock) -> None:
    def arrival(name: str, status: str = "started") -> Arrival:
        return Arrival(flow="signup", source="webhook:x", id=name, digest=name, at=clock.at, status=status)

    await ended(store, "r2", at=clock.at, key="gone")
    await store.arrive([
        (arrival("led"), new_run("r1")), (arrival("gone"), new_run("r3", key="gone")), (arrival("odd", "ignored"), None),
    ])  # fmt: skip
    for days, left in ((29, ["gone", "led", "odd"]), (2, ["gone", "led"]), (30, ["led"])):
        clock.turn(days * DAY)
        await prune(store, KEEP, "person:tom", clock.at)
        assert sorted(row.id for row in store.ask(listed())) == left
    assert names(store) == ["r1"]
    store.close()


async def test_versions_that_no_run_is_on_go_with_their_texts(
    store: SqlStore, clock: TurnedClock, tmp_path: Path
) -> None:
    await store.keep_bundle("a" * 64, {"flow:x": "one", "project": '{"follows":"%s"}' % ("c" * 64)})
    await store.keep_bundle("d" * 64, {"flow:x": "two", "project": "{}"})
    await store.keep_bundle("c" * 64, {"flow:y": "followed", "project": "{}"})
    await ended(store, "r1", at=clock.at - 11 * DAY, bundle="d" * 64)
    await ended(store, "r2", at=clock.at, bundle="a" * 64)
    await prune(store, KEEP, "person:tom", clock.at)
    assert store.bundle("d" * 64), "a run that begins on it may be on its way"
    store.close()
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    await prune(store, KEEP, "person:tom", clock.at)
    with pytest.raises(NotFound):
        store.bundle("d" * 64)
    assert store.bundle("a" * 64)["flow:x"] == "one"
    assert store.bundle("c" * 64)["flow:y"] == "followed"
    with store._read() as connection:
        left = set(connection.exec_driver_sql("SELECT content FROM texts").scalars())
    assert "two" not in left
    store.close()


# --- the disk --------------------------------------------------------------------------------------------------------


def fill(store: SqlStore, clock: TurnedClock, name: str = "r") -> None:
    async def go() -> None:
        at, text = clock.at - 11 * DAY, "x" * 30_000
        await asyncio.gather(*(ended(store, f"{name}{n:03}", at=at, text=text) for n in range(40)))

    act(go())


def size(store: SqlStore) -> int:
    return int(store.about()["bytes"])


def test_the_file_shrinks(store: SqlStore, clock: TurnedClock) -> None:
    fill(store, clock)
    act(ended(store, "young", at=clock.at))
    before = size(store)
    assert before > 2_000_000
    assert pass_of(store, clock).runs == 40
    assert size(store) < 300_000
    assert names(store) == ["young"]
    store.close()


def test_a_file_made_without_giving_back_is_built_anew_on_a_person_s_word(tmp_path: Path, clock: TurnedClock) -> None:
    (tmp_path / ".amends").mkdir()
    made = sqlite3.connect(tmp_path / ".amends" / "amends.db")
    made.execute("PRAGMA auto_vacuum=NONE")
    made.execute("CREATE TABLE x (y)")
    made.execute("DROP TABLE x")
    made.close()
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    fill(store, clock)
    before = size(store)
    assert pass_of(store, clock).runs == 40
    assert size(store) > before / 2, "by itself it only uses its free pages again"
    assert pass_of(store, clock, whole=True).note == ""
    assert size(store) < 300_000
    fill(store, clock, "s")
    assert pass_of(store, clock).runs == 40
    assert size(store) < 300_000, "from here on it gives them back"
    assert store.verify() == []
    store.close()


def test_a_reader_only_delays_it(store: SqlStore, clock: TurnedClock) -> None:
    fill(store, clock)
    before = size(store)
    with store._read() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM log").scalar()
        done = pass_of(store, clock)
        assert done.note == "somebody reads the database, so the disk has it back once that has ended"
    assert pass_of(store, clock).note == ""
    assert size(store) < before / 4
    store.close()


async def test_the_writer_is_never_kept_long(store: SqlStore, clock: TurnedClock) -> None:
    end = await begun(store, "big", at=clock.at - 11 * DAY)
    for first in range(0, 12_000, 500):
        end = await store.append(append(store, "big", end, *(intended(first + n) for n in range(500))))
    await store.append(append(store, "big", end, told=columns("succeeded", ended_at=clock.at - 11 * DAY)))
    await begun(store, "other")
    slowest = 0.0
    pruning_now = asyncio.create_task(prune(store, KEEP, "person:tom", clock.at))
    written = 0
    while not pruning_now.done():
        began = time.monotonic()
        await store.report("other", RunPaused(at=1, by="ada"))
        slowest = max(slowest, time.monotonic() - began)
        written += 1
    assert (await pruning_now).entries == 12_001
    assert written > 5
    assert slowest < 2, slowest
    assert rows(store, "big") == 0
    assert store.verify() == []
    store.close()
