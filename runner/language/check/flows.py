"""Other flows that a flow names: they are there, do not call each other without end, and are in order (FL101)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.called import ring_of
from runner.language.check.context import Context, Named, rule
from runner.language.nearest import did_you_mean


@rule("FL101")
def find_unfit_flows(context: Context) -> Iterator[Problem]:
    """A flow that is not there, leads back here, or has problems of its own."""
    for named in context.named:
        found = _ring(context, named) or _unfit(context, named)
        if found:
            yield context.source.problem("FL101", named.path, *found)


def _ring(context: Context, named: Named) -> tuple[str, str] | None:
    if named.placed is not None:
        ring = context.ring(named.flow)
        what, hint = "the flows call each other without end", "take one of these calls out"
    else:
        ring = ring_of(context.flow.id, named.flow, lambda name: _following(context, name))
        what, hint = "the flows follow each other without end", "take one of these then_run out"
    return (f"{what}: {' -> '.join(ring)}", hint) if ring else None


def _following(context: Context, name: str) -> Iterator[str]:
    other = context.other(name)
    after = other.flow.on_failure.then_run if other is not None else ""
    return iter([after] if after else [])


def _unfit(context: Context, named: Named) -> tuple[str, str] | None:
    other, written = context.other(named.flow), context.written(named.flow)
    if written is None:
        return f'there is no flow "{named.flow}"', did_you_mean(named.flow, context.facts.flows, "flows here")
    problems = (*written.problems, *(other.problems if other is not None else ()))
    errors = sum(problem.level == "error" for problem in problems)
    if not errors:
        return None
    word = "is called" if named.placed is not None else "follows"
    what = f"flow {named.flow}, which {word} here, has {errors} problem{'s' if errors != 1 else ''}"
    hint = f"run amends check {written.file}"
    if context.flow.mode == "live" and written.flow is not None and written.flow.mode == "draft":
        hint += "; what is a warning there is an error in a live flow"
    return what, hint
