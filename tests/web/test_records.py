"""Our own tables on the pages and in the terminal: paged, for those who see runs, without personal data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.cli import run_command
from runner.store import own
from runner.web import records
from runner.web.console import Console
from tests.web.ground import Browser, console_at, make_project, started, words_of


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with console_at(make_project(tmp_path / "shop")) as made:
        yield made


async def test_records_are_listed_paged_and_shown(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in ("1", "2", "3"):
        await started(console, "asking", key=f"k{number}", number=number)
    monkeypatch.setattr(records, "PAGE", 2)
    vera, paul = await Browser(console).sign_in("person:vera"), await Browser(console).sign_in("person:paul")
    assert (await paul.get("/records")).status_code == 403
    assert "notes 3 records" in words_of(await vera.get("/records"))
    first, second = await vera.get("/records/of?name=notes"), await vera.get("/records/of?name=notes&skip=2")
    assert ("number: 3" in words_of(first), "number: 1" in words_of(first)) == (True, False)
    assert ("skip=2" in first.text, "number: 1" in words_of(second)) == (True, True)
    assert (await vera.get("/records/one?name=notes&id=none")).status_code == 404
    assert (await vera.get("/records/of?name=%3Cb%3E&skip=-3")).text.count("<b>") == 0


async def test_personal_data_is_hidden_but_from_operators_who_ask(
    console: Console, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await started(console, "asking", number="1", name="Aya Sato")
    vera, olga = await Browser(console).sign_in("person:vera"), await Browser(console).sign_in("person:olga")
    (entry,) = console.store.ask(own.entries("notes"))
    assert (entry.data["name"], entry.runs) == ("Aya Sato", (run,))
    path = f"/records/one?name=notes&id={entry.id}"
    shown = [
        "Aya Sato" in (await one.get(f"{path}{more}")).text
        for one in (vera, olga) for more in ("", "&reveal=1")
    ]  # fmt: skip
    assert shown == [False, False, False, True]
    assert "Aya" not in (await olga.get("/records/of?name=notes")).text
    monkeypatch.chdir(console.amends.folder)
    assert run_command(["records", "list", "notes", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["data"] == {"number": "1", "name": "•••"}
    for words, has in ((["notes"], False), (["notes", "--reveal"], True), ([], False)):
        assert run_command(["records", "list", *words]) == 0
        assert ("Aya Sato" in capsys.readouterr().out) is has
    assert run_command(["records", "show", "notes", entry.id]) == 0
    out = capsys.readouterr().out
    assert ("•••" in out, run in out) == (True, True)
    assert run_command(["records", "list", "nots"]) == 2
    assert 'there is no table "nots"; did you mean "notes"?' in capsys.readouterr().err


async def test_a_record_whose_run_is_gone_shows_nothing(console: Console) -> None:
    await started(console, "asking", number="1", name="Aya Sato")
    (entry,) = console.store.ask(own.entries("notes"))
    lost = own.Entry(
        collection="notes", id=entry.id, data=entry.data, created_at=0, updated_at=0, runs=("r-none", *entry.runs)
    )
    assert own.veiled(console.store, [lost])[0].data == {"number": "•••", "name": "•••"}
