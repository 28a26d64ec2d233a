"""An engine that dies, in every phase: the next one takes over, and nothing is done twice or forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runner.contract import Json
from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.state import State
from runner.engine.advance import advance
from runner.engine.simulated import DOWNTIME, Fate, GuardTaken, MemoryLog, Result, Simulation, VirtualClock, as_late
from runner.errors import SequenceConflict
from runner.language.bundle import Bundle
from runner.store.facts import AlreadyReported
from tests.core.stage import (
    LOST,
    NONE,
    NOT_SENT,
    ONE,
    REFUSED,
    Crowd,
    Fates,
    Scripted,
    asked,
    asking,
    bundle_of,
    calling,
    do,
    facts,
    once,
    run,
    undone,
    words_of,
)
from tests.laws.flows import corpus
from tests.laws.play import STARTED_AT, start_of

PAIR = bundle_of(do("a", "svc.once") + do("b"))
LOOKED = bundle_of(do("a", "svc.looked") + do("b", "svc.refuses"))
ID: dict[str, Json] = {"id": "1"}


def status(result: Result) -> str:
    assert result.end == "ended"
    return result.state.status


def test_a_call_of_class_once_whose_sender_died_goes_to_a_person() -> None:
    result = run(PAIR, {}, [asked("happened", output=ID)], weather=Fates(crashes=[1]))
    assert status(result) == "succeeded"
    assert facts(result, e.CallUnknown)[0].take_over
    assert len([event for event in facts(result, e.CallIntended) if event.step == "a"]) == 1


def test_a_keyed_call_is_sent_again_with_its_key() -> None:
    result = run(PAIR, {}, weather=Fates(crashes=[2]))
    assert status(result) == "succeeded"
    sent = [event for event in facts(result, e.CallIntended) if event.step == "b"]
    assert (len(sent), len({event.key for event in sent})) == (2, 1)
    assert [event.fence for event in sent] == [1, 2]


def test_a_look_up_that_finds_nothing_after_a_take_over_goes_to_a_person() -> None:
    """The lost engine's request may still be on its way. The doubt stays until somebody says what is so."""
    script = {("a", "lookup"): [NONE], ("b", "do"): [REFUSED]}
    result = run(LOOKED, script, [asked("happened", output=ID)], weather=Fates(crashes=[1]))
    assert (status(result), undone(result)) == ("compensated", ["a"])
    assert [event.by for event in facts(result, e.CallSettled)] == ["lookup", "person:owner"]
    stopped = run(LOOKED, script, [once("stop_compensate", lambda state: bool(state.handoffs)), asked("happened", output=ID)],
                  weather=Fates(crashes=[1]))  # fmt: skip
    assert (status(stopped), undone(stopped)) == ("compensated", ["a"])


def test_a_sender_lost_at_one_attempt_is_not_forgotten_at_the_next() -> None:
    bundle = bundle_of(do("a", "svc.brief_asked"))
    script = {("a", "do"): [LOST, LOST, LOST], ("a", "lookup"): [NONE]}
    result = run(bundle, script, [asked("did_not")], weather=Fates(crashes=[1]))
    assert status(result) == "succeeded"
    assert [event.by for event in facts(result, e.CallSettled)] == ["lookup", "person:owner"]


@pytest.mark.parametrize("purpose", ["lookup", "find", "read", "undo_lookup"])
def test_questions_are_asked_again(purpose: str) -> None:
    read = "  - id: r\n    read: svc.get\n    with: { name: x }\n"
    find = '    find: { email: "a@x.test" }\n'
    bundle = bundle_of(
        read + do("f", "svc.findable", more=find) + do("a", "svc.looked", undo="svc.looked") + do("b", "svc.refuses")
    )
    script = {("a", "do"): [LOST], ("a", "lookup"): [ONE, ONE], ("b", "do"): [REFUSED], ("a", "undo"): [LOST]}
    order = ["read", "find", "do", "do", "lookup", "do", "undo", "undo_lookup"]
    result = run(bundle, script, weather=Fates(crashes=[order.index(purpose) + 1]))
    assert status(result) == "compensated"
    assert len([event for event in facts(result, e.CallIntended) if event.purpose == purpose]) == 2


def test_a_compensation_whose_sender_died() -> None:
    bundle = bundle_of(do("a", undo="svc.once") + do("b", "svc.refuses"))
    result = run(bundle, {("b", "do"): [REFUSED]}, [asked("happened")], weather=Fates(crashes=[3]))
    assert (status(result), words_of(result)) == ("compensated", {"a": "undone"})
    assert len([event for event in facts(result, e.CallIntended) if event.purpose == "undo"]) == 1


def test_an_engine_that_dies_while_the_run_is_paused_or_stopping() -> None:
    paused = run(PAIR, {}, [once("pause", calling("b", "do")), once("resume", lambda state: state.is_paused)],
                 weather=Fates(crashes=[2]))  # fmt: skip
    assert status(paused) == "succeeded"
    stopping = run(PAIR, {}, [once("stop", asking("a")), asked("did_not")], weather=Fates(crashes=[1]))
    assert status(stopping) == "stopped"


FATES: list[tuple[Fate, int]] = [("error_kept", 1), ("error_lost", 0), ("crash_kept", 1), ("crash_lost", 0)]


@pytest.mark.parametrize(("fate", "intents"), FATES)
def test_a_commit_that_nobody_knows_about(fate: Fate, intents: int) -> None:
    """What was intended and provably never left is not sent; what a dead engine intended may have left."""
    bundle = bundle_of(do("a"))
    outside = Scripted(bundle, {})
    result = Simulation(bundle, outside, start_of(bundle), weather=Fates(fate)).run()
    assert status(result) == "succeeded"
    assert len(outside.sent) == 1
    lost = facts(result, e.CallNotSent, e.CallUnknown)
    assert [type(event) for event in lost] == [e.CallNotSent if fate == "error_kept" else e.CallUnknown][:intents]


@pytest.mark.parametrize("fate", ["error_lost", "crash_lost", "error_kept", "crash_kept"])
def test_an_outcome_whose_commit_was_in_doubt(fate: Fate) -> None:
    """An error loses no outcome. A death loses it, and the service is asked."""
    bundle = bundle_of(do("a", "svc.looked"))
    result = run(bundle, {}, weather=Fates("kept", fate))
    assert status(result) == "succeeded"
    assert len([event for event in facts(result, e.CallIntended) if event.purpose == "lookup"]) == (
        fate == "crash_lost"
    )


def test_the_answer_of_the_dead_is_kept_and_changes_nothing() -> None:
    class Late(Fates):
        def answer_of_the_dead(self) -> bool:
            return True

    result = run(PAIR, {}, [asked("did_not")], weather=Late(crashes=[1]))
    assert status(result) == "succeeded"
    assert [event.result for event in facts(result, e.EvidenceLate)] == ["applied"]
    assert result.state.late == 1


def test_evidence_says_what_the_outcome_said() -> None:
    call = {"at": 1, "step": "a", "purpose": "do"}
    assert as_late(e.CallApplied(**call, output=ID, external_id="x")).output == ID  # type: ignore[arg-type]
    assert as_late(e.CallRefused(**call, reason="invalid")).result == "refused"  # type: ignore[arg-type]
    assert as_late(e.CallNotSent(**call, reason="connection")).result == "not_sent"  # type: ignore[arg-type]
    assert as_late(e.CallUnknown(**call, reason="timeout")).result == "unknown"  # type: ignore[arg-type]


# --- records, races, the log ---------------------------------------------------------------------------------------


def test_a_run_waits_while_another_holds_its_record() -> None:
    class Held(Fates):
        def holder(self, record: str, now: int) -> tuple[str, int] | None:
            return ("other", STARTED_AT + 5_000) if now < STARTED_AT + 5_000 else None

    result = run(corpus()["holds"], {}, [asked("go_on", "h")], weather=Held())
    assert status(result) == "succeeded"
    held = facts(result, e.RunHeld)
    assert [(event.name, event.by_run) for event in held] == [("customer/c1", "other")]
    assert facts(result, e.CallIntended)[0].at == STARTED_AT + 5_000


def test_what_is_reported_between_a_decision_and_its_commit_comes_first() -> None:
    hasty: list[e.Event] = [e.StopRequested(at=STARTED_AT, by="person:ops", compensate=False)]

    class Hasty(Crowd):
        def interrupts(self, bundle: object, state: object, now: int) -> list[e.Event]:
            return [hasty.pop()] if hasty else []

    bundle = bundle_of(do("a"))
    people = Hasty([])
    outside = Scripted(bundle, {})
    result = Simulation(bundle, outside, start_of(bundle), people=people).run()
    assert (status(result), outside.sent) == ("stopped", [])


def test_two_persons_answer_at_once() -> None:
    """The first answer counts."""

    class Both(Crowd):
        def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
            first = super().acts(bundle, state, now)
            others = [
                e.HandOffResolved(at=now, step="a", handoff="h1", choice="take_over", by="person:b") for _ in first
            ]
            return [*first, *others]

    bundle = bundle_of(do("a", "svc.once"))
    people = Both([asked("did_not")])
    result = Simulation(bundle, Scripted(bundle, {("a", "do"): [LOST]}), start_of(bundle), people=people).run()
    assert status(result) == "succeeded"
    assert len(facts(result, e.HandOffResolved)) == 1


def test_the_log_in_memory_keeps_the_stores_obligations() -> None:
    log = MemoryLog()
    log.report(start_of(PAIR))
    state = fold_all(log.events)
    turn = advance(PAIR, state, now=STARTED_AT, fence=0, connect=Scripted(PAIR, {}).connect)
    with pytest.raises(SequenceConflict):
        log.append(turn.events, seq=2, fence=0)
    with pytest.raises(SequenceConflict):
        log.append(turn.events, seq=1, fence=1)
    log.append(turn.events, seq=1, fence=0)
    with pytest.raises(GuardTaken):
        log.append(turn.events, seq=2, fence=0)
    outcome = e.CallApplied(at=STARTED_AT, step="a", purpose="do")
    log.report(outcome)
    with pytest.raises(AlreadyReported):
        log.report(outcome)
    with pytest.raises(AlreadyReported):
        log.append([outcome], seq=3, fence=0)


def test_a_clock_that_only_its_owner_turns() -> None:
    clock = VirtualClock(7)
    assert (clock.now(), clock.monotonic()) == (7, 7)
    clock.at += DOWNTIME
    assert clock.now() == 7 + DOWNTIME


def test_nobody_comes() -> None:
    """A question that nobody answers: the run rests, and says whom it needs."""
    bundle = bundle_of(do("a", "svc.once"))
    result = Simulation(bundle, Scripted(bundle, {("a", "do"): [LOST]}), start_of(bundle)).run()
    assert (result.end, result.spins) == ("rests", 0)


def test_patience_ends() -> None:
    bundle = bundle_of(do("a") + "  - id: w\n    wait: 3 days\n")
    simulation = Simulation(bundle, Scripted(bundle, {("a", "do"): [NOT_SENT] * 3}), start_of(bundle), patience=2)
    assert simulation.run().end == "exhausted"
    simulation.patience = 400
    assert simulation.run().end == "ended"
