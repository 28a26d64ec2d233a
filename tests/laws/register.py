"""The register of the laws: each a function from a run's story to sentences that say what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runner.contract import Action
from runner.core import events as e
from tests.laws.story import Story

Law = Callable[[Story], Iterator[str]]
LAWS: dict[str, Law] = {}


def law(name: str) -> Callable[[Law], Law]:
    """Registers a law under the number it has among the engine's invariants."""

    def keep(function: Law) -> Law:
        LAWS[name] = function
        return function

    return keep


def named(intent: e.CallEvent) -> str:
    """An attempt, as the sentences name it."""
    return f"{intent.step}/{intent.purpose}/{intent.part} generation {intent.generation} attempt {intent.attempt}"


def action_of(story: Story, intent: e.CallIntended) -> Action:
    """What the bundle says of the action that this attempt uses."""
    return story.bundle.actions[intent.action]
