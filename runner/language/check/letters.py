"""Mails as a step writes them: addresses, subject and text (FL208, FL006), and the template that it names: it must be
there (FL208), and what it uses in reach of that step (FL101, FL102, FL107)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.contract import Json
from runner.errors import Problem
from runner.language.check.context import Context, Placed, Text, Use, rule
from runner.language.check.names import find_in_use
from runner.language.expressions import NameUse
from runner.language.fitting import value_at
from runner.language.nearest import did_you_mean
from runner.language.source import Path
from runner.language.templates import subject_of, used_names

_ADDRESS = re.compile(r"[^<>]*<[^\s@<>]+@[^\s@<>]+>|[^\s@<>,;]+@[^\s@<>,;]+")


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


@rule("FL006")
def find_wrong_addresses(context: Context) -> Iterator[Problem]:
    """Addresses that are written out and are none."""
    for use, given in _mails(context):
        action = context.facts.actions[use.action]
        for name in (action.fan_out, "reply_to"):
            value = given.get(name)
            several = enumerate(value) if isinstance(value, list) else [(None, value)]
            for number, one in several:
                path = (*use.inputs, name) if number is None else (*use.inputs, name, number)
                if isinstance(one, str) and "${{" not in one and not _ADDRESS.fullmatch(one.strip()):
                    what, hint = f'"{one}" is not a mail address', "write it as name@example.test"
                    yield context.source.problem("FL006", path, what, hint)


@rule("FL208")
def find_empty_letters(context: Context) -> Iterator[Problem]:
    """Mails without a subject, or with nothing in them."""
    for use, given in _mails(context):
        on = use.inputs if given else use.path
        if not given.get("template") and not any(_may_hold(given.get(part)) for part in ("text", "html")):
            hint = "write text: … or html: …, or name a template"
            yield context.source.problem("FL208", on, f"{use.action} has nothing to send", hint, on="key")
        if not _may_hold(given.get("subject")):
            yield from _no_subject(context, use, given.get("template"), on)


def _mails(context: Context) -> Iterator[tuple[Use, Mapping[str, Json]]]:
    """Every place where a mail is written: (the action's use, what it is given)."""
    for use in context.uses:
        action, given = context.action(use.action), value_at(context.source.data, use.inputs)
        is_mail = action is not None and action.renders_template and "subject" in action.input
        is_mail = is_mail and not (use.placed is not None and use.placed.step.tool_of and use.word == "do")
        if is_mail and isinstance(given, dict | None) and not context.is_broken(use.inputs):
            yield use, given or {}


def _may_hold(value: Json) -> bool:
    """Whether a text may stand there when the run comes to it."""
    return value is not None and not (isinstance(value, str) and not value.strip())


def _no_subject(context: Context, use: Use, template: Json, on: Path) -> Iterator[Problem]:
    if not template:
        yield context.source.problem("FL208", on, f"{use.action} has no subject", "write subject: …", on="key")
        return
    for name, text in context.facts.templates.items():
        is_meant = template in (name, name.split(".")[0]) and not name.endswith(".html")
        if is_meant and not subject_of(text):
            what = f"the mail has no subject, and the template {name} does not begin with one"
            hint = f"write subject: … here, or as the first line of templates/{name}"
            yield context.source.problem("FL208", (*use.inputs, "template"), what, hint)


@rule("FL101", "FL102", "FL107")
def find_strangers_in_letters(context: Context) -> Iterator[Problem]:
    """Names in a template that the step which sends it does not have. The place is where the flow names it."""
    for use, path, written in _letters(context):
        values = value_at(context.source.data, (*use.inputs, "values"))
        for name, text in context.facts.templates.items():
            if written in (name, name.split(".")[0]):
                yield from _of_letter(context, use, path, name, text, values)


def letters_of(context: Context, placed: Placed) -> Iterator[tuple[Path, str, tuple[NameUse, ...]]]:
    """The templates that a step sends: (where it names it, the file's name, the names that it uses)."""
    for use, path, written in _letters(context):
        for name, text in context.facts.templates.items():
            if use.placed is placed and use.word == "do" and written in (name, name.split(".")[0]):
                yield path, name, tuple(used_names(text))


def _of_letter(context: Context, use: Use, path: Path, name: str, text: str, values: Json) -> Iterator[Problem]:
    names = (use.placed.names if use.placed is not None else frozenset()) | {"values"}
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
