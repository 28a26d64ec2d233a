"""Case R9 whole: the disk fills, the file shrinks again; copies while it is written to; retention by the flow's word."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.cli import run_command
from runner.clock import MachineClock
from runner.core import events as e
from runner.engine import carrier
from runner.errors import RunKeyConflict, StoreUnwritable
from runner.people import pruning
from runner.store.facts import RunFilter
from runner.store.sql import open_store
from tests.cases.ground import Ground, connector, first, flow, opened, until
from tests.cases.processes import amends
from tests.support.says import late

BIG = flow(
    "big",
    """  - id: own
    do: records.create
    with: { collection: things, id: "${{ run.id }}", text: "${{ inputs.name }}" }
    compensate: { none: It only counts. }
  - id: gone
    do: records.delete
    with: { collection: things, id: "${{ run.id }}" }
    unattended: It only counts.
    compensate: { none: It only counts. }
""",
).replace("on_failure: compensate", "on_failure: compensate\nkeep: 1 ms")
TRIP = flow(
    "trip",
    """  - id: reserve
    do: shop.reserve
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
  - id: charge
    do: shop.charge
    with: { note: "${{ inputs.name }}", amount: 1 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
""",
)
FLOOR = 50_000_000


class Disk:
    """A small disk of its own; another program (`ballast`) takes room on it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.ballast = place / "ballast"

    @property
    def free(self) -> int:
        room = os.statvfs(self.place)
        return room.f_bavail * room.f_frsize

    def leave(self, size: int) -> None:
        """Takes all but `size` bytes."""
        with self.ballast.open("r+b" if self.ballast.exists() else "wb") as out:
            taken = self.ballast.stat().st_size
            os.posix_fallocate(out.fileno(), 0, taken + self.free - size)


ON_FILE = pytest.mark.embedded_only("it is about a database in a file: its disk, its copy")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(carrier, "AFTER_FAULT", 0.05)
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=72m", "tmpfs", str(place)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    yield Disk(place)
    subprocess.run(["umount", str(place)], check=True)


def listed(ground: Ground, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What `runs list` says, and what it complains of."""
    capsys.readouterr()
    assert run_command(["--project", str(ground.folder), "runs", "list"]) == 0
    return capsys.readouterr()


@ON_FILE
async def test_r9_the_disk_fills_and_gets_its_room_back(disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(disk.place, BIG, TRIP, text=connector(limit=10_000)) as ground, ground.engine() as engine:
        for number in range(25):
            await engine.run("big", f"k{number}", name="x" * 60_000)
        engine.store.keep_reserve()
        assert (ground.folder / ".amends" / "reserve").stat().st_size == 4_000_000
        assert await asyncio.to_thread(listed, ground, capsys) == (listed(ground, capsys)[0], "")
        ground.shop.script("POST /reserve", late(1_500))
        run = await engine.start("trip", "k1", name="Aya")
        await until(lambda: ground.asked("/reserve") == 1)

        disk.leave(FLOOR // 2)
        await asyncio.sleep(1.1)  # the room is asked for once a second
        with pytest.raises(StoreUnwritable) as told:
            await engine.start("trip", "k2", name="Ben")
        assert re.fullmatch(
            r"no new run is started: only 2\d\.\d MB are free on the disk of .*amends\.db, and 50\.0 MB are kept for the "
            r"runs under way; free some space, or remove ended runs \(`amends db prune`\)",
            str(told.value),
        )
        _, complained = listed(ground, capsys)
        assert complained.startswith("Only 2")
        assert complained.endswith("Free some space, or remove ended runs: amends db prune\n")

        await engine.store.tidy()  # nothing is left to be written over
        disk.leave(0)
        await engine.until(run, "succeeded")
        assert first(engine.events(run), e.CallApplied).output["id"] == "reserve-1"
        assert not (ground.folder / ".amends" / "reserve").exists(), "the last outcomes took what was set aside"

        before = disk.free
        assert before < 4_000_000
        done = await engine.driver.prune("person:me")
        assert (done.runs, done.note) == (25, "")
        assert disk.free > before + 3_000_000, "it works on a full disk, and gives back what the runs took"
        assert Path(engine.store.name).stat().st_size < 500_000
        engine.holds(run)

        with pytest.raises(StoreUnwritable):
            await engine.start("trip", "k2", name="Ben")
        disk.ballast.unlink()
        await engine.run("trip", "k2", name="Ben")
        assert listed(ground, capsys)[1] == "", "it recovers by itself"
        engine.store.keep_reserve()
        assert (ground.folder / ".amends" / "reserve").exists()


@ON_FILE
async def test_r9_a_command_below_the_floor_says_so_and_prunes(disk: Disk) -> None:
    async with opened(disk.place, BIG, text=connector()) as ground:
        async with ground.engine() as engine:
            run = (await engine.run("big", "k1", name="x" * 60_000)).run
        disk.leave(FLOOR // 3)
        code, out, err = await amends(ground.folder, "run", "big", "--input", "name=y")
        assert (code, out) == (2, "")
        assert err.startswith("amends: no new run is started: only 1")
        code, out, _ = await amends(ground.folder, "db", "prune", "--dry-run")
        assert (code, out) == (0, "1 ended run with 6 entries would be removed.\n")
        code, out, _ = await amends(ground.folder, "db", "prune")
        assert code == 0
        assert re.fullmatch(r"1 ended run with 6 entries removed; \d+ KB given back\.\n", out), out
        code, _, err = await amends(ground.folder, "runs", "show", run)
        assert (code, "it ended, and was removed after its time on 20" in err) == (2, True), err


# --- retention -------------------------------------------------------------------------------------------------------


async def test_the_present_flow_says_how_long_and_its_key_is_remembered(tmp_path: Path) -> None:
    kept = BIG.replace("keep: 1 ms", "keep: 1 day")
    async with opened(tmp_path, kept) as ground, ground.engine() as engine:
        run = (await engine.run("big", "k1", name="x")).run
        assert (await engine.driver.prune("person:me")).runs == 0
        ground.write(BIG)
        assert (await engine.driver.prune("person:me")).runs == 1
        with pytest.raises(
            RunKeyConflict, match=f"came before and led to run {run}, which ended and was removed after"
        ):
            await engine.start("big", "k1", name="x")
        (ground.folder / "flows" / "big.yaml").write_text("flow: big\nkeep: [\n", encoding="utf-8")
        assert engine.store.verify() == []


async def test_an_engine_that_runs_removes_them_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "FIRST", 0.05)
    monkeypatch.setattr(pruning, "EVERY", 0.05)
    async with opened(tmp_path, BIG) as ground, ground.engine() as engine:
        run = await engine.start("big", "k1", name="x")
        await until(lambda: [row for row in engine.store.log("_site") if row.type == "RunsPruned"], seconds=10)
        [told] = [row.event for row in engine.store.log("_site") if isinstance(row.event, e.RunsPruned)]
        assert (told.by, list(told.data["runs"])) == ("amends", [run])
        assert engine.store.verify() == []


# --- copies ----------------------------------------------------------------------------------------------------------


@ON_FILE
async def test_a_copy_under_writing_opens_and_its_chains_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path, TRIP, text=connector(limit=10_000)) as ground, ground.engine() as engine:
        writing = [asyncio.create_task(engine.run("trip", f"k{number}", name="x" * 9_000)) for number in range(40)]
        copies: list[Path] = []
        while not all(each.done() for each in writing) or len(copies) < 3:
            to = tmp_path / f"copy{len(copies)}.db"
            words = ["--project", str(ground.folder), "db", "backup", str(to)]
            assert await asyncio.to_thread(run_command, words) == 0
            assert "Files under .amends/artifacts are not in it; copy that folder too." in capsys.readouterr().out
            copies.append(to)
        assert {(await each).status for each in writing} == {"succeeded"}
        seen = set()
        for to in copies:
            reader = open_store(ground.folder, clock=MachineClock(), writable=False, url=f"sqlite:///{to}")
            assert reader.verify() == []
            seen.add(sum(view.seq for view in reader.runs(RunFilter(limit=100))))
            reader.close()
        assert len(seen) > 1, "the copies were made while it was written to"
