"""Conditions: a `when` that is no yes or no (FL103), a text compared with a number (FL104)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.errors import Problem
from runner.language.check.context import Context, Text, only_expression, parsed
from runner.language.check.names import problem_in
from runner.language.check.rules import rule
from runner.language.check.shapes import is_number, is_text, kind_of, path_of
from runner.language.expressions import markers

_CONDITIONS = ("when", "only_if")
_CALLED = {
    "text": "a text",
    "number": "a number",
    "money": "an amount",
    "list": "a list",
    "record": "a map",
    "date": "a date",
    "time": "a time",
    "datetime": "a moment",
}


@rule("FL103")
def find_no_conditions(context: Context) -> Iterator[Problem]:
    """`when` is a yes or no: one expression, and nothing else."""
    for text in _conditions(context):
        name = str(text.path[-1])
        source = only_expression(text.text)
        if source is None:
            what = f'"{name}" is a text, and it must be a yes or no'
            hint = "write one comparison in one marker" if markers(text.text) else f"write {name}: ${{{{ … }}}}"
            yield problem_in(context, text, "FL103", 0, len(text.text), what, hint)
            continue
        tree = parsed(source)
        kind = kind_of(context, text, tree) if tree is not None else ""
        if kind and kind != "yes_no":
            what = f'"{name}" must be a yes or no, and {source.strip()} is {_CALLED.get(kind, kind)}'
            offset = text.text.index(source) + len(source) - len(source.lstrip())
            yield problem_in(context, text, "FL103", offset, len(source.strip()), what, _hint(source.strip(), kind))


def _conditions(context: Context) -> Iterator[Text]:
    for text in context.texts:
        if text.path[-1] in _CONDITIONS and (text.reach == "trigger" or text.path[-2:-1] != ("with",)):
            yield text


def _hint(source: str, kind: str) -> str:
    if kind in ("number", "money"):
        return f"compare it: {source} > 0"
    if kind in ("list", "text"):
        return f"compare it: {source} | length > 0" if kind == "list" else f"compare it: {source} == '…'"
    return "compare it with something"


@rule("FL104")
def find_text_against_number(context: Context) -> Iterator[Problem]:
    """A text never equals a number, so such a comparison is a mistake."""
    for text in context.texts:
        for marker in markers(text.text):
            tree = parsed(marker.source)
            if tree is None:
                continue
            for comparison in _comparisons(tree):
                yield from _mixed(context, text, marker.start, marker.source, comparison)


def _comparisons(tree: Any) -> Iterator[Any]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if type(node).__name__ == "Compare":
            yield node
        waiting.extend(node.iter_child_nodes())


def _mixed(context: Context, text: Text, start: int, source: str, node: Any) -> Iterator[Problem]:
    left = node.expr
    for operand in node.ops:
        right = operand.expr
        first, second = kind_of(context, text, left), kind_of(context, text, right)
        if operand.op not in ("in", "notin") and (
            (is_text(first) and is_number(second)) or (is_number(first) and is_text(second))
        ):
            left_is_text = is_text(first)
            words, amount = (left, right) if left_is_text else (right, left)
            what = f"{_shown(words, source)} is a text and {_shown(amount, source)} is a number: they never compare"
            hint = f"write {_shown(words, source)} | number" if path_of(words) else "take the quotes off the number"
            offset = start + len(source) - len(source.lstrip())
            yield problem_in(context, text, "FL104", offset, len(source.strip()), what, hint)
        left = right


def _shown(node: Any, source: str) -> str:
    path = path_of(node)
    if path is not None:
        return ".".join(path)
    if type(node).__name__ == "Const":
        return f'"{node.value}"' if isinstance(node.value, str) else str(node.value)
    return "one side"
