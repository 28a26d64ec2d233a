"""A run as a page: its head, what happened line by line, what stands, what a person can do now and what to type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.text import Text

from runner.cli import page
from runner.cli.lists import view_json
from runner.cli.questions import question, question_json, typed
from runner.clock import iso, shown
from runner.contract import Json
from runner.core.state import State
from runner.language.bundle import Bundle
from runner.language.flow import Step
from runner.store.facts import EffectView
from runner.telling import sent, times, words
from runner.telling.lines import action_title
from runner.telling.story import ENDED_WELL, Clock, Story, became, further, status_line, tagged

STEP = 14
TOLD = ("seq", "sign", "step", "branch", "text", "details")
"""The fields of a timeline's line that machines get, beside its time."""


def full(story: Story, out: Console) -> RenderableType:
    """The whole page: head, timeline, effects, what stands, what can be done."""
    start = story.view.started_at
    when = f"{times.moment(start, story.zone):%Y-%m-%d}, times {times.offset(start, story.zone)}"
    parts = [head(story), Text(), Text(f"What happened ({when})", style="bold"), timeline(story, out)]
    if story.effects:
        parts += [Text(), Text("What was done outside, and what has become of it", style="bold"), effects(story)]
    return Group(*parts, *ending(story))


def brief(story: Story, out: Console, since: int = 0) -> RenderableType:
    """What is shown when a run that was watched has come to rest: what the log tells after the entry `since`."""
    told = timeline(story, out, since=since)
    return Group(Text(f"Run {story.view.run} ", style="bold") + status(story), told, *ending(story))


_STYLES = {
    "succeeded": "green", "drafted": "green", "compensated": "cyan", "failed": "red", "stopped": "red",
    "needs_person": "yellow", "paused": "yellow",
}  # fmt: skip


def status(story: Story) -> Text:
    """The status in words and in its colour, with what is waited for."""
    return Text(status_line(story), style=_STYLES.get(story.view.status, ""))


# --- head ------------------------------------------------------------------------------------------------------------


def head(story: Story) -> RenderableType:
    """Which run this is, how it stands and whose it is."""
    view, zone = story.view, story.zone
    table = page.grid((8, None))
    table.add_row("Run", Text(view.run, style="bold"))
    table.add_row("Flow", f"{view.flow}: {words.plain(view.title)}" + (" (draft)" if view.mode == "draft" else ""))
    table.add_row("Status", status(story))
    if view.summary and view.status not in ENDED_WELL:
        table.add_row("Why", words.sentence(words.summary(view.summary)))
    if story.state.inputs:
        table.add_row("Inputs", sent.pairs(story.state.inputs))
    by = f", by {words.plain(view.starter)}" if view.starter else ""
    table.add_row("Started", f"{shown(view.started_at, zone)}{by}")
    if view.ended_at is not None:
        table.add_row("Ended", f"{shown(view.ended_at, zone)}, after {times.span(view.ended_at - view.started_at)}")
    if view.run_key and view.run_key != view.run:
        again = f" (run again, {view.rerun})" if view.rerun else ""
        table.add_row("Key", f"{words.plain(view.run_key)}{again}")
    if view.record:
        held = "; other runs on it wait until this one is settled" if story.state.holds_record else ""
        table.add_row("Record", f"{words.plain(view.record)}{held}")
    starter = " (whoever started it from the terminal)" if view.owner == "person:me" else ""
    table.add_row("Owner", f"{words.plain(view.owner)}{starter}")
    if view.continues:
        table.add_row("After", f"it cleans up after run {view.continues}")
    if story.state.outputs:
        table.add_row("Result", sent.pairs(story.state.outputs))
    return table


# --- timeline --------------------------------------------------------------------------------------------------------


def timeline(story: Story, out: Console, *, ahead: bool = False, since: int = 0) -> RenderableType:
    """What happened, one line for each thing. With `ahead` the steps still to come follow, cut to fit the terminal."""
    clock = Clock(story)
    told = sorted((line for line in story.lines if line.seq > since), key=lambda line: line.at)
    lines: list[tuple[str, words.Sign | None, str, str]] = []
    for line in (*told, *story.asking):
        lines.append((clock.time(line.at), line.sign, line.step, clock.text(line)))
        lines += [] if ahead else [("", None, "", text) for text in line.details]
    if ahead:
        todo = [] if story.state.root.closed else _to_come(story.bundle.flow.steps, story.state)
        names = story.bundle.flow.branch_names()
        lines += [("", "note", s.id, tagged(names.get(s.id, ""), _what(story.bundle, s))) for s in todo]
        lines = lines[-max(out.height - 3, 5) :]
    longest = min(max((len(step) for _, _, step, _ in lines), default=0), STEP)
    table = page.grid((clock.width, 1, longest, None))
    for at, sign, step, text in lines:
        shown_text = Text(text, "" if at else "dim", no_wrap=ahead, overflow="ellipsis" if ahead else "fold")
        table.add_row(Text(at, style="dim"), page.sign(sign, out) if sign else "", step, shown_text)
    return table


def _to_come(steps: tuple[Step, ...], state: State) -> Iterator[Step]:
    """The steps that have not begun; what stands in a choose only when it is known which way it goes."""
    for step in steps:
        if step.id not in state.steps:
            yield step
        if step.verb != "choose" or step.id in state.steps:
            for branch in step.branches:
                yield from _to_come(branch.steps, state)


def _what(bundle: Bundle, step: Step) -> str:
    names = ", ".join(branch.name for branch in step.branches)
    other = {
        "wait": "Waits",
        "hand_off": "Hands over to a person",
        "choose": "Chooses how to go on",
        "parallel": f"At once: {names}",
    }
    return action_title(bundle.actions, step.action) if step.action else other.get(step.verb, step.verb)


# --- effects ---------------------------------------------------------------------------------------------------------


def effects(story: Story) -> RenderableType:
    """Every effect with its outside id and what has become of it."""
    rows = [
        (str(each.start_no), each.path, _did(story, each), words.shown_id(each.external_id, 30), became(story, each))
        for each in story.effects
    ]
    return page.listed(("", "step", "action", "outside id", "now"), rows, fixed=(0, 1))


def _did(story: Story, effect: EffectView) -> str:
    to = story.receiver(effect.path, effect.part)
    return f"{effect.action} {to}" if to else effect.action


# --- what can be done ------------------------------------------------------------------------------------------------


def ending(story: Story) -> Iterator[RenderableType]:
    """What stands, what is not known, what can be done now; a draft says so last of all."""
    if story.view.status not in (*ENDED_WELL, "failed", "compensated"):
        stands, by_hand = story.with_effect("pending", "stands"), story.with_effect("by_hand")
        left = story.with_effect("left")
        yield Text()
        if by_hand:
            yield Text(f"By hand:    {', '.join(by_hand)}.")
        if left:
            yield Text(f"Not undone: {', '.join(left)}.", style="yellow")
        if stands or not (by_hand or left):
            yield Text(f"Stands now: {', '.join(stands) or 'nothing'}.")
        if story.unknown:
            yield Text(f"Not known:  {', '.join(story.unknown)}.", style="yellow")
    for handoff in story.state.open_handoffs if story.is_asked else ():
        yield Text()
        yield from question(story, handoff)
    if orders := typed_orders(story):
        yield Text()
        yield Text("You can also" if story.is_asked else "You can", style="bold")
        yield from (typed(words.offered(choice), command) for choice, command in orders.items())
    if story.view.mode == "draft":
        yield Text()
        yield Text("DRAFT: nothing was sent", style="bold")


def typed_orders(story: Story) -> dict[str, str]:
    """The orders that fit beside the answers to open questions, and what to type for each."""
    run = story.view.run
    wordings = {"stop_compensate": f"stop {run} --compensate", "take_over": f"take-over {run}"}
    return {choice: f"{words.PROGRAM} runs {wordings.get(choice, f'{choice} {run}')}" for choice in further(story)}


# --- the same for machines -------------------------------------------------------------------------------------------


def as_json(story: Story) -> dict[str, Json]:
    """The run, its timeline, effects and open questions as JSON; times are ISO 8601 in the reader's zone."""
    return {
        **view_json(story.view, story.zone),
        "outputs": dict(story.state.outputs),
        "timeline": [
            {"at": iso(line.at, story.zone), **{name: getattr(line, name) for name in TOLD}} for line in story.lines
        ],
        "effects": [_effect_json(story, effect) for effect in story.effects],
        "inputs": dict(story.state.inputs),
        "unknown": story.unknown,
        "questions": [question_json(story, each) for each in story.state.open_handoffs if story.is_asked],
        "can_do": typed_orders(story),
    }


def _effect_json(story: Story, effect: EffectView) -> dict[str, Json]:
    given, known = story.input_of(effect.path, "do", effect.part), story.reference(effect.path, "do", effect.part)
    return {**asdict(effect), "input": dict(given), "reference": known, "became": became(story, effect)}
