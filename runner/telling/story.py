"""Everything there is to tell of one run, and what its parts are called: how it stands, what became of each effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from runner.app import Amends
from runner.clock import shown
from runner.contract import Json
from runner.core.state import State
from runner.engine.past import read_state
from runner.errors import InvalidFlow, NotFound, NotPossible, StoreCorrupt
from runner.language.bundle import Bundle
from runner.people.operations import possible
from runner.store.facts import PLACE, RELEASE, EffectView, LogRow, RunView
from runner.store.sql import SqlStore
from runner.telling import sent, times, words
from runner.telling.lines import Line, tell

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

    def with_effect(self, *dispositions: str) -> list[str]:
        """The effects of which this has become, as `step (id)`, or `step (recipient)` where a step has several."""
        return [
            f"{effect.path} ({known})"
            if (known := self.receiver(effect.path, effect.part) or words.shown_id(effect.external_id))
            else effect.path
            for effect in self.effects
            if disposition_of(self, effect) in dispositions
        ]

    @property
    def unknown(self) -> list[str]:
        """Calls of which nobody knows whether they happened, with what they can be looked up by."""
        calls = self.state.calls.items()
        found = [(name, self.reference(*name)) for name, call in calls if name[1] == "do" and call.is_unsettled]
        told = [(at[0], (self.receiver(at[0], at[2]), known and f"our reference {known}")) for at, known in found]
        return [f"{step} ({', '.join(filter(None, texts))})" if any(texts) else step for step, texts in told]

    @property
    def taken_over_by(self) -> str:
        """Who has taken the run over; empty where nobody has."""
        by = [handoff.by for handoff in self.state.handoffs.values() if handoff.choice == "take_over"]
        return (by[-1] if by else self.view.starter) if self.state.is_taken_over else ""

    def reference(self, step: str, purpose: str, part: int = 0) -> str:
        """What a call can be looked up by; empty where nothing was sent along, or there is no such call."""
        call = self.state.calls.get((step, purpose, part))
        action = self.bundle.actions.get(call.action) if call is not None else None
        return sent.reference(action, call.key, call.request) if call is not None else ""

    def input_of(self, step: str, purpose: str, part: int = 0) -> Mapping[str, Json]:
        """What a call was given; of one part, where there are several."""
        kept = self.state.undo if purpose == "undo" else self.state.steps
        call, begun = self.state.calls.get((step, purpose, part)), kept.get(step)
        if begun is None or call is None:
            return {}
        return sent.one_part(self.bundle.actions.get(call.action), begun.input, part)

    def receiver(self, step: str, part: int, purpose: str = "do") -> str:
        """What tells a part from the others: the recipient's address; empty where there are no parts."""
        call = self.state.calls.get((step, purpose, part))
        action = self.bundle.actions.get(call.action) if call is not None and call.parts > 1 else None
        given = self.input_of(step, purpose, part)
        return sent.value(given.get(action.fan_out)) if action is not None and action.fan_out in given else ""


def status_line(story: Story, named: Callable[[str], str] = words.plain) -> str:
    """The status in words, with what is waited for and until when; `named` is how people are called."""
    view, state = story.view, story.state
    text = words.STATUS.get(view.status, view.status)
    if view.status == "needs_person":
        asked = dict.fromkeys(handoff.owner for handoff in state.open_handoffs) or {view.needs or view.owner: None}
        return f"needs a person: {' and '.join(named(one) for one in asked)} must act"
    if view.status == "closed" and story.taken_over_by:
        return f"closed: taken over by {named(story.taken_over_by)}"
    calling = dict.fromkeys(name[0] for name, call in state.calls.items() if call.is_open)
    if calling and not state.has_ended:
        return f"{text}: step {', '.join(calling)} was called, and no answer has come yet"
    if view.waiting_for.startswith((PLACE, RELEASE)):
        return f"{text}: step {view.at_step} waits for {words.plain(view.waiting_for)}"
    if view.status != "waiting":
        return text
    if state.held:
        step = f"step {view.at_step} " if view.at_step else ""
        return f"{text}: {step}{words.plain(view.waiting_for)}"
    if view.wake_at is None:
        return f"{text}: {view.waiting_for or 'it is taken up by the next command or by `amends serve`'}"
    step = f"step {view.at_step} " if view.at_step else ""
    return f"{text}: {step}goes on at {shown(view.wake_at, story.zone)} ({times.left(view.wake_at - story.now)})"


def disposition_of(story: Story, effect: EffectView) -> str:
    """What has become of an effect; `left`: a take-over left it to a person."""
    undo = story.state.undo.get(effect.path)
    is_left = effect.disposition in ("by_hand", "stands") and story.state.is_taken_over and not effect.note
    return "left" if is_left and (undo is None or undo.status not in ("done", "skipped")) else effect.disposition


def became(story: Story, effect: EffectView) -> str:
    """What has become of an effect, in the word of its compensation."""
    if story.view.status in ENDED_WELL and effect.disposition in ("pending", "stands"):
        return "done"
    undo = story.state.calls.get((effect.path, "undo", effect.part)) or story.state.calls.get((effect.path, "undo", 0))
    if effect.disposition in ("undone", "answered") and undo is not None:
        return words.MADE_GOOD.get(undo.word, words.DISPOSITION[effect.disposition])
    note = f": {words.bare(effect.note)}" if effect.note else ""
    disposition = disposition_of(story, effect)
    return f"{words.DISPOSITION.get(disposition, disposition)}{note}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Veiled:
    """The logs of a store without the personal data in them."""

    store: SqlStore

    def log(self, run: str, after: int = 0, limit: int | None = None) -> list[LogRow]:
        """As the store's own."""
        rows = list(self.store.log(run, after, limit))
        personal = self.store.personal(run)
        return (
            rows if personal is None else [replace(row, event=row.event and personal.event(row.event)) for row in rows]
        )


def story_of(amends: Amends, run: str, zone: str, *, reveal: bool = False) -> Story:
    """A run's story as it stands now, without personal data unless it is to be revealed.

    Raises NotFound, NotPossible where its flow can no longer be read.
    """
    view = amends.store.run(run)
    try:
        bundle, state = amends.state(view.run)
    except (InvalidFlow, StoreCorrupt, NotFound) as error:
        why = error.problems[0].what if isinstance(error, InvalidFlow) and error.problems else str(error)
        raise NotPossible(
            f"the flow that run {view.run} ({view.flow}, {view.status}) began with can no longer be read "
            f"({words.bare(why)}); `amends log export {view.run}` writes down all that is known of the run"
        ) from None
    rows, effects, personal = (
        amends.store.log(view.run),
        amends.store.effects(view.run),
        amends.store.personal(view.run),
    )
    if personal is not None and not reveal:
        veiled = Veiled(store=amends.store)
        state, rows = read_state(veiled, view.run)[0], veiled.log(view.run)
        view, effects = personal.fields_of(view), [personal.fields_of(effect) for effect in effects]
    lines, asking = tell(bundle, rows)
    return Story(
        view=view, bundle=bundle, state=state, lines=lines, asking=asking, effects=tuple(effects), zone=zone,
        now=amends.clock.now(),
    )  # fmt: skip


def further(story: Story) -> list[str]:
    """The orders that fit beside the answers to open questions."""
    status = story.view.status
    if status in ("failed", "compensated"):
        return ["rerun"]
    if status == "stopped":
        return ["compensate", "take_over"] if story.with_effect("pending", "stands") else ["rerun"]
    if story.state.has_ended:
        return []
    orders = possible(story.bundle, story.state)
    wanted = {"resume", "stop"} if story.is_asked else {"resume", "pause", "stop"}
    wanted |= set() if "compensate" in orders else {"stop_compensate"}
    return [each for each in orders if each in wanted]


def tagged(branch: str, text: str) -> str:
    """A text with the name of its branch before it."""
    return f"[{branch}] {text}" if branch else text


class Clock:
    """Times of one run: the hour alone where it began and ended on one day, else with day and offset."""

    def __init__(self, story: Story) -> None:
        self._zone = story.zone
        told = [story.view.started_at, *(line.at for line in story.lines)]
        told += [line.until for line in story.lines if line.until is not None]
        days = {times.moment(at, story.zone).date() for at in told}
        self._form = "%H:%M:%S" if len(days) == 1 else "%m-%d %H:%M:%S"
        self._has_offset = len({times.offset(at, story.zone) for at in told}) > 1
        self.width = len(self.time(story.view.started_at))

    def time(self, at: int) -> str:
        """A time of the timeline."""
        end = f" {times.offset(at, self._zone)}" if self._has_offset else ""
        return times.moment(at, self._zone).strftime(self._form) + end

    def text(self, line: Line) -> str:
        """A line's text, with what follows when a running timer fires."""
        text = line.text if line.until is None else f"{line.text} It {line.then} at {self.time(line.until)}."
        return tagged(line.branch, text)
