"""What is known of values before anything runs: fields of inputs and answers, the kind of an expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.contract import Action, Json
from runner.language.check.context import Context, Placed, Text, only_expression, parsed
from runner.language.expressions import Key, key_of, kind_of_answer, path_of, use_of
from runner.language.fields import FieldType, fields_below, shape_of
from runner.language.flow import Step

Shape = FieldType | None
"""The type of a value; None where it is not known."""

_TEXT, _MOMENT, _NUMBER = FieldType(kind="text"), FieldType(kind="datetime"), FieldType(kind="number")
_ENDS = "done found skipped refused late left_out failed".split()
_ANSWERS = "yes no skipped".split()
_KEEP_ITEMS = ("where", "sort", "unique", "default")
_OUTPUTS: Mapping[str, Mapping[str, Shape]] = {
    "approve": {"by": None, "at": _MOMENT, "comment": _TEXT},
    "agent": {
        "text": _TEXT,
        "model": _TEXT,
        "tokens": _NUMBER,
        "cost": FieldType(kind="number", optional=True),
        "did": FieldType(
            kind="list", items=FieldType(kind="record", fields=dict.fromkeys(("tool", "outcome", "id"), _TEXT))
        ),
    },
    **{verb: {} for verb in ("wait", "choose", "parallel", "emit")},
}


def below(shape: Shape) -> Mapping[str, Shape] | None:
    """The fields that a dot can read there; None where they are not known."""
    return None if shape is None else fields_below(shape)


def output_of(context: Context, step: Step) -> Mapping[str, Shape] | None:
    """The fields of `steps.<id>`; None where they are not known."""
    if step.verb == "each":
        return {"done": _NUMBER, "set_aside": FieldType(kind="list", items=_set_aside(context, step))}
    if step.verb == "call":
        called = context.called(step.flow)
        return _answers(called) if called is not None else None
    if step.verb not in ("read", "do"):
        return _OUTPUTS.get(step.verb)
    action = context.action(step.action)
    if action is None or action.open_output:
        return None
    found: dict[str, Shape] = {name: shape_of(written) for name, written in action.output.items()}
    if action.fan_out:
        found["each"] = FieldType(kind="list")
    if step.id in context.gates:
        found.setdefault("sent", FieldType(kind="record", fields=_sent(action, step)))
    return {**found, "found": FieldType(kind="yes_no")} if step.verb == "read" else found


def input_of(context: Context, step: Step) -> tuple[str, Mapping[str, Shape] | None]:
    """(the tool, the fields of `input`): what a tool of an agent is given."""
    name = step.approval.covers[0] if step.approval is not None else step.id  # its approval sees it too
    action = context.action(context.by_id[name].step.action) if name in context.by_id else None
    if action is None or action.open_input:
        return name, None
    return name, {field: shape_of(written) for field, written in action.input.items()}


def _sent(action: Action, step: Step) -> dict[str, FieldType]:
    """What left of a step that people approve, as they left it."""
    return {name: shape_of(action.input.get(name, "any")) or FieldType(kind="any") for name in step.with_}


def _set_aside(context: Context, step: Step) -> FieldType:
    item = items_of(context, context.by_id[step.id]) or FieldType(kind="any")
    return FieldType(kind="record", fields={"name": _TEXT, "reason": _TEXT, "item": item})


def _answers(called: Context) -> Mapping[str, Shape]:
    """The outputs of a flow."""
    if called.answers is None:
        called.answers = {name: _answer(called, name, value) for name, value in called.flow.outputs.items()}
    return called.answers


def _answer(called: Context, name: str, value: Json) -> Shape:
    tree = parsed(only_expression(value)) if isinstance(value, str) else None
    if tree is None:
        return _TEXT if isinstance(value, str) else None
    text, path = Text(path=("outputs", name), text=str(value), reach="end"), path_of(tree)
    if path is not None:
        return shape_at(called, text, path)
    kind = kind_of(called, text, tree)
    return FieldType(kind=kind) if kind else None


def items_of(context: Context, placed: Placed) -> Shape:
    """The type of `item` in this `each`."""
    written = placed.step.each
    tree = parsed(only_expression(written)) if isinstance(written, str) else None
    text = Text(path=(*placed.path, "each"), text=str(written), reach="step", placed=placed, names=placed.names)
    return None if tree is None else _items(shape_of_part(context, text, tree))


def shape_of_part(context: Context, text: Text, part: Any) -> Shape:
    """The type of what a part of an expression yields: a name, a field of something, an item or the items of a list."""
    path, key, (name, values) = path_of(part), key_of(part), use_of(part) or ("", [])
    if path is not None:
        return shape_at(context, text, path)
    if key is not None:
        inner = shape_of_part(context, text, part.node)
        return _items(inner) if isinstance(key, int) else (below(inner) or {}).get(key)
    if not values and name:
        return None
    if name in _KEEP_ITEMS:
        return shape_of_part(context, text, values[0])
    if name in ("first", "last"):
        return _items(shape_of_part(context, text, values[0]))
    named: Any = values[1] if name == "pick" and len(values) > 1 else None
    if type(named).__name__ == "Const":
        found = _items(shape_of_part(context, text, values[0]))
        for field in str(named.value).split("."):
            found = (below(found) or {}).get(field)
        return FieldType(kind="list", items=found)
    return FieldType(kind="list", items=_TEXT) if name == "split" else None


def _items(shape: Shape) -> Shape:
    return shape.items if shape is not None else None


def _outcome(context: Context, name: str) -> Shape:
    if name in context.source.lost:
        return None
    words = _ANSWERS if name in context.by_id and context.by_id[name].step.verb == "approve" else _ENDS
    return FieldType(kind="choice", choices={word: word for word in words})


def lists_around(text: Text) -> list[Placed]:
    """Every `each` that this text is read inside of, the innermost last; `named` is read for each item."""
    if text.placed is None:
        return []
    own = [text.placed] if text.path == (*text.placed.path, "named") else []
    return [*(outer for outer in text.placed.around if outer.step.verb == "each"), *own]


def kind_of(context: Context, text: Text, part: Any) -> str:
    """text, number, yes_no, list, record, date, time, datetime, money; empty where it is not known."""
    known = kind_of_answer(part, lambda path: _kind_of_shape(shape_at(context, text, path)))
    return known or _kind_of_shape(shape_of_part(context, text, part) if _is_unsure(part) else None)


def _is_unsure(part: Any) -> bool:
    """Whether the types of fields and items say more of it than its words: `(rows | first).label`, but no `default`."""
    name, _ = use_of(part) or ("", [])
    return key_of(part) is not None or name in ("first", "last")


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
    shape: Shape = None
    if root == "inputs":
        known = {name: shape_of(written) for name, written in context.flow.inputs.items() if name in path[1:2]}
    elif root == "steps" and len(path) > 2 and path[1] in context.by_id:
        known, rest = output_of(context, context.by_id[str(path[1])].step), path[2:]
    elif root == "outcome" and len(path) == 2:
        return _outcome(context, str(path[1]))
    elif root == "output" and text.placed is not None and text.reach == "compensation":
        known = output_of(context, text.placed.step)
    elif root == "input" and text.placed is not None and root in text.names:
        known = input_of(context, text.placed.step)[1]
    elif root == "item":
        shape = items_of(context, lists[-1]) if (lists := lists_around(text)) else None
        known = below(shape)
    elif root in ("run", "failure") and len(path) == 2:
        return _MOMENT if path[1] in ("started_at", "at") else _TEXT
    for part in rest:
        if isinstance(part, int):
            shape = _items(shape)
        elif known is None or part not in known:
            return None
        else:
            shape = known[part]
        known = below(shape)
    return shape
