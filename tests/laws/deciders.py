"""Everybody who answers approvals: in time, late, twice, without being asked, to what was asked before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from runner.contract import Connector
from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.state import Gate, State
from runner.errors import AlreadySo, NotPossible
from runner.language.bundle import Bundle
from runner.people.approvals import Decision, preview, report_for
from tests.laws.staff import EVERYBODY, Staff


class Deciders:
    """They answer through the same door as people do; some answers reach the log when the matter is another one."""

    def __init__(self, rng: random.Random, connect: Callable[[str], Connector], staff: Staff) -> None:
        self.rng = rng
        self.connect = connect
        self.staff = staff
        self.is_calm = False
        self._due: dict[str, int] = {}
        self._old: list[e.ApprovalDecided] = []

    def times(self, state: State, now: int) -> Iterator[int]:
        """When somebody answers each approval that is open; nobody for some, until all is calm."""
        for name, gate in state.gates.items():
            if gate.status == "open":
                at = self._when(name, gate, now)
                if at:
                    yield at

    def _when(self, name: str, gate: Gate, now: int) -> int:
        what = f"{name} {gate.round} {len(gate.yes)} {gate.hash} {self.is_calm}"
        if what not in self._due:
            delay = self.rng.choice([0, 1_000, 90_000, 7_199_999, 7_200_000, 50_000_000, -1])
            self._due[what] = 0 if delay < 0 and not self.is_calm else now + max(delay, 0) * (not self.is_calm)
        return self._due[what]

    def decide(self, bundle: Bundle, state: State, now: int) -> list[e.Event]:
        """What reaches the log now."""
        if self._old and self.rng.random() < 0.3:
            old = self._old.pop(0)
            return [replace(old, at=now)]
        for name, gate in state.gates.items():
            if gate.status == "open" and 0 < self._when(name, gate, now) <= now:
                made = self._answer(bundle, state, name, gate, now)
                self._due[f"{name} {gate.round} {len(gate.yes)} {gate.hash} {self.is_calm}"] = (
                    now + 1_000 if now < gate.due else 0
                )
                if made is not None:
                    return [made]
        return []

    def _answer(self, bundle: Bundle, state: State, name: str, gate: Gate, now: int) -> e.Event | None:
        if now >= gate.due and not self.is_calm:  # a clock that was behind let it through
            return e.ApprovalDecided(
                at=now, step=name.removesuffix(UNDO), approval=name, answer="yes", by=gate.asked[0], round=gate.round,
                hash=gate.hash,
            )  # fmt: skip
        may = self.staff.entitled(bundle, state, gate.by, now)
        left = [one for one in may if all(yes.by != one for yes in gate.yes)]
        by = self.rng.choice(left if left and (self.is_calm or self.rng.random() < 0.7) else EVERYBODY)
        number = gate.round if self.is_calm or self.rng.random() < 0.9 else gate.round - 1
        hash_ = gate.hash if self.is_calm or self.rng.random() < 0.9 else "another"
        answer = self.rng.choices(["yes", "no"], [5, 1])[0]
        decision = Decision(approval=name, round=number, hash=hash_, answer=answer, by=by)  # type: ignore[arg-type]
        try:
            decision = self._with_more(bundle, state, name, gate, decision)
            made = report_for(bundle, state, decision, now, self.connect, self.staff)
        except (NotPossible, AlreadySo):
            return None
        assert isinstance(made, e.ApprovalDecided)
        if not self.is_calm and self.rng.random() < 0.2:
            self._old.append(made)  # it is sent again later, or only then
            return made if self.rng.random() < 0.5 else None
        return made

    def _with_more(self, bundle: Bundle, state: State, name: str, gate: Gate, decision: Decision) -> Decision:
        """Edits, or leaves items out, where that may be."""
        words = bundle.step(name).approval if not name.endswith(UNDO) else None
        if words is None or self.rng.random() < 0.5:
            return decision
        if words.may_leave_out and len(gate.covers) > 1:
            decision = replace(decision, left_out=(self.rng.choice(sorted(gate.covers)),))
        if words.may_edit:
            step, _, field = words.may_edit[0].partition(".")
            edits = {step: {field: f"edited by {decision.by}"}} if step in gate.covers else {}
            seen = preview(bundle, state, name, edits, self.connect, self.staff).seen if edits else ""
            decision = replace(decision, edits=edits, seen=seen)
        return decision
