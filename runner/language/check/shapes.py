"""What is known of values before anything runs: fields of inputs and answers, the kind of an expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.language.check.context import Context, Text
from runner.language.expressions import Key, kind_of_answer
from runner.language.fields import FieldType, fields_below, shape_of
from runner.language.flow import Step

Shape = FieldType | None
"""The type of a value; None where it is not known."""

_TEXT, _MOMENT = FieldType(kind="text"), FieldType(kind="datetime")
_OUTPUTS: Mapping[str, Mapping[str, Shape]] = {
    "approve": {"by": None, "at": _MOMENT, "comment": _TEXT},
    "each": {"done": None, "set_aside": None},
    **{verb: {} for verb in ("wait", "choose", "parallel", "emit")},
}


def below(shape: Shape) -> Mapping[str, Shape] | None:
    """The fields that a dot can read there; None where they are not known."""
    return None if shape is None else fields_below(shape)


def output_of(context: Context, step: Step) -> Mapping[str, Shape] | None:
    """The fields of `steps.<id>`; None where they are not known."""
    if step.verb not in ("read", "do"):
        return _OUTPUTS.get(step.verb)
    action = context.action(step.action)
    if action is None or action.open_output:
        return None
    found: dict[str, Shape] = {name: shape_of(written) for name, written in action.output.items()}
    if action.fan_out:
        found["each"] = FieldType(kind="list")
    return {**found, "found": FieldType(kind="yes_no")} if step.verb == "read" else found


def kind_of(context: Context, text: Text, part: Any) -> str:
    """text, number, yes_no, list, record, date, time, datetime, money; empty where it is not known."""
    return kind_of_answer(part, lambda path: _kind_of_shape(shape_at(context, text, path)))


def _kind_of_shape(shape: Shape) -> str:
    if shape is None or shape.kind == "any":
        return ""
    if shape.kind == "choice":
        kinds = {"number" if isinstance(value, int) else "text" for value in shape.choices}
        return kinds.pop() if len(kinds) == 1 else ""
    if shape.kind in ("email", "phone", "url"):
        return "text"
    return {"integer": "number", "file": "record"}.get(shape.kind, shape.kind)


def shape_at(context: Context, text: Text, path: tuple[Key, ...]) -> Shape:
    """The type of a dotted name, or None."""
    root, rest = path[0], path[1:]
    known: Mapping[str, Shape] | None = None
    if root == "inputs":
        known = {name: shape_of(written) for name, written in context.flow.inputs.items() if name in path[1:2]}
    elif root == "steps" and len(path) > 2 and path[1] in context.by_id:
        known, rest = output_of(context, context.by_id[str(path[1])].step), path[2:]
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
        shape = known[str(part)]
        known = below(shape)
    return shape
