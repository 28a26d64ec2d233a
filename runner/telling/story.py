"""Everything there is to tell of one run, and what its parts are called: how it stands, what became of each effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runner.app import Amends
from runner.contract import Json
from runner.core import events as e
from runner.core.fold import fold
from runner.core.paths import is_in, list_of
from runner.core.state import State
from runner.core.state import replace as replace_state
from runner.core.status import APPROVAL, EVENT, WAIT_FOR_PERSON
from runner.engine.past import PAGE
from runner.errors import InvalidFlow, NotFound, NotPossible, StoreCorrupt
from runner.language.bundle import Bundle, restore
from runner.people.rerun import successor
from runner.recorded import retold
from runner.store.abridged import FEW, WHOLE, Abridged, FoldedEffects, item_of
from runner.store.facts import PLACE, RELEASE, EffectView, LogRow, RunView
from runner.store.personal import Personal
from runner.store.sql import SqlStore
from runner.telling import sent, times, words
from runner.telling.deadline import time_to_decide
from runner.telling.lines import Teller
from runner.telling.tree import Line
from runner.tongue import _, marked, point

WAITS_UNTIL = marked("{status}: step {step} waits for {thing} until {time}")
ENDED_WELL = ("succeeded", "drafted")
DRAFTED: Mapping[str, str] = {
    "pending": marked("a draft, left at the service"), "stands": marked("a draft, left at the service"),
    "undone": marked("the draft was removed"),
}  # fmt: skip
"""What has become of a draft."""
SOME = 3
"""Steps that the status names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """Everything there is to tell of one run. `told` is its timeline, with the calls that have no answer yet; `lines`
    are without them. `folded` are effects of ended items of long lists, which `effects` leaves out.

    `now` is ms since the epoch, `zone` the reader's, `whole` the part of which nothing is folded ("": all of it),
    `events` what was read of the log, as far as that was kept, `successor` the run that was started anew in its place.
    """

    view: RunView
    bundle: Bundle
    state: State
    told: tuple[Line, ...]
    effects: tuple[EffectView, ...]
    zone: str
    now: int
    folded: tuple[FoldedEffects, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    whole: str | None = None
    events: tuple[e.Event, ...] = ()
    successor: str = ""

    @property
    def lines(self) -> tuple[Line, ...]:
        """What has happened."""
        return tuple(line for line in self.told if not line.is_asking)

    def place(self, path: str) -> str:
        """A path as people read it, items by their names: invoices › INV-7 › charge."""
        parts = path.split("/")
        paths = ("/".join(parts[: number + 1]) for number in range(len(parts)))
        return " › ".join(map(self._name, paths))

    def _name(self, path: str) -> str:
        each, last = list_of(path), path.rpartition("/")[2]
        aside = self.state.lists[each].aside.get(int(last)) if each in self.state.lists else None
        known = self.state.scopes.get(path)
        if not each or (known is not None and known.kind in ("turn", "tool")):
            return last
        name = self.names.get(path) or (aside.name if aside else "") or (known.name if known else "")
        return words.plain(name) or last

    @property
    def went_well(self) -> bool:
        """It came to its end; what it did is meant to stay. A person may have left items of a list set aside."""
        is_left = self.view.status == "closed" and self.state.accepted > 0 and not self.state.root.closed
        return self.view.status in ENDED_WELL or is_left

    @property
    def is_asked(self) -> bool:
        """A person is asked something."""
        return bool(self.state.open_handoffs) and not self.state.has_ended

    def with_effect(self, *dispositions: str) -> list[str]:
        """The effects of which this has become, as `step (id)`, or `step (recipient)` where a step has several."""
        found = []
        for effect in self.effects:
            if disposition_of(self, effect) in dispositions:
                known = self.receiver(effect.path, effect.part) or words.shown_id(effect.external_id)
                found.append(self.place(effect.path) + (f" ({known})" if known else ""))
        alike = [each for each in self.folded if each.disposition in dispositions]
        return [*found, *(f"{self.place(each.path)} ({each.count:,} in all)" for each in alike)]

    @property
    def unknown(self) -> list[str]:
        """Calls of which nobody knows whether they happened, with what they can be looked up by."""
        calls = self.state.calls.items()
        found = [(name, self.reference(*name)) for name, call in calls if name[1] == "do" and call.is_unsettled]
        told = [
            (at[0], (self.receiver(at[0], at[2]), known and _("our reference {key}", key=known))) for at, known in found
        ]
        named = [(self.place(step), ", ".join(filter(None, texts))) for step, texts in told]
        return [f"{place} ({text})" if text else place for place, text in named]

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
    text = _(words.STATUS.get(view.status, view.status))
    if view.mode == "draft" and view.status == "compensated":
        return _("compensated: its drafts were removed")
    if view.status == "needs_person":
        asked = dict.fromkeys(handoff.owner for handoff in state.open_handoffs) or {view.needs or view.owner: None}
        who = _(" and ").join(named(one) for one in asked)
        if not view.waiting_for.endswith(WAIT_FOR_PERSON):
            return _("needs a person: {who} must act", who=who)
        return _("needs a person: {who} must act ({why})", who=who, why=retold(view.waiting_for))
    if view.status == "closed" and story.taken_over_by:
        return _("closed: taken over by {who}", who=named(story.taken_over_by))
    calling = dict.fromkeys(name[0] for name, call in state.calls.items() if call.is_open)
    if calling and not state.has_ended:
        steps = ", ".join(map(story.place, [*calling][:SOME]))
        steps += _(" and {count} more", count=len(calling) - SOME) if len(calling) > SOME else ""
        return _("{status}: step {step} was called, and no answer has come yet", status=text, step=steps)
    step, thing = story.place(view.at_step) if view.at_step else "", retold(words.plain(view.waiting_for))
    if view.waiting_for.startswith((PLACE, RELEASE)):
        return _("{status}: step {step} waits for {thing}", status=text, step=step, thing=thing)
    asks = view.waiting_for.startswith(APPROVAL) and view.ended_at is None
    if view.status != "waiting" and not asks:
        return text
    if state.held:
        form = marked("{status}: step {step} {thing}") if step else marked("{status}: {thing}")
        return _(form, status=text, step=step, thing=thing)
    at = point(view.wake_at, story.zone, exact=True) if view.wake_at is not None else ""
    at = time_to_decide(story.bundle, state, story.zone, named) if asks else at
    if view.waiting_for.startswith((EVENT, APPROVAL)):
        form = WAITS_UNTIL if at else marked("{status}: step {step} waits for {thing}")
        return _(form, status=text, step=step, thing=thing, time=at)
    if view.wake_at is None:
        thing = thing or _("it is taken up by `amends serve`, or when it is watched")
        return _("{status}: {thing}", status=text, thing=thing)
    left = times.left(view.wake_at - story.now)
    return _("{status}: step {step} goes on at {time} ({left})", status=text, step=step, time=at, left=left)


def disposition_of(story: Story, effect: EffectView) -> str:
    """What has become of an effect; `left`: a take-over left it to a person; `in_doubt`: was it made good?"""
    undo, at = story.state.undo.get(effect.path), (effect.path, effect.part)
    if at in {(each.step, each.part) for each in story.state.open_handoffs if each.kind == "compensation_unknown"}:
        return "in_doubt"
    is_left = effect.disposition in ("by_hand", "stands") and story.state.is_taken_over and not effect.note
    return "left" if is_left and (undo is None or undo.status not in ("done", "skipped")) else effect.disposition


def became(story: Story, effect: EffectView) -> str:
    """What has become of an effect, in the word of its compensation."""
    if story.view.mode == "draft" and effect.disposition in DRAFTED:
        return _(DRAFTED[effect.disposition])
    if story.went_well and effect.disposition in ("pending", "stands"):
        return _("done")
    if effect.disposition in ("undone", "answered"):
        return _by_word(story, effect.path, effect.disposition)
    disposition = disposition_of(story, effect)
    what = _(words.DISPOSITION.get(disposition, disposition))
    why = words.bare(retold(effect.note)) or without_id(story, effect)
    return _("{status}: {thing}", status=what, thing=why) if why else what


def without_id(story: Story, effect: EffectView) -> str:
    """Why an effect has no outside id: a person said that it happened; empty for every other."""
    about = (event for event in story.events if isinstance(event, e.HandOffResolved) and event.step == effect.path)
    said = [] if effect.external_id else [event for event in about if event.choice == "happened"]
    if not said:
        return ""
    by, at = words.plain(said[-1].by), Clock(story).time(said[-1].at)
    return _("no id, its answer was lost; {by} said at {time} that it happened", by=by, time=at)


def events_sent(story: Story) -> list[tuple[str, str, str]]:
    """The events that the run sent and that nothing takes back, as far as it is told: place, event, what that means."""
    what = _("sent") if story.went_well else _("sent, not taken back")
    steps = ((path, story.bundle.find(path)) for path, known in story.state.steps.items() if known.status == "done")
    return [(story.place(path), step.event, what) for path, step in steps if step is not None and step.verb == "emit"]


def reason(story: Story) -> str:
    """Why a run stands as it does, with the step that failed; empty where that is plain from its status."""
    view, failure = story.view, story.state.root.failure or story.state.failure
    if view.status in ENDED_WELL or not view.summary:
        return ""
    text = words.summary(view.summary)
    if failure is None or failure.summary != view.summary or not failure.step or failure.step in text:
        return words.sentence(text)
    return words.sentence(_("Step {step}: {why}", step=story.place(failure.step), why=text))


def _by_word(story: Story, path: str, disposition: str) -> str:
    step = story.bundle.find(path)
    known = words.DISPOSITION.get(disposition, disposition)
    word = step.compensate.word if step is not None and step.compensate is not None else ""
    return _(words.ANSWERED_BY.get(word) or words.MADE_GOOD.get(word, known))


def became_of(story: Story, alike: FoldedEffects) -> str:
    """The same of effects of ended items."""
    if story.view.mode == "draft" and alike.disposition in DRAFTED:
        return _(DRAFTED[alike.disposition])
    if story.went_well and alike.disposition in ("pending", "stands"):
        return _("done")
    if alike.disposition in ("undone", "answered"):
        return _by_word(story, alike.path, alike.disposition)
    return _(words.DISPOSITION.get(alike.disposition, alike.disposition))


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


class Telling:
    """Tells one run, again and again as it goes on: what is read of its log once is not read again.

    Without personal data unless it is to be revealed. Nothing that stands in `whole` (a path, "" is the run) is folded.
    What is read is kept for the story where it `keeps`.
    """

    def __init__(
        self, amends: Amends, run: str, zone: str, *, reveal: bool = False, whole: str | None = None,
        keeps: bool = False,
    ) -> None:  # fmt: skip
        view = amends.store.run(run)
        self._amends, self._run, self._zone, self._reveal, self._whole = amends, view.run, zone, reveal, whole
        self._bundle = _bundle_of(amends, view)
        self._state, self._read, self._known = State(), 0, view.seq
        self._personal: Personal | None = None
        self._abridged = WHOLE
        self._kept: list[e.Event] | None = [] if keeps else None
        self._teller: Teller | None = None

    def story(self, *, with_effects: bool = True) -> Story:
        """The run's story as it stands now. Raises NotPossible where its flow can no longer be read."""
        store = self._amends.store
        for rows in self._new_rows():
            if self._personal is not None and rows[-1].seq > self._known:
                self._personal.learn(row.event for row in rows)
            for row in rows:
                self._take(row)
        view = store.run(self._run)
        if view.bundle != self._bundle.digest:
            self._bundle = _bundle_of(self._amends, view)
        assert self._teller is not None
        self._teller.use(self._bundle)
        anew = successor(store, view)
        effects, folded = store.told_effects(self._run, self._abridged) if with_effects else ([], [])
        if self._personal is not None:
            view, effects = self._personal.fields_of(view), [self._personal.fields_of(each) for each in effects]
        state = self._state if view.continues else with_left_out(self._state, self._abridged, folded)
        asked = [handoff.step for handoff in state.open_handoffs]
        pending = {each.path for each in state.effects.values() if each.disposition == "pending"}
        return Story(
            view=view, bundle=self._bundle, state=state, effects=tuple(effects), folded=tuple(folded), zone=self._zone,
            told=self._teller.told(asked, pending.difference(asked)), now=self._amends.clock.now(),
            names=self._teller.scopes.names, whole=self._whole, events=tuple(self._kept or ()), successor=anew,
        )  # fmt: skip

    def _new_rows(self) -> Iterator[Sequence[LogRow]]:
        store, run = self._amends.store, self._run
        if self._teller is None:
            self._begin()
            if self._abridged.rows:
                yield self._abridged.rows
            self._read = max(self._read, self._abridged.end)
        while rows := store.log(run, after=self._read, limit=PAGE):
            yield rows

    def _begin(self) -> None:
        store, before = self._amends.store, self._amends.store.run(self._run).continues
        if self._whole != "":
            self._abridged = store.abridged(self._run, self._whole or "")
        rows = self._abridged.rows
        if not self._reveal:
            self._personal = store.personal(self._run, rows or None)
        if before:
            earlier = Telling(self._amends, before, self._zone, reveal=self._reveal).story()
            self._state = earlier.state
        self._teller = Teller(self._bundle, self._whole, self._abridged)

    def _take(self, row: LogRow) -> None:
        assert self._teller is not None
        event = row.event
        if event is not None and self._personal is not None:
            event = self._personal.event(event)
        if isinstance(event, e.RunStarted) and event.continues:
            self._state = replace_state(self._state, seq=row.seq - 1)
        if event is not None:
            self._state = fold(self._state, event)
            if self._kept is not None:
                self._kept.append(event)
        self._teller.read(replace(row, event=event) if event is not row.event else row)
        self._read = row.seq


def _bundle_of(amends: Amends, view: RunView) -> Bundle:
    try:
        return restore(view.bundle, amends.store.bundle(view.bundle))
    except (InvalidFlow, StoreCorrupt, NotFound) as error:
        why = error.problems[0].what if isinstance(error, InvalidFlow) and error.problems else str(error)
        raise NotPossible(
            f"the flow that run {view.run} ({view.flow}, {view.status}) began with can no longer be read "
            f"({words.bare(why)}); `amends log export {view.run}` writes down all that is known of the run"
        ) from None


def with_left_out(state: State, read: Abridged, folded: Sequence[FoldedEffects]) -> State:
    """The state with the counts of the items that the log was read without."""
    lists = {}
    for path, listing in state.lists.items():
        left = dict(listing.left)
        for each in folded:
            if each.each == path:
                left[each.disposition] = left.get(each.disposition, 0) + each.count
        started = max(listing.started, read.begun.get(path, 0))
        lists[path] = replace_state(listing, left=left, started=started, done=listing.done + read.done.get(path, 0))
    return replace_state(state, lists=lists)


def story_of(amends: Amends, run: str, zone: str, *, reveal: bool = False, whole: str | None = None) -> Story:
    """A run's story as it stands now; see `Telling`. Raises NotFound, NotPossible."""
    return Telling(amends, run, zone, reveal=reveal, whole=whole, keeps=True).story()


def chosen(story: Story, *, ahead: bool = False, since: int = 0) -> list[Line]:
    """The lines of the timeline that are shown, and those that they stand under: of one part, `ahead` while somebody
    looks on, or from the log entry `since` on.
    """
    whole = story.whole or ""
    meant = [line for line in story.told if line.seq > since or line.is_asking]
    meant = [line for line in meant if not whole or line.step == whole or is_in(line.step, whole)]
    meant = [line for line in meant if not (line.is_quiet and (ahead or line.sign == "good"))]
    meant = [line for line in meant if not (ahead and _is_detail(story, line))]
    by_number = {line.number: line for line in story.told}
    numbers: set[int] = set()
    for line in meant:
        number = line.number
        while number and number not in numbers:
            numbers.add(number)
            number = by_number[number].within
    return [line for line in story.told if line.number in numbers]


def _is_detail(story: Story, line: Line) -> bool:
    """It tells what happened in an item of a long list, and asks nobody."""
    item = item_of(line.step)
    listing = story.state.lists.get(item.rpartition("/")[0])
    is_inside = listing is not None and listing.items.count > FEW and line.step != item
    return is_inside and line.sign not in ("person", "unknown")


def tagged(branch: str, text: str) -> str:
    """A text with the name of its branch before it."""
    return f"[{branch}] {text}" if branch else text


THEN: Mapping[str, str] = {
    "goes on": marked("It goes on at {time}."),
    "is tried again": marked("It is tried again at {time}."),
    "is looked up": marked("It is looked up at {time}."),
    "is late": marked("It is late at {time}."),
    "is a no without an answer": marked("It is a no without an answer at {time}."),
}
"""What follows when a timer of a line fires."""


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
        text = line.text
        if line.until is not None:
            text = f"{text} {_(THEN[line.then], time=self.time(line.until))}"
        return tagged(line.branch, text)
