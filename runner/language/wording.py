"""The YAML reader's complaints in our own words: what is wrong on this line, and the line as it should be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.language.signs import quoted


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """A located sentence. `line` and `column` count from 0; `fixed` is the whole line as it should be, if known."""

    line: int
    column: int
    what: str
    hint: str = ""
    fixed: str = ""
    length: int = 1


def reword(lines: list[str], problem: str, context: str, at: tuple[int, int], opened: tuple[int, int] | None) -> Words:
    """Says in our words what the reader could not read. `at` and `opened` are (line, column) from 0."""
    line, column = min(at[0], len(lines) - 1), at[1]
    text = lines[line]
    if (column < len(text) and text[column] == "\t") or "\t" in text[: len(text) - len(text.lstrip())]:
        return Words(line=line, column=text.index("\t"), what="a tab stands here; YAML wants spaces")
    if "quoted scalar" in context and opened is not None and "escape" not in problem:
        return _place(opened, "a quote is opened here and never closed", f"close it with {lines[opened[0]][opened[1]]}")
    if "escape" in problem:
        shown = text[max(column - 1, 0) : column + 1]
        hint = r"write \\ for a backslash, or use 'single quotes'"
        return Words(
            line=line, column=max(column - 1, 0), length=2, what=f'"{shown}" means nothing in double quotes', hint=hint
        )
    if opened is not None and ("alias" in context or "anchor" in context):
        return _sign(lines, *opened)
    if "cannot start any token" in problem:
        return _sign(lines, line, column)
    if "mapping values are not allowed" in problem:
        return _colon(lines, line, column)
    if "could not find expected ':'" in problem and opened is not None:
        word = lines[opened[0]].strip()
        return _place(opened, f'"{word}" has no ": " after its key', "a line is `key: value`", len(word))
    if "flow" in context and opened is not None:
        sign = lines[opened[0]][opened[1] : opened[1] + 1]
        close = "}" if sign == "{" else "]"
        return _place(
            opened,
            f'"{sign}" is opened here and not closed in order',
            f'put a "," between the values and a "{close}" at the end',
        )
    return _shape(lines, problem, context, line, column)


def _shape(lines: list[str], problem: str, context: str, line: int, column: int) -> Words:
    """What is left: indentation, lists, block texts, tags."""
    text = lines[line]
    if "sequence entries are not allowed" in problem:
        return Words(
            line=line, column=column, what="a list cannot begin here", hint='begin it on the next line with "- "'
        )
    if "<block end>" in problem:
        indent = len(text) - len(text.lstrip())
        what = "the line's indentation does not fit the lines above it"
        return Words(
            line=line,
            column=indent,
            length=max(1, len(text.strip())),
            what=what,
            hint="keys of one map begin in the same column",
        )
    if "block scalar" in context:
        return Words(line=line, column=column, what='after "|" or ">" the text begins on the next line')
    if "tag" in context:
        return Words(
            line=line, column=max(text.find("!"), 0), what='a text cannot begin with "!"', hint="put quotes around it"
        )
    if "directive" in context:
        return Words(
            line=line, column=0, what=f'"{text.split()[0] if text.split() else "%"}" is not accepted; take the line out'
        )
    if "node content" in problem and column < len(text):
        return Words(
            line=line,
            column=column,
            what=f'"{text[column]}" has no beginning',
            hint="take it out, or put quotes around the text",
        )
    return Words(
        line=line,
        column=min(column, len(text)),
        what="this line is not YAML that can be read",
        hint="put quotes around the text",
    )


def _place(at: tuple[int, int], what: str, hint: str, length: int = 1) -> Words:
    return Words(line=at[0], column=at[1], what=what, hint=hint, length=length)


def _sign(lines: list[str], line: int, column: int) -> Words:
    text = lines[line]
    sign = text[column : column + 1]
    fixed = text[:column] + quoted(text[column:].rstrip())
    return Words(
        line=line,
        column=column,
        what=f'a text cannot begin with "{sign}"',
        hint=f"put quotes around it:  {fixed.strip()}",
        fixed=fixed,
    )


def _colon(lines: list[str], line: int, column: int) -> Words:
    """A second `: ` on a line, or a key below a value that is already there."""
    text = lines[line]
    match = re.match(r"^(\s*(?:- +)*[^\s:]+ *: +)(\S.*)$", text)
    if match is not None and column >= match.end(1):
        fixed = match[1] + quoted(match[2].rstrip())
        return Words(
            line=line,
            column=match.end(1),
            length=len(match[2].rstrip()),
            what='a text with ": " inside needs quotes',
            hint=f"write the line so:  {fixed.strip()}",
            fixed=fixed,
        )
    indent = len(text) - len(text.lstrip())
    return Words(
        line=line,
        column=indent,
        length=max(1, column - indent),
        what="a key cannot stand here: the line above already has its value",
        hint="check the indentation, or the quotes around the text above",
    )
