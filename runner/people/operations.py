"""What a person can do to a run: one table, actions by state. Each cell is a report to write, or a sentence why not.

Every answer is a fact in the run's log; what follows from it is decided by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from runner.contract import Json
from runner.core import events as e
from runner.core.state import HandOff, State
from runner.core.status import standing_of
from runner.errors import NotPossible
from runner.language.bundle import Bundle
from runner.language.expressions import NameUse, names
from runner.language.flow import Compensation
from runner.store.facts import RunView


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What a person asks for. `handoff` or `step` names the question where there is more than one.

    `action`: pause, resume, stop, stop_compensate, compensate, retry, skip, happened, did_not, go_on, done, stands,
    close, take_over, again, acknowledge. A retry of a call in doubt is `again`: the same request under the same key.
    """

    action: str
    by: str
    step: str = ""
    handoff: str = ""
    reason: str = ""
    reference: str = ""
    output: Mapping[str, Json] = field(default_factory=dict)
    external_id: str = ""


CHOICES = (
    "again", "compensate", "retry", "skip", "happened", "did_not", "go_on", "done", "stands", "close", "take_over",
)  # fmt: skip
ORDERS = ("pause", "resume", "stop", "stop_compensate", "acknowledge", *CHOICES)


def report_for(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    """The report this order becomes in this state. Raises NotPossible with what can be done instead."""
    answer = _ORDERS.get(order.action)
    if answer is not None:
        return answer(bundle, state, order, now)
    if order.action in CHOICES:
        return _answer_question(bundle, state, order, now)
    raise NotPossible(f'there is no action "{order.action}"; there are {", ".join(ORDERS)}')


def possible(bundle: Bundle, state: State) -> tuple[str, ...]:
    """The orders that fit this state, most useful first."""
    found: list[str] = []
    for handoff in state.open_handoffs:
        found.extend(choice for choice in handoff.choices if choice not in found)
    for action in ("resume", "pause", "stop", "stop_compensate"):
        try:
            report_for(bundle, state, Order(action=action, by="person:me"), state.at)
        except NotPossible:
            continue
        found.append(action)
    return tuple(found)


def _refuse_ended(state: State, wish: str) -> None:
    if state.has_ended:
        raise NotPossible(f"run {state.run} has ended ({state.status}), so it cannot be {wish}")


def _pause(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    _refuse_ended(state, "paused")
    if state.is_paused:
        raise NotPossible(f"run {state.run} is paused already; resume it with `amends runs resume {state.run}`")
    return e.RunPaused(at=now, by=order.by, reason=order.reason)


def _resume(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    _refuse_ended(state, "resumed")
    if not state.is_paused:
        raise NotPossible(f"run {state.run} is not paused, it is {standing_of(state).status}")
    return e.RunResumed(at=now, by=order.by)


def _stop(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    _refuse_ended(state, "stopped")
    if state.stop is not None and not state.stop_compensates:
        raise NotPossible(f"run {state.run} is being stopped already")
    return e.StopRequested(at=now, by=order.by, compensate=False, reason=order.reason)


def _stop_compensate(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    _refuse_ended(state, "stopped")
    if state.root.closed and state.root.compensates:
        raise NotPossible(f"run {state.run} is compensating already")
    if state.stop is not None:
        raise NotPossible(f"run {state.run} is being stopped already")
    return e.StopRequested(at=now, by=order.by, compensate=True, reason=order.reason)


def _compensate(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    asked = [h for h in state.open_handoffs if "compensate" in h.choices]
    if asked and not order.handoff and not order.step:
        return _resolved(asked[-1], order, now)
    if asked or order.handoff or order.step:
        return _answer_question(bundle, state, order, now)
    _refuse_ended(state, "compensated")
    return _stop_compensate(bundle, state, order, now)


def _acknowledge(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    handoff = _question(state, order, needs="")
    return e.HandOffAcknowledged(at=now, handoff=handoff.id, by=order.by)


_ORDERS: Mapping[str, Callable[[Bundle, State, Order, int], e.Event]] = {
    "pause": _pause,
    "resume": _resume,
    "stop": _stop,
    "stop_compensate": _stop_compensate,
    "compensate": _compensate,
    "acknowledge": _acknowledge,
}


def _answer_question(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    if order.action == "retry" and not any("retry" in h.choices for h in state.open_handoffs):
        order = replace(order, action="again")
    handoff = _question(state, order, needs=order.action)
    if order.action in ("skip", "done", "stands") and not (order.reason or order.reference):
        raise NotPossible(f"{order.action} needs a reason (--reason) or a reference (--reference)")
    if order.action == "happened" and handoff.purpose in ("do", "find"):
        needed = fields_needed(bundle, handoff.step, is_closed=state.root.closed)
        missing = [name for name in needed if name not in order.output]
        if missing:
            words = " ".join(f"{name}=…" for name in missing)
            raise NotPossible(f"the flow uses {', '.join(missing)} of step {handoff.step} later: give {words}")
    return _resolved(handoff, order, now)


def _resolved(handoff: HandOff, order: Order, now: int) -> e.Event:
    return e.HandOffResolved(
        at=now, step=handoff.step, handoff=handoff.id, choice=order.action, by=order.by, reason=order.reason,
        reference=order.reference, output=order.output, external_id=order.external_id,
    )  # fmt: skip


def _question(state: State, order: Order, *, needs: str) -> HandOff:
    """The open question meant: by its id, by its step, or the only one that this answer fits."""
    opened = state.open_handoffs
    if not opened or state.has_ended:
        status = standing_of(state).status
        raise NotPossible(f"run {state.run} asks nothing of a person (it is {status}), so there is nothing to answer")
    meant = [h for h in opened if (not order.handoff or h.id == order.handoff) and order.step in ("", h.step)]
    if not meant:
        places = ", ".join(f"{h.id} (step {h.step or 'the run'})" for h in opened)
        raise NotPossible(f'"{order.handoff or order.step}" is not an open question of run {state.run}: {places}')
    fitting = [h for h in meant if not needs or needs in h.choices]
    if not fitting:
        words = ", ".join(meant[0].choices)
        raise NotPossible(
            f"{needs} does not answer {meant[0].id} (step {meant[0].step}); it can be answered by {words}"
        )
    if len(fitting) > 1:
        places = ", ".join(f"{h.id} (step {h.step})" for h in fitting)
        raise NotPossible(f"more than one question fits: {places}; name one with --handoff")
    return fitting[0]


def fields_needed(bundle: Bundle, step_id: str, *, is_closed: bool = False) -> tuple[str, ...]:
    """The output fields of a step that are used after it: its own compensation's `output.x`, others' `steps.id.x`.

    Whoever says "it did happen" must give them. Once forward `is_closed` only compensations still use anything.
    """
    flow = bundle.flow
    texts: list[Any] = [step.compensate for step in flow.every_step()]
    if not is_closed:
        texts = [[getattr(step, each.name) for each in fields(step)] for step in flow.every_step()]
        texts.append(dict(flow.outputs))
    own = bundle.steps[step_id].compensate
    needed = {use.path[1]: None for text in _texts(own) for use in names(text) if _uses(use, ("output",))}
    for text in _texts(texts):
        needed.update((use.path[2], None) for use in names(text) if _uses(use, ("steps", step_id)))
    needed.pop("each", None)
    return tuple(needed)


def _uses(use: NameUse, start: tuple[str, ...]) -> bool:
    return use.path[: len(start)] == start and len(use.path) > len(start) and not use.guarded


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Compensation):
        yield from _texts([getattr(value, each.name) for each in fields(value)])


def refuse_rerun(view: RunView, *, is_taken_over: bool) -> None:
    """Raises NotPossible while the run goes on, anything of it stands, or a person has it in their hands."""
    if view.ended_at is None:
        raise NotPossible(
            f"run {view.run} has not ended ({view.status}); `amends runs show {view.run}` says what can be done with it"
        )
    if is_taken_over:
        raise NotPossible(
            f"run {view.run} was taken over by hand, so what became of its effects is not in its log; started anew it "
            "would do them a second time: start a run under another key once they are made good"
        )
    if view.stands:
        first = f"make them good first (amends runs compensate {view.run}), or " if view.status == "stopped" else ""
        stand = "1 effect" if view.stands == 1 else f"{view.stands} effects"
        raise NotPossible(
            f"{stand} of run {view.run} ({view.status}) would be there twice if it were started anew; {first}start a "
            "run under another key"
        )
