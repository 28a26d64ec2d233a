"""Files of a folder: written once, never outside it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from connectors.files import KIND
from runner.contract import Connector, Outcome, Purpose
from runner.errors import RequestError, SettingsError
from tests.connectors.tools import Lent

PDF = b"%PDF-1.7 a page"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "box"
    made.mkdir()
    return made


def connect(folder: Path, tools: Lent | None = None, **settings: Any) -> Connector:
    made: Connector = KIND.connect("box", {"folder": str(folder), **settings}, tools or Lent())
    return made


async def did(
    mine: Connector, action: str, input: dict[str, Any], key: str = "am_1", purpose: Purpose = "do"
) -> Outcome:
    request = mine.prepare(action, input, key=key, purpose=purpose)
    return await mine.send(action, request, key=key, purpose=purpose, limit=5_000)


def file_of(tools: Lent, content: bytes = PDF) -> dict[str, Any]:
    return {"name": "見積.pdf", "kind": "pdf", "sha256": tools.keep(content), "size": len(content)}


async def test_what_is_written_is_found_and_read(folder: Path) -> None:
    tools = Lent()
    mine = connect(folder, tools)
    wrote = await did(mine, "write", {"path": "2026/09/見積.pdf", "file": file_of(tools)})
    digest = hashlib.sha256(PDF).hexdigest()
    assert wrote.output == {"path": "2026/09/見積.pdf", "sha256": digest, "size": len(PDF)}
    assert wrote.external_id == "2026/09/見積.pdf"
    assert (folder / "2026/09/見積.pdf").read_bytes() == PDF
    assert (await did(mine, "write", {"path": "2026/09/見積.pdf", "file": file_of(tools)})) == wrote
    assert [each.name for each in (folder / "2026/09").iterdir()] == ["見積.pdf"]
    listed = await did(mine, "list", {"folder": "2026/09", "pattern": "*.pdf"}, purpose="read")
    assert [file["path"] for file in listed.output["files"]] == ["2026/09/見積.pdf"]
    other = Lent()
    read = await did(connect(folder, other), "read", {"path": "2026/09/見積.pdf"}, purpose="read")
    assert read.output == {
        "found": True,
        "file": {"name": "見積.pdf", "kind": "pdf", "sha256": digest, "size": len(PDF)},
    }
    assert other.file(digest) == PDF
    none = await did(mine, "read", {"path": "2027/x.pdf"}, purpose="read")
    assert none.output == {"found": False, "file": None}


async def test_a_name_is_given_once(folder: Path) -> None:
    mine = connect(folder)
    assert (await did(mine, "write", {"path": "a.txt", "text": "one"})).result == "applied"
    found = await did(mine, "write", {"path": "a.txt", "text": "two"}, key="am_2")
    assert (found.result, found.reason) == ("refused", "conflict")
    assert found.summary == "a.txt is there already and holds something else; nothing was changed"
    results = await asyncio.gather(
        *(did(mine, "write", {"path": "b.txt", "text": str(at)}, key=f"k{at}") for at in range(8))
    )
    assert sorted(each.result for each in results) == ["applied", *["refused"] * 7]
    assert [each.name for each in sorted(folder.iterdir())] == ["a.txt", "b.txt"]


async def test_undo_of_a_write_takes_it_away_while_it_is_the_same(folder: Path) -> None:
    mine = connect(folder)
    undo = mine.actions["write"].undo
    assert undo is not None
    wrote = await did(mine, "write", {"path": "a.txt", "text": "one"})
    input = {"path": wrote.output["path"], "sha256": wrote.output["sha256"]}
    (folder / "a.txt").write_text("somebody's")
    changed = await did(mine, undo.action, input, key="am_undo", purpose="undo")
    assert (changed.result, changed.reason) == ("refused", "conflict")
    (folder / "a.txt").write_text("one")
    assert (await did(mine, undo.action, input, key="am_undo", purpose="undo")).output["removed"] is True
    assert (await did(mine, undo.action, input, key="am_undo", purpose="undo")).output["removed"] is False
    assert list(folder.iterdir()) == []
    assert mine.actions["remove"].cannot_undo


async def test_what_is_removed_into_the_trash_comes_back(folder: Path) -> None:
    mine = connect(folder, trash="removed")
    (folder / "a.txt").write_text("one")
    undo = mine.actions["remove"].undo
    assert undo is not None
    gone = await did(mine, "remove", {"path": "a.txt"})
    assert gone.output["removed"] is True
    assert (folder / gone.output["kept_at"]).read_text() == "one"
    again = await did(mine, "remove", {"path": "a.txt"})
    assert again.output == {"removed": False, "kept_at": gone.output["kept_at"]}
    back = {"path": gone.output["kept_at"], "to": "a.txt"}
    for _ in range(2):
        assert (await did(mine, undo.action, back, key="am_undo", purpose="undo")).result == "applied"
    assert (folder / "a.txt").read_text() == "one"
    absent = await did(mine, "move", {"path": "no.txt", "to": "x/no.txt"})
    assert (absent.result, absent.reason) == ("refused", "not_found")


@pytest.mark.parametrize(
    "path", ["../a", "/etc/passwd", "a//b", "a/../../b", "./a", "", "a\\b", "a\x00b", "a/", "a\nb"]
)
async def test_no_path_leads_out(folder: Path, path: str) -> None:
    mine = connect(folder)
    for action, input in (
        ("read", {"path": path}),
        ("write", {"path": path, "text": "x"}),
        ("move", {"path": "a", "to": path}),
    ):
        with pytest.raises(RequestError):
            mine.prepare(action, input, key="k", purpose="do")


async def test_no_link_leads_out(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("keep out")
    (folder / "way").symlink_to(outside)
    (folder / "file.txt").symlink_to(outside / "secret.txt")
    (folder / "loose.txt").symlink_to(outside / "not-there.txt")
    os.mkfifo(folder / "pipe")
    mine = connect(folder)
    for action, input in (
        ("read", {"path": "way/secret.txt"}),
        ("read", {"path": "file.txt"}),
        ("write", {"path": "way/new.txt", "text": "x"}),
        ("write", {"path": "loose.txt", "text": "x"}),
        ("remove", {"path": "way/secret.txt"}),
        ("remove", {"path": "file.txt"}),
        ("move", {"path": "file.txt", "to": "b.txt"}),
        ("list", {"folder": "way"}),
        ("read", {"path": "pipe"}),
    ):
        found = await did(mine, action, input)
        assert found.result == "refused", (action, input, found)
    assert [each.name for each in outside.iterdir()] == ["secret.txt"]
    listed = await did(mine, "list", {}, purpose="read")
    assert listed.output["files"] == []


async def test_what_is_refused_leaves_nothing(folder: Path) -> None:
    tools = Lent()
    lost = {"name": "a", "kind": "", "sha256": "0" * 64, "size": 1}
    found = await did(connect(folder, tools), "write", {"path": "a", "file": lost})
    assert (found.result, found.reason) == ("not_sent", "not_found")
    long = await did(connect(folder), "write", {"path": "a" * 300, "text": "x"})
    assert (long.result, long.reason) == ("refused", "invalid")
    gone = await did(connect(folder / "no"), "write", {"path": "a", "text": "x"})
    assert gone.summary == f"the folder {folder / 'no'} is not there"
    assert list(folder.iterdir()) == []


async def test_a_full_disk_leaves_nothing_and_doubt_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, calls = os.fsync, iter([True, False])

    def full(number: int) -> None:
        if not Path(f"/proc/self/fd/{number}").is_dir() and next(calls, False):
            raise OSError(28, "No space left on device")
        if Path(f"/proc/self/fd/{number}").is_dir():
            raise OSError(5, "Input/output error")
        usual(number)

    monkeypatch.setattr(os, "fsync", full)
    found = await did(connect(folder), "write", {"path": "a", "text": "x"})
    assert (found.result, found.reason) == ("refused", "unavailable")
    assert list(folder.iterdir()) == []
    doubtful = await did(connect(folder), "write", {"path": "a", "text": "x"})
    assert (doubtful.result, doubtful.summary) == ("unknown", "a was changed, perhaps not for good")
    monkeypatch.undo()
    assert (await did(connect(folder), "write", {"path": "a", "text": "x"})).result == "applied"


async def test_a_file_that_cannot_leave_has_no_second_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.txt").write_text("one")
    usual = os.unlink

    def kept(name: str, *, dir_fd: int) -> None:
        if name == "a.txt" and folder.samefile(f"/proc/self/fd/{dir_fd}"):
            raise OSError(1, "Operation not permitted")
        usual(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", kept)
    for mine, action, input in (
        (connect(folder), "move", {"path": "a.txt", "to": "b.txt"}),
        (connect(folder, trash="removed"), "remove", {"path": "a.txt"}),
    ):
        found = await did(mine, action, input)
        assert (found.result, found.reason) == ("refused", "forbidden")
        assert [each.name for each in folder.rglob("*.txt")] == ["a.txt"]


def test_settings_and_requests_that_cannot_be(folder: Path) -> None:
    for settings, said in (
        ({"folder": "/p/.amends/x"}, "lies in Amends' own state"),
        ({"folder": "x", "trash": "../y"}, 'trash: "../y" is no path'),
        ({}, "needs folder"),
    ):
        with pytest.raises(SettingsError, match=said):
            KIND.connect("box", settings, Lent())
    mine = connect(folder)
    with pytest.raises(RequestError, match="either a file or a text"):
        mine.prepare("write", {"path": "a"}, key="k", purpose="do")
    with pytest.raises(RequestError, match="cannot be asked by a key"):
        mine.prepare("write", {"path": "a", "text": "x"}, key="k", purpose="lookup")
