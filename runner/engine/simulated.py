"""The simulator: the same core, driven on a virtual clock against an outside that is made up, for drills and laws.

`Simulation(bundle, outside, started, people=…).run()` drives one run to its end, or to where nothing would wake it.
What the engine promises is kept here as the embedded engine keeps it: an intent is in the log before its call leaves,
an outcome goes through `outcome_event`, a new engine raises the fence and takes over what an older one left open. What
can go wrong between the engine and its log is up to `Weather`; what the services do is up to `Outside`; what persons do
is up to `People`. There is no chance in here: the same three give the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from runner.clock import SECOND
from runner.contract import Connector, Outcome, Request
from runner.core import events as e
from runner.core.fold import fold, fold_all
from runner.core.recall import LogSource, recall
from runner.core.state import State, replace
from runner.core.status import standing_of
from runner.engine.advance import Turn, advance, frozen_request
from runner.engine.driven import OPEN_DESK, Desk
from runner.engine.perform import outcome_event, taken_over
from runner.errors import SequenceConflict
from runner.language.bundle import Bundle
from runner.store.facts import AlreadyReported, RecordIsHeld

Fate = Literal["kept", "error_kept", "error_lost", "crash_kept", "crash_lost"]
"""What becomes of a commit: it is kept; it raises, and is kept or lost; the process dies after it, or before."""

End = Literal["ended", "rests", "exhausted"]
"""The run has ended; nothing is on its way that would wake it; it was not through when patience ended."""

DOWNTIME = 5 * SECOND


class VirtualClock:
    """A clock that only its owner turns. Times are ms since the epoch."""

    def __init__(self, at: int = 1_788_220_800_000) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at


class GuardTaken(AssertionError):
    """A decision's guard stands in the log already: the core decided the same thing twice."""


class MemoryLog:
    """One run's log in memory, with the obligations of the store: a condition for decisions, guards for all."""

    def __init__(self) -> None:
        self.events: list[e.Event] = []
        self.fence = 0
        self._guards: set[str] = set()

    @property
    def seq(self) -> int:
        """How many facts there are."""
        return len(self.events)

    def append(self, events: Sequence[e.Event], *, seq: int, fence: int) -> None:
        """Decisions, all or none. Raises SequenceConflict, AlreadyReported (an outcome), GuardTaken (a decision)."""
        if seq != self.seq or fence != self.fence:
            raise SequenceConflict(f"the log stands at {self.seq} under fence {self.fence}, not {seq} under {fence}")
        guards: list[str] = []
        for event in events:
            if event.guard is None:
                continue
            if event.guard in self._guards or event.guard in guards:
                if event.kind_of_fact == "report":
                    raise AlreadyReported(event.guard)
                raise GuardTaken(event.guard)
            guards.append(event.guard)
        self._guards.update(guards)
        self.events.extend(events)

    def report(self, event: e.Event) -> None:
        """A report, at whatever seq is next. Raises AlreadyReported."""
        if event.guard is not None:
            if event.guard in self._guards:
                raise AlreadyReported(event.guard)
            self._guards.add(event.guard)
        self.events.append(event)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How a call ends, and after how many ms."""

    outcome: Outcome
    after: int


class Outside(Protocol):
    """The services. `send` is called when the first byte leaves, with the log as it is durable at that moment."""

    def connect(self, connection: str) -> Connector:
        """A connector; only `prepare` is used. Raises SettingsError."""

    def send(self, intent: e.CallIntended, request: Request, *, now: int, durable: int) -> Answer:
        """What becomes of one attempt. `durable` is the number of facts in the log."""


class People(Protocol):
    """Everybody who reports something about the run: operators, and those who are asked."""

    def next_at(self, state: State, now: int) -> int | None:
        """When they will next do something, or None."""

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        """What they report now."""

    def interrupts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        """What they report between a decision and its commit."""


class Weather(Protocol):
    """What goes wrong inside the machine."""

    def commit(self) -> Fate:
        """The fate of the next commit."""

    def crash_after_send(self) -> bool:
        """The process dies while its calls are out."""

    def answer_of_the_dead(self) -> bool:
        """The answer to a call of a dead process is reported all the same, late."""

    def holder(self, record: str, now: int) -> tuple[str, int] | None:
        """The other run that holds the record, and until when."""

    def slots(self) -> int:
        """How many calls may start in this turn, at least 1."""


class Calm:
    """Nothing goes wrong."""

    def commit(self) -> Fate:
        return "kept"

    def crash_after_send(self) -> bool:
        return False

    def answer_of_the_dead(self) -> bool:
        return False

    def holder(self, record: str, now: int) -> tuple[str, int] | None:
        return None

    def slots(self) -> int:
        return 64


class Nobody:
    """Nobody answers and nobody interferes."""

    def next_at(self, state: State, now: int) -> int | None:
        return None

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        return ()

    def interrupts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Flight:
    """A call that is out."""

    intent: e.CallIntended
    outcome: Outcome
    at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a simulation leaves: the log, the state it folds to, how it ended, and what must never happen.

    `spins` counts wake-ups that woke nothing; `crashes` the engines that died.
    """

    events: tuple[e.Event, ...]
    state: State
    end: End
    now: int
    spins: int
    crashes: int


class Simulation:
    """One run under simulation. `started` is its RunStarted; `patience` bounds how often time moves on.

    `before` is the log of the run that this one cleans up after. `observe` is told of every turn that was committed.
    `versions` are the bundles that people may move it to, by digest.
    """

    def __init__(
        self, bundle: Bundle, outside: Outside, started: e.RunStarted, *, people: People | None = None,
        weather: Weather | None = None, clock: VirtualClock | None = None, before: Sequence[e.Event] = (),
        patience: int = 400, observe: Callable[[Turn], None] | None = None,
        versions: Mapping[str, Bundle] | None = None, desk: Desk = OPEN_DESK,
    ) -> None:  # fmt: skip
        self.bundle = bundle
        self.versions = versions or {}
        self.outside = outside
        self.started = started
        self.people = people or Nobody()
        self.weather = weather or Calm()
        self.clock = clock or VirtualClock(started.at)
        self.patience = patience
        self.desk = desk
        self.log = MemoryLog()
        self._observe = observe
        self._before = before
        self._old = replace(fold_all(before), seq=0)
        self._state = self._old
        self._flying: list[Flight] = []
        self._arrived: list[e.Event] = []
        self._held_until: int | None = None
        self._spins = 0
        self._crashes = 0

    def run(self) -> Result:
        """Drives the run until it ends, rests for good, or patience ends. Asked again, it goes on from there."""
        if not self.log.events:
            self.log.report(self.started)
            self._restart(after=0)
        end: End = "exhausted"
        for _ in range(self.patience):
            self._drive()
            if self._state.has_ended:
                end = "ended"
                break
            if not self._pass_time():
                end = "rests"
                break
        return Result(
            events=tuple(self.log.events), state=self._state, end=end, now=self.clock.at, spins=self._spins,
            crashes=self._crashes,
        )  # fmt: skip

    def take_up(self, events: Sequence[e.Event]) -> None:
        """Begins with a log that another engine left, as a restarted engine does."""
        for event in events:
            self.log.report(event)
            self.clock.at = max(self.clock.at, event.at)
            self.log.fence = max(self.log.fence, event.fence if isinstance(event, e.CallIntended) else 0)
        self._restart(after=0)

    # -- the engine --

    def _drive(self) -> None:
        """Turn after turn, until one has nothing to record."""
        while True:
            turn = self._decide(self.weather.slots())
            if not turn.events and turn.recall is None:
                return
            if not turn.events or self._commit(turn):
                self._start(turn)
                if turn.recall is not None:
                    self._state = recall(self._state, turn.recall, LogSource([*self._before, *self.log.events]))
            self._listen()

    def _decide(self, slots: int) -> Turn:
        """The next turn. What needs a record that another run keeps waits until that one lets go of it."""
        self._held_until = None
        kept: dict[str, RecordIsHeld] = {}
        while True:
            turn = advance(
                self.bundle, self._state, now=max(self.clock.at, self._state.at), fence=self.log.fence,
                reported=tuple(self._arrived), connect=self.outside.connect, slots=slots, kept=kept,
                desk=self.desk,
            )  # fmt: skip
            found = [(name, self.weather.holder(name, self.clock.at)) for name in turn.records]
            refused = {name: holder for name, holder in found if holder is not None}
            if not refused:
                return turn
            kept |= {name: RecordIsHeld(name, by_run) for name, (by_run, _) in refused.items()}
            self._held_until = min(until for _, until in refused.values())

    def _commit(self, turn: Turn) -> bool:
        """Commits a turn. True when the engine knows that it stands, so that its calls may leave."""
        for event in self.people.interrupts(self.bundle, self._state, turn.after.at):
            self._report(event)
        fate = self.weather.commit()
        try:
            if fate in ("kept", "error_kept", "crash_kept"):
                self.log.append(turn.events, seq=turn.before.seq, fence=self.log.fence)
        except (SequenceConflict, AlreadyReported):
            self._report_arrived()
            self._read()
            return False
        if fate == "kept":
            self._arrived.clear()
            self._state = turn.after
            if self._observe is not None:
                self._observe(turn)
            return True
        if fate.startswith("crash"):
            self._restart()
            return False
        self._report_arrived()
        self._read()
        self._disown()
        return False

    def _start(self, turn: Turn) -> None:
        for intent in turn.intents:
            request = Request(body=frozen_request(self._state, intent), hash=intent.request_hash)
            answer = self.outside.send(intent, request, now=self.clock.at, durable=self.log.seq)
            if self.bundle.actions[intent.action].own:
                self._report(outcome_event(intent, answer.outcome, self._at()))
                self._read()
                continue
            self._flying.append(Flight(intent=intent, outcome=answer.outcome, at=self.clock.at + answer.after))
        if turn.intents and self.weather.crash_after_send():
            self._restart()

    def _restart(self, after: int = DOWNTIME) -> None:
        """A new engine: the fence grows, and what an older one left open has an unknown outcome."""
        if after:
            self._crashes += 1
            self.clock.at += after
        late = [flight for flight in self._flying if self.weather.answer_of_the_dead()]
        self._flying.clear()
        self._arrived.clear()
        self.log.fence += 1
        self._read()
        for name, call in self._state.calls.items():
            if call.is_open and call.fence < self.log.fence:
                is_own = self.bundle.actions[call.action].own
                self._report(taken_over(name, call, self._at(), is_own=is_own))
        for flight in late:
            self._report(outcome_event(flight.intent, flight.outcome, self._at()))
        self._read()

    def _disown(self) -> None:
        """After a commit of which nobody knew: what was intended and never left is provably not sent."""
        out = {flight.intent.guard for flight in self._flying}
        for intent in (event for event in self.log.events if isinstance(event, e.CallIntended)):
            call = self._state.calls.get(intent.call)
            is_its = call is not None and (call.generation, call.attempt) == (intent.generation, intent.attempt)
            if call is not None and call.is_open and is_its and intent.guard not in out:
                unsent = Outcome(result="not_sent", reason="interrupted", summary="The commit was in doubt.")
                self._report(outcome_event(intent, unsent, self._at()))
        self._read()

    # -- what is reported --

    def _at(self) -> int:
        return max(self.clock.at, self._state.at)

    def _read(self) -> None:
        """The state as the log has it."""
        state = self._old
        for event in self.log.events:
            state = fold(state, event)
        self._state = state
        self.bundle = self.versions.get(state.bundle, self.bundle)

    def _report(self, event: e.Event) -> None:
        try:
            self.log.report(event)
        except AlreadyReported:
            if isinstance(event, e.OutcomeEvent):
                self.log.report(as_late(event))

    def _report_arrived(self) -> None:
        for event in self._arrived:
            self._report(event)
        self._arrived.clear()

    def _listen(self) -> None:
        acts = self.people.acts(self.bundle, self._state, self._at())
        for event in acts:
            self._report(event)
        if acts:
            self._read()

    def _pass_time(self) -> bool:
        """Moves the clock to whatever comes next. False when nothing will."""
        now = self.clock.at
        wake_at = standing_of(self._state).wake_at
        if wake_at is not None and wake_at <= now and self._held_until is None:
            self._spins += 1
        person = self.people.next_at(self._state, now)
        times = [flight.at for flight in self._flying]
        times.extend(at for at in (person, self._held_until) if at is not None)
        if wake_at is not None and wake_at > now:
            times.append(wake_at)
        if not times:
            return False
        self.clock.at = max(now, min(times))
        landed = sorted((flight for flight in self._flying if flight.at <= self.clock.at), key=lambda each: each.at)
        self._flying = [flight for flight in self._flying if flight.at > self.clock.at]
        self._arrived.extend(outcome_event(each.intent, each.outcome, self._at()) for each in landed)
        self._listen()
        return True


def as_late(event: e.OutcomeEvent) -> e.EvidenceLate:
    """An outcome that came when the matter was settled."""
    results = {e.CallApplied: "applied", e.CallRefused: "refused", e.CallNotSent: "not_sent", e.CallUnknown: "unknown"}
    output = event.output if isinstance(event, e.CallApplied) else {}
    return e.EvidenceLate(
        at=event.at, step=event.step, external_id=event.external_id, purpose=event.purpose, part=event.part,
        generation=event.generation, attempt=event.attempt, result=results[type(event)], output=output,
    )  # fmt: skip
