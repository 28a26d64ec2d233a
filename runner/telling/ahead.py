"""What is still to come in a run: the steps that have not begun, and what each does."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core.state import State
from runner.language.bundle import Bundle
from runner.language.flow import NUMBERED, Step
from runner.telling.story import Story
from runner.telling.words import action_title
from runner.tongue import _, marked

OTHERS = {
    "wait": marked("Waits"), "hand_off": marked("Hands over to a person"), "choose": marked("Chooses how to go on"),
    "each": marked("Goes through a list"), "parallel": marked("At once: {names}"),
    "call": marked("Runs {name} as a part"), "wait_for": marked("Waits for {name}"), "emit": marked("Sends {name}"),
    "approve": marked("Asks for an approval"), "agent": marked("An agent works with {names}"),
}  # fmt: skip


def to_come(story: Story) -> list[tuple[str, str]]:
    """The steps that have not begun, with what each does; none once forward is closed."""
    steps = [] if story.state.root.closed else steps_to_come(story.bundle.flow.steps, story.state)
    return [(step.id, what_it_does(story.bundle, step)) for step in steps]


def steps_to_come(steps: tuple[Step, ...], state: State) -> Iterator[Step]:
    """What stands in a choose comes only when it is known which way it goes."""
    for step in steps:
        if step.id not in state.steps:
            yield step
        if step.verb not in ("choose", *NUMBERED) or (step.verb == "choose" and step.id in state.steps):
            for branch in step.branches:
                yield from steps_to_come(branch.steps, state)


def what_it_does(bundle: Bundle, step: Step) -> str:
    """A step in a few words."""
    if step.action and step.verb != "agent":
        return action_title(bundle.actions, step.action)
    names = ", ".join(branch.name for branch in step.branches)
    return _(OTHERS.get(step.verb, step.verb), names=names, name=step.flow or step.event)
