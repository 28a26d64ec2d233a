"""Conditions that hold: what must have run where a text is read or a step runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from runner.language.check.context import Placed, Text, only_expression, parsed, parts_of
from runner.language.expressions import given_paths, missing_paths, names, path_of

Branches = tuple[tuple[str, int], ...]

_OTHERWISE = {"eq": "ne", "gt": "lteq", "lt": "gteq"}


def runs_too(wanted: Placed, guards: tuple[str, ...], branches: Branches) -> bool:
    """Whether a step has run wherever these conditions hold and these branches are taken."""
    return _open(wanted, guards, branches) == []


def one_runs(wanted: list[Placed], guards: tuple[str, ...], branches: Branches) -> bool:
    """Whether two of these steps are so that one of them has run there: its condition is what the other's is not."""
    last = [left[0] for one in wanted if (left := _open(one, guards, branches)) is not None and len(left) == 1]
    return any(_is_otherwise(part, other) for part in last for other in last)


def _open(wanted: Placed, guards: tuple[str, ...], branches: Branches) -> list[Any] | None:
    """The conditions of a step that are not among these; None where another branch may be taken."""
    chosen = {outer.step.id for outer in wanted.around if outer.step.verb == "choose"}
    known = [part for guard in guards for part in _parts(guard)]
    if not all(branch in branches for branch in wanted.branches if branch[0] in chosen):
        return None
    return [part for condition in wanted.guards for part in _parts(condition) if part not in known]


def _is_otherwise(part: Any, other: Any) -> bool:
    if _denies(part, other):
        return True
    if {type(part).__name__, type(other).__name__} != {"Compare"} or len(part.ops) != 1 or len(other.ops) != 1:
        return False
    one, two = part.ops[0], other.ops[0]
    return bool(part.expr == other.expr and one.expr == two.expr and _OTHERWISE.get(one.op) == two.op)


def guards_of(text: Text) -> tuple[str, ...]:
    """The conditions that hold where the text is read; a step's own `when` is not yet known while it is read."""
    if text.placed is None:
        return ()
    guards = text.placed.guards
    return guards[:-1] if text.path == (*text.placed.path, "when") and text.placed.step.when is not None else guards


def exclude(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether some conditions never hold together with others: two values of one name, or a yes and its no."""
    mine, theirs = ([part for guard in guards for part in _parts(guard)] for guards in (one, other))
    values = values_of(one)
    return any(
        (found := _value_of(part)) is not None and values.get(found[0], found[1]) != found[1] for part in theirs
    ) or any(_denies(part, each) or _denies(each, part) for part in mine for each in theirs)


def values_of(guards: tuple[str, ...]) -> dict[Any, Any]:
    """What names are where these conditions hold: name to value, as `name == 'value'` says it."""
    return dict(filter(None, (_value_of(part) for guard in guards for part in _parts(guard))))


def _value_of(part: Any, ops: tuple[str, ...] = ("eq",)) -> tuple[Any, Any] | None:
    """(the name, the value) of `name == 'value'`."""
    if type(part).__name__ != "Compare" or len(part.ops) != 1 or part.ops[0].op not in ops:
        return None
    name, value = part.expr, part.ops[0].expr
    if path_of(name) is None or type(value).__name__ != "Const":
        return None
    return path_of(name), value.value


def _denies(part: Any, other: Any) -> bool:
    return type(part).__name__ == "Not" and bool(part.node == other)


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


def speaks_of(condition: str, step_id: str) -> bool:
    return any(use.path[:2] == ("outcome", step_id) for use in names(condition))


def needs_an_answer(condition: str, steps: Collection[str]) -> bool:
    """Whether a condition is a no where all these steps were skipped; a yes too where that cannot be read out of it."""
    return any(speaks_of(condition, name) for name in steps) and True not in (
        _where_skipped(parsed(only_expression(condition)), steps) or ()
    )


def _where_skipped(part: Any, steps: Collection[str]) -> set[bool] | None:
    """What a condition may be where these steps were skipped; None where that cannot be read out of it."""
    kind = type(part).__name__
    if kind == "Not":
        inner = _where_skipped(part.node, steps)
        return None if inner is None else {not value for value in inner}
    if kind in ("And", "Or"):
        left, right = _where_skipped(part.left, steps), _where_skipped(part.right, steps)
        if left is None or right is None:
            return None
        return {(one and two) if kind == "And" else (one or two) for one in left for two in right}
    asked = [path for one in parts_of(part) if (path := path_of(one)) is not None and path[:1] == ("outcome",)]
    if part is not None and not any(path[1:2] == (name,) for path in asked for name in steps):
        return {True, False}
    found = _value_of(part, ("eq", "ne"))
    return None if found is None else {(found[1] == "skipped") == (part.ops[0].op == "eq")}


def gives(condition: str, path: tuple[str, ...]) -> bool:
    tree = parsed(only_expression(condition))
    return tree is not None and any(path[: len(given)] == given for given in given_paths(tree))


def is_given(text: Text, path: tuple[str, ...]) -> bool:
    """Whether a value is there wherever the text is read: a condition says so, or a branch above was not taken that is
    for the case that it is missing."""
    if text.placed is None:
        return False
    placed, passed = text.placed, dict(text.placed.branches)
    if text.path[:-2] == (*placed.path, "choose"):
        passed[placed.step.id] = int(text.path[-2])
    above = [
        branch.when
        for step in (placed.step, *(outer.step for outer in placed.around))
        for branch in step.branches[: passed.get(step.id, 0)]
        if step.verb == "choose" and branch.when is not None
    ]
    trees = [parsed(only_expression(condition)) for condition in above]
    missing = {name for tree in trees if tree is not None for name in missing_paths(tree)}
    return path in missing or any(gives(guard, path) for guard in guards_of(text))
