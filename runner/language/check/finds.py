"""Answers of reads that found nothing (FL107): what a person typed is looked up, and is not there."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, Placed, Text, rule
from runner.language.check.shapes import shape_at
from runner.language.expressions import NameUse

_TYPED = frozenset({"text", "email", "phone", "url", "number", "integer"})
_TYPED_BY_PEOPLE = ("manual", "form")


@rule("FL107")
def find_not_looked_at(context: Context) -> Iterator[Problem]:
    """Fields of a read by what a person typed, in a flow that never asks whether such a read found anything."""
    triggers = context.flow.trigger
    if triggers and not any(kind in trigger for trigger in triggers for kind in _TYPED_BY_PEOPLE):
        return
    asked = {
        context.by_id[use.path[1]].step.action
        for text in context.texts
        for use in text.uses
        if use.path[0] == "steps" and use.path[2:3] == ("found",) and use.path[1] in context.by_id
    }
    for placed in context.placed:
        step, action = placed.step, context.action(placed.step.action)
        if (
            step.verb != "read"
            or action is None
            or action.from_ai
            or action.own
            or step.action in asked
            or step.tool_of
        ):
            continue
        first = next(_taken_for_there(context, placed), None) if _by_what_is_typed(context, placed) else None
        if first is not None and not action.open_output:
            text, use = first
            what = f'"{step.id}" may find nothing, and then it has no {".".join(use.path[2:])}'
            hint = f"ask first: when: ${{{{ steps.{step.id}.found }}}}, or write {'.'.join(use.path)} | default(…)"
            part = (use.offset, use.length)
            yield context.source.problem("FL107", text.path, what, hint, part=part, level="warning")


def _by_what_is_typed(context: Context, placed: Placed) -> bool:
    texts = [text for text in context.texts if text.path[: len(placed.path) + 1] == (*placed.path, "with")]
    shapes = [shape_at(context, text, use.path) for text in texts for use in text.uses if use.path[0] == "inputs"]
    return any(shape is not None and shape.kind in _TYPED for shape in shapes)


def _taken_for_there(context: Context, placed: Placed) -> Iterator[tuple[Text, NameUse]]:
    """Where a field of the answer is used as if it was there. What is only shown may be missing."""
    for text in context.texts:
        is_shown = text.is_name or (text.placed is not None and text.path[len(text.placed.path) :][:1] == ("show",))
        for use in text.uses if not is_shown else ():
            if use.path[:2] == ("steps", placed.step.id) and len(use.path) > 2 and not use.guarded:
                shape = shape_at(context, text, use.path[:3])
                if shape is None or (shape.kind != "list" and not shape.optional):
                    yield text, use
