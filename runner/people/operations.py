"""What a person orders becomes a report in the run's log, or one sentence why not, as `table` says.

What follows from a report is decided by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from runner.contract import Json
from runner.core import events as e
from runner.core.paths import catcher_of, is_closed_at, list_of, number_of, scope_of
from runner.core.state import WITHDRAWN, HandOff, State
from runner.engine.past import Past
from runner.errors import AlreadySo, NotPossible, SequenceConflict
from runner.language.bundle import Bundle
from runner.language.expressions import needed
from runner.language.nearest import did_you_mean
from runner.people.table import Answer, open_questions, sentence
from runner.people.told import asks_to_see
from runner.store.facts import AlreadyReported, Store
from runner.tongue import _


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
ALIKE = ("again", "retry", "skip", "go_on", "done", "stands")
"""Answers that can be given to alike questions of one run together."""
NEEDS_WORDS = ("skip", "done", "stands")
"""Answers that need a reason or a reference."""
_OF_ITEM = {"retry": e.ItemResumed, "skip": e.ItemAccepted}
"""What is reported of one item that was set aside."""
ORDERS = ("pause", "resume", "stop", "stop_compensate", "acknowledge", *CHOICES)


async def give(
    store: Store, bundle: Bundle, run: str, order: Order, now: Callable[[State], int], past: Past | None = None
) -> None:
    """Writes the report that an order becomes, if the run still stands as it was looked at; else looks again. `past` is
    what the engine knows of runs.

    So of orders at the same time one is done first, and the others are told of it. Raises NotPossible, AlreadySo.
    """
    while True:
        state, end = await (past or Past(store)).read(run)
        order = pinned(state, order)
        report = report_for(bundle, state, order, now(state))
        try:
            await store.report(run, report, end.seq)
        except (SequenceConflict, AlreadyReported):
            continue
        return


def pinned(state: State, order: Order) -> Order:
    """The order with the question that it answers as the run stands now: not one that may follow it is meant."""
    try:
        asked = _asked(state, order)
    except NotPossible:
        return order
    return order if asked is None else replace(order, handoff=asked.id)


def report_for(bundle: Bundle, state: State, order: Order, now: int) -> e.Event:
    """The report this order becomes in this state. Raises NotPossible with what can be done instead, or AlreadySo."""
    if order.action not in ORDERS:
        raise NotPossible(f'there is no action "{order.action}"; there are {", ".join(ORDERS)}')
    asked = _asked(state, order)
    if asked is not None:
        return _answer(bundle, state, order, asked, now)
    if order.action == "acknowledge" and asks_to_see(bundle, state):
        if state.seen_by:
            raise AlreadySo(_("{by} has seen how run {run} ended already", by=state.seen_by, run=state.run))
        return e.HandOffAcknowledged(at=now, handoff="", by=order.by)
    if order.step and bundle.find(order.step) is None:
        known = did_you_mean(order.step, bundle.steps, "there are")
        raise NotPossible(f'flow {state.flow} of run {state.run} has no step "{order.step}"; {known}')
    answer, said = sentence(state, order.action)
    if answer == "already":
        raise AlreadySo(said)
    if answer == "refused" or state.has_ended or order.action not in _REPORTS:
        raise NotPossible(said)
    return _REPORTS[order.action](order, now)


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreseen:
    """What would become of an order now: `choice` is what it would be recorded as, `says` why it would not be done."""

    answer: Answer
    choice: str = ""
    says: str = ""


def foreseen(bundle: Bundle, state: State, order: Order) -> Foreseen:
    """What would become of an order if it were given now; nothing is written."""
    if state.has_ended and sentence(state, order.action)[0] == "done":
        return Foreseen(answer="done", choice=order.action)
    try:
        report = report_for(bundle, state, order, state.at)
    except AlreadySo as so:
        return Foreseen(answer="already", says=str(so))
    except NotPossible as no:
        return Foreseen(answer="refused", says=str(no))
    return Foreseen(answer="done", choice=report.choice if isinstance(report, e.HandOffResolved) else order.action)


def each_question(state: State, order: Order, at_step: str = "") -> list[Order]:
    """The order once for each open question it answers (of one step, or of that step in items and called flows), and
    once for each item that was set aside because of that step.

    The order itself where there is none: what is said then is why not. Nothing where items were set aside, and none of
    them because of this step.
    """
    if order.action not in CHOICES or order.action == "compensate":
        return [order]
    asked = [h for h in open_questions(state) if _choice(h, order.action)]
    found = [replace(order, handoff=h.id) for h in asked if not at_step or _is_at(h.step, at_step)]
    aside = [h for h in asked if h.kind == "set_aside"] if order.action in _OF_ITEM else []
    for handoff in aside if at_step else ():
        items = state.lists[handoff.step].aside
        meant = [n for n, one in items.items() if _is_at(one.step, at_step) or _is_at(f"{handoff.step}/{n}", at_step)]
        alone = [replace(order, handoff=handoff.id, step=f"{handoff.step}/{number}") for number in meant]
        found += alone if len(meant) < len(items) else [replace(order, handoff=handoff.id)]
    return found or ([] if aside else [order])


def alike(state: State, handoff: HandOff, choice: str) -> list[HandOff]:
    """The other open questions that one answer fits as well: of the same kind and person, about the same step of other
    items, with the same choices. None for what is said of one call only, after looking, or of the run as a whole.
    """
    meant = [h for h in open_questions(state) if asks_like(h) == asks_like(handoff)] if choice in ALIKE else []
    return [h for h in meant if h.id != handoff.id and choice in h.choices]


def asks_like(handoff: HandOff) -> tuple[object, ...]:
    """What questions that are alike have in common."""
    pattern = "/".join(part for part in handoff.step.split("/") if not part.isdigit())
    return handoff.kind, pattern, handoff.purpose, handoff.owner, handoff.choices


def _is_at(path: str, step: str) -> bool:
    return f"/{path}".endswith(f"/{step}")


def possible(bundle: Bundle, state: State) -> tuple[str, ...]:
    """The orders that fit this state, most useful first."""
    found = dict.fromkeys(choice for handoff in open_questions(state) for choice in handoff.choices)
    orders = ("resume", "pause", "stop", "stop_compensate")
    return (*found, *(action for action in orders if sentence(state, action)[0] == "done"))


def _stop(order: Order, now: int, *, compensate: bool) -> e.Event:
    return e.StopRequested(at=now, by=order.by, compensate=compensate, reason=order.reason)


_REPORTS: Mapping[str, Callable[[Order, int], e.Event]] = {
    "pause": lambda order, now: e.RunPaused(at=now, by=order.by, reason=order.reason),
    "resume": lambda order, now: e.RunResumed(at=now, by=order.by),
    "stop": lambda order, now: _stop(order, now, compensate=False),
    "stop_compensate": lambda order, now: _stop(order, now, compensate=True),
    "compensate": lambda order, now: _stop(order, now, compensate=True),
}
"""What is reported of an order to the run as a whole. Every other order answers a question."""


# --- questions -----------------------------------------------------------------------------------------------------


def _asked(state: State, order: Order) -> HandOff | None:
    """The open question that the order answers; None where it is about the run as a whole.

    Raises AlreadySo or NotPossible where the question meant was answered before.
    """
    opened = open_questions(state)
    if order.action in ("pause", "resume", "stop", "stop_compensate") or not opened:
        _tell_answered(state, order)
        _tell_of_item(state, order)
        return None
    meant = [h for h in opened if _is_meant(h, order)]
    if not meant:
        _tell_answered(state, order)
        _tell_of_item(state, order)
        if order.handoff or order.step:
            places = ", ".join(_place(h) for h in opened)
            raise NotPossible(f'"{order.handoff or order.step}" is not an open question of run {state.run}: {places}')
        return None
    is_of_run = order.action == "compensate" and not (order.handoff or order.step)
    if is_of_run:
        meant = [h for h in meant if not catcher_of(state, h.step)]
    fitting = [h for h in meant if order.action in h.choices] or [h for h in meant if _choice(h, order.action)]
    if is_of_run and not fitting:
        return None
    if not fitting:
        words = ", ".join(meant[0].choices)
        raise NotPossible(
            f"{order.action} does not answer {_place(meant[0])} of run {state.run}; it can be answered by {words}"
        )
    if len(fitting) > 1 and not is_of_run:
        places = ", ".join(_place(h) for h in fitting)
        raise NotPossible(f"more than one question of run {state.run} fits: {places}; name one with --handoff")
    return fitting[-1]


def _is_meant(handoff: HandOff, order: Order) -> bool:
    return order.handoff in ("", handoff.id) and (order.step in ("", handoff.step) or _is_item_of(handoff, order))


def _is_item_of(handoff: HandOff, order: Order) -> bool:
    """One item is meant of those that were set aside."""
    return handoff.kind == "set_aside" and list_of(order.step) == handoff.step and order.action in _OF_ITEM


def _place(handoff: HandOff) -> str:
    about = _("step {step}", step=handoff.step) if handoff.step else _("about the run")
    return f"{handoff.id} ({about})"


def _choice(handoff: HandOff, action: str) -> str:
    """The choice that an action stands for, empty where there is none: a retry of a call in doubt asks again."""
    if action in ("acknowledge", *handoff.choices):
        return action
    return "again" if action == "retry" and "again" in handoff.choices else ""


def _tell_answered(state: State, order: Order) -> None:
    """Raises what was answered: to the question that is named, or just now in the same words."""
    answered = [h for h in state.handoffs.values() if h.choice and h.choice != WITHDRAWN and _is_meant(h, order)]
    if not answered or not (order.handoff or order.step or _is_so(answered[-1], order.action)):
        return
    last = answered[-1]
    words = {"by": last.by, "place": _place(last), "run": state.run, "choice": last.choice}
    if _is_so(last, order.action):
        raise AlreadySo(_("{by} has answered {place} of run {run} with {choice} already", **words))
    raise NotPossible(_(
        "{by} has answered {place} of run {run} with {choice}, so {action} comes too late; `amends runs show {run}` "
        "says what can be done now", **words, action=order.action,
    ))  # fmt: skip


def _is_so(handoff: HandOff, action: str) -> bool:
    return handoff.choice == (_choice(handoff, action) or action)


def _answer(bundle: Bundle, state: State, order: Order, handoff: HandOff, now: int) -> e.Event:
    if order.action == "acknowledge":
        if handoff.acknowledged_by:
            by = handoff.acknowledged_by
            raise AlreadySo(_("{by} looks at {handoff} of run {run} already", by=by, handoff=handoff.id, run=state.run))
        return e.HandOffAcknowledged(at=now, handoff=handoff.id, by=order.by)
    order = replace(order, action=_choice(handoff, order.action))
    if _is_item_of(handoff, order) and number_of(order.step) not in state.lists[handoff.step].aside:
        _tell_of_item(state, order)
    if order.action in NEEDS_WORDS and not (order.reason or order.reference):
        raise NotPossible(f"{order.action} needs a reason (--reason) or a reference (--reference)")
    if order.action == "happened" and handoff.purpose in ("do", "find"):
        used = fields_needed(bundle, state, handoff.step)
        missing = [name for name in used if name not in order.output]
        if missing:
            words = " ".join(f"{name}=…" for name in missing)
            raise NotPossible(_(
                "the flow uses {fields} of step {step} later: give {words}",
                fields=", ".join(missing), step=handoff.step, words=words,
            ))  # fmt: skip
    if _is_item_of(handoff, order):
        return _OF_ITEM[order.action](at=now, step=order.step, by=order.by, reason=order.reason or order.reference)
    return e.HandOffResolved(
        at=now, step=handoff.step, handoff=handoff.id, choice=order.action, by=order.by, reason=order.reason,
        reference=order.reference, output=order.output, external_id=order.external_id,
    )  # fmt: skip


def _tell_of_item(state: State, order: Order) -> None:
    """Raises why one item, which is meant, is not waiting for this answer."""
    path = list_of(order.step)
    listing = state.lists.get(path)
    if listing is None or order.action not in _OF_ITEM:
        return
    number, item = number_of(order.step), f"item {order.step} of run {state.run}"
    aside = ", ".join(f"{path}/{each} ({one.name})" for each, one in list(listing.aside.items())[:5])
    if number in listing.accepted and order.action == "skip":
        raise AlreadySo(f"{item} was left set aside already")
    if order.action == "retry" and (number in listing.open or number in dict(listing.again)):
        raise AlreadySo(f"{item} is under way already")
    if number in listing.aside:
        raise NotPossible(f"{item} was set aside, and the others are under way; it is asked about after them")
    why = f"the list has {listing.items.count}" if number > listing.items.count else "it is not set aside"
    raise NotPossible(f"there is nothing to {order.action} of {item}: {why}; set aside are {aside or 'none'}")


def fields_needed(bundle: Bundle, state: State, path: str) -> tuple[str, ...]:
    """The output fields of a step that are used after it: its own compensation's `output.x`, others' `steps.id.x`.

    Whoever says "it did happen" must give them. Once forward is closed only compensations still use anything; what a
    draft answers only its removal uses.
    """
    is_closed = is_closed_at(state, path)
    flow, step = bundle.flow_at(scope_of(path)), bundle.step(path)
    draft = bundle.actions[step.action].draft if state.mode == "draft" and step.action else None
    if draft is not None:
        undo = bundle.actions[f"{step.action.partition('.')[0]}.{draft.action}"].undo
        return tuple(name for name in dict.fromkeys(needed(undo, "output")) if name != "each")
    compensations = [other.compensate for other in flow.every_step()]
    texts = compensations if is_closed else [flow.steps, flow.outputs]
    found = (*needed(step.compensate, "output"), *needed(texts, "steps", step.id))
    return tuple(name for name in dict.fromkeys(found) if name != "each")
