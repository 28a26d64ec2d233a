"""Names in expressions: what is not in the language (FL007), what nobody has (FL101), what has not run yet (FL102),
and what may be left empty (FL107)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.errors import Problem
from runner.language.check.context import Context, Placed, Text, rule
from runner.language.check.guards import gives, guards_of, is_given, runs_too, speaks_of
from runner.language.check.shapes import Shape, below, input_of, items_of, lists_around, output_of
from runner.language.expressions import NameUse, faults
from runner.language.fields import fields_below, shape_of
from runner.language.nearest import did_you_mean

FIELDS = {
    "run": ("id", "flow", "mode", "started_at"),
    "trigger": ("id", "at", "by"),
    "failure": ("kind", "step", "summary", "by", "at"),
}
_ELSEWHERE = {
    "item": "is in reach inside `each` only",
    "output": "is in reach in a compensation only; what a step answered is steps.<id>",
    "failure": "is in reach in a compensation and in on_failure only",
    "values": "is in reach in templates only",
}
_NO_MARKER = ("rule", "unattended", "accept_order", "none")


@rule("FL007")
def find_faults(context: Context) -> Iterator[Problem]:
    """What is not in the language."""
    for text in context.texts:
        for fault in faults(text.text):
            part = (fault.offset, fault.length)
            yield context.source.problem("FL007", text.path, fault.what, fault.hint, part=part)


@rule("FL007")
def find_unread(context: Context) -> Iterator[Problem]:
    """An expression where none is read: it would stand there as it is written."""
    read, source = {text.path for text in context.texts}, context.source
    steps = {placed.path[:2] for placed in context.placed}
    for path, scalar in source.scalars.items():
        if path in read or "${{" not in scalar.text or path[-1] in _NO_MARKER or path[0] == "inputs":
            continue
        is_lost = path[0] == "steps" and path[:2] not in steps
        if is_lost or context.is_broken(path[:-1]) or any(path[:end] in source.broken for end in range(1, len(path))):
            continue
        name = next(str(part) for part in reversed(path) if isinstance(part, str))
        what = f'"{name}" is taken as it is written; no expression is read there'
        yield source.problem("FL007", path, what, part=(scalar.text.index("${{"), 3))


@rule("FL101")
def find_strangers(context: Context) -> Iterator[Problem]:
    """Names that nobody has."""
    for text in context.texts:
        wrong = [context.source.inside(text.path, fault.offset, fault.length) for fault in faults(text.text)]
        for use in text.uses:
            for found in _strangers(context, text, use):
                if not any(
                    one.line == found.line and 0 <= found.column - one.column < max(one.length, 1) for one in wrong
                ):
                    yield found


def _strangers(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    root, rest = use.path[0], use.path[1:]
    if root == "output" and root in text.names and text.placed is not None:
        step = text.placed.step
        yield from _wrong_part(context, text, use, 1, output_of(context, step), f'the output of "{step.id}"')
    elif root == "input" and root in text.names and text.placed is not None:
        name, known = input_of(context, text.placed.step)
        yield from _wrong_part(context, text, use, 1, known, f'the input of "{name}"')
    elif root in _ELSEWHERE and root not in text.names:
        where, _, hint = _ELSEWHERE[root].partition("; ")
        yield _at_part(context, text, use, 0, "FL101", f'"{root}" {where}', hint)
    elif root in FIELDS and (root == "failure" or root not in text.names):
        if rest and rest[0] not in FIELDS[root]:
            hint = did_you_mean(rest[0], FIELDS[root], "known names" if root == "failure" else "there are")
            yield _at_part(context, text, use, 1, "FL101", f'"{root}" has no "{rest[0]}"', hint)
    elif root == "item" and text.placed is not None:
        yield from _of_item(context, text, use)
    elif root in text.names:
        return
    elif root == "inputs":
        yield from _of_inputs(context, text, use)
    elif root in ("steps", "outcome"):
        yield from _of_steps(context, text, use)
    else:
        roots = {"inputs", "steps", "outcome", "run", "trigger", *text.names}
        yield _at_part(context, text, use, 0, "FL101", f'there is no name "{root}"', _root_hint(context, root, roots))


def _root_hint(context: Context, root: str, roots: set[str]) -> str:
    for place, known in (("inputs", context.flow.inputs), ("steps", context.by_id)):
        if root in known:
            return f'did you mean "{place}.{root}"?'
    return did_you_mean(root, roots, "names begin with")


def _of_item(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    """`item` is of the innermost list; what only an outer item has goes there by way of a called flow's inputs."""
    lists = lists_around(text)
    for problem in _wrong_part(context, text, use, 1, below(items_of(context, lists[-1])), '"item"') if lists else ():
        outer = [one.step.id for one in lists[:-1] if use.path[1] in (below(items_of(context, one)) or {})]
        hint = f'the item of "{outer[-1]}" has it; inside "{lists[-1].step.id}" item is of that list' if outer else ""
        yield replace(problem, hint=hint or problem.hint)


def _of_inputs(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    name = use.path[1] if len(use.path) > 1 else ""
    if name in context.flow.inputs:
        shape = shape_of(context.flow.inputs[name])
        if shape is not None:
            yield from _wrong_part(context, text, use, 2, fields_below(shape), f'input "{name}"')
    elif name and not context.is_broken(("inputs",)):
        hint = did_you_mean(name, context.flow.inputs, "inputs")
        yield _at_part(context, text, use, 1, "FL101", f'there is no input "{name}"', hint)


def _of_steps(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    name = use.path[1] if len(use.path) > 1 else ""
    if not name or name in context.source.lost:
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
    for number, part in enumerate(use.path[start:], start):
        if known is None:
            return
        if part not in known:
            hint = did_you_mean(part, known, "it has") if known else "it has no fields"
            yield _at_part(context, text, use, number, "FL101", f'{owner} has no "{part}"', hint)
            return
        known, owner = below(known[part]), f'"{part}"'


# --- FL102 ---------------------------------------------------------------------------------------------------------


@rule("FL102")
def find_too_early(context: Context) -> Iterator[Problem]:
    """A step that is used before it ran, or where it may have been skipped."""
    for text in context.texts:
        for use in text.uses:
            yield from _too_early(context, text, use)
            if use.path[0] == "outcome" and len(use.path) > 1 and text.reach in ("start", "trigger"):
                yield _at_part(context, text, use, 1, "FL102", "no step has run yet when this is read")


def find_in_use(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    """Everything that is wrong with one use of a name."""
    yield from _strangers(context, text, use)
    yield from _too_early(context, text, use)
    yield from _may_be_empty(context, text, use)


def _too_early(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    wanted = context.by_id.get(use.path[1]) if use.path[0] in ("steps", "outcome") and len(use.path) > 1 else None
    if wanted is None:
        return
    what, hint = _why_elsewhere(text, wanted)
    if not what and use.path[0] == "steps":
        what, hint = _why_too_early(context, text, use, wanted)
    elif not what:
        what, hint = _why_no_outcome(text, use, wanted)
    if what:
        yield _at_part(context, text, use, 1, "FL102", what, hint)


def _why_elsewhere(text: Text, wanted: Placed) -> tuple[str, str]:
    """A step inside `each` is of one item, and nobody outside could say of which."""
    mine = [outer.step.id for outer in text.placed.around] if text.placed is not None else []
    for outer in wanted.around if text.reach not in ("start", "trigger") else ():
        each = outer.step.id
        if outer.step.verb == "each" and each not in mine:
            what = f'step "{wanted.step.id}" runs once per item of "{each}" and is in reach only there'
            return what, f"afterwards there are steps.{each}.done and .set_aside"
        if outer.step.verb == "agent" and wanted is not text.placed:
            what = f'"{wanted.step.id}" is a tool of "{each}", and what it answers goes to its model alone'
            return what, f"afterwards there are steps.{each}.text and .did"
    return "", ""


def _why_too_early(context: Context, text: Text, use: NameUse, wanted: Placed) -> tuple[str, str]:
    name, placed = wanted.step.id, text.placed
    if text.reach in ("start", "trigger"):
        return f'step "{name}" has not run yet when this is read', ""
    if use.guarded:
        return "", ""
    is_own = placed is not None and placed.step.id == name
    if placed is not None and name not in placed.earlier and not (is_own and text.reach == "compensation"):
        where = "this step" if is_own else f'step "{name}"'
        if text.reach == "step":
            return f"{where} has not run yet here", "use a step above this one"
        return f"{where} may not have run yet when this is read", f"write steps.{name}… | default(…)"
    why = _why_uncertain(context, text, wanted, use.path)
    word = "yes" if wanted.step.verb == "approve" else "done"
    guard = f"or put it behind when: ${{{{ outcome.{name} == '{word}' }}}}"
    return (f'step "{name}" {why}', f"write {'.'.join(use.path)} | default(…), {guard}") if why else ("", "")


def _why_no_outcome(text: Text, use: NameUse, wanted: Placed) -> tuple[str, str]:
    """Whatever stands above has an outcome, skipped or not; the branch beside goes at its own pace and has none yet."""
    if text.reach != "step" or text.placed is None or use.guarded or wanted.step.id in text.placed.earlier:
        return "", ""
    return f'nothing has become of step "{wanted.step.id}" yet here', "use a step above this one"


def _why_uncertain(context: Context, text: Text, wanted: Placed, path: tuple[str, ...]) -> str:
    """Empty if the step has an answer wherever this text is read, else what may have become of it."""
    user = text.placed
    name = wanted.step.id
    if user is not None and name == user.step.id:
        return ""
    guards = guards_of(text)
    if any(speaks_of(guard, name) or gives(guard, path) for guard in guards):
        return ""
    mine = user.branches if user is not None else ()
    if any(step_id == name for step_id, _ in mine):
        return ""
    if wanted.step.if_refused == "continue":
        return "may have been refused"
    if wanted.step.if_late == "continue":
        return "may have waited in vain"
    why = _why_not_approved(context, name, user.step.id if user is not None else "", guards)
    return why or ("" if runs_too(wanted, guards, mine) else "may have been skipped")


def _why_not_approved(context: Context, name: str, user: str, guards: tuple[str, ...]) -> str:
    """Of a step that is covered: empty if whoever reads it runs only where it was approved."""
    for gate in context.gates.get(name, ()):
        approval, asked = gate.step.approval, any(speaks_of(guard, gate.step.id) for guard in guards)
        if approval is not None and not asked and user not in approval.covers:
            if approval.if_no == "continue":
                return "may not have been approved"
            if approval.may_leave_out:
                return "may have been left out"
    return ""


# --- FL107 ---------------------------------------------------------------------------------------------------------


@rule("FL107")
def find_empty_inputs(context: Context) -> Iterator[Problem]:
    """An input that may be left empty, where a value is needed. A run key has a rule of its own."""
    for text in context.texts:
        is_shown = text.placed is not None and text.path[: len(text.placed.path) + 1] == (*text.placed.path, "show")
        if text.path != ("run_key",) and text.reach != "trigger" and not text.is_name and not is_shown:
            for use in text.uses:
                yield from _may_be_empty(context, text, use)


def _may_be_empty(context: Context, text: Text, use: NameUse) -> Iterator[Problem]:
    name = use.path[1] if use.path[0] == "inputs" and len(use.path) > 1 else ""
    shape = shape_of(context.flow.inputs[name]) if name in context.flow.inputs else None
    if shape is None or not shape.optional or shape.default is not None or use.guarded:
        return
    if not is_given(text, use.path[:2]):
        short = f"inputs.{name}"
        what = f'input "{name}" may be left empty, and then there is no value here'
        hint = f"write {'.'.join(use.path)} | default(…), or put it behind when: ${{{{ given({short}) }}}}"
        yield replace(_at_part(context, text, use, 1, "FL107", what, hint), level="warning")


def _at_part(context: Context, text: Text, use: NameUse, number: int, code: str, what: str, hint: str = "") -> Problem:
    """A problem at one part of a dotted name."""
    at = use.offset
    for earlier in use.path[:number]:
        at = text.text.find(earlier, at) + len(earlier)
    start = text.text.find(use.path[number], at)
    part = (use.offset, use.length) if start < 0 else (start, len(use.path[number]))
    return context.source.problem(code, text.path, what, hint, part=part)
