"""The hash chain finds whatever was done to a log behind our back, and names the entry."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from runner.core.events import Checkpoint, PersonalDataErased, RunPaused
from runner.store.log import StoredRow, chained, check_pack, first_hash
from runner.store.sql import SqlStore, open_store
from tests.store.mutations import MUTATED, fill_whole
from tests.store.samples import TurnedClock, append, applied, begun, intended, new_run

MUTATIONS = 260


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    fill_whole(folder)
    return folder


def test_every_mutation_is_found_and_named(whole: Path, tmp_path: Path) -> None:
    missed: list[str] = []
    for number in range(MUTATIONS):
        mutate = MUTATED[number % len(MUTATED)]
        folder = tmp_path / str(number)
        (folder / ".amends").mkdir(parents=True)
        path = folder / ".amends" / "amends.db"
        shutil.copy(whole / ".amends" / "amends.db", path)
        db = sqlite3.connect(path, isolation_level=None)
        run, seq = mutate(db, random.Random(number))
        db.close()
        store = open_store(folder, clock=TurnedClock(), writable=False)
        found = [(fault.run, fault.seq) for fault in store.verify()]
        store.close()
        if (run, seq) not in found:
            missed.append(f"{mutate.__name__} at {run} {seq}: {found}")
        shutil.rmtree(folder)
    assert not missed, "\n".join(missed)


def test_nothing_is_found_where_nothing_was_done(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    store = open_store(tmp_path / "copy", clock=TurnedClock(), writable=False)
    assert store.verify() == []
    assert store.verify("r1") == []
    assert store.verify("_site") == []
    store.close()


def test_one_run_is_checked_alone(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    db = sqlite3.connect(tmp_path / "copy" / ".amends" / "amends.db", isolation_level=None)
    db.execute("UPDATE log SET step = 'x' WHERE run_id = 'r1' AND seq = 4")
    db.close()
    store = open_store(tmp_path / "copy", clock=TurnedClock(), writable=False)
    [fault] = store.verify("r1")
    assert (fault.run, fault.seq) == ("r1", 4)
    assert fault.what.startswith("entry 4 was changed")
    assert store.verify("r2") == []
    store.close()


def test_no_two_entries_share_a_hash_however_their_parts_are_cut() -> None:
    parts = [
        ("ab", "c", ""),
        ("a", "bc", ""),
        ("a", "b", "c"),
        ("", "abc", ""),
        ("a\n1:b", "c", ""),
        ("a", "b\n1:c", ""),
    ]
    seen = {chained("0" * 64, run, 1, at=1, kind="T", step=step, external_id=id, digest="") for run, step, id in parts}
    assert len(seen) == len(parts)


async def test_an_evidence_pack_can_be_checked_without_us(store: SqlStore) -> None:
    await store.keep_bundle("b" * 64, {"flow:signup": "id: signup"})
    await begun(store, "r1", intended(input={"text": "x" * 70_000}), applied())
    await store.erase("r1", PersonalDataErased(at=9, by="ada", seqs=(1,)))
    pack = json.loads(json.dumps(store.export("r1")))
    assert check_pack(pack) is None
    assert pack["bundle"] == {"flow:signup": "id: signup"}
    assert [entry["data"] is None for entry in pack["log"]] == [True, False, False, False]
    [content] = pack["artifacts"].values()
    assert "x" * 70_000 in content
    pack["log"][2]["data"] = pack["log"][2]["data"].replace("c-1", "c-2")
    fault = check_pack(pack)
    assert fault is not None
    assert (fault.seq, fault.what) == (3, "the content of entry 3 was changed (CallApplied)")


def test_an_evidence_pack_is_plain_rows(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    store = open_store(tmp_path / "copy", clock=TurnedClock(), writable=False)
    pack = store.export("r1")
    store.close()
    assert [StoredRow(**entry)._asdict() for entry in pack["log"]] == pack["log"]
    assert pack["first_hash"] == first_hash("r1")


async def test_checkpoints_come_with_the_commits_and_with_time(store: SqlStore, clock: TurnedClock) -> None:
    await store.start(new_run("r1"))
    assert not [row for row in store.log("_site") if row.type == "Checkpoint"]
    clock.turn(600_000)
    await store.report("r1", RunPaused(at=1, by="ada"))
    [checkpoint] = [row.event for row in store.log("_site")]
    assert isinstance(checkpoint, Checkpoint)
    assert checkpoint.data["heads"] == {"r1": [1, store.log("r1")[0].hash]}
    for _ in range(1_000):
        await store.report("r1", RunPaused(at=1, by="ada"))
    assert len(store.log("_site")) == 1
    await store.report("r1", RunPaused(at=1, by="ada"))
    assert len(store.log("_site")) == 2
    assert not store.verify()


async def test_what_no_checkpoint_has_yet_is_in_the_next_one_after_a_crash(tmp_path: Path) -> None:
    clock = TurnedClock()
    store = open_store(tmp_path, clock=clock, writable=True, floor=0)
    await begun(store, "r1", intended())
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".amends").mkdir()
    store.backup(copy / ".amends" / "amends.db")
    store.close()
    again = open_store(copy, clock=clock, writable=True, floor=0)
    await begun(again, "r2")
    again.close()
    reader = open_store(copy, clock=clock, writable=False)
    checkpoints = [row.event for row in reader.log("_site") if isinstance(row.event, Checkpoint)]
    assert sorted(checkpoints[-1].data["heads"]) == ["r1", "r2"]
    assert reader.verify() == []
    reader.close()


async def test_an_append_after_an_outcome_report(store: SqlStore) -> None:
    end = await begun(store, "r1", intended())
    end = await store.report("r1", applied())
    await store.append(append(store, "r1", end, intended(2)))
    assert not store.verify()
