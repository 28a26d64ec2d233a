"""Deciding: one person's answer to one exact content, checked again, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from runner.contract import Json, Purpose, digest
from runner.core import events as e
from runner.core.calls import parted
from runner.core.consents import UNDO
from runner.core.fold import fold
from runner.core.gates import CHANGES
from runner.core.state import Gate, State
from runner.engine.asking import Connect, requests_of
from runner.engine.driven import Desk, Outside
from runner.engine.past import Known, read_state
from runner.errors import AlreadySo, EvaluationError, NotPossible, RequestError, SequenceConflict, SettingsError
from runner.language.bundle import Bundle
from runner.store.facts import AlreadyReported, Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What a person decides; `changes` is a no whose `comment` says what should be changed.

    `hash` and `round` are those of what they were shown, `proof` is how they proved who they are (code, sign_in, link,
    token). `edits` maps the path of a covered step to its fields' new texts, `seen` is the digest of how they will be
    sent (`Preview.seen`). `left_out` are the covered steps of items that are not to be done.
    """

    approval: str
    round: int
    hash: str
    answer: Literal["yes", "no", "changes"]
    by: str
    proof: str = ""
    comment: str = ""
    edits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seen: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What the covered steps send, path -> what they are given, and path -> each of their requests. `hashes` are those
    that an approval of it binds.
    """

    inputs: Mapping[str, Mapping[str, Json]]
    requests: Mapping[str, Sequence[Mapping[str, Json]]]
    hashes: Mapping[str, Sequence[str]]

    @property
    def seen(self) -> str:
        """What stands for all of it."""
        return digest(self.hashes)


async def decide(
    store: Store, outside: Outside, desk: Desk, run: str, decision: Decision, clock: Callable[[], int]
) -> Known:
    """Records a decision where the run stands as it was looked at; else it is looked at again. The run's state with it.
    Raises NotPossible."""
    while True:
        state, end = read_state(store, run)
        bundle = outside.bundle(state.bundle)
        now = max(clock(), state.at)
        connect = partial(outside.connector, bundle)
        report = report_for(bundle, state, decision, now, connect, desk)
        try:
            return fold(state, report), await store.report(run, report, end.seq)
        except AlreadyReported:
            raise AlreadySo("you have decided this already") from None
        except SequenceConflict:
            continue


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
    if decision.proof != "sign_in" and desk.demands_sign_in(bundle, state, decision.approval):
        raise NotPossible(
            "this is decided only by somebody who has signed in: open the page, sign in, and decide there"
        )
    wants_changes = decision.answer == "changes"
    if wants_changes and not decision.comment.strip():
        raise NotPossible("say what should be changed")
    edited: dict[str, Json] = {}
    if decision.answer == "yes":
        refuse_left_out(bundle, decision.approval, gate, decision.left_out)
    if decision.edits and decision.answer == "yes":
        new = preview(bundle, state, decision.approval, decision.edits, connect, desk)
        if new.seen != decision.seen:
            raise NotPossible("look first at what you wrote as it will be sent, and decide then")
        edited = {path: {"input": new.inputs[path], "hashes": new.hashes[path]} for path in decision.edits}
    return e.ApprovalDecided(
        at=now, step=decision.approval.removesuffix(UNDO), approval=decision.approval, round=gate.round,
        answer="no" if wants_changes else decision.answer, by=decision.by, hash=gate.hash, proof=decision.proof,
        comment=CHANGES + decision.comment if wants_changes else decision.comment,
        edited=edited, left_out=decision.left_out if decision.answer == "yes" else (),
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


def items_of(gate: Gate) -> dict[str, list[str]]:
    """The items of a list that an approval asks about: path of the item -> its covered steps that are still to be done.

    Of nested lists the innermost.
    """
    found: dict[str, list[str]] = {}
    for path, covered in gate.covers.items():
        if covered.item and path not in gate.used:
            parts = path.split("/")
            last = max(at for at, part in enumerate(parts) if part.isdigit())
            found.setdefault("/".join(parts[: last + 1]), []).append(path)
    return found


def refuse_left_out(bundle: Bundle, approval: str, gate: Gate, left_out: Sequence[str]) -> None:
    """Raises NotPossible for what may not be left out: whole items of a list may, where the flow says so."""
    if not left_out:
        return
    wanted, items = set(left_out), items_of(gate)
    whole = {path for paths in items.values() if wanted.issuperset(paths) for path in paths}
    if not _words(bundle, approval)[1] or wanted - whole:
        raise NotPossible("nothing of this may be left out" if not wanted - whole else _not_left_out(wanted - whole))
    if wanted.issuperset(gate.covers.keys() - gate.used):
        raise NotPossible("nothing would be left; say no instead")


def _not_left_out(paths: set[str]) -> str:
    return f"{min(paths)} may not be left out: it is no item of a list, or only a part of one"


def preview(
    bundle: Bundle, state: State, approval: str, edits: Mapping[str, Mapping[str, str]], connect: Connect, desk: Desk
) -> Preview:
    """What an approval lets through from now on, with these edits. Raises NotPossible."""
    gate, may_edit = gate_of(state, approval), _words(bundle, approval)[0]
    inputs = {path: covered.input for path, covered in gate.covers.items() if path not in gate.used}
    for path, texts in edits.items():
        for name, text in texts.items():
            if path not in inputs or f"{path.rpartition('/')[2]}.{name}" not in may_edit:
                raise NotPossible(f"{path}.{name} may not be edited here")
            inputs[path] = _with(inputs[path], name.split("."), text)
    requests: dict[str, Sequence[Mapping[str, Json]]] = {}
    hashes: dict[str, Sequence[str]] = {}
    purpose: Purpose = "undo" if approval.endswith(UNDO) else "do"
    try:
        for path, whole in inputs.items():
            action = gate.covers[path].action
            parts = tuple(parted(whole, bundle.actions[action].fan_out))
            sent = requests_of(bundle, path, action, parts, purpose, connect, desk)
            requests[path], hashes[path] = [body for body, _ in sent], [hash_ for _, hash_ in sent]
    except (RequestError, EvaluationError, SettingsError) as error:
        raise NotPossible(f"this cannot be sent: {error}") from None
    return Preview(inputs=inputs, requests=requests, hashes=hashes)


def _with(whole: Mapping[str, Json], path: Sequence[str], text: str) -> Mapping[str, Json]:
    """A record with another text at that place."""
    first, *rest = path
    return {**whole, first: _with(whole[first], rest, text) if rest else text}
