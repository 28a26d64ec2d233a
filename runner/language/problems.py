"""A problem as people see it: file and place, what is wrong, the lines with the value underlined, and the way out."""

from __future__ import annotations

import re
import unicodedata

from runner.errors import Problem
from runner.language.nearest import nearest

_HINT = " " * 5
_NUMBER = 7
_MEANT = re.compile(r'did you mean "([^"]+)"\?$')


def render(problem: Problem, source_text: str) -> str:
    """The problem in the printed style, without a newline at the end.

        flows/signup.yaml:22:32 error FL101  there is no input "emial"
             20 |   - id: contact
             22 |     with: { email: "${{ inputs.emial }}" }
                                                 ^^^^^
             did you mean "email"?
             write the line so:  with: { email: "${{ inputs.email }}" }

    `source_text` is the text of the problem's file. A problem of the file as a whole (line 0) shows no lines.
    """
    level = "error" if problem.level == "live" else problem.level
    where = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    shown = [f"{where} {level} {problem.code}  {problem.what}"]
    lines = source_text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if 0 < problem.line <= len(lines):
        line = lines[problem.line - 1]
        above = _line_above(lines, problem.line)
        shown.extend(_numbered(number, lines[number - 1]) for number in (above, problem.line) if number)
        before, under = line[: problem.column - 1], line[problem.column - 1 : problem.column - 1 + problem.length]
        shown.append(" " * (_NUMBER + 3 + columns(before)) + "^" * max(1, columns(under)))
    if problem.hint:
        shown.append(_HINT + problem.hint)
    corrected = _corrected(problem, lines)
    if corrected:
        shown.append(f"{_HINT}write the line so:  {corrected.strip()}")
    return "\n".join(shown)


def _corrected(problem: Problem, lines: list[str]) -> str:
    """The line with the nearest name in it; empty where what is underlined is more than the name."""
    meant = _MEANT.match(problem.hint)
    if meant is None or not 0 < problem.line <= len(lines):
        return ""
    line, start = lines[problem.line - 1], problem.column - 1
    end = start + problem.length
    names = [line[start:end]] if "." in meant[1] else line[start:end].split(".")  # connection.action
    near = [number for number, name in enumerate(names) if nearest(name, [meant[1]])]
    if len(near) != 1:
        return ""
    names[near[0]] = meant[1]
    return line[:start] + ".".join(names) + line[end:]


def render_all(problems: tuple[Problem, ...], source_text: str) -> str:
    """All problems of one file, each in the printed style, in the order given."""
    return "\n".join(render(problem, source_text) for problem in problems)


def columns(text: str) -> int:
    """How many columns of a terminal the text takes: East Asian wide signs take two, combining marks none."""
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _numbered(number: int, line: str) -> str:
    return f"{number:>{_NUMBER}} | {line.replace(chr(9), ' ').rstrip()}"


def _line_above(lines: list[str], number: int) -> int:
    """The line that this one belongs under: the nearest one above that begins further left, else the one just above."""
    indent = _indent(lines[number - 1])
    for above in range(number - 1, 0, -1):
        line = lines[above - 1]
        if line.strip() and not line.lstrip().startswith("#") and (_indent(line) < indent or indent == 0):
            return above
    return 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
