"""Cases of values: absent and textual values, template signs in data, months, validation, fields in mails and logs."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest

from runner.errors import EvaluationError, InputsInvalid
from runner.language.expressions import condition, evaluate, faults
from runner.language.templates import render_mail
from runner.language.types import email_address, read_inputs, schema_faults

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


def schema(**parts: Any) -> dict[str, Any]:
    return {"type": "object", "properties": parts}


@pytest.mark.parametrize(
    ("word", "good", "bad"),
    [
        ("email", "a@b.co", "@"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-09-01T09:00:00Z", "2026-09-01T09:00:00"),
        ("time", "09:00", "25:00"),
        ("uri", "https://example.test/", "not a uri"),
        ("uuid", "6c0bd1e0-6d1c-4b8e-9f5a-5a4a2f6a8f10", "6c0bd1e0"),
        ("ipv4", "192.0.2.1", "192.0.2.300"),
        ("ipv6", "2001:db8::1", "192.0.2.1"),
    ],
)
def test_r13_every_format_that_is_accepted_is_enforced(word: str, good: str, bad: str) -> None:
    inputs = {"schema": schema(x={"type": "string", "format": word})}
    assert read_inputs(inputs, {"x": good}) == {"x": good}
    with pytest.raises(InputsInvalid) as caught:
        read_inputs(inputs, {"x": bad})
    assert caught.value.problems == {"x": f'the text "{bad}" does not fit the format {word}'}


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"format": "hostname"}, 'the format "hostname" is not checked here'),
        ({"formt": "email"}, '"formt" is not checked here: did you mean "format"?'),
        ({"maxlength": 5}, '"maxlength" is not checked here: did you mean "maxLength"?'),
        ({"pattern": "^(a+)+$"}, 'the pattern "^(a+)+$" could run for ever'),
        ({"patternProperties": {"(a|a)*": {}}}, '"patternProperties" is not checked here'),
        ({"$ref": "https://example.test/x.json"}, "does not lead to a place under $defs of this file"),
        ({"items": {"requird": []}}, 'in /properties/x/items: "requird" is not checked here'),
    ],
)
def test_r13_what_would_not_be_checked_is_refused_when_it_loads(part: dict[str, Any], sentence: str) -> None:
    found = schema_faults(schema(x=part))
    assert len(found) == 1
    assert sentence in found[0]
    with pytest.raises(InputsInvalid):
        read_inputs({"schema": schema(x=part)}, {"x": "y"})


def test_r13_a_price_is_a_multiple_of_a_cent() -> None:
    inputs = {"schema": schema(x={"type": "number", "multipleOf": 0.01})}
    assert read_inputs(inputs, {"x": 19.99}) == {"x": 19.99}
    with pytest.raises(InputsInvalid, match=r"must be a multiple of 0\.01, not 19\.995"):
        read_inputs(inputs, {"x": 19.995})


def test_r13_a_schema_that_refers_to_itself_ends_with_a_sentence() -> None:
    loop = {**schema(x={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    with pytest.raises(InputsInvalid, match="refers to itself without an end"):
        read_inputs({"schema": loop}, {"x": 1})


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
