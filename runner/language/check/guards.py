"""Whether a step has certainly answered where it is used, by its own conditions and those of its user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.language.check.context import Context, Placed, Text, only_expression, parsed
from runner.language.expressions import given_paths, names


def is_certain(context: Context, text: Text, wanted: Placed, path: tuple[str, ...]) -> str:
    """Empty if the step has an answer wherever this text is read, else what may have become of it."""
    user = text.placed
    name = wanted.step.id
    if user is not None and name == user.step.id:
        return ""
    guards = _guards_of(text)
    if any(_speaks_of(guard, name) or _gives(guard, path) for guard in guards):
        return ""
    if any(step_id == name for step_id, _ in (user.branches if user is not None else ())):
        return ""
    if wanted.step.if_refused == "continue":
        return "may have been refused"
    if _shares_branch(wanted, user) and _conditions_hold(wanted, guards):
        return ""
    return "may have been skipped"


def _guards_of(text: Text) -> tuple[str, ...]:
    """The conditions that hold where the text is read; a step's own `when` is not yet known while it is read."""
    if text.placed is None:
        return ()
    guards = text.placed.guards
    return guards[:-1] if text.path == (*text.placed.path, "when") and text.placed.step.when is not None else guards


def _shares_branch(wanted: Placed, user: Placed | None) -> bool:
    """Whether every branch of `choose` the wanted step stands in is the user's branch too."""
    chosen = {outer.step.id for outer in wanted.around if outer.step.verb == "choose"}
    mine = set(user.branches) if user is not None else set()
    return all(branch in mine for branch in wanted.branches if branch[0] in chosen)


def _conditions_hold(wanted: Placed, guards: tuple[str, ...]) -> bool:
    """Whether each condition of the wanted step is one that holds for the user as well."""
    mine = [part for guard in guards for part in _parts(guard)]
    return all(part in mine for condition in wanted.guards for part in _parts(condition))


def _parts(condition: str) -> Iterator[Any]:
    """The conditions that `and` joins, as trees; a text that is no single expression stands for itself."""
    source = only_expression(condition)
    tree = parsed(source) if source is not None else None
    if tree is None:
        yield condition.strip()
        return
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if type(part).__name__ == "And":
            waiting.extend((part.left, part.right))
        else:
            yield part


def _speaks_of(condition: str, step_id: str) -> bool:
    return any(use.path[:2] == ("outcome", step_id) for use in names(condition))


def _gives(condition: str, path: tuple[str, ...]) -> bool:
    source = only_expression(condition)
    tree = parsed(source) if source is not None else None
    return tree is not None and any(path[: len(given)] == given for given in given_paths(tree))
