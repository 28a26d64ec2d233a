"""Steps that never run: conditions exclude each other, or a branch above takes all that would be theirs (FL106)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, Placed, only_expression, parsed, rule
from runner.language.check.guards import exclude
from runner.language.source import Path


@rule("FL106")
def find_steps_that_never_run(context: Context) -> Iterator[Problem]:
    """A `when` that is never a yes where it is asked."""
    for placed in context.placed:
        if placed.step.when is not None:
            yield from _never(context, (*placed.path, "when"), placed.step.when, placed.guards[:-1], "step")
        if placed.step.verb == "choose":
            yield from _of_branches(context, placed)


def _of_branches(context: Context, placed: Placed) -> Iterator[Problem]:
    seen: list[str] = []
    for number, branch in enumerate(placed.step.branches):
        if branch.when is None:
            continue
        path = (*placed.path, "choose", number, "when")
        if any(_same(branch.when, other) for other in seen):
            what = "this branch is never taken: one above it has the same condition"
            yield context.source.problem("FL106", path, what, "put the steps of both into one, or change a condition")
        else:
            yield from _never(context, path, branch.when, placed.guards, "branch")
        seen.append(branch.when)


def _same(one: str, other: str) -> bool:
    return (parsed(only_expression(one)) or one) == (parsed(only_expression(other)) or other)


def _never(context: Context, path: Path, when: str, above: tuple[str, ...], word: str) -> Iterator[Problem]:
    takes = "is never taken" if word == "branch" else "never runs"
    tree = parsed(only_expression(when))
    if tree is not None and type(tree).__name__ == "Const" and tree.value is False:
        yield context.source.problem("FL106", path, f"this {word} {takes}: its condition is always a no", "take it out")
    elif exclude((when,), (when,)):
        yield context.source.problem(
            "FL106", path, f"this {word} {takes}: two parts of its condition exclude each other"
        )
    elif exclude((when,), above):
        what = f"this {word} {takes}: its condition and one around it exclude each other"
        yield context.source.problem("FL106", path, what, "compare with what can hold there, or move it out")
