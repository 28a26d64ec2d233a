"""Steps have one id each (FL105), a branch can be reached (FL106), inputs are of a type (FL006), people too (FL301)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, rule
from runner.language.fields import field_type
from runner.language.flow import NOBODY
from runner.language.nearest import did_you_mean, nearest
from runner.language.source import Path
from runner.language.types import read_entry


@rule("FL105")
def find_twins(context: Context) -> Iterator[Problem]:
    """Two steps with one id."""
    for placed in context.placed:
        first = context.by_id[placed.step.id]
        if first is not placed:
            what = f'the id "{placed.step.id}" is taken by the step on line {first.step.line}'
            yield context.source.problem("FL105", (*placed.path, "id"), what, "every step of a flow has its own")


@rule("FL106")
def find_dead_branches(context: Context) -> Iterator[Problem]:
    """Branches of a choose behind its otherwise: none of them is ever taken."""
    for placed in context.placed:
        branches = placed.step.branches if placed.step.verb == "choose" else ()
        otherwise = next((number for number, branch in enumerate(branches) if branch.when is None), len(branches))
        for number in range(otherwise + 1, len(branches)):
            what = "this branch is never taken: it stands behind the one without when, which takes all that is left"
            path = (*placed.path, "choose", number)
            yield context.source.problem("FL106", path, what, "put the branch without when last, or give it a when")


@rule("FL006")
def find_wrong_types(context: Context) -> Iterator[Problem]:
    """Inputs whose type is none."""
    for name, written in context.flow.inputs.items():
        if context.is_broken(("inputs", name)):
            continue
        try:
            kind = field_type(written)
        except ValueError as error:
            sentence, _, hint = re.sub(r": (?=did you mean)", "; ", str(error)).partition("; ")
            yield context.source.problem("FL006", ("inputs", name), sentence, hint)
            continue
        try:
            if kind.default is not None and not context.flow.schema_file:
                read_entry(kind, kind.default, zone=context.facts.zone)
        except ValueError as error:
            yield context.source.problem("FL006", ("inputs", name, "default"), f'the default of "{name}": {error}')


@rule("FL301")
def find_unreachable(context: Context) -> Iterator[Problem]:
    """Owners and people to be told who are nobody, or whom no message reaches."""
    people = context.facts.people
    for path, name in _people(context):
        scalar = context.source.scalars.get(path)
        is_here = bool(name) and scalar is not None and scalar.text == name
        why = (people.reachable(name) if name != STARTERS_CHIEF else _no_chief(context)) if is_here else ""
        if why:
            hint = _nearest_name(name, people.names()) if why.startswith("there is no") else ""
            yield context.source.problem("FL301", path, why, hint)


STARTERS_CHIEF = "manager_of:starter"
STARTED_BY_PEOPLE = ("manual", "form")


def _no_chief(context: Context) -> str:
    if not any(kind in trigger for trigger in context.flow.trigger for kind in STARTED_BY_PEOPLE):
        return f"nobody starts this flow by hand or by a form, so {STARTERS_CHIEF} is nobody"
    if not any(person.manager for person in context.facts.people.people.values()):
        return f"nobody in people.yaml has a manager, so {STARTERS_CHIEF} is nobody"
    return ""


def _nearest_name(name: str, known: tuple[str, ...]) -> str:
    kind, _, key = name.partition(":")
    keys = [one.partition(":")[2] for one in known if one.startswith(kind)]
    close = nearest(key, keys)
    return f'did you mean "{kind}:{close}"?' if close else did_you_mean("", keys, f"{kind} names")


def _people(context: Context) -> Iterator[tuple[Path, str]]:
    flow = context.flow
    yield ("owner",), flow.owner
    yield ("on_failure", "tell"), flow.on_failure.tell if flow.on_failure.tell != NOBODY else ""
    yield ("on_failure", "escalate_to"), flow.on_failure.escalate_to
    for placed in context.placed:
        step, path = placed.step, placed.path
        yield (*path, "owner"), step.owner
        yield (*path, "hand_off"), step.hand_off_to
        if step.approval is not None:
            yield from _approvers(
                path if step.tool_of and path in context.source.scalars else (*path, "by"), step.approval.by
            )
            yield (*path, "escalate_to"), step.approval.escalate_to
        if step.compensate is not None:
            yield from _approvers((*path, "compensate", "approve_by"), step.compensate.approve_by)
        if step.compensate is not None and step.compensate.word == "hand_off":
            yield (*path, "compensate", "hand_off"), step.compensate.target


def _approvers(path: Path, names: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """One name, or a list of them."""
    yield from ((path, name) for name in names[:1])
    yield from (((*path, number), name) for number, name in enumerate(names))
