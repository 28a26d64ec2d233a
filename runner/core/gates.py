"""Approvals: what is asked, when it lapses, and what its yes lets through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.clock import iso
from runner.contract import Json, digest
from runner.core import events as e
from runner.core.agents import call_input
from runner.core.calls import parted
from runner.core.commands import Ask, Command, Cover, Record
from runner.core.consents import UNDO
from runner.core.paths import generation_at, join, list_of, number_of, outwards
from runner.core.place import Place
from runner.core.state import Failure, Gate, State
from runner.errors import EvaluationError
from runner.language.bundle import Bundle
from runner.language.calendar import after, half_way
from runner.language.flow import Branch, Duration, Step, every_step

NOBODY = "Nobody answered in time."
CHANGES = "Please change: "
"""What the comment of a no begins with that asks for changes."""
UNDO_WITHIN = Duration(amount=2, unit="business_day")
UNDO_GOOD_FOR = Duration(amount=24, unit="hour")


@dataclass(frozen=True, kw_only=True, slots=True)
class Consent:
    """Whether a step that approvals cover may be sent. Where `commands` is not None it waits, and they are due first;
    else `input` is what was approved (None where nobody had to be asked), and `gates` say by which approvals, under
    which part hashes.
    """

    commands: tuple[Command, ...] | None = None
    input: Mapping[str, Json] | None = None
    gates: tuple[tuple[str, tuple[str, ...]], ...] = ()


def approve(place: Place) -> tuple[Command, ...]:
    """Asks, waits, and reads the answer."""
    before = place.state.gates.get(place.path)
    if place.known is None:
        return place.skip() if place.is_passed_over else (_ask(place, before),)
    gate = place.state.gates[place.path]
    if gate.status == "lapsed":
        return (_ask(place, gate),)
    if gate.status == "open":
        return ()
    assert place.step.approval is not None
    if place.step.approval.if_no == "continue":
        output = {"by": gate.no_by, "at": iso(place.now), "comment": gate.comment.removeprefix(CHANGES)}
        return (_ended(place, "no", output),)
    return (Record(event=e.StepFailed(at=place.now, step=place.path, kind="no", summary=why_not(gate))),)


def why_not(gate: Gate) -> str:
    """A no in one sentence."""
    if not gate.no_by:
        return NOBODY
    if wish := wish_of(gate.comment):
        return f"{gate.no_by} asked for changes: {wish}"
    return f"{gate.no_by} said no{': ' + gate.comment if gate.comment else '.'}"


def wish_of(comment: str) -> str:
    """The changes that the comment of a no asks for; empty for a plain no."""
    return comment.removeprefix(CHANGES) if comment.startswith(CHANGES) else ""


def ends_here(bundle: Bundle, failure: Failure) -> bool:
    """An approval was refused whose flow says that what was done stays."""
    step = bundle.find(failure.step)
    return failure.kind == "no" and step is not None and step.approval is not None and step.approval.if_no == "end"


def _ended(place: Place, outcome: str, output: Mapping[str, Json]) -> Command:
    return Record(
        event=e.ScopeEnded(at=place.now, step=place.path, kind="approve", outcome=outcome, output=dict(output))
    )


def tick(bundle: Bundle, state: State, now: int) -> tuple[Command, ...]:
    """What has become due of the approvals that are open, wherever the run stands."""
    for name, gate in state.gates.items():
        if gate.status == "open":
            path = name.removesuffix(UNDO)
            place = Place(bundle=bundle, state=state, step=bundle.step(path), path=path, now=now)
            commands = _tick(place, name, gate)
            if commands:
                return commands
    return ()


def _tick(place: Place, name: str, gate: Gate) -> tuple[Command, ...]:
    """What has become due of one: the end, others who join, a reminder."""
    now, purpose = place.now, "undo" if name.endswith(UNDO) else ""
    generation = generation_at(place.state, place.path)
    if gate.half and now >= gate.half and now < gate.due and place.step.approval is not None:
        return (Record(event=e.Escalated(at=now, step=place.path, about=name, to=place.step.approval.escalate_to)),)
    timer, due = ("approval", gate.due) if now >= gate.due else ("remind", gate.remind)
    if due and now >= due:
        fired = e.TimerFired(
            at=now, step=place.path, timer=timer, due=due, purpose=purpose, part=gate.round, generation=generation
        )
        return (Record(event=fired),)
    return ()


def _asks_nobody(state: State) -> bool:
    """A draft asks its starter alone, and what came by itself has none."""
    return state.mode == "draft" and not state.starter


def _ask(place: Place, before: Gate | None) -> Command:
    approval, now, names = place.step.approval, place.now, place.names()
    assert approval is not None
    covers = dict(_covers(place, names))
    if not covers or _asks_nobody(place.state):
        return _ended(place, "yes", {"by": "", "at": iso(now), "comment": ""})
    calendar = place.bundle.working
    due = after(now, approval.within, calendar)
    half = half_way(now, approval.within, calendar)
    is_draft = place.state.mode == "draft"
    shows = place.shown({path: "${{ " + path + " }}" for path in approval.shows}, names)
    request = e.ApprovalRequested(
        at=now, step=place.path, approval=place.path, round=before.round + 1 if before is not None else 1,
        covers=tuple(covers), due=due, by=(place.state.starter,) if is_draft else approval.by,
        needs=1 if is_draft else approval.needs,
        remind=after(now, approval.remind, calendar) if approval.remind is not None else half,
        half=half if approval.escalate_to else 0, good_for=approval.good_for.ms,
        shown={"question": str(place.value(approval.question, names)), "shows": shows},
    )  # fmt: skip
    return Ask(request=request, covers=covers, escalate_to=approval.escalate_to)


def ask_undo(place: Place, before: Gate | None, action: str, whole: Mapping[str, Json], by: tuple[str, ...]) -> Command:
    """Asks before a step is made good."""
    calendar, now = place.bundle.working, place.now
    due = after(now, UNDO_WITHIN, calendar)
    field = place.bundle.actions[action].fan_out
    request = e.ApprovalRequested(
        at=now, step=place.path, approval=place.path + UNDO, round=before.round + 1 if before is not None else 1,
        covers=(place.path,), due=due, by=by, remind=half_way(now, UNDO_WITHIN, calendar), good_for=UNDO_GOOD_FOR.ms,
        shown={"question": f"Make good what step {place.step.id} did?", "shows": {}},
    )  # fmt: skip
    cover = Cover(action=action, input=whole, parts=tuple(parted(whole, field)), purpose="undo")
    return Ask(request=request, covers={place.path: cover})


def _covers(place: Place, names: Mapping[str, Json]) -> Iterator[tuple[str, Cover]]:
    """What the covered steps will send, as far as they will run: path -> content."""
    approval = place.step.approval
    assert approval is not None
    scope = place.scope
    around = list_of(scope)
    steps = place.bundle.flow_at(scope).steps
    if around:
        steps = next(branch.steps for branch in place.bundle.step(around).branches if _stands_in(place.step, branch))
    yield from _covered(place, steps, scope, frozenset(approval.covers), names, "")


def _stands_in(gate: Step, branch: Branch) -> bool:
    """An `each` has one branch, an agent one for each tool."""
    return not gate.tool_of or gate.id in (step.id for step in branch.steps)


def _covered(
    place: Place, steps: tuple[Step, ...], scope: str, wanted: frozenset[str], names: Mapping[str, Json], item: str
) -> Iterator[tuple[str, Cover]]:
    for step in steps:
        here = Place(bundle=place.bundle, state=place.state, step=step, path=join(scope, step.id), now=place.now)
        if step.id in wanted and not _is_behind(here) and not _is_left_out(here, names):
            action = place.bundle.actions[step.action]
            sent = here.known.input if here.known is not None else None
            whole = sent or _agreed(here) or call_input(here, action, names)
            yield here.path, Cover(
                action=step.action, input=whole, parts=tuple(parted(whole, action.fan_out)), item=item
            )  # fmt: skip
        inner = [one for branch in step.branches for one in branch.steps]
        if not any(one.id in wanted for one in every_step(tuple(inner))):
            continue
        if step.verb != "each":
            yield from _covered(place, tuple(inner), scope, wanted, names, item)
            continue
        items = here.value(step.each, names)
        if not isinstance(items, list):
            raise EvaluationError(f"each of step {step.id} is not a list")
        listing = place.state.lists.get(here.path)
        for number, one in enumerate(items if listing is None else listing.items.all(), 1):
            inside = {**names, "item": one}
            yield from _covered(place, tuple(inner), join(here.path, str(number)), wanted, inside, digest(one))


def _is_left_out(place: Place, names: Mapping[str, Json]) -> bool:
    """Its condition says no already; one that cannot be known yet leaves it in."""
    if place.step.when is None or place.known is not None:
        return False
    try:
        return place.value(place.step.when, names) is False
    except EvaluationError:
        return False


def _is_behind(place: Place) -> bool:
    """It is not to be sent any more: it was, or its item has ended."""
    state, path = place.state, place.path
    if (place.known is not None and place.known.status != "open") or is_begun(state, path, "do"):
        return True
    for scope in outwards(place.scope):
        listing = state.lists.get(list_of(scope))
        if listing is not None:
            number = number_of(scope)
            is_to_come = number > listing.started or number in listing.open or number in dict(listing.again)
            if not is_to_come:
                return True
    return False


def is_begun(state: State, path: str, purpose: str) -> bool:
    """Nothing of a step's call is to be sent for the first time, or anew by a person's word: only to be repeated."""
    first = state.calls.get((path, purpose, 0))
    return first is not None and all(
        (call := state.calls.get((path, purpose, part))) is not None and not call.renew for part in range(first.parts)
    )


def _agreed(place: Place) -> Mapping[str, Json] | None:
    """What another approval has said yes to for this step, so that both speak of the same."""
    for gate in place.state.gates.values():
        if gate.status == "yes" and place.path in gate.covers:
            return gate.covers[place.path].input
    return None


# --- what a yes lets through ---------------------------------------------------------------------------------------


def consent(place: Place) -> Consent:
    """Whether the step may be sent now, for the first time or anew, as far as approvals go."""
    state, path = place.state, place.path
    asked = [(name, state.gates[name]) for name in _gates_over(place) if name in state.gates]
    if not asked:
        if place.step.unattended or _asks_nobody(state):
            return Consent()
        summary = f"Step {place.step.id} needs an approval, and nobody was asked."
        return Consent(commands=(Record(event=e.StepFailed(at=place.now, step=path, kind="no", summary=summary)),))
    for name, gate in asked:
        is_said = gate.status == "yes" or state.steps[name].outcome != "yes"
        if not is_said:  # it has lapsed, and this step waits for it alone
            above = Place(bundle=place.bundle, state=state, step=place.bundle.step(name), path=name, now=place.now)
            return Consent(commands=approve(above))
        if gate.status != "yes" or path in gate.left_out:
            why = "no" if gate.status != "yes" else "left_out"
            return Consent(commands=(Record(event=e.StepSkipped(at=place.now, step=path, why=why)),))
        lapsed = _why_lapsed(place, gate)
        if lapsed:
            return Consent(commands=(lapse(place, name, gate, lapsed),))
    return Consent(
        input=asked[-1][1].covers[path].input,
        gates=tuple((name, gate.covers[path].hashes) for name, gate in asked),
    )


def _why_lapsed(place: Place, gate: Gate) -> str:
    covered = gate.covers.get(place.path)
    if covered is None:
        return f"step {place.step.id} was not shown"
    if (place.path, "do", 0) not in place.state.calls:
        if place.path in gate.used:
            return f"it was used for step {place.step.id} already"
        if place.now >= gate.until:
            return f"it was good until {iso(gate.until)}"
    if covered.item and covered.item != digest(place.names()["item"]):
        return "the item has changed"
    return ""


def lapse(place: Place, name: str, gate: Gate, why: str) -> Command:
    """The approval is no longer good."""
    at = name.removesuffix(UNDO)
    return Record(event=e.ApprovalLapsed(at=place.now, step=at, approval=name, round=gate.round, why=why))


def _gates_over(place: Place) -> Iterator[str]:
    """The paths of the approvals that cover this step: each stands in its scope or in one around it."""
    for gate in place.step.covered_by:
        around = (join(scope, gate) for scope in outwards(place.scope))
        yield next(path for path in around if place.bundle.find(path) is not None)
