"""Actions: read or do (FL201), names of connections, actions and fields (FL208), values (FL006, FL002)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.contract import Json, missing
from runner.errors import Problem
from runner.language.check.context import Context, Use, rule
from runner.language.fields import NUMBERS, WORDS, FieldType, fits, holds_file, kind_of_field, shape_of
from runner.language.fitting import value_at
from runner.language.nearest import did_you_mean, nearest
from runner.language.source import Path, as_quoted, plain_value, reads_differently
from runner.language.types import read_entry

_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")
_PLAIN_NUMBER = re.compile(r"^-?(?!0\d)\d+(\.\d+)?$")


@rule("FL201")
def find_wrong_verbs(context: Context) -> Iterator[Problem]:
    """`read` with an action that changes something, or the other way round."""
    for use in context.uses:
        action, is_asking = context.action(use.action), use.word in ("read", "show", "poll", "agent")
        if action is None or is_asking == (action.effect == "read"):
            continue
        if use.word == "agent":
            what, hint = f"{use.action} is no language model's agent", _AGENTS
        elif is_asking:
            hint = "write do: instead, and say how it is made good" if use.word == "read" else "name a read action"
            called = {"read": "read", "show": "shown", "poll": "polled"}[use.word]
            what = f"{use.action} changes something, so it cannot be {called}"
        else:
            hint = "write read: instead" if use.word == "do" else "name an action that does something"
            what = f"{use.action} changes nothing, so it is no {use.word}"
        yield context.source.problem("FL201", use.path, what, hint)


_AGENTS = "name the agent action of a connection to a language model, such as ai.agent"


@rule("FL201")
def find_wrong_agents(context: Context) -> Iterator[Problem]:
    """An agent's turns asked for by something else than an agent step, or an agent step with another action."""
    for use in context.uses:
        action = context.action(use.action)
        if action is not None and action.effect == "read" and action.is_agent != (use.word == "agent"):
            what, hint = f"{use.action} is no language model's agent", _AGENTS
            if action.is_agent:
                what, hint = f"{use.action} works in turns, with tools", "write agent: instead, with tools: and limits:"
            yield context.source.problem("FL201", use.path, what, hint)


@rule("FL208")
def find_what_no_model_gives(context: Context) -> Iterator[Problem]:
    """A tool that needs a file, or that goes where the model says: the flow must fix that."""
    for placed in context.placed:
        action = context.action(placed.step.action) if placed.step.tool_of else None
        for name in missing(action.input, list(placed.step.with_)) if action is not None else ():
            shape = shape_of(action.input[name]) if action is not None else None
            if shape is None or action is None:
                continue
            what = f'{placed.step.action} needs the file "{name}", and a model cannot give one'
            if not holds_file(shape):
                what = f'{placed.step.action} goes where "{name}" says, and that is not for a model to choose'
            if holds_file(shape) or (action.open_input and (shape.kind == "url" or name == "collection")):
                hint = f"say which: with: {{ {name}: … }}"
                yield context.source.problem("FL208", (*placed.path, placed.step.verb), what, hint)


@rule("FL208")
def find_unknown_actions(context: Context) -> Iterator[Problem]:
    """Connections and actions that are not there."""
    for use in context.uses:
        connection, _, name = use.action.partition(".")
        if connection in context.facts.unreadable or context.action(use.action) is not None:
            continue
        known = context.facts.known_connections()
        if connection in known:
            actions = [one.partition(".")[2] for one in context.facts.actions if one.startswith(f"{connection}.")]
            what, hint = f'"{connection}" has no action "{name}"', did_you_mean(name, actions, "its actions")
        else:
            hint = did_you_mean(connection, known, "connections") or "name it in connections.yaml"
            what = f'there is no connection "{connection}"'
        yield context.source.problem("FL208", use.path, what, hint)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """One map of values, and the fields that it fills: an action's, or the inputs of a flow."""

    owner: str
    word: str
    fields: Mapping[str, Json]
    path: Path
    inputs: Path
    is_open: bool = False
    fan_out: str = ""
    is_part: bool = False
    """The rest comes from a model."""
    is_strict: bool = True
    """A text is taken for nothing else than a text; a flow's inputs are read like those of a form."""


def filled(context: Context) -> Iterator[Filled]:
    for use in context.uses:
        action = context.action(use.action)
        if action is not None and use.word != "show":
            yield Filled(
                owner=use.action, word="field", fields=action.input, path=use.path, inputs=use.inputs,
                is_open=action.open_input, fan_out=action.fan_out, is_part=_is_tool(use),
            )  # fmt: skip
    for named in context.named:
        other = context.other(named.flow)
        if other is not None and not other.is_broken(("inputs",)):
            yield Filled(
                owner=f"flow {named.flow}", word="input", fields=other.flow.inputs, path=named.path,
                inputs=named.inputs, is_strict=False,
            )  # fmt: skip


def _is_tool(use: Use) -> bool:
    return use.placed is not None and use.placed.step.tool_of != "" and use.word in ("read", "do")


@rule("FL208", "FL006")
def find_wrong_input(context: Context) -> Iterator[Problem]:
    """Fields that an action does not have, fields that are missing, values that cannot be meant."""
    for one in filled(context):
        written = value_at(context.source.data, one.inputs)
        if not isinstance(written, dict | None):
            continue
        given: Mapping[str, Json] = written or {}
        for name, value in given.items():
            path = (*one.inputs, name)
            if name not in one.fields and not one.is_open:
                hint = did_you_mean(name, one.fields, f"its {one.word}s")
                what = f'{one.owner} has no {one.word} "{name}"'
                yield context.source.problem("FL208", path, what, hint, on="key")
            if name in one.fields and name != one.fan_out:
                yield from _wrong_value(context, path, name, value, one.fields[name], one.is_strict)
        if not context.is_broken(one.inputs) and not one.is_part:
            yield from _missing_fields(context, one, given, one.path if written is None else one.inputs)


def _missing_fields(context: Context, filled: Filled, given: Mapping[str, Json], on: Path) -> Iterator[Problem]:
    strangers = [nearest(name, filled.fields) for name in given if name not in filled.fields]
    for name in missing(filled.fields, list(given)):
        shape = shape_of(filled.fields[name])
        if name not in strangers and not (shape is not None and (shape.optional or shape.default is not None)):
            kind = WORDS.get(kind_of_field(filled.fields[name]), "")
            what, hint = f'{filled.owner} needs the {filled.word} "{name}"', f"it is {kind}" if kind else ""
            yield context.source.problem("FL208", on, what, hint, on="key")


def _wrong_value(
    context: Context, path: Path, name: str, value: Json, written: Json, is_strict: bool
) -> Iterator[Problem]:
    """A literal that the field cannot take; what an expression gives is known at run time only."""
    source, shape = context.source, shape_of(written)
    if shape is None or path in source.broken or (isinstance(value, str) and "${{" in value):
        return
    if value is None:
        if not shape.optional:
            what, hint = f'nothing is written after "{name}"', f"it is {WORDS.get(shape.kind, shape.kind)}"
            yield source.problem("FL006", path, what, hint, on="key")
        return
    scalar = source.scalars.get(path)
    is_plain = scalar is not None and scalar.style == "plain"
    if scalar is not None and is_plain and reads_differently(scalar.text) and shape.kind not in NUMBERS:
        return
    if shape.kind in ("text", "email", "phone", "url") and scalar is not None and not isinstance(value, str):
        read_as = "a yes or no" if isinstance(value, bool) else f"the number {value}"
        what = f'"{name}" is a text, and {scalar.text} would be read as {read_as}'
        yield source.problem("FL002", path, what, f"write it in quotes: {as_quoted(scalar.text)}")
    elif not fits(shape.kind, value):
        yield source.problem("FL006", path, f'"{name}" needs {WORDS[shape.kind]}')
    elif shape.kind == "choice" and shape.choices and value not in shape.choices:
        hint = did_you_mean(str(value), [str(choice) for choice in shape.choices], "its choices")
        yield source.problem("FL006", path, f'"{name}" cannot be "{value}"', hint)
    else:
        yield from _wrong_inside(context, path, name, value, shape, is_strict)


def _wrong_inside(
    context: Context, path: Path, name: str, value: Json, shape: FieldType, is_strict: bool
) -> Iterator[Problem]:
    """What only reading the value as its type shows; the sentence is the one that the run would stop with."""
    strangers = [key for key in value if key not in shape.fields] if shape.fields and isinstance(value, dict) else []
    for key in strangers:
        hint = did_you_mean(key, shape.fields or (), "its fields")
        yield context.source.problem("FL208", (*path, key), f'"{name}" has no field "{key}"', hint, on="key")
    if not strangers and not _has_marker(value):
        try:
            read_entry(shape, value, zone=context.facts.zone, strict=is_strict)
        except ValueError as error:
            yield context.source.problem("FL006", path, f'"{name}": {error}')


def _has_marker(value: Json) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_marker, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and "${{" in value


@rule("FL208")
def find_wrong_find(context: Context) -> Iterator[Problem]:
    """`find` by fields that the connector cannot ask by."""
    for placed in context.placed:
        find, action, path = placed.step.find, context.action(placed.step.action), (*placed.path, "find")
        if find is None or action is None:
            continue
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
            hint = f"by: {', '.join(action.find_by)}"
            yield context.source.problem("FL208", path, "find names no field", hint, on="key")


# --- plain values that YAML reads as something else ----------------------------------------------------------------


def _fields_of(context: Context) -> Iterator[tuple[Path, str]]:
    """Every field that can be filled: (path of its value, kind)."""
    for one in filled(context):
        for name, kind in one.fields.items():
            yield (*one.inputs, name), kind_of_field(kind)


@rule("FL002")
def find_changed_values(context: Context) -> Iterator[Problem]:
    """00123, 1.10, 5319E7, +49: the quoted form keeps what was written. Where a number is expected, 1.10 is one."""
    numbers = {path for path, kind in _fields_of(context) if kind in NUMBERS}
    for path, scalar in context.source.scalars.items():
        if scalar.style != "plain" or not reads_differently(scalar.text) or context.is_broken(path[:-1]):
            continue
        if path not in numbers or not _PLAIN_NUMBER.match(scalar.text):
            value = plain_value(scalar.text)
            shown = "nothing" if value is None else "a yes or no" if isinstance(value, bool) else str(value)
            what, hint = f"{scalar.text} would be read as {shown}", f"write it in quotes: {as_quoted(scalar.text)}"
            yield context.source.problem("FL002", path, what, hint)


@rule("FL002")
def find_dates_in_text(context: Context) -> Iterator[Problem]:
    """A date without quotes in a text field: other programs read a date there."""
    for path, kind in _fields_of(context):
        scalar = context.source.scalars.get(path)
        if kind == "text" and scalar is not None and scalar.style == "plain" and _DATE.match(scalar.text):
            what = f'"{path[-1]}" is a text, and {scalar.text} looks like a date'
            yield context.source.problem("FL002", path, what, f"write it in quotes: {as_quoted(scalar.text)}")
