"""One turn of a run: from what has been reported to what is recorded next, ready for one transaction. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.contract import Connector, Json, Request
from runner.core import events as e
from runner.core.commands import Send
from runner.core.decide import fail_request, settle
from runner.core.fold import fold
from runner.core.state import State
from runner.core.status import standing_of
from runner.engine.limits import Asker, Limits, Want
from runner.errors import EvaluationError, RequestError, SettingsError
from runner.language.bundle import Bundle
from runner.store.facts import Append, EffectChange, HandOffChange, RunColumns

Connect = Callable[[str], Connector]
"""The connector of a connection, as the run's bundle pins it. Raises SettingsError."""
Admit = Callable[[State, tuple[Send, ...]], tuple[Send, ...]]
"""Which of the calls that are due may be intended now; the run waits in line for the others."""
URGENT = frozenset({"undo", "undo_lookup", "lookup"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one turn records, and the calls whose intents are among it (to be performed after COMMIT)."""

    before: State
    after: State
    events: tuple[e.Event, ...]
    intents: tuple[e.CallIntended, ...]
    free_record: str = ""


def advance(
    bundle: Bundle, state: State, *, now: int, fence: int, connect: Connect,
    reported: tuple[e.Event, ...] = (), slots: int = 64, admit: Admit | None = None,
) -> Turn:  # fmt: skip
    """Folds what is reported, decides until nothing is left to record, prepares at most `slots` calls.

    A request that cannot be built is the failure of its step, and is decided about in the same turn.
    """
    before = state
    events: list[e.Event] = []
    for event in reported:
        state = fold(state, event)
        events.append(event)
    while True:
        state, facts, sends = settle(bundle, state, now)
        events.extend(facts)
        sends = sends[:slots] if admit is None else admit(state, sends[:slots])
        intents: list[e.CallIntended] = []
        failed: e.Event | None = None
        for send in sends:
            made = _intend(bundle, state, send, now=now, fence=fence, connect=connect)
            if not isinstance(made, e.CallIntended):
                failed = made
                break
            intents.append(made)
        if failed is None:
            break
        state = fold(state, failed)
        events.append(failed)
    free_record = next((send.free_record for send in sends if send.free_record), "") if intents else ""
    for intent in intents:
        state = fold(state, intent)
        events.append(intent)
    return Turn(before=before, after=state, events=tuple(events), intents=tuple(intents), free_record=free_record)


def admit_within(limits: Limits) -> Admit:
    """Those for which there is a place at their connection."""

    def admit(state: State, sends: tuple[Send, ...]) -> tuple[Send, ...]:
        wants = [
            Want(
                connection=send.action.partition(".")[0], step=send.step,
                is_urgent=send.purpose in URGENT or state.root.closed,
            )
            for send in sends
        ]  # fmt: skip
        granted = limits.take(Asker(run=state.run, flow=state.flow, since=state.started_at), wants)
        return tuple(send for send, is_granted in zip(sends, granted, strict=True) if is_granted)

    return admit


def _intend(bundle: Bundle, state: State, send: Send, *, now: int, fence: int, connect: Connect) -> e.Event:
    connection, _, action = send.action.partition(".")
    try:
        if send.frozen is not None:
            request = Request(body=send.frozen, hash=send.frozen_hash)
        else:
            request = connect(connection).prepare(action, send.input, key=send.key, purpose=send.purpose)
    except (RequestError, EvaluationError, SettingsError) as error:
        return fail_request(bundle, state, send, str(error), now)
    return e.CallIntended(
        at=now, step=send.step, purpose=send.purpose, part=send.part, generation=send.generation,
        attempt=send.attempt, action=send.action, key=send.key, request_hash=request.hash,
        request=request.body if send.frozen is None else {}, input=send.whole_input, parts=send.parts,
        fans_out=send.fans_out,
        start_no=send.start_no, limit=send.limit, fence=fence, word=send.word,
    )  # fmt: skip


def append_of(turn: Turn, *, fence: int, previous_hash: str, told: State, columns: RunColumns) -> Append:
    """The turn as one conditional write. `told` is the state that effects and hand-offs were last written for."""
    return Append(
        run=turn.after.run, seq=turn.before.seq, fence=fence, events=turn.events, columns=columns,
        previous_hash=previous_hash, effects=_effect_changes(told, turn.after),
        handoffs=_handoff_changes(told, turn.after), free_record=turn.free_record,
    )  # fmt: skip


def columns_of(state: State, in_line: tuple[str, str] | None = None) -> RunColumns:
    """What the runs table says of this state. `in_line`: (step, what it waits for), where nothing else goes on."""
    standing = standing_of(state)
    status, at_step, waiting_for = standing.status, standing.at_step, standing.waiting_for
    if in_line is not None and not any(call.is_open for call in state.calls.values()):
        status = "waiting" if status in ("queued", "running") else status
        at_step, waiting_for = at_step if status == "needs_person" else in_line[0], in_line[1]
    summary = state.summary or (state.root.failure.summary if state.root.failure else "")
    return RunColumns(
        status=status, phase=standing.phase, wake_at=standing.wake_at, waiting_for=waiting_for, at_step=at_step,
        needs=standing.needs, ended_at=state.at if state.has_ended else None, summary=summary,
    )  # fmt: skip


def _effect_changes(before: State, after: State) -> tuple[EffectChange, ...]:
    if before.effects is after.effects:
        return ()
    return tuple(
        EffectChange(
            start_no=no, path=effect.path, part=effect.part, action=effect.action, disposition=effect.disposition,
            external_id=effect.external_id, note=effect.note,
        )
        for no, effect in after.effects.items()
        if before.effects.get(no) is not effect
    )  # fmt: skip


def _handoff_changes(before: State, after: State) -> tuple[HandOffChange, ...]:
    if before.handoffs is after.handoffs and before.status == after.status:
        return ()
    changed = [h for h in after.handoffs.values() if before.handoffs.get(h.id) is not h or after.has_ended]
    return tuple(
        HandOffChange(
            handoff=h.id, step=h.step, kind=h.kind, owner=h.owner, opened_at=h.opened_at, summary=h.summary,
            status="resolved" if h.choice or after.has_ended else "acknowledged" if h.acknowledged_by else "open",
            choices=h.choices, resolved_by=h.by, choice=h.choice,
        )
        for h in changed
    )  # fmt: skip


def frozen_request(state: State, intent: e.CallIntended) -> Mapping[str, Json]:
    """The request this intent sends: its own, or the one its generation began with."""
    return intent.request or state.calls[intent.call].request
