"""Spreadsheet files for real: written here, read by openpyxl, csv and calamine."""

from __future__ import annotations

import asyncio
import csv
import os
import stat
import threading
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference

from connectors.sheet import kind as sheet
from connectors.sheet.books import read_book
from connectors.sheet.kind import KIND
from runner.contract import Connector, Outcome, Purpose
from runner.errors import RequestError, SettingsError
from tests.connectors.tools import Lent
from tests.trust.bombs import workbook

HEAD = ["no", "name", "total", "ref"]
ROWS: list[list[Any]] = [["A-1", "佐藤 綾", 1200, "am_old"], ["A-2", "Ben", 0.5, None]]


def make(file: Path, rows: list[list[Any]] | None = None, encoding: str = "utf-8-sig") -> Path:
    if file.suffix == ".csv":
        with file.open("w", encoding=encoding, newline="") as out:
            csv.writer(out).writerows([HEAD, *(rows or ROWS)])
        return file
    book: Any = openpyxl.Workbook()
    for row in [HEAD, *(rows or ROWS)]:
        book.active.append(row)
    book.save(file)
    return file


def cells(file: Path, encoding: str = "utf-8-sig") -> list[list[Any]]:
    """What another program finds in the file."""
    if file.suffix == ".csv":
        with file.open(encoding=encoding, newline="") as source:
            return list(csv.reader(source))
    book: Any = openpyxl.load_workbook(file)
    return [list(row) for row in book.active.iter_rows(values_only=True)]


def connect(file: Path, **settings: Any) -> Connector:
    made: Connector = KIND.connect("orders", {"file": str(file), "key": "ref", **settings}, Lent())
    return made


async def did(
    mine: Connector, action: str, input: dict[str, Any], key: str = "am_1", purpose: Purpose = "do", limit: int = 5_000
) -> Outcome:
    request = mine.prepare(action, input, key=key, purpose=purpose)
    return await mine.send(action, request, key=key, purpose=purpose, limit=limit)


@pytest.fixture(params=["orders.csv", "orders.xlsx"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make(tmp_path / request.param)


NEW = {"no": "A-3", "name": "=cmd|' /C calc'!A1", "total": -7}


async def test_a_row_is_added_once_under_its_key(file: Path) -> None:
    mine = connect(file)
    added = await did(mine, "append", {"row": NEW})
    assert added.result == "applied", added
    assert (added.external_id, added.output) == ("am_1", {"key": "am_1", "row": {**NEW, "ref": "am_1"}})
    again = await did(mine, "append", {"row": NEW})
    assert again.result == "applied"
    rows = cells(file)
    assert len(rows) == 4
    assert rows[1][:2] == ["A-1", "佐藤 綾"]
    found = await did(mine, "read", {"where": {"no": "A-3"}}, purpose="read")
    row = {**NEW, "ref": "am_1"} if file.suffix == ".xlsx" else {**NEW, "total": "-7", "ref": "am_1"}
    assert found.output == {"found": True, "row": row, "rows": [row], "count": 1, "incomplete": False}


async def test_no_text_becomes_a_formula(file: Path) -> None:
    mine = connect(file)
    for number, text in enumerate(["=1+1", "+81 3", "-x", "@a", "＝1"]):
        assert (await did(mine, "append", {"row": {"name": text, "no": "N"}}, key=f"am_{number}")).result == "applied"
    if file.suffix == ".csv":
        assert [row[1] for row in cells(file)[3:]] == ["'=1+1", "'+81 3", "'-x", "'@a", "'＝1"]
    else:
        book: Any = openpyxl.load_workbook(file)
        page = book.active
        assert {page.cell(row, 2).data_type for row in range(4, 9)} == {"s"}
    found = await did(mine, "read", {"where": {"no": "N"}}, purpose="read")
    assert [row["name"] for row in found.output["rows"]] == ["=1+1", "+81 3", "-x", "@a", "＝1"]


async def test_a_lone_carriage_return_begins_no_row(file: Path) -> None:
    mine, before = connect(file), len(cells(file))
    text = "x\r=1+1,y\n+2"
    assert (await did(mine, "append", {"row": {"name": text, "no": "N"}})).result == "applied"
    assert len(cells(file)) == before + 1
    found = await did(mine, "read", {"where": {"no": "N"}}, purpose="read")
    assert [row["name"] for row in found.output["rows"]] in ([text], [text.replace("\r", "\n")])


async def test_undo_takes_out_its_own_row(file: Path) -> None:
    mine = connect(file)
    before = cells(file)
    undo = mine.actions["append"].undo
    assert undo is not None
    added = await did(mine, "append", {"row": NEW})
    gone = await did(mine, undo.action, {"key": added.output["key"]}, key="am_undo", purpose="undo")
    assert (gone.result, gone.output["removed"]) == ("applied", True)
    assert cells(file) == before
    again = await did(mine, undo.action, {"key": added.output["key"]}, key="am_undo", purpose="undo")
    assert (again.result, again.output["removed"]) == ("applied", False)


async def test_an_update_can_be_asked_and_undone(file: Path) -> None:
    mine = connect(file)
    change = {"by": {"no": "A-2"}, "set": {"name": "Benno", "total": 3}}
    asked = await did(mine, "update", change, purpose="lookup")
    assert (asked.result, asked.count) == ("applied", 0)
    changed = await did(mine, "update", change)
    assert changed.output["before"] == {"name": "Ben", "total": 0.5 if file.suffix == ".xlsx" else "0.5"}
    asked = await did(mine, "update", change, purpose="lookup")
    assert (asked.result, asked.count) == ("applied", 1)
    back = {"by": change["by"], "set": changed.output["before"], "expect": change["set"]}
    assert (await did(mine, "update", back, key="am_undo", purpose="undo")).result == "applied"
    assert [str(cell) for cell in cells(file)[2][:3]] == ["A-2", "Ben", "0.5"]
    late = await did(mine, "update", back, key="am_undo", purpose="undo")
    assert (late.result, late.reason) == ("refused", "conflict")
    assert late.summary == f"{file.name} holds other values by now than are expected; nothing was written"


@pytest.mark.parametrize(
    ("action", "input", "reason", "said"),
    [
        ("append", {"row": {"nme": "x"}}, "invalid", 'has no column "nme"; did you mean "name"?'),
        ("append", {"row": {"name": ["x"]}}, "invalid", "cannot hold a list or a map"),
        ("append", {"row": {"name": "a\x00b"}}, "invalid", "has control characters"),
        ("update", {"by": {"no": "A-9"}, "set": {"name": "x"}}, "not_found", "has no row where no is that"),
        ("update", {"by": {"total": "x"}, "set": {"nome": "x"}}, "invalid", 'has no column "nome"'),
    ],
)
async def test_what_is_refused_leaves_the_file_as_it_was(
    file: Path, action: str, input: dict[str, Any], reason: str, said: str
) -> None:
    before = file.read_bytes()
    found = await did(connect(file), action, input)
    assert (found.result, found.reason) == ("refused", reason), found
    assert said in found.summary
    assert file.read_bytes() == before


async def test_several_rows_are_not_one(file: Path) -> None:
    make(file, [["A", "x", 1, None], ["A", "y", 2, None]])
    found = await did(connect(file), "update", {"by": {"no": "A"}, "set": {"name": "z"}})
    assert (found.result, found.reason) == ("refused", "conflict")


async def test_two_writers_wait_for_each_other(file: Path) -> None:
    one, other = connect(file), connect(file)
    found = await asyncio.gather(
        *(did(mine, "append", {"row": {"no": str(at)}}, key=f"am_{at}") for at in range(6) for mine in (one, other))
    )
    assert {each.result for each in found} == {"applied"}
    assert sorted(str(row[0]) for row in cells(file)[3:]) == [str(at) for at in range(6)]
    with sheet._alone(file, 0):
        held = await did(one, "append", {"row": NEW}, key="am_9", limit=100)
    assert (held.result, held.reason) == ("refused", "unavailable")


async def test_a_file_that_an_office_program_has_open(file: Path) -> None:
    mark = file.with_name(f"~${file.name}")
    mark.touch()
    found = await did(connect(file), "append", {"row": NEW})
    assert (found.result, found.reason) == ("refused", "unavailable")
    assert found.summary == f"{file.name} is open in an office program; nothing was written"
    mark.unlink()
    assert (await did(connect(file), "append", {"row": NEW})).result == "applied"


async def test_a_file_that_somebody_changes_meanwhile(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = read_book

    def slow(*told: Any, **more: Any) -> Any:
        make(file, [["B-1", "from outside", 5, None]])
        return usual(*told, **more)

    monkeypatch.setattr("connectors.sheet.kind.read_book", slow)
    found = await did(connect(file), "append", {"row": NEW})
    assert (found.result, found.reason) == ("refused", "unavailable")
    assert str(cells(file)[1][0]) == "B-1"
    assert [each.name for each in file.parent.iterdir() if each.name.endswith(".part")] == []


async def test_what_nobody_waits_for_is_not_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a look-up in the meantime would say that it did not happen, and then it would."""
    before, given_up = file.read_bytes(), threading.Event()
    monkeypatch.setattr(os, "fsync", lambda number: given_up.wait(30))
    assert (await did(connect(file), "append", {"row": NEW}, limit=1_000)).result == "unknown"
    given_up.set()
    await asyncio.sleep(0.5)
    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir() if each.name.endswith(".part")] == []


async def test_a_link_stays_and_what_it_leads_to_is_written(file: Path) -> None:
    link = file.with_name(f"link{file.suffix}")
    link.symlink_to(file.name)
    one, other = connect(link), connect(file)
    added = await asyncio.gather(
        *(did(mine, "append", {"row": {"no": "N"}}, key=f"am_{at}") for at in range(4) for mine in (one, other))
    )
    assert {outcome.result for outcome in added} == {"applied"}
    assert link.is_symlink()
    assert len(cells(file)) == 7


async def test_it_stays_readable_for_whom_it_was(file: Path) -> None:
    file.chmod(0o640)
    await did(connect(file), "append", {"row": NEW})
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


# --- CSV alone --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "told"), [("utf-8-sig", ""), ("utf-8", ""), ("cp932", "Shift_JIS")])
async def test_encodings_stay_what_they_were(tmp_path: Path, encoding: str, told: str) -> None:
    file = make(tmp_path / "名簿.csv", [["1", "髙橋①～", "", ""]], encoding)
    before = file.read_bytes()
    more = {"encoding": told} if told else {}
    added = await did(connect(file, **more), "append", {"row": {"name": "﨑山"}})
    assert added.result == "applied", added
    assert file.read_bytes().startswith(before)
    assert file.read_bytes().endswith(b"\r\n")
    assert [row[1] for row in cells(file, encoding)] == ["name", "髙橋①～", "﨑山"]
    found = await did(connect(file, **more), "read", {}, purpose="read")
    assert [row["name"] for row in found.output["rows"]] == ["髙橋①～", "﨑山"]


async def test_signs_that_an_encoding_does_not_have(tmp_path: Path) -> None:
    file = make(tmp_path / "a.csv", encoding="cp932")
    found = await did(connect(file, encoding="shift_jis"), "append", {"row": {"name": "한글"}})
    assert (found.result, found.summary) == ("refused", 'a.csv is shift_jis, which has no "한"')
    unsaid = await did(connect(file), "read", {}, purpose="read")
    assert unsaid.summary.startswith("a.csv is not UTF-8 throughout; say encoding: shift_jis")


async def test_semicolons_short_rows_and_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b'no;name;ref\n1\n2;"b;\n""c"""\n\n')
    mine = connect(file, separator=";")
    found = await did(mine, "read", {}, purpose="read")
    assert found.output["rows"] == [{"no": "1", "name": None, "ref": None}, {"no": "2", "name": 'b;\n"c"', "ref": None}]
    assert (await did(mine, "append", {"row": {"no": "3"}})).result == "applied"
    assert file.read_bytes() == '1\n2;"b;\n""c"""\n3;;am_1\n'.join(["no;name;ref\n", ""]).encode()


# --- workbooks alone --------------------------------------------------------------------------------------------------


async def test_kinds_of_cells(tmp_path: Path) -> None:
    file = make(
        tmp_path / "a.xlsx",
        [["1", date(2026, 9, 1), True, None], ["2", datetime.fromisoformat("2026-09-01T10:30"), 1.25, None]],
    )
    found = await did(connect(file), "read", {}, purpose="read")
    assert found.output["rows"] == [
        {"no": "1", "name": "2026-09-01", "total": True, "ref": None},
        {"no": "2", "name": "2026-09-01T10:30:00", "total": 1.25, "ref": None},
    ]
    await did(connect(file), "append", {"row": {"no": "007", "total": True}})
    assert cells(file)[3] == ["007", None, True, "am_1"]
    assert cells(file)[1][1] == datetime.fromisoformat("2026-09-01")


async def test_a_head_further_down_and_one_of_several_sheets(tmp_path: Path) -> None:
    file = tmp_path / "a.xlsx"
    book: Any = openpyxl.Workbook()
    page = book.create_sheet("受注")
    for row in (["月次"], [], ["no", "name", "ref"], ["1", "x", None]):
        page.append(row)
    book.save(file)
    mine = connect(file, sheet="受注", head=3)
    assert (await did(mine, "append", {"row": {"no": "2"}})).result == "applied"
    assert (await did(mine, "read", {}, purpose="read")).output["count"] == 2
    assert openpyxl.load_workbook(file)["受注"]["A5"].value == "2"
    unsaid = await did(connect(file), "read", {}, purpose="read")
    assert unsaid.summary == "a.xlsx has the sheets Sheet, 受注; say which one with sheet: in connections.yaml"


async def test_what_would_be_lost_is_not_written(tmp_path: Path) -> None:
    file = make(tmp_path / "a.xlsx")
    book: Any = openpyxl.load_workbook(file)
    book.active["F1"] = "=SUM(C2:C3)"
    book.save(file)
    found = await did(connect(file), "append", {"row": NEW})
    assert (found.result, found.reason) == ("refused", "invalid")
    assert found.summary.startswith("a.xlsx has formulas (Sheet!F1), whose results would be lost")
    del book.active["F1"]
    chart = BarChart()
    chart.add_data(Reference(book.active, min_col=3, min_row=1, max_row=3))
    book.active.add_chart(chart, "F2")
    book.save(file)
    assert "charts" in (await did(connect(file), "append", {"row": NEW})).summary
    assert (await did(connect(file), "read", {}, purpose="read")).result == "applied"


async def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    damaged = tmp_path / "a.xlsx"
    damaged.write_bytes(b"PK\x03\x04nothing")
    assert "cannot be read as a workbook" in (await did(connect(damaged), "read", {}, purpose="read")).summary
    with zipfile.ZipFile(damaged, "w") as made:
        made.writestr("a", "b")
    assert "cannot be read as a workbook" in (await did(connect(damaged), "append", {"row": NEW})).summary
    absent = await did(connect(tmp_path / "no.csv"), "append", {"row": NEW})
    assert (absent.result, absent.reason) == ("refused", "not_found")
    (tmp_path / "empty.csv").touch()
    empty = await did(connect(tmp_path / "empty.csv"), "append", {"row": NEW})
    assert empty.summary == "empty.csv has no names of columns in row 1"


# --- settings ---------------------------------------------------------------------------------------------------------


def test_its_class_is_what_the_sheet_has() -> None:
    assert KIND.actions_for({"file": "a.csv", "key": "ref"})["append"].effect == "keyed"
    without = KIND.actions_for({"file": "a.csv"})
    assert without["append"].effect == "once"
    assert without["append"].cannot_undo
    assert "remove" not in without
    assert list(KIND.actions_for({"file": "a.ods", "key": "ref"})) == ["read"]
    mine = connect(Path("a.csv"))
    with pytest.raises(RequestError, match='the column "ref" holds our keys'):
        mine.prepare("append", {"row": {"ref": "x"}}, key="k", purpose="do")
    with pytest.raises(RequestError, match='"no" names the row'):
        mine.prepare("update", {"by": {"no": 1}, "set": {"no": 2}}, key="k", purpose="do")
    with pytest.raises(RequestError, match="cannot be asked by a key"):
        mine.prepare("append", {"row": NEW}, key="k", purpose="lookup")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"file": "a.txt"}, "file must be one of .csv, .xlsx, or to be read .ods"),
        ({"file": "a.csv", "sheet": "x"}, "sheet means nothing to a .csv file"),
        ({"file": "a.xlsx", "encoding": "utf-8"}, "encoding means nothing to a .xlsx file"),
        ({"file": "a.csv", "encoding": "latin-99"}, 'there is no encoding "latin-99"'),
        ({"file": "a.csv", "separator": ";;"}, "separator must be one sign"),
        ({"file": "a.csv", "head": 0}, "head must be the number of the row"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as told:
        KIND.connect("orders", settings, Lent())
    assert said in str(told.value)


async def test_nothing_half_written_is_left_by_a_disk_that_is_full(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    found = await did(connect(file), "append", {"row": NEW})
    assert (found.result, found.reason) == ("refused", "unavailable")
    assert file.read_bytes() == before
    assert not list(file.parent.glob("*.part"))


async def test_what_the_disk_may_have_lost_is_unknown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = os.fsync

    def doubtful(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(5, "Input/output error")
        usual(number)

    monkeypatch.setattr(os, "fsync", doubtful)
    found = await did(connect(file), "append", {"row": NEW})
    assert (found.result, found.summary) == ("unknown", f"{file.name} was written, perhaps not for good")
    monkeypatch.undo()
    assert (await did(connect(file), "append", {"row": NEW})).result == "applied"
    assert len(cells(file)) == 4


@pytest.mark.parametrize("last", ["XFD1048576", "XFD60000"])
async def test_a_book_that_would_fill_the_memory_is_not_read(tmp_path: Path, last: str) -> None:
    file = tmp_path / "wide.xlsx"
    file.write_bytes(
        workbook(b'<row r="1"><c r="A1"><v>1</v></c></row><row><c r="%s"><v>1</v></c></row>' % last.encode())
    )
    found = await did(connect(file, key=""), "read", {}, purpose="read")
    assert found.result == "refused"
    assert "empty cells among them" in found.summary
