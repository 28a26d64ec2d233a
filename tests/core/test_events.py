"""The vocabulary: every fact into JSON and back, what may stand once, and logs that are read for ever."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.status import standing_of
from runner.engine.simulated import Simulation
from tests.core.stage import Scripted
from tests.laws import record
from tests.laws.play import start_of

LOGS = sorted(record.LOGS.glob("*.json"))
FIRST_SCHEMA = (
    "RunStarted RunHeld StepSkipped BranchChosen StepFailed CallIntended CallApplied CallRefused CallNotSent CallUnknown "
    "CallSettled EvidenceLate RecordFound TimerSet TimerFired ApprovalRequested ApprovalDecided ApprovalLapsed "
    "EventAwaited EventReceived Emitted ScopeStarted ScopeEnded ItemSetAside ForwardClosed CompensationBegun "
    "CompensationSkipped CompensationFailed HandedOff HandOffAcknowledged Escalated HandOffResolved RecordHeld "
    "RecordReleased RecordQuarantined QuarantineReleased NoticeSent DraftRecorded RunPaused RunResumed StopRequested "
    "RunMoved PersonalDataErased RunFinished QuarantineDiscarded RunsPruned SlotMissed SlotSkipped DeliveryIgnored "
    "DeliveryConflict EventKept ConnectionHeld ConnectionReleased FlowHeld FlowReleased FlowActivated Restored "
    "Checkpoint"
).split()


def _value(kind: Any) -> Any:
    """Something of a field's type that is not its default."""
    given = typing.get_origin(kind) or kind
    if given in (types.UnionType, typing.Union):
        return _value(typing.get_args(kind)[0])
    if given is tuple:
        return (7,) if typing.get_args(kind)[0] is int else ("a", "b")
    return {str: "word", int: 7, bool: True}.get(given, {"name": ["value", 1, None]})


def _full(kind: type[e.Event]) -> e.Event:
    hints = typing.get_type_hints(kind)
    return kind(**{field.name: _value(hints[field.name]) for field in fields(kind)})


def _bare(kind: type[e.Event]) -> e.Event:
    hints = typing.get_type_hints(kind)
    needed = [f for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return kind(**{field.name: _value(hints[field.name]) for field in needed})


def test_the_whole_vocabulary_is_there() -> None:
    assert set(FIRST_SCHEMA) <= set(e.VOCABULARY)


@pytest.mark.parametrize("kind", e.VOCABULARY.values(), ids=e.VOCABULARY)
def test_every_fact_goes_into_json_and_comes_back(kind: type[e.Event]) -> None:
    for event in (_full(kind), _bare(kind)):
        data = json.loads(json.dumps(e.payload(event)))
        back = e.restore(kind.__name__, at=event.at, step=event.step, external_id=event.external_id, data=data)
        assert back == event
        assert back.guard == event.guard


@pytest.mark.parametrize("kind", e.VOCABULARY.values(), ids=e.VOCABULARY)
def test_a_default_is_not_written(kind: type[e.Event]) -> None:
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    assert set(e.payload(_bare(kind))) == needed - {"at", "step", "external_id"}
    assert set(e.payload(_full(kind))) == {f.name for f in fields(kind)} - {"at", "step", "external_id"}


def test_a_field_of_a_newer_version_is_an_error() -> None:
    with pytest.raises(TypeError):
        e.restore("RunResumed", at=1, step="", external_id="", data={"by": "person:me", "mood": "good"})
    with pytest.raises(KeyError):
        e.restore("RunDanced", at=1, step="", external_id="", data={})


ONCE = [
    (e.CallIntended, "intent:word:word:7:7:7"),
    (e.CallApplied, "outcome:word:word:7:7:7"),
    (e.CallUnknown, "outcome:word:word:7:7:7"),
    (e.CallSettled, "settled:word:word:7:7:7:word"),
    (e.TimerFired, "timer:word:word:word:7:7:7"),
    (e.EventReceived, "event:word:word:7"),
    (e.ApprovalDecided, "decision:word:7:word:word"),
    (e.Emitted, "emitted:word:7"),
    (e.ForwardClosed, "closed:word:7"),
    (e.CompensationBegun, "begun:word:7"),
    (e.HandedOff, "handoff:word"),
    (e.HandOffResolved, "resolved:word"),
    (e.RecordLocked, "locked:word"),
    (e.NoticeSent, "notice:word:7:word:word:word"),
]


def test_what_may_stand_once_says_so() -> None:
    for kind, guard in ONCE:
        assert _full(kind).guard == guard
    guarded = {kind.__name__ for kind in e.VOCABULARY.values() if _full(kind).guard is not None}
    assert guarded == {kind.__name__ for kind, _ in ONCE} | {"CallRefused", "CallNotSent"}


def test_outcomes_and_what_people_say_are_reports() -> None:
    reports = {name for name, kind in e.VOCABULARY.items() if kind.kind_of_fact == "report"}
    assert {"CallApplied", "CallRefused", "CallNotSent", "CallUnknown", "EvidenceLate", "StopRequested"} <= reports
    assert {"HandOffResolved", "RunPaused", "RunResumed", "ApprovalDecided", "EventReceived"} <= reports
    assert not {"CallIntended", "CallSettled", "ForwardClosed", "RunFinished", "TimerFired", "HandedOff"} & reports


# --- logs that were written once -----------------------------------------------------------------------------------


def test_there_are_logs_of_every_kind() -> None:
    written = {line["type"] for path in LOGS for line in json.loads(path.read_text(encoding="utf-8"))["events"]}
    assert len(LOGS) >= 12
    assert len(written) >= 25


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_an_old_log_still_means_what_it_meant(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    events = record.as_events(kept["events"])
    assert record.as_lines(events) == kept["events"]
    assert record.meaning_of(fold_all(events)) == kept["meaning"]


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_an_old_log_can_be_taken_up_from_any_place(path: Path) -> None:
    """Whatever was written before an engine died: the next one goes on, to an end or to a question."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    events = record.as_events(kept["events"])
    bundle = record.bundle_of(kept)
    for length in range(1, len(events)):
        simulation = Simulation(bundle, Scripted(bundle, {}), start_of(bundle))
        simulation.take_up(events[:length])
        result = simulation.run()
        assert result.spins == 0, length
        is_waiting = result.state.is_paused or result.state.open_handoffs
        assert result.end == "ended" or (result.end == "rests" and is_waiting), length
        assert standing_of(result.state).status not in ("queued", "running", "waiting", "compensating"), length
