"""I26: a log replayed gives the decisions that it holds, whoever decides and whenever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from runner.core import events as e
from runner.core import fold as folding
from runner.core.commands import Ask, Command, Recall, Record, Send
from runner.core.decide import decide, fail_request
from runner.core.fold import fold
from runner.core.recall import LogSource, recall
from runner.core.state import State
from runner.language.bundle import Bundle


def replay_faults(
    bundle: Bundle, events: Sequence[e.Event], state: State | None = None, versions: Mapping[str, Bundle] | None = None
) -> Iterator[str]:
    """Every decision of the log that deciding again does not give. Facts of one decision stand behind each other.

    What stands behind a RunMoved is decided by the one of `versions` that it names.
    """
    state = state or State()
    before: list[Send] = []
    rest: list[e.Event] = []
    for seq, event in enumerate(events, 1):
        if rest and event == rest[0]:
            rest, state = rest[1:], fold(state, event)
            continue
        if isinstance(event, e.RunMoved):
            bundle = (versions or {})[event.bundle]
        elif event.kind_of_fact == "decision" and not isinstance(event, e.RunStarted | e.RunHeld):
            state, commands = _decided(bundle, state, event.at, events[: seq - 1])
            before = [command for command in commands if isinstance(command, Send)] or before
            rest = [command.event for command in commands if isinstance(command, Record)]
            if rest and event == rest[0]:
                rest, state = rest[1:], fold(state, event)
                continue
            if not _is_decided(bundle, state, event, commands, before):
                yield f"{seq} {type(event).__name__} {event.step}: deciding again gives {_shown(commands)}"
        if not isinstance(event, e.CallIntended | e.RecordLocked):
            before = []
        state = fold(state, event)


def reading_faults(events: Sequence[e.Event]) -> Iterator[str]:
    """Every fact after which the state is not what it is where each change makes a copy, or that changed an older one."""
    read = copied = State()
    for seq, event in enumerate(events, 1):
        before, own = read, dict(read.__dict__)
        read = fold(read, event)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(folding, "thaw", lambda state: state)
            copied = fold(copied, event)
        if before.__dict__ != own or before.__class__ is not State:
            yield f"{seq} {type(event).__name__} {event.step}: the state before it is another one now"
        if read != copied:
            yield f"{seq} {type(event).__name__} {event.step}: the state after it depends on what was copied"


def _decided(bundle: Bundle, state: State, now: int, events: Sequence[e.Event]) -> tuple[State, tuple[Command, ...]]:
    """What is decided, once all that is asked for has been read back."""
    while True:
        commands = decide(bundle, state, now)
        wanted = next((command for command in commands if isinstance(command, Recall)), None)
        if wanted is None:
            return state, commands
        state = recall(state, wanted, LogSource(events))


def _is_decided(
    bundle: Bundle, state: State, event: e.Event, commands: Sequence[Command], before: Sequence[Send]
) -> bool:
    if any(isinstance(command, Record) and command.event == event for command in commands):
        return True
    sends = [*before, *(command for command in commands if isinstance(command, Send))]
    if isinstance(event, e.CallIntended):
        return any(_same(send, event) for send in sends)
    if isinstance(event, e.ApprovalLapsed):
        return any(event.approval == name for send in sends for name, _ in send.gates)
    asked = [command for command in commands if isinstance(command, Ask)]
    if isinstance(event, e.ApprovalRequested):
        return any(_is_asked(ask, event) for ask in asked)
    asks = [ask.request for ask in asked]
    if any(request.step == event.step for request in asks) and isinstance(event, e.StepFailed | e.HandedOff):
        return True
    if isinstance(event, e.RecordLocked):
        return any(event.record in send.lock and event.step == send.step for send in sends)
    said = event.why if isinstance(event, e.DraftRecorded) else getattr(event, "summary", "")
    summary = said.removeprefix("It could not be looked up: ")
    return any(fail_request(bundle, state, send, summary, event.at) == event for send in sends)


def _is_asked(ask: Ask, event: e.ApprovalRequested) -> bool:
    """Who may be asked is added at the question; where they are too few, so is who would be asked half-way."""
    known, request = replace(event, asked=(), shown={}, hash=""), replace(ask.request, shown={})
    return known in (request, replace(request, by=(*request.by, ask.escalate_to), half=0))


def _same(send: Send, event: e.CallIntended) -> bool:
    names = ("step", "purpose", "part", "parts", "generation", "attempt", "action", "key", "limit", "start_no", "word")
    return all(getattr(send, name) == getattr(event, name) for name in names)


def _shown(commands: Sequence[Command]) -> str:
    return ", ".join(
        f"{type(command.event).__name__} {command.event.step}"
        if isinstance(command, Record)
        else f"send {command.step}/{command.purpose}/{command.part}"
        if isinstance(command, Send)
        else f"ask {command.request.approval}"
        if isinstance(command, Ask)
        else f"recall {command.scope}"
        for command in commands
    )
