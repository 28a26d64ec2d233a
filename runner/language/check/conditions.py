"""Conditions and keys: no yes or no (FL103), a text against a number (FL104), clocks in a key (FL206), none (FL209)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.contract import Json
from runner.errors import Problem
from runner.language.check.context import Context, Text, only_expression, parsed, parts_of, rule
from runner.language.check.shapes import kind_of, shape_at
from runner.language.expressions import markers, names, path_of, path_text
from runner.language.fields import FieldType, shape_of
from runner.language.nearest import did_you_mean

_CALLED = {
    "text": "a text",
    "number": "a number",
    "money": "an amount",
    "list": "a list",
    "record": "a map",
    "date": "a date",
    "time": "a time",
    "datetime": "a moment",
    "yes_no": "a yes or no",
}
_LITERALS: dict[type, str] = {int: "number", float: "number", bool: "yes_no", dict: "record"}
_HINTS = {"number": "{} > 0", "money": "{} > 0", "list": "{} | length > 0", "text": "{} == '…'"}
_CLOCKS = ("now", "today")
_CLOCK_NAMES = (("run", "started_at"), ("run", "id"), ("trigger", "at"))
_NEED_A_KEY = ("schedule", "cron", "poll", "mail", "manual")


@rule("FL103")
def find_no_conditions(context: Context) -> Iterator[Problem]:
    """`when` is a yes or no: one expression, and nothing else."""
    for text in context.texts:
        name = text.path[-1]
        if name not in ("when", "only_if") or (text.reach != "trigger" and text.path[-2:-1] == ("with",)):
            continue
        source = only_expression(text.text)
        if source is None:
            what = f'"{name}" is a text, and it must be a yes or no'
            hint = "write one comparison in one marker" if markers(text.text) else f"write {name}: ${{{{ … }}}}"
            yield context.source.problem("FL103", text.path, what, hint, part=(0, len(text.text)))
            continue
        tree, shown = parsed(source), source.strip()
        kind = kind_of(context, text, tree) if tree is not None else ""
        if kind and kind != "yes_no":
            what = f'"{name}" must be a yes or no, and {shown} is {_CALLED.get(kind, kind)}'
            hint = f"compare it: {_HINTS[kind].format(shown)}" if kind in _HINTS else "compare it with something"
            part = (text.text.index(source) + len(source) - len(source.lstrip()), len(shown))
            yield context.source.problem("FL103", text.path, what, hint, part=part)


@rule("FL006")
def find_no_lists(context: Context) -> Iterator[Problem]:
    """`each` goes through a list."""
    for placed in context.placed:
        written, path = placed.step.each, (*placed.path, "each")
        if placed.step.verb != "each" or isinstance(written, list) or path in context.source.broken:
            continue
        source = only_expression(written) if isinstance(written, str) else None
        tree = parsed(source)
        if source is not None and tree is None:
            continue
        text = Text(path=path, text=str(written), reach="step", placed=placed, names=placed.names)
        kind = kind_of(context, text, tree) if tree is not None else _LITERALS.get(type(written), "text")
        shown = source.strip() if source is not None else f'"{written}"' if isinstance(written, str) else "this"
        hint = "name a list, such as ${{ inputs.lines }}"
        if written is None:
            yield context.source.problem("FL006", path, 'nothing is written after "each"', hint, on="key")
        elif kind and kind != "list":
            what = f'"each" needs a list, and {shown} is {_CALLED.get(kind, kind)}'
            yield context.source.problem("FL006", path, what, hint)


@rule("FL104")
def find_text_against_number(context: Context) -> Iterator[Problem]:
    """A text never equals a number, so such a comparison is a mistake."""
    for text in context.texts:
        for marker in markers(text.text):
            tree, source = parsed(marker.source), marker.source
            place = (marker.start + len(source) - len(source.lstrip()), len(source.strip()))
            for part in parts_of(tree) if tree is not None else ():
                for words, amount in _mixed(context, text, part) if type(part).__name__ == "Compare" else ():
                    first, second = _shown(words), _shown(amount)
                    what = f"{first} is a text and {second} is a number: they never compare"
                    hint = f"write {first} | number" if path_of(words) else "take the quotes off the number"
                    yield context.source.problem("FL104", text.path, what, hint, part=place)


@rule("FL104")
def find_choices_never_made(context: Context) -> Iterator[Problem]:
    """A choice compared with a value that it does not have."""
    for text in context.texts:
        for marker in markers(text.text):
            tree, source = parsed(marker.source), marker.source
            place = (marker.start + len(source) - len(source.lstrip()), len(source.strip()))
            for part in parts_of(tree) if tree is not None else ():
                for name, shape, value in _never(context, text, part) if type(part).__name__ == "Compare" else ():
                    hint = did_you_mean(str(value), [str(one) for one in shape.choices], "its choices")
                    what = f'{name} is never "{value}"'
                    yield context.source.problem("FL104", text.path, what, hint, part=place)


def _never(context: Context, text: Text, compare: Any) -> Iterator[tuple[str, FieldType, Json]]:
    """Each (name, its type, a value that is none of its choices) that the comparison compares."""
    left = compare.expr
    for operand in compare.ops:
        for side, other in ((left, operand.expr), (operand.expr, left)):
            path = path_of(side)
            shape = shape_at(context, text, path) if path is not None else None
            if path is None or shape is None or shape.kind != "choice" or operand.op not in ("eq", "ne", "in", "notin"):
                continue
            is_among = operand.op in ("in", "notin") and side is left and type(other).__name__ == "List"
            for part in other.items if is_among else [other]:
                value = part.value if type(part).__name__ == "Const" else None
                alike = {type(choice) for choice in shape.choices}
                if type(value) in alike and value not in shape.choices and (is_among or operand.op in ("eq", "ne")):
                    yield path_text(path), shape, value
        left = operand.expr


def _mixed(context: Context, text: Text, compare: Any) -> Iterator[tuple[Any, Any]]:
    """Each pair (a text, a number) that the comparison compares."""
    left = compare.expr
    for operand in compare.ops:
        kinds = {kind_of(context, text, side): side for side in (left, operand.expr)}
        amount = kinds.get("number", kinds.get("money"))
        if operand.op not in ("in", "notin") and "text" in kinds and amount is not None:
            yield kinds["text"], amount
        left = operand.expr


def _shown(part: Any) -> str:
    path = path_of(part)
    if path is None and type(part).__name__ == "Const":
        return f'"{part.value}"' if isinstance(part.value, str) else str(part.value)
    return "one side" if path is None else path_text(path)


# --- keys ----------------------------------------------------------------------------------------------------------


@rule("FL206")
def find_clocks(context: Context) -> Iterator[Problem]:
    """A key that would be another one at each try."""
    for text in context.texts:
        name = str(text.path[-1])
        if text.path != ("run_key",) and (text.placed is None or text.path != (*text.placed.path, "key")):
            continue
        whole = parsed(only_expression(text.text))
        if not text.text.strip() or (type(whole).__name__ == "Const" and whole.value in ("", None)):
            part = (0, len(text.text) or 1)
            yield context.source.problem("FL206", text.path, f'"{name}" is empty', "name the business event", part=part)
        for marker in markers(text.text):
            tree = parsed(marker.source)
            for shown in _clocks(tree) if tree is not None else ():
                what = f'"{name}" is built on {shown}, which is never the same twice'
                hint = "use what names the business event, an order number or a date out of the inputs"
                if shown == "run.id" and name == "run_key":
                    what = '"run_key" is built on run.id, which every run has its own of'
                at = marker.start + max(marker.source.find(shown.removesuffix("()")), 0)
                yield context.source.problem("FL206", text.path, what, hint, part=(at, len(shown)))


@rule("FL206")
def find_keys_that_may_be_empty(context: Context) -> Iterator[Problem]:
    """A run key out of an input that may be left out: then there is no run at all."""
    for text in context.texts:
        for use in names(text.text) if text.path == ("run_key",) else ():
            name = use.path[1] if use.path[0] == "inputs" and len(use.path) == 2 else ""
            shape = shape_of(context.flow.inputs[name]) if name in context.flow.inputs else None
            if shape is not None and shape.optional and shape.default is None and not use.guarded:
                what = f'"run_key" is built on the input "{name}", which may be empty: then no run can start'
                hint = "make the input required, or name another one"
                part = (use.offset, use.length)
                yield context.source.problem("FL206", text.path, what, hint, part=part, level="warning")


def _clocks(tree: Any) -> Iterator[str]:
    for part in parts_of(tree):
        if type(part).__name__ == "Call" and type(part.node).__name__ == "Name" and part.node.name in _CLOCKS:
            yield f"{part.node.name}()"
        path = path_of(part)
        if path in _CLOCK_NAMES:
            yield path_text(path)


@rule("FL209")
def find_missing_key(context: Context) -> Iterator[Problem]:
    """A `do`, a trigger that has no id of its own, and no `run_key`."""
    source = context.source
    if ("run_key",) in source.keys or not context.changes_the_world():
        return
    kinds = [kind for trigger in context.flow.trigger for kind in _NEED_A_KEY if kind in trigger]
    is_unsure = () in source.broken and any(str(key).startswith(("run", "key")) for key in source.data)
    if kinds and not is_unsure:
        word = {"manual": "a start by hand", "cron": "a schedule"}.get(kinds[0], f"a {kinds[0]}")
        what = f"the flow changes the world, and {word} does not say which business event a run is for"
        hint = "write run_key: what the same event always has, for example ${{ inputs.order_no }}"
        path = ("trigger",) if ("trigger",) in source.keys else ("flow",)
        yield source.problem("FL209", path, what, hint, on="key")
    final = next((step.id for step in context.flow.every_step() if context.cannot_be_undone(step)), "")
    form = next((path for path, trigger in context.triggers if "form" in trigger), None)
    if final and form is not None and not kinds and not is_unsure:
        what = f'a form that is filled in twice makes two runs, and "{final}" cannot be undone'
        hint = "write run_key: what both have, for example ${{ inputs.order_no }}; ${{ trigger.id }} if each is meant"
        yield source.problem("FL209", (*form, "form"), what, hint, on="key", level="warning")
