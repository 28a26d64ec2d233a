"""The verdict on one case: the log of the run against what the receivers truly did (INVARIANTS: I1, I4, I5, I7, I13-I15, I19, I27)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.clock import MachineClock
from runner.core import events as e
from runner.core.paths import is_in
from runner.engine.past import read_state
from runner.store.facts import RunFilter
from runner.store.sql import SqlStore, open_store
from tests.crash.project import BRANCH_OF

ONCE = frozenset({"service.once", "service.undo_once", "mail.send"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Receivers:
    """What truly happened: effects over HTTP by key, mails by Message-ID."""

    effects: Counter[str]
    mails: Counter[str]

    @classmethod
    def read(cls, ledger: dict[str, Any], mails: Sequence[dict[str, Any]], case: str) -> Receivers:
        """Of the HTTP service's ledger and the mail server's accepted messages of one case."""
        keys = Counter(effect["key"] or effect["reference"] for effect in ledger["effects"])
        mine = [mail for mail in mails if f"-{case}@" in mail["text"]]
        return cls(effects=keys, mails=Counter(mail["message_id"] for mail in mine))


def lost_at_once(folder: Path) -> int:
    """How many calls were out when an engine died."""
    store = open_store(folder, clock=MachineClock(), writable=False)
    try:
        rows = [row for view in store.runs(RunFilter()) for row in store.log(view.run)]
        return sum(isinstance(row.event, e.CallUnknown) and row.event.take_over for row in rows)
    finally:
        store.close()


def violations(folder: Path, receivers: Receivers, *, wanted: Sequence[tuple[str, str]]) -> list[str]:
    """What is wrong, one sentence each; empty when the case holds. `wanted`: (flow, how it ends) of each run."""
    store = open_store(folder, clock=MachineClock(), writable=False)
    try:
        runs = store.runs(RunFilter())
        found = [f"the chain of {fault.run} does not hold at {fault.seq}: {fault.what}" for fault in store.verify()]
        ended = sorted((view.flow, view.status) for view in runs)
        if ended != sorted(wanted):
            found.append(f"the runs ended {ended}, not {sorted(wanted)}")
        logs = {view.run: [row.event for row in store.log(view.run) if row.event is not None] for view in runs}
        for view in runs:
            found += [what for branch in _branches_of(view.flow) for what in _order(logs[view.run], branch)]
            found += _dispositions(store, view.run)
        facts = [event for events in logs.values() for event in events]
        again = [what for events in logs.values() for what in _asked_again(events)]
        return found + again + _against_receivers(facts, logs, receivers) + _events_fed(facts)
    finally:
        store.close()


def _asked_again(events: Sequence[e.Event]) -> list[str]:
    """An agent's model is never asked again for what it has answered."""
    answered: set[tuple[str, str, int]] = set()
    found = []
    for event in events:
        if isinstance(event, e.CallIntended) and event.action == "ai.agent" and event.call in answered:
            found.append(f"{event.step} was asked again, and had been answered")
        elif isinstance(event, e.CallApplied):
            answered.add(event.call)
    return found


def _events_fed(facts: Sequence[e.Event]) -> list[str]:
    """Each event that was sent was fed once."""
    fed = Counter(fact.event_id for fact in facts if isinstance(fact, e.EventReceived))
    sent = sum(isinstance(fact, e.Emitted) for fact in facts)
    return [] if len(fed) == sent == fed.total() else [f"{sent} events were sent, and fed {dict(fed)}"]


def _against_receivers(
    facts: Sequence[e.Event], logs: Mapping[str, Sequence[e.Event]], receivers: Receivers
) -> list[str]:
    found: list[str] = []
    intended: dict[str, e.CallIntended] = {}
    for event in facts:
        if isinstance(event, e.CallIntended) and event.purpose in ("do", "undo") and event.request:
            intended[str(event.request.get("message_id") or event.key)] = event
    truth = receivers.effects + receivers.mails
    for key, times in truth.items():
        if key not in intended:
            found.append(f"an orphan: {times} effects of {key}, which no intent names")
        elif times > 1:
            found.append(f"{times} effects of {intended[key].step} {intended[key].purpose} ({intended[key].action})")
    known: set[str] = set()
    for events in logs.values():
        known |= _applied(events)
    for key, intent in intended.items():
        if intent.action.startswith(("service.", "mail.")) and (key in known) != (truth[key] > 0):
            found.append(
                f"{intent.step} {intent.purpose}: the log says {key in known}, the receiver {truth[key]} effects"
            )
    return found


def _applied(events: Sequence[e.Event]) -> set[str]:
    """The keys (or Message-IDs) of the calls that one run's log says were done."""
    names: dict[tuple[Any, ...], str] = {}
    found: set[str] = set()
    for event in events:
        if not isinstance(event, e.CallEvent) or event.purpose not in ("do", "undo"):
            continue
        if isinstance(event, e.CallIntended) and event.request:
            names[*event.call, event.generation] = str(event.request.get("message_id") or event.key)
        if isinstance(event, e.CallApplied) or (isinstance(event, e.CallSettled) and event.result == "applied"):
            found.add(names.get((*event.call, event.generation), ""))
    return found


def _branches_of(flow: str) -> set[str]:
    return set(BRANCH_OF.values()) if flow == "beside" else {""}


def _order(events: Sequence[e.Event], branch: str) -> list[str]:
    """Forward stops at ForwardClosed; compensations start in the reverse order of the forward starts.

    With a branch, only what stands in it and what stands in none: the branches do not wait for each other.
    """
    found: list[str] = []
    closed: set[str] = set()
    starts: dict[str, int] = {}
    undone: list[int] = []
    sent: Counter[tuple[str, str, int, int]] = Counter()
    for event in events:
        if isinstance(event, e.ForwardClosed):
            closed.add(event.step)
        if isinstance(event, e.ScopeStarted):
            closed.discard(event.step)  # an item that was set aside begins anew
        if isinstance(event, e.CallNotSent):  # the machine was too busy, or the engine gone before it
            sent[event.step, event.purpose, event.part, event.generation] -= 1
        if isinstance(event, e.CompensationBegun):
            found += _newest_first(undone)
            undone = []
        if not isinstance(event, e.CallIntended) or (branch and BRANCH_OF.get(event.step, branch) != branch):
            continue
        if event.purpose == "do":
            starts[event.step] = max(starts.get(event.step, 0), event.start_no)
            if any(is_in(event.step, scope) for scope in closed):
                found.append(f"a forward intent of {event.step} after ForwardClosed")
        if event.purpose == "undo" and starts[event.step] not in undone:
            undone.append(starts[event.step])
        if event.action in ONCE:
            sent[event.step, event.purpose, event.part, event.generation] += 1
    found += _newest_first(undone)
    return found + [f"{name} was sent {times} times in one generation" for name, times in sent.items() if times > 1]


def _newest_first(undone: Sequence[int]) -> list[str]:
    in_order = sorted(undone, reverse=True)
    return [] if list(undone) == in_order else [f"compensations started in the order {list(undone)}"]


def _dispositions(store: SqlStore, run: str) -> list[str]:
    """Nothing is pending at the end, and the table says what the log does."""
    state, _ = read_state(store, run)
    folded: Counter[str] = Counter(effect.disposition for effect in state.effects.values())
    for listing in state.lists.values():
        folded.update(listing.left)
    folded["stands"] += folded.pop("kept", 0)
    told = Counter(effect.disposition for effect in store.effects(run))
    wrong = [] if told == +folded else [f"the table of effects says {dict(told)}, the log {dict(folded)}"]
    return wrong + [f"{count} effects are pending at the end" for count in (told["pending"],) if count]


def mails_of(ledger: Path) -> list[dict[str, Any]]:
    """The accepted messages of a mail server's ledger file."""
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
