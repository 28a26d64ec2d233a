"""Whether a step has certainly answered where it is used, by its own conditions and those of its user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.language.check.context import Placed, Text, only_expression, parsed
from runner.language.expressions import given_paths, names


def why_uncertain(text: Text, wanted: Placed, path: tuple[str, ...]) -> str:
    """Empty if the step has an answer wherever this text is read, else what may have become of it."""
    user = text.placed
    name = wanted.step.id
    if user is not None and name == user.step.id:
        return ""
    guards = _guards_of(text)
    if any(_speaks_of(guard, name) or _gives(guard, path) for guard in guards):
        return ""
    mine = user.branches if user is not None else ()
    if any(step_id == name for step_id, _ in mine):
        return ""
    if wanted.step.if_refused == "continue":
        return "may have been refused"
    chosen = {outer.step.id for outer in wanted.around if outer.step.verb == "choose"}
    shares_branch = all(branch in mine for branch in wanted.branches if branch[0] in chosen)
    known = [part for guard in guards for part in _parts(guard)]
    if shares_branch and all(part in known for condition in wanted.guards for part in _parts(condition)):
        return ""
    return "may have been skipped"


def _guards_of(text: Text) -> tuple[str, ...]:
    """The conditions that hold where the text is read; a step's own `when` is not yet known while it is read."""
    if text.placed is None:
        return ()
    guards = text.placed.guards
    return guards[:-1] if text.path == (*text.placed.path, "when") and text.placed.step.when is not None else guards


def _parts(condition: str) -> Iterator[Any]:
    """The conditions that `and` joins, as trees; a text that is no single expression stands for itself."""
    tree = parsed(only_expression(condition))
    waiting: list[Any] = [condition.strip() if tree is None else tree]
    while waiting:
        part = waiting.pop()
        if type(part).__name__ == "And":
            waiting.extend((part.left, part.right))
        else:
            yield part


def _speaks_of(condition: str, step_id: str) -> bool:
    return any(use.path[:2] == ("outcome", step_id) for use in names(condition))


def _gives(condition: str, path: tuple[str, ...]) -> bool:
    tree = parsed(only_expression(condition))
    return tree is not None and any(path[: len(given)] == given for given in given_paths(tree))
