"""INVARIANTS as functions over a stored installation: every run's log and tables, against what the receivers truly did.

`broken(Installation.read(store, now=…), Truth(effects=…))` gives a sentence for all that is wrong, each with the number of
its invariant. What concerns several runs, the tables and the receivers stands here; the laws of a single run are those
of `tests.laws`, read from the stored log and the run's own bundle. I12, I25 and I32 leave no trace in a log: the suites
that can see them look for themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from runner.core import events as e
from runner.core.paths import is_in
from runner.core.status import standing_of
from runner.language.bundle import Bundle
from tests.laws.oracle import violations
from tests.laws.register import named
from tests.laws.replay import replay_faults
from tests.laws.staff import Staff
from tests.laws.story import Story
from tests.laws.world import Landed, Ledger
from tests.trust.installation import Installation, Truth

WRITES = ("do", "undo")
OF_ONE_TEXT = frozenset({"I26", "I31", "branch", "scope", "starts", "beside", "outcome"})
"""Laws that read a whole log by one text of the flow, which a run that was moved has not."""
SHOWN_TO_ALL = frozenset({"I1", "I3", "I4", "I5", "I8"})
"""Laws of bytes at the receivers; here the invariants of these names look at the receivers themselves."""


Invariant = Callable[[Installation, Truth], Iterator[str]]
INVARIANTS: dict[str, Invariant] = {}


def invariant(number: str) -> Callable[[Invariant], Invariant]:
    """Registers a function under its number."""

    def keep(function: Invariant) -> Invariant:
        INVARIANTS[number] = function
        return function

    return keep


def broken(log: Installation, ledger: Truth, *, with_laws: bool = True) -> list[str]:
    """All that is wrong. `with_laws`: also by the laws of each run, where its bundle is known."""
    found = [f"{number}: {what}" for number, each in INVARIANTS.items() for what in each(log, ledger)]
    return found + (_by_laws(log, ledger) if with_laws else [])


def key_at(intent: e.CallIntended) -> str:
    """What the receiver knows a call by: the Message-ID of a mail, else the key."""
    return str(intent.request.get("message_id") or intent.key)


def _intents(log: Installation) -> Iterator[tuple[str, e.CallIntended]]:
    """Every first attempt (it holds the request) of every writing call: (run, intent)."""
    for run in log.logs:
        yield from ((run, intent) for intent in _intents_of(log, run))


def _intents_of(log: Installation, run: str) -> Iterator[e.CallIntended]:
    """Those of one run."""
    for event in log.logs[run]:
        if isinstance(event, e.CallIntended) and event.purpose in WRITES and event.request:
            yield event


def _is_covered(intent: e.CallIntended, ledger: Truth) -> bool:
    return intent.action.partition(".")[0] in ledger.covers


def _known(events: Sequence[e.Event]) -> set[tuple[object, ...]]:
    """The calls, by generation, that a log says were done."""
    return {(*event.call, event.generation) for event in events if _says_done(event)}


def _says_done(event: e.Event) -> TypeGuard[e.CallEvent]:
    return isinstance(event, e.CallApplied) or (isinstance(event, e.CallSettled) and event.result == "applied")


# --- against the receivers -------------------------------------------------------------------------------------------


@invariant("I1")
def whatever_arrives_was_intended(log: Installation, ledger: Truth) -> Iterator[str]:
    """No receiver saw a key that no durable intent has."""
    intended = {key_at(intent) for _, intent in _intents(log)}
    for key in sorted((ledger.arrived or frozenset()) - intended):
        yield f"bytes of {key} arrived, and no intent has that key"


@invariant("I2")
def keys_are_never_shared(log: Installation, ledger: Truth) -> Iterator[str]:
    """One key belongs to one generation of one call of one run, and that generation has no other."""
    owners: dict[str, tuple[object, ...]] = {}
    keys: dict[tuple[object, ...], str] = {}
    for run, events in log.logs.items():
        lives: Counter[str] = Counter()
        for event in events:
            if isinstance(event, e.ScopeStarted):
                lives[event.step] += 1
            if not isinstance(event, e.CallIntended) or event.purpose not in WRITES:
                continue
            owner = (run, *event.call, event.generation)
            if owners.setdefault(event.key, owner) != owner:
                yield f"{named(event)} of run {run} has the key of {owners[event.key]}"
            if keys.setdefault(owner, event.key) != event.key:
                yield f"{named(event)} of run {run} has another key than its first attempt"


@invariant("I3")
def a_key_carries_one_request(log: Installation, ledger: Truth) -> Iterator[str]:
    """The same key, the same request's hash."""
    hashes: dict[tuple[str, str], str] = {}
    for run, events in log.logs.items():
        for event in events:
            if isinstance(event, e.CallIntended) and event.purpose in WRITES:
                known = hashes.setdefault((event.purpose, event.key), event.request_hash)
                if known != event.request_hash:
                    yield f"{named(event)} of run {run} sends another request under its key"


@invariant("I4")
def an_effect_happens_at_most_once(log: Installation, ledger: Truth) -> Iterator[str]:
    """No key has two effects."""
    names = {key_at(intent): f"{named(intent)} of run {run}" for run, intent in _intents(log)}
    for key, times in ledger.effects.items():
        if times > 1:
            yield f"{names.get(key, key)} had {times} effects"


@invariant("I5")
def no_orphans_and_no_phantoms(log: Installation, ledger: Truth) -> Iterator[str]:
    """Every effect has its intent, every applied call its effect; an ended run knows all its effects."""
    intended = {key_at(intent): (run, intent) for run, intent in _intents(log)}
    for key in ledger.effects:
        if key not in intended:
            yield f"an effect of {key}, which no intent has"
    known = {run: _known(events) for run, events in log.logs.items()}
    adopted = {
        (run, *event.call, event.generation)
        for run, events in log.logs.items()
        for event in events
        if isinstance(event, e.CallSettled) and event.adopted
    }
    for key, (run, intent) in intended.items():
        if not _is_covered(intent, ledger) or not ledger.is_honest:
            continue
        is_known, times = (*intent.call, intent.generation) in known[run], ledger.effects.get(key, 0)
        if is_known and not times and (run, *intent.call, intent.generation) not in adopted:
            yield f"{named(intent)} of run {run} is recorded as done, and nothing happened"
        if times and not is_known and _ended(log.logs[run]) and not _by_hand(log.logs[run], intent):
            yield f"{named(intent)} of run {run} had its effect, and the log does not know"


def _ended(events: Sequence[e.Event]) -> bool:
    return any(isinstance(event, e.RunFinished) for event in events)


def _by_hand(events: Sequence[e.Event], intent: e.CallIntended) -> bool:
    """A person took the run over, or said what became of this step's compensation."""
    asked = {event.handoff for event in events if isinstance(event, e.HandedOff) and event.step == intent.step}
    return any(
        isinstance(event, e.HandOffResolved)
        and (event.choice == "take_over" or (event.choice in ("done", "stands") and event.handoff in asked))
        for event in events
    )


@invariant("I8")
def a_no_did_nothing(log: Installation, ledger: Truth) -> Iterator[str]:
    """What was refused or not sent at every attempt had no effect; what was not sent at every attempt arrived nowhere."""
    for run, events in log.logs.items():
        outcomes: dict[tuple[object, ...], list[e.OutcomeEvent]] = {}
        for event in events:
            if isinstance(event, e.OutcomeEvent):
                outcomes.setdefault((*event.call, event.generation), []).append(event)
        for intent in _intents_of(log, run):
            said, key = outcomes.get((*intent.call, intent.generation), []), key_at(intent)
            if (
                said
                and all(isinstance(each, e.CallRefused | e.CallNotSent) for each in said)
                and ledger.effects.get(key)
            ):
                yield f"{named(intent)} of run {run} was refused or not sent each time, and had an effect"
            if said and all(isinstance(each, e.CallNotSent) for each in said) and key in (ledger.arrived or ()):
                yield f"{named(intent)} of run {run} was never sent, and bytes of it arrived"


# --- the log of one run ----------------------------------------------------------------------------------------------


@invariant("I9")
def an_outcome_is_written_once(log: Installation, ledger: Truth) -> Iterator[str]:
    """One outcome for an attempt, behind its intent; a call that is done is not sent again."""
    for run, events in log.logs.items():
        intended: set[object] = set()
        seen: set[object] = set()
        done: set[object] = set()
        for event in events:
            if not isinstance(event, e.CallEvent):
                continue
            attempt = (*event.call, event.generation, event.attempt)
            if isinstance(event, e.CallIntended):
                if (*event.call, event.generation) in done and event.purpose in WRITES:
                    yield f"{named(event)} of run {run} was sent although it is done"
                intended.add(attempt)
            elif isinstance(event, e.OutcomeEvent):
                if attempt in seen:
                    yield f"{named(event)} of run {run} has two outcomes"
                if attempt not in intended:
                    yield f"{named(event)} of run {run} has an outcome and no intent"
                seen.add(attempt)
            if _says_done(event):
                done.add((*event.call, event.generation))


@invariant("I10")
def fences_only_grow(log: Installation, ledger: Truth) -> Iterator[str]:
    """An engine whose turn was over decided nothing more: the fences of a run's intents never go back. Where several
    engines live, one gives a run that has no open call back to the others, of whom some are older.
    """
    for run, events in log.logs.items():
        fence, out = 0, set[object]()
        for event in events:
            if isinstance(event, e.CallIntended):
                if event.fence < fence and (out or not log.is_shared):
                    yield f"{named(event)} of run {run} was intended under fence {event.fence}, behind {fence}"
                fence = event.fence if log.is_shared else max(fence, event.fence)
                out.add((*event.call, event.generation, event.attempt))
            elif isinstance(event, e.OutcomeEvent):
                out.discard((*event.call, event.generation, event.attempt))


@invariant("I13")
def only_what_was_done_is_undone(log: Installation, ledger: Truth) -> Iterator[str]:
    """A compensation is intended only behind its step's effect."""
    for run, events in log.logs.items():
        first = events[0]
        if isinstance(first, e.RunStarted) and first.continues:
            continue
        done: set[str] = set()
        for event in events:
            if _says_done(event) and event.purpose == "do":
                done.add(event.step)
            if isinstance(event, e.CallIntended) and event.purpose == "undo" and event.step not in done:
                yield f"{named(event)} of run {run} undoes what was never applied"


@invariant("I15")
def a_compensation_is_applied_once(log: Installation, ledger: Truth) -> Iterator[str]:
    """One applied compensation for each part of a step, in each life of its item."""
    for run, events in log.logs.items():
        done: Counter[tuple[object, ...]] = Counter()
        for event in events:
            if isinstance(event, e.ScopeStarted):
                done = Counter({call: n for call, n in done.items() if not is_in(str(call[0]), event.step)})
            if _says_done(event) and event.purpose == "undo":
                done[event.call] += 1
                if done[event.call] == 2:
                    yield f"{named(event)} of run {run} was applied twice"


@invariant("I16")
def nothing_goes_forward_behind_the_barrier(log: Installation, ledger: Truth) -> Iterator[str]:
    """Behind ForwardClosed no forward intent in that scope, and no compensation while a forward call is open."""
    for run, events in log.logs.items():
        closed: set[str] = set()
        out: dict[object, e.CallIntended] = {}
        for event in events:
            if isinstance(event, e.ForwardClosed):
                closed.add(event.step)
            elif isinstance(event, e.ScopeStarted):
                closed.discard(event.step)
            elif isinstance(event, e.CompensationBegun):
                for intent in out.values():
                    if intent.purpose in ("do", "read") and (not event.step or is_in(intent.step, event.step)):
                        yield f"compensation of run {run} began while {named(intent)} was open"
            elif isinstance(event, e.CallIntended):
                out[event.call] = event
                if event.purpose in ("do", "read") and any(not scope or is_in(event.step, scope) for scope in closed):
                    yield f"{named(event)} of run {run} was intended behind ForwardClosed"
            elif isinstance(event, e.OutcomeEvent):
                out.pop(event.call, None)


@invariant("I18")
def a_failed_compensation_is_not_hidden(log: Installation, ledger: Truth) -> Iterator[str]:
    """It is handed to somebody, and never ends as compensated while something stands."""
    for run, events in log.logs.items():
        handed = {event.step for event in events if isinstance(event, e.HandedOff) and event.owner}
        for event in events:
            if isinstance(event, e.CompensationFailed) and event.step not in handed:
                yield f"the failed compensation of {event.step} of run {run} was handed to nobody"
            if isinstance(event, e.RunFinished) and event.status == "compensated" and event.stands:
                yield f"run {run} ends compensated while {', '.join(event.stands)} stands"


@invariant("I30")
def time_goes_forward(log: Installation, ledger: Truth) -> Iterator[str]:
    """Decisions stand in the order of their times, and no timer fires early."""
    for run, events in log.logs.items():
        at = 0
        for event in events:
            if event.kind_of_fact == "decision" and event.at < at:
                yield f"{type(event).__name__} {event.step} of run {run} stands before what came earlier"
            at = max(at, event.at)
            if isinstance(event, e.TimerFired) and event.at < event.due:
                yield f"a timer of {event.step} of run {run} fired {event.due - event.at} ms early"


# --- the installation ------------------------------------------------------------------------------------------------


@invariant("I19")
def nothing_is_lost(log: Installation, ledger: Truth) -> Iterator[str]:
    """Every open run has what wakes it; an end is an end, once."""
    for run in log.unwitnessed:
        yield f"run {run} waits, and nothing would ever wake it"
    for run, events in log.logs.items():
        ends = [at for at, event in enumerate(events) if isinstance(event, e.RunFinished)]
        if len(ends) > 1:
            yield f"run {run} ended {len(ends)} times"
        for event in events[ends[0] + 1 :] if ends else ():
            if event.kind_of_fact == "decision":
                yield f"{type(event).__name__} of run {run} was decided behind its end"


@invariant("I27")
def the_tables_say_what_the_log_says(log: Installation, ledger: Truth) -> Iterator[str]:
    """The chains hold, and each run's row is what its log folds to."""
    yield from log.chain
    for run, view in log.views.items():
        state = log.state(run)
        if view.seq != len(log.logs[run]):
            yield f"run {run} has {len(log.logs[run])} entries, and its row says {view.seq}"
        elif state.has_ended and view.status != state.status:
            yield f"run {run} ended {state.status}, and its row says {view.status}"
        elif view.ended_at is not None and not state.has_ended:
            yield f"run {run} has not ended, and its row says that it has"
        elif standing_of(state).phase != view.phase and view.status not in ("queued", "running"):
            yield f"run {run} is {standing_of(state).phase}, and its row says {view.phase}"


@invariant("I28")
def no_secret_is_written(log: Installation, ledger: Truth) -> Iterator[str]:
    """No secret value stands in a log."""
    for run, events in log.logs.items() if ledger.secrets else ():
        for event in events:
            text = json.dumps(e.payload(event), ensure_ascii=False, default=str)
            for secret in ledger.secrets:
                if secret in text:
                    yield f"{type(event).__name__} {event.step} of run {run} holds a secret"


@invariant("I29")
def an_event_has_one_run(log: Installation, ledger: Truth) -> Iterator[str]:
    """Each run is started once, by its first entry, and no business event has two."""
    owners: dict[tuple[object, ...], str] = {}
    for run, events in log.logs.items():
        starts = [event for event in events if isinstance(event, e.RunStarted)]
        if len(starts) != 1 or events[0] is not starts[0]:
            yield f"run {run} was started {len(starts)} times, or not by its first entry"
        for first in starts[:1]:
            key = (first.flow, first.mode, first.run_key, first.rerun)
            if first.run_key and not first.continues and owners.setdefault(key, run) != run:
                yield f"runs {owners[key]} and {run} stand for the same event {first.run_key}"


@invariant("I33")
def every_effect_has_its_disposition(log: Installation, ledger: Truth) -> Iterator[str]:
    """The table of effects says what the log does, nothing is pending at the end, and the end follows from them."""
    for run, told in log.effects.items():
        state = log.state(run)
        folded: Counter[str] = Counter(effect.disposition for effect in state.effects.values())
        for listing in state.lists.values():
            folded.update(listing.left)
        folded["stands"] += folded.pop("kept", 0)
        if state.has_ended and not state.continues:
            # Ended items that were read back when the run broke off stand in its log as one count.
            is_rough = bool(state.lists) and state.status in ("closed", "stopped")
            if len(told) != folded.total() if is_rough else Counter(told) != +folded:
                yield f"the table of effects of run {run} says {dict(Counter(told))}, its log {dict(+folded)}"
            if "pending" in told:
                yield f"{told.count('pending')} effects of run {run} are pending at its end"
            if state.status == "failed" and told:
                yield f"run {run} failed as if nothing had been applied, and {len(told)} effects were"
            if state.status == "compensated" and {"stands", "by_hand"} & {*told}:
                yield f"run {run} ended compensated, and its effects are {dict(Counter(told))}"


# --- by the laws of one run --------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class _Asked(Staff):
    """Those whom the log says were asked; where everything leads is not known, and taken as it was."""

    people: frozenset[str] = frozenset()

    def may(self, by: tuple[str, ...], now: int, starter: str) -> tuple[str, ...]:
        """Whoever was asked."""
        return tuple(sorted(self.people))


def _by_laws(log: Installation, ledger: Truth) -> list[str]:
    found = []
    for run, events in log.logs.items():
        first = events[0]
        moves = [event.bundle for event in events if isinstance(event, e.RunMoved)]
        if not isinstance(first, e.RunStarted) or first.continues:
            continue
        if (moves or [first.bundle])[-1] not in log.bundles:
            continue
        story = _story(log, ledger, run, log.bundles[(moves or [first.bundle])[-1]])
        skipped = SHOWN_TO_ALL | (OF_ONE_TEXT if moves else frozenset())
        wrong = violations(story, but=skipped)
        wrong += [f"I26: {what}" for what in replay_faults(log.bundles[first.bundle], events, versions=log.bundles)]
        found += [f"{what} (run {run})" for what in wrong]
    return found


def _story(log: Installation, ledger: Truth, run: str, bundle: Bundle) -> Story:
    """The run as the laws read it; where the receivers are not covered, the log is believed about them."""
    events = log.logs[run]
    known = _known(events)
    landed = []
    for intent in _intents_of(log, run):
        is_done = (*intent.call, intent.generation) in known
        times = ledger.effects.get(key_at(intent), 0) if _is_covered(intent, ledger) else int(is_done)
        landed += [
            Landed(at=intent.at, shows=intent.at, intent=intent, input={}, output={}, external_id="")
            for _ in range(times)
        ]
    asked = (event.asked for event in events if isinstance(event, e.ApprovalRequested))
    staff = _Asked(people=frozenset(person for people in asked for person in people))
    return Story(
        bundle=bundle, events=events, ledger=Ledger(landed=landed, staff=staff),
        end="ended" if _ended(events) else "moving", is_honest=ledger.is_honest,
    )  # fmt: skip
