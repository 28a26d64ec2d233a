"""Plain values that YAML reads as something else than what stands there (FL002)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.actions import number_paths
from runner.language.check.context import Context
from runner.language.check.rules import rule
from runner.language.kinds import kind_of_field
from runner.language.source import Path, as_quoted, plain_value, reads_differently

_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")
_PLAIN_NUMBER = re.compile(r"^-?\d+(\.\d+)?$")
_LEADING_ZERO = re.compile(r"^-?0\d")


@rule("FL002")
def find_changed_values(context: Context) -> Iterator[Problem]:
    """00123, 1.10, 5319E7, +49: the quoted form keeps what was written."""
    numbers = number_paths(context)
    for path, scalar in context.source.scalars.items():
        if scalar.style != "plain" or not reads_differently(scalar.text) or context.is_broken(path[:-1]):
            continue
        is_number = path in numbers and _PLAIN_NUMBER.match(scalar.text) and not _LEADING_ZERO.match(scalar.text)
        if not is_number:
            what = f"{scalar.text} would be read as {_shown(scalar.text)}"
            yield context.source.problem("FL002", path, what, f"write it in quotes: {as_quoted(scalar.text)}")


def _shown(text: str) -> str:
    value = plain_value(text)
    if value is None:
        return "nothing"
    return "a yes or no" if isinstance(value, bool) else str(value)


@rule("FL002")
def find_dates_in_text(context: Context) -> Iterator[Problem]:
    """A date without quotes in a text field: other programs read a date there."""
    for path in _text_paths(context):
        scalar = context.source.scalars.get(path)
        if scalar is not None and scalar.style == "plain" and _DATE.match(scalar.text):
            what = f'"{path[-1]}" is a text, and {scalar.text} looks like a date'
            yield context.source.problem("FL002", path, what, f"write it in quotes: {as_quoted(scalar.text)}")


def _text_paths(context: Context) -> Iterator[Path]:
    for use in context.uses:
        action = context.action(use.action)
        for name, kind in action.input.items() if action is not None else ():
            if kind_of_field(kind) == "text":
                yield (*use.inputs, name)
