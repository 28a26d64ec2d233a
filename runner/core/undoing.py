"""Making one step good: what its compensation asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as replace_plan

from runner.clock import iso
from runner.contract import Json
from runner.core import events as e
from runner.core.calls import CallPlan, next_handoff, progress
from runner.core.changes import part_outputs
from runner.core.commands import Command, Record
from runner.core.consents import UNDO
from runner.core.drafts import draft_input, drafting
from runner.core.gates import ask_undo, is_begun, lapse, why_not
from runner.core.names import names_in_reach
from runner.core.paths import failure_at
from runner.core.place import Place, action_input
from runner.core.retry import policy
from runner.core.state import State, StepState
from runner.errors import EvaluationError
from runner.language.flow import Compensation

COMPENSATION_CHOICES = ("done", "stands", "take_over")
FAILED_CHOICES = ("retry", "done", "stands", "take_over")


def undo_step(place: Place) -> tuple[Command, ...]:
    """What is due of a step's compensation. What cannot be worked out is a person's matter."""
    try:
        return undo(place)
    except EvaluationError as error:
        return (hand_over(place, "request", str(error), FAILED_CHOICES),)


def _words(place: Place) -> Compensation:
    """All that a draft run leaves are drafts, and how one is removed its connector says."""
    if place.state.mode == "draft":
        return Compensation(word="cancel")
    return place.step.compensate or Compensation(word="hand_off", say="This step says nothing of how it is made good.")


def _undo_names(place: Place) -> dict[str, Json]:
    state, path = place.state, place.path
    known = place.known or StepState()
    if state.mode == "draft":
        names = names_in_reach(state, place.scope, output=part_outputs(state, path, "do"))
        return {**names, "input": draft_input(place, known.input)}
    output = known.output or part_outputs(state, path, "do")
    names = names_in_reach(state, place.scope, output=output, failure=failure_at(state, path))
    words = place.step.compensate
    return {**names, "input": known.input} if words is not None and not words.action else names


def hand_over(
    place: Place, kind: str, summary: str, choices: tuple[str, ...], owner: str = "", say: str = "",
    show: Mapping[str, Json] | None = None,
) -> Command:  # fmt: skip
    return Record(
        event=e.HandedOff(
            at=place.now, step=place.path, handoff=next_handoff(place.state), kind=kind, owner=owner or place.owner,
            choices=choices, summary=summary, say=say, show=show or {},
        )
    )  # fmt: skip


def undo(place: Place, *, is_closed: bool = False) -> tuple[Command, ...]:
    state, now, path = place.state, place.now, place.path
    words = _words(place)
    if words.word == "none":
        return (Record(event=e.CompensationSkipped(at=now, step=path, reason=words.reason)),)
    if words.word == "hand_off":
        return (_handed_by_flow(place, words),)
    if words.word == "cancel" and _is_adopted(state, path):
        summary = "It was found after our attempt and may not be ours, so it is not cancelled by itself."
        return (hand_over(place, "compensation", summary, COMPENSATION_CHOICES),)
    plan = _undo_plan(place, words, is_closed=is_closed)
    if words.approve_by and not is_begun(state, path, "undo") and not is_closed:
        asking, plan = _approved(place, plan, words.approve_by)
        if asking is not None:
            return asking
    done = progress(state, plan, now)
    if done.is_moving or not done.ended:
        return done.commands
    worst = next(iter(done.ended.values()))
    summary = worst.summary or "It gave up."
    return (Record(event=e.CompensationFailed(at=now, step=path, kind=worst.kind, summary=summary)),)


def _approved(place: Place, plan: CallPlan, by: tuple[str, ...]) -> tuple[tuple[Command, ...] | None, CallPlan]:
    """What the approval of a compensation asks for first, else the plan with what was approved. Silence or a no: the
    effect stands.
    """
    name = place.path + UNDO
    gate = place.state.gates.get(name)
    if gate is None or gate.status == "lapsed":
        return (ask_undo(place, gate, plan.action_name, plan.input, by),), plan
    if gate.status == "open":
        return (), plan
    if gate.status != "yes":
        skipped = e.CompensationSkipped(at=place.now, step=place.path, reason=why_not(gate), by=gate.no_by or "nobody")
        return (Record(event=skipped),), plan
    has_begun = (place.path, "undo", 0) in place.state.calls
    if place.now >= gate.until and not has_begun:
        return (lapse(place, name, gate, f"it was good until {iso(gate.until)}"),), plan
    covered = gate.covers[place.path]
    known = place.state.undo.get(place.path)
    whole = plan.input if known is not None and known.input else covered.input
    return None, replace_plan(plan, input=whole, gates=((name, covered.hashes),))


def _is_adopted(state: State, path: str) -> bool:
    return any(name[0] == path and name[1] == "do" and call.adopted for name, call in state.calls.items())


def _handed_by_flow(place: Place, words: Compensation) -> Command:
    names = _undo_names(place)
    return hand_over(
        place, "compensation", "The flow says a person makes this good.", COMPENSATION_CHOICES, words.target,
        say=str(place.value(words.say, names)) if words.say else "", show=place.value(dict(words.show), names),
    )  # fmt: skip


def _undo_plan(place: Place, words: Compensation, *, is_closed: bool) -> CallPlan:
    names = _undo_names(place)
    name, written = _undo_action(place, words, names)
    action = place.bundle.actions[name]
    known = place.state.undo.get(place.path)
    whole = known.input if known is not None and known.input else action_input(place, action, written, names)
    return CallPlan(
        path=place.path, purpose="undo", action_name=name, action=action, input=whole,
        retry=policy(action, words.retry, "undo"), limit=words.timeout or action.timeout,
        owner=place.owner, asks_by="undo_lookup" if action.has_lookup else None, word=words.word,
        is_closed=is_closed,
    )  # fmt: skip


def _undo_action(place: Place, words: Compensation, names: dict[str, Json]) -> tuple[str, Mapping[str, Json]]:
    if words.action:
        return words.action, words.with_
    if words.word == "quarantine":
        return "quarantine.add", _set_aside(names, words)
    done = drafting(place) if place.state.mode == "draft" else None
    name, action = done or (place.step.action, place.bundle.actions[place.step.action])
    assert action.undo is not None
    return f"{name.partition('.')[0]}.{action.undo.action}", action.undo.with_


def _set_aside(names: Mapping[str, Json], words: Compensation) -> Mapping[str, Json]:
    """What a bare `quarantine: customer` puts on our own list; `with` may say it better."""
    output: Json = names["output"]
    name = f"{words.target}/{output['id']}" if "id" in output else words.target
    return {"record": name, "reason": names["failure"]["summary"], "content": output, **words.with_}
