"""Questions to a person: what is asked, what is known about it, and what to type for each answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from runner.cli import page
from runner.clock import iso, shown
from runner.contract import Json
from runner.core.paths import catcher_of, list_of
from runner.core.state import HandOff
from runner.people.operations import ALIKE, NEEDS_WORDS
from runner.telling import sent, words
from runner.telling.consequences import consequence
from runner.telling.questions import asks, label_of, rule_of, to_give, what_was_sent
from runner.telling.story import Story

LABEL = 23
NARROW = 80


def question(story: Story, handoff: HandOff) -> Iterator[RenderableType]:
    """One open question, what is known about it, and what to type for each answer."""
    seen = f", seen by {words.plain(handoff.acknowledged_by)}" if handoff.acknowledged_by else ""
    yield Text(f"{handoff.id}  {asks(story, handoff)}", style="bold")
    table = page.grid((6, None))
    table.add_row("  For", f"{words.plain(handoff.owner)}, since {shown(handoff.opened_at, story.zone)}{seen}")
    known = {
        "In": _around(story, handoff.step),
        "Why": words.sentence(handoff.summary) if handoff.kind != "step" else "",
        "Rule": rule_of(story, handoff),
        "Note": words.sentence(handoff.say),
        **what_was_sent(story, handoff),
    }
    for label, text in known.items():
        if text:
            table.add_row(f"  {label}", text)
    for name, shown_value in handoff.show.items():
        table.add_row("", f"{name}: {sent.value(shown_value)}")
    yield table
    if handoff.kind == "set_aside":
        yield from _aside(story, handoff)
    commands = answers(story, handoff)
    for choice, command in commands.items():
        yield from offered(label_of(story, handoff, choice), consequence(story, choice, handoff), command)


SOME = 10
"""Items that were set aside of which each is shown with its commands."""


def _around(story: Story, path: str) -> str:
    """The item and the called flow that a step stands in."""
    found = []
    while "/" in path:
        path = path.rpartition("/")[0]
        step = story.bundle.find(path)
        if step is not None and step.verb == "agent":
            found.append(f"agent {story.place(path)}")
        elif list_of(path) and (each := story.bundle.find(list_of(path))) is not None and each.verb == "each":
            found.append(f"item {story.place(path)} ({path})")
        elif step is not None and step.verb == "call":
            found.append(f"flow {step.flow} (called by {story.place(path)})")
    return ", ".join(found)


def _aside(story: Story, handoff: HandOff) -> Iterator[RenderableType]:
    """The items that were set aside, why, and what to type about one of them."""
    listing = story.state.lists.get(handoff.step)
    aside = sorted(listing.aside.items()) if listing is not None else []
    rows = [
        (f"  {handoff.step}/{number}", words.plain(each.name), words.sentence(each.reason))
        for number, each in aside[:SOME]
    ]
    yield page.listed(("  item", "name", "why it was set aside"), rows, fixed=(0, 1))
    if len(aside) > SOME:
        yield Text(f"  and {len(aside) - SOME} more: {words.PROGRAM} runs show {story.view.run} --step {handoff.step}")
    if aside:
        yield from (
            typed(label, command) for label, command in item_answers(story, f"{handoff.step}/{aside[0][0]}").items()
        )


def item_answers(story: Story, item: str) -> dict[str, str]:
    """What can be done about one item that was set aside, and what to type for it."""
    run, name = story.view.run, story.place(item).rpartition(" › ")[2]
    return {
        f"do {name} alone anew": f"{words.PROGRAM} runs retry {run} {item}",
        f"leave {name} set aside": f'{words.PROGRAM} runs skip {run} {item} --reason "…"',
    }


def typed(label: str, command: str) -> Text:
    """A choice and what to type for it; a command is never broken."""
    narrow = len(label) <= LABEL and len(command) + LABEL + 3 <= NARROW
    text = f"  {label:<{LABEL}} {command}" if narrow else f"  {label}\n    {command}"
    return Text(text, no_wrap=True, overflow="ignore")


def offered(label: str, does: str, command: str) -> Iterator[RenderableType]:
    """A choice, what it will do, and what to type for it."""
    yield Padding(Text.assemble((words.capital(label), "bold"), f". {does}"), (0, 0, 0, 2))
    yield Text(f"    {command}", no_wrap=True, overflow="ignore")


def answers(story: Story, handoff: HandOff) -> dict[str, str]:
    """The answers to a question, and what to type for each. With more than one open question the command names it."""
    state = story.state
    run, step = state.run, handoff.step
    alone = "" if sum(each.step == step for each in state.open_handoffs) == 1 else f" --handoff {handoff.id}"
    fields = [f"{name}=…" for name in to_give(story, handoff)]
    wordings = {
        "happened": " ".join([f"settle {run} {step} --happened{alone}", *fields]),
        "did_not": f"settle {run} {step} --did-not{alone}",
    }
    if step:
        wordings |= {"retry": f"retry {run} {step}{alone}", "skip": f'skip {run} {step}{alone} --reason "…"'}
    for choice, order in (("compensate", "compensate"), ("take_over", "take-over")):
        if sum(choice in each.choices for each in state.open_handoffs) == 1:
            wordings[choice] = f"{order} {run}"
    if catcher_of(state, step):
        wordings["compensate"] = f"compensate {run} --handoff {handoff.id}"
    return {
        choice: f"{words.PROGRAM} runs {wordings[choice]}" if choice in wordings else _resolve(run, handoff.id, choice)
        for choice in handoff.choices
    }


def _resolve(run: str, handoff: str, choice: str) -> str:
    reason = ' --reason "…"' if choice in NEEDS_WORDS else ""
    return f"{words.PROGRAM} handoffs resolve {run} {handoff} {choice}{reason}"


def to_all(story: Story, alike: Sequence[HandOff]) -> Iterator[RenderableType]:
    """What to type to answer all of these questions together; nothing where that cannot be."""
    fitting = [choice for choice in alike[0].choices if len(alike) > 1 and choice in ALIKE]
    if fitting:
        yield Text(f"All {len(alike)} of these together ({', '.join(fitting)}; --dry-run only says which they are):")
        command = _resolve(story.view.run, alike[0].id, fitting[0])
        yield Text(f"    {command} --and-alike", no_wrap=True, overflow="ignore")


def question_json(story: Story, handoff: HandOff) -> Mapping[str, Json]:
    """One open question as JSON, with the command for each choice."""
    own = ("step", "kind", "owner", "acknowledged_by", "summary", "say")
    return {
        "handoff": handoff.id,
        **{name: getattr(handoff, name) for name in own},
        "opened_at": iso(handoff.opened_at, story.zone),
        "question": asks(story, handoff),
        "show": dict(handoff.show),
        "sent": {name.lower(): text for name, text in what_was_sent(story, handoff).items() if text},
        "place": story.place(handoff.step),
        "choices": answers(story, handoff),
    }
