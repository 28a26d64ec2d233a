"""Verifies an evidence pack of Amends. Needs Python 3.9 or newer and nothing else: read it before you trust it.

    python verify.py run.zip        the pack as it was handed over
    python verify.py                the pack after it was unpacked: the folder that holds this file

It checks every file against SHA256SUMS, every entry of the log against its digest and the chain of hashes, the flow's
texts and the stored values against the digests in the log, and that the log is tied into the chain of its database. It
names each place where something was changed, and ends with 0 when there is none.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Files = dict[str, bytes]
Rows = list[dict[str, Any]]

BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
    EOFError,
)
"""What a damaged archive raises."""

SUMS = "SHA256SUMS"
NEEDED = ("run.json", "log.jsonl", "site.jsonl", "bundles.json", "people.jsonl", SUMS)
PEOPLE = frozenset(
    {
        "ApprovalDecided", "HandOffAcknowledged", "HandOffResolved", "QuarantineDiscarded", "QuarantineReleased",
        "RunMoved", "RunPaused", "RunResumed", "StopRequested", "PersonalDataErased",
    }
)  # fmt: skip


def sha256(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def text_of(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def lines_of(rows: Rows) -> bytes:
    """Rows as a file: one a line."""
    return "".join(f"{text_of(row)}\n" for row in rows).encode("utf-8", "surrogatepass")


def packed(files: Files) -> bytes:
    """The one archive that holds these files: nothing is compressed, nothing is left to chance."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            archive.writestr(entry, files[name])
    return out.getvalue()


def sums(files: Files) -> bytes:
    """SHA256SUMS, as `sha256sum -c` reads it."""
    return "".join(f"{sha256(files[name])}  {name}\n" for name in sorted(files) if name != SUMS).encode()


def decisions(rows: Rows) -> Rows:
    """What people decided, out of the log."""
    told = [row for row in rows if row["type"] in PEOPLE]
    return [
        {"seq": row["seq"], "at": row["at"], "type": row["type"], "step": row["step"], "said": _payload(row)}
        for row in told
    ]


def _payload(row: dict[str, Any]) -> Any:
    return None if row["data"] is None else json.loads(row["data"])


# --- the chain -------------------------------------------------------------------------------------------------------


def chained(previous: str, run: str, row: dict[str, Any]) -> str:
    """The hash of an entry: of the hash before it, and of everything that the entry is."""
    step, outside = row["step"], row["external_id"]
    text = (
        f"{previous}\n{row['digest']}\n{row['seq']}\n{row['at']}\n{row['type']}\n{len(run)}:{run}\n{len(step)}:{step}\n"
        f"{len(outside)}:{outside}"
    )
    return sha256(text.encode())


def chain_faults(file: str, run: str, rows: Rows, previous: str, first: int = 1) -> Iterator[str]:
    """The first place where a chain does not hold."""
    nameless = {
        seq for row in rows if row["type"] == "PersonalDataErased" for seq in (_payload(row) or {}).get("ids", ())
    }
    for at, row in enumerate(rows):
        where = f"{file}, line {at + 1} (entry {row['seq']})"
        data = row["data"]
        if row["seq"] != first + at:
            yield f"{where}: entry {first + at} is missing or moved"
            return
        if (
            data is not None
            and sha256((row["salt"] or "").encode() + data.encode("utf-8", "surrogatepass")) != row["digest"]
        ):
            yield f"{where}: its content is not what its digest was made of"
            return
        is_nameless = data is None and row["seq"] in nameless and not row["external_id"]
        if chained(previous, run, row) != row["hash"] and not is_nameless:
            yield f"{where}: it was changed, or does not follow the entry before it"
            return
        previous = row["hash"]


def log_faults(told: dict[str, Any], rows: Rows) -> Iterator[str]:
    """Faults of the run's own log."""
    run = told["run"]
    found = list(chain_faults("log.jsonl", run["run_id"], rows, sha256(run["run_id"].encode())))
    yield from found
    if not found and (len(rows), rows[-1]["hash"] if rows else "") != (run["seq"], run["head"]):
        yield f"run.json: the run ends at entry {run['seq']} with another hash than log.jsonl"


def site_faults(told: dict[str, Any], rows: Rows, site: Rows) -> Iterator[str]:
    """Faults of the part of the database's own chain that ties the run in."""
    if not site:
        return
    found = list(chain_faults("site.jsonl", "_site", site, told["site"]["previous"], site[0]["seq"]))
    yield from found
    if not found and (site[-1]["seq"], site[-1]["hash"]) != (told["site"]["seq"], told["site"]["head"]):
        yield "run.json: the chain of the database ends otherwise than site.jsonl"
    hashes = {row["seq"]: row["hash"] for row in rows}
    for number, seq, head in ties(told["run"]["run_id"], site):
        if hashes.get(seq) != head:
            yield f"site.jsonl, line {number}: the checkpoint remembers another entry {seq} than log.jsonl has"


def ties(run: str, site: Rows) -> Iterator[tuple[int, int, str]]:
    """(line, seq, hash) of each checkpoint that remembers the run."""
    for number, row in enumerate(site, 1):
        heads = (_payload(row) or {}).get("data", {}).get("heads", {}) if row["type"] == "Checkpoint" else {}
        if run in heads:
            yield (number, *heads[run])


# --- what stands beside it -------------------------------------------------------------------------------------------


def artifact_faults(rows: Rows, files: Files) -> Iterator[str]:
    """Values that are too large for the log stand in files, each named by its digest."""
    for row in rows:
        data = row["data"] or ""
        if data.startswith('{"artifact":"'):
            name = f"artifacts/{json.loads(data)['artifact']}"
            if name not in files:
                yield f"{name}: the content of entry {row['seq']} is missing"
            elif sha256(files[name]) != name[len("artifacts/") :]:
                yield f"{name}: it is not what the log names it by"


def bundle_faults(told: dict[str, Any], bundles: dict[str, dict[str, str]]) -> Iterator[str]:
    """The flow, its templates and its connectors are those that the run was pinned to, by their digest."""
    if told["run"]["bundle"] not in bundles:
        yield "bundles.json: it lacks the version that the run is pinned to"
    for digest, texts in bundles.items():
        if texts and sha256(text_of(texts).encode()) != digest:
            yield f"bundles.json: these are not the texts of the version {digest}"


def sum_faults(files: Files) -> Iterator[str]:
    """Files that are not what SHA256SUMS says."""
    lines = files[SUMS].decode("utf-8", "replace").splitlines()
    told = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for name in sorted({*files, *told} - {SUMS}):
        if name not in files:
            yield f"{name}: it is missing"
        elif told.get(name) != sha256(files[name]):
            yield f"{name}: it is not what {SUMS} says"
    if files[SUMS] != sums(files) and all(told.get(name) == sha256(files[name]) for name in files if name != SUMS):
        yield f"{SUMS}: it was changed"


def faults(files: Files) -> list[str]:
    """Every place where something was changed; empty when the pack holds."""
    lacking = [f"{name}: it is missing" for name in NEEDED if name not in files]
    if lacking:
        return lacking
    found = list(sum_faults(files))
    try:
        told, rows, site = (
            json.loads(files["run.json"]),
            read_lines(files["log.jsonl"]),
            read_lines(files["site.jsonl"]),
        )
        found += [*log_faults(told, rows), *site_faults(told, rows, site), *artifact_faults(rows, files)]
        found += bundle_faults(told, json.loads(files["bundles.json"]))
        if lines_of(decisions(rows)) != files["people.jsonl"]:
            found.append("people.jsonl: it says something else than the log")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        found.append(f"the files cannot be read: {type(problem).__name__} {problem}")
    return found


def read_lines(data: bytes) -> Rows:
    """Rows out of a file: one a line."""
    return [json.loads(line) for line in data.decode("utf-8", "surrogatepass").split("\n") if line]


# --- reading and telling ---------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[Files, list[str]]:
    """(the files of a pack, faults of the archive itself)."""
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
        return {each.relative_to(path).as_posix(): each.read_bytes() for each in found}, []
    whole = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            names = archive.namelist()
            files = {name: _entry(archive, name) for name in names}
    except BROKEN as problem:
        return {}, [f"{path.name}: the archive is damaged ({problem})"]
    broken = [f"{name}: its bytes in the archive were changed" for name in names if files[name] is None]
    kept = {name: data for name, data in files.items() if data is not None}
    if not broken and packed(kept) != whole:
        same = packed(kept)
        at = next((n for n, a, b in zip(range(len(whole)), whole, same) if a != b), min(len(whole), len(same)))  # noqa: B905
        broken = [f"{path.name}: the archive was changed at byte {at}, outside its files"]
    return kept, broken


def _entry(archive: zipfile.ZipFile, name: str) -> bytes | None:
    try:
        return archive.read(name)
    except BROKEN:
        return None


def proved(files: Files) -> list[str]:
    """What a pack that holds shows, in plain words."""
    told, rows, site = json.loads(files["run.json"]), read_lines(files["log.jsonl"]), read_lines(files["site.jsonl"])
    run, erased = told["run"], sum(row["data"] is None for row in rows)
    tied = [seq for _, seq, _ in ties(run["run_id"], site)]
    gone = f" The content of {erased} was erased; their digests remain." if erased else ""
    tie = (
        f"Entries 1 to {max(tied)} are tied into the chain of database {told['database']}, which ends at entry "
        f"{told['site']['seq']} with {told['site']['head']}."
        if tied
        else "No checkpoint ties this run into the chain of its database yet."
    )
    return [
        (
            f"Run {run['run_id']} of {run['flow']} ({run['status']}): {len(rows)} entries, "
            f"none changed, lost or added.{gone}"
        ),
        f"The last entry's hash is {run['head']}: compare it with one that was noted elsewhere.",
        tie,
        (
            f"{len(files)} files are what {SUMS} says. The flow's "
            " texts and the stored values are those that the log names."
        ),
        "Not proved: effects.jsonl and handoffs.jsonl are summaries of the log, kept beside it.",
    ]


def main(arguments: list[str]) -> int:
    """Checks one pack and tells of it."""
    path = Path(arguments[0]) if arguments else Path(__file__).resolve().parent
    try:
        files, wrong = read(path)
    except OSError as problem:
        files, wrong = {}, [f"{path} cannot be read: {problem.strerror}"]
    wrong = wrong + faults(files) if files else wrong or [f"{path} holds no files"]
    say = wrong or proved(files)
    sys.stdout.write("".join(f"{line}\n" for line in say))
    sys.stdout.write(f"{len(wrong)} faults: this pack was changed.\n" if wrong else "The pack holds.\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
