"""What is to be done about the calls of one step, forward or undo: the next attempt, a timer, a look-up, a person.

A step's call is one, or one per part where the action fans out. `CallPlan` says what is common to all of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_event
from typing import Any

from runner.contract import Action, Json, Purpose, Retry
from runner.core import events as e
from runner.core.commands import Command, Record, Send
from runner.core.keys import make_key, name_key
from runner.core.paths import generation_at, is_closed_at, is_in
from runner.core.retry import NOTHING, READS, SEND, Move, may_repeat, next_move
from runner.core.state import Call, HandOff, State, replace
from runner.quick import quick

UNKNOWN_CHOICES: tuple[str, ...] = ("happened", "did_not", "compensate", "take_over")
UNKNOWN_CHOICES_UNDO = ("happened", "did_not", "done", "stands", "take_over")
SEVERAL_CHOICES = ("happened", "did_not", "compensate", "take_over")


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class CallPlan:
    """One step's call: what is sent, under which rules.

    `input` is the step's whole input. `asks_by` is how an unknown outcome is looked up ("" = it cannot be).
    `author_key` replaces our reference. `is_closed`: no further attempt may start.
    """

    path: str
    purpose: Purpose
    action_name: str
    action: Action
    input: Mapping[str, Json]
    retry: Retry
    limit: int
    owner: str
    asks_by: Purpose | None = None
    find: Mapping[str, Json] | None = None
    author_key: str = ""
    word: str = ""
    records: tuple[str, ...] = ()
    lock: tuple[str, ...] = ()
    is_closed: bool = False
    keeps_input: bool = True
    """Its input goes into the log beside its request; that of an agent's turn is made of what stands there already."""
    gates: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The approvals that cover it, with the hash of each part as it was approved."""
    whole: Mapping[str, Json] | None = None
    """Of a draft: what would have been sent in its place."""

    @property
    def sent(self) -> Mapping[str, Json]:
        """The step's whole input: in a draft too, what the step sends when it is live."""
        return self.input if self.whole is None else self.whole

    @property
    def parts(self) -> int:
        """How many calls this is."""
        return len(parted(self.input, self.action.fan_out)) if self.action.fan_out else 1


def parted(whole: Mapping[str, Json], field: str) -> list[Mapping[str, Json]]:
    """The input of each part, where the action fans out over a `field`."""
    value = whole.get(field) if field else None
    if not isinstance(value, list):
        return [whole]
    return [{**whole, field: item} for item in value]


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a step's calls stand: what to do now, and what has ended without an effect (part -> move)."""

    commands: tuple[Command, ...] = ()
    ended: Mapping[int, Move] | None = None
    is_moving: bool = False
    """A call is open, a timer runs, or commands are due: the step has not come to its end."""


def is_out(state: State, path: str, purpose: Purpose) -> bool:
    """Every part of a step's call is on its way: nothing is to be done about it."""
    first = state.calls.get((path, purpose, 0))
    if first is None or not first.is_open:
        return False
    others = [state.calls.get((path, purpose, part)) for part in range(1, first.parts)]
    return all(call is not None and call.is_open for call in others)


def progress(state: State, plan: CallPlan, now: int) -> Progress:
    """What to do about all parts of a call: one fact, which may change what follows, or else every call that is due."""
    records: list[Command] = []
    sends: list[Send] = []
    ended: dict[int, Move] = {}
    is_moving = False
    starts = state.next_start
    parts = parted(plan.input, plan.action.fan_out)
    for part, input_ in enumerate(parts):
        call = state.calls.get((plan.path, plan.purpose, part))
        if call is not None and call.is_applied:
            continue
        if call is None and plan.is_closed:
            continue
        commands, move = _part_commands(state, plan, part, input_, call, now)
        if move.word == "end":
            ended[part] = move
            continue
        is_moving = True
        for command in commands:
            if not isinstance(command, Send):
                records.append(command)
                continue
            more: dict[str, Any] = {}
            if command.purpose == "do":
                is_numbered = call is not None and call.generation == command.generation
                more["start_no"] = start_no = call.start_no if call is not None and is_numbered else starts
                starts = max(starts, start_no + 1)
            if not sends and command.purpose == plan.purpose and plan.keeps_input and not _knows_input(state, plan):
                more["whole_input"] = plan.sent
            sends.append(replace(command, **more) if more else command)
    return Progress(commands=tuple(records[:1] or sends), ended=ended, is_moving=is_moving)


def _knows_input(state: State, plan: CallPlan) -> bool:
    known = state.undo.get(plan.path) if plan.purpose == "undo" else state.steps.get(plan.path)
    return known is not None and bool(known.input)


def _part_commands(
    state: State, plan: CallPlan, part: int, input_: Mapping[str, Json], call: Call | None, now: int
) -> tuple[Sequence[Command], Move]:
    if _cannot_be_built(state, plan, part):
        return [], NOTHING
    if call is None:
        return [first_send(state, plan, part, input_)], SEND
    question = open_question(state, plan, part, call)
    if question is not None:
        return _from_answer(plan, part, call, question, now), NOTHING
    move = next_move(
        call, plan.action, plan.retry, now=now, can_look_up=plan.asks_by is not None, is_closed=plan.is_closed
    )
    if call.due is not None and now >= call.due:
        fired = e.TimerFired(at=now, step=plan.path, timer=call.due_for, due=call.due, purpose=plan.purpose, part=part)
        return [Record(event=fired)], move
    if move.word == "send":
        return [next_send(state, plan, part, input_, call)], move
    if move.word == "wait":
        timer = e.TimerSet(
            at=now, step=plan.path, timer=move.timer, due=move.due, purpose=plan.purpose, part=part, why=call.summary
        )
        return [Record(event=timer)], move
    if move.word == "look_up":
        return look_up(state, plan, part, input_, call, now), move
    if move.word == "ask":
        return [ask(state, plan, part, "unknown", move.summary, now)], move
    return [], move


def _cannot_be_built(state: State, plan: CallPlan, part: int) -> bool:
    """A person has been asked about this part's request."""
    question = state.handoff_about(plan.path, plan.purpose, part)
    return question is not None and question.kind == "request" and not question.choice


def first_send(
    state: State, plan: CallPlan, part: int, input_: Mapping[str, Json], generation: int | None = None
) -> Send:
    """The first attempt of a generation; of the first one at that place, if none is given."""
    if generation is None:
        generation = generation_at(state, plan.path)
    purpose = "draft" if state.mode == "draft" and plan.purpose == "do" else plan.purpose
    key = make_key(flow=state.flow, run=state.run, step=plan.path, part=part, purpose=purpose, generation=generation)
    if plan.author_key:
        key = name_key(plan.author_key, part=part if plan.parts > 1 else None, generation=generation)
    return Send(
        step=plan.path, purpose=plan.purpose, part=part, parts=plan.parts, generation=generation, attempt=1,
        action=plan.action_name, key=key, limit=plan.limit, input=input_, word=plan.word, records=plan.records,
        lock=plan.lock, fans_out=plan.action.fan_out != "",
        gates=tuple([(name, hashes[part]) for name, hashes in plan.gates]),
    )  # fmt: skip


def next_send(state: State, plan: CallPlan, part: int, input_: Mapping[str, Json], call: Call) -> Send:
    """The next attempt: a new generation where a person raised it, else the frozen request again."""
    if call.renew:
        return first_send(state, plan, part, input_, call.generation + 1)
    return Send(
        step=plan.path, purpose=plan.purpose, part=part, parts=call.parts, generation=call.generation,
        attempt=call.attempt + 1, action=plan.action_name, key=call.key, limit=plan.limit, frozen=call.request,
        frozen_hash=call.request_hash, records=plan.records, lock=plan.lock, word=plan.word,
    )  # fmt: skip


def open_question(state: State, plan: CallPlan, part: int, call: Call) -> HandOff | None:
    """The hand-off that decides about this call's last attempt, if there is one and it is not consumed."""
    question = state.handoff_about(plan.path, plan.purpose, part)
    if question is None or question.opened_seq < call.intended_seq or call.renew:
        return None
    return question if question.choice in ("", "happened", "did_not") else None


def _from_answer(plan: CallPlan, part: int, call: Call, question: HandOff, now: int) -> list[Command]:
    if not question.choice:
        return []
    settled = e.CallSettled(
        at=now, step=plan.path, purpose=plan.purpose, part=part, generation=call.generation, attempt=call.attempt,
        result="applied" if question.choice == "happened" else "not_applied", by=question.by,
        output=question.output, external_id=question.external_id, summary=question.reason,
    )  # fmt: skip
    return [Record(event=settled)]


def look_up(state: State, plan: CallPlan, part: int, input_: Mapping[str, Json], call: Call, now: int) -> list[Command]:
    """Asks the service what became of the call: by our key, or by the fields the business knows."""
    assert plan.asks_by is not None
    asked = state.calls.get((plan.path, plan.asks_by, part))
    if asked is None or asked.intended_seq < max(call.intended_seq, call.again_seq):
        return [_asking(state, plan, part, input_, call.key, asked)]
    if asked.last == "applied":
        return [_settle(state, plan, part, call, asked, now)]
    move = next_move(asked, READ_ACTION, READS, now=now, can_look_up=False, is_closed=False)
    if asked.due is not None and now >= asked.due:
        fired = e.TimerFired(
            at=now, step=plan.path, timer=asked.due_for, due=asked.due, purpose=plan.asks_by, part=part
        )
        return [Record(event=fired)]
    if move.word == "send":
        return [_asking(state, plan, part, input_, call.key, asked)]
    if move.word == "wait":
        timer = e.TimerSet(
            at=now, step=plan.path, timer="retry", due=move.due, purpose=plan.asks_by, part=part, why=asked.summary
        )
        return [Record(event=timer)]
    if move.word == "end":
        return [ask(state, plan, part, "unknown", f"It could not be looked up: {asked.summary}", now)]
    return []


READ_ACTION = Action(name="look-up", effect="read")


def _asking(state: State, plan: CallPlan, part: int, input_: Mapping[str, Json], key: str, before: Call | None) -> Send:
    assert plan.asks_by is not None
    return Send(
        step=plan.path, purpose=plan.asks_by, part=part, parts=1,
        generation=before.generation if before else generation_at(state, plan.path),
        attempt=before.attempt + 1 if before else 1, action=plan.action_name, key=key,
        limit=min(plan.limit, 30_000), input=plan.find if plan.asks_by == "find" and plan.find is not None else input_,
    )  # fmt: skip


def _settle(state: State, plan: CallPlan, part: int, call: Call, asked: Call, now: int) -> Command:
    if (asked.count or 0) > 1:
        summary = f"{asked.count} records match; it is not clear which one is ours."
        return ask(state, plan, part, "several", summary, now)
    found = asked.count == 1
    return Record(
        event=e.CallSettled(
            at=now, step=plan.path, purpose=plan.purpose, part=part, generation=call.generation, attempt=call.attempt,
            result="applied" if found else "not_applied", by="find" if plan.asks_by == "find" else "lookup",
            adopted=found and plan.asks_by == "find", output=asked.output if found else {},
            external_id=asked.external_id if found else "",
        )
    )  # fmt: skip


def ask(state: State, plan: CallPlan, part: int, kind: str, summary: str, now: int) -> Command:
    """Hands the question "did it happen?" to the step's owner, who may also have the service asked once more."""
    question = did_it_happen(
        state, plan.path, plan.purpose, part, kind=kind, owner=plan.owner, summary=summary, now=now
    )
    call = state.calls[plan.path, plan.purpose, part]
    may_ask = plan.asks_by is not None or (not plan.is_closed and may_repeat(call, plan.action, now))
    if may_ask and not call.settled:
        question = replace_event(question, choices=("again", *question.choices))
    return Record(event=question)


def did_it_happen(
    state: State, path: str, purpose: str, part: int, *, kind: str, owner: str, summary: str, now: int
) -> e.HandedOff:
    """The question itself. Once forward is closed the rest may go on without the answer, which is said once."""
    choices: tuple[str, ...] = UNKNOWN_CHOICES
    if purpose == "undo":
        kind, choices = "compensation_unknown", UNKNOWN_CHOICES_UNDO
    elif is_closed_at(state, path) and (state.stops_here or is_let_go(state, path)):
        choices = ("happened", "did_not", "take_over")
    elif is_closed_at(state, path):
        choices = ("happened", "did_not", "go_on", "take_over")
    return e.HandedOff(
        at=now, step=path, handoff=next_handoff(state), kind=kind, owner=owner, choices=choices,
        summary=summary or "No answer came.", purpose=purpose, part=part,
    )  # fmt: skip


def fire_due(state: State, now: int, scope: str = "") -> tuple[Command, ...]:
    """The first timer of a scope whose time has come, of a step or of a call, where nobody else lets it fire."""
    for path, step in state.steps.items():
        if step.due is not None and now >= step.due and is_in(path, scope):
            timer = "late" if step.event else "wait"
            generation = generation_at(state, path)
            return (Record(event=e.TimerFired(at=now, step=path, timer=timer, due=step.due, generation=generation)),)
    for (path, purpose, part), call in state.calls.items():
        if call.due is not None and now >= call.due and is_in(path, scope):
            fired = e.TimerFired(at=now, step=path, timer=call.due_for, due=call.due, purpose=purpose, part=part)
            return (Record(event=fired),)
    return ()


def is_let_go(state: State, path: str) -> bool:
    """The owner of a call whose outcome is unknown said: go on with the rest."""
    return any(h.step == path and h.purpose == "do" and h.choice == "go_on" for h in state.handoffs.values())


def next_handoff(state: State) -> str:
    """The id of the run's next hand-off: h1, h2 …"""
    return f"h{state.asked + 1}"
