"""What an AI action answered reaches something that cannot be undone (FL207)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, Placed
from runner.language.check.names import problem_in
from runner.language.check.rules import rule
from runner.language.expressions import names


@rule("FL207")
def find_unread_answers(context: Context) -> Iterator[Problem]:
    """An answer that nobody has read is about to leave for good."""
    answers = _answers(context)
    if not answers:
        return
    for text in context.texts:
        placed = text.placed
        if placed is None or text.reach != "step" or not _leaves_for_good(context, placed):
            continue
        for use in names(text.text):
            origin = answers.get(use.path[1]) if use.path[0] in ("steps", "outcome") and len(use.path) > 1 else None
            if origin is not None:
                what = f'"{placed.step.id}" cannot be undone, and nobody has read what "{origin}" answered'
                hint = "put an approval before it, or say why not: unattended: …"
                yield problem_in(context, text, "FL207", use.offset, use.length, what, hint)
                break


def _leaves_for_good(context: Context, placed: Placed) -> bool:
    return bool(context.cannot_be_undone(placed.step)) and not placed.step.unattended


def _answers(context: Context) -> dict[str, str]:
    """Every step whose answer comes, directly or through other steps, from an AI action: id -> the AI step's id."""
    found: dict[str, str] = {}
    if not any(action.from_ai for action in context.facts.actions.values()):
        return found
    for placed in context.placed:
        action = context.action(placed.step.action)
        if action is not None and action.from_ai:
            found[placed.step.id] = placed.step.id
            continue
        for text in context.texts:
            if text.placed is placed and text.reach == "step":
                origins = [
                    found[use.path[1]]
                    for use in names(text.text)
                    if use.path[0] == "steps" and use.path[1:2] and use.path[1] in found
                ]
                if origins:
                    found.setdefault(placed.step.id, origins[0])
    return found
