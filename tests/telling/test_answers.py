"""What was sent with forms, as a table: nothing in it is run, nothing personal is shown, nothing is left out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import httpx
import pytest

from runner.cells import FORMULA, MARK, csv_lines
from runner.cli import place, run_command
from runner.people.erasing import Erasing, erase
from runner.store.prune import Portion
from runner.telling.answers import Answer, answer_rows
from runner.web.console import Console
from tests.web.filling import GIVEN, HEAD, NOTE, PDF, Filler, began, office, runs_of
from tests.web.ground import Browser

EVIL = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＋1", "－1", "＠x"]


def read(text: str) -> list[list[str]]:
    assert text.startswith(MARK)
    return list(csv.reader(io.StringIO(text.removeprefix(MARK), newline="")))


def test_no_cell_begins_with_what_a_spreadsheet_runs() -> None:
    rows = read("".join(csv_lines([["a", *EVIL], [-12.5, 3, 'x"=1', "a\nb"]])))
    # A tab or a line break parts cells in some programs.
    harmless = [f"'{one[0]}'{one[1:]}" if one[0].isspace() else f"'{one}" for one in EVIL]
    assert rows == [["a", *harmless], ["-12.5", "3", 'x"=1', "a\nb"]]
    assert {one[0] for one in EVIL} == set(FORMULA)


def test_every_kind_of_value_has_its_cell() -> None:
    inputs = {
        "amount": {"value": -12.5, "currency": "USD"}, "agree": False, "none": None, "size": 3, "tags": ["a", "b"],
        "lines": [{"sku": "A", "qty": 2}, {"sku": "B", "qty": 1}], "home": {"city": "港区", "zip": None}, "status": "mine",
        "paper": {"name": "領収書.pdf", "size": 1, "kind": "pdf", "sha256": "a" * 64},
    }  # fmt: skip
    answer = Answer(run="r", at=0, flow="f", status="running", by="person:paul", inputs=inputs)
    heads, row, erased = answer_rows(
        [answer, Answer(run="s", at=0, flow="f", status="closed", by="", inputs=None)], "UTC"
    )
    assert dict(zip(heads, row, strict=True)) == {
        "reference": "r", "sent at": "1970-01-01T00:00:00+00:00", "flow": "f", "status": "running", "sent by": "person:paul",
        "amount": -12.5, "amount currency": "USD", "agree": "no", "none": "", "size": 3, "tags": "a\nb",
        "lines": "sku: A, qty: 2\nsku: B, qty: 1", "home.city": "港区", "home.zip": "", "status (form)": "mine",
        "paper": "領収書.pdf",
    }  # fmt: skip
    assert list(erased) == ["s", "1970-01-01T00:00:00+00:00", "f", "closed", "", *[""] * 11]


async def fill(console: Console) -> None:
    for name in ("佐藤 綾", "=HYPERLINK(1)"):
        filler = await Filler(console, "expense").open()
        answer = await filler.send(
            {**GIVEN, "in.name": name, "in.note": "+81", "in.mail": "aya@acme.test"}, {"in.receipt": PDF}
        )
        assert answer.status_code == 303
        await console.driver.engine.rest(runs_of(console)[0].run)


async def test_answers_are_exported_without_personal_data_unless_one_may_see_it(tmp_path: Path) -> None:
    async with office(tmp_path / "acme") as console:
        await fill(console)

        async def get(person: str, path: str) -> httpx.Response:
            return await (await Browser(console).sign_in(person)).get(f"/forms/expense/answers.{path}")

        veiled = await get("person:vera", "csv?reveal=1")
        assert veiled.headers["content-type"] == "text/csv; charset=utf-8"
        assert veiled.headers["content-disposition"] == 'attachment; filename="expense.csv"'
        assert not any(word in veiled.text for word in ("佐藤", "HYPERLINK", "aya@acme"))
        heads, first, second = read(veiled.text)
        assert [first[heads.index(name)] for name in ("name", "mail", "note", "amount", "receipt")] == [
            "•••", "•••", "'+81", "12000", "領収書.pdf",
        ]  # fmt: skip
        plain = read((await get("person:olga", "csv?reveal=1")).text)
        assert [row[heads.index("name")] for row in plain[1:]] == ["佐藤 綾", "'=HYPERLINK(1)"]
        told = (await get("person:olga", "json")).json()
        assert [one["inputs"]["name"] for one in told] == ["•••", "•••"]
        assert (await get("person:paul", "csv")).status_code == 403
        assert (await Browser(console).get("/forms/expense/answers.csv")).headers["location"].startswith("/sign-in")
        assert [(await get("person:olga", kind)).status_code for kind in ("xml", "csv")] == [404, 200]
        page = (await (await Browser(console).sign_in("person:vera")).get("/flows/expense")).text
        assert 'href="/forms/expense/answers.csv"' in page
        assert "reveal=1" not in page
        reference = first[0]
        assert {reference, second[0]} == {view.run for view in runs_of(console)}


async def test_answers_whose_run_was_removed_after_its_time_are_left_out(tmp_path: Path) -> None:
    async with office(tmp_path / "acme") as console:
        await fill(console)
        gone, kept = sorted(runs_of(console), key=lambda view: view.run)
        head = console.store.log(gone.run)[-1]
        await console.store.prune(Portion(ends=((gone.run, head.seq, "f" * 64),)), "person:tom")
        admin = await Browser(console).sign_in("person:tom")
        told = await admin.get("/forms/expense/answers.json?reveal=1")
        assert (told.status_code, [one["reference"] for one in told.json()]) == (200, [kept.run])


async def test_an_answer_that_was_erased_has_a_row_without_content(tmp_path: Path) -> None:
    flow = HEAD.format("kept", "Kept") + "record: customer/${{ inputs.name }}\ntrigger: { form: kept }\n"
    flow += "inputs: { name: { text: null, personal: true } }\n" + NOTE
    async with office(tmp_path / "acme", {"kept": flow}) as console:
        filler = await Filler(console, "kept").open()
        await filler.send({"in.name": "Ben Else"})
        run = began(console).run
        await console.driver.engine.rest(run)
        wish = Erasing(record="customer/Ben Else", by="person:tom", also_open=True)
        await erase(console.store, wish, console.now, lambda _run: None)
        admin = await Browser(console).sign_in("person:tom")
        (told,) = (await admin.get("/forms/kept/answers.json?reveal=1")).json()
        assert (told["reference"], told["inputs"]) == (run, None)


async def test_the_command_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with office(tmp_path / "acme") as console:
        await fill(console)
        folder = str(console.amends.folder)

    def amends(*words: str) -> tuple[int, str]:
        token = place.FOLDER.set(None)
        code = run_command(["--project", folder, "forms", *words])
        place.FOLDER.reset(token)
        told = capsys.readouterr()
        return code, told.out + told.err

    code, text = amends("export", "expense")
    heads, *rows = read(text)
    assert (code, len(rows), rows[0][heads.index("name")]) == (0, 2, "•••")
    assert [one["inputs"]["name"] for one in json.loads(amends("export", "expense", "--json", "--reveal")[1])] == [
        "佐藤 綾", "=HYPERLINK(1)",
    ]  # fmt: skip
    assert len(read(amends("export", "ask", "--csv")[1])) == 1
    assert amends("export", "expnse") == (2, 'amends: there is no form "expnse"; did you mean "expense"?\n')
    assert amends("export", "ask", "--csv", "--json")[0] == 2
    told = {one["form"]: (one["flow"], one["runs"], one["sign_in"]) for one in json.loads(amends("list", "--json")[1])}
    assert told == {"ask": ("ask", 0, False), "expense": ("expense", 2, False), "members": ("members", 0, True)}
    assert "http://127.0.0.1:8484/forms/expense" in amends("list")[1]
