"""Power cuts, in short; the long form is `python -m tests.trust power`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.trust import journal, power, shim
from tests.trust.journal import CREATE, CUT, LOST, RENAME, SYNC, WRITE, Disk, Entry

ROOT = "/r"


@pytest.fixture(autouse=True)
def _needs_a_compiler() -> None:
    if why := shim.why_not():
        pytest.skip(why)


@pytest.mark.crash
@pytest.mark.parametrize("failing", [False, True])
def test_no_acknowledged_commit_is_lost(tmp_path: Path, failing: bool) -> None:
    recorded = power.record(tmp_path / "recorded", appends=8, failing=failing)
    found = list(power.cuts(recorded, 30, random.Random(5), tmp_path))
    assert [cut for cut in found if cut.lost or cut.wrong] == []
    assert sum(cut.kept for cut in found) > 1_000
    if failing:
        assert any(entry.kind == journal.LOST for entry in recorded.entries)


@pytest.mark.crash
@pytest.mark.parametrize("name", power.PLANTED)
def test_who_does_not_sync_loses(tmp_path: Path, name: str) -> None:
    assert power.caught(tmp_path, name, 20, 4)


def _left(how: int, *entries: Entry, folder: Path) -> dict[str, bytes]:
    disk = Disk(ROOT)
    for entry in entries:
        disk.play(entry)
    disk.leave(folder, how, random.Random(1))
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_a_cut_leaves(tmp_path: Path) -> None:
    made = Entry(CREATE, 1, 0, f"{ROOT}/a", b"")
    first, then = Entry(WRITE, 1, 0, "", b"old"), Entry(WRITE, 1, 0, "", b"new")
    file, folder = Entry(SYNC, 1, 0, f"{ROOT}/a", b""), Entry(SYNC, 9, 0, ROOT, b"")
    moved = Entry(RENAME, 1, 0, f"{ROOT}/a", f"{ROOT}/b".encode())
    cases: list[tuple[int, list[Entry], dict[str, bytes]]] = [
        (journal.NOTHING, [made, first, file], {}),
        (journal.NOTHING, [made, folder, first], {"a": b""}),
        (journal.NOTHING, [made, folder, first, file, then], {"a": b"old"}),
        (journal.ALL, [made, folder, first, file, then], {"a": b"new"}),
        (journal.NOTHING, [made, folder, first, file, moved], {"a": b"old"}),
        (journal.NOTHING, [made, folder, first, file, moved, folder], {"b": b"old"}),
        (journal.ALL, [made, first, moved], {"b": b"old"}),
        (journal.NOTHING, [made, folder, first, file, Entry(CUT, 1, 1, "", b""), file], {"a": b"o"}),
        (journal.NOTHING, [made, folder, first, file, then, Entry(LOST, 1, 0, "", b""), file], {"a": b"old"}),
        (journal.NOTHING, [made, folder, first, file, then, Entry(LOST, 1, 0, "", b""), then, file], {"a": b"new"}),
    ]
    for number, (how, entries, wanted) in enumerate(cases):
        place = tmp_path / str(number)
        place.mkdir()
        assert _left(how, *entries, folder=place) == wanted, number
