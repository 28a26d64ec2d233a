"""What is offered while somebody types: names in reach of an expression, filters, steps, what the project has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath

from runner.editor.desk import Desk, Seen
from runner.editor.place import WORD, path_with_word, text_with_word, typed_in, with_word
from runner.editor.told import kind_in_words, of_function, of_step
from runner.language.check.context import Context, Placed, Text
from runner.language.check.names import FIELDS
from runner.language.check.shapes import Shape, below, items_of, lists_around, output_of, shape_at
from runner.language.fields import shape_of
from runner.language.flow import Step
from runner.language.functions import FUNCTIONS
from runner.language.project_schema import told as told_of_action

_READS, _WRITES = ("read", "poll", "show"), ("do", "cancel", "mark", "correct", "quarantine")
_PEOPLE = ("owner", "by", "escalate_to", "hand_off", "tell", "approve_by")
_NAMED = ("shows", "may_edit", "may_leave_out", "show")


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One thing that may be written there."""

    label: str
    detail: str = ""
    about: str = ""
    is_function: bool = False


def offers(desk: Desk, path: FilePath, text: str, offset: int) -> list[Offer]:
    """Everything that may stand at this offset, best first."""
    seen = _readable(desk, path, with_word(text, offset))
    if seen.context is None:
        return []
    typed = typed_in(text[:offset])
    if typed is None:
        return list(_values(seen, seen.context))
    place = text_with_word(seen.context) or _unfinished(seen.context, text.count("\n", 0, offset) + 1)
    if typed.is_filter:
        return [_offer_of(name) for name, each in FUNCTIONS.items() if not each.is_source]
    fields = fields_at(seen.context, place, typed.path)
    found = [Offer(label=name, detail=kind_in_words(shape)) for name, shape in fields.items()]
    if typed.path:
        return found
    return [*found, *(_offer_of(f"{name}()") for name, each in FUNCTIONS.items() if each.is_source)]


def _readable(desk: Desk, path: FilePath, text: str) -> Seen:
    """The flow, with a step of ours at its end where it has none yet."""
    seen = desk.read(path, text)
    if seen.context is not None:
        return seen
    begins = "" if re.search(r"^steps:", text, re.MULTILINE) else "\nsteps:"
    return desk.read(path, f"{text.rstrip()}{begins}\n  - {{ id: {WORD}, wait: 1 s }}\n")


def _unfinished(context: Context, line: int) -> Text:
    """A place in a step that cannot be read yet: every step above it may be in reach."""
    above = frozenset(placed.step.id for placed in context.placed if placed.step.line < line)
    placed = Placed(step=Step(id="", verb="wait"), path=(), earlier=above)
    return Text(path=(), text="", reach="step" if above else "start", placed=placed)


def _offer_of(name: str) -> Offer:
    return Offer(label=name, about=of_function(name.removesuffix("()")), is_function=True)


def fields_at(context: Context, text: Text, path: tuple[str, ...]) -> Mapping[str, Shape]:
    """The names that may follow this path; for the empty path those that an expression begins with."""
    if not path:
        later = text.reach in ("start", "trigger")
        roots = {"inputs", "run", "trigger", *(() if later else ("steps", "outcome")), *text.names}
        return dict.fromkeys(sorted(roots))
    root = path[0]
    if root in ("steps", "outcome") and len(path) == 1:
        return dict.fromkeys(steps_in_reach(context, text))
    if root == "outcome" or (root in text.names and root not in ("item", "output", "failure")):
        return {}
    if root == "inputs" and len(path) == 1:
        return {name: shape_of(written) for name, written in context.flow.inputs.items()}
    if root in FIELDS:
        return dict.fromkeys(FIELDS[root]) if len(path) == 1 else {}
    if root == "steps" and len(path) == 2:
        placed = context.by_id.get(path[1])
        return (output_of(context, placed.step) or {}) if placed is not None else {}
    if root == "output" and len(path) == 1 and text.placed is not None:
        return output_of(context, text.placed.step) or {}
    if root == "item" and len(path) == 1:
        lists = lists_around(text)
        return below(items_of(context, lists[-1])) or {} if lists else {}
    return below(shape_at(context, text, path)) or {}


def steps_in_reach(context: Context, text: Text) -> list[str]:
    """The steps that have run, or may have, when a text is read, in the order they are written."""
    if text.reach in ("start", "trigger"):
        return []
    if text.placed is not None:
        return [placed.step.id for placed in context.placed if placed.step.id in text.placed.earlier]
    outside = [placed for placed in context.placed if not placed.names]
    return [placed.step.id for placed in outside]


# --- values that are no expressions --------------------------------------------------------------------------------


def _values(seen: Seen, context: Context) -> Iterator[Offer]:
    """What may stand as the value of the key at the cursor."""
    path = path_with_word(seen)
    if path is None:
        return
    key = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
    facts = context.facts
    if key == "covers":
        yield from _steps(context, path)
    elif key in _NAMED:
        yield from (Offer(label=name) for name in _names(context, path))
    elif key in (*_READS, *_WRITES, "agent"):
        wanted = "agent" if key == "agent" else "read" if key in _READS else "do"
        for name, action in facts.actions.items():
            if wanted == ("agent" if action.is_agent else "read" if action.effect == "read" else "do"):
                yield Offer(label=name, detail=action.effect, about=told_of_action(action))
    elif key in _PEOPLE:
        yield from (Offer(label=name) for name in ("person:me", *facts.people.names()))
    elif key in ("call", "then_run"):
        yield from (Offer(label=name, detail=file) for name, file in facts.flows.items())
    elif key == "template":
        yield from (Offer(label=name) for name in sorted({name.partition(".")[0] for name in facts.templates}))
    elif len(path) > 1 and path[-2] == "with":
        yield from _inputs(context, path)


def _steps(context: Context, path: tuple[str | int, ...]) -> Iterator[Offer]:
    """The later steps that change something: what an approval may cover."""
    here = next((placed for placed in context.placed if path[: len(placed.path)] == placed.path), None)
    place = context.placed.index(here) if here is not None else -1
    for placed in context.placed[place + 1 :]:
        if placed.step.verb == "do":
            yield Offer(label=placed.step.id, detail=placed.step.action, about=of_step(context, placed))


def _names(context: Context, path: tuple[str | int, ...]) -> Iterator[str]:
    """Names as `shows` has them."""
    placed = _around(context, path)
    yield from (f"inputs.{name}" for name in context.flow.inputs)
    for step in context.placed if placed is not None else ():
        if placed is not None and step.step.id in placed.earlier:
            yield from (f"steps.{step.step.id}.{field}" for field in output_of(context, step.step) or {})


def _inputs(context: Context, path: tuple[str | int, ...]) -> Iterator[Offer]:
    """An input of the flow under the same name as the field, first of all."""
    name = str(path[-1])
    if name in context.flow.inputs:
        yield Offer(label=f"${{{{ inputs.{name} }}}}")


def _around(context: Context, path: tuple[str | int, ...]) -> Placed | None:
    inside = [placed for placed in context.placed if path[: len(placed.path)] == placed.path]
    return inside[-1] if inside else None
