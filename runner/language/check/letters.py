"""Templates that a step names: they must be there (FL208), and what they use in reach of that step (FL101, FL102)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.contract import Json
from runner.errors import Problem
from runner.language.check.context import Context, Text, Use, rule
from runner.language.check.names import find_in_use
from runner.language.expressions import NameUse
from runner.language.fitting import value_at
from runner.language.nearest import did_you_mean
from runner.language.source import Path
from runner.language.templates import used_names


def _letters(context: Context) -> Iterator[tuple[Use, Path, str]]:
    """Every place where a template is named: (the action's use, path, the template's name)."""
    for use in context.uses:
        action, path = context.action(use.action), (*use.inputs, "template")
        written = value_at(context.source.data, path)
        if action is not None and action.renders_template and isinstance(written, str):
            yield use, path, written


@rule("FL208")
def find_missing_templates(context: Context) -> Iterator[Problem]:
    """Templates that are not there."""
    short = {name.split(".")[0] for name in context.facts.templates}
    for _, path, written in _letters(context):
        if "${{" not in written and written not in short and written not in context.facts.templates:
            hint = did_you_mean(written, short, "templates") or f"write templates/{written}.md"
            yield context.source.problem("FL208", path, f'there is no template "{written}"', hint)


@rule("FL101", "FL102")
def find_strangers_in_letters(context: Context) -> Iterator[Problem]:
    """Names in a template that the step which sends it does not have. The place is where the flow names it."""
    for use, path, written in _letters(context):
        values = value_at(context.source.data, (*use.inputs, "values"))
        for name, text in context.facts.templates.items():
            if written in (name, name.split(".")[0]):
                yield from _of_letter(context, use, path, name, text, values)


def _of_letter(context: Context, use: Use, path: Path, name: str, text: str, values: Json) -> Iterator[Problem]:
    names = use.placed.names | {"values"}
    letter = Text(path=path, text=text, reach="step", placed=use.placed, names=names)
    if use.word not in ("do", "read"):
        letter = replace(letter, reach="compensation", names=names | {"output", "failure"})
    place = context.source.at(path)
    seen: set[str] = set()
    for used in used_names(text):
        for problem in (*_missing_values(context, path, used, values), *find_in_use(context, letter, used)):
            if problem.what not in seen:
                seen.add(problem.what)
                told = f"in the template {name}, line {text.count(chr(10), 0, used.offset) + 1}: {problem.what}"
                yield replace(problem, what=told, line=place.line, column=place.column, length=place.length)


def _missing_values(context: Context, path: Path, used: NameUse, values: Json) -> Iterator[Problem]:
    if used.path[0] != "values" or len(used.path) < 2 or used.guarded or isinstance(values, str):
        return
    name, given = used.path[1], values if isinstance(values, dict) else {}
    if name not in given:
        hint = did_you_mean(name, given, "values") if given else f"write values: {{ {name}: … }} beside it"
        yield context.source.problem("FL101", path, f"values.{name} is not given", hint)
