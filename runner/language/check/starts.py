"""What starts a flow: it fills the inputs (FL404), does not start itself without end (FL405), and there is somebody
whom a run concerns that nobody started by hand (FL301)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.contract import Json
from runner.errors import Problem
from runner.language.called import ring_of
from runner.language.check.context import TRIGGER_NAMES, Context, rule
from runner.language.fields import FieldType, shape_of
from runner.language.nearest import did_you_mean
from runner.language.people import ME
from runner.language.source import Path

_BY_ITSELF = ("webhook", "schedule", "cron", "mail", "poll", "event")
_BRINGS_FIELDS = ("webhook", "poll", "event")
"""Without `fill` the fields of what comes fill the inputs of the same name, and nobody knows them beforehand."""


@rule("FL404")
def find_unfilled_inputs(context: Context) -> Iterator[Problem]:
    """Inputs that a trigger fills and nobody has, or that must be filled and are not."""
    if context.is_broken(("inputs",)):
        return
    for path, trigger in context.triggers:
        kind = next((word for word in _BY_ITSELF if word in trigger), "")
        filled = trigger.get("fill")
        given: Mapping[str, Json] = filled if isinstance(filled, dict) else {}
        for name in given:
            if name not in context.flow.inputs:
                hint = did_you_mean(name, context.flow.inputs, "inputs") or "the flow has no inputs"
                what = f'there is no input "{name}" to fill'
                yield context.source.problem("FL404", (*path, "fill", name), what, hint, on="key")
        if kind and (filled is not None or kind not in _BRINGS_FIELDS) and not context.is_broken(path):
            yield from _left_empty(context, path, kind, given)


def _left_empty(context: Context, path: Path, kind: str, given: Mapping[str, Json]) -> Iterator[Problem]:
    known = context.flow.inputs
    filled = {*given, *(() if given else TRIGGER_NAMES[kind])}
    left = [name for name, written in known.items() if name not in filled and _is_needed(shape_of(written))]
    if left and all(name in known for name in given):
        several = len(left) > 1
        names = ", ".join(f'"{name}"' for name in left)
        what = f"no run can start: this {kind} does not fill the input{'s' if several else ''} {names}"
        hint = f"write fill: {{ {left[0]}: … }}, or let {'them' if several else 'it'} be empty: … or empty"
        yield context.source.problem("FL404", (*path, "fill") if given else (*path, kind), what, hint, on="key")


def _is_needed(shape: FieldType | None) -> bool:
    return shape is not None and not shape.optional and shape.default is None


@rule("FL301")
def find_nobody_at_the_terminal(context: Context) -> Iterator[Problem]:
    """`person:me` of a flow that starts by itself: nobody has started it from a terminal."""
    if context.flow.owner == ME and context.facts.people.people and ("owner",) in context.source.keys:
        kinds = [word for _, trigger in context.triggers for word in _BY_ITSELF if word in trigger]
        if kinds:
            word = f"an {kinds[0]}" if kinds[0] == "event" else f"a {kinds[0]}"
            what = f"person:me is whoever starts the run from the terminal, and {word} starts it by itself"
            hint = did_you_mean("", [name for name in context.facts.people.names() if name != ME], "people and teams")
            yield context.source.problem("FL301", ("owner",), what, hint, level="warning")


@rule("FL405")
def find_flows_that_start_themselves(context: Context) -> Iterator[Problem]:
    """An event that is emitted and starts the flow again, without a condition on the way."""
    if not _heard(context) or not any(_said(context)):
        return
    for path, event in _said(context):
        ring = _ring(context, event)
        if ring:
            what = f"this event starts the flow again, without end: {' -> '.join(ring)}"
            hint = "give the step a when, or the trigger an only_if"
            yield context.source.problem("FL405", path, what, hint, level="warning")


def _heard(context: Context) -> frozenset[str]:
    """The events that start a flow in any case."""
    triggers = (trigger for _, trigger in context.triggers if "event" in trigger and "only_if" not in trigger)
    return frozenset(str(trigger["event"]) for trigger in triggers)


def _said(context: Context) -> Iterator[tuple[Path, str]]:
    """The events that a flow emits in any case."""
    for placed in context.placed:
        if placed.step.verb == "emit" and not placed.guards:
            yield (*placed.path, "emit"), placed.step.event


def _ring(context: Context, event: str) -> tuple[str, ...]:
    """The way of events from this flow back to it."""
    if event in _heard(context):
        return (context.flow.id, event, context.flow.id)
    others = {name: other for name in context.facts.flows if (other := context.other(name)) is not None}
    others[context.flow.id] = context

    def started_by(name: str) -> Iterator[str]:
        events = {event} if name == context.flow.id else {one for _, one in _said(others[name])}
        yield from (one for one, other in others.items() if _heard(other) & events)

    first = [name for name in started_by(context.flow.id) if name != context.flow.id]
    rings = (ring_of(context.flow.id, name, started_by) for name in first)
    return min(filter(None, rings), key=len, default=())
