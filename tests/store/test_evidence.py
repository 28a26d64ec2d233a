"""An evidence pack proves itself without Amends, and whatever is changed in it is named."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runner.contract import digest
from runner.core.events import PersonalDataErased, RunPaused
from runner.store import proof
from runner.store.evidence import pack
from runner.store.sql import open_store
from tests.store.samples import TurnedClock, act, append, applied, begun, effect, handoff, intended, new_run

TEXTS = {"flow:signup": "flow: signup\n", "project": "{}"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack of a run with a large value, an effect, a person's word and a checkpoint, among other runs."""
    folder = tmp_path_factory.mktemp("packed")
    store = open_store(folder, clock=TurnedClock(), writable=True, floor=0)

    async def fill() -> None:
        await store.keep_bundle(digest(TEXTS), TEXTS)
        await begun(store, "r0", intended(), applied())
        from_here = await begun(store, "r1", intended(request={"text": "x" * 70_000}), applied(), bundle=digest(TEXTS))
        paused = RunPaused(at=9, by="ada", reason="愛")
        await store.append(append(store, "r1", from_here, paused, effects=(effect(1),), handoffs=(handoff("h1"),)))
        await store.start(new_run("r2"))

    act(fill())
    store.close()
    store = open_store(folder, clock=TurnedClock(), writable=True, floor=0)
    act(store.report("r2", RunPaused(at=10, by="ada")))
    store.close()
    reader = open_store(folder, clock=TurnedClock(), writable=False)
    assert not reader.verify()
    found = folder / "run.zip"
    found.write_bytes(pack(reader, "r1"))
    reader.close()
    return found


def verified(*words: str, folder: Path) -> tuple[int, str]:
    """What `verify.py` says, run by a bare Python that finds no package of ours."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", *words], cwd=folder, capture_output=True, text=True, timeout=30, check=False
    )
    assert not ran.stderr, ran.stderr
    return ran.returncode, ran.stdout


def unpacked(archive: Path, folder: Path) -> Path:
    with zipfile.ZipFile(archive) as found:
        found.extractall(folder)
    return folder


def test_the_pack_says_what_it_proves(archive: Path, tmp_path: Path) -> None:
    place = unpacked(archive, tmp_path / "pack")
    for words, folder in ((("verify.py",), place), ((str(place / "verify.py"), str(archive)), tmp_path)):
        code, said = verified(*words, folder=folder)
        assert code == 0, said
        assert "Run r1 of signup (running): 4 entries, none changed, lost or added." in said
        assert "Entries 1 to 4 are tied into the chain of database " in said
        assert said.endswith("The pack holds.\n")
    files, _ = proof.read(archive)
    assert json.loads(files["people.jsonl"])["said"] == {"by": "ada", "reason": "愛"}
    assert [json.loads(line)["start_no"] for line in files["effects.jsonl"].splitlines()] == [1]
    assert [json.loads(line)["handoff"] for line in files["handoffs.jsonl"].splitlines()] == ["h1"]
    assert json.loads(files["bundles.json"]) == {digest(TEXTS): TEXTS}
    assert len([name for name in files if name.startswith("artifacts/")]) == 1
    assert b"r2" not in files["log.jsonl"]


@pytest.mark.parametrize(
    "name",
    [
        "README.txt", "verify.py", "run.json", "log.jsonl", "people.jsonl", "effects.jsonl", "handoffs.jsonl",
        "site.jsonl", "bundles.json", "SHA256SUMS", "artifacts",
    ],
)  # fmt: skip
def test_one_changed_byte_of_a_file_is_named(archive: Path, name: str, tmp_path: Path) -> None:
    files, _ = proof.read(archive)
    name = next(each for each in files if each.startswith(name))
    rng = random.Random(name)
    for _ in range(12):
        at = rng.randrange(len(files[name]))
        wrong = bytearray(files[name])
        wrong[at] ^= rng.randrange(1, 256)
        found = proof.faults({**files, name: bytes(wrong)})
        assert found, (name, at)
        assert any(name in each for each in found) or name == proof.SUMS, found
    place = unpacked(archive, tmp_path / "pack")
    if name != "verify.py":
        path = place / name
        path.write_bytes(path.read_bytes()[:-2] + b"~\n")
        code, said = verified("verify.py", folder=place)
        assert code == 1
        assert name in said


def test_one_changed_byte_of_the_archive_is_named(archive: Path, tmp_path: Path) -> None:
    whole, rng = archive.read_bytes(), random.Random(7)
    headers = list(range(len(whole) - 1_400, len(whole)))
    wrong = tmp_path / "wrong.zip"
    for at in [*rng.sample(range(len(whole)), 150), *rng.sample(headers, 150)]:
        wrong.write_bytes(whole[:at] + bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at + 1 :])
        files, found = proof.read(wrong)
        assert found or proof.faults(files), at
    for cut in (whole[:-1], whole + b"x", whole[: len(whole) // 2], b"", b"x" + whole):
        wrong.write_bytes(cut)
        assert proof.main([str(wrong)]) == 1


def forged(files: proof.Files, change: dict[str, bytes]) -> list[str]:
    """What is found when the sums are made anew by whoever changed the files."""
    wrong = {**files, **change}
    return proof.faults({**wrong, proof.SUMS: proof.sums(wrong)})


def test_who_makes_the_sums_anew_is_found_by_the_chain(archive: Path) -> None:
    files, _ = proof.read(archive)
    rows = proof.read_lines(files["log.jsonl"])
    assert forged(files, {}) == []
    changed = [{**row, "data": row["data"].replace("c-1", "c-2")} if row["seq"] == 3 else row for row in rows]
    assert forged(files, {"log.jsonl": proof.lines_of(changed)}) == [
        "log.jsonl, line 3 (entry 3): its content is not what its digest was made of"
    ]
    [late] = forged(
        files, {"log.jsonl": proof.lines_of([{**row, "at": row["at"] + (row["seq"] == 2)} for row in rows])}
    )
    assert late == "log.jsonl, line 2 (entry 2): it was changed, or does not follow the entry before it"
    assert forged(files, {"log.jsonl": proof.lines_of([rows[0], *rows[2:]])})[0].endswith("entry 2 is missing or moved")
    assert "run.json: the run ends at entry 4" in forged(files, {"log.jsonl": proof.lines_of(rows[:-1])})[0]
    assert forged(files, {"people.jsonl": b""}) == ["people.jsonl: it says something else than the log"]
    pinned = digest(TEXTS)
    texts = json.dumps({pinned: {**TEXTS, "flow:signup": "flow: other"}}).encode()
    assert forged(files, {"bundles.json": texts}) == [f"bundles.json: these are not the texts of the version {pinned}"]
    artifact = next(name for name in files if name.startswith("artifacts/"))
    assert forged(files, {artifact: b"{}"}) == [f"{artifact}: it is not what the log names it by"]


def test_a_log_that_was_made_anew_does_not_fit_the_checkpoint(archive: Path) -> None:
    files, _ = proof.read(archive)
    rows, told = proof.read_lines(files["log.jsonl"]), json.loads(files["run.json"])
    previous = proof.sha256(b"r1")
    for row in rows:
        row["data"], row["at"] = row["data"].replace("ada", "eve"), row["at"]
        row["digest"] = proof.sha256((row["salt"] + row["data"]).encode())
        previous = row["hash"] = proof.chained(previous, "r1", row)
    told["run"]["head"] = previous
    change = {
        "log.jsonl": proof.lines_of(rows), "run.json": json.dumps(told).encode(),
        "people.jsonl": proof.lines_of(proof.decisions(rows)),
    }  # fmt: skip
    assert any("the checkpoint remembers another entry 4" in each for each in forged(files, change))


def test_a_run_that_no_checkpoint_has_yet_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path, clock=TurnedClock(), writable=True, floor=0)
    act(begun(store, "r1", intended(input={"name": "Ada"}), applied()))
    act(store.erase("r1", PersonalDataErased(at=9, by="ada", seqs=(1, 2))))
    files, _ = proof.read(_written(tmp_path / "run.zip", pack(store, "r1")))
    store.close()
    said = proof.proved(files)
    assert proof.faults(files) == []
    assert "The content of 2 was erased; their digests remain." in said[0]
    assert said[2] == "No checkpoint ties this run into the chain of its database yet."


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
