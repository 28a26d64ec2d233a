"""Questions to a person: what is asked, what is known about it, and what to type for each answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from runner.cli import page, sent, words
from runner.cli.story import Story
from runner.clock import iso, shown
from runner.contract import Json
from runner.core.state import Call, HandOff
from runner.people.operations import fields_needed

LABEL = 23
NARROW = 80


def question(story: Story, handoff: HandOff) -> Iterator[RenderableType]:
    """One open question, what is known about it, and what to type for each answer."""
    seen = f", seen by {words.plain(handoff.acknowledged_by)}" if handoff.acknowledged_by else ""
    yield Text(f"{handoff.id}  {asks(story, handoff)}", style="bold")
    table = page.grid((6, None))
    table.add_row("  For", f"{words.plain(handoff.owner)}, since {shown(handoff.opened_at, story.zone)}{seen}")
    step = story.bundle.steps.get(handoff.step)
    known = {
        "  Why": words.sentence(handoff.summary) if handoff.kind != "step" else "",
        "  Rule": words.sentence(step.rule) if step is not None else "",
        "  Note": words.sentence(handoff.say),
        **what_was_sent(story, handoff),
    }
    for label, text in known.items():
        if text:
            table.add_row(label, text)
    for name, shown_value in handoff.show.items():
        table.add_row("", f"{name}: {sent.value(shown_value)}")
    yield table
    commands = answers(story, handoff)
    yield from (typed(label_of(story, handoff, choice), command) for choice, command in commands.items())


def call_of(story: Story, handoff: HandOff) -> tuple[str, Call | None]:
    """(purpose, call) that a question is about; no call where it is about none."""
    undoes = handoff.kind in ("compensation_failed", "request")
    purpose = handoff.purpose or ("undo" if undoes else "do")
    return purpose, story.state.calls.get((handoff.step, purpose, handoff.part))


def what_was_sent(story: Story, handoff: HandOff) -> dict[str, str]:
    """What one needs to look a call up: the action, its values, where it went, our reference."""
    purpose, call = call_of(story, handoff)
    if call is None:
        return {}
    found = {
        "  Call": call.action,
        "  With": sent.pairs(story.input_of(handoff.step, purpose, handoff.part)),
        "  To": sent.place(call.request),
    }
    known = story.reference(handoff.step, purpose, handoff.part)
    if known and (call.may_have_happened or call.last not in ("", "not_sent")):
        found["  Key"] = f"{known} (our reference: it was sent along)"
    return found


def label_of(story: Story, handoff: HandOff, choice: str) -> str:
    """What a choice is called for this question."""
    state, kind = story.state, handoff.kind
    _, call = call_of(story, handoff)
    action = story.bundle.actions.get(call.action) if call is not None else None
    known = f"{kind} {action.effect}" if action is not None else kind
    ends = [f"{kind} stopped"] if state.stops_here else []
    ends += [f"{kind} closed"] if state.root.closed or state.stops_here else [known]
    return words.offered(choice, *ends, kind, action.effect if action is not None else "")


def asks(story: Story, handoff: HandOff) -> str:
    """The question of a hand-off in one sentence."""
    about = f"step {handoff.step}" if handoff.step else "the run"
    to = story.receiver(handoff.step, handoff.part, handoff.purpose or "do") if handoff.purpose else ""
    about = f"{about} ({to})" if to else about
    texts = {
        "unknown": f"Did {about} happen?",
        "several": f"Which record is the one of {about}?",
        "failure": f"What is to follow the failure of {about}?",
        "step": "The flow stops here and asks how to go on.",
        "compensation": f"Please make {about} good by hand.",
        "compensation_failed": f"{about.capitalize()} could not be made good. What now?",
        "compensation_unknown": f"Did the compensation of {about} happen?",
        "outputs": "The run's outputs have no answer. What now?",
        "request": f"The compensation of {about} could not be put together. What now?",
    }
    return texts.get(handoff.kind, f"Please look at {about}.")


def typed(label: str, command: str) -> Text:
    """A choice and what to type for it; a command is never broken."""
    narrow = len(label) <= LABEL and len(command) + LABEL + 3 <= NARROW
    text = f"  {label:<{LABEL}} {command}" if narrow else f"  {label}\n    {command}"
    return Text(text, no_wrap=True, overflow="ignore")


def answers(story: Story, handoff: HandOff) -> dict[str, str]:
    """The answers to a question, and what to type for each. With more than one open question the command names it."""
    state = story.state
    run, step = state.run, handoff.step
    alone = "" if sum(each.step == step for each in state.open_handoffs) == 1 else f" --handoff {handoff.id}"
    wordings = {
        "happened": " ".join([f"settle {run} {step} --happened{alone}", *_to_give(story, handoff)]),
        "did_not": f"settle {run} {step} --did-not{alone}",
    }
    if step:
        wordings |= {"retry": f"retry {run} {step}{alone}", "skip": f'skip {run} {step}{alone} --reason "…"'}
    for choice, order in (("compensate", "compensate"), ("take_over", "take-over")):
        if sum(choice in each.choices for each in state.open_handoffs) == 1:
            wordings[choice] = f"{order} {run}"
    return {
        choice: f"{words.PROGRAM} runs {wordings[choice]}" if choice in wordings else _resolve(run, handoff.id, choice)
        for choice in handoff.choices
    }


def _to_give(story: Story, handoff: HandOff) -> list[str]:
    """The fields that whoever says "it did happen" must give: those used later, but for those we made ourselves."""
    if handoff.purpose not in ("do", "find"):
        return []
    needed = list(fields_needed(story.bundle, handoff.step, is_closed=story.state.root.closed))
    _, call = call_of(story, handoff)
    action = story.bundle.actions.get(call.action) if call is not None else None
    if handoff.kind == "several" and not needed and action is not None and "id" in action.output:
        needed = ["id"]
    made = sent.own_answer(call.request) if call is not None else {}
    return [f"{name}=…" for name in needed if name not in made]


def _resolve(run: str, handoff: str, choice: str) -> str:
    reason = ' --reason "…"' if choice in ("done", "stands", "skip") else ""
    return f"{words.PROGRAM} handoffs resolve {run} {handoff} {choice}{reason}"


def question_json(story: Story, handoff: HandOff) -> Mapping[str, Json]:
    """One open question as JSON, with the command for each choice."""
    own = ("step", "kind", "owner", "acknowledged_by", "summary", "say")
    return {
        "handoff": handoff.id,
        **{name: getattr(handoff, name) for name in own},
        "opened_at": iso(handoff.opened_at, story.zone),
        "question": asks(story, handoff),
        "show": dict(handoff.show),
        "sent": {name.strip().lower(): text for name, text in what_was_sent(story, handoff).items() if text},
        "choices": answers(story, handoff),
    }
