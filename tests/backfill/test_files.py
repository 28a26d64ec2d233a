"""Files as they come: encodings, separators, quoting, JSON lines, workbooks with traps. Nothing is guessed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from runner.backfill.cells import Cell, read_cell
from runner.backfill.files import Row, Told, open_table
from runner.errors import InputsInvalid
from runner.language.fields import field_type

KNOWN = {"name", "amount", "note", "名前", "金額", "姓名", "Größe"}


def read(file: Path, **told: str) -> tuple[tuple[str, ...], list[Row]]:
    table = open_table(file, Told(**told), KNOWN.__contains__)
    return table.head, list(table.rows())


def texts(file: Path, **told: str) -> list[list[str]]:
    head, rows = read(file, **told)
    assert not [row.wrong for row in rows if row.wrong]
    return [list(head), *([cell.shown for cell in row.cells.values()] for row in rows)]


def refused(file: Path, **told: str) -> str:
    with pytest.raises(InputsInvalid) as error:
        read(file, **told)
    return str(error.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "items.csv"


JAPANESE = "名前,金額\r\n佐藤 綾,12000\r\n髙橋①,500\r\n山田たろう,7\r\n"
CHINESE = "姓名,amount\r\n王小明,12000\r\n陳美麗的公司,500\r\n"
GERMAN = "name,Größe\r\nMüller,12\r\nÄrzte für Öl,5\r\nAmélie él,3\r\n"


@pytest.mark.parametrize(
    ("text", "encoding", "how"),
    [
        ("name,amount\nÅsa,5\n", "utf-8", ""),
        ("name,amount\nÅsa,5\n", "utf-8-sig", ""),
        ("name\tamount\r\n王\t5\r\n", "utf-16", ""),
        (JAPANESE, "cp932", "as cp932"),
        (CHINESE, "cp950", "as cp950"),
    ],
)
def test_an_encoding_that_is_clear_is_seen(file: Path, text: str, encoding: str, how: str) -> None:
    file.write_bytes(text.encode(encoding))
    assert open_table(file, Told(), KNOWN.__contains__).how == how
    wanted = [line.replace("\t", ",").split(",") for line in text.splitlines()]
    assert texts(file) == wanted


@pytest.mark.parametrize(
    ("text", "encoding", "told"),
    [
        (GERMAN, "cp1252", "cp1252"),
        (JAPANESE.replace("髙橋①", "高橋"), "euc_jp", "euc-jp"),
        (CHINESE.replace("陳美麗", "陈美丽").replace("的公司", "公司"), "gbk", "gbk"),
        ("name,amount\r\nｱﾔ ｻﾄｳ,5\r\n", "cp932", "shift_jis"),
        (JAPANESE, "cp932", "Shift_JIS"),
        (CHINESE, "cp950", "Big5"),
    ],
)
def test_an_encoding_is_told(file: Path, text: str, encoding: str, told: str) -> None:
    file.write_bytes(text.encode(encoding))
    assert texts(file, encoding=told) == [line.split(",") for line in text.splitlines()]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(GERMAN, "cp1252"), (JAPANESE.replace("髙橋①", "高橋"), "euc_jp"), ("name,amount\nｱﾔ ｻﾄｳ,5\n", "cp932"), ("name,amount\n王小明陈美丽公司,1\n", "gbk")],
)  # fmt: skip
def test_an_encoding_that_is_not_clear_is_asked_for(file: Path, text: str, encoding: str) -> None:
    file.write_bytes(text.encode(encoding))
    assert "is not UTF-8, and it is not clear what else; say --encoding" in refused(file)


def test_wrong_encodings_are_named(file: Path) -> None:
    file.write_bytes(GERMAN.encode("cp1252"))
    assert 'there is no encoding "latin-99"' in refused(file, encoding="latin-99")
    assert 'there is no encoding "base64"' in refused(file, encoding="base64")
    assert "is not utf-8 throughout" in refused(file, encoding="utf-8")
    file.write_bytes("name,amount\nAya,1\n".encode("utf-16-le"))
    assert "say --encoding utf-16-le" in refused(file)
    assert texts(file, encoding="utf-16-le") == [["name", "amount"], ["Aya", "1"]]


def test_far_down_a_file_is_not_what_its_beginning_was(file: Path) -> None:
    plain = "Aya,1\n" * 300_000
    file.write_bytes(("name,amount\n" + plain).encode() + "山田たろう,1\n".encode("cp932"))
    assert open_table(file, Told(), KNOWN.__contains__).how == "as cp932"
    file.write_bytes(("name,amount\n" + plain).encode() + b"\xff\xfe,1\n")
    assert "is not UTF-8" in refused(file)


@pytest.mark.parametrize(
    ("text", "told", "wanted"),
    [
        ("name;amount\na;1,5\n", "", [["name", "amount"], ["a", "1,5"]]),
        ("name\tamount\na,b\t1\n", "", [["name", "amount"], ["a,b", "1"]]),
        ("name|amount\na|1\n", "|", [["name", "amount"], ["a", "1"]]),
        ("name\tamount\na\t1\n", "tab", [["name", "amount"], ["a", "1"]]),
        ("sep=;\nname;amount\na;1\n", "", [["name", "amount"], ["a", "1"]]),
        ("name\na\n", "", [["name"], ["a"]]),
        ('name,note\n"a, ""b""\nc",5" pipe\n', "", [["name", "note"], ['a, "b"\nc', '5" pipe']]),
        ("name,amount,,\na,1,,\n,,,\n\nb,2,,\n", "", [["name", "amount"], ["a", "1"], ["b", "2"]]),
        ("name,amount\ra,1\rb,2\r", "", [["name", "amount"], ["a", "1"], ["b", "2"]]),
        ("\ufeffname,amount\n00123,１\n", "", [["name", "amount"], ["00123", "１"]]),
    ],
)
def test_csv_is_read(file: Path, text: str, told: str, wanted: list[list[str]]) -> None:
    file.write_bytes(text.encode())
    assert texts(file, separator=told) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name,amount\n"a,1\nb,2\n', "row 2: a quotation mark is opened and never closed"),
        ('name,amount\na,1\n"b"x,2\n', "row 3: behind a closing quotation mark stands something else"),
        ("name;amount,note\na;1\n", ""),
        ("name,name\na,1\n", "name: names two columns"),
        ("", "has no row of column names"),
        ("\nname\n", "has no row of column names"),
        ("name;x,amount\n", "can be read with more than one separator; say --separator"),
    ],
)
def test_what_cannot_be_read_is_said(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    if said:
        assert said in refused(file)


def test_rows_that_do_not_fit_the_head(file: Path) -> None:
    file.write_text("name,,amount\na,,1\na,x,1\na,,1,2\na,\n")
    _, rows = read(file)
    assert [(row.number, row.wrong) for row in rows] == [
        (2, ""),
        (3, "has a value in a column without a name"),
        (4, "has 4 cells where the head has 3"),
        (5, "has 2 cells where the head has 3"),
    ]


def test_a_quote_that_swallows_the_file_stops(file: Path) -> None:
    file.write_text('name,amount\n"' + "a,1\n" * 400_000)
    assert "row 2: a quotation mark is opened and never closed" in refused(file)


def test_a_separator_is_one_sign(file: Path) -> None:
    file.write_text("name,amount\n")
    assert '"::" is not one sign' in refused(file, separator="::")


def test_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    lines = [
        '{"name": "a", "amount": 5}',
        "",
        '["a"]',
        "{",
        '{"name": 1, "name": 2}',
        '{"amount": NaN}',
        '{"name": null}',
        '{"name": "\\ud800"}',
    ]
    file.write_text("\n".join(lines))
    head, rows = read(file)
    assert head == ()
    assert [(row.number, row.wrong) for row in rows] == [
        (1, ""),
        (3, "is not a JSON object with the inputs by name"),
        (4, "is not JSON"),
        (5, "has a name twice in one object"),
        (6, "holds NaN, which is no value"),
        (7, ""),
        (8, "holds half of a sign, which is no text"),
    ]
    file.write_bytes('{"name": "佐藤"}'.encode("cp932"))
    assert "is not utf-8 throughout" in refused(file, encoding="utf-8")
    assert {name: cell.value for name, cell in rows[0].cells.items()} == {"name": "a", "amount": 5}


# --- workbooks -------------------------------------------------------------------------------------------------------


def book(file: Path, rows: Sequence[Sequence[Any]], **formats: str) -> Path:
    """A workbook with these rows; `formats` by the cell's name (A2="00000")."""
    made = Workbook()
    page = made.active
    assert page is not None
    for row in rows:
        page.append(list(row))
    for place, written_as in formats.items():
        page[place].number_format = written_as
    path = file.with_suffix(".xlsx")
    made.save(path)
    return path


def change(file: Path, old: str, new: str, member: str = "xl/worksheets/sheet1.xml") -> None:
    """The workbook with a text of its XML replaced."""
    with zipfile.ZipFile(file) as before:
        parts = {name: before.read(name) for name in before.namelist()}
    # With lxml on the machine openpyxl writes an empty element in another way.
    text = parts[member].decode().replace(" />", "/>").replace("<v></v>", "<v/>")
    assert old in text
    parts[member] = text.replace(old, new).encode()
    with zipfile.ZipFile(file, "w") as after:
        for name, data in parts.items():
            after.writestr(name, data)


def give(kind: Any, cell: Cell, *, is_code: bool = False) -> Any:
    """What the cell gives to an input of this type, or why it gives nothing."""
    try:
        return read_cell(field_type(kind), cell, is_code=is_code)
    except ValueError as error:
        return f"! {error}"


def first_cell(file: Path, value: Any, written_as: str = "") -> Cell:
    path = book(file, [["name"], [value]], **({"A2": written_as} if written_as else {}))
    _, [row] = read(path)
    return row.cells["name"]


@pytest.mark.parametrize(
    ("value", "written_as", "kind", "wanted"),
    [
        ("00123", "", "text", "00123"),
        (123, "00000", "text", "00123"),
        (123, "", "text", "! is the number 123 in the sheet, so zeros before it may be lost"),
        (123, "", "integer", 123),
        (123, "", {"choice": [123, 124]}, 123),
        (123, "", {"choice": ["123", "124"]}, "123"),
        (0.1 + 0.2, "", "number", 0.3),
        (5.0, "", "integer", 5),
        (46266, "", "date", "! is the number 46266 in the sheet, not a date: format the cells as dates"),
        (date(2026, 9, 1), "", "date", "2026-09-01"),
        (datetime.fromisoformat("2026-09-01"), "yyyy-mm-dd hh:mm", "datetime", "2026-09-01T00:00:00"),
        (datetime.fromisoformat("2026-09-01T09:30"), "", "datetime", "2026-09-01T09:30:00"),
        (date(2026, 9, 1), "", "text", "! is a date in the sheet (2026-09-01), and it must be a text"),
        (time(9, 30), "", "time", "09:30"),
        (timedelta(hours=30), "[h]:mm", "time", "! is a length of time in the sheet"),
        (True, "", "yes_no", True),
        (True, "", "text", "! is a yes or no (true, false) in the sheet (yes), and it must be a text"),
        ("#N/A", "", "text", "! is #N/A, an error of the sheet"),
        ("=A1&A1", "", "text", "! is a formula without a result: open the file in a spreadsheet program and save it"),
        (1234567890123456789, "", "text", "! has more digits than a sheet keeps"),
        (1234567890123456789, "", "number", "! has more digits than a sheet keeps"),
        (1.2e10, "", "integer", 12_000_000_000),
        (1.2e10, "0.0E+00", "text", "! is the number 12000000000 in the sheet"),
        (None, "", "text", ""),
    ],
)  # fmt: skip
def test_cells_of_a_sheet(file: Path, value: Any, written_as: str, kind: Any, wanted: Any) -> None:
    if value is None:
        assert give(kind, Cell(kind="text", value="", shown="")) == ""
        return
    found = give(kind, first_cell(file, value, written_as))
    if isinstance(wanted, str) and wanted.startswith("!"):
        assert str(found).startswith(wanted)
    else:
        assert (found, type(found)) == (wanted, type(wanted))


def test_numbers_that_are_right_as_shown(file: Path) -> None:
    assert give("text", first_cell(file, 123), is_code=True) == "123"
    assert give("phone", first_cell(file, 312345678), is_code=True) == "312345678"
    assert "does not keep every digit" in give("text", first_cell(file, 1.5), is_code=True)
    assert "does not keep every digit" in give("text", first_cell(file, 123456789012), is_code=True)


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("1.2E+10", "text", "! is 1.2E+10, a number that a spreadsheet has shortened"),
        ("1.2e5", "number", "! is 1.2e5, a number that a spreadsheet has shortened"),
        ("1.2e5", "text", "1.2e5"),
        ("#REF!", "text", "! is #REF!, which a spreadsheet shows in place of a value"),
        ("#####", "number", "! is #####, which a spreadsheet shows in place of a value"),
        ("#1", "text", "#1"),
        ('="00123"', "text", '! is written as a formula, ="00123"; write 00123'),
        ("a\ufffdb", "text", "! has a sign that was lost when the file was saved"),
        ("00123", "text", "00123"),
    ],
)
def test_cells_of_a_text_file(text: str, kind: str, wanted: str) -> None:
    assert str(give(kind, Cell(kind="text", value=text, shown=text))).startswith(wanted)


def test_a_json_value_is_taken_as_it_is() -> None:
    assert give("text", Cell(kind="given", value="1.2E+10", shown="1.2E+10")) == "1.2E+10"


def test_formulas_count_with_their_result(file: Path) -> None:
    path = book(file, [["name", "amount"], ["a", 1], ["b", "=B2+1"], ["c", "=B3+1"], ["d", 4]])
    change(path, "<f>B2+1</f><v/>", "<f>B2+1</f><v>2</v>")
    cells = [row.cells["amount"] for row in read(path)[1]]
    assert [give("integer", cell) for cell in cells if not cell.why] == [1, 2, 4]
    assert cells[2].why.startswith("is a formula without a result")


def test_a_size_that_lies_hides_nothing(file: Path) -> None:
    path = book(file, [["name", "amount"], ["a", 1], ["b", 2]])
    change(path, '<dimension ref="A1:B3"/>', '<dimension ref="A1"/>')
    assert [row.cells["amount"].value for row in read(path)[1]] == [1, 2]


def test_which_sheet(tmp_path: Path) -> None:
    made = Workbook()
    made.active.title = "May"  # type: ignore[union-attr]
    june = made.create_sheet("June")
    june.append(["name"])
    june.append(["b"])
    path = tmp_path / "items.xlsx"
    made.save(path)
    assert "has the sheets May, June; say which one with --sheet" in refused(path)
    assert 'has no sheet "Juni"; did you mean "June"?' in refused(path, sheet="Juni")
    assert texts(path, sheet="June") == [["name"], ["b"]]
    assert "has no row of column names" in refused(path, sheet="May")


def test_rows_between_are_counted(file: Path) -> None:
    path = book(file, [["name"], ["a"], [None], [None], ["b"]])
    assert [row.number for row in read(path)[1]] == [2, 5]


def test_what_is_no_workbook(tmp_path: Path) -> None:
    old = tmp_path / "old.xls"
    old.write_bytes(b"\xd0\xcf\x11\xe0 and more")
    assert "is an old or a locked Excel file" in refused(old)
    torn = tmp_path / "torn.xlsx"
    torn.write_bytes(b"PK\x03\x04 and nothing")
    assert "is not a workbook that can be read" in refused(torn)
    other = tmp_path / "other.json"
    other.write_text(json.dumps([1]))
    assert "rows are JSON lines" in refused(other)
    assert "cannot be read: No such file" in refused(tmp_path / "none.csv")
