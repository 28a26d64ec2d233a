"""Names in expressions: what is not in the language (FL007), what nobody has (FL101), what has not run yet (FL102)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.errors import Problem
from runner.language.check.context import Context, Placed, Text
from runner.language.check.guards import is_certain
from runner.language.check.rules import rule
from runner.language.check.shapes import Shape, below, output_of
from runner.language.expressions import NameUse, faults, names
from runner.language.kinds import fields_below, shape_of
from runner.language.nearest import did_you_mean

_RUN = ("id", "flow", "mode", "started_at")
_TRIGGER = ("id", "at", "by")
_FAILURE = ("kind", "step", "summary", "by", "at")
_ELSEWHERE = {
    "item": "is in reach inside `each` only",
    "output": "is in reach in a compensation only",
    "failure": "is in reach in a compensation and in on_failure only",
    "values": "is in reach in templates only",
}
_NO_MARKER = ("rule", "unattended", "accept_order", "none")


@rule("FL007")
def find_faults(context: Context) -> Iterator[Problem]:
    """What is not in the language."""
    for text in context.texts:
        for fault in faults(text.text):
            yield problem_in(context, text, "FL007", fault.offset, fault.length, fault.what, fault.hint)


@rule("FL007")
def find_unread(context: Context) -> Iterator[Problem]:
    """An expression where none is read: it would stand there as it is written."""
    read = {text.path for text in context.texts}
    for path, scalar in context.source.scalars.items():
        if path in read or "${{" not in scalar.text or path[-1] in _NO_MARKER or path[0] == "inputs":
            continue
        if context.is_broken(path[:-1]) or _is_below_unknown(context, path):
            continue
        name = next(str(part) for part in reversed(path) if isinstance(part, str))
        at = scalar.text.index("${{")
        place = context.source.inside(path, at, 3)
        yield Problem(
            code="FL007",
            level="error",
            file=context.source.file,
            line=place.line,
            column=place.column,
            length=place.length,
            what=f'"{name}" is taken as it is written; no expression is read there',
        )


def _is_below_unknown(context: Context, path: tuple[str | int, ...]) -> bool:
    return any(path[:end] in context.source.broken for end in range(1, len(path)))


@rule("FL101")
def find_strangers(context: Context) -> Iterator[Problem]:
    """Names that nobody has."""
    for text in context.texts:
        wrong = [problem_in(context, text, "FL007", fault.offset, fault.length, "") for fault in faults(text.text)]
        for use in names(text.text):
            for problem in _stranger(context, text, use):
                if not any(_covers(fault, problem) for fault in wrong):
                    yield problem


def _covers(fault: Problem, problem: Problem) -> bool:
    begin = fault.column
    return fault.line == problem.line and begin <= problem.column < begin + max(fault.length, 1)


def _stranger(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    root, rest = use.path[0], use.path[1:]
    if root in text.names:
        yield from _of_known_root(context, text, use)
        return
    if root in _ELSEWHERE and root not in text.names:
        yield _at_part(context, text, use, 0, "FL101", f'"{root}" {_ELSEWHERE[root]}')
        return
    if root in ("run", "trigger"):
        fields = _RUN if root == "run" else _TRIGGER
        if rest and rest[0] not in fields:
            hint = did_you_mean(rest[0], fields, "there are")
            yield _at_part(context, text, use, 1, "FL101", f'"{root}" has no "{rest[0]}"', hint)
        return
    if root == "inputs":
        yield from _of_inputs(context, text, use)
    elif root in ("steps", "outcome"):
        yield from _of_steps(context, text, use)
    else:
        roots = {"inputs", "steps", "outcome", "run", "trigger", *text.names}
        yield _at_part(context, text, use, 0, "FL101", f'there is no name "{root}"', _root_hint(context, root, roots))


def _root_hint(context: Context, root: str, roots: set[str]) -> str:
    if root in context.flow.inputs:
        return f'did you mean "inputs.{root}"?'
    if root in context.by_id:
        return f'did you mean "steps.{root}"?'
    return did_you_mean(root, roots, "names begin with")


def _of_known_root(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    root, rest = use.path[0], use.path[1:]
    if root == "failure" and rest and rest[0] not in _FAILURE:
        yield _at_part(context, text, use, 1, "FL101", f'"failure" has no "{rest[0]}"', did_you_mean(rest[0], _FAILURE))
    if root == "output" and text.placed is not None:
        known = output_of(context, text.placed.step)
        yield from _wrong_part(context, text, use, 1, known, f'the output of "{text.placed.step.id}"')


def _of_inputs(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    if len(use.path) < 2:
        return
    name = use.path[1]
    if name not in context.flow.inputs:
        if not context.is_broken(("inputs",)):
            hint = did_you_mean(name, context.flow.inputs, "inputs")
            yield _at_part(context, text, use, 1, "FL101", f'there is no input "{name}"', hint)
        return
    shape = shape_of(context.flow.inputs[name])
    if shape is not None:
        yield from _wrong_part(context, text, use, 2, fields_below(shape), f'input "{name}"')


def _of_steps(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    if len(use.path) < 2:
        return
    name = use.path[1]
    if name in context.source.lost:
        return
    placed = context.by_id.get(name)
    if placed is None:
        hint = did_you_mean(name, context.by_id, "steps")
        yield _at_part(context, text, use, 1, "FL101", f'there is no step "{name}"', hint)
    elif use.path[0] == "steps":
        yield from _wrong_part(context, text, use, 2, output_of(context, placed.step), f'step "{name}"')


def _wrong_part(
    context: Context, text: Text, use: NameUse, start: int, known: Mapping[str, Shape] | None, owner: str
) -> Iterator[Problem]:
    """The first part of the path, from `start` on, that is not among the fields there."""
    for number in range(start, len(use.path)):
        part = use.path[number]
        if known is None:
            return
        if part not in known:
            hint = did_you_mean(part, known, "it has") if known else ""
            yield _at_part(context, text, use, number, "FL101", f'{owner} has no "{part}"', hint)
            return
        known, owner = below(known[part]), f'"{part}"'


# --- FL102 ---------------------------------------------------------------------------------------------------------


@rule("FL102")
def find_too_early(context: Context) -> Iterator[Problem]:
    """A step that is used before it ran, or where it may have been skipped."""
    for text in context.texts:
        for use in names(text.text):
            if use.path[0] == "steps" and len(use.path) > 1 and use.path[1] in context.by_id:
                yield from _too_early(context, text, use, context.by_id[use.path[1]])
            elif use.path[0] == "outcome" and len(use.path) > 1 and text.reach in ("start", "trigger"):
                yield _at_part(context, text, use, 1, "FL102", "no step has run yet when this is read")


def find_in_use(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    """Everything that is wrong with one use of a name."""
    yield from _stranger(context, text, use)
    if use.path[0] == "steps" and len(use.path) > 1 and use.path[1] in context.by_id:
        yield from _too_early(context, text, use, context.by_id[use.path[1]])


def _too_early(context: Context, text: Text, use: NameUse, wanted: Placed) -> Iterator[Problem]:
    name = use.path[1]
    if text.reach in ("start", "trigger"):
        yield _at_part(context, text, use, 1, "FL102", f'step "{name}" has not run yet when this is read')
        return
    if use.guarded:
        return
    lists = [outer.step.id for outer in wanted.around if outer.step.verb == "each"]
    mine = [outer.step.id for outer in text.placed.around] if text.placed is not None else []
    outside = [each for each in lists if each not in mine]
    if outside:
        what = f'step "{name}" runs once per item of "{outside[0]}" and is in reach only there'
        yield _at_part(
            context, text, use, 1, "FL102", what, f"afterwards there are steps.{outside[0]}.done and .set_aside"
        )
        return
    if text.placed is not None and not _has_begun(text, wanted):
        where = "this step" if text.placed.step.id == name else f'step "{name}"'
        what = (
            f"{where} has not run yet here"
            if text.reach == "step"
            else f"{where} may not have run yet when this is read"
        )
        hint = "use a step above this one" if text.reach == "step" else f"write steps.{name}… | default(…)"
        yield _at_part(context, text, use, 1, "FL102", what, hint)
        return
    why = is_certain(context, text, wanted, use.path)
    if why:
        guard = f"or put it behind when: ${{{{ outcome.{name} == 'done' }}}}"
        hint = f"write {'.'.join(use.path)} | default(…), {guard}"
        yield _at_part(context, text, use, 1, "FL102", f'step "{name}" {why}', hint)


def _has_begun(text: Text, wanted: Placed) -> bool:
    placed = text.placed
    if placed is None or wanted.step.id in placed.earlier:
        return True
    return text.reach == "compensation" and placed.step.id == wanted.step.id


# --- places --------------------------------------------------------------------------------------------------------


def problem_in(context: Context, text: Text, code: str, offset: int, length: int, what: str, hint: str = "") -> Problem:
    """A problem at a part of a text."""
    place = context.source.inside(text.path, offset, length)
    return Problem(
        code=code,
        level="error",
        file=context.source.file,
        line=place.line,
        column=place.column,
        length=place.length,
        what=what,
        hint=hint,
    )


def _at_part(context: Context, text: Text, use: NameUse, number: int, code: str, what: str, hint: str = "") -> Problem:
    """A problem at one part of a dotted name."""
    at = use.offset
    for earlier in use.path[:number]:
        at = text.text.find(earlier, at) + len(earlier)
    start = text.text.find(use.path[number], at)
    if start < 0:
        return problem_in(context, text, code, use.offset, use.length, what, hint)
    return problem_in(context, text, code, start, len(use.path[number]), what, hint)
