"""Kinds of values (FL109): what a word of the expressions works on, what can be counted, what can stand in a sentence,
and what a field takes. Each of these would stop the run at that step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.errors import Problem
from runner.language.check.actions import filled
from runner.language.check.context import Context, Text, only_expression, parsed, parts_of, rule
from runner.language.check.shapes import Shape, below, kind_of, shape_of_part
from runner.language.expressions import Marker, key_of, markers, path_of, path_text, use_of
from runner.language.fields import FieldType, shape_of
from runner.language.nearest import did_you_mean
from runner.language.types import WAYS, takes
from runner.language.values import KIND_WORDS

_ON_TEXT = "upper lower trim replace split starts_with ends_with truncate one_line".split()
_ON_LISTS = "first last join sum sort unique where pick".split()
_ON_DATES = "date time add_days add_months add_business_days format_date in_zone days_between".split()
WORKS_ON: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*_ON_TEXT, *_ON_DATES), ("text",)),
    **dict.fromkeys(_ON_LISTS, ("list",)),
    "contains": ("text", "list"),
    "length": ("text", "list", "record"),
    "number": ("text", "number", "money"),
    "money": ("text", "number", "money"),
    "round": ("number", "money"),
}
"""What stands before each word; a date is a text here, as it is when it comes to that."""

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**"}
_PRINTED = ("run_key", "record", "key", "named", "say", "approve", "question")
"""Keys whose value becomes a text whatever it is."""
_IN_A_TEXT = {"list": "use join: {} | join(', ')", "record": "name one of its fields, or use json"}


def _plain(kind: str) -> str:
    return "text" if kind in ("date", "time", "datetime") else kind


def _kind(context: Context, text: Text, part: Any) -> str:
    return _plain(kind_of(context, text, part))


@rule("FL109")
def find_wrong_subjects(context: Context) -> Iterator[Problem]:
    """A word, or a sign, with something that it does not work on."""
    for text in context.texts:
        for marker in markers(text.text) if not text.is_name else ():
            tree = parsed(marker.source)
            for part in parts_of(tree) if tree is not None else ():
                what, hint = _wrong_subject(context, text, part) or _wrong_side(context, text, part) or ("", "")
                if what:
                    yield context.source.problem("FL109", text.path, what, hint, part=_place(marker))


def _place(marker: Marker) -> tuple[int, int]:
    source = marker.source
    return marker.start + len(source) - len(source.lstrip()), len(source.strip())


def _wrong_subject(context: Context, text: Text, part: Any) -> tuple[str, str] | None:
    name, values = use_of(part) or ("", [])
    kind = _kind(context, text, values[0]) if name in WORKS_ON and values else ""
    if not kind or kind in WORKS_ON[name]:
        return None
    words = " or ".join(KIND_WORDS[one] for one in WORKS_ON[name])
    what = f'"{name}" works on {words}, and {_shown(values[0])} is {KIND_WORDS[kind]}'
    return what, f'take "{name}" out' if name in ("upper", "lower", "trim") else ""


def _wrong_side(context: Context, text: Text, part: Any) -> tuple[str, str] | None:
    sign = _SIGNS.get(type(part).__name__, "")
    for side in (part.left, part.right) if sign else ():
        kind = _kind(context, text, side)
        if kind and kind not in ("number", "money"):
            dates = [each for each in (part.left, part.right) if kind_of(context, text, each) in ("date", "datetime")]
            if dates:
                return f'"{sign}" counts with numbers, and {_shown(dates[0])} is a date', _days(part, sign, dates)
            hint = "texts are put together in one text: ${{ … }} ${{ … }}" if kind == "text" else ""
            what = f'"{sign}" counts with numbers, and {_shown(side)} is {KIND_WORDS[kind]}'
            return what, hint
    return None


def _days(part: Any, sign: str, dates: Sequence[Any]) -> str:
    """How to count with a date: so many days on or back, or the days between two."""
    first, *others = [path_text(path) if (path := path_of(date)) is not None else "today()" for date in dates]
    if others:
        return f"the days from one to the other: ${{{{ {others[0]} | days_between({first}) }}}}"
    days = getattr(part.right if dates[0] is part.left else part.left, "value", 3)
    number = abs(days) if type(days) is int else 3
    return f"days are added so: ${{{{ {first} | add_days({-number if sign == '-' else number}) }}}}"


def _shown(part: Any) -> str:
    path = path_of(part)
    if path is not None:
        return path_text(path)
    return f'"{part.value}"' if type(part).__name__ == "Const" else "what stands there"


@rule("FL109")
def find_no_moments(context: Context) -> Iterator[Problem]:
    """A wait until something that is no date and no moment."""
    for text in context.texts:
        tree = parsed(only_expression(text.text)) if text.path[-2:] == ("wait", "until") else None
        kind = _kind(context, text, tree) if tree is not None else ""
        if kind and kind != "text":
            what = f'"until" takes a date or a moment, and {_shown(tree)} is {KIND_WORDS[kind]}'
            yield context.source.problem("FL109", text.path, what, "for example ${{ today() | add_days(3) }}")


@rule("FL109")
def find_lists_in_texts(context: Context) -> Iterator[Problem]:
    """A list or a record in the middle of a sentence."""
    for text in context.texts:
        is_printed = text.path[-1] in _PRINTED and text.path[-2:-1] not in (("with",), ("fill",), ("match",))
        if text.is_name or (only_expression(text.text) is not None and not is_printed):
            continue
        for marker in markers(text.text):
            tree = parsed(marker.source)
            kind = _kind(context, text, tree) if tree is not None else ""
            if kind in _IN_A_TEXT:
                shown = marker.source.strip()
                what = f"{shown} is {KIND_WORDS[kind]}, and cannot stand inside a text"
                hint = _IN_A_TEXT[kind].format(shown)
                yield context.source.problem("FL109", text.path, what, hint, part=_place(marker))


@rule("FL101")
def find_strange_fields(context: Context) -> Iterator[Problem]:
    """A field that the items of a list, or what a word yields, do not have: `inputs.lines[0].skuu`."""
    for text in context.texts:
        for marker in markers(text.text) if not text.is_name else ():
            tree = parsed(marker.source)
            for part in parts_of(tree) if tree is not None else ():
                yield from _strange_field(context, text, marker, part)


def _strange_field(context: Context, text: Text, marker: Marker, part: Any) -> Iterator[Problem]:
    key, inner = key_of(part), path_of(part.node) if key_of(part) is not None else ()
    if isinstance(key, str) and (inner is None or any(isinstance(one, int) for one in inner)):
        known = below(shape_of_part(context, text, part.node))
        if known is not None and key not in known:
            yield from _no_field(context, text, key, known, marker.start + marker.source.find(key, part.lineno))
    name, values = use_of(part) or ("", [])
    named: Any = values[1] if name in ("pick", "where", "sort") and len(values) > 1 else None
    if type(named).__name__ == "Const":
        items = shape_of_part(context, text, values[0])
        known, field = below(items.items if items is not None else None), str(named.value).split(".")[0]
        if known is not None and field not in known:
            yield from _no_field(context, text, field, known, marker.start + marker.source.find(field, part.lineno))


def _no_field(context: Context, text: Text, name: str, known: Mapping[str, Shape], at: int) -> Iterator[Problem]:
    hint = did_you_mean(name, known, "it has") if known else "it has no fields"
    yield context.source.problem("FL101", text.path, f'there is no "{name}" there', hint, part=(at, len(name)))


# --- values into fields ----------------------------------------------------------------------------------------------


@rule("FL109")
def find_unfit_values(context: Context) -> Iterator[Problem]:
    """A value of another kind than its field, or the called flow's input, takes."""
    texts = {text.path: text for text in context.texts}
    for one in filled(context):
        for name, written in one.fields.items():
            shape, text = shape_of(written), texts.get((*one.inputs, name))
            if shape is not None and text is not None and name != one.fan_out and markers(text.text):
                yield from _unfit(context, one.is_strict, name, shape, text)
    for placed in context.placed:
        action, find = context.action(placed.step.action), placed.step.find or {}
        fields = action.input if action is not None else {}
        for name in find:
            shape, text = shape_of(fields.get(name, "any")), texts.get((*placed.path, "find", name))
            if shape is not None and text is not None and markers(text.text):
                yield from _unfit(context, False, name, shape, text)


def _unfit(context: Context, is_strict: bool, name: str, shape: FieldType, text: Text) -> Iterator[Problem]:
    source = only_expression(text.text)
    tree = parsed(source)
    if source is not None and tree is None:
        return
    kind = _kind(context, text, tree) if tree is not None else "text"
    takes_text = kind == "text" and not is_strict
    if not kind or takes(shape, kind) or takes_text:
        return
    shown = source.strip() if source is not None else "this"
    what = f'"{name}" takes {WAYS[shape.kind].called}, and {shown} is {KIND_WORDS[kind]}'
    yield context.source.problem("FL109", text.path, what, _way_out(kind, shape.kind, shown))


def _way_out(kind: str, wanted: str, shown: str) -> str:
    if kind == "money" and wanted in ("number", "integer"):
        return f"write {shown}.value"
    if wanted == "money" and kind in ("number", "text") and shown != "this":
        return f"write {shown} | money('JPY'), or {{ money: JPY }} where the field is declared"
    if kind == "text" and shown == "this":
        return "take the text around it away"
    if kind == "text" and wanted in ("number", "integer"):
        return f"write {shown} | number"
    return f"write {shown} | json" if wanted == "text" and kind in ("number", "list", "record") else ""
