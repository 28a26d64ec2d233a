"""Plays a run with the real core on a virtual clock: outcomes come from a script, people answer when it rests."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from runner.contract import Action, Connector, Json, Outcome, Purpose, Request
from runner.core import events as e
from runner.core.fold import fold
from runner.core.recall import LogSource, recall
from runner.core.state import Effect, State
from runner.core.status import standing_of
from runner.demo import make_project
from runner.engine.advance import Turn, advance, columns_of
from runner.engine.perform import outcome_event
from runner.language.bundle import Bundle, assemble
from runner.language.project import Project
from runner.language.schemas import read_inputs
from runner.people.operations import Order, report_for
from runner.store.abridged import Abridged, Choosing, item_of
from runner.store.facts import EffectView, LogRow, RunView
from runner.telling.lines import Teller
from runner.telling.story import Story
from runner.telling.tree import Line

START = 1_788_000_000_000
"""2026-08-29 10:40:00 UTC."""
RUN = "260829-k3x9m2qa"
TICK = 120
FLOW = "signup_to_paid"
INPUTS: Mapping[str, Json] = {"name": "Ben Okafor", "email": "ben@customer.test", "plan": "basic", "amount": 4000}

Script = Mapping[tuple[str, str], Sequence[Outcome]]
"""(step, purpose) -> what its attempts bring, in order; then, and for the rest, they are applied."""


@cache
def bundle_of(text: str = "", flow: str = "small") -> Bundle:
    """The demo's flow as a run pins it, or a flow of this text in the demo's project."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        make_project(folder, backoffice_url="http://127.0.0.1:9", smtp_port=9)
        project = Project.open(folder)
        return assemble(text, f"flows/{flow}.yaml", project.facts()) if text else project.bundle(FLOW)


@dataclass(kw_only=True)
class Play:
    """One run on a virtual clock. `orders` (or facts from outside) are given one after the other whenever the run rests;
    `until` is where the clock is stopped until the first order."""

    bundle: Bundle
    script: Script = field(default_factory=dict)
    orders: Sequence[Order | e.Event] = ()
    inputs: Mapping[str, Json] = field(default_factory=lambda: dict(INPUTS))
    mode: str = ""
    key: str = ""
    until: int = START + 30 * 86_400_000
    now: int = START
    state: State = field(default_factory=State)
    rows: list[LogRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = {letter: itertools.count(1) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
        self._effects: dict[int, Effect] = {}
        self.names: dict[str, str] = {}
        self._left = {name: list(outcomes) for name, outcomes in self.script.items()}

    def run(self) -> Play:
        """Plays it until nothing moves any more."""
        flow = self.bundle.flow
        inputs = read_inputs(flow.inputs, self.inputs)
        key = self.key or RUN
        record = f"customer/{inputs['email']}" if flow.record and "email" in inputs else ""
        self._write(
            e.RunStarted(
                at=self.now, run=RUN, flow=flow.id, mode=self.mode or flow.mode, bundle=self.bundle.digest,
                owner=flow.owner, starter="person:me", inputs=inputs, run_key=key, trigger={"id": key}, record=record,
            )
        )  # fmt: skip
        orders = iter(self.orders)
        while self._turn() or self._wake() or self._answer(orders):
            continue
        return self

    def story(self, zone: str = "UTC") -> Story:
        """The run as the doors tell it."""
        effects, folded = self.abridged().told_of(self.effects())
        return Story(
            view=self.view(), bundle=self.bundle, state=self.state, effects=tuple(effects), folded=tuple(folded),
            told=self.told(self.rows), zone=zone, now=max(self.now, self.state.at), names=self.names,
            events=tuple(row.event for row in self.rows if row.event is not None),
        )  # fmt: skip

    def told(self, rows: Sequence[LogRow], read: Abridged | None = None) -> tuple[Line, ...]:
        """The timeline out of these rows."""
        teller = Teller(self.bundle, None, *([read] if read else []))
        for row in rows:
            teller.read(row)
        self.names = dict(teller.scopes.names)
        return teller.told([handoff.step for handoff in self.state.open_handoffs])

    def abridged(self) -> Abridged:
        """The log as the store abridges it."""
        chosen = Choosing("")
        for row in self.rows:
            chosen.read(row.seq, row.type, row.step, row.at)
        chosen.finish()
        seqs = {*chosen.outside, *(seq for some in chosen.items.values() for seq in some)}
        for item, (first, last) in chosen.opened_again().items():
            seqs |= {row.seq for row in self.rows[first - 1 : last] if item_of(f"{row.step}/").startswith(item)}
        return Abridged(
            rows=[row for row in self.rows if row.seq in seqs], done=chosen.done, made_good=chosen.made_good,
            begun=chosen.begun, undone_at=chosen.undone_at, kept=chosen.kept(),
        )  # fmt: skip

    def _turn(self) -> bool:
        turn = advance(
            self.bundle, self.state, now=self.now, fence=1, connect=lambda name: Preparing(self.bundle.actions)
        )
        for event in turn.events:
            self._write(event)
        for outcome in self._outcomes(turn):
            self._write(outcome)
        if turn.recall is not None:
            self.state = recall(self.state, turn.recall, LogSource([row.event for row in self.rows if row.event]))
        return bool(turn.events) or turn.recall is not None

    def _outcomes(self, turn: Turn) -> Iterator[e.Event]:
        for intent in turn.intents:
            self.now += TICK
            step = intent.step if (intent.step, intent.purpose) in self._left else "*/" + intent.step.rpartition("/")[2]
            left = self._left.get((step, intent.purpose))
            yield outcome_event(intent, left.pop(0) if left else self._applied(intent), self.now)

    def _applied(self, intent: e.CallIntended) -> Outcome:
        if intent.purpose in ("find", "lookup", "undo_lookup"):
            return Outcome(result="applied", count=0)
        if intent.purpose == "read":
            return Outcome(result="applied", output={"code": "basic", "label": "Basic", "price": 4000})
        letter = intent.action.partition(".")[2][:1].upper()
        known = f"{letter}-{next(self._numbers[letter])}"
        return Outcome(result="applied", output={"id": known, "status": "new"}, external_id=known)

    def _wake(self) -> bool:
        wake_at = standing_of(self.state).wake_at
        if wake_at is None or wake_at > self.until:
            return False
        self.now = max(self.now + 1, wake_at)
        return True

    def _answer(self, orders: Iterator[Order | e.Event]) -> bool:
        order = next(orders, None)
        if order is None:
            return False
        self.now += 60_000
        self.until = START + 30 * 86_400_000
        if isinstance(order, Order):
            self._write(report_for(self.bundle, self.state, order, self.now))
        else:
            self._write(replace(order, at=self.now))
        return True

    def _write(self, event: e.Event) -> None:
        self.state = fold(self.state, event)
        self._effects.update(self.state.effects)
        self.rows.append(
            LogRow(
                run=RUN, seq=self.state.seq, type=type(event).__name__, at=event.at, step=event.step,
                external_id=event.external_id, event=event, hash="",
            )
        )  # fmt: skip

    def effects(self) -> list[EffectView]:
        """The effects table as the store would have it."""
        return [
            EffectView(
                run=RUN, start_no=no, path=each.path, part=each.part, action=each.action, disposition=each.disposition,
                external_id=each.external_id, note=each.note,
            )
            for no, each in sorted(self._effects.items())
        ]  # fmt: skip

    def view(self) -> RunView:
        """The run's row as the store would have it."""
        columns, started = columns_of(self.state), self.rows[0].event
        assert isinstance(started, e.RunStarted)
        return RunView(
            run=RUN, flow=self.state.flow, title=self.bundle.flow.title, mode=self.state.mode, run_key=started.run_key,
            rerun=0, bundle=self.bundle.digest, status=columns.status, phase=columns.phase, seq=self.state.seq,
            owner=self.state.owner, record=self.state.record, starter=self.state.starter, started_at=START,
            updated_at=self.state.at, ended_at=columns.ended_at, wake_at=columns.wake_at,
            waiting_for=columns.waiting_for, at_step=columns.at_step, needs=columns.needs, summary=columns.summary,
            continues="", stands=sum(each.disposition in ("pending", "stands") for each in self._effects.values()),
        )  # fmt: skip


class Preparing:
    """Prepares requests and sends nothing: outcomes come from the script."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self.actions = actions

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        made: dict[str, Json] = {"action": action, "input": dict(input), "key": key, "purpose": purpose}
        if action == "send":  # a mail is known by the id that we give it
            made |= {"message_id": f"<{key[:8]}@shop.test>", "recipient": input["to"]}
        return Request.of(made)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        raise AssertionError("nothing is sent here")

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return "http://127.0.0.1:9"


_: Connector = Preparing({})


def refused(summary: str, reason: Any = "invalid") -> Outcome:
    """The service said no."""
    return Outcome(result="refused", reason=reason, summary=summary)


def unknown(summary: str = "The connection broke before an answer came.") -> Outcome:
    """No clear answer came."""
    return Outcome(result="unknown", reason="connection", summary=summary)


def not_sent(summary: str = "127.0.0.1:9 cannot be connected to.") -> Outcome:
    """Nothing left."""
    return Outcome(result="not_sent", reason="connection", summary=summary)


def found(external_id: str) -> Outcome:
    """A look-up found it."""
    return Outcome(result="applied", count=1, external_id=external_id, output={"id": external_id, "status": "new"})
