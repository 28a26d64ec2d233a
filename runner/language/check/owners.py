"""People who cannot be reached (FL301)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context
from runner.language.check.rules import rule
from runner.language.nearest import did_you_mean, nearest
from runner.language.source import Path


@rule("FL301")
def find_unreachable(context: Context) -> Iterator[Problem]:
    """Owners and people to be told who are nobody, or whom no message reaches."""
    for path, name in _people(context):
        why = context.facts.people.reachable(name) if name and path in context.source.scalars else ""
        if why and context.source.scalars[path].text == name:
            hint = _nearest_name(name, context.facts.people.names()) if why.startswith("there is no") else ""
            yield context.source.problem("FL301", path, why, hint)


def _nearest_name(name: str, known: tuple[str, ...]) -> str:
    kind, _, key = name.partition(":")
    keys = [one.partition(":")[2] for one in known if one.startswith(kind)]
    close = nearest(key, keys)
    return f'did you mean "{kind}:{close}"?' if close else did_you_mean("", keys, f"{kind} names")


def _people(context: Context) -> Iterator[tuple[Path, str]]:
    flow = context.flow
    yield ("owner",), flow.owner
    yield ("on_failure", "tell"), flow.on_failure.tell
    yield ("on_failure", "escalate_to"), flow.on_failure.escalate_to
    for placed in context.placed:
        step, path = placed.step, placed.path
        yield (*path, "owner"), step.owner
        yield (*path, "hand_off"), step.hand_off_to
        if step.compensate is not None and step.compensate.word == "hand_off":
            yield (*path, "compensate", "hand_off"), step.compensate.target
