"""A log as the laws read it: attempts with their outcomes, doubts, questions. Written apart from `runner.core.fold`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from runner.core import events as e
from runner.language.bundle import Bundle
from tests.laws.lives import calls_around, is_inside, items_around, told_apart
from tests.laws.world import Ledger

CallName = tuple[str, str, int]
FORWARD = ("do", "read")
FORWARD_KINDS = ("step", "failure", "outputs", "late", "set_aside")
"""Kinds of questions that do not matter once forward is closed."""
WRITES = ("do", "undo")
BY_LOOKING = ("lookup", "find")


@dataclass(kw_only=True)
class Try:
    """One attempt: its intent and its outcome, each with its place in the log (from 1)."""

    seq: int
    intent: e.CallIntended
    outcome: e.OutcomeEvent | None = None
    outcome_seq: int = 0


@dataclass(kw_only=True)
class Doubt:
    """While this lasts nobody knows whether a writing call had its effect. `until` 0: to the end of the log."""

    call: CallName
    since: int
    until: int = 0
    generation: int = 0

    def covers(self, seq: int) -> bool:
        return self.since < seq and (self.until == 0 or seq < self.until)


@dataclass(kw_only=True)
class Question:
    """One hand-off. `gone` is where it was answered or withdrawn, 0 while it is open."""

    seq: int
    event: e.HandedOff
    choice: str = ""
    gone: int = 0
    answer: e.HandOffResolved | None = None

    def is_open_at(self, seq: int) -> bool:
        return self.seq < seq and (self.gone == 0 or seq < self.gone)


@dataclass(kw_only=True)
class Closing:
    """Where forward of one scope was closed, and where its compensation began."""

    scope: str
    seq: int
    event: e.ForwardClosed
    begun: int = 0


@dataclass(kw_only=True)
class Item:
    """One life of one item: where it began and ended in the log, 0 while it goes on."""

    path: str
    seq: int
    event: e.ScopeStarted
    ended: int = 0
    is_aside: bool = False

    @property
    def list(self) -> str:
        return self.path.rpartition("/")[0]

    def is_open_at(self, seq: int) -> bool:
        return self.seq < seq and (self.ended == 0 or seq < self.ended)


@dataclass(kw_only=True)
class Story:
    """One run: what was pinned, what was recorded, what is true outside, and how the simulation ended.

    `events` and `ledger` have the paths of `lives`; `raw` is the log as it was recorded.
    """

    bundle: Bundle
    events: Sequence[e.Event]
    ledger: Ledger
    end: str = "ended"
    spins: int = 0
    is_honest: bool = True
    before: Sequence[e.Event] = ()
    """The log of the run that this one cleans up after."""
    tries: list[Try] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    closings: dict[str, Closing] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    aside: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)
    resumed: dict[str, int] = field(default_factory=dict)
    finished: int = 0
    stopped_here: int = 0
    taken_over: int = 0

    def __post_init__(self) -> None:
        self.raw = tuple(self.events)
        self.events = told_apart(self.raw)
        if any(one is not other for one, other in zip(self.raw, self.events, strict=True)):
            self.ledger = self._in_their_lives(self.ledger)
        for seq, event in self.numbered():
            self._read(seq, event)

    def _in_their_lives(self, ledger: Ledger) -> Ledger:
        intents = {
            raw: event
            for raw, event in zip(map(_name_of, self.raw), self.events, strict=True)
            if isinstance(event, e.CallIntended)
        }
        return Ledger(
            touches=[replace(each, intent=intents.get(_name_of(each.intent), each.intent)) for each in ledger.touches],
            landed=[replace(each, intent=intents.get(_name_of(each.intent), each.intent)) for each in ledger.landed],
            found=ledger.found,
            staff=ledger.staff,
        )

    @property
    def closed(self) -> int:
        """Where the run's own forward was closed."""
        return self.closings[""].seq if "" in self.closings else 0

    def closing_over(self, path: str, seq: int) -> Closing | None:
        """What a compensation of this path at this place belongs to: the run's, or else the outermost closed item's."""
        for scope in ("", *items_around(path)):
            closing = self.closings.get(scope)
            if closing is not None and closing.seq < seq:
                return closing
        return None

    def numbered(self) -> Iterator[tuple[int, e.Event]]:
        """(seq, event), from 1."""
        return enumerate(self.events, 1)

    @property
    def started(self) -> e.RunStarted:
        first = self.events[0]
        assert isinstance(first, e.RunStarted)
        return first

    @property
    def finish(self) -> e.RunFinished | None:
        last = self.events[self.finished - 1] if self.finished else None
        return last if isinstance(last, e.RunFinished) else None

    @cached_property
    def calls(self) -> dict[CallName, list[Try]]:
        """The attempts of each call, in order."""
        found: dict[CallName, list[Try]] = {}
        for each in self.tries:
            found.setdefault(each.intent.call, []).append(each)
        return found

    @cached_property
    def applied(self) -> dict[CallName, tuple[int, e.CallIntended]]:
        """The calls that are known to have been done: where that was learnt, and the generation's intent."""
        found: dict[CallName, tuple[int, e.CallIntended]] = {}
        for seq, event in self.numbered():
            is_done = isinstance(event, e.CallApplied)
            is_done = is_done or (isinstance(event, e.CallSettled) and event.result == "applied")
            if is_done and isinstance(event, e.CallEvent):
                tries = [t for t in self.calls[event.call] if t.intent.generation == event.generation]
                found.setdefault(event.call, (seq, tries[0].intent))
        return found

    def applied_before(self, path: str, seq: int) -> bool:
        """Some part of the step's `do` was known to be applied before this place."""
        return any(name[:2] == (path, "do") and known < seq for name, (known, _) in self.applied.items())

    def start_of(self, path: str) -> int:
        """The newest start number of the step's effects, 0 without any."""
        return max((i.start_no for name, (_, i) in self.applied.items() if name[:2] == (path, "do")), default=0)

    def order_in(self, scope: str, seq: int) -> dict[str, list[int]]:
        """When each applied step of a scope is to be made good: what sorts first comes first.

        Newest start first; what one called flow did stands together, where its newest stands. What was made good before
        the scope was closed, in an item that was set aside, is not among them.
        """
        starts: dict[str, int] = {}
        closed = self.closings[scope].seq
        gone = [path for path, item in self.items.items() if item.is_aside and item.ended < closed]
        for name, (known, intent) in self.applied.items():
            is_meant = name[1] == "do" and known < seq and is_inside(name[0], scope)
            if is_meant and not any(is_inside(name[0], item) for item in gone):
                starts[name[0]] = max(starts.get(name[0], 0), intent.start_no)
        for doubt in self.doubts:
            if doubt.call[1] == "do" and doubt.covers(seq) and is_inside(doubt.call[0], scope):
                intent = self.calls[doubt.call][-1].intent
                starts[doubt.call[0]] = max(starts.get(doubt.call[0], 0), intent.start_no)
        units: dict[str, int] = {}
        for path, start in starts.items():
            for unit in calls_around(path):
                units[unit] = max(units.get(unit, 0), start)
        inside = {path: [unit for unit in calls_around(path) if is_inside(unit, scope)] for path in starts}
        return {path: [*(-units[unit] for unit in inside[path]), -start] for path, start in starts.items()}

    def question(self, handoff: str) -> Question:
        return next(each for each in self.questions if each.event.handoff == handoff)

    # -- reading --

    def _read(self, seq: int, event: e.Event) -> None:
        match event:
            case e.CallIntended():
                self.tries.append(Try(seq=seq, intent=event))
            case e.OutcomeEvent():
                self._outcome(seq, event)
            case e.CallSettled():
                self._settled(seq, event)
            case e.HandedOff():
                self.questions.append(Question(seq=seq, event=event))
            case e.HandOffResolved():
                self._answered(seq, event)
            case e.ForwardClosed():
                self.closings.setdefault(event.step, Closing(scope=event.step, seq=seq, event=event))
                self._withdraw(
                    seq, lambda q: is_inside(q.step, event.step) and (q.kind in FORWARD_KINDS or q.purpose == "find")
                )
                if not event.compensate:
                    self._stop_here(seq)
            case e.StopRequested(compensate=False):
                self.stopped_here = self.stopped_here or seq
                if self.closed or self.started.continues:
                    self._stop_here(seq)
            case e.RunFinished():
                self.finished = self.finished or seq
                self._withdraw(seq, lambda q: True)
            case _:
                self._read_scope(seq, event)

    def _read_scope(self, seq: int, event: e.Event) -> None:
        match event:
            case e.CompensationBegun():
                if event.step in self.closings:
                    self.closings[event.step].begun = seq
            case e.ScopeStarted(kind="item"):
                self.items[event.step] = Item(path=event.step, seq=seq, event=event)
            case e.ScopeEnded(kind="item", outcome="done"):
                self.items[event.step].ended = seq
            case e.ItemSetAside():
                self.items[event.step].ended, self.items[event.step].is_aside = seq, True
                self.aside.add(event.step)
            case e.ItemResumed() | e.ItemAccepted():
                self._settle_aside(seq, event.step.rpartition("/")[0], {event.step} & self.aside)
            case _:
                pass

    def _stop_here(self, seq: int) -> None:
        self._withdraw(seq, lambda q: q.purpose not in WRITES or q.kind == "request")

    def _withdraw(self, seq: int, is_meant: object) -> None:
        for question in self.questions:
            if not question.gone and callable(is_meant) and is_meant(question.event):
                question.gone = seq

    def _outcome(self, seq: int, event: e.OutcomeEvent) -> None:
        for each in self.tries:
            same = each.intent.call == event.call and each.intent.generation == event.generation
            if same and each.intent.attempt == event.attempt and each.outcome is None:
                each.outcome, each.outcome_seq = event, seq
        if event.purpose not in WRITES:
            return
        if isinstance(event, e.CallUnknown) and self._doubt(event.call) is None:
            self.doubts.append(Doubt(call=event.call, since=seq, generation=event.generation))
        if isinstance(event, e.CallApplied):
            self._clear(seq, event.call)

    def _settled(self, seq: int, event: e.CallSettled) -> None:
        same = [t for t in self.tries if t.intent.call == event.call and t.intent.generation == event.generation]
        was_taken_over = any(isinstance(t.outcome, e.CallUnknown) and t.outcome.take_over for t in same)
        if event.result == "applied" or event.by not in BY_LOOKING or not was_taken_over:
            self._clear(seq, event.call)

    def _doubt(self, call: CallName) -> Doubt | None:
        return next((each for each in self.doubts if each.call == call and not each.until), None)

    def _clear(self, seq: int, call: CallName) -> None:
        doubt = self._doubt(call)
        if doubt is not None:
            doubt.until = seq

    def _answered(self, seq: int, event: e.HandOffResolved) -> None:
        question = self.question(event.handoff)
        if question.gone:
            return
        question.choice, question.gone, question.answer = event.choice, seq, event
        if question.event.kind == "set_aside" and event.choice in ("retry", "skip"):
            self._settle_aside(seq, event.step, {item for item in self.aside if item.rpartition("/")[0] == event.step})
        if event.choice in ("done", "stands"):
            for doubt in self.doubts:
                is_meant = doubt.call[:2] == (question.event.step, "undo") and not doubt.until
                doubt.until = seq if is_meant else doubt.until
            self._withdraw(seq, lambda q: q.step == question.event.step and q.purpose == "undo")
        if event.choice == "take_over":
            self.taken_over = self.taken_over or seq
            self._withdraw(seq, lambda q: True)

    def _settle_aside(self, seq: int, path: str, items: set[str]) -> None:
        """A person said of these items that they are done anew, or stay as they are."""
        event = self.events[seq - 1]
        is_resumed = isinstance(event, e.ItemResumed) or getattr(event, "choice", "") == "retry"
        self.aside -= items
        if is_resumed:
            self.resumed |= dict.fromkeys(items, seq)
        else:
            self.accepted |= items
        if items and not any(item.rpartition("/")[0] == path for item in self.aside):
            self._withdraw(seq, lambda q: q.step == path and q.kind == "set_aside")


def _name_of(event: e.Event) -> tuple[object, ...]:
    """An intent's own name in the log as it was recorded; empty for any other fact."""
    return (event.call, event.generation, event.attempt) if isinstance(event, e.CallIntended) else ()
