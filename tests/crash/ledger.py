"""The verdict on one case: the log of the run against what the receivers truly did (INVARIANTS: I1, I4, I5, I7, I13-I15, I19, I27)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.clock import MachineClock
from runner.core import events as e
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
        rows = store.log(store.runs(RunFilter())[0].run)
        return sum(isinstance(row.event, e.CallUnknown) and row.event.take_over for row in rows)
    finally:
        store.close()


def violations(folder: Path, receivers: Receivers, *, wanted: str) -> list[str]:
    """What is wrong, one sentence each; empty when the case holds."""
    store = open_store(folder, clock=MachineClock(), writable=False)
    try:
        runs = store.runs(RunFilter())
        if len(runs) != 1:
            return [f"{len(runs)} runs for one business event"]
        found = [f"the chain of {fault.run} does not hold at {fault.seq}: {fault.what}" for fault in store.verify()]
        if runs[0].status not in wanted.split("|"):
            found.append(f"the run ended {runs[0].status}, not {wanted}")
        events = [row.event for row in store.log(runs[0].run) if row.event is not None]
        order = [what for branch in _branches_of(runs[0].flow) for what in _order(events, branch)]
        return found + _against_receivers(events, receivers) + order + _dispositions(store, runs[0].run)
    finally:
        store.close()


def _against_receivers(events: Sequence[e.Event], receivers: Receivers) -> list[str]:
    found: list[str] = []
    intended: dict[str, e.CallIntended] = {}
    for event in events:
        if isinstance(event, e.CallIntended) and event.purpose in ("do", "undo") and event.request:
            intended[str(event.request.get("message_id") or event.key)] = event
    truth = receivers.effects + receivers.mails
    for key, times in truth.items():
        if key not in intended:
            found.append(f"an orphan: {times} effects of {key}, which no intent names")
        elif times > 1:
            found.append(f"{times} effects of {intended[key].step} {intended[key].purpose} ({intended[key].action})")
    applied = {(*event.call, event.generation) for event in events if isinstance(event, e.CallApplied)}
    settled = {
        (*event.call, event.generation)
        for event in events
        if isinstance(event, e.CallSettled) and event.result == "applied"
    }
    for key, intent in intended.items():
        said = (*intent.call, intent.generation) in applied | settled
        if intent.action.startswith(("service.", "mail.")) and said != (truth[key] > 0):
            found.append(f"{intent.step} {intent.purpose}: the log says {said}, the receiver {truth[key]} effects")
    return found


def _branches_of(flow: str) -> set[str]:
    return set(BRANCH_OF.values()) if flow == "beside" else {""}


def _order(events: Sequence[e.Event], branch: str) -> list[str]:
    """Forward stops at ForwardClosed; compensations start in the reverse order of the forward starts.

    With a branch, only what stands in it and what stands in none: the branches do not wait for each other.
    """
    found: list[str] = []
    is_closed = False
    starts: dict[str, int] = {}
    undone: list[int] = []
    sent: Counter[tuple[str, str, int, int]] = Counter()
    for event in events:
        if isinstance(event, e.ForwardClosed):
            is_closed = True
        if not isinstance(event, e.CallIntended) or (branch and BRANCH_OF.get(event.step, branch) != branch):
            continue
        if event.purpose == "do":
            starts[event.step] = max(starts.get(event.step, 0), event.start_no)
            if is_closed:
                found.append(f"a forward intent of {event.step} after ForwardClosed")
        if event.purpose == "undo" and starts[event.step] not in undone:
            undone.append(starts[event.step])
        if event.action in ONCE:
            sent[event.step, event.purpose, event.part, event.generation] += 1
    if undone != sorted(undone, reverse=True):
        found.append(f"compensations started in the order {undone}")
    return found + [f"{name} was sent {times} times in one generation" for name, times in sent.items() if times > 1]


def _dispositions(store: SqlStore, run: str) -> list[str]:
    return [
        f"{effect.path} is {effect.disposition} at the end"
        for effect in store.effects(run)
        if effect.disposition == "pending"
    ]


def mails_of(ledger: Path) -> list[dict[str, Any]]:
    """The accepted messages of a mail server's ledger file."""
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
