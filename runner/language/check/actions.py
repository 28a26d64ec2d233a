"""Actions: read or do (FL201), names of connections, actions, fields and templates (FL208), kinds of values (FL006)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.contract import Action, Json, missing
from runner.errors import Problem
from runner.language.check.context import Context, Use
from runner.language.check.rules import rule
from runner.language.fitting import value_at
from runner.language.kinds import NUMBERS, WORDS, fits, kind_of_field, shape_of
from runner.language.nearest import did_you_mean, nearest
from runner.language.source import Path, as_quoted, reads_differently


@rule("FL201")
def find_wrong_verbs(context: Context) -> Iterator[Problem]:
    """`read` with an action that changes something, or the other way round."""
    for use in context.uses:
        action = context.action(use.action)
        if action is None:
            continue
        if use.word in ("read", "show") and action.effect != "read":
            hint = "write do: instead, and say how it is made good" if use.word == "read" else "name a read action"
            what = f"{use.action} changes something, so it cannot be {_called(use.word)}"
            yield context.source.problem("FL201", use.path, what, hint)
        elif use.word not in ("read", "show") and action.effect == "read":
            hint = "write read: instead" if use.word == "do" else "name an action that does something"
            yield context.source.problem(
                "FL201", use.path, f"{use.action} changes nothing, so it is no {use.word}", hint
            )


def _called(word: str) -> str:
    return "read" if word == "read" else "shown"


@rule("FL208")
def find_unknown_actions(context: Context) -> Iterator[Problem]:
    """Connections and actions that are not there."""
    for use in context.uses:
        connection, _, name = use.action.partition(".")
        if connection in context.facts.unreadable or context.action(use.action) is not None:
            continue
        known = context.facts.known_connections()
        if connection not in known:
            hint = did_you_mean(connection, known, "connections")
            more = hint or "name it in connections.yaml"
            yield context.source.problem("FL208", use.path, f'there is no connection "{connection}"', more)
            continue
        actions = [one.partition(".")[2] for one in context.facts.actions if one.startswith(f"{connection}.")]
        hint = did_you_mean(name, actions, "its actions")
        yield context.source.problem("FL208", use.path, f'"{connection}" has no action "{name}"', hint)


@rule("FL208")
def find_missing_undo(context: Context) -> Iterator[Problem]:
    """A bare `cancel` where the action names no undo of its own."""
    for placed in context.placed:
        words = placed.step.compensate
        action = context.action(placed.step.action)
        if words is None or words.word != "cancel" or words.action or action is None or action.undo is not None:
            continue
        why = action.cannot_undo or "Its connector names no action that takes it back."
        what = f"{placed.step.action} has no undo of its own"
        hint = f"{why} Write cancel: connection.action, or another of the five words"
        yield context.source.problem("FL208", (*placed.path, "compensate"), what, hint)


@rule("FL208", "FL006")
def find_wrong_input(context: Context) -> Iterator[Problem]:
    """Fields that an action does not have, fields that are missing, values that cannot be meant."""
    for use in context.uses:
        action = context.action(use.action)
        if action is None or use.word == "show":
            continue
        written = value_at(context.source.data, use.inputs)
        given: Mapping[str, Json] = written if isinstance(written, dict) else {}
        if written is not None and not isinstance(written, dict):
            continue
        yield from _unknown_fields(context, use, action, given)
        if not context.is_broken(use.inputs):
            strangers = [nearest(name, action.input) for name in given if name not in action.input]
            for name in missing(action.input, list(given)):
                if name in strangers:
                    continue
                on = use.inputs if written is not None else use.path
                kind = WORDS.get(kind_of_field(action.input[name]), "")
                hint = f"it is {kind}" if kind else ""
                yield context.source.problem("FL208", on, f'{use.action} needs the field "{name}"', hint, on="key")
        for name, value in given.items():
            if name in action.input and name != action.fan_out:
                yield from _wrong_value(context, (*use.inputs, name), name, value, action.input[name])


def _unknown_fields(context: Context, use: Use, action: Action, given: Mapping[str, Json]) -> Iterator[Problem]:
    if action.open_input:
        return
    for name in given:
        if name not in action.input:
            hint = did_you_mean(name, action.input, "its fields")
            yield context.source.problem(
                "FL208", (*use.inputs, name), f'{use.action} has no field "{name}"', hint, on="key"
            )


def _wrong_value(context: Context, path: Path, name: str, value: Json, written: Json) -> Iterator[Problem]:
    """A literal that the field cannot take; what an expression gives is known at run time only."""
    shape = shape_of(written)
    if shape is None or path in context.source.broken or (isinstance(value, str) and "${{" in value):
        return
    if value is None:
        if not shape.optional:
            what = f'nothing is written after "{name}"'
            yield context.source.problem("FL006", path, what, f"it is {WORDS.get(shape.kind, shape.kind)}", on="key")
        return
    scalar = context.source.scalars.get(path)
    if scalar is not None and scalar.style == "plain" and reads_differently(scalar.text) and shape.kind not in NUMBERS:
        return
    if shape.kind in ("text", "email", "phone", "url") and scalar is not None and not isinstance(value, str):
        what = f'"{name}" is a text, and {scalar.text} would be read as {_read_as(value)}'
        yield context.source.problem("FL002", path, what, f"write it in quotes: {as_quoted(scalar.text)}")
    elif not fits(shape.kind, value):
        yield context.source.problem("FL006", path, f'"{name}" needs {WORDS[shape.kind]}')
    elif shape.kind == "choice" and shape.choices and value not in shape.choices:
        hint = did_you_mean(str(value), [str(choice) for choice in shape.choices], "its choices")
        yield context.source.problem("FL006", path, f'"{name}" cannot be "{value}"', hint)
    elif shape.kind == "record" and shape.fields is not None and isinstance(value, dict):
        for key in value:
            if key not in shape.fields:
                hint = did_you_mean(key, shape.fields, "its fields")
                yield context.source.problem("FL208", (*path, key), f'"{name}" has no field "{key}"', hint, on="key")


def _read_as(value: Json) -> str:
    return "a yes or no" if isinstance(value, bool) else f"the number {value}"


@rule("FL208")
def find_wrong_find(context: Context) -> Iterator[Problem]:
    """`find` by fields that the connector cannot ask by."""
    for placed in context.placed:
        find, action = placed.step.find, context.action(placed.step.action)
        if find is None or action is None:
            continue
        path = (*placed.path, "find")
        if not action.find_by:
            what = f"{placed.step.action} cannot be looked up by find"
            yield context.source.problem("FL208", path, what, "take find out", on="key")
            continue
        for name in find:
            if name not in action.find_by:
                hint = did_you_mean(name, action.find_by, "it can be found by")
                what = f'{placed.step.action} cannot be found by "{name}"'
                yield context.source.problem("FL208", (*path, name), what, hint, on="key")
        if not find:
            yield context.source.problem(
                "FL208", path, "find names no field", f"by: {', '.join(action.find_by)}", on="key"
            )


@rule("FL208")
def find_missing_templates(context: Context) -> Iterator[Problem]:
    """Templates that are not there."""
    known = {name.split(".")[0] for name in context.facts.templates} | set(context.facts.templates)
    for use in context.uses:
        action = context.action(use.action)
        written = value_at(context.source.data, (*use.inputs, "template"))
        if action is None or not action.renders_template or not isinstance(written, str) or "${{" in written:
            continue
        if written not in known:
            short = {name.split(".")[0] for name in known}
            hint = did_you_mean(written, short, "templates") or f"write templates/{written}.md"
            path = (*use.inputs, "template")
            yield context.source.problem("FL208", path, f'there is no template "{written}"', hint)


def number_paths(context: Context) -> frozenset[Path]:
    """Where numbers are expected: there `1.10` is a number and nothing is lost."""
    found: set[Path] = set()
    for use in context.uses:
        action = context.action(use.action)
        if action is not None:
            found.update((*use.inputs, name) for name, kind in action.input.items() if kind_of_field(kind) in NUMBERS)
    return frozenset(found)
