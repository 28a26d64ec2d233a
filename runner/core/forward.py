"""Going forward: which step is next, and what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from runner.contract import Action, Json, Purpose
from runner.core import events as e
from runner.core.calls import SEVERAL_CHOICES, CallPlan, first_send, next_handoff, progress
from runner.core.commands import Command, Record, Send
from runner.core.names import names_in_reach
from runner.core.retry import READS, policy
from runner.core.state import State, StepState, replace
from runner.errors import EvaluationError
from runner.language.bundle import Bundle
from runner.language.calendar import Calendar, after
from runner.language.dates import read
from runner.language.expressions import condition, evaluate
from runner.language.flow import Branch, Step
from runner.language.templates import render_mail
from runner.language.types import sample

STEP_CHOICES = ("go_on", "compensate", "close")


def walk(bundle: Bundle, state: State, steps: tuple[Step, ...], now: int) -> tuple[Command, ...] | None:
    """What the first step that has not ended asks for; None when all have ended."""
    for step in steps:
        known = state.steps.get(step.id)
        if known is not None and known.status != "open":
            continue
        try:
            return _VERBS[step.verb](bundle, state, step, known, now)
        except EvaluationError as error:
            return (_failed(step, "evaluation", str(error), now),)
    return None


def _failed(step: Step, kind: str, summary: str, now: int, *, goes_on: bool = False) -> Command:
    return Record(event=e.StepFailed(at=now, step=step.id, kind=kind, summary=summary, goes_on=goes_on))


def _is_skipped(bundle: Bundle, state: State, step: Step, now: int) -> bool:
    return step.when is not None and not condition(step.when, names_in_reach(state), now=now, zone=bundle.zone)


def _skip(step: Step, now: int) -> tuple[Command, ...]:
    return (Record(event=e.StepSkipped(at=now, step=step.id, why="when")), *pass_over(step.branches, now))


def pass_over(branches: Iterable[Branch], now: int) -> Iterator[Command]:
    """The steps of branches that are not taken have an outcome too: skipped."""
    for branch in branches:
        for step in branch.steps:
            yield Record(event=e.StepSkipped(at=now, step=step.id, why="branch"))
            yield from pass_over(step.branches, now)


# --- read and do ---------------------------------------------------------------------------------------------------


def _call(bundle: Bundle, state: State, step: Step, known: StepState | None, now: int) -> tuple[Command, ...]:
    if known is None and _is_skipped(bundle, state, step, now):
        return _skip(step, now)
    action = bundle.actions[step.action]
    if step.verb == "do" and state.mode == "draft":
        return (_draft(bundle, state, step, action, now),)
    plan = plan_of(bundle, state, step, now)
    if step.find is not None and (step.id, "do", 0) not in state.calls:
        looking = _find_first(bundle, state, step, plan, now)
        if looking is not None:
            return looking
    done = progress(state, plan, now)
    if done.is_moving or not done.ended:
        return done.commands
    worst = next((move for move in done.ended.values() if move.kind != "refused"), next(iter(done.ended.values())))
    goes_on = step.if_refused == "continue" and all(move.kind == "refused" for move in done.ended.values())
    summary = worst.summary or "It was refused."
    if plan.parts > 1:
        summary = f"{len(done.ended)} of {plan.parts} were refused: {summary}"
    return (_failed(step, worst.kind, summary, now, goes_on=goes_on),)


def plan_of(bundle: Bundle, state: State, step: Step, now: int, *, is_closed: bool = False) -> CallPlan:
    """The step's forward call. Its input is the one of its first intent, or evaluated now."""
    action = bundle.actions[step.action]
    purpose: Purpose = "do" if step.verb == "do" else "read"
    known = state.steps.get(step.id)
    first = state.calls.get((step.id, purpose, 0))
    names = names_in_reach(state)
    if first is not None and known is not None and known.input:
        whole = known.input
    else:
        whole = action_input(bundle, action, step.with_, names, now)
    records, lock = _records(bundle, state, step, names, now) if purpose == "do" else ((), ())
    return CallPlan(
        path=step.id, purpose=purpose, action_name=step.action, action=action, input=whole,
        retry=policy(action, step.retry, purpose), limit=step.timeout or action.timeout,
        owner=step.owner or state.owner, asks_by=_asks_by(action, step),
        find=_find_input(bundle, step, known, names, now), author_key=_author_key(bundle, step, names, now),
        records=records, lock=lock, is_closed=is_closed,
    )  # fmt: skip


def _records(
    bundle: Bundle, state: State, step: Step, names: Mapping[str, Json], now: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The records that must be free for this step, and those of them that it locks. The run's own is always among
    them: another run that is broken may hold it."""
    own = (state.record,) if state.record else ()
    wanted = own if bundle.flow.one_at_a_time else ()
    first = state.calls.get((step.id, "do", 0))
    if step.lock is not None and (first is None or first.renew):
        wanted = (*wanted, _locked(bundle, step, names, now))
    lock = tuple(dict.fromkeys(record for record in wanted if record not in state.locks))
    return tuple(dict.fromkeys((*own, *lock))), lock


def _locked(bundle: Bundle, step: Step, names: Mapping[str, Json], now: int) -> str:
    assert step.lock is not None
    value = evaluate(step.lock.id, names, now=now, zone=bundle.zone)
    if value is None or isinstance(value, bool | list | dict) or str(value).strip() == "":
        raise EvaluationError(f"lock of step {step.id}: the id of the {step.lock.record} is empty")
    return f"{step.lock.record}/{value}"


def _author_key(bundle: Bundle, step: Step, names: Mapping[str, Json], now: int) -> str:
    if step.key is None:
        return ""
    key = evaluate(step.key, names, now=now, zone=bundle.zone)
    if isinstance(key, bool) or not isinstance(key, str | int) or str(key).strip() == "":
        raise EvaluationError(f"the key of step {step.id} is empty")
    return str(key)


def _asks_by(action: Action, step: Step) -> Purpose | None:
    if action.effect == "read":
        return None
    if action.has_lookup:
        return "lookup"
    return "find" if step.find is not None else None


def _find_input(
    bundle: Bundle, step: Step, known: StepState | None, names: Mapping[str, Json], now: int
) -> Mapping[str, Json] | None:
    if step.find is None:
        return None
    if known is not None and known.find:
        return known.find
    found: Mapping[str, Json] = evaluate(step.find, names, now=now, zone=bundle.zone)
    empty = [name for name, value in found.items() if value in (None, "")]
    if empty:
        raise EvaluationError(f"find of step {step.id}: {empty[0]} is empty")
    return found


def action_input(
    bundle: Bundle, action: Action, written: Mapping[str, Json], names: Mapping[str, Json], now: int
) -> Mapping[str, Json]:
    """The action's input, evaluated, a mail's template rendered into subject, text and html."""
    whole: dict[str, Json] = evaluate(dict(written), names, now=now, zone=bundle.zone)
    if action.renders_template and "template" in whole:
        values = whole.pop("values", {})
        rendered = render_mail(
            bundle.templates, str(whole.pop("template")), {**names, "values": values},
            language=str(whole.pop("language", None) or bundle.language), now=now, zone=bundle.zone,
        )  # fmt: skip
        whole = {**rendered, **whole}
    field = action.fan_out
    if field and isinstance(whole.get(field), list):
        items = list(dict.fromkeys(str(item) for item in whole[field]))
        if not items:
            raise EvaluationError(f"{field} is an empty list")
        whole[field] = items if len(items) > 1 else items[0]
    return whole


def _draft(bundle: Bundle, state: State, step: Step, action: Action, now: int) -> Command:
    whole = action_input(bundle, action, step.with_, names_in_reach(state), now)
    output = action.sample if action.sample is not None else sample(action.output)
    return Record(event=e.DraftRecorded(at=now, step=step.id, action=step.action, input=whole, output=output))


def _find_first(bundle: Bundle, state: State, step: Step, plan: CallPlan, now: int) -> tuple[Command, ...] | None:
    """Looks for the record by the business's own fields; None when there is none and the step may be sent."""
    question = state.handoff_about(step.id, "find", 0)
    asked = state.calls.get((step.id, "find", 0))
    if question is not None and asked is not None and question.opened_seq > asked.intended_seq:
        if question.choice == "happened":
            found = e.RecordFound(at=now, step=step.id, output=question.output, external_id=question.external_id)
            return (Record(event=found),)
        return None if question.choice == "did_not" else ()
    assert plan.find is not None
    finding = CallPlan(
        path=step.id, purpose="find", action_name=step.action, action=FIND_ACTION, input=plan.find, retry=READS,
        limit=min(plan.limit, 30_000), owner=plan.owner,
    )  # fmt: skip
    if asked is None:
        return (replace(first_send(state, finding, 0, plan.find), whole_input=plan.find),)
    if asked.is_applied:
        return _found(state, step, plan, asked.count or 0, now)
    looking = progress(state, finding, now)
    if looking.ended:
        return (_failed(step, "unknown", f"It could not be looked for: {asked.summary}", now),)
    return looking.commands


FIND_ACTION = Action(name="find", effect="read")


def _found(state: State, step: Step, plan: CallPlan, count: int, now: int) -> tuple[Command, ...] | None:
    asked = state.calls[(step.id, "find", 0)]
    if count == 0:
        return None
    if count == 1:
        return (Record(event=e.RecordFound(at=now, step=step.id, output=asked.output, external_id=asked.external_id)),)
    handed = e.HandedOff(
        at=now, step=step.id, handoff=next_handoff(state), kind="several", owner=plan.owner, choices=SEVERAL_CHOICES,
        summary=f"{count} records match {', '.join(f'{k} {v}' for k, v in (plan.find or {}).items())}.",
        purpose="find", show=plan.find or {},
    )  # fmt: skip
    return (Record(event=handed),)


# --- wait and hand_off ---------------------------------------------------------------------------------------------


def _wait(bundle: Bundle, state: State, step: Step, known: StepState | None, now: int) -> tuple[Command, ...]:
    due = known.due if known is not None else None
    if due is not None:
        if now < due:
            return ()
        return (Record(event=e.TimerFired(at=now, step=step.id, timer="wait", due=due)),)
    if _is_skipped(bundle, state, step, now):
        return _skip(step, now)
    due = now if state.mode == "draft" else _due(bundle, state, step, now)
    return (Record(event=e.TimerSet(at=now, step=step.id, timer="wait", due=due)),)


def _due(bundle: Bundle, state: State, step: Step, now: int) -> int:
    if isinstance(step.wait, str):
        return _instant(evaluate(step.wait, names_in_reach(state), now=now, zone=bundle.zone), bundle.zone)
    assert step.wait is not None
    return after(now, step.wait, Calendar(zone=bundle.zone))


def _instant(value: Json, zone: str) -> int:
    when = read(value, zone)
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day, tzinfo=ZoneInfo(zone))
    return int(when.timestamp() * 1000)


def _hand_off(bundle: Bundle, state: State, step: Step, known: StepState | None, now: int) -> tuple[Command, ...]:
    if known is not None:
        return ()
    if _is_skipped(bundle, state, step, now):
        return _skip(step, now)
    names = names_in_reach(state)
    say = evaluate(step.say, names, now=now, zone=bundle.zone) if step.say else ""
    handed = e.HandedOff(
        at=now, step=step.id, handoff=next_handoff(state), kind="step", owner=step.hand_off_to or state.owner,
        choices=STEP_CHOICES, summary="The flow hands over here.", say=str(say),
        show=evaluate(dict(step.show), names, now=now, zone=bundle.zone),
    )  # fmt: skip
    return (Record(event=handed),)


# --- branches ------------------------------------------------------------------------------------------------------


def _choose(bundle: Bundle, state: State, step: Step, known: StepState | None, now: int) -> tuple[Command, ...]:
    if known is None:
        if _is_skipped(bundle, state, step, now):
            return _skip(step, now)
        names = names_in_reach(state)
        for number, branch in enumerate(step.branches):
            if branch.when is None or condition(branch.when, names, now=now, zone=bundle.zone):
                others = (other for other in step.branches if other is not branch)
                return (Record(event=e.BranchChosen(at=now, step=step.id, branch=number)), *pass_over(others, now))
        return _skip(step, now)
    commands = walk(bundle, state, step.branches[known.branch].steps, now)
    return _ended(step, now) if commands is None else commands


def _parallel(bundle: Bundle, state: State, step: Step, known: StepState | None, now: int) -> tuple[Command, ...]:
    """Every branch goes on by itself; what they ask for starts in the order they are written.

    The facts of one branch at a time: what it decides stands together, and may change what the others ask for.
    """
    if known is None:
        if _is_skipped(bundle, state, step, now):
            return _skip(step, now)
        return (Record(event=e.ScopeStarted(at=now, step=step.id, kind="parallel")),)
    found = [walk(bundle, state, branch.steps, now) for branch in step.branches]
    if all(commands is None for commands in found):
        return _ended(step, now)
    for commands in found:
        if commands and isinstance(commands[0], Record):
            return commands
    return tuple(_in_order(state, [command for commands in found for command in commands or ()]))


def _in_order(state: State, sends: list[Command]) -> list[Command]:
    """Start numbers in the order of the sends: each branch counted from the same beginning."""
    ordered: list[Command] = []
    next_start = state.next_start
    for send in sends:
        if isinstance(send, Send) and send.start_no >= state.next_start:
            send = replace(send, start_no=next_start)
            next_start += 1
        ordered.append(send)
    return ordered


def _ended(step: Step, now: int) -> tuple[Command, ...]:
    return (Record(event=e.ScopeEnded(at=now, step=step.id, kind=step.verb, outcome="done")),)


Decide = Callable[[Bundle, State, Step, StepState | None, int], tuple[Command, ...]]

_VERBS: Mapping[str, Decide] = {
    "read": _call,
    "do": _call,
    "wait": _wait,
    "choose": _choose,
    "parallel": _parallel,
    "hand_off": _hand_off,
}
