"""`decide(bundle, state, now)`: what happens next. Pure: the same log and the same time give the same commands.

It answers with facts to record, or, when there is none to record, with calls to send. Facts are folded before it is
asked again (`settle`), so that it never has to foresee its own consequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.core import events as e
from runner.core.agents import belongs_to_agent
from runner.core.calls import did_it_happen, fire_due, next_handoff
from runner.core.closing import all_have_ended, close, end_begun, is_settling, partly_known, settle_open
from runner.core.commands import Ask, Command, Recall, Record, Send
from runner.core.drafts import write_down
from runner.core.ending import finish, standing
from runner.core.fold import fold
from runner.core.forward import plan_of
from runner.core.gates import ends_here, tick
from runner.core.names import names_in_reach
from runner.core.paths import catcher_of
from runner.core.place import Place, pass_over
from runner.core.scopes import leave, walk
from runner.core.state import Failure, HandOff, State
from runner.core.undoing import FAILED_CHOICES
from runner.errors import EvaluationError
from runner.language.bundle import Bundle
from runner.language.expressions import evaluate
from runner.quick import quick

OUTPUT_CHOICES = ("go_on", "compensate", "take_over")
FAILURE_CHOICES = ("retry", "skip", "compensate", "take_over")
CLOSING_CHOICES = frozenset({"compensate", "close", "take_over"})
MOST_FACTS = 500
"""Facts that one turn records before they are committed and the rest is decided."""


See = Callable[[State], None]


def decide(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    """The commands that are due now; empty when the run waits, is paused or has ended."""
    if state.has_ended or not state.run or state.is_paused:
        return ()
    questions = state.open_handoffs
    if state.record and state.mode != "draft" and not state.holds_record and questions:
        return (Record(event=e.RecordHeld(at=now, record=state.record, handoff=questions[-1].id)),)
    if state.holds_record and not questions:
        return (Record(event=e.RecordReleased(at=now, record=state.record)),)
    if state.is_erased and not state.is_taken_over:
        return _hand_over(state, now)
    if state.gates and (due := tick(bundle, state, now)):
        return due
    return _closing(bundle, state, now) if state.root.closed else _forward(bundle, state, now)


def _hand_over(state: State, now: int) -> tuple[Command, ...]:
    """A run whose personal data was erased sends nothing any more, and undoes nothing by itself."""
    if state.open_handoffs or any(call.is_open for call in state.calls.values()):
        return ()
    handed = e.HandedOff(
        at=now, handoff=next_handoff(state), kind="erased", owner=state.owner, choices=("take_over",),
        summary="Personal data of this run was erased, so it cannot go on by itself.",
    )  # fmt: skip
    return (Record(event=handed),)


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """Where deciding came to: the state then, the facts in order, the calls to send, and what is to be read back first.
    `has_more`: this is enough for one transaction, and deciding goes on after it.
    """

    state: State
    facts: tuple[e.Event, ...]
    sends: tuple[Send, ...] = ()
    recall: Recall | None = None
    asks: tuple[Ask, ...] = ()
    has_more: bool = False


def settle(bundle: Bundle, state: State, now: int, see: See = lambda state: None) -> Settled:
    """Decides until nothing is left to record. `see` is shown the state after every fact."""
    recorded: list[e.Event] = []
    last: list[e.Event] = []
    while len(recorded) < MOST_FACTS:
        commands = decide(bundle, state, now)
        facts = [command.event for command in commands if isinstance(command, Record)]
        if not facts:
            return _at_rest(state, tuple(recorded), commands)
        if facts == last:
            raise AssertionError(f"run {state.run} does not come to rest")
        for fact in facts:
            state = fold(state, fact)
            see(state)
        recorded.extend(facts)
        last = facts
    return Settled(state=state, facts=tuple(recorded), has_more=True)


def _at_rest(state: State, recorded: tuple[e.Event, ...], commands: tuple[Command, ...]) -> Settled:
    if not commands:
        return Settled(state=state, facts=recorded)
    recall = next((command for command in commands if isinstance(command, Recall)), None)
    if recall is not None:
        return Settled(state=state, facts=recorded, recall=recall)
    sends = tuple([command for command in commands if isinstance(command, Send)])
    if len(sends) == len(commands):
        return Settled(state=state, facts=recorded, sends=sends)
    asks = {command.request.approval: command for command in commands if isinstance(command, Ask)}
    return Settled(state=state, facts=recorded, sends=sends, asks=tuple(asks.values()))


# --- forward -------------------------------------------------------------------------------------------------------


def _forward(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    closed = _why_closed(bundle, state, now)
    if closed is not None:
        return (Record(event=closed),)
    if state.failure is not None:
        return _review(bundle, state, state.failure, now)
    commands = walk(bundle, state, bundle.flow.steps, "", now)
    if commands is None:
        commands = leave(bundle, state, "", now)
    return _succeed(bundle, state, now) if commands is None else commands


def _why_closed(bundle: Bundle, state: State, now: int) -> e.ForwardClosed | None:
    if state.stop is not None:
        return _closed(state, state.stop, "stop", compensate=state.stop_compensates, now=now)
    answer = _closing_answer(state) if state.handoffs else None
    if answer is not None:
        why = state.failure.summary if state.failure else f"{answer.by} chose {answer.choice}"
        summary = answer.reason or why
        kind = state.failure.kind if state.failure else answer.kind
        step = state.failure.step if state.failure else answer.step
        failure = Failure(kind=kind, step=step, summary=summary, at=now, by=answer.by)
        return _closed(state, failure, "person", compensate=answer.choice == "compensate", now=now)
    if state.failure is not None and ends_here(bundle, state.failure):
        return _closed(state, state.failure, "no", compensate=False, now=now)
    is_reviewed = bundle.flow.on_failure.do == "review"
    if state.failure is not None and not is_reviewed and not belongs_to_agent(bundle, state.failure.step):
        return _closed(state, state.failure, "failure", compensate=True, now=now)
    return None


def _closing_answer(state: State) -> HandOff | None:
    """The answer that ends the run. "Compensate", about an item that may fail alone, ends that item only."""
    return next(
        (
            h
            for h in state.handoffs.values()
            if h.choice in CLOSING_CHOICES and not (h.choice == "compensate" and catcher_of(state, h.step))
        ),
        None,
    )


def _closed(state: State, failure: Failure, cause: str, *, compensate: bool, now: int) -> e.ForwardClosed:
    return e.ForwardClosed(
        at=now, cause=cause, compensate=compensate, kind=failure.kind, summary=failure.summary, by=failure.by,
        failed_step=failure.step,
    )  # fmt: skip


def _review(bundle: Bundle, state: State, failure: Failure, now: int) -> tuple[Command, ...]:
    """A person chooses what follows a failure. Meanwhile nothing starts; what is in doubt elsewhere is settled."""
    asked = [h for h in state.handoffs.values() if h.kind == "failure" and h.step == failure.step]
    step = bundle.step(failure.step) if failure.step else None
    if asked and asked[-1].choice == "skip":
        skip = asked[-1]
        skipped = e.StepSkipped(
            at=now, step=failure.step, why="person", by=skip.by, reason=skip.reason, reference=skip.reference
        )
        assert step is not None
        place = Place(bundle=bundle, state=state, step=step, path=failure.step, now=now)
        return (Record(event=skipped), *pass_over(place, step.branches))
    commands = fire_due(state, now) or settle_open(bundle, state, "", now, with_undo=False)
    is_asked = bool(asked) and not asked[-1].choice
    if commands or is_asked or any(call.is_open for call in state.calls.values()) or _waits_for(state, failure.step):
        return commands
    choices = FAILURE_CHOICES if step else ("compensate", "take_over")
    handed = e.HandedOff(
        at=now, step=failure.step, handoff=next_handoff(state), kind="failure",
        owner=(step.owner if step else "") or state.owner, choices=choices, summary=failure.summary,
    )  # fmt: skip
    return (Record(event=handed),)


def _waits_for(state: State, failed: str) -> bool:
    """Something is in doubt that is being looked up, or that is the failed step's own: first that is settled."""
    doubts = {(name[0], name[2]) for name, call in state.calls.items() if name[1] == "do" and call.is_unsettled}
    asked = {(h.step, h.part) for h in state.open_handoffs if h.asks_what_became}
    return not doubts <= asked or any(path == failed for path, _ in doubts)


def _ask_about_outputs(state: State, summary: str, now: int) -> Command:
    """Everything was done, only what the run reports of it has no answer: nothing is undone for that by itself."""
    return Record(
        event=e.HandedOff(
            at=now, step="", handoff=next_handoff(state), kind="outputs", owner=state.owner, choices=OUTPUT_CHOICES,
            summary=summary,
        )
    )  # fmt: skip


def _succeed(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    try:
        outputs = evaluate(
            dict(bundle.flow.outputs), names_in_reach(state), now=now, zone=bundle.zone, calendar=bundle.calendar
        )
    except EvaluationError as error:
        if state.mode != "draft" and not any(h.kind == "outputs" for h in state.handoffs.values()):
            return (_ask_about_outputs(state, f"outputs: {error}", now),)
        if state.open_handoffs:
            return ()
        outputs = {}
    if state.mode == "draft":
        return (Record(event=e.RunFinished(at=now, status="drafted", outputs=outputs, stands=standing(state))),)
    status = "closed" if state.accepted else "succeeded"
    return (Record(event=e.RunFinished(at=now, status=status, outputs=outputs)),)


# --- closed --------------------------------------------------------------------------------------------------------


def _closing(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    if not state.stops_here:
        commands = close(bundle, state, "", now)
        if commands or not state.root.has_begun or _is_open(state) or not all_have_ended(state, ""):
            return commands
        return finish(bundle, state, now)
    if state.is_taken_over:
        return () if _is_open(state) else finish(bundle, state, now)
    if forgotten := partly_known(state):
        return (Recall(items=forgotten),)
    settling = settle_open(bundle, state, "", now, with_undo=True)
    facts = tuple(command for command in settling if isinstance(command, Record))
    if facts:
        return facts[:1]
    if settling or is_settling(state) or _is_open(state):
        return settling
    return end_begun(state, now) or finish(bundle, state, now)


def _is_open(state: State) -> bool:
    return any(call.is_open for call in state.calls.values())


def fail_request(bundle: Bundle, state: State, send: Send, summary: str, now: int) -> e.Event | None:
    """The fact that a call's request could not be built: nothing was sent.

    Where it was to ask what became of another call, a person is asked instead. None: other parts of a draft are out, so
    it waits for them.
    """
    owner = bundle.step(send.step).owner or state.owner
    purpose = "undo" if send.purpose == "undo_lookup" else "do"
    about = state.calls.get((send.step, purpose, send.part))
    if send.purpose in ("lookup", "find", "undo_lookup") and about is not None:
        why = f"It could not be looked up: {summary}"
        return did_it_happen(
            state, send.step, purpose, send.part, kind="unknown", owner=owner, summary=why, now=now
        )  # fmt: skip
    if send.purpose == "undo":
        return e.HandedOff(
            at=now, step=send.step, handoff=next_handoff(state), kind="request", owner=owner, choices=FAILED_CHOICES,
            summary=summary, purpose="undo", part=send.part,
        )  # fmt: skip
    if state.mode == "draft" and send.purpose == "do":
        others = (call for name, call in state.calls.items() if name[0] == send.step and name[2] != send.part)
        if any(call.is_open or call.is_unsettled or call.due is not None for call in others):
            return None
        place = Place(bundle=bundle, state=state, step=bundle.step(send.step), path=send.step, now=now)
        return write_down(place, plan_of(place).sent, summary)
    return e.StepFailed(at=now, step=send.step, kind="request", summary=summary)
