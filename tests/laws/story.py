"""A log as the laws read it: attempts with their outcomes, doubts, questions. Written apart from `runner.core.fold`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from runner.core import events as e
from runner.language.bundle import Bundle
from tests.laws.world import Ledger

CallName = tuple[str, str, int]
FORWARD = ("do", "read")
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
class Story:
    """One run: what was pinned, what was recorded, what is true outside, and how the simulation ended."""

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
    closed: int = 0
    begun: int = 0
    finished: int = 0
    stopped_here: int = 0
    taken_over: int = 0

    def __post_init__(self) -> None:
        for seq, event in self.numbered():
            self._read(seq, event)

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
                self.closed = self.closed or seq
                self._withdraw(seq, lambda q: q.kind in ("step", "failure") or q.purpose == "find")
                if not event.compensate:
                    self._stop_here(seq)
            case e.StopRequested(compensate=False):
                self.stopped_here = self.stopped_here or seq
                if self.closed or self.started.continues:
                    self._stop_here(seq)
            case e.CompensationBegun():
                self.begun = self.begun or seq
            case e.RunFinished():
                self.finished = self.finished or seq
                self._withdraw(seq, lambda q: True)
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
        if event.choice in ("done", "stands"):
            self._withdraw(seq, lambda q: q.step == question.event.step and q.purpose == "undo")
        if event.choice == "take_over":
            self.taken_over = self.taken_over or seq
            self._withdraw(seq, lambda q: True)
