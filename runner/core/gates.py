"""Approvals: what is asked, when it lapses, and what its yes lets through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.clock import iso
from runner.contract import Json, digest
from runner.core import events as e
from runner.core.calls import parted
from runner.core.commands import Ask, Command, Cover, Record
from runner.core.consents import UNDO
from runner.core.paths import generation_at, join, list_of, outwards
from runner.core.place import Place, action_input
from runner.core.state import Gate
from runner.errors import EvaluationError
from runner.language.calendar import Calendar, after
from runner.language.flow import Duration, Step, every_step

NOBODY = "Nobody answered in time."
UNDO_WITHIN = Duration(amount=2, unit="business_day")
UNDO_GOOD_FOR = Duration(amount=24, unit="hour")


@dataclass(frozen=True, kw_only=True, slots=True)
class Consent:
    """Whether a step that approvals cover may be sent. `commands` are due first where there are any; else `input` is
    what was approved (None where nobody had to be asked), and `gates` say by which approvals, under which part hashes.
    """

    commands: tuple[Command, ...] = ()
    input: Mapping[str, Json] | None = None
    gates: tuple[tuple[str, tuple[str, ...]], ...] = ()


def approve(place: Place) -> tuple[Command, ...]:
    """Asks, waits, and reads the answer."""
    gate = place.state.gates.get(place.path)
    if place.known is None and place.is_passed_over:
        return place.skip()
    if gate is None or gate.status == "lapsed":
        return (_ask(place, gate),)
    if gate.status == "open":
        return tick(place, place.path, gate)
    assert place.step.approval is not None
    if place.step.approval.if_no == "continue":
        output = {"by": gate.no_by, "at": iso(place.now), "comment": gate.comment}
        return (_ended(place, "no", output),)
    return (Record(event=e.StepFailed(at=place.now, step=place.path, kind="no", summary=why_not(gate))),)


def why_not(gate: Gate) -> str:
    """A no in one sentence."""
    if not gate.no_by:
        return NOBODY
    return f"{gate.no_by} said no{': ' + gate.comment if gate.comment else '.'}"


def _ended(place: Place, outcome: str, output: Mapping[str, Json]) -> Command:
    return Record(
        event=e.ScopeEnded(at=place.now, step=place.path, kind="approve", outcome=outcome, output=dict(output))
    )


def tick(place: Place, name: str, gate: Gate) -> tuple[Command, ...]:
    """What has become due of an open approval: the end, others who join, a reminder."""
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


def _ask(place: Place, before: Gate | None) -> Command:
    approval, now, names = place.step.approval, place.now, place.names()
    assert approval is not None
    used = before.used if before is not None else frozenset()
    covers = {path: cover for path, cover in _covers(place, names) if path not in used}
    if not covers:
        return _ended(place, "yes", {"by": "", "at": iso(now), "comment": ""})
    calendar = Calendar(zone=place.bundle.zone)
    due = after(now, approval.within, calendar)
    half = now + (due - now) // 2
    is_draft = place.state.mode == "draft"
    shows = {path: place.value("${{ " + path + " }}", names) for path in approval.shows}
    request = e.ApprovalRequested(
        at=now, step=place.path, approval=place.path, round=before.round + 1 if before is not None else 1,
        covers=tuple(covers), due=due, by=(place.state.starter,) if is_draft else approval.by,
        needs=1 if is_draft else approval.needs,
        remind=after(now, approval.remind, calendar) if approval.remind is not None else half,
        half=half if approval.escalate_to else 0, good_for=approval.good_for.ms,
        shown={"question": str(place.value(approval.question, names)), "shows": shows},
    )  # fmt: skip
    return Ask(request=request, covers=covers)


def ask_undo(place: Place, before: Gate | None, action: str, whole: Mapping[str, Json], by: tuple[str, ...]) -> Command:
    """Asks before a step is made good."""
    calendar, now = Calendar(zone=place.bundle.zone), place.now
    due = after(now, UNDO_WITHIN, calendar)
    field = place.bundle.actions[action].fan_out
    request = e.ApprovalRequested(
        at=now, step=place.path, approval=place.path + UNDO, round=before.round + 1 if before is not None else 1,
        covers=(place.path,), due=due, by=by, remind=now + (due - now) // 2, good_for=UNDO_GOOD_FOR.ms,
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
    steps = place.bundle.step(around).branches[0].steps if around else place.bundle.flow_at(scope).steps
    yield from _covered(place, steps, scope, frozenset(approval.covers), names, "")


def _covered(
    place: Place, steps: tuple[Step, ...], scope: str, wanted: frozenset[str], names: Mapping[str, Json], item: str
) -> Iterator[tuple[str, Cover]]:
    for step in steps:
        here = Place(bundle=place.bundle, state=place.state, step=step, path=join(scope, step.id), now=place.now)
        if step.id in wanted and not _is_left_out(here, names):
            action = place.bundle.actions[step.action]
            whole = _agreed(here) or action_input(here, action, step.with_, names)
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
        for number, one in enumerate(items, 1):
            inside = {**names, "item": one}
            yield from _covered(place, tuple(inner), join(here.path, str(number)), wanted, inside, digest(one))


def _is_left_out(place: Place, names: Mapping[str, Json]) -> bool:
    """Its condition says no already; one that cannot be known yet leaves it in."""
    if place.step.when is None:
        return False
    try:
        return place.value(place.step.when, names) is False
    except EvaluationError:
        return False


def _agreed(place: Place) -> Mapping[str, Json] | None:
    """What another approval has said yes to for this step, so that both speak of the same."""
    for gate in place.state.gates.values():
        if gate.status == "yes" and place.path in gate.covers:
            return gate.covers[place.path].input
    return None


# --- what a yes lets through ---------------------------------------------------------------------------------------


def consent(place: Place) -> Consent:
    """Whether the step may be sent now, for the first time, as far as approvals go."""
    state, path = place.state, place.path
    asked = [(name, state.gates[name]) for name in _gates_over(place) if name in state.gates]
    if not asked:
        if place.step.unattended:
            return Consent()
        summary = f"Step {place.step.id} needs an approval, and nobody was asked."
        return Consent(commands=(Record(event=e.StepFailed(at=place.now, step=path, kind="no", summary=summary)),))
    for name, gate in asked:
        why = _why_skipped(gate, path)
        if why:
            return Consent(commands=(Record(event=e.StepSkipped(at=place.now, step=path, why=why)),))
        lapsed = _why_lapsed(place, gate)
        if lapsed:
            return Consent(commands=(lapse(place, name, gate, lapsed),))
    return Consent(
        input=asked[-1][1].covers[path].input,
        gates=tuple((name, gate.covers[path].hashes) for name, gate in asked),
    )


def _why_skipped(gate: Gate, path: str) -> str:
    if gate.status in ("no", "late"):
        return "no"
    return "left_out" if path in gate.left_out else ""


def _why_lapsed(place: Place, gate: Gate) -> str:
    covered = gate.covers.get(place.path)
    if covered is None:
        return f"step {place.step.id} was not shown"
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
        for scope in outwards(place.scope):
            found = place.bundle.find(join(scope, gate))
            if found is not None and found.approval is not None:
                yield join(scope, gate)
                break
