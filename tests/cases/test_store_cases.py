"""Cases K1, R9 and R10 as far as the store can hold them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from runner.core.events import CallApplied, CallIntended, CallSettled, RunPaused, RunStarted
from runner.errors import EngineBusy, SequenceConflict, StoreUnwritable
from runner.store.artifacts import LIMIT, fit
from runner.store.facts import AlreadyReported
from runner.store.sql import SqlStore, open_store
from tests.store.samples import TurnedClock, act, append, applied, begun, intended, new_run

THREADS = 6
ROUNDS = 40

READS = """
import sys, time
from pathlib import Path
from runner.clock import MachineClock
from runner.errors import EngineBusy
from runner.store.facts import RunFilter
from runner.store.sql import open_store

folder = Path(sys.argv[1])
try:
    open_store(folder, clock=MachineClock(), writable=True)
except EngineBusy:
    print("busy", flush=True)
reader = open_store(folder, clock=MachineClock(), writable=False)
until = time.monotonic() + float(sys.argv[2])
reads = 0
while time.monotonic() < until:
    with reader._read() as connection:
        before = connection.exec_driver_sql("SELECT sum(seq) FROM runs").scalar()
        time.sleep(0.02)
        assert connection.exec_driver_sql("SELECT sum(seq) FROM runs").scalar() == before
    assert len(reader.runs(RunFilter(limit=10))) <= 10
    reads += 1
print("reads", reads)
"""


def read_then_write(store: SqlStore, errors: list[BaseException], wins: list[int], lost: list[int]) -> None:
    """One thread: reads where the shared run stands, waits a little, writes only if it still stands there."""

    async def turns() -> None:
        for _ in range(ROUNDS):
            while True:
                end = store.log_end("shared")
                await asyncio.sleep(0.001)
                try:
                    wins.append((await store.append(append(store, "shared", end, intended(end.seq)))).seq)
                    break
                except SequenceConflict:
                    lost.append(end.seq)

    try:
        asyncio.run(turns())
    except BaseException as error:  # noqa: BLE001
        errors.append(error)


@pytest.fixture
def engine(tmp_path: Path) -> SqlStore:
    return open_store(tmp_path, clock=TurnedClock(), writable=True, floor=0)


def test_k1_six_threads_and_two_processes_lose_no_update(engine: SqlStore, tmp_path: Path) -> None:
    act(begun(engine, "shared"))
    other = subprocess.Popen(
        [sys.executable, "-c", READS, str(tmp_path), "1.5"], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    errors: list[BaseException] = []
    wins: list[int] = []
    lost: list[int] = []
    threads = [threading.Thread(target=read_then_write, args=(engine, errors, wins, lost)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=50)
    told, _ = other.communicate(timeout=30)
    assert not errors
    assert len(lost) > THREADS, "the threads never met, so this shows nothing"
    assert sorted(wins) == list(range(2, THREADS * ROUNDS + 2)), "an update was lost or written twice"
    assert engine.run("shared").seq == THREADS * ROUNDS + 1
    assert engine.verify() == []
    engine.close()
    assert other.returncode == 0
    busy, reads = told.splitlines()
    assert busy == "busy"
    assert int(reads.split()[1]) > 5


def test_k1_one_key_and_one_decision_have_one_winner(engine: SqlStore) -> None:
    act(begun(engine, "r1", intended()))
    told: list[object] = []

    def both() -> None:
        async def turn() -> list[object]:
            started = engine.start(new_run(f"r-{threading.get_ident()}", key="one"))
            return list(await asyncio.gather(started, engine.report("r1", applied()), return_exceptions=True))

        told.extend(asyncio.run(turn()))

    threads = [threading.Thread(target=both) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert [isinstance(one, AlreadyReported) for one in told].count(True) == THREADS - 1
    assert len(engine.open_runs()) == 2
    engine.close()


def test_k1_a_long_reader_never_stops_the_writer(engine: SqlStore) -> None:
    act(begun(engine, "r1", intended()))
    with engine._read() as connection:
        before = connection.exec_driver_sql("SELECT count(*) FROM log").scalar()
        at = time.monotonic()
        for i in range(50):
            act(engine.report("r1", RunPaused(at=i, by="ada")))
        assert time.monotonic() - at < 4
        assert connection.exec_driver_sql("SELECT count(*) FROM log").scalar() == before
    assert engine.run("r1").seq == 52
    engine.close()


def test_k1_a_second_writing_process_is_told_who_writes(engine: SqlStore, tmp_path: Path) -> None:
    with pytest.raises(EngineBusy, match="is the engine of"):
        open_store(tmp_path, clock=TurnedClock(), writable=True)
    engine.close()


def test_r9_no_new_run_without_room(tmp_path: Path) -> None:
    store = open_store(tmp_path, clock=TurnedClock(), writable=True, floor=0)
    act(begun(store, "r1", intended()))
    left = store.room_left()
    assert left > 0
    store.close()
    store = open_store(tmp_path, clock=TurnedClock(), writable=True, floor=left * 1_000)
    with pytest.raises(StoreUnwritable) as told:
        act(store.start(new_run("r2")))
    assert str(told.value).startswith("no new run is started: only ")
    assert "are kept for the runs under way; free some space, or remove ended runs" in str(told.value)
    assert store.counts() == {"running": 1}
    assert act(store.report("r1", applied())).seq == 3, "a run under way goes on"
    store.close()


def test_r10_a_write_s_large_answer_is_cut_and_its_ids_survive(engine: SqlStore) -> None:
    act(begun(engine, "r1", intended()))
    rows = [{"n": i, "text": "x" * 1_000} for i in range(4_000)]
    large = applied(output={"id": "c-1", "total": 12, "text": "y" * 200_000, "rows": rows}, external_id="c-1")
    act(engine.report("r1", large))
    event = engine.log("r1")[-1].event
    assert isinstance(event, CallApplied)
    assert event == fit(large), "the state is folded from what is stored"
    assert fit(event) is event
    assert (event.output["id"], event.output["total"], event.external_id) == ("c-1", 12, "c-1")
    assert event.output["text"].endswith("… (cut, it had 200,000 letters)")
    assert 0 < len(event.output["rows"]) < 4_000
    assert event.note.startswith("output cut to fit the log: it was 4,")
    assert engine.verify() == []
    assert not (Path(engine.name).parent / "artifacts").exists()
    engine.close()


@pytest.mark.parametrize(
    "output", [{"a": ["x" * 300] * 5_000}, {str(i): "x" * 190 for i in range(5_000)}, {"a": "x" * 10**6}]
)
def test_r10_whatever_is_large_fits_after_the_cut(output: dict[str, object]) -> None:
    for event in (
        applied(output=output),
        CallSettled(at=1, step="s", purpose="do", result="applied", by="lookup", output=output),
    ):
        smaller = fit(event)
        assert smaller is not event
        assert len(str(smaller)) < LIMIT * 2
        assert fit(smaller) is smaller


def test_r10_a_read_s_large_answer_is_an_artifact(engine: SqlStore, tmp_path: Path) -> None:
    act(begun(engine, "r1", intended(purpose="read")))
    large = applied(purpose="read", output={"rows": ["愛" * 1_000] * 300})
    act(engine.report("r1", large))
    assert engine.log("r1")[-1].event == large
    [stored] = [path for path in (tmp_path / ".amends" / "artifacts").rglob("*") if path.is_file()]
    assert len(stored.name) == 64
    assert stored.parent.name == stored.name[:2]
    assert stored.stat().st_size > 900_000
    assert Path(engine.name).stat().st_size < 500_000
    stored.write_bytes(stored.read_bytes()[:-9])
    assert engine.log("r1")[-1].event is None
    [fault] = engine.verify()
    assert fault.what.startswith("the content of entry 3 cannot be read: the stored file ")
    engine.close()


def test_r10_large_inputs_requests_and_starts_are_artifacts_too(engine: SqlStore) -> None:
    act(engine.start(new_run("r1", inputs={"text": "x" * 100_000})))
    request = intended(request={"body": "y" * 100_000})
    act(engine.append(append(engine, "r1", engine.log_end("r1"), request)))
    first, second = (row.event for row in engine.log("r1"))
    assert isinstance(first, RunStarted)
    assert first.inputs == {"text": "x" * 100_000}
    assert second == request
    assert engine.verify() == []
    engine.close()


def test_r10_an_outcome_is_kept_when_its_artifact_cannot_be(engine: SqlStore, tmp_path: Path) -> None:
    act(begun(engine, "r1", intended(purpose="read")))
    (tmp_path / ".amends" / "artifacts").write_text("in the way")
    act(engine.report("r1", applied(purpose="read", output={"rows": "x" * 100_000}, external_id="c-9")))
    event = engine.log("r1")[-1].event
    assert isinstance(event, CallApplied)
    assert (event.output, event.external_id) == ({}, "c-9")
    assert event.note == "output lost: 100 KB could not be written (File exists)"
    request = intended(2, request={"body": "y" * 100_000})
    with pytest.raises(StoreUnwritable, match=r"a value of 100 KB cannot be kept under .*artifacts: File exists"):
        act(engine.append(append(engine, "r1", engine.log_end("r1"), request)))
    assert not any(isinstance(row.event, CallIntended) and row.event.attempt == 2 for row in engine.log("r1"))
    engine.close()
