"""The YAML reader's complaints in our own words: what is wrong on this line, and the line as it should be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.language.signs import quoted

_SHAPES = (
    ("sequence entries are not allowed", "", "a list cannot begin here", 'begin it on the next line with "- "'),
    ("", "block scalar", 'after "|" or ">" the text begins on the next line', ""),
    ("", "tag", 'a text cannot begin with "!"', "put quotes around it"),
    ("", "directive", '"{word}" is not accepted; take the line out', ""),
    ("node content", "", '"{sign}" has no beginning', "take it out, or put quotes around the text"),
    ("", "", "this line is not YAML that can be read", "put quotes around the text"),
)
"""(part of the reader's problem, part of its context, what, hint) of everything that needs no looking at the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A located sentence. `line` and `column` count from 0; `fixed` is the whole line as it should be, if known."""

    line: int
    column: int
    what: str
    hint: str = ""
    fixed: str = ""
    length: int = 1


def _at(at: tuple[int, int], what: str, hint: str = "", length: int = 1, fixed: str = "") -> Words:
    return Words(line=at[0], column=at[1], what=what, hint=hint, length=max(1, length), fixed=fixed)


def reword(lines: list[str], problem: str, context: str, at: tuple[int, int], opened: tuple[int, int] | None) -> Words:
    """Says in our words what the reader could not read. `at` and `opened` are (line, column) from 0."""
    line, column = min(at[0], len(lines) - 1), at[1]
    text = lines[line]
    indent = len(text) - len(text.lstrip())
    if text[column : column + 1] == "\t" or "\t" in text[:indent]:
        return _at((line, text.index("\t")), "a tab stands here; YAML wants spaces")
    if "escape" in problem:
        hint = r"write \\ for a backslash, or use 'single quotes'"
        start = max(column - 1, 0)
        return _at((line, start), f'"{text[start : column + 1]}" means nothing in double quotes', hint, 2)
    begun = "" if opened is None else lines[opened[0]][opened[1] :]
    if opened is not None:
        if "quoted scalar" in context:
            return _at(opened, "a quote is opened here and never closed", f"close it with {begun[0]}")
        if "alias" in context or "anchor" in context:
            return _sign(lines, *opened)
    if "cannot start any token" in problem:
        return _sign(lines, line, column)
    if "mapping values are not allowed" in problem:
        return _colon(text, line, column, indent)
    if opened is not None and "could not find expected ':'" in problem:
        word = lines[opened[0]].strip()
        return _at(opened, f'"{word}" has no ": " after its key', "a line is `key: value`", len(word))
    if opened is not None and "flow" in context:
        hint = f'put a "," between the values and a "{"}" if begun[:1] == "{" else "]"}" at the end'
        return _at(opened, f'"{begun[:1]}" is opened here and not closed in order', hint)
    if "<block end>" in problem:
        what = "the line's indentation does not fit the lines above it"
        return _at((line, indent), what, "keys of one map begin in the same column", len(text.strip()))
    return _shape(text, problem, context, line, column)


def closed_late(lines: list[str], opened: tuple[int, int], last: int) -> Words:
    """A quoted text of several lines, on whose last line, from 0, something follows that cannot be read."""
    mark = lines[opened[0]][opened[1]]
    what = f"the quote that is opened here is closed only in line {last + 1}"
    return _at(opened, what, f"close it with {mark} where the text ends")


def _shape(text: str, problem: str, context: str, line: int, column: int) -> Words:
    sign, word = text[column : column + 1], (text.split() or ["%"])[0]
    _, in_context, what, hint = next(
        shape for shape in _SHAPES if shape[0] in problem and shape[1] in context and (sign or "{sign}" not in shape[2])
    )
    places = {"tag": max(text.find("!"), 0), "directive": 0, "": min(column, len(text))}
    return _at((line, places.get(in_context, column)), what.format(sign=sign, word=word), hint)


def _sign(lines: list[str], line: int, column: int) -> Words:
    text = lines[line]
    fixed = text[:column] + quoted(text[column:].rstrip())
    what = f'a text cannot begin with "{text[column : column + 1]}"'
    return _at((line, column), what, f"put quotes around it:  {fixed.strip()}", fixed=fixed)


def _colon(text: str, line: int, column: int, indent: int) -> Words:
    """A second `: ` on a line, or a key below a value that is already there."""
    match = re.match(r"^(\s*(?:- +)*[^\s:]+ *: +)(\S.*)$", text)
    if match is not None and column >= match.end(1):
        value = match[2].rstrip()
        fixed = match[1] + quoted(value)
        what, hint = 'a text with ": " inside needs quotes', f"write the line so:  {fixed.strip()}"
        return _at((line, match.end(1)), what, hint, len(value), fixed)
    what, hint = "a key cannot stand here: the line above already has its value", "check the indentation, or the quotes"
    return _at((line, indent), what, f"{hint} around the text above", column - indent)
