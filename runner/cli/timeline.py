"""A run as a page: its head, what happened line by line, what stands, what a person can do now and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from rich.console import Console, Group, RenderableType
from rich.text import Text

from runner.cli import page, words
from runner.cli.lists import view_json
from runner.cli.telling import Line, action_title
from runner.clock import iso, shown
from runner.contract import Json
from runner.core.state import HandOff, State
from runner.language.bundle import Bundle
from runner.language.flow import Step
from runner.people.operations import fields_needed, possible
from runner.store.facts import EffectView, RunView

LABEL = 23
NARROW = 80
STEP = 14
TOLD = ("seq", "sign", "step", "branch", "text")
"""The fields of a timeline's line that machines get, beside its time."""
ENDED_WELL = ("succeeded", "drafted")


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """Everything there is to tell of one run: `lines` are what happened, `asking` the calls that have no answer yet.

    `now` is ms since the epoch, `zone` the reader's.
    """

    view: RunView
    bundle: Bundle
    state: State
    lines: tuple[Line, ...]
    asking: tuple[Line, ...]
    effects: tuple[EffectView, ...]
    zone: str
    now: int

    @property
    def is_asked(self) -> bool:
        """A person is asked something."""
        return bool(self.state.open_handoffs) and not self.state.has_ended

    @property
    def status(self) -> Text:
        """The status in words and in its colour, with what is waited for."""
        return Text(status_line(self), style=_STYLES.get(self.view.status, ""))

    def with_effect(self, *dispositions: str) -> list[str]:
        """The effects of which this has become, as `step (id)`."""
        return [
            f"{effect.path} ({words.shown_id(effect.external_id)})" if effect.external_id else effect.path
            for effect in self.effects
            if effect.disposition in dispositions
        ]

    @property
    def unknown(self) -> list[str]:
        """Steps whose effect nobody knows."""
        calls = self.state.calls.items()
        return list(dict.fromkeys(name[0] for name, call in calls if name[1] == "do" and call.is_unsettled))


def full(story: Story, out: Console) -> RenderableType:
    """The whole page: head, timeline, effects, what stands, what can be done."""
    start = story.view.started_at
    when = f"{page.moment(start, story.zone):%Y-%m-%d}, times {page.offset(start, story.zone)}"
    parts = [head(story), Text(), Text(f"What happened ({when})", style="bold"), timeline(story, out)]
    if story.effects:
        parts += [Text(), Text("What was done outside, and what has become of it", style="bold"), effects(story)]
    return Group(*parts, *ending(story))


def brief(story: Story, out: Console) -> RenderableType:
    """What is shown when a run that was watched has come to rest."""
    return Group(Text(f"Run {story.view.run} ", style="bold") + story.status, timeline(story, out), *ending(story))


# --- head ------------------------------------------------------------------------------------------------------------


def head(story: Story) -> RenderableType:
    """Which run this is, how it stands and whose it is."""
    view, zone = story.view, story.zone
    table = page.grid((8, None))
    table.add_row("Run", Text(view.run, style="bold"))
    table.add_row("Flow", f"{view.flow}: {words.plain(view.title)}" + (" (draft)" if view.mode == "draft" else ""))
    table.add_row("Status", story.status)
    if view.summary and view.status not in ENDED_WELL:
        table.add_row("Why", words.sentence(view.summary))
    by = f", by {words.plain(view.starter)}" if view.starter else ""
    table.add_row("Started", f"{shown(view.started_at, zone)}{by}")
    if view.ended_at is not None:
        table.add_row("Ended", f"{shown(view.ended_at, zone)}, after {page.span(view.ended_at - view.started_at)}")
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
        table.add_row("Result", ", ".join(f"{k}: {words.plain(v)}" for k, v in story.state.outputs.items()))
    return table


def status_line(story: Story) -> str:
    """The status in words, with what is waited for and until when."""
    view, state = story.view, story.state
    text = words.STATUS.get(view.status, view.status)
    if view.status == "needs_person":
        return f"needs a person: {words.plain(view.needs or view.owner)} must act"
    if view.status != "waiting":
        return text
    if state.held_for:
        return f"{text}: {state.held_for} is held by {words.plain(state.held_by)}, which must be settled first"
    if view.wake_at is None:
        return f"{text}: {view.waiting_for or 'it is taken up by the next command or by `amends serve`'}"
    step = f"step {view.at_step} " if view.at_step else ""
    return f"{text}: {step}goes on at {shown(view.wake_at, story.zone)} ({page.left(view.wake_at - story.now)})"


_STYLES = {
    "succeeded": "green", "drafted": "green", "compensated": "cyan", "failed": "red", "stopped": "red",
    "needs_person": "yellow", "paused": "yellow",
}  # fmt: skip


# --- timeline --------------------------------------------------------------------------------------------------------


def timeline(story: Story, out: Console, *, ahead: bool = False) -> RenderableType:
    """What happened, one line for each thing. With `ahead` the steps still to come follow, cut to fit the terminal."""
    clock = Clock(story)
    lines = [(clock.time(line.at), line.sign, line.step, clock.text(line)) for line in (*story.lines, *story.asking)]
    if ahead:
        todo = [] if story.state.root.closed else _to_come(story.bundle.flow.steps, story.state)
        names = story.bundle.flow.branch_names()
        lines += [("", "note", s.id, _tagged(names.get(s.id, ""), _what(story.bundle, s))) for s in todo]
        lines = lines[-max(out.height - 3, 5) :]
    longest = min(max((len(step) for _, _, step, _ in lines), default=0), STEP)
    table = page.grid((clock.width, 1, longest, None))
    for at, sign, step, text in lines:
        shown_text = Text(text, "" if at else "dim", no_wrap=ahead, overflow="ellipsis" if ahead else "fold")
        table.add_row(Text(at, style="dim"), page.sign(sign, out), step, shown_text)
    return table


def _to_come(steps: tuple[Step, ...], state: State) -> Iterator[Step]:
    """The steps that have not begun; what stands in a choose only when it is known which way it goes."""
    for step in steps:
        if step.id not in state.steps:
            yield step
        if step.verb != "choose" or step.id in state.steps:
            for branch in step.branches:
                yield from _to_come(branch.steps, state)


def _tagged(branch: str, text: str) -> str:
    return f"[{branch}] {text}" if branch else text


def _what(bundle: Bundle, step: Step) -> str:
    names = ", ".join(branch.name for branch in step.branches)
    other = {
        "wait": "Waits",
        "hand_off": "Hands over to a person",
        "choose": "Chooses how to go on",
        "parallel": f"At once: {names}",
    }
    return action_title(bundle.actions, step.action) if step.action else other.get(step.verb, step.verb)


class Clock:
    """Times of one run: the hour alone where it began and ended on one day, else with day and offset."""

    def __init__(self, story: Story) -> None:
        self._zone = story.zone
        times = [story.view.started_at, *(line.at for line in story.lines)]
        times += [line.until for line in story.lines if line.until is not None]
        days = {page.moment(at, story.zone).date() for at in times}
        self._form = "%H:%M:%S" if len(days) == 1 else "%m-%d %H:%M:%S"
        self._has_offset = len({page.offset(at, story.zone) for at in times}) > 1
        self.width = len(self.time(story.view.started_at))

    def time(self, at: int) -> str:
        """A time of the timeline."""
        end = f" {page.offset(at, self._zone)}" if self._has_offset else ""
        return page.moment(at, self._zone).strftime(self._form) + end

    def text(self, line: Line) -> str:
        """A line's text, with what follows when a running timer fires."""
        text = line.text if line.until is None else f"{line.text} It {line.then} at {self.time(line.until)}."
        return _tagged(line.branch, text)


# --- effects ---------------------------------------------------------------------------------------------------------


def effects(story: Story) -> RenderableType:
    """Every effect with its outside id and what has become of it."""
    rows = [
        (str(each.start_no), each.path, each.action, words.shown_id(each.external_id, 30), became(story, each))
        for each in story.effects
    ]
    return page.listed(("", "step", "action", "outside id", "now"), rows, fixed=(0, 1))


def became(story: Story, effect: EffectView) -> str:
    """What has become of an effect, in the word of its compensation."""
    if story.view.status in ENDED_WELL and effect.disposition in ("pending", "stands"):
        return "done"
    undo = story.state.calls.get((effect.path, "undo", effect.part)) or story.state.calls.get((effect.path, "undo", 0))
    if effect.disposition in ("undone", "answered") and undo is not None:
        return words.MADE_GOOD.get(undo.word, words.DISPOSITION[effect.disposition])
    note = f": {words.bare(effect.note)}" if effect.note else ""
    return f"{words.DISPOSITION.get(effect.disposition, effect.disposition)}{note}"


# --- what can be done ------------------------------------------------------------------------------------------------


def ending(story: Story) -> Iterator[RenderableType]:
    """What stands, what is not known, what can be done now; a draft says so last of all."""
    if story.view.status not in (*ENDED_WELL, "failed", "compensated"):
        stands, by_hand = story.with_effect("pending", "stands"), story.with_effect("by_hand")
        yield Text()
        if by_hand:
            yield Text(f"By hand:    {', '.join(by_hand)}.")
        if stands or not by_hand:
            yield Text(f"Stands now: {', '.join(stands) or 'nothing'}.")
        if story.unknown:
            yield Text(f"Not known:  {', '.join(story.unknown)}.", style="yellow")
    for handoff in story.state.open_handoffs if story.is_asked else ():
        yield Text()
        yield from question(story, handoff)
    if orders := further(story):
        yield Text()
        yield Text("You can also" if story.is_asked else "You can", style="bold")
        yield from (typed(choice, command) for choice, command in orders.items())
    if story.view.mode == "draft":
        yield Text()
        yield Text("DRAFT: nothing was sent", style="bold")


def question(story: Story, handoff: HandOff) -> Iterator[RenderableType]:
    """One open question, what is known about it, and what to type for each answer."""
    seen = f", seen by {words.plain(handoff.acknowledged_by)}" if handoff.acknowledged_by else ""
    yield Text(f"{handoff.id}  {asks(handoff)}", style="bold")
    table = page.grid((6, None))
    table.add_row("  For", f"{words.plain(handoff.owner)}, since {shown(handoff.opened_at, story.zone)}{seen}")
    step = story.bundle.steps.get(handoff.step)
    known = {
        "  Why": handoff.summary if handoff.kind != "step" else "",
        "  Rule": step.rule if step is not None else "",
        "  Note": handoff.say,
    }
    for label, text in known.items():
        if text:
            table.add_row(label, words.sentence(text))
    for name, value in handoff.show.items():
        table.add_row("", f"{name}: {words.plain(value)}")
    yield table
    yield from (typed(choice, command) for choice, command in answers(story, handoff).items())


def asks(handoff: HandOff) -> str:
    """The question of a hand-off in one sentence."""
    about = f"step {handoff.step}" if handoff.step else "the run"
    texts = {
        "unknown": f"Did {about} happen?",
        "several": f"Which record is the one of {about}?",
        "failure": f"What is to follow the failure of {about}?",
        "step": "The flow stops here and asks how to go on.",
        "compensation": f"Please make {about} good by hand.",
        "compensation_failed": f"{about.capitalize()} could not be made good. What now?",
        "compensation_unknown": f"Did the compensation of {about} happen?",
        "request": f"The compensation of {about} could not be put together. What now?",
    }
    return texts.get(handoff.kind, f"Please look at {about}.")


def typed(choice: str, command: str) -> Text:
    """A choice and what to type for it; a command is never broken."""
    label = words.CHOICES.get(choice, (choice,))[0]
    narrow = len(label) <= LABEL and len(command) + LABEL + 3 <= NARROW
    text = f"  {label:<{LABEL}} {command}" if narrow else f"  {label}\n    {command}"
    return Text(text, no_wrap=True, overflow="ignore")


def further(story: Story) -> dict[str, str]:
    """The orders that fit beside the answers to open questions, and what to type for each."""
    status, run = story.view.status, story.view.run
    if status in ("failed", "compensated"):
        fitting = ["rerun"]
    elif status == "stopped":
        fitting = ["compensate", "take_over"] if story.with_effect("pending", "stands") else ["rerun"]
    elif story.state.has_ended:
        fitting = []
    else:
        orders = possible(story.bundle, story.state)
        wanted = {"resume", "stop"} if story.is_asked else {"resume", "pause", "stop"}
        wanted |= set() if "compensate" in orders else {"stop_compensate"}
        fitting = [each for each in orders if each in wanted]
    wordings = {"stop_compensate": f"stop {run} --compensate", "take_over": f"take-over {run}"}
    return {choice: f"amends runs {wordings.get(choice, f'{choice} {run}')}" for choice in fitting}


def answers(story: Story, handoff: HandOff) -> dict[str, str]:
    """The answers to a question, and what to type for each. With more than one open question the command names it."""
    state = story.state
    run, step, kind = state.run, handoff.step, handoff.purpose
    needed = fields_needed(story.bundle, step) if "happened" in handoff.choices and kind in ("do", "find") else ()
    wordings = {
        "happened": " ".join([f"settle {run} {step} --happened", *(f"{name}=…" for name in needed)]),
        "did_not": f"settle {run} {step} --did-not",
    }
    if step:
        wordings |= {"retry": f"retry {run} {step}", "skip": f'skip {run} {step} --reason "…"'}
    for choice, order in (("compensate", "compensate"), ("take_over", "take-over")):
        if sum(choice in each.choices for each in state.open_handoffs) == 1:
            wordings[choice] = f"{order} {run}"
    return {
        choice: f"amends runs {wordings[choice]}" if choice in wordings else _resolve(run, handoff.id, choice)
        for choice in handoff.choices
    }


def _resolve(run: str, handoff: str, choice: str) -> str:
    reason = ' --reason "…"' if choice in ("done", "stands", "skip") else ""
    return f"amends handoffs resolve {run} {handoff} {choice}{reason}"


# --- the same for machines -------------------------------------------------------------------------------------------


def as_json(story: Story) -> dict[str, Json]:
    """The run, its timeline, effects and open questions as JSON; times are ISO 8601 in the reader's zone."""
    return {
        **view_json(story.view, story.zone),
        "outputs": dict(story.state.outputs),
        "timeline": [
            {"at": iso(line.at, story.zone), **{name: getattr(line, name) for name in TOLD}} for line in story.lines
        ],
        "effects": [{**asdict(effect), "became": became(story, effect)} for effect in story.effects],
        "unknown": story.unknown,
        "questions": [question_json(story, each) for each in story.state.open_handoffs if story.is_asked],
        "can_do": further(story),
    }


def question_json(story: Story, handoff: HandOff) -> Mapping[str, Json]:
    """One open question as JSON, with the command for each choice."""
    own = ("step", "kind", "owner", "acknowledged_by", "summary", "say")
    return {
        "handoff": handoff.id,
        **{name: getattr(handoff, name) for name in own},
        "opened_at": iso(handoff.opened_at, story.zone),
        "question": asks(handoff),
        "show": dict(handoff.show),
        "choices": answers(story, handoff),
    }
