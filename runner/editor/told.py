"""What an editor shows of a name: its type, the step or the action behind it."""

from __future__ import annotations

import inspect

from runner.editor.desk import Seen
from runner.editor.place import Pointed
from runner.language.check.context import Context, Placed
from runner.language.check.shapes import Shape, output_of, shape_at
from runner.language.fields import WORDS, shape_of
from runner.language.functions import FUNCTIONS
from runner.language.project_schema import told as told_of_action


def kind_in_words(shape: Shape) -> str:
    """A type: `a text`, `one of basic, pro`, `a list of records`."""
    if shape is None or shape.kind == "any":
        return ""
    if shape.kind == "choice":
        words = f"one of {', '.join(map(str, shape.choices))}"
    elif shape.kind == "money" and shape.currency:
        words = f"an amount of {shape.currency}"
    else:
        words = WORDS.get(shape.kind, shape.kind)
    return f"{words}, or nothing" if shape.optional else words


def of_function(name: str) -> str:
    """How a filter or function is written, and what it gives."""
    function = FUNCTIONS[name]
    named = list(inspect.signature(function.call).parameters.values())[1:]
    rest = [one.name if one.default is one.empty else f"{one.name}?" for one in named[1:]]
    written = f"{name}()" if function.is_source else f"value | {name}({', '.join(rest)})".replace("()", "")
    gives = {"any": "what goes in decides"}.get(function.gives, WORDS.get(function.gives, function.gives))
    return f"`{written}` gives {gives}" if gives != "what goes in decides" else f"`{written}`"


def of_step(context: Context, placed: Placed) -> str:
    """A step: what it does, and what it answers."""
    step, action = placed.step, context.action(placed.step.action)
    lines = [f"**{step.id}**, line {step.line}: {step.verb} {step.action or step.flow or step.event}".rstrip()]
    lines += [action.title] if action is not None and action.title else []
    fields = output_of(context, step) or {}
    lines += [f"- `{name}`: {kind_in_words(shape) or 'any value'}" for name, shape in fields.items()]
    return "\n\n".join(lines[:2]) + ("\n\n" + "\n".join(lines[2:]) if lines[2:] else "")


def told(seen: Seen, pointed: Pointed) -> str:
    """What there is to say of what the cursor points at; empty where that is nothing."""
    context = seen.context
    if context is None:
        return ""
    if pointed.kind == "value":
        return _of_value(context, pointed)
    assert pointed.text is not None
    path = pointed.parts
    if path[0] in ("steps", "outcome") and len(path) > 1 and path[1] in context.by_id and len(path) == 2:
        return of_step(context, context.by_id[path[1]])
    if path[0] == "inputs" and len(path) == 2:
        shape = shape_of(context.flow.inputs.get(path[1], "any"))
        label = f"\n\n{shape.label}" if shape is not None and shape.label else ""
        return f"**{'.'.join(path)}**: {kind_in_words(shape) or 'any value'}{label}"
    kind = kind_in_words(shape_at(context, pointed.text, path))
    return f"**{'.'.join(path)}**: {kind}" if kind else ""


def _of_value(context: Context, pointed: Pointed) -> str:
    action, step = context.action(pointed.value), context.by_id.get(pointed.value)
    if action is not None:
        return f"**{pointed.value}**\n\n{told_of_action(action)}"
    return of_step(context, step) if step is not None and "covers" in pointed.path else ""
