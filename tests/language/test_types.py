"""Input types: what may be written, what may be given, and the sentence for everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.contract import Json, canonical
from runner.errors import InputsInvalid
from runner.language.schemas import read_inputs
from runner.language.types import (
    check_fields,
    email_address,
    field_type,
    read_money,
    sample,
)

INPUTS: Mapping[str, Any] = {
    "name": "text",
    "email": "email",
    "plan": {"choice": {"basic": "Basic", "pro": "Pro"}, "label": "Plan", "default": "basic"},
    "amount": {"money": "JPY"},
    "note": {"text": {"max": 20}, "empty": True, "personal": True},
    "count": "integer or empty",
    "share": {"number": {"min": 0, "max": 1}, "empty": True},
    "day": "date or empty",
    "at": "time or empty",
    "when": "datetime or empty",
    "agree": "yes_no",
    "phone": "phone or empty",
    "link": "url or empty",
    "lines": {"list": {"sku": "text", "qty": "integer"}, "empty": True},
    "tags": {"list": "text", "empty": True},
    "box": {"record": {"a": "number", "b": "text or empty"}, "empty": True},
    "paper": {"file": {"kinds": ["pdf"], "max": "1 MB"}, "empty": True},
}
GIVEN: Mapping[str, Any] = {"name": "Aya", "email": "aya@acme.example", "amount": 500, "agree": True}
PAPER = {"name": "a.PDF", "size": 10, "kind": "application/pdf", "sha256": "a" * 64}


def problem(field: str, value: Any) -> str:
    with pytest.raises(InputsInvalid) as caught:
        read_inputs(INPUTS, {**GIVEN, field: value}, zone="Asia/Tokyo")
    assert list(caught.value.problems) == [field]
    return caught.value.problems[field]


def test_defaults_are_filled_and_missing_optionals_are_none() -> None:
    found = read_inputs(INPUTS, GIVEN)
    assert list(found) == list(INPUTS)
    assert found["plan"] == "basic"
    assert found["amount"] == {"value": 500, "currency": "JPY"}
    assert found["note"] is None
    assert found["lines"] is None
    assert read_inputs(INPUTS, {**GIVEN, "note": "", "count": " "})["count"] is None


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("name", " exactly as written ", " exactly as written "),
        ("name", "007", "007"),
        ("plan", "pro", "pro"),
        ("amount", "12000", {"value": 12000, "currency": "JPY"}),
        ("amount", "12,000 JPY", {"value": 12000, "currency": "JPY"}),
        ("amount", "12000.00", {"value": 12000, "currency": "JPY"}),
        ("amount", {"value": "12000", "currency": "JPY"}, {"value": 12000, "currency": "JPY"}),
        ("count", "12", 12),
        ("count", 12.0, 12),
        ("share", "0.5", 0.5),
        ("day", "2026-09-01", "2026-09-01"),
        ("at", "09:00", "09:00"),
        ("when", "2026-09-01T09:00", "2026-09-01T09:00:00+09:00"),
        ("when", "2026-09-01T00:00:00Z", "2026-09-01T00:00:00+00:00"),
        ("agree", "yes", True),
        ("agree", "FALSE", False),
        ("agree", False, False),
        ("phone", "+81 (3) 1234-5678", "+81 (3) 1234-5678"),
        ("link", "https://example.test:8080/a?b=c#d", "https://example.test:8080/a?b=c#d"),
        ("lines", '[{"sku": "a", "qty": "2"}]', [{"sku": "a", "qty": 2}]),
        ("tags", ["a", "b"], ["a", "b"]),
        ("box", {"a": 1}, {"a": 1, "b": None}),
        ("paper", PAPER, PAPER),
    ],
)
def test_values_are_read_as_a_form_gives_them(field: str, value: Any, wanted: Any) -> None:
    found = read_inputs(INPUTS, {**GIVEN, field: value}, zone="Asia/Tokyo")[field]
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", None, "is required and has no value"),
        ("name", "  ", "must not be empty"),
        ("name", 5, "must be a text, not 5"),
        ("plan", "gold", 'must be one of basic, pro, not the text "gold"'),
        ("amount", "", "is required and has no value"),
        ("amount", "12,00", 'the text "12,00" is not an amount of money: write it as 12,000 JPY'),
        ("amount", "10.5 JPY", "10.5 JPY is not an amount: JPY has no decimals"),
        ("amount", "5 USD", "must be in JPY, not in USD"),
        ("amount", True, "yes is not an amount of money: write it as 12,000 JPY"),
        ("note", "x" * 21, "has 21 characters, at most 20 are allowed"),
        ("count", "1.5", "must be a whole number, not 1.5"),
        ("count", "1e3", 'the text "1e3" is not a number'),
        ("count", "1,000", 'the text "1,000" is not a number, write it without separators'),
        ("count", True, "must be a number, not yes"),
        ("count", float("nan"), "is too large a number"),
        ("share", "1.5", "must be at most 1, not 1.5"),
        ("share", -1, "must be at least 0, not -1"),
        ("day", "2026-02-30", 'the text "2026-02-30" is not a day of the calendar or a time of the clock'),
        (
            "day",
            "01.09.2026",
            'the text "01.09.2026" is not a date: write it as 2026-09-01',
        ),
        ("day", "2026-09-01T09:00", 'the text "2026-09-01T09:00" has a time of day, a date is written as 2026-09-01'),
        ("at", "25:00", 'the text "25:00" is not a time of the clock'),
        ("at", "9:00", 'the text "9:00" is not a time: write it as 09:00'),
        ("when", "2026-09-01", 'the text "2026-09-01" has no time of day, write it as 2026-09-01T09:00'),
        ("agree", "on", 'must be yes or no (true or false), not the text "on"'),
        ("agree", 0, "must be yes or no (true or false), not 0"),
        ("agree", "", "is required and has no value"),
        ("phone", "call me", 'the text "call me" is not a phone number: write it as +81 3 1234 5678'),
        ("phone", "123\n456", "must be a phone number on one line, without line breaks"),
        ("link", "javascript:alert(1)", "is not a web address"),
        ("link", "https://user@evil.test/", "is not a web address"),
        ("link", "https://", "is not a web address"),
        ("link", "https://a b.test", "is not a web address"),
        ("lines", "a, b", 'must be a list, written as JSON that begins with "["'),
        ("lines", [{"sku": "a"}], "item 1: qty: is required and has no value"),
        ("lines", [{"sku": "a", "qty": 1, "x": 2}], "item 1: x: there is no such field, there are: qty, sku"),
        ("tags", ["a", None], "item 2 has no value"),
        ("box", [], "must be a record, not a list"),
        ("paper", {"name": "a"}, "must be a stored file with name, size, kind and sha256"),
        ("paper", {**PAPER, "name": "a.exe"}, '"a.exe" is not one of the kinds pdf'),
        ("paper", {**PAPER, "size": 2_000_000}, '"a.PDF" has 2,000,000 bytes, at most 1,000,000 are allowed'),
        ("nmae", "x", 'there is no such field, did you mean "name"?'),
    ],
)
def test_what_does_not_fit_gets_one_sentence(field: str, value: Any, sentence: str) -> None:
    assert sentence in problem(field, value)


def test_all_problems_come_at_once() -> None:
    with pytest.raises(InputsInvalid) as caught:
        read_inputs(INPUTS, {"email": "@", "agree": "maybe"})
    assert set(caught.value.problems) == {"name", "email", "amount", "agree"}


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("txt", 'there is no type "txt": did you mean "text"?'),
        ("choice", "a choice needs its values: { choice: [a, b] }"),
        (5, "a type is a word, such as text, or a record, such as { choice: [a, b] }, not 5"),
        ({"type": "date"}, "the long form has no type word: write { date: null }"),
        ({"choise": ["a"]}, 'the long form has no type word: did you mean "choice"?'),
        ({"text": None, "date": None}, "the long form has two types: text and date"),
        ({"text": None, "lable": "x"}, '"lable" does not belong beside text: did you mean "label"?'),
        ({"text": {"mx": 1}}, '"mx" does not belong behind text: did you mean "max"?'),
        ({"text": {"pattern": "a"}}, '"pattern" does not belong behind text'),
        ({"number": {"min": 5, "max": 1}}, '"min" of number is larger than "max"'),
        ({"money": "yen"}, 'money is followed by its currency, such as { money: JPY }, not by the text "yen"'),
        ({"choice": []}, "a choice needs at least one value"),
        ({"choice": ["a", "a"]}, 'the text "a" stands twice among the choices'),
        ({"choice": [True]}, "a choice is between texts or whole numbers, not yes: put it in quotes"),
        ({"file": {"max": 5}}, "5 is not a size: write it as 10 MB"),
        ({"file": {"kind": []}}, '"kind" does not belong behind file: did you mean "kinds"?'),
        ({"text": None, "empty": "yes"}, '"empty" is true or false, not the text "yes"'),
        ({"list": "txt"}, 'there is no type "txt": did you mean "text"?'),
        ({"record": {"a b": "text"}}, '"a b" is not a name: use letters, digits and _, a letter first'),
        ({"date": "2026"}, "date takes nothing behind it"),
    ],
)
def test_a_wrong_type_names_the_nearest_word(written: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        field_type(written)
    assert sentence in str(caught.value)


def test_the_long_form_keeps_everything() -> None:
    found = field_type(
        {"choice": {"mon": "月曜"}, "label": "曜日", "help": "h", "empty": True, "default": "mon", "personal": True}
    )
    assert (found.kind, found.choices, found.label, found.help) == ("choice", {"mon": "月曜"}, "曜日", "h")
    assert (found.optional, found.default, found.personal) == (True, "mon", True)
    lines = field_type({"list": {"date": "date", "text": "text"}})
    assert lines.items is not None
    assert lines.items.fields is not None
    assert set(lines.items.fields) == {"date", "text"}
    assert field_type({"list": {"choice": ["a"]}}).items == field_type({"choice": ["a"]})


def test_check_fields_converts_nothing() -> None:
    fields = {"id": "text", "amount": "number", "note": "text or empty", "to": "email or empty", "x": "any or empty"}
    assert check_fields(fields, {"id": "", "amount": 5, "note": None, "x": [1]}) == ()
    assert check_fields(fields, {"id": 5, "amount": "5", "to": "a@b", "idd": 1}) == (
        "id: must be a text, not 5",
        'amount: must be a number, not the text "5"',
        'to: the text "a@b" has no domain behind the @: write it as name@example.test',
        'idd: there is no such field, did you mean "id"?',
    )


def test_a_bare_number_is_money_where_the_type_names_the_currency() -> None:
    way_out = "write { value: 12000, currency: JPY }, or a bare number where the type is { money: JPY }"
    yen: Json = {"money": "JPY"}
    assert check_fields({"m": "money"}, {"m": 5}) == (f"m: must be an amount of money, not 5: {way_out}",)
    assert check_fields({"m": yen}, {"m": 5}) == ()
    assert check_fields({"m": yen}, {"m": "5"}) == (f'm: must be an amount of money, not the text "5": {way_out}',)
    assert read_money(field_type({"list": {"a": yen, "b": "text"}}), [{"a": 5, "b": 5}, {"c": 1}], strict=True) == [
        {"a": {"value": 5, "currency": "JPY"}, "b": 5},
        {"c": 1},
    ]
    assert read_money(field_type(yen), "48,000 JPY") == {"value": 48000, "currency": "JPY"}


def test_samples_fit_their_types() -> None:
    fields = {name: kind for name, kind in INPUTS.items() if name != "paper"}
    made = sample(fields)
    assert made == sample(fields)
    assert read_inputs(fields, made)["amount"] == {"value": 1000, "currency": "JPY"}
    assert check_fields(fields, made) == ()


@pytest.mark.parametrize(
    "address", ["a@b.co", "first.last+tag@sub.example.test", "x_y-z@acme.example", "root@localhost"]
)
def test_good_addresses_stay_as_they_are(address: str) -> None:
    assert email_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "", "@", "a", "a@", "@b.co", "a@b", "a b@c.de", "a@b c.de", "a..b@c.de", ".a@b.co", "a@-b.co", "a@b..co", "None",
        "a@b.co, c@d.co", "a@b.co;c@d.co", "A <a@b.co>", "<a@b.co>", "a@b.co\n", "a@b.co\r\nBcc: x@y.co", "a\u2028@b.co",
        "a@b.co\x00", "a@b.co\u0085", '"a b"@c.co', "a@[127.0.0.1]", "ü@b.co", "a@bü.co", "a@b.co>", "a" * 65 + "@b.co",
        "a@" + "b" * 64 + ".co", "a@b.co (x)", "mailto:a@b.co" + "\t",
    ],
)  # fmt: skip
def test_anything_else_is_no_address(address: str) -> None:
    with pytest.raises(ValueError):
        email_address(address)


def test_an_input_may_be_called_schema() -> None:
    assert read_inputs({"schema": "text"}, {"schema": "x"}) == {"schema": "x"}


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
fitting = st.fixed_dictionaries(
    {"name": words, "email": st.just("a@b.co"), "amount": st.integers(-(10**9), 10**9), "agree": st.booleans()},
    optional={
        "plan": st.sampled_from(["basic", "pro"]),
        "note": words,
        "count": st.integers(-(10**9), 10**9) | st.integers(0, 99).map(str),
        "share": st.floats(0, 1),
        "day": st.dates().map(str),
        "when": st.datetimes().map(lambda one: one.isoformat(timespec="seconds")),
        "tags": st.lists(words, max_size=3),
        "lines": st.lists(st.fixed_dictionaries({"sku": words, "qty": st.integers(0, 9)}), max_size=2),
    },
)


@settings(max_examples=100, deadline=None)
@given(fitting)
def test_whatever_is_read_reads_back_the_same(values: dict[str, Any]) -> None:
    found = read_inputs(INPUTS, values)
    assert canonical(read_inputs(INPUTS, found)) == canonical(found)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(INPUTS)), anything)
def test_whatever_is_given_only_sentences_come_out(field: str, value: Any) -> None:
    try:
        found = read_inputs(INPUTS, {**GIVEN, field: value})
    except InputsInvalid as error:
        assert list(error.problems) == [field]  # noqa: PT017
        return
    canonical(found)


@settings(max_examples=100, deadline=None)
@given(anything)
def test_whatever_is_written_as_a_type_only_a_value_error_comes_out(written: Any) -> None:
    try:
        field_type(written)
    except ValueError as error:
        assert "\n" not in str(error) or "\n" in str(written)  # noqa: PT017
