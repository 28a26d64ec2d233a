"""The end of a run: its status, what stands, and the flow that is started after it."""

from __future__ import annotations

from runner.contract import Json
from runner.core import events as e
from runner.core.calls import next_handoff
from runner.core.commands import Command, Record
from runner.core.names import names_in_reach
from runner.core.paths import is_in
from runner.core.state import State
from runner.errors import EvaluationError, InputsInvalid
from runner.language.bundle import Bundle
from runner.language.expressions import evaluate
from runner.language.schemas import read_inputs

NEXT_CHOICES = ("go_on", "take_over")


def finish(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    """The end, when no question is open and nothing moves; else nothing."""
    if state.open_handoffs:
        return ()
    status = _end_status(state)
    failure = state.root.failure
    then: dict[str, Json] = {}
    on_failure = bundle.flow.on_failure
    if on_failure.then_run and state.mode != "draft" and not state.stops_here:
        try:
            then = _inputs_of_next(bundle, state, now)
        except EvaluationError as error:
            if not any(handoff.kind == "then_run" for handoff in state.handoffs.values()):
                return (_ask_what_follows(state, f"{on_failure.then_run} cannot be started: {error}", now),)
    return (
        Record(
            event=e.RunFinished(
                at=now, status=status, summary=failure.summary if failure else "",
                stands=() if state.is_taken_over else standing(state), **then,
            )
        ),
    )  # fmt: skip


def standing(state: State) -> tuple[str, ...]:
    """What stands, in start order: of a draft run the drafts that it leaves. For the ended items of a list the list,
    whether or not they were read back."""
    back = [path for path, scope in state.scopes.items() if scope.is_recalled]
    standing = [
        path
        for path, listing in state.lists.items()
        if any(listing.left.get(word, 0) for word in ("stands", "kept", "pending"))
    ]
    for _, effect in sorted(state.effects.items()):
        if effect.disposition in ("pending", "stands"):
            standing.append(effect.path)
    standing = [path for path in standing if not any(is_in(path, item) for item in back)]
    return tuple(dict.fromkeys(standing))


def _inputs_of_next(bundle: Bundle, state: State, now: int) -> dict[str, Json]:
    names = names_in_reach(state, failure=state.root.failure)
    given = evaluate(dict(bundle.flow.on_failure.then_with), names, now=now, zone=bundle.zone, calendar=bundle.calendar)
    assert bundle.follow is not None
    try:
        read_inputs(bundle.follow.inputs, given, zone=bundle.zone, schema=bundle.follow.schema)
    except InputsInvalid as wrong:
        raise EvaluationError(str(wrong)) from wrong
    return {"then": bundle.flow.on_failure.then_run, "then_inputs": given}


def _ask_what_follows(state: State, summary: str, now: int) -> Command:
    handed = e.HandedOff(
        at=now, step="", handoff=next_handoff(state), kind="then_run", owner=state.owner,
        choices=NEXT_CHOICES, summary=summary,
    )  # fmt: skip
    return Record(event=handed)


def _end_status(state: State) -> str:
    if state.is_taken_over:
        return "closed"
    if state.stops_here:
        return "closed" if state.root.cause == "person" and state.stop is None else "stopped"
    if state.left("by_hand", "stands", "kept") or any(
        effect.disposition in ("by_hand", "stands") for effect in state.effects.values()
    ):
        return "closed"
    is_empty = not state.effects and not any(listing.left for listing in state.lists.values())
    return "failed" if is_empty else "compensated"
