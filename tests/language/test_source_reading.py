"""Reading: places, styles, and everything that is refused."""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.language.source import Path, Place, Source, plain_value, read, read_bytes, reads_differently

WHOLE = """# a comment
title: 佐藤 "x"
steps:
  - id: one
    with: { email: "a ${{ inputs.emial }} b", code: 'it''s', n: 3 }
    text: |
      first
      second ${{ x.y }}
    folded: >
      one
      two ${{ z }}
    plain: begins here
      and goes on ${{ q }}
    escaped: "tab\\t日本\\u672c ${{ r }}"
"""


def source_of(text: str) -> Source:
    source, problems = read(text, "flow.yaml")
    assert not problems, problems
    assert source is not None
    return source


def said(text: str) -> list[str]:
    return [f"{one.code} {one.line}:{one.column} {one.what}" for one in read(text, "flow.yaml")[1]]


def test_every_value_and_key_has_its_place() -> None:
    source = source_of(WHOLE)
    assert source.at(("steps", 0, "with", "email")) == Place(line=5, column=20, length=25)
    assert source.key(("steps", 0, "with", "email")) == Place(line=5, column=13, length=5)
    assert source.at(("title",)) == Place(line=2, column=8, length=6)
    assert source.at(("steps", 0)) == Place(line=4, column=5, length=2)
    assert source.at(("steps", 0, "with", "nothing", "here")) == source.at(("steps", 0, "with"))


@pytest.mark.parametrize(
    ("path", "word", "line", "around"),
    [
        (("with", "email"), "inputs.emial", 5, "${{ inputs.emial }} b"),
        (("text",), "x.y", 8, "${{ x.y }}"),
        (("folded",), "z", 11, "${{ z }}"),
        (("plain",), "q", 13, "${{ q }}"),
        (("escaped",), "r", 14, "${{ r }}"),
    ],
)
def test_a_word_inside_a_text_has_its_place(path: tuple[str, ...], word: str, line: int, around: str) -> None:
    source = source_of(WHOLE)
    whole: Path = ("steps", 0, *path)
    place = source.inside(whole, source.scalars[whole].text.index("${{") + 4, len(word))
    column = WHOLE.split("\n")[line - 1].index(around) + 5
    assert place == Place(line=line, column=column, length=len(word))


def test_windows_line_ends_and_a_byte_order_mark_are_fine() -> None:
    source = source_of("\ufeff" + WHOLE.replace("\n", "\r\n"))
    assert source.data == source_of(WHOLE).data
    assert source.at(("steps", 0, "with", "email")).line == 5


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("2026-02-30", "2026-02-30"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("Order", "Order"),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(plain: str, value: object) -> None:
    assert plain_value(plain) == value
    assert type(plain_value(plain)) is type(value)


@pytest.mark.parametrize("text", ["00123", "1.10", "5319E7", "+4912345", "0x1F", "True", "1.0e2", "-0"])
def test_values_that_read_back_differently_are_known(text: str) -> None:
    assert reads_differently(text)


@pytest.mark.parametrize("text", ["0", "12", "-3", "1.5", "true", "false", "Order", "09:00", "2026-09-01", "yes"])
def test_values_that_read_back_as_written_are_left_alone(text: str) -> None:
    assert not reads_differently(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", 'FL001 2:1 the key "a" is written twice (first on line 1)'),
        ("a: &x 1\n", 'FL004 1:4 the anchor "&x" is not accepted; write the value out where it is needed'),
        ("a: *x\n", 'FL004 1:4 the alias "*x" is not accepted; write the value out'),
        ("a: !!str 3\n", 'FL004 1:4 the tag "!!str" is not accepted; quotes make a text, a bare number is a number'),
        ("a: !mine {}\n", 'FL004 1:4 the tag "!mine" is not accepted; quotes make a text, a bare number is a number'),
        ("<<: { a: 1 }\n", 'FL004 1:1 the merge key "<<" is not accepted; write the keys out'),
        ("%YAML 1.1\n---\na: 1\n", 'FL004 1:1 "%YAML" is not accepted; take the line out'),
        ("a:\n\tb: 1\n", "FL004 2:1 a tab stands here; YAML wants spaces"),
        ("a: 1\t\n", "FL004 1:5 a tab stands here; YAML wants spaces"),
        ("1: x\n", 'FL004 1:1 a key must be a text, and "1" reads as something else'),
        ("true: x\n", 'FL004 1:1 a key must be a text, and "true" reads as something else'),
        (": x\n", 'FL004 1:1 a key must be a text, and "nothing" reads as something else'),
        ("? [a]\n: b\n", "FL004 1:3 a key must be a text, not a map or a list"),
        ("a: 1\n---\nb: 2\n", "FL004 2:1 a second document begins here; a file is one document"),
        ('a: "x\nb: 1\n', "FL004 1:4 a quote is opened here and never closed"),
        ('a: "x\nb: "1"\n', "FL004 1:4 the quote that is opened here is closed only in line 2"),
        ("a: 'x\nb:\n  c: 'y'\n", "FL004 1:4 the quote that is opened here is closed only in line 3"),
        ('a: "x\n  y"\nb\nc: 1\n', 'FL004 3:1 "b" has no ": " after its key'),
        ('a: "\\q"\n', 'FL004 1:5 "\\q" means nothing in double quotes'),
        ("a: [1, 2\nb: 3\n", 'FL004 1:4 "[" is opened here and not closed in order'),
        ("a: { b: 1\n", 'FL004 1:4 "{" is opened here and not closed in order'),
        ("a:\n  b: 1\n c: 2\n", "FL004 3:2 the line's indentation does not fit the lines above it"),
        ("a: 1\n  b: 2\n", "FL004 2:3 a key cannot stand here: the line above already has its value"),
        ("a: 1\na b\n", 'FL004 2:1 "a b" has no ": " after its key'),
        ("a: x: y\n", 'FL004 1:4 a text with ": " inside needs quotes'),
        ("a: @x\n", 'FL004 1:4 a text cannot begin with "@"'),
        ("a: `x`\n", 'FL004 1:4 a text cannot begin with "`"'),
        ("a: %x\n", 'FL004 1:4 a text cannot begin with "%"'),
        ("a: *\n", 'FL004 1:4 a text cannot begin with "*"'),
        ("a: - b\n", "FL004 1:4 a list cannot begin here"),
        ("a: > x\n", 'FL004 1:6 after "|" or ">" the text begins on the next line'),
        ("a: ]\n", 'FL004 1:4 "]" has no beginning'),
        ("a: \x01\n", "FL004 1:4 a control character (U+0001) stands here; take it out"),
    ],
)
def test_what_is_not_accepted_is_told_with_its_place(text: str, expected: str) -> None:
    assert said(text) == [expected]


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("title： New\n", "title: New"),
        ("　　title: x\n", "title: x"),
        ("a:\n  － id: x\n", "- id: x"),
        ("a: { b: 1， c: 2 }\n", "a: { b: 1, c: 2 }"),
        ("a: [x， y]\n", "a: [x, y]"),
        ("a： ［x， y］\n", "a: [x, y]"),
        ("a:\u00a0x\nb: 1\n", "a: x"),
        ("＃ a note\nb: 1\n", "# a note"),
    ],
)
def test_full_width_signs_are_named_with_the_line_as_it_should_be(text: str, fixed: str) -> None:
    problems = read(text, "flow.yaml")[1]
    assert [one.code for one in problems] == ["FL003"]
    assert problems[0].hint == f"write the line so:  {fixed}"


@pytest.mark.parametrize(
    "text",
    [
        "title: はい，どうぞ：注意\n",
        "title: ［重要］ 新規\n",
        'a: { say: "はい，どうぞ" }\n',
        "a: { say: はい，どうぞ }\n",
        "a: |\n  注意： ｛これ｝\n  － 一\n",
        "a: x  # 注意：ここ\n",
    ],
)
def test_full_width_signs_in_sentences_are_fine(text: str) -> None:
    assert said(text) == []


def test_reading_goes_on_after_a_line_that_can_be_mended() -> None:
    text = "a： 1\nb: { c: ${{ x }} }\nd: @e\na: 2\n"
    assert [line.split()[:2] for line in said(text)] == [
        ["FL003", "1:2"],
        ["FL004", "2:9"],
        ["FL004", "3:4"],
        ["FL001", "4:1"],
    ]


def test_a_large_file_is_refused_before_it_is_read() -> None:
    problems = read("a: " + "x" * 1_000_000, "flow.yaml")[1]
    assert [one.what for one in problems] == ["the file has 1,000,003 bytes; more than 1,000,000 are not read"]


def test_a_deep_file_is_refused() -> None:
    assert said("a: " + "[" * 49 + "]" * 49 + "\n") == []
    assert said("a: " + "[" * 5_000 + "\n") == ["FL004 1:53 this is nested more than 50 levels deep"]


def test_a_file_that_is_no_utf_8_is_told(tmp_path: FilePath) -> None:
    path = tmp_path / "flow.yaml"
    path.write_bytes("a: 1\nb: 佐藤\n".encode("shift_jis"))
    text, problem = read_bytes(path, "flow.yaml")
    assert text == ""
    assert problem is not None
    assert (problem.line, problem.column, problem.what) == (2, 4, "the file is not UTF-8 from here on")


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab:-#{}[]\"'|>&*!%@`,?\\ \n\t：，｛｝$~0123.", max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    source, problems = read(text, "flow.yaml")
    assert source is not None or problems
    lines = text.split("\n")
    for problem in problems:
        assert problem.what
        assert 0 < problem.line <= len(lines) + 1
