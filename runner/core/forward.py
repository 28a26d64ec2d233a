"""Going forward: what a `read` or a `do` step asks for."""

from __future__ import annotations

from collections.abc import Mapping

from runner.contract import Action, Json, Purpose
from runner.core import events as e
from runner.core.agents import call_input
from runner.core.calls import SEVERAL_CHOICES, CallPlan, first_send, is_out, next_handoff, progress
from runner.core.commands import Command, Record
from runner.core.drafts import as_draft, drafting, write_down
from runner.core.gates import Consent, consent, is_begun
from runner.core.place import Place
from runner.core.retry import READS, policy
from runner.core.state import StepState, replace
from runner.errors import EvaluationError
from runner.language.expressions import roots
from runner.language.flow import Step


def failed(place: Place, kind: str, summary: str, *, goes_on: bool = False) -> Command:
    """The step ends without what it was to do; what follows from that is decided then."""
    return Record(event=e.StepFailed(at=place.now, step=place.path, kind=kind, summary=summary, goes_on=goes_on))


def call_service(place: Place) -> tuple[Command, ...]:
    """A `read` or a `do`."""
    step, state, known = place.step, place.state, place.known
    if known is None and place.is_passed_over:
        return place.skip()
    if is_out(state, place.path, "do" if step.verb == "do" else "read"):
        return ()
    allowed = consent(place) if step.covered_by and not is_begun(state, place.path, "do") else None
    if allowed is not None and allowed.commands is not None:
        return allowed.commands
    plan = plan_of(place, allowed=allowed)
    if step.find is not None and (place.path, "do", 0) not in state.calls:
        looking = _find_first(place, plan)
        if looking is not None:
            return looking
    is_draft = step.verb == "do" and state.mode == "draft"
    if is_draft and drafting(place) is None:
        return (Record(event=write_down(place, plan.input)),)
    done = progress(state, plan, place.now)
    if done.is_moving or not (done.ended or is_draft):
        return done.commands
    if is_draft:
        why = next((move.summary or "It was refused." for move in (done.ended or {}).values()), "")
        return (Record(event=write_down(place, plan.sent, why)),)
    assert done.ended
    worst = next((move for move in done.ended.values() if move.kind != "refused"), next(iter(done.ended.values())))
    goes_on = step.if_refused == "continue" and all(move.kind == "refused" for move in done.ended.values())
    summary = worst.summary or "It was refused."
    if plan.parts > 1:
        summary = f"{len(done.ended)} of {plan.parts} were refused: {summary}"
    return (failed(place, worst.kind, summary, goes_on=goes_on),)


def plan_of(place: Place, *, is_closed: bool = False, allowed: Consent | None = None) -> CallPlan:
    """The step's forward call. Its input is the one of its first intent, what was approved, or evaluated now."""
    step, state, known = place.step, place.state, place.known
    action = place.bundle.actions[step.action]
    purpose: Purpose = "do" if step.verb == "do" else "read"
    first = state.calls.get((place.path, purpose, 0))
    names = place.names(_reached(place, step, action))
    if first is not None and known is not None and known.input:
        whole = known.input
    elif allowed is not None and allowed.input is not None:
        whole = allowed.input
    else:
        whole = call_input(place, action, names)
    records, lock = _records(place, names) if purpose == "do" else ((), ())
    plan = CallPlan(
        path=place.path, purpose=purpose, action_name=step.action, action=action, input=whole,
        retry=policy(action, step.retry, purpose), limit=step.timeout or action.timeout,
        owner=place.owner, asks_by=_asks_by(action, step),
        find=_find_input(place, known, names), author_key=_author_key(place, names),
        records=records, lock=lock, is_closed=is_closed, gates=allowed.gates if allowed is not None else (),
        keeps_input=not action.is_agent,
    )  # fmt: skip
    return as_draft(place, plan) if purpose == "do" and state.mode == "draft" else plan


def _reached(place: Place, step: Step, action: Action) -> frozenset[str] | None:
    """As `_names_of_call`, worked out once for each step of the flow."""
    if step.tool_of:
        return None  # such steps are made anew for each turn
    known = place.bundle.reached.get(id(step))
    if known is None or known[0] is not step:
        known = place.bundle.reached[id(step)] = (step, _names_of_call(step, action))
    return known[1]


def _names_of_call(step: Step, action: Action) -> frozenset[str] | None:
    """The names that what the step sends is worked out of; None: any."""
    if action.renders_template:
        return None
    beside = [step.find, step.key, step.lock.id if step.lock is not None else None]
    return roots(step.with_) if not any(beside) else roots([step.with_, *beside])


def _records(place: Place, names: Mapping[str, Json]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The records that must be free for this step, and those of them that it locks. The run's own is always among
    them: another run that is broken may hold it."""
    state, step = place.state, place.step
    own = (state.record,) if state.record else ()
    if not own and step.lock is None:
        return (), ()
    wanted = own if place.bundle.flow.one_at_a_time else ()
    first = state.calls.get((place.path, "do", 0))
    if step.lock is not None and (first is None or first.renew):
        wanted = (*wanted, _locked(place, names))
    lock = tuple(dict.fromkeys(record for record in wanted if record not in state.locks))
    return tuple(dict.fromkeys((*own, *lock))), lock


def _locked(place: Place, names: Mapping[str, Json]) -> str:
    lock = place.step.lock
    assert lock is not None
    value = place.value(lock.id, names)
    if value is None or isinstance(value, bool | list | dict) or str(value).strip() == "":
        raise EvaluationError(f"lock of step {place.step.id}: the id of the {lock.record} is empty")
    return f"{lock.record}/{value}"


def _author_key(place: Place, names: Mapping[str, Json]) -> str:
    if place.step.key is None:
        return ""
    key = place.value(place.step.key, names)
    if isinstance(key, bool) or not isinstance(key, str | int) or str(key).strip() == "":
        raise EvaluationError(f"the key of step {place.step.id} is empty")
    return str(key)


def _asks_by(action: Action, step: Step) -> Purpose | None:
    if action.effect == "read":
        return None
    if action.has_lookup:
        return "lookup"
    return "find" if step.find is not None else None


def _find_input(place: Place, known: StepState | None, names: Mapping[str, Json]) -> Mapping[str, Json] | None:
    if place.step.find is None:
        return None
    if known is not None and known.find:
        return known.find
    found: Mapping[str, Json] = place.value(place.step.find, names)
    empty = [name for name, value in found.items() if value in (None, "")]
    if empty:
        raise EvaluationError(f"find of step {place.step.id}: {empty[0]} is empty")
    return found


def _find_first(place: Place, plan: CallPlan) -> tuple[Command, ...] | None:
    """Looks for the record by the business's own fields; None when there is none and the step may be sent."""
    state, now, path = place.state, place.now, place.path
    question = state.handoff_about(path, "find", 0)
    asked = state.calls.get((path, "find", 0))
    if question is not None and asked is not None and question.opened_seq > asked.intended_seq:
        if question.choice == "happened":
            found = e.RecordFound(at=now, step=path, output=question.output, external_id=question.external_id)
            return (Record(event=found),)
        return None if question.choice == "did_not" else ()
    assert plan.find is not None
    finding = CallPlan(
        path=path, purpose="find", action_name=place.step.action, action=FIND_ACTION, input=plan.find, retry=READS,
        limit=min(plan.limit, 30_000), owner=plan.owner,
    )  # fmt: skip
    if asked is None:
        return (replace(first_send(state, finding, 0, plan.find), whole_input=plan.find),)
    if asked.is_applied:
        return _found(place, plan, asked.count or 0)
    looking = progress(state, finding, now)
    if looking.ended:
        return (failed(place, "unknown", f"It could not be looked for: {asked.summary}"),)
    return looking.commands


FIND_ACTION = Action(name="find", effect="read")


def _found(place: Place, plan: CallPlan, count: int) -> tuple[Command, ...] | None:
    state, now, path = place.state, place.now, place.path
    asked = state.calls[(path, "find", 0)]
    if count == 0:
        return None
    if count == 1:
        return (Record(event=e.RecordFound(at=now, step=path, output=asked.output, external_id=asked.external_id)),)
    handed = e.HandedOff(
        at=now, step=path, handoff=next_handoff(state), kind="several", owner=plan.owner, choices=SEVERAL_CHOICES,
        summary=f"{count} records match {', '.join(f'{k} {v}' for k, v in (plan.find or {}).items())}.",
        purpose="find", show=plan.find or {},
    )  # fmt: skip
    return (Record(event=handed),)
