"""One turn of a run: from what has been reported to what is recorded next, ready for one transaction. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from runner.contract import Connector, Json, Request
from runner.core import events as e
from runner.core.commands import Recall, Send
from runner.core.decide import fail_request, settle
from runner.core.fold import fold
from runner.core.state import Disposition, Effect, Held, State
from runner.core.status import standing_of
from runner.engine.asking import ask, why_lapsed
from runner.engine.bounds import Asker, Want
from runner.engine.driven import OPEN_DESK, Desk
from runner.engine.limits import Limits
from runner.errors import EvaluationError, RequestError, SettingsError
from runner.language.bundle import Bundle
from runner.quick import quick
from runner.store.facts import Append, Awaited, EffectChange, HandOffChange, NewRun, RecordIsHeld, RunColumns
from runner.store.messages import Message

Connect = Callable[[str], Connector]
"""The connector of a connection, as the run's bundle pins it. Raises SettingsError."""
Admit = Callable[[State, tuple[Send, ...]], tuple[Send, ...]]
"""Which of the calls that are due may be intended now; the run waits in line for the others."""
URGENT = frozenset({"undo", "undo_lookup", "lookup"})


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one turn records, and the calls whose intents are among it (to be performed after COMMIT).

    `records` must be free for it; `waits` are the records that others keep from it. `effects` are those that changed,
    as they are at its end. `recall` is to be read back after COMMIT, and then it is decided again; so it is where it
    `has_more`.
    """

    before: State
    after: State
    events: tuple[e.Event, ...]
    intents: tuple[e.CallIntended, ...]
    records: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    effects: Mapping[int, Effect] = field(default_factory=dict)
    recall: Recall | None = None
    has_more: bool = False
    messages: tuple[Message, ...] = ()


class _Eyes:
    """Sees every state of a turn, because an effect may change and leave the state with its item in the same turn."""

    def __init__(self, state: State) -> None:
        self.last = state.effects
        self.changed: dict[int, Effect] = {}

    def see(self, state: State) -> None:
        if state.effects is not self.last:
            changed = {no: effect for no, effect in state.effects.items() if self.last.get(no) is not effect}
            self.changed.update(changed)
            self.last = state.effects


NOT_KEPT: Mapping[str, RecordIsHeld] = MappingProxyType({})


def advance(
    bundle: Bundle, state: State, *, now: int, fence: int, connect: Connect,
    reported: tuple[e.Event, ...] = (), slots: int = 64, kept: Mapping[str, RecordIsHeld] = NOT_KEPT,
    admit: Admit | None = None, desk: Desk = OPEN_DESK,
) -> Turn:  # fmt: skip
    """Folds what is reported, decides until nothing is left to record, prepares at most `slots` calls.

    A request that cannot be built is the failure of its step, and is decided about in the same turn; so is a record
    that would be waited for in a circle. `kept` are the records that others keep from this run: what needs one waits.
    """
    before = state
    eyes = _Eyes(state)
    events: list[e.Event] = []
    for event in reported:
        state = fold(state, event)
        eyes.see(state)
        events.append(event)
    while True:
        settled = settle(bundle, state, now, eyes.see)
        state, sends = settled.state, settled.sends
        events.extend(settled.facts)
        waiting = [(send, why) for send in sends if (why := _why_kept(send, kept)) is not None] if kept else []
        going = tuple([send for send in sends if _why_kept(send, kept) is None] if kept else sends)[:slots]
        going = going if admit is None else admit(state, going)
        for wanted in settled.asks:
            asked = ask(bundle, state, wanted, connect, desk)
            state = fold(state, asked)
            events.append(asked)
            if not isinstance(asked, e.ApprovalRequested):
                break
        if settled.asks:
            continue
        intents: list[e.CallIntended] = []
        circles = [(send, why) for send, why in waiting if why.circle]
        failed = _deadlocked(*circles[0], now) if circles else None
        for send in going if failed is None else ():
            made = _intend(bundle, state, send, now=now, fence=fence, connect=connect, desk=desk)
            if made is None:
                continue
            if not isinstance(made, e.CallIntended):
                failed = made
                break
            intents.append(made)
        if failed is None:
            break
        state = fold(state, failed)
        events.append(failed)
    for event in (*(_waits(state, waiting, now) if waiting else ()), *_locks(going, now), *intents):
        state = fold(state, event)
        events.append(event)
    eyes.see(state)
    return Turn(
        before=before, after=state, events=tuple(events), intents=tuple(intents),
        records=tuple(dict.fromkeys([record for send in going for record in send.records])),
        waits=tuple(dict.fromkeys([why.record for _, why in waiting])), effects=eyes.changed, recall=settled.recall,
        has_more=settled.has_more, messages=desk.messages(bundle, state, events),
    )  # fmt: skip


def _why_kept(send: Send, kept: Mapping[str, RecordIsHeld]) -> RecordIsHeld | None:
    return next((kept[record] for record in send.records if record in kept), None)


def _deadlocked(send: Send, why: RecordIsHeld, now: int) -> e.Event:
    links = "; ".join(f"run {run} waits for {record}, which run {other} works on" for run, record, other in why.circle)
    return e.StepFailed(at=now, step=send.step, kind="deadlock", summary=f"They wait for each other: {links}.")


def _waits(state: State, waiting: Sequence[tuple[Send, RecordIsHeld]], now: int) -> list[e.Event]:
    """What is new about who keeps which step."""
    new = {
        send.step: why
        for send, why in waiting
        if state.held.get(send.step) != Held(why=why.why, name=why.record, by=why.by_run)
    }
    return [e.RunHeld(at=now, step=step, why=why.why, name=why.record, by_run=why.by_run) for step, why in new.items()]


def _locks(going: Sequence[Send], now: int) -> list[e.Event]:
    steps = {record: send.step for send in going[::-1] for record in send.lock}
    return [e.RecordLocked(at=now, step=step, record=record) for record, step in steps.items()]


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


def _intend(
    bundle: Bundle, state: State, send: Send, *, now: int, fence: int, connect: Connect, desk: Desk
) -> e.Event | None:
    connection, _, action = send.action.partition(".")
    try:
        if send.gates and (lapsed := why_lapsed(bundle, state, send, now, connect, desk)) is not None:
            return lapsed
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


def passes_of(turn: Turn) -> tuple[str, ...]:
    """What must not be held by a person for these calls; see `Append.passes`."""
    names = {f"connection:{intent.action.partition('.')[0]}" for intent in turn.intents}
    if not turn.after.root.closed and any(intent.purpose not in URGENT for intent in turn.intents):
        names.add(f"flow:{turn.after.flow}")
    return tuple(sorted(names))


def append_of(
    turn: Turn, *, fence: int, previous_hash: str, told: State, columns: RunColumns, follow: NewRun | None = None,
    rests: bool = False, passes: tuple[str, ...] = (),
) -> Append:  # fmt: skip
    """The turn as one conditional write. `told` is the state that effects and hand-offs were last written for."""
    return Append(
        run=turn.after.run, seq=turn.before.seq, fence=fence, events=turn.events, columns=columns,
        previous_hash=previous_hash, effects=_effect_changes(told, turn),
        handoffs=_handoff_changes(told, turn.after), records=turn.records, since=turn.after.started_at,
        waits=turn.waits if turn.before.held or turn.after.held else None,
        frees=tuple(turn.after.locks) if turn.after.has_ended else (),
        awaited=_awaited(told, turn), rest=_rest(turn.after), follow=follow,
        messages=turn.messages, rests=rests, passes=passes,
    )  # fmt: skip


def _rest(state: State) -> Disposition | None:
    """At the end: what the effects of ended items are now that nothing more is done about them."""
    if not state.has_ended:
        return None
    return "by_hand" if state.left("by_hand") and state.is_taken_over else "stands" if state.left("stands") else None


def _awaited(told: State, turn: Turn) -> tuple[Awaited, ...] | None:
    """What the run waits for, where that has changed, or may have by a report."""
    before = {path: step for path, step in turn.before.steps.items() if step.event}
    after = {path: step for path, step in turn.after.steps.items() if step.event}
    is_unknown = not told.run and (after or turn.after.is_taken_over or turn.after.is_erased)
    if before.keys() == after.keys() and not is_unknown:
        return None
    return tuple(
        Awaited(path=path, event=step.event, match=step.match, since=step.since) for path, step in after.items()
    )


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


def _effect_changes(told: State, turn: Turn) -> tuple[EffectChange, ...]:
    """Effects that are not as they were last written; those too that have left the state with their item since."""
    known = told.effects is turn.before.effects
    if known and not turn.effects:
        return ()
    changed: dict[int, Effect] = {}
    for effects in (turn.effects,) if known else (turn.before.effects, turn.effects, turn.after.effects):
        changed |= {no: effect for no, effect in effects.items() if told.effects.get(no) is not effect}
    return tuple(
        [
            EffectChange(
                start_no=no, path=effect.path, part=effect.part, action=effect.action, disposition=effect.disposition,
                external_id=effect.external_id, note=effect.note,
            )
            for no, effect in changed.items()
        ]
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
