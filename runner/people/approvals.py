"""Deciding: one person's answer to one exact content, checked again, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from runner.contract import Json
from runner.core import events as e
from runner.core.calls import parted
from runner.core.consents import UNDO
from runner.core.state import Gate, State
from runner.engine.asking import Connect, hashes_of
from runner.engine.driven import Desk, Outside
from runner.engine.past import read_state
from runner.errors import AlreadySo, EvaluationError, NotPossible, RequestError, SequenceConflict, SettingsError
from runner.language.bundle import Bundle
from runner.store.facts import AlreadyReported, Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What a person decides. `hash` and `round` are those of what they were shown, `proof` is how they proved who they
    are (code, sign_in, token). `edits` maps the path of a covered step to its fields' new texts.
    """

    approval: str
    round: int
    hash: str
    answer: Literal["yes", "no"]
    by: str
    proof: str = ""
    comment: str = ""
    edits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


async def decide(
    store: Store, outside: Outside, desk: Desk, run: str, decision: Decision, clock: Callable[[], int]
) -> None:
    """Records a decision where the run stands as it was looked at; else it is looked at again. Raises NotPossible."""
    while True:
        state, end = read_state(store, run)
        bundle = outside.bundle(state.bundle)
        now = max(clock(), state.at)
        connect = partial(outside.connector, bundle)
        report = report_for(bundle, state, decision, now, connect, desk)
        try:
            await store.report(run, report, end.seq)
        except AlreadyReported:
            raise AlreadySo("you have decided this already") from None
        except SequenceConflict:
            continue
        return


def gate_of(state: State, name: str) -> Gate:
    """An approval of a run. Raises NotPossible."""
    gate = state.gates.get(name)
    if gate is None:
        opened = [other for other, one in state.gates.items() if one.status == "open"]
        known = f"; open are {', '.join(opened)}" if opened else ""
        raise NotPossible(f'run {state.run} asks for no approval "{name}"{known}')
    return gate


def report_for(bundle: Bundle, state: State, decision: Decision, now: int, connect: Connect, desk: Desk) -> e.Event:
    """The decision as the fact it becomes. Raises NotPossible, AlreadySo with the sentence why it does not count."""
    gate = gate_of(state, decision.approval)
    mine = next((yes for yes in gate.yes if yes.by == decision.by), None)
    if mine is not None and decision.answer == "yes":
        raise AlreadySo("you have said yes to this already")
    if gate.status != "open":
        raise NotPossible(_what_became_of(gate))
    if now >= gate.due:
        raise NotPossible("the time to decide is over; silence was a no, and nothing was sent")
    if (gate.round, gate.hash) != (decision.round, decision.hash):
        raise NotPossible("what would be sent has changed since you looked at it; look at it again")
    if decision.by not in desk.entitled(bundle, state, gate.by, now):
        own = decision.by == state.starter
        why = "you have started this run" if own else f"it is asked of {' or '.join(gate.by)}"
        raise NotPossible(f"you cannot decide this: {why}")
    words = _words(bundle, decision.approval)
    edited = _edited(bundle, gate, decision, words[0], connect, desk) if decision.edits else {}
    stranger = next((path for path in decision.left_out if path not in gate.covers), "")
    if decision.left_out and (stranger or not words[1]):
        raise NotPossible("nothing of this may be left out" if not stranger else f"{stranger} is not part of this")
    return e.ApprovalDecided(
        at=now, step=decision.approval.removesuffix(UNDO), approval=decision.approval, round=gate.round,
        answer=decision.answer, by=decision.by, hash=gate.hash, proof=decision.proof, comment=decision.comment,
        edited=edited, left_out=decision.left_out,
    )  # fmt: skip


def _what_became_of(gate: Gate) -> str:
    who = ", ".join(yes.by for yes in gate.yes)
    return {
        "yes": f"this was decided already: {who} said yes",
        "no": f"this was decided already: {gate.no_by} said no",
        "late": "the time to decide is over; silence was a no, and nothing was sent",
        "lapsed": "this approval has lapsed, and it is asked again",
        "withdrawn": "this was withdrawn: the run does not go that way any more",
    }.get(gate.status, "this is not open")


def _words(bundle: Bundle, approval: str) -> tuple[tuple[str, ...], bool]:
    """(what may be edited, whether items may be left out)."""
    if approval.endswith(UNDO):
        return (), False
    words = bundle.step(approval).approval
    assert words is not None
    return words.may_edit, words.may_leave_out != ""


def _edited(
    bundle: Bundle, gate: Gate, decision: Decision, may_edit: tuple[str, ...], connect: Connect, desk: Desk
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for path, texts in decision.edits.items():
        covered = gate.covers.get(path)
        wrong = [name for name in texts if f"{path.rpartition('/')[2]}.{name}" not in may_edit]
        if covered is None or wrong:
            raise NotPossible(f"{path}.{wrong[0] if wrong else next(iter(texts))} may not be edited here")
        whole = {**covered.input, **texts}
        parts = tuple(parted(whole, bundle.actions[covered.action].fan_out))
        try:
            hashes = hashes_of(bundle, path, covered.action, parts, "do", connect, desk)
        except (RequestError, EvaluationError, SettingsError) as error:
            raise NotPossible(f"what you wrote cannot be sent: {error}") from None
        found[path] = {"input": whole, "hashes": hashes}
    return found
