"""Steps: one id each (FL105); inputs of a known type (FL006)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context
from runner.language.check.rules import rule
from runner.language.fields import field_type


@rule("FL105")
def find_twins(context: Context) -> Iterator[Problem]:
    """Two steps with one id."""
    lines: dict[str, int] = {}
    for placed in context.placed:
        name = placed.step.id
        if name in lines:
            what = f'the id "{name}" is taken by the step on line {lines[name]}'
            yield context.source.problem("FL105", (*placed.path, "id"), what, "every step of a flow has its own")
        else:
            lines[name] = placed.step.line


@rule("FL006")
def find_wrong_types(context: Context) -> Iterator[Problem]:
    """Inputs whose type is none."""
    if list(context.flow.inputs) == ["schema"]:
        return
    for name, written in context.flow.inputs.items():
        if context.is_broken(("inputs", name)):
            continue
        try:
            field_type(written)
        except ValueError as error:
            sentence, _, hint = re.sub(r": (?=did you mean)", "; ", str(error)).partition("; ")
            yield context.source.problem("FL006", ("inputs", name), sentence, hint)
