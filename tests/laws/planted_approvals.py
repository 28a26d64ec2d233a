"""Planted mistakes about approvals. A law must see each."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest

from runner.core import changes, consents, fold, forward, gates, undoing
from runner.core import events as e
from runner.core.state import Gate, State, replace
from runner.engine import advance, asking
from tests.laws.planted import after, before, mistake
from tests.laws.staff import Staff


@mistake("a covered step does not wait for its approval", "approve_beside", "approve_items")
def unasked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(forward, "consent", lambda place: gates.Consent())


@mistake("a no is read as a yes", "approve_one")
def no_is_yes(patch: pytest.MonkeyPatch) -> None:
    right = fold._READERS[e.ApprovalDecided]
    patch.setattr(
        fold, "_READERS",
        {**fold._READERS, e.ApprovalDecided: lambda state, event: right(state, replaced(event, answer="yes"))},
    )  # fmt: skip


@mistake("silence is a yes", "approve_on", "approve_one")
def silence_is_yes(patch: pytest.MonkeyPatch) -> None:
    right = consents.read_timer

    def wrong(state: State, event: e.TimerFired) -> State:
        state = right(state, event)
        name = event.step + (consents.UNDO if event.purpose == "undo" else "")
        gate = state.gates[name]
        if gate.status != "late":
            return state
        gate = replace(gate, status="yes", until=event.at + 10**12)
        state = replace(state, gates={**state.gates, name: gate})
        return state if event.purpose else changes.set_step(state, event.step, status="done", outcome="yes")

    patch.setattr(fold, "read_timer", wrong)


@mistake("one yes is enough where two are needed", "approve_two")
def one_is_enough(patch: pytest.MonkeyPatch) -> None:
    _gate_at_decision(patch, lambda gate: replace(gate, needs=1))


@mistake("an answer after the deadline counts", "approve_one", "approve_two", "approve_beside")
def late_counts(patch: pytest.MonkeyPatch) -> None:
    _gate_at_decision(patch, lambda gate: replace(gate, due=10**15))


@mistake("an answer to an older round counts", "approve_rows", "approve_both", "approve_edits")
def old_round_counts(patch: pytest.MonkeyPatch) -> None:
    right = fold._READERS[e.ApprovalDecided]

    def wrong(state: State, event: e.ApprovalDecided) -> State:
        gate = state.gates.get(event.approval)
        if gate is not None:
            event = replaced(event, round=gate.round, hash=gate.hash)
        return right(state, event)

    patch.setattr(fold, "_READERS", {**fold._READERS, e.ApprovalDecided: wrong})


def _gate_at_decision(patch: pytest.MonkeyPatch, change: Any) -> None:
    """The gate is another one while an answer is read."""
    right = fold._READERS[e.ApprovalDecided]

    def wrong(state: State, event: e.ApprovalDecided) -> State:
        gate = state.gates.get(event.approval)
        if gate is None or gate.status != "open":
            return right(state, event)
        changed = right(replace(state, gates={**state.gates, event.approval: change(gate)}), event)
        kept = replace(changed.gates[event.approval], due=gate.due, needs=gate.needs)
        return replace(changed, gates={**changed.gates, event.approval: kept})

    patch.setattr(fold, "_READERS", {**fold._READERS, e.ApprovalDecided: wrong})


@mistake("a yes is good for ever", "approve_both", "approve_rows", "approve_edits")
def good_for_ever(patch: pytest.MonkeyPatch) -> None:
    before(
        patch, gates, "_why_lapsed", lambda place, gate: ((place, replace(gate, until=10**15)), {})
    )  # fmt: skip


@mistake("a yes is used again for an item that is done anew", "approve_again")
def used_again(patch: pytest.MonkeyPatch) -> None:
    before(
        patch, gates, "_why_lapsed", lambda place, gate: ((place, replace(gate, used=frozenset())), {})
    )  # fmt: skip


@mistake("where it goes is not looked at again", "approve_one", "approve_both")
def destination_unseen(patch: pytest.MonkeyPatch) -> None:
    def wrong(bundle: Any, path: str, action: str, part: Any, purpose: Any, connect: Any, desk: Any) -> Any:
        connector = connect(action.partition(".")[0])
        request = connector.prepare(action.partition(".")[2], part, key=asking.NO_KEY, purpose=purpose)
        return request.body, request.hash

    patch.setattr(asking, "_prepared", wrong)


@mistake("who said yes is not looked at again", "approve_pause")
def people_unseen(patch: pytest.MonkeyPatch) -> None:
    right = asking.why_lapsed

    def wrong(*args: Any) -> Any:
        lapsed = right(*args)
        return None if lapsed is not None and lapsed.why.endswith("any more") else lapsed

    patch.setattr(advance, "why_lapsed", wrong)


@mistake("nothing is looked at again at the moment of sending", "approve_both", "approve_one")
def nothing_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(advance, "why_lapsed", lambda *_: None)


@mistake("what is sent is evaluated anew", "approve_both")
def evaluated_anew(patch: pytest.MonkeyPatch) -> None:
    right = gates.consent
    patch.setattr(forward, "consent", lambda place: replaced(right(place), input=None, gates=()))


@mistake("an item that was left out is sent", "approve_rows")
def left_out_sent(patch: pytest.MonkeyPatch) -> None:
    right = fold._READERS[e.ApprovalDecided]
    patch.setattr(
        fold, "_READERS",
        {**fold._READERS, e.ApprovalDecided: lambda state, event: right(state, replaced(event, left_out=()))},
    )  # fmt: skip


@mistake("only one of two approvals is asked", "approve_both")
def first_gate_only(patch: pytest.MonkeyPatch) -> None:
    after(patch, gates, "_gates_over", lambda names, *_: iter(list(names)[:1]))


@mistake("an edit keeps the yes of who had not seen it", "approve_edits")
def edit_keeps_yes(patch: pytest.MonkeyPatch) -> None:
    right = consents._edited

    def wrong(gate: Gate, edited: Any, yes: Any) -> Gate:
        return replace(right(gate, edited, yes), yes=gate.yes)

    patch.setattr(consents, "_edited", wrong)


@mistake("a compensation does not wait for its approval", "approve_one", "approve_letters")
def undo_unasked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(undoing, "_approved", lambda place, plan, by: (None, plan))


@mistake("the starter approves too", "approve_one", "approve_two")
def starter_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Staff, "entitled", lambda self, bundle, state, by, now: self.may(by, now, ""))
