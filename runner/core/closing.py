"""When forward is closed: settling what is open, making good what was done, newest start first, and the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.contract import Action, Json
from runner.core import events as e
from runner.core.calls import CallPlan, is_let_go, next_handoff, progress
from runner.core.changes import part_outputs
from runner.core.commands import Command, Record
from runner.core.forward import action_input, plan_of
from runner.core.names import names_in_reach
from runner.core.retry import policy
from runner.core.state import State, StepState, UndoState
from runner.errors import EvaluationError
from runner.language.bundle import Bundle
from runner.language.expressions import evaluate
from runner.language.flow import Compensation, Step

COMPENSATION_CHOICES = ("done", "stands", "take_over")
FAILED_CHOICES = ("retry", "done", "stands", "take_over")


def settle_open(bundle: Bundle, state: State, now: int, *, with_undo: bool) -> tuple[Command, ...]:
    """Commands that settle calls whose outcome is unknown, without starting any attempt.

    `with_undo`: compensations are settled too, because none will go on.
    """
    commands: list[Command] = []
    for path in _unsettled_paths(state, "do"):
        if not state.stops_here and is_let_go(state, path) and _rest_remains(state):
            continue
        plan = plan_of(bundle, state, bundle.steps[path], now, is_closed=True)
        commands.extend(progress(state, plan, now).commands)
    for path in _unsettled_paths(state, "undo") if with_undo else ():
        undoing = _Undoing(bundle=bundle, state=state, step=bundle.steps[path], now=now)
        commands.extend(_undo(undoing, is_closed=True))
    return tuple(commands)


def hand_failed_off(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    """Every compensation that gave up is put before a person."""
    asked = {handoff.step for handoff in state.open_handoffs if handoff.kind == "compensation_failed"}
    for path, undo in state.undo.items():
        if undo.status == "failed" and path not in asked:
            step = bundle.steps[path]
            return (_hand_off(state, step, "compensation_failed", undo.summary, FAILED_CHOICES, now),)
    return ()


def _unsettled_paths(state: State, purpose: str) -> list[str]:
    paths = dict.fromkeys(name[0] for name, call in state.calls.items() if name[1] == purpose and call.is_unsettled)
    return [path for path in paths if purpose == "do" or not _has_ended_for_good(state, path)]


def _has_ended_for_good(state: State, path: str) -> bool:
    """The compensation is done, or a person said what became of it."""
    undo = state.undo.get(path)
    return undo is not None and undo.status in ("done", "skipped")


def is_settling(state: State) -> bool:
    """An unknown outcome is being looked up or asked about."""
    return not state.is_taken_over and bool(_unsettled_paths(state, "do") or _unsettled_paths(state, "undo"))


def all_have_ended(state: State) -> bool:
    """Every applied effect has had its compensation, whatever came of it."""
    return all(_has_ended(state, path) for path in applied_paths(state))


def _is_unsettled(state: State, path: str) -> bool:
    return any(
        name[0] == path and name[1] == "do" and (call.is_unsettled or call.is_open)
        for name, call in state.calls.items()
    )


def _rest_remains(state: State) -> bool:
    """Something else is still to be made good."""
    return any(not (_is_unsettled(state, path) or _has_ended(state, path)) for path in applied_paths(state))


def _has_ended(state: State, path: str) -> bool:
    undo = state.undo.get(path)
    return undo is not None and undo.status != "open"


def applied_paths(state: State) -> list[str]:
    """The steps whose calls were applied or may have been, newest start first."""
    newest: dict[str, int] = {}
    for (path, purpose, _), call in state.calls.items():
        if purpose == "do" and (call.is_applied or call.is_unsettled):
            newest[path] = max(newest.get(path, 0), call.start_no)
    return sorted(newest, key=lambda path: -newest[path])


def compensate(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    """The next thing to do about the applied effects; nothing when all were begun and none can move now.

    Starts are ordered, newest first: what is under way, in doubt, held itself, or has failed under
    `if_one_fails: stop` holds what is older, unless that was begun already or stands in another branch of a parallel
    that compensates at once. A question to a person holds nothing.
    """
    holders: list[str] = []
    sends: list[Command] = []
    lanes = bundle.flow.lanes()
    for path in applied_paths(state):
        if _is_unsettled(state, path):
            holders += [] if is_let_go(state, path) else [path]
            continue
        undo = state.undo.get(path, UndoState())
        if undo.status == "failed" or _cannot_be_built(state, path):
            holders += [path] if bundle.flow.on_failure.if_one_fails == "stop" else []
        is_open = undo.status == "open" or (undo.status == "handed_off" and _is_in_doubt(state, path))
        if not is_open:
            continue
        if not _has_begun(state, path) and any(not _are_beside(lanes, path, holder) for holder in holders):
            holders.append(path)
            continue
        commands = _undo_step(bundle, state, path, now)
        if any(isinstance(command, Record) for command in commands):
            return commands
        sends += commands
        if commands or _is_moving(state, path):
            holders.append(path)
    return tuple(sends)


def _are_beside(lanes: Mapping[str, Mapping[str, int]], path: str, other: str) -> bool:
    """They stand in different branches of a parallel whose branches are made good at once."""
    mine, theirs = lanes.get(path, {}), lanes.get(other, {})
    return any(theirs.get(parallel, branch) != branch for parallel, branch in mine.items())


def _cannot_be_built(state: State, path: str) -> bool:
    """A person is asked because the compensation's request has no answer: it gave up before it was sent."""
    return any(handoff.step == path and handoff.kind == "request" for handoff in state.open_handoffs)


def _has_begun(state: State, path: str) -> bool:
    return any(name[:2] == (path, "undo") for name in state.calls)


def _undo_step(bundle: Bundle, state: State, path: str, now: int) -> tuple[Command, ...]:
    step = bundle.steps[path]
    try:
        return _undo(_Undoing(bundle=bundle, state=state, step=step, now=now))
    except EvaluationError as error:
        return (_hand_off(state, step, "request", str(error), FAILED_CHOICES, now),)


def _is_in_doubt(state: State, path: str) -> bool:
    """A person is asked about one part of the compensation; its other parts go on."""
    return any(h.step == path and h.purpose == "undo" for h in state.open_handoffs)


def _is_moving(state: State, path: str) -> bool:
    """A call of the compensation is out, or waits for its time."""
    calls = [call for name, call in state.calls.items() if name[0] == path and name[1] in ("undo", "undo_lookup")]
    return any(call.is_open or call.due is not None for call in calls)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Undoing:
    """One step being made good."""

    bundle: Bundle
    state: State
    step: Step
    now: int

    @property
    def path(self) -> str:
        return self.step.id

    def names(self) -> dict[str, Json]:
        known = self.state.steps.get(self.path, StepState())
        output = known.output or part_outputs(self.state, self.path, "do")
        names = names_in_reach(self.state, output=output, failure=self.state.root.failure)
        return {**names, "input": known.input} if self.step.compensate and not self.step.compensate.action else names


def _hand_off(
    state: State, step: Step, kind: str, summary: str, choices: tuple[str, ...], now: int, owner: str = "",
    say: str = "", show: Mapping[str, Json] | None = None,
) -> Command:  # fmt: skip
    return Record(
        event=e.HandedOff(
            at=now, step=step.id, handoff=next_handoff(state), kind=kind, owner=owner or step.owner or state.owner,
            choices=choices, summary=summary, say=say, show=show or {},
        )
    )  # fmt: skip


def _undo(undoing: _Undoing, *, is_closed: bool = False) -> tuple[Command, ...]:
    state, step, now = undoing.state, undoing.step, undoing.now
    words = step.compensate or Compensation(word="hand_off", say="This step says nothing of how it is made good.")
    if words.word == "none":
        return (Record(event=e.CompensationSkipped(at=now, step=step.id, reason=words.reason)),)
    if words.word == "hand_off":
        return (_handed_by_flow(undoing, words),)
    if words.word == "cancel" and _is_adopted(state, step.id):
        summary = "It was found after our attempt and may not be ours, so it is not cancelled by itself."
        return (_hand_off(state, step, "compensation", summary, COMPENSATION_CHOICES, now),)
    plan = _undo_plan(undoing, words, is_closed=is_closed)
    done = progress(state, plan, now)
    if done.is_moving or not done.ended:
        return done.commands
    worst = next(iter(done.ended.values()))
    summary = worst.summary or "It gave up."
    return (Record(event=e.CompensationFailed(at=now, step=step.id, kind=worst.kind, summary=summary)),)


def _is_adopted(state: State, path: str) -> bool:
    return any(name[0] == path and name[1] == "do" and call.adopted for name, call in state.calls.items())


def _handed_by_flow(undoing: _Undoing, words: Compensation) -> Command:
    state, step, now = undoing.state, undoing.step, undoing.now
    names, zone = undoing.names(), undoing.bundle.zone
    return _hand_off(
        state, step, "compensation", "The flow says a person makes this good.", COMPENSATION_CHOICES, now,
        owner=words.target, say=str(evaluate(words.say, names, now=now, zone=zone)) if words.say else "",
        show=evaluate(dict(words.show), names, now=now, zone=zone),
    )  # fmt: skip


def _undo_plan(undoing: _Undoing, words: Compensation, *, is_closed: bool) -> CallPlan:
    bundle, state, step, now = undoing.bundle, undoing.state, undoing.step, undoing.now
    names = undoing.names()
    name, written = _undo_action(bundle, step, words, names)
    action = bundle.actions[name]
    known = state.undo.get(step.id)
    if known is not None and known.input:
        whole = known.input
    else:
        whole = action_input(bundle, action, written, names, now)
    return CallPlan(
        path=step.id, purpose="undo", action_name=name, action=action, input=whole,
        retry=policy(action, words.retry, "undo"), limit=words.timeout or action.timeout,
        owner=step.owner or state.owner, asks_by="undo_lookup" if action.has_lookup else None, word=words.word,
        is_closed=is_closed,
    )  # fmt: skip


def _undo_action(
    bundle: Bundle, step: Step, words: Compensation, names: dict[str, Json]
) -> tuple[str, Mapping[str, Json]]:
    if words.action:
        return words.action, words.with_
    if words.word == "quarantine":
        return "quarantine.add", _set_aside(names, words)
    undo: Action = bundle.actions[step.action]
    assert undo.undo is not None
    return f"{step.action.partition('.')[0]}.{undo.undo.action}", undo.undo.with_


def _set_aside(names: Mapping[str, Json], words: Compensation) -> Mapping[str, Json]:
    """What a bare `quarantine: customer` puts on our own list; `with` may say it better."""
    output: Json = names["output"]
    name = f"{words.target}/{output['id']}" if "id" in output else words.target
    return {"record": name, "reason": names["failure"]["summary"], "content": output, **words.with_}


def finish(state: State, now: int) -> tuple[Command, ...]:
    """The end, when no question is open and nothing moves; else nothing."""
    if state.open_handoffs:
        return ()
    stands = tuple(
        dict.fromkeys(
            effect.path for _, effect in sorted(state.effects.items()) if effect.disposition in ("pending", "stands")
        )
    )
    status = _end_status(state)
    summary = state.root.failure.summary if state.root.failure else ""
    if state.is_taken_over:
        stands = ()
    return (Record(event=e.RunFinished(at=now, status=status, summary=summary, stands=stands)),)


def _end_status(state: State) -> str:
    if state.is_taken_over:
        return "closed"
    if state.stops_here:
        return "closed" if state.root.cause == "person" and state.stop is None else "stopped"
    if any(effect.disposition in ("by_hand", "stands") for effect in state.effects.values()):
        return "closed"
    return "compensated" if state.effects else "failed"
