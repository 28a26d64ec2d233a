"""Cases from the field that begin in a file: what people write, and what must become of it."""

from __future__ import annotations

from time import perf_counter

import pytest

from runner.errors import InvalidFlow
from runner.language.bundle import assemble
from runner.language.load import load_flow
from tests.language.ground import check, facts, told

HEAD = "flow: flow\ntitle: A small flow\nowner: person:me\nrun_key: ${{ inputs.email }}\ninputs: { email: email }\nsteps:\n"
PLAIN = [
    "00123",
    "09012345678",
    "+4912345",
    "1.10",
    "5319E7",
    "1_000",
    "2026-02-28",
    "2026-02-30",
    "12:30",
    "no",
    "on",
    "42",
    "true",
]
CHANGED = ["00123", "09012345678", "+4912345", "1.10", "5319E7"]


def flow(value: str) -> str:
    return HEAD + f"  - id: made\n    do: tasks.create\n    with:\n      title: {value}\n    compensate: cancel\n"


# --- F1: scalars that quietly change --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", PLAIN)
def test_f1_a_text_field_gets_the_characters_that_were_written_or_the_author_is_told(value: str) -> None:
    loaded, problems = check(flow(value))
    assert loaded is not None
    if not problems:
        assert loaded.steps[0].with_["title"] == value
        return
    assert [(one.code, one.line, one.column) for one in problems] == [("FL002", 10, 14)]
    assert problems[0].hint == f'write it in quotes: "{value}"'
    quoted, after = check(flow(f'"{value}"'))
    assert not after
    assert quoted is not None
    assert quoted.steps[0].with_["title"] == value


@pytest.mark.parametrize("value", CHANGED)
def test_f1_a_value_that_would_read_back_differently_is_told_wherever_it_stands(value: str) -> None:
    text = HEAD + (
        "  - id: sent\n    do: http.post\n    with:\n      url: https://acme.example\n"
        f"      json: {{ code: {value} }}\n    compensate: {{ none: It is only a test. }}\n"
    )
    found = check(text)[1]
    assert [(one.code, one.line, one.column) for one in found] == [("FL002", 11, 21)]
    assert found[0].what.startswith(f"{value} would be read as ")


def test_f1_a_text_after_a_number_sign_is_not_lost() -> None:
    found = told(flow("Order #42"))
    assert 'YAML drops "#42" here' in found
    assert 'if it is text: "Order #42"' in found
    assert told(flow('"Order #42"')) == ""
    assert told(flow("Order  # the usual one")) == ""


def test_f1_an_impossible_date_is_told_with_its_place() -> None:
    text = flow("x").replace("      title: x\n", "      title: x\n      due: 2026-02-30\n")
    assert check(text)[1] == () or "2026-02-30" in told(text)


# --- F2: unquoted braces --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("title: {{ inputs.email }}", 'title: "${{ inputs.email }}"'),
        ("title: Re: {{ inputs.email }}", 'title: "Re: ${{ inputs.email }}"'),
        ("title: Re: ${{ inputs.email }}", 'title: "Re: ${{ inputs.email }}"'),
        ("title: {{ inputs.email }}@x", 'title: "${{ inputs.email }}@x"'),
        ("{ title: ${{ inputs.email }} }", '{ title: "${{ inputs.email }}" }'),
        ('{ title: ${{ inputs.email | default("x") }} }', "{ title: \"${{ inputs.email | default('x') }}\" }"),
    ],
)
def test_f2_braces_without_quotes_are_one_plain_sentence_with_the_line_as_it_should_be(line: str, fixed: str) -> None:
    text = flow("x").replace("    with:\n      title: x\n", f"    with:\n      {line}\n")
    problems = check(text)[1]
    assert [(one.code, one.line) for one in problems] == [("FL004", 10)]
    assert problems[0].what.startswith("put quotes around the expression ")
    assert problems[0].hint == f"write the line so:  {fixed}"
    assert told(text.replace(line, fixed)) == ""


@pytest.mark.parametrize("value", ["@x", "*", "%x", "`x`", "&x", "! x"])
def test_f2_signs_that_begin_no_text_are_named(value: str) -> None:
    problems = check(flow(value))[1]
    assert problems
    assert all(one.code == "FL004" and one.line == 10 for one in problems)


def test_f2_the_wrong_form_is_never_made_into_something_that_runs() -> None:
    with pytest.raises(InvalidFlow):
        assemble(flow("{{ inputs.email }}"), "flow.yaml", facts())
    with pytest.raises(InvalidFlow):
        assemble(flow("x").replace("{ email: email }", "{ email: ${{ x }} }"), "flow.yaml", facts())
    assert "FL007" in told(flow('"{{ inputs.email }}"'))


# --- R1: a typo drops the safety net --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("compensate:", "compensat:"),
        ("run_key:", "runkey:"),
        ("inputs:", "input:"),
        ("owner:", "ownr:"),
        ("with:", "wiht:"),
    ],
)
def test_r1_a_misspelt_key_is_an_error_that_names_the_right_one(right: str, wrong: str) -> None:
    problems = check(flow("x").replace(right, wrong, 1))[1]
    first = next(one for one in problems if one.code == "FL003")
    assert first.level == "error"
    assert first.what.startswith(f'"{wrong[:-1]}" is not a key of ')
    assert first.hint == f'did you mean "{right[:-1]}"?'


def test_r1_a_misspelt_gate_is_an_error() -> None:
    text = flow("x") + "  - id: go\n    aprove: Shall we?\n    covers: [made]\n    by: person:me\n"
    assert '"aprove" is not a word that a step can have' in told(text)


# --- R4: alias bomb and self-reference ------------------------------------------------------------------------------


def test_r4_an_alias_bomb_is_refused_at_once() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    began = perf_counter()
    loaded, _, problems = load_flow(HEAD + bomb, "flow.yaml")
    assert perf_counter() - began < 1
    assert {one.code for one in problems if "alias" in one.what or "anchor" in one.what} == {"FL004"}
    assert "x" * 10 not in str(loaded)


def test_r4_a_list_that_holds_itself_is_refused() -> None:
    problems = load_flow(flow("x") + "outputs:\n  a: &a [*a]\n", "flow.yaml")[2]
    assert [one.what for one in problems] == [
        'the anchor "&a" is not accepted; write the value out where it is needed',
        'the alias "*a" is not accepted; write the value out',
    ]


def test_r4_depth_and_size_are_bounded() -> None:
    deep = load_flow(HEAD + "inputs: " + "{a: " * 200, "flow.yaml")[2]
    assert "this is nested more than 50 levels deep" in {one.what for one in deep}
    large = load_flow("flow: " + "x" * 2_000_000, "flow.yaml")[2]
    assert [one.code for one in large] == ["FL004"]
