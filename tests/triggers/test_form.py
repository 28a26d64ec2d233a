"""What a form's page becomes: every kind of field there and back, all problems at once, rows, and nothing lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.contract import Json
from runner.language.bundle import Bundle
from runner.language.fields import KINDS, FieldType
from runner.language.flow import Flow
from runner.language.project import Project
from runner.triggers import form
from runner.triggers.active import Armed
from runner.triggers.form import Page

FILE = {"name": "領収書.pdf", "size": 9, "kind": "pdf", "sha256": "a" * 64}
LINES = {"lines": {"list": {"sku": "text", "qty": "integer"}}}


def armed(inputs: Mapping[str, Any], schema: Mapping[str, Json] | None = None, **said: Any) -> Armed:
    """The form of a flow with these inputs, as the engine has it."""
    flow = Flow(id="apply", title="Apply", owner="person:tom", mode="live", inputs=inputs, schema=schema)
    bundle = Bundle(digest="d", flow=flow, actions={}, zone="Asia/Tokyo")
    return Armed(flow="apply", bundle=bundle, kind="form", name="apply", said={"form": "apply", **said})


def sent(inputs: Mapping[str, Any], **posted: str) -> tuple[Mapping[str, Json], dict[str, str]]:
    """(the inputs, what is wrong by place) of a page on which this was typed; `lines__0__sku` is lines.0.sku."""
    named = {("" if key.startswith("rows_") else "in.") + key.replace("rows_", "rows.").replace("__", "."): value
             for key, value in posted.items()}  # fmt: skip
    one = armed(inputs)
    reading = form.read([one], form.typed(form.fields_of(one), named, {}))
    return reading.given, {entry.place: entry.wrong for entry in reading.faults}


KINDS_TYPED: list[tuple[Json, str, Json]] = [
    ("text", " a b ", " a b "),
    ({"text": {"max": 500}}, "one\r\ntwo", "one\ntwo"),
    ("number", "1,234.50", 1234.5),
    ("number", "−１２．５", -12.5),
    ("integer", "１２　", 12),
    ("integer", "1,200", 1200),
    ({"money": "JPY"}, "１２，０００円", {"value": 12000, "currency": "JPY"}),
    ({"money": "JPY"}, "￥12000", {"value": 12000, "currency": "JPY"}),
    ({"money": "TWD"}, "NT$ 1,200", {"value": 1200, "currency": "TWD"}),
    ({"money": "USD"}, "$ 12.50", {"value": 12.5, "currency": "USD"}),
    ("money", "１２，０００ JPY", {"value": 12000, "currency": "JPY"}),
    ("date", "2026-09-01", "2026-09-01"),
    ("date", "２０２６／９／１", "2026-09-01"),
    ("date", "2026年9月1日", "2026-09-01"),
    ("time", "９：０５", "09:05"),
    ("time", "9時5分", "09:05"),
    ("datetime", "2026-09-01T09:00", "2026-09-01T09:00:00+09:00"),
    ("datetime", "２０２６年９月１日　９時００分", "2026-09-01T09:00:00+09:00"),
    ("yes_no", "no", False),
    ("yes_no", "yes", True),
    ("email", "ａｙａ＠ａｃｍｅ．ｔｅｓｔ ", "aya@acme.test"),
    ("phone", "０３ー１２３４ー５６７８", "03-1234-5678"),
    ("phone", "＋８１　３　１２３４　５６７８", "+81 3 1234 5678"),
    ("url", " https://acme.test/x ", "https://acme.test/x"),
    ({"choice": {"mon": "月曜", "tue": "火曜"}}, "tue", "tue"),
    ({"choice": [1, 2]}, "2", 2),
    ("record", '{"a": 1}', {"a": 1}),
]


@pytest.mark.parametrize(("kind", "typed", "value"), KINDS_TYPED)
def test_what_is_typed_becomes_the_value(kind: Json, typed: str, value: Json) -> None:
    assert sent({"x": kind}, x=typed) == ({"x": value}, {})


def test_every_kind_is_tried() -> None:
    tried = {kind if isinstance(kind, str) else next(iter(kind)) for kind, _typed, _value in KINDS_TYPED}
    assert set(KINDS) - tried == {"list", "file", "any"}, "these have tests of their own"


@pytest.mark.parametrize(
    ("kind", "value"),
    [(kind, value) for kind, _typed, value in KINDS_TYPED if kind != "money"]
    + [
        ({"list": "text"}, ["a", "b"]),
        (LINES["lines"], [{"sku": "a", "qty": 1}]),
        ({"record": {"a": "integer"}}, {"a": 2}),
    ],
)
def test_a_default_stands_on_the_page_and_comes_back(kind: Json, value: Json) -> None:
    """What the page shows before anybody types is what it sends."""
    one = armed({"x": {**(kind if isinstance(kind, dict) else {kind: None}), "default": value}})
    page = form.blank(form.fields_of(one))
    posted: dict[str, str] = {}
    for entry in (each for top in page for each in top.each()):
        posted |= {f"in.{entry.place}": entry.text, f"rows.{entry.place}": str(len(entry.parts))}
    again = form.typed(form.fields_of(one), posted, {})
    assert form.read([one], again).given == {"x": value}


def test_all_problems_come_at_once_each_at_its_field() -> None:
    inputs = {
        "name": "text", "mail": "email", "amount": {"money": "JPY"}, "day": "date", "note": "text or empty",
        "agree": "yes_no", **LINES, "place": {"record": {"city": "text", "zip": "text or empty"}},
        "paper": {"file": {"kinds": ["pdf"]}},
    }  # fmt: skip
    given, wrong = sent(
        inputs, mail="aya", amount="12.5", day="2026-02-30", note="kept", rows_lines="3", lines__0__sku="a",
        lines__2__sku="c", lines__2__qty="x",
    )  # fmt: skip
    missing = "is required and has no value"
    assert wrong == {
        "name": missing, "agree": missing, "paper": missing, "place.city": missing, "lines.0.qty": missing,
        "mail": 'the text "aya" is not a mail address: write it as name@example.test',
        "amount": "12.5 JPY is not an amount: JPY has no decimals",
        "day": 'the text "2026-02-30" is not a day of the calendar or a time of the clock',
        "lines.2.qty": 'the text "x" is not a number',
    }  # fmt: skip
    assert given["note"] == "kept"


def test_rows_that_are_empty_are_no_rows() -> None:
    lines = {"rows_lines": "3", "lines__1__sku": "a", "lines__1__qty": "２"}
    assert sent(LINES, **lines) == ({"lines": [{"sku": "a", "qty": 2}]}, {})
    assert sent(LINES, rows_lines="2")[1] == {"lines": "is required and has no value"}
    optional = {"lines": {"list": "text", "empty": True}}
    assert sent(optional, rows_lines="1") == ({}, {})
    assert sent(optional, rows_lines="2", lines__0="x", lines__1="") == ({"lines": ["x"]}, {})
    assert sent({"lines": "list"}, rows_lines="1", lines__0="x") == ({"lines": ["x"]}, {})


def test_nobody_makes_a_page_with_a_million_rows() -> None:
    for count in ("1000000", "99999", "-1", "x", "１００"):
        page = form.typed(form.fields_of(armed(LINES)), {"rows.lines": count}, {})
        assert len(page[0].parts) <= form.MOST_ROWS


def texts(page: Page) -> dict[str, str]:
    return {entry.place: entry.text for top in page for entry in top.each() if entry.text}


def test_a_row_more_or_less_keeps_what_was_typed() -> None:
    fields = form.fields_of(armed({"name": "text", **LINES, "deep": {"list": {"inner": {"list": "text"}}}}))
    posted = {
        "in.name": "Ben", "rows.lines": "3", "in.lines.0.sku": "a", "in.lines.1.sku": "b", "in.lines.2.qty": "x",
        "rows.deep": "1", "rows.deep.0.inner": "2", "in.deep.0.inner.0": "p", "in.deep.0.inner.1": "q",
    }  # fmt: skip
    page = form.typed(fields, posted, {})
    more = form.changed(form.changed(page, "add:lines"), "add:deep.0.inner")
    assert texts(more) == texts(page)
    assert (len(more[1].parts), len(more[2].parts[0].parts[0].parts)) == (4, 3)
    less = form.changed(form.changed(more, "drop:lines.0"), "drop:deep.0.inner.0")
    assert texts(less) == {"name": "Ben", "lines.0.sku": "b", "lines.1.qty": "x", "deep.0.inner.0": "q"}
    for odd in ("drop:lines.9", "add:name", "add:", "x", "drop:nothing.0", "add:lines.0.sku"):
        assert form.changed(page, odd) == page, odd


def test_a_file_is_kept_taken_out_or_told_about() -> None:
    one = armed({"paper": {"file": {"kinds": ["pdf"], "max": "1 KB"}}, "papers": {"list": "file", "empty": True}})
    fields = form.fields_of(one)
    page = form.typed(fields, {"rows.papers": "2"}, {"paper": FILE, "papers.1": FILE})
    assert form.read([one], page).given == {"paper": FILE, "papers": [FILE]}
    assert form.changed(page, "drop:paper")[0].file is None
    told = form.read([one], form.typed(fields, {}, {"paper": "is too odd"}))
    assert [(entry.place, entry.wrong) for entry in told.faults] == [("paper", "is too odd")]
    large = form.read([one], form.typed(fields, {}, {"paper": {**FILE, "size": 2000}}))
    assert [entry.wrong for entry in large.faults] == ['"領収書.pdf" has 2,000 bytes, at most 1,000 are allowed']


def test_a_flow_s_own_schema_is_checked_too() -> None:
    schema = {
        "type": "object", "required": ["name"], "additionalProperties": False,
        "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "size": {"type": "integer", "minimum": 3}},
    }  # fmt: skip
    one = armed({"name": "text", "size": "integer or empty"}, schema)
    page = form.typed(form.fields_of(one), {"in.name": "ben", "in.size": "2"}, {})
    told = {entry.place: entry.wrong for entry in form.read([one], page).faults}
    assert told == {
        "name": 'the text "ben" does not fit the pattern ^[A-Z]', "size": "must be at least 3, not 2",
    }  # fmt: skip


def test_what_the_trigger_fills_in_stands_on_no_page() -> None:
    one = armed({"name": "text", "source": "text"}, fill={"source": "web"})
    fields = form.fields_of(one)
    assert list(fields) == ["name"]
    reading = form.read([one], form.typed(fields, {"in.name": "Ben"}, {}))
    assert (reading.fits, reading.given) == (True, {"name": "Ben"})


def test_a_form_of_two_flows_asks_for_what_each_needs() -> None:
    two = armed({"name": "text"}), armed({"name": "text", "mail": "email"})
    fields = form.fields_of(*two)
    assert list(fields) == ["name", "mail"]
    assert [entry.place for entry in form.read(two, form.typed(fields, {"in.name": "Ben"}, {})).faults] == ["mail"]
    both = form.typed(fields, {"in.name": "Ben", "in.mail": "b@acme.test"}, {})
    assert form.read(two, both).fits


@pytest.mark.parametrize(
    ("kind", "text", "native"),
    [("date", "2026-09-01", True), ("date", "tomorrow", False), ("time", "09:00", True), ("datetime", "9時", False)],
)
def test_a_date_that_does_not_fit_is_shown_as_it_was_typed(kind: str, text: str, native: bool) -> None:
    assert form.Entry(place="x", kind=FieldType(kind=kind), text=text).is_native is native


@pytest.mark.parametrize(
    ("trigger", "what"),
    [
        ("{ form: a, embed: ['https://x.test/page'] }", '"https://x.test/page" is not a site'),
        ("{ form: a, embed: [\"https://x.test 'self'\"] }", "\"https://x.test 'self'\" is not a site"),
        ("{ form: a, embed: ['*'] }", '"*" is not a site'),
        (
            "{ form: a, sign_in: true, embed: ['https://x.test'] }",
            '"embed" does not go with sign_in: nobody signs in inside another page',
        ),
        ("{ form: a/b }", '"a/b" is not a name'),
        ("{ form: a, embed: ['https://x.test:8443', 'http://localhost:1'] }", ""),
    ],
)
def test_where_a_form_may_stand_is_checked(tmp_path: Path, trigger: str, what: str) -> None:
    (tmp_path / "flows").mkdir()
    text = f"flow: a\ntitle: A\nowner: person:me\ntrigger: {trigger}\nsteps:\n  - {{ id: w, wait: 1 day }}\n"
    (tmp_path / "flows" / "a.yaml").write_text(text, encoding="utf-8")
    problems = [one.what for each in Project.around(tmp_path).check() for one in each.problems]
    assert problems == ([what] if what else [])
