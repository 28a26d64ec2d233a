"""A run as a page: its head, what happened line by line, what stands, what a person can do now and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console, Group, RenderableType
from rich.text import Text

from runner.cli import page, words
from runner.cli.telling import Line, tell
from runner.clock import iso, shown
from runner.contract import Json
from runner.core.state import HandOff, State
from runner.core.status import standing_of
from runner.language.bundle import Bundle
from runner.people.operations import choices_of, possible
from runner.store.facts import EffectView, LogRow, RunView

DRAFT = "DRAFT: nothing was sent"
LABEL = 23
NARROW = 80
STEP = 14
ENDED_WELL = ("succeeded", "drafted")


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """Everything there is to tell of one run. `now` is ms since the epoch, `zone` the reader's."""

    view: RunView
    bundle: Bundle
    state: State
    lines: tuple[Line, ...]
    effects: tuple[EffectView, ...]
    zone: str
    now: int

    @property
    def is_draft(self) -> bool:
        """Nothing of it leaves."""
        return self.view.mode == "draft"


def story_of(
    view: RunView, bundle: Bundle, state: State, rows: Sequence[LogRow], effects: Sequence[EffectView], *, zone: str,
    now: int,
) -> Story:  # fmt: skip
    """Puts a story together out of what the store says."""
    return Story(
        view=view, bundle=bundle, state=state, lines=tell(bundle, rows), effects=tuple(effects), zone=zone, now=now
    )


def full(story: Story, out: Console) -> RenderableType:
    """The whole page: head, timeline, effects, what stands, what can be done."""
    parts: list[RenderableType] = [head(story), Text()]
    parts.append(Text(f"What happened ({_when(story)})", style="bold"))
    parts.append(timeline(story, out))
    if story.effects:
        parts += [Text(), Text("What was done outside, and what has become of it", style="bold"), effects(story)]
    return Group(*parts, *ending(story))


def brief(story: Story, out: Console) -> RenderableType:
    """What is shown when a run that was watched has come to rest."""
    status = Text(f"Run {story.view.run} ", style="bold") + Text(status_line(story), style=style_of(story))
    return Group(status, timeline(story, out), *ending(story))


# --- head ------------------------------------------------------------------------------------------------------------


def head(story: Story) -> RenderableType:
    """Which run this is, how it stands and whose it is."""
    view = story.view
    table = page.grid((8, None))
    table.add_row("Run", Text(view.run, style="bold"))
    table.add_row("Flow", f"{view.flow}: {words.plain(view.title)}" + (" (draft)" if story.is_draft else ""))
    table.add_row("Status", Text(status_line(story), style=style_of(story)))
    if view.summary and view.status not in ENDED_WELL:
        table.add_row("Why", words.sentence(view.summary))
    table.add_row("Started", f"{shown(view.started_at, story.zone)}{_by(story)}")
    if view.ended_at is not None:
        took = page.span(view.ended_at - view.started_at)
        table.add_row("Ended", f"{shown(view.ended_at, story.zone)}, after {took}")
    if view.run_key and view.run_key != view.run:
        again = f" (run again, {view.rerun})" if view.rerun else ""
        table.add_row("Key", f"{words.plain(view.run_key)}{again}")
    if view.record:
        held = "; other runs on it wait until this one is settled" if story.state.holds_record else ""
        table.add_row("Record", f"{words.plain(view.record)}{held}")
    table.add_row("Owner", words.who(view.owner))
    if view.continues:
        table.add_row("After", f"it cleans up after run {view.continues}")
    if story.state.outputs:
        table.add_row("Result", ", ".join(f"{k}: {words.quoted(v)}" for k, v in story.state.outputs.items()))
    return table


def _by(story: Story) -> str:
    return f", by {words.plain(story.view.starter)}" if story.view.starter else ""


def status_line(story: Story) -> str:
    """The status in words, with what is waited for."""
    view = story.view
    text = words.STATUS.get(view.status, view.status)
    if view.status == "waiting":
        return f"{text}: {waits_for(story.state, story.now, story.zone)}"
    if view.status == "needs_person":
        return f"needs a person: {words.plain(view.needs or view.owner)} must act"
    return text


def waits_for(state: State, now: int, zone: str) -> str:
    """What a waiting run waits for, and until when."""
    standing = standing_of(state)
    if state.held_for:
        return f"{state.held_for} is held by {words.plain(state.held_by)}, which must be settled first"
    if standing.wake_at is None:
        return standing.waiting_for or "it is taken up by the next command or by `amends serve`"
    step = f"step {standing.at_step} " if standing.at_step else ""
    return f"{step}goes on at {shown(standing.wake_at, zone)} ({page.left(standing.wake_at - now)})"


_STYLES = {
    "succeeded": "green", "drafted": "green", "compensated": "cyan", "failed": "red", "stopped": "red",
    "needs_person": "yellow", "paused": "yellow",
}  # fmt: skip


def style_of(story: Story) -> str:
    return _STYLES.get(story.view.status, "")


# --- timeline --------------------------------------------------------------------------------------------------------


def _when(story: Story) -> str:
    start = story.view.started_at
    return f"{page.moment(start, story.zone):%Y-%m-%d}, times {page.offset(start, story.zone)}"


def timeline(story: Story, out: Console) -> RenderableType:
    """What happened, one line for each thing."""
    clock = Clock(story)
    longest = max((len(line.step) for line in story.lines), default=0)
    table = page.grid((clock.width, 1, min(longest, STEP), None)) if longest else page.grid((clock.width, 1, 0, None))
    for line in story.lines:
        table.add_row(Text(clock.time(line.at), style="dim"), page.sign(line.sign, out), line.step, clock.text(line))
    return table


_FOLLOWS = {"goes on": "goes on", "tried again": "is tried again", "looked up": "is looked up"}


class Clock:
    """Times of one run: the hour alone where it began and ended on one day, else with day and offset."""

    def __init__(self, story: Story) -> None:
        self._zone = story.zone
        times = [story.view.started_at, *(line.at for line in story.lines)]
        times += [line.until for line in story.lines if line.until is not None]
        days = {page.moment(at, story.zone).date() for at in times}
        offsets = {page.offset(at, story.zone) for at in times}
        self._form = "%H:%M:%S" if len(days) == 1 else "%m-%d %H:%M:%S"
        self._has_offset = len(offsets) > 1
        self.width = len(self.time(story.view.started_at))

    def time(self, at: int) -> str:
        """A time of the timeline."""
        end = f" {page.offset(at, self._zone)}" if self._has_offset else ""
        return page.moment(at, self._zone).strftime(self._form) + end

    def text(self, line: Line) -> str:
        """A line's text, with what follows when a running timer fires."""
        return line.text if line.until is None else f"{line.text} It {_FOLLOWS[line.then]} at {self.time(line.until)}."


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


def standing(story: Story) -> list[str]:
    """What stands outside, as `step (id)`."""
    return _named(story, "pending", "stands")


def in_hand(story: Story) -> list[str]:
    """What a person has settled or taken over."""
    return _named(story, "by_hand")


def _named(story: Story, *dispositions: str) -> list[str]:
    return [
        f"{effect.path} ({words.shown_id(effect.external_id)})" if effect.external_id else effect.path
        for effect in story.effects
        if effect.disposition in dispositions
    ]


def unknown(state: State) -> list[str]:
    """Steps whose effect nobody knows."""
    return list(dict.fromkeys(name[0] for name, call in state.calls.items() if name[1] == "do" and call.is_unsettled))


# --- what can be done ------------------------------------------------------------------------------------------------


def ending(story: Story) -> Iterator[RenderableType]:
    """What stands, what is not known, what can be done now; a draft says so last of all."""
    status = story.view.status
    if status not in (*ENDED_WELL, "failed", "compensated"):
        stands, by_hand, doubts = standing(story), in_hand(story), unknown(story.state)
        yield Text()
        if by_hand:
            yield Text(f"By hand:    {', '.join(by_hand)}.")
        if stands or not by_hand:
            yield Text(f"Stands now: {', '.join(stands) or 'nothing'}.")
        if doubts:
            yield Text(f"Not known:  {', '.join(doubts)}.", style="yellow")
    for handoff in story.state.open_handoffs if is_asked(story) else ():
        yield Text()
        yield from question(story, handoff)
    yield from _further(story)
    if story.is_draft:
        yield Text()
        yield Text(DRAFT, style="bold")


def question(story: Story, handoff: HandOff) -> Iterator[RenderableType]:
    """One open question, what is known about it, and what to type for each answer."""
    seen = f", seen by {words.plain(handoff.acknowledged_by)}" if handoff.acknowledged_by else ""
    yield Text(f"{handoff.id}  {words.asks(handoff)}", style="bold")
    table = page.grid((6, None))
    table.add_row("  For", f"{words.plain(handoff.owner)}, since {shown(handoff.opened_at, story.zone)}{seen}")
    if handoff.summary and handoff.kind != "step":
        table.add_row("  Why", words.sentence(handoff.summary))
    step = story.bundle.steps.get(handoff.step)
    if step is not None and step.rule:
        table.add_row("  Rule", words.sentence(step.rule))
    if handoff.say:
        table.add_row("  Note", words.sentence(handoff.say))
    for name, value in handoff.show.items():
        table.add_row("", f"{name}: {words.quoted(value)}")
    yield table
    for choice in choices_of(story.state, handoff):
        yield typed(words.OFFERED.get(choice, choice), words.command_of(story.bundle, story.state, choice, handoff))


def typed(label: str, command: str) -> Text:
    """A choice and what to type for it; a command is never broken."""
    narrow = len(label) <= LABEL and len(command) + LABEL + 3 <= NARROW
    text = f"  {label:<{LABEL}} {command}" if narrow else f"  {label}\n    {command}"
    return Text(text, no_wrap=True, overflow="ignore")


def _further(story: Story) -> Iterator[RenderableType]:
    choices = further(story)
    if not choices:
        return
    yield Text()
    yield Text("You can also" if is_asked(story) else "You can", style="bold")
    for choice in choices:
        yield typed(words.OFFERED[choice], words.command_of(story.bundle, story.state, choice))


def is_asked(story: Story) -> bool:
    """A person is asked something."""
    return bool(story.state.open_handoffs) and not story.state.has_ended


def further(story: Story) -> list[str]:
    """The orders that fit beside the answers to open questions."""
    status = story.view.status
    if status in ("failed", "compensated"):
        return ["rerun"]
    if status == "stopped":
        return ["compensate", "take_over"] if standing(story) else ["rerun"]
    if story.state.has_ended:
        return []
    fitting = possible(story.bundle, story.state)
    idle = {"pause"} if is_asked(story) else set()
    if "compensate" in fitting:
        idle.add("stop_compensate")
    return [choice for choice in fitting if choice in words.ORDERS and choice not in idle]


# --- the same for machines -------------------------------------------------------------------------------------------


def as_json(story: Story) -> dict[str, Json]:
    """The run, its timeline, effects and open questions as JSON; times are ISO 8601 in the reader's zone."""
    return {
        **view_json(story.view, story.zone),
        "outputs": dict(story.state.outputs),
        "timeline": [
            {"at": iso(line.at, story.zone), "seq": line.seq, "sign": line.sign, "step": line.step, "text": line.text}
            for line in story.lines
        ],
        "effects": [{**asdict(effect), "became": became(story, effect)} for effect in story.effects],
        "unknown": list(unknown(story.state)),
        "questions": [question_json(story, each) for each in story.state.open_handoffs if is_asked(story)],
        "can_do": {choice: words.command_of(story.bundle, story.state, choice) for choice in further(story)},
    }


def question_json(story: Story, handoff: HandOff) -> dict[str, Json]:
    """One open question as JSON, with the command for each choice."""
    return {
        "handoff": handoff.id,
        "step": handoff.step,
        "kind": handoff.kind,
        "owner": handoff.owner,
        "opened_at": iso(handoff.opened_at, story.zone),
        "acknowledged_by": handoff.acknowledged_by,
        "question": words.asks(handoff),
        "summary": handoff.summary,
        "say": handoff.say,
        "show": dict(handoff.show),
        "choices": {
            choice: words.command_of(story.bundle, story.state, choice, handoff)
            for choice in choices_of(story.state, handoff)
        },
    }


def view_json(view: RunView, zone: str) -> dict[str, Json]:
    """A run as lists show it, with ISO times."""
    found: dict[str, Json] = asdict(view)
    for name in ("started_at", "updated_at", "ended_at", "wake_at"):
        found[name] = iso(found[name], zone) if found[name] is not None else None
    return found
