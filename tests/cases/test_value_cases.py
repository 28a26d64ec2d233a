"""Cases of values: absent and textual values, template signs in data, months, validation, fields in mails and logs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest

from runner.errors import EvaluationError, InputsInvalid
from runner.language.expressions import condition, evaluate, faults
from runner.language.load import load_flow
from runner.language.schema_files import fields_of, read_schema
from runner.language.schemas import read_inputs
from runner.language.templates import render_mail
from runner.language.types import email_address
from runner.language.validity import FORMATS

BY_SCHEMA = "flow: small\ntitle: Small\nowner: person:me\ninputs: { schema: schemas/order.json }\nsteps: [{ id: a, wait: 1 s }]\n"
FORM: Mapping[str, Any] = {
    "name": "text",
    "email": "email",
    "agree": "yes_no",
    "amount": {"money": "JPY"},
    "note": "text or empty",
}
FULL: Mapping[str, Any] = {"name": "Aya", "email": "aya@acme.example", "agree": "yes", "amount": "500"}


def answer(value: Any, scope: Mapping[str, Any]) -> Any:
    return evaluate(value, scope, now=0, zone="UTC")


# --- G1: absent, empty and textual values --------------------------------------------------------------------------


def test_g1_a_form_without_the_address_does_not_start_a_run() -> None:
    given = {name: value for name, value in FULL.items() if name != "email"}
    for form in (given, {**given, "email": ""}, {**given, "email": None}):
        with pytest.raises(InputsInvalid) as caught:
            read_inputs(FORM, form)
        assert caught.value.problems == {"email": "is required and has no value"}


@pytest.mark.parametrize("value", ["None", "null", "undefined", "@", "a@b", "aya@acme.example\nBcc: x@evil.example"])
def test_g1_no_word_for_nothing_is_an_address(value: str) -> None:
    with pytest.raises(ValueError):
        email_address(value)


@pytest.mark.parametrize("text", ["false", "0", "", "no", "False"])
def test_g1_a_switch_posted_as_text_is_never_a_yes(text: str) -> None:
    try:
        agree = read_inputs(FORM, {**FULL, "agree": text})["agree"]
    except InputsInvalid as error:
        assert list(error.problems) == ["agree"]  # noqa: PT017
        assert text in ("0", "")
        return
    assert agree is False
    assert condition("${{ inputs.agree }}", {"inputs": {"agree": agree}}, now=0, zone="UTC") is False


@pytest.mark.parametrize("value", ["false", "0", "", "true", "yes", 0, 1, [], ["x"], {}, {"a": 1}])
def test_g1_only_a_yes_or_no_decides(value: Any) -> None:
    scope = {"body": {"agree": value}}
    for text in (
        "${{ body.agree }}",
        "${{ not body.agree }}",
        "${{ body.agree and true }}",
        "${{ body.agree or true }}",
    ):
        with pytest.raises(EvaluationError, match="yes or no"):
            condition(text, scope, now=0, zone="UTC")


@pytest.mark.parametrize("inputs", [{}, {"amount": None}])
def test_g1_an_absent_value_is_an_error_and_never_the_word_none(inputs: Mapping[str, Any]) -> None:
    scope = {"inputs": inputs}
    for text in (
        "${{ inputs.amount }}",
        "pay ${{ inputs.amount }}",
        "${{ inputs.amount == 5 }}",
        "${{ inputs.amount | json }}",
    ):
        with pytest.raises(EvaluationError, match=r"inputs\.amount has no value"):
            answer(text, scope)
    assert answer("pay ${{ inputs.amount | default('nothing') }}", scope) == "pay nothing"


def test_g1_an_empty_text_is_not_an_absent_value() -> None:
    scope = {"inputs": {"amount": ""}}
    assert answer("[${{ inputs.amount | default('x') }}]", scope) == "[]"
    assert answer("${{ given(inputs.amount) }}", scope) is True
    with pytest.raises(EvaluationError):
        answer("${{ inputs.amount > 5 }}", scope)
    assert read_inputs({"amount": "number or empty"}, {"amount": ""}) == {"amount": None}


def test_g1_lists_and_records_are_not_program_text_in_a_letter() -> None:
    scope = {"inputs": {"tags": ["a", "b"], "who": {"name": {"first": "Aya"}}}}
    for text in ("Dear ${{ inputs.tags }}", "Dear ${{ inputs.who }}", "Dear ${{ inputs.who.name }}"):
        with pytest.raises(EvaluationError, match="use join or json"):
            answer(text, scope)
        with pytest.raises(EvaluationError, match="use join or json"):
            render_mail({"t.md": text}, "t", scope, language="en", now=0, zone="UTC")
    assert answer("Dear ${{ inputs.tags | join(' and ') }}", scope) == "Dear a and b"


# --- G2: form text is never a template -----------------------------------------------------------------------------

TYPED = [
    "{{ secrets.SMTP_PASSWORD }}",
    "${{ secrets.SMTP_PASSWORD }}",
    "{{ 7*7 }}",
    "${{ 7*7 }}",
    "{% raw",
    "{% for x in y %}",
    "{# comment",
    "}} ${{",
    "a long { text } with {{ braces }} and ${ more } ${{",
    "%s %(x)s {0.__class__}",
    "\\${{ 1 }} $${{ 1 }}",
]


@pytest.mark.parametrize("typed", TYPED)
def test_g2_form_text_is_shown_and_never_read(typed: str) -> None:
    inputs = read_inputs(FORM, {**FULL, "name": typed})
    assert inputs["name"] == typed
    sent = answer({"name": "${{ inputs.name }}", "title": "Onboard ${{ inputs.name }}"}, {"inputs": inputs})
    assert sent == {"name": typed, "title": f"Onboard {typed}"}
    back = {"steps": {"contact": sent}, "output": sent, "failure": {"summary": typed}}
    again = answer(["${{ steps.contact.name }}", "${{ output.title }}", "Stopped, ${{ failure.summary }}"], back)
    assert again == [typed, f"Onboard {typed}", f"Stopped, {typed}"]
    for _ in range(2):
        mail = render_mail(
            {"t.md": "subject: Hi ${{ n }}\n${{ n }}"}, "t", {"n": typed}, language="en", now=0, zone="UTC"
        )
        assert mail["text"] == typed
        assert mail["subject"] == "Hi " + " ".join(typed.split())


@pytest.mark.parametrize("name", ["secrets", "env", "environ", "settings", "config", "connection_token"])
def test_g2_no_expression_reaches_a_secret(name: str) -> None:
    with pytest.raises(EvaluationError, match="has no value"):
        answer("${{ " + name + ".SMTP_PASSWORD }}", {"inputs": {}})


# --- R12: month arithmetic -----------------------------------------------------------------------------------------


def months(day: str, *amounts: int) -> str:
    text = f"'{day}'" + "".join(f" | add_months({amount})" for amount in amounts)
    return str(answer("${{ " + text + " }}", {}))


def test_r12_the_last_day_of_a_shorter_month_and_no_way_back() -> None:
    assert months("2026-01-31", 1) == "2026-02-28"
    assert months("2028-01-31", 1) == "2028-02-29"
    assert months("2026-01-31", 1, 1) == "2026-03-28"
    assert months("2026-01-31", 2) == "2026-03-31"
    assert months("2026-05-31", 3, -3) == "2026-05-31"
    assert months("2026-11-30", 3, -3) == "2026-11-28"
    assert months("2026-12-15", 1) == "2027-01-15"
    assert months("2026-01-15", -1) == "2025-12-15"
    assert months("2024-02-29", 12) == "2025-02-28"


def test_r12_recurring_dates_come_from_the_first_one() -> None:
    dates = [months("2026-01-31", number) for number in range(5)]
    assert dates == ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"]


# --- R13: validation that is on ------------------------------------------------------------------------------------


def read_by(part: Mapping[str, Any], value: Any) -> Any:
    """A value as the input that this schema is for."""
    schema, problems = read_schema(json.dumps({"type": "object", "properties": {"x": part}}), "x.json")
    assert schema is not None, problems
    return read_inputs(fields_of(schema), {"x": value}, schema=schema)["x"]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"formt": "email"}, 'FL003 "formt" is not checked here; did you mean "format"?'),
        ({"maxlength": 5}, 'FL003 "maxlength" is not checked here; did you mean "maxLength"?'),
        ({"items": {"requird": ["sku"]}}, 'FL003 "requird" is not checked here; did you mean "required"?'),
        ({"format": "hostname"}, 'FL006 the format "hostname" is not checked here; formats: date'),
        (
            {"pattern": "^(?=a)(a+)+$"},
            'FL006 the pattern "^(?=a)(a+)+$" cannot be checked; write it without look-ahead',
        ),
        (
            {"$ref": "https://example.test/x.json"},
            'FL006 "https://example.test/x.json" does not lead to a schema in this file',
        ),
    ],
)
def test_r13_what_would_not_be_checked_is_refused_when_the_file_loads(part: Mapping[str, Any], told: str) -> None:
    schema = json.dumps({"type": "object", "properties": {"x": part}})
    flow, _, problems = load_flow(BY_SCHEMA, "small.yaml", lambda name: (schema, None))
    assert [(one.file, one.line > 0) for one in problems] == [("schemas/order.json", True)]
    assert f"{problems[0].code} {problems[0].what}; {problems[0].hint}".startswith(told)
    assert flow is not None
    assert flow.schema is None


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"type": "string", "format": "email"}, "a@b.co", "@"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-30"),
        ({"type": "string", "format": "date-time"}, "2026-09-01T09:00:00+09:00", "yesterday"),
        ({"type": "array", "items": {"format": "date-time"}}, ["2026-09-01T09:00:00Z"], ["2026-09-01T09:00:00"]),
        ({"type": "string", "format": "uri"}, "https://example.test/", "not a url"),
        ({"type": "string", "format": "uuid"}, "12345678-1234-1234-1234-1234567890ab", "1234"),
        ({"type": "number", "multipleOf": 0.01}, 19.99, 19.995),
        ({"type": "number", "multipleOf": 0.01}, 10**29, 10.001),
        ({"type": "string", "pattern": r"^\d{3}$"}, "123", "１２３"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "ab", "ab\n"),
    ],
)
def test_r13_what_is_accepted_is_enforced(part: Mapping[str, Any], good: Any, bad: Any) -> None:
    assert read_by(part, good) == good
    with pytest.raises(InputsInvalid) as caught:
        read_by(part, bad)
    assert list(caught.value.problems) == ["x"]


def test_r13_every_format_that_is_accepted_has_its_case() -> None:
    assert set(FORMATS) == {"email", "date", "date-time", "uri", "uuid"}


def test_r13_a_pattern_that_took_seconds_is_decided_at_once() -> None:
    began = time.perf_counter()
    with pytest.raises(InputsInvalid, match="does not fit the pattern"):
        read_by({"type": "string", "pattern": "^(a+)+$"}, "a" * 20_000 + "b")
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("email", "a@b.co", "@"),
        ("date", "2026-02-28", "2026-02-30"),
        ("time", "09:00", "25:00"),
        ("url", "https://example.test/", "not a url"),
        ({"text": {"max": 3}}, "abc", "abcd"),
        ({"number": {"min": 1}}, 1, 0.5),
    ],
)
def test_r13_every_type_that_is_accepted_is_enforced(kind: Any, good: Any, bad: Any) -> None:
    assert read_inputs({"x": kind}, {"x": good}) == {"x": good}
    with pytest.raises(InputsInvalid):
        read_inputs({"x": kind}, {"x": bad})


# --- H2: form text in subjects and HTML ----------------------------------------------------------------------------


class Drawn(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "typed",
    [
        '<a href="https://evil.example" style="background:green;padding:12px">Approve</a>',
        "[Approve](https://evil.example)",
        "[Approve][1]\n\n[1]: https://evil.example",
        "<https://evil.example>",
        "![x](https://evil.example/track.png)",
        "<img src=x onerror=alert(1)>",
        "x</p></body><script>alert(1)</script>",
    ],
)
def test_h2_a_field_draws_no_link_and_no_button(typed: str) -> None:
    scope = {"inputs": {"message": typed}}
    markdown = "subject: News\nThey wrote:\n\n> ${{ inputs.message }}\n\n[Review](https://ours.example/r)\n"
    page = '<p>${{ inputs.message }}</p><a href="https://ours.example/r">Review</a>'
    files = {"a.md": markdown, "b.txt": "x", "b.html": page}
    for name in ("a", "b"):
        seen = Drawn(render_mail(files, name, scope, language="en", now=0, zone="UTC")["html"])
        assert seen.tags.count("a") == 1
        assert not {"img", "script", "style"} & set(seen.tags)
        assert "".join(typed.split()) in "".join(seen.text.split())


@pytest.mark.parametrize("sign", ["\r\nBcc: x@evil.example", "\n", "\u2028", "\u0085", "\x0b", "\x00"])
def test_h2_line_breaks_in_a_subject_become_a_space(sign: str) -> None:
    scope = {"inputs": {"name": f"Aya{sign}B"}}
    subject = render_mail({"t.md": "subject: For ${{ inputs.name }}\nx"}, "t", scope, language="en", now=0, zone="UTC")[
        "subject"
    ]
    assert subject.isprintable()
    assert subject.startswith("For Aya B")


def test_h2_long_japanese_texts_arrive_whole() -> None:
    name = "株式会社" * 20
    mail = render_mail({"t.md": "subject: ${{ n }}様\n${{ n }}"}, "t", {"n": name}, language="ja", now=0, zone="UTC")
    assert mail["subject"] == f"{name}様"
    assert f"<p>{name}</p>" in mail["html"]


def test_the_cases_use_texts_without_faults() -> None:
    assert faults("Stopped, ${{ failure.summary }}") == ()
