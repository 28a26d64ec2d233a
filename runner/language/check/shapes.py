"""What is known of values before anything runs: fields of inputs and answers, the kind of an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runner.language.check.context import Context, Text
from runner.language.fields import FieldType
from runner.language.flow import Step
from runner.language.functions import FUNCTIONS
from runner.language.kinds import fields_below, shape_of

Shape = FieldType | None
"""The type of a value; None where it is not known."""

_TEXT, _NUMBER = FieldType(kind="text"), FieldType(kind="number")
_SWITCH, _LIST, _MOMENT = FieldType(kind="yes_no"), FieldType(kind="list"), FieldType(kind="datetime")
_TEXT_KINDS = frozenset({"text", "email", "phone", "url", "choice"})
_NUMBER_KINDS = frozenset({"number", "integer", "money"})


def below(shape: Shape) -> Mapping[str, Shape] | None:
    """The fields that a dot can read there; None where they are not known."""
    return None if shape is None else fields_below(shape)


def output_of(context: Context, step: Step) -> Mapping[str, Shape] | None:
    """The fields of `steps.<id>`; None where they are not known."""
    if step.verb in ("read", "do"):
        action = context.action(step.action)
        if action is None or action.open_output:
            return None
        found: dict[str, Shape] = {name: shape_of(written) for name, written in action.output.items()}
        if step.verb == "read":
            found["found"] = _SWITCH
        return found
    fixed: dict[str, Mapping[str, Shape]] = {
        "approve": {"by": None, "at": _MOMENT, "comment": _TEXT},
        "each": {"done": None, "set_aside": None},
        "wait": {},
        "choose": {},
        "parallel": {},
        "emit": {},
    }
    return fixed.get(step.verb)


def kind_of(context: Context, text: Text, node: Any) -> str:
    """text, number, yes_no, list, record, date, time, datetime, money; empty where it is not known."""
    read = _READERS.get(type(node).__name__)
    return read(context, text, node) if read is not None else ""


def _of_shape(shape: Shape) -> str:
    if shape is None or shape.kind == "any":
        return ""
    if shape.kind == "choice":
        kinds = {"number" if isinstance(value, int) else "text" for value in shape.choices}
        return kinds.pop() if len(kinds) == 1 else ""
    if shape.kind in _TEXT_KINDS:
        return "text"
    return {"integer": "number", "file": "record"}.get(shape.kind, shape.kind)


def shape_at(context: Context, text: Text, path: tuple[str, ...]) -> Shape:
    """The type of a dotted name, or None."""
    root = path[0]
    known: Mapping[str, Shape] | None = None
    rest = path[1:]
    if root == "inputs":
        known = {name: shape_of(written) for name, written in context.flow.inputs.items()}
    elif root == "steps" and len(path) > 2 and path[1] in context.by_id:
        known, rest = output_of(context, context.by_id[path[1]].step), path[2:]
    elif root == "outcome" and len(path) == 2:
        return _TEXT
    elif root == "output" and text.placed is not None and text.reach == "compensation":
        known = output_of(context, text.placed.step)
    elif root in ("run", "failure") and len(path) == 2:
        return _MOMENT if path[1] in ("started_at", "at") else _TEXT
    shape: Shape = None
    for part in rest:
        if known is None or part not in known:
            return None
        shape = known[part]
        known = below(shape)
    return shape


def path_of(node: Any) -> tuple[str, ...] | None:
    """The dotted name a tree stands for, or None."""
    parts: list[str] = []
    while type(node).__name__ == "Getattr":
        parts.append(node.attr)
        node = node.node
    if type(node).__name__ != "Name":
        return None
    return (node.name, *reversed(parts))


def _name(context: Context, text: Text, node: Any) -> str:
    path = path_of(node)
    return _of_shape(shape_at(context, text, path)) if path is not None else ""


def _constant(context: Context, text: Text, node: Any) -> str:
    if isinstance(node.value, bool):
        return "yes_no"
    if isinstance(node.value, str):
        return "text"
    return "number" if isinstance(node.value, (int, float)) else ""


def _filter(context: Context, text: Text, node: Any) -> str:
    if node.name == "default":
        first = kind_of(context, text, node.node)
        other = kind_of(context, text, node.args[0]) if node.args else ""
        return first if first == other else ""
    return _gives(node.name)


def _call(context: Context, text: Text, node: Any) -> str:
    return _gives(node.node.name) if type(node.node).__name__ == "Name" else ""


def _gives(name: str) -> str:
    function = FUNCTIONS.get(name)
    return "" if function is None or function.gives == "any" else str(function.gives)


def _either(context: Context, text: Text, node: Any) -> str:
    first, second = kind_of(context, text, node.expr1), kind_of(context, text, node.expr2)
    return first if first == second else ""


def _arithmetic(context: Context, text: Text, node: Any) -> str:
    kinds = {kind_of(context, text, node.left), kind_of(context, text, node.right)}
    return "number" if kinds == {"number"} else ""


_READERS: dict[str, Callable[[Context, Text, Any], str]] = {
    "Name": _name,
    "Getattr": _name,
    "Const": _constant,
    "Filter": _filter,
    "Call": _call,
    "CondExpr": _either,
    "Compare": lambda context, text, node: "yes_no",
    "And": lambda context, text, node: "yes_no",
    "Or": lambda context, text, node: "yes_no",
    "Not": lambda context, text, node: "yes_no",
    "List": lambda context, text, node: "list",
    "Concat": lambda context, text, node: "text",
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"), _arithmetic),
}


def is_text(kind: str) -> bool:
    """Whether a value of this kind is a text."""
    return kind == "text"


def is_number(kind: str) -> bool:
    """Whether a value of this kind compares with numbers."""
    return kind in _NUMBER_KINDS
