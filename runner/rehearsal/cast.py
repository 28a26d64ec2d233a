"""The people of a case, who say what it says, through the same doors as real ones; and the events that come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from runner.clock import MINUTE
from runner.contract import Json
from runner.core import events as e
from runner.core.consents import UNDO as GATE_UNDO
from runner.core.paths import generation_at
from runner.core.state import Gate, HandOff, State, StepState
from runner.drill.world import World
from runner.engine.driven import Desk
from runner.errors import AlreadySo, NotPossible
from runner.language.bundle import Bundle
from runner.language.calendar import after
from runner.language.flow import Duration
from runner.language.samples import sample_output
from runner.people.approvals import Decision, preview
from runner.people.approvals import report_for as decided
from runner.people.operations import Order, fields_needed
from runner.people.operations import report_for as ordered
from runner.rehearsal.names import UNDO, At, Names, Spot, side_of

SILENCE = "silence"
DECISIONS = ("yes", "no")
DEFAULT = Duration(amount=1, unit="min")


@dataclass(frozen=True, kw_only=True, slots=True)
class Saying:
    """One answer of one person. `path` is where the test says it."""

    say: str
    path: tuple[str | int, ...]
    by: str = ""
    after: Duration = DEFAULT
    why: str = ""
    changes: str = ""
    output: Mapping[str, Json] | None = None
    edit: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    leave_out: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Coming:
    """An event that comes for a step that waits. `path` is where the test says it."""

    path: tuple[str | int, ...]
    carries: Mapping[str, Json] = field(default_factory=dict)
    after: Duration = DEFAULT


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Who says what. Of an approval the last saying is said by everybody who is still needed; questions are answered in
    turn. What stands nowhere is silence.
    """

    people: Mapping[Spot, Sequence[Saying]] = field(default_factory=dict)
    events: Mapping[Spot, Coming | None] = field(default_factory=dict)


class Cast:
    """See `engine.simulated.People`. `trouble` has what was said and could not be, with its place in the test; `heard`
    what was said at all.
    """

    def __init__(self, bundle: Bundle, parts: Parts, world: World, desk: Desk, items: Mapping[str, str]) -> None:
        self.trouble: list[tuple[tuple[str | int, ...], str]] = []
        self.heard: set[Spot] = set()
        self._parts = parts
        self._world = world
        self._desk = desk
        self._items = items
        self._turns = Counter[str]()
        self._in_vain: set[str] = set()
        self._bundle = bundle
        self._names = Names(bundle)

    # -- engine.simulated.People --

    def next_at(self, state: State, now: int) -> int | None:
        """See `engine.simulated.People`."""
        return min((at for at, _ in self._due(state)), default=None)

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        """See `engine.simulated.People`."""
        for at, act in [] if state.has_ended else [*self._due(state)]:
            if at <= now and (event := act(now)) is not None:
                return (event,)
        return ()

    def interrupts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        """Nobody acts in between."""
        return ()

    # -- what is due --

    def _due(self, state: State) -> Iterator[tuple[int, Callable[[int], e.Event | None]]]:
        for name, gate in state.gates.items():
            if gate.status == "open" and (saying := self._of_gate(name)) is not None:
                at = self._later(gate.opened_at, saying) + MINUTE * len(gate.yes)
                yield at, partial(self._decide, state, name, gate, saying)
        for path, step in state.steps.items():
            if step.event and (coming := self._coming(path)) is not None:
                at = after(step.since, coming.after, self._bundle.working)
                yield at, partial(_comes, state, path, step, coming)
        for handoff in state.open_handoffs:
            if (saying := self._of_question(handoff)) is not None:
                at = self._later(handoff.opened_at, saying)
                yield at, partial(self._answer, state, handoff, saying)

    def _later(self, since: int, saying: Saying) -> int:
        return after(since, saying.after, self._bundle.working)

    def _at(self, path: str, side: str = "") -> At:
        return self._names.at(path, side, self._items)

    def _said(self, at: At, turn: int, *, decides: bool) -> Saying | None:
        """What is said at a place for the nth time: of an approval (`decides`) its decisions, else the answers."""
        spots = sorted((spot for spot in self._parts.people if at.is_meant(spot)), key=lambda spot: not spot.item)
        if not spots:
            return None
        whole = self._parts.people[spots[0]]
        said = [one for one in whole if one.say == SILENCE or (one.say in DECISIONS) == decides]
        if not said and spots[0] not in self.heard:
            said = list(whole)  # they answer something else than is asked, and are told so
        if turn >= len(said) and not (decides and said):
            return None
        self.heard.add(spots[0])
        saying = said[min(turn, len(said) - 1)]
        return None if saying.say == SILENCE else saying

    # -- approvals --

    def _of_gate(self, name: str) -> Saying | None:
        if name in self._in_vain:
            return None
        path = name.removesuffix(GATE_UNDO)
        return self._said(self._at(path, UNDO if path != name else ""), self._turns[name], decides=True)

    def _decide(self, state: State, name: str, gate: Gate, saying: Saying, now: int) -> e.Event | None:
        by = saying.by or next((one for one in gate.asked if all(yes.by != one for yes in gate.yes)), gate.asked[0])
        self._turns[name] += 1
        edits = {path: texts for path in gate.covers if (texts := saying.edit.get(path.rpartition("/")[2]))}
        numbers = {str(number) for number in saying.leave_out}
        left_out = tuple(path for path in gate.covers if numbers & set(path.split("/")))
        try:
            seen = preview(self._bundle, state, name, edits, self._world.connect, self._desk).seen if edits else ""
            decision = Decision(
                approval=name, round=gate.round, hash=gate.hash, by=by, comment=saying.changes or saying.why,
                answer="changes" if saying.changes else "yes" if saying.say == "yes" else "no", proof="sign_in",
                edits=edits, seen=seen, left_out=left_out,
            )  # fmt: skip
            return decided(self._bundle, state, decision, now, self._world.connect, self._desk)
        except (NotPossible, AlreadySo) as no:
            self._refuse(name, saying, by, str(no))
            return None

    # -- questions --

    def _of_question(self, handoff: HandOff) -> Saying | None:
        if handoff.id in self._in_vain:
            return None
        at = self._at(handoff.step, side_of(handoff.kind, handoff.purpose))
        return self._said(at, self._turns[f"{at.side} {handoff.step}"], decides=False)

    def _answer(self, state: State, handoff: HandOff, saying: Saying, now: int) -> e.Event | None:
        self._turns[f"{side_of(handoff.kind, handoff.purpose)} {handoff.step}"] += 1
        by = saying.by or (handoff.owner if handoff.owner.startswith("person:") else "person:me")
        output = self._output(state, handoff, saying)
        order = Order(
            action=saying.say, by=by, handoff=handoff.id, reason=saying.why, reference=saying.why, output=output,
            external_id=str(output.get("id", "")),
        )  # fmt: skip
        try:
            return ordered(self._bundle, state, order, now)
        except (NotPossible, AlreadySo) as no:
            self._refuse(handoff.id, saying, by, str(no))
            return None

    def _output(self, state: State, handoff: HandOff, saying: Saying) -> Mapping[str, Json]:
        """What a person who has looked types in: what the case says, else what stands there; if need be something."""
        if saying.say != "happened" or handoff.purpose not in ("do", "find"):
            return {}
        landed = [each.output for each in self._world.landed if (each.step, each.purpose) == (handoff.step, "do")]
        if landed:
            return {**landed[-1], **(saying.output or {})}
        step = state.steps.get(handoff.step)
        sample = sample_output(self._bundle.actions[self._bundle.step(handoff.step).action], step.input if step else {})
        return {
            **{name: sample.get(name) for name in fields_needed(self._bundle, state, handoff.step)},
            **(saying.output or {}),
        }

    def _refuse(self, question: str, saying: Saying, by: str, why: str) -> None:
        """It was said, and does not count: told once."""
        self._in_vain.add(question)
        self.trouble.append((saying.path, f"{by} cannot say {saying.say}: {why}"))

    # -- events --

    def _coming(self, path: str) -> Coming | None:
        at = self._at(path)
        spots = sorted((spot for spot in self._parts.events if at.is_meant(spot)), key=lambda spot: not spot.item)
        if not spots:
            return None
        self.heard.add(spots[0])
        return self._parts.events[spots[0]]


def _comes(state: State, path: str, step: StepState, coming: Coming, now: int) -> e.Event:
    return e.EventReceived(
        at=now, step=path, event=step.event, event_id=f"of {path}", data={**step.match, **coming.carries},
        generation=generation_at(state, path),
    )  # fmt: skip
