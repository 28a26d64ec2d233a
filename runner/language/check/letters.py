"""Templates that a step names: what they use must be in reach of that step (FL101, FL102)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.contract import Json
from runner.errors import Problem
from runner.language.check.context import Context, Text, Use
from runner.language.check.names import find_in_use
from runner.language.check.rules import rule
from runner.language.expressions import NameUse
from runner.language.fitting import value_at
from runner.language.nearest import did_you_mean
from runner.language.source import Path
from runner.language.templates import used_names


@rule("FL101", "FL102")
def find_strangers_in_letters(context: Context) -> Iterator[Problem]:
    """Names in a template that the step which sends it does not have. The place is where the flow names it."""
    for use in context.uses:
        action = context.action(use.action)
        written = value_at(context.source.data, (*use.inputs, "template"))
        if action is None or not action.renders_template or not isinstance(written, str):
            continue
        values = value_at(context.source.data, (*use.inputs, "values"))
        for name, text in context.facts.templates.items():
            if written in (name, name.split(".")[0]):
                yield from _of_letter(context, use, name, text, values)


def _of_letter(context: Context, use: Use, name: str, text: str, values: Json) -> Iterator[Problem]:
    path: Path = (*use.inputs, "template")
    in_compensation = use.word not in ("do", "read")
    more = {"values", "output", "failure"} if in_compensation else {"values"}
    if any(outer.step.verb == "each" for outer in use.placed.around):
        more.add("item")
    reach = "compensation" if in_compensation else "step"
    letter = Text(path=path, text=text, reach=reach, placed=use.placed, names=frozenset(more))  # type: ignore[arg-type]
    seen: set[str] = set()
    for used in used_names(text):
        found = [*_missing_values(context, path, used, values), *find_in_use(context, letter, used)]
        where = f"{name}, line {text.count(chr(10), 0, used.offset) + 1}"
        for problem in found:
            if problem.what not in seen:
                seen.add(problem.what)
                place = context.source.at(path)
                told = f"in the template {where}: {problem.what}"
                yield replace(problem, what=told, line=place.line, column=place.column, length=place.length)


def _missing_values(context: Context, path: Path, used: NameUse, values: Json) -> Iterator[Problem]:
    if used.path[0] != "values" or len(used.path) < 2 or used.guarded or isinstance(values, str):
        return
    given = values if isinstance(values, dict) else {}
    if used.path[1] not in given:
        hint = (
            did_you_mean(used.path[1], given, "values") if given else f"write values: {{ {used.path[1]}: … }} beside it"
        )
        yield context.source.problem("FL101", path, f"values.{used.path[1]} is not given", hint)
