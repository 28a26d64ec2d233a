"""Steps that call nobody: waiting for a time or an event, sending an event, handing over to a person."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from runner.contract import Json
from runner.core import events as e
from runner.core.calls import next_handoff
from runner.core.commands import Command, Record
from runner.core.forward import failed
from runner.core.paths import generation_at
from runner.core.place import Place
from runner.errors import EvaluationError
from runner.language.calendar import after
from runner.language.dates import read

STEP_CHOICES = ("go_on", "compensate", "close")
LATE = "late"


def wait(place: Place) -> tuple[Command, ...]:
    """Sleeps until its time has come; in a draft it has come at once."""
    due = place.known.due if place.known is not None else None
    if due is not None:
        return () if place.now < due else (_fired(place, "wait", due),)
    if place.is_passed_over:
        return place.skip()
    due = place.now if place.state.mode == "draft" else _due(place)
    return (Record(event=e.TimerSet(at=place.now, step=place.path, timer="wait", due=due)),)


def _fired(place: Place, timer: str, due: int) -> Command:
    generation = generation_at(place.state, place.path)
    return Record(event=e.TimerFired(at=place.now, step=place.path, timer=timer, due=due, generation=generation))


def _due(place: Place) -> int:
    written = place.step.wait
    if isinstance(written, str):
        return _instant(place.value(written), place.bundle.zone)
    assert written is not None
    return after(place.now, written, place.bundle.working)


def _instant(value: Json, zone: str) -> int:
    when = read(value, zone)
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day, tzinfo=ZoneInfo(zone))
    return int(when.timestamp() * 1000)


def wait_for(place: Place) -> tuple[Command, ...]:
    """Waits for an event, as long as `within` says. A draft waits for nothing and goes on with what it would match."""
    known, step = place.known, place.step
    if known is None:
        return place.skip() if place.is_passed_over else (_await(place),)
    if known.due is not None and place.now >= known.due:
        return (_fired(place, LATE, known.due),)
    if known.event or place.state.handoff_about(place.path, "", 0) is not None:
        return ()
    summary = f"{step.event} did not come in time."
    if step.if_late != "hand_off":
        return (failed(place, LATE, summary, goes_on=step.if_late == "continue"),)
    handed = e.HandedOff(
        at=place.now, step=place.path, handoff=next_handoff(place.state), kind=LATE, owner=place.owner,
        choices=STEP_CHOICES, summary=summary,
    )  # fmt: skip
    return (Record(event=handed),)


def _await(place: Place) -> Command:
    step, now = place.step, place.now
    match = place.value(dict(step.match))
    empty = [name for name, value in match.items() if value in (None, "")]
    if empty:
        raise EvaluationError(f"match of step {step.id}: {empty[0]} is empty")
    generation = generation_at(place.state, place.path)
    if place.state.mode == "draft":
        return Record(
            event=e.EventReceived(at=now, step=place.path, event=step.event, data=match, generation=generation)
        )
    due = after(now, step.within, place.bundle.working) if step.within is not None else 0
    return Record(
        event=e.EventAwaited(at=now, step=place.path, event=step.event, match=match, due=due, generation=generation)
    )


def emit(place: Place) -> tuple[Command, ...]:
    """Sends an event, once; a draft only writes it down."""
    if place.is_passed_over:
        return place.skip()
    data, step = place.value(dict(place.step.with_)), place.step
    if place.state.mode == "draft":
        return (Record(event=e.DraftRecorded(at=place.now, step=place.path, action=f"emit {step.event}", input=data)),)
    generation = generation_at(place.state, place.path)
    return (Record(event=e.Emitted(at=place.now, step=place.path, event=step.event, data=data, generation=generation)),)


def hand_off(place: Place) -> tuple[Command, ...]:
    """A person chooses; nothing is undone."""
    if place.known is not None:
        return ()
    if place.is_passed_over:
        return place.skip()
    step, names = place.step, place.names()
    handed = e.HandedOff(
        at=place.now, step=place.path, handoff=next_handoff(place.state), kind="step",
        owner=step.hand_off_to or place.state.owner, choices=STEP_CHOICES, summary="The flow hands over here.",
        say=str(place.value(step.say, names)) if step.say else "", show=place.shown(step.show, names),
    )  # fmt: skip
    return (Record(event=handed),)
