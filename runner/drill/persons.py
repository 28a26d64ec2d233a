"""Everybody a run waits for, by a script: who approves, what comes in, what an owner answers, who presses a button."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from runner.clock import MINUTE
from runner.contract import Json
from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.state import Gate, HandOff, State, StepState
from runner.errors import AlreadySo, NotPossible
from runner.language.bundle import Bundle
from runner.people.operations import Order, report_for

Word = Literal["yes", "no", "late"]
"""What becomes of an approval; `late`: nobody answers in time."""
When = Callable[[State], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """An order that is given as soon as `when` is so."""

    order: Order
    when: When


def has_begun(step: str) -> When:
    """A step, by its id, pattern or path, has begun: its call is out, or it waits."""

    def is_so(state: State) -> bool:
        purposes = {purpose for path, purpose, _ in state.calls if is_at(path, step)}
        waits = any(is_at(path, step) and known.status == "open" for path, known in state.steps.items())
        return bool(purposes & {"do", "read"}) or (waits and not purposes)

    return is_so


def is_at(path: str, step: str) -> bool:
    """Whether a path is that of a step, which is named by its id, by its pattern or by the path itself."""
    pattern = "/".join(part for part in path.split("/") if not part.isdigit())
    return step in (path, pattern, pattern.rpartition("/")[2])


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What people do. `approvals` maps a step to what becomes of its approval (`step:undo`: that of its compensation);
    a step that is not named gets `otherwise`. `events` maps a step that waits to what comes (None: nothing ever);
    where it is not named, what it waits for comes. `answers` maps a step to the answers its questions get, in turn;
    a question without one stays open. `after` is how many ms each of them takes.
    """

    approvals: Mapping[str, Word] = field(default_factory=dict)
    otherwise: Word = "yes"
    events: Mapping[str, Mapping[str, Json] | None] = field(default_factory=dict)
    answers: Mapping[str, Sequence[Order]] = field(default_factory=dict)
    buttons: Sequence[Button] = ()
    after: int = MINUTE


class Persons:
    """See `engine.simulated.People`. `pressed` are the buttons that were pressed."""

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan or Plan()
        self.pressed: list[Button] = []
        self._answered: dict[str, int] = {}

    def next_at(self, state: State, now: int) -> int | None:
        """See `engine.simulated.People`."""
        return min(self._times(state), default=None)

    def _times(self, state: State) -> Iterator[int]:
        for name, gate in state.gates.items():
            if gate.status == "open" and self._word(name) != "late":
                yield self._when(gate)
        for path, step in state.steps.items():
            if step.event and self._event(path, step) is not None:
                yield step.since + self.plan.after
        for handoff in state.open_handoffs:
            if self._answer(handoff) is not None:
                yield handoff.opened_at + self.plan.after

    def _when(self, gate: Gate) -> int:
        """In time, whatever that is: before others join."""
        return gate.opened_at + min(self.plan.after * (1 + len(gate.yes)), max(gate.due - gate.opened_at - 1, 0))

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        """See `engine.simulated.People`."""
        if state.has_ended:
            return ()
        for button in self.plan.buttons:
            if button not in self.pressed and button.when(state):
                self.pressed.append(button)
                return self._given(bundle, state, button.order, now)
        for name, gate in state.gates.items():
            if gate.status == "open" and self._word(name) != "late" and self._when(gate) <= now:
                return (self._decided(name, gate, now),)
        for path, step in state.steps.items():
            data = self._event(path, step) if step.event else None
            if data is not None and step.since + self.plan.after <= now:
                scope = state.scopes.get(path.rpartition("/")[0])
                return (
                    e.EventReceived(
                        at=now, step=path, event=step.event, event_id=f"of {path}", data={**step.match, **data},
                        generation=scope.generation if scope is not None else 0,
                    ),
                )  # fmt: skip
        for handoff in state.open_handoffs:
            order = self._answer(handoff)
            if order is not None and handoff.opened_at + self.plan.after <= now:
                self._answered[handoff.step] = self._answered.get(handoff.step, 0) + 1
                return self._given(bundle, state, order, now)
        return ()

    def interrupts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        """Nobody acts in between."""
        return ()

    def _given(self, bundle: Bundle, state: State, order: Order, now: int) -> Sequence[e.Event]:
        try:
            return (report_for(bundle, state, order, now),)
        except (NotPossible, AlreadySo):
            return ()

    def _word(self, name: str) -> Word:
        path, _, undo = name.partition(":")
        named = (word for step, word in self.plan.approvals.items() if _is_gate(path, undo, step))
        return next(named, self.plan.otherwise)

    def _decided(self, name: str, gate: Gate, now: int) -> e.Event:
        said = {yes.by for yes in gate.yes}
        by = next((one for one in gate.asked if one not in said), gate.asked[0])
        return e.ApprovalDecided(
            at=now, step=name.removesuffix(UNDO), approval=name, round=gate.round, answer=self._word(name), by=by,
            hash=gate.hash,
        )  # fmt: skip

    def _event(self, path: str, step: StepState) -> Mapping[str, Json] | None:
        named = [data for name, data in self.plan.events.items() if is_at(path, name)]
        return named[0] if named else {}

    def _answer(self, handoff: HandOff) -> Order | None:
        named = (orders for step, orders in self.plan.answers.items() if is_at(handoff.step, step))
        orders = next(named, ())
        place = self._answered.get(handoff.step, 0)
        return orders[place] if place < len(orders) else None


def _is_gate(path: str, undo: str, step: str) -> bool:
    name, _, of = step.partition(":")
    return of == undo and is_at(path, name)
