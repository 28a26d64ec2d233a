"""Mistakes planted into the real engine and its store, each of which a law must see in some seed.

Those of the engine and the store stand here; those of the core are the laws' own (`tests.laws.planted`), played by the
real engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runner.contract import Outcome
from runner.core import events as e
from runner.engine import advance, carrier, perform
from runner.engine.alarm import Alarm
from runner.engine.carrier import Carrier
from runner.errors import SequenceConflict, StoreUnwritable
from runner.store import batch as store_batch
from runner.store import work as store_work
from runner.store.batch import Batch
from runner.store.facts import Append, LogEnd
from runner.store.log import chained, encode
from runner.store.sql import SqlStore
from tests.laws import planted_approvals, planted_lists, planted_locks, planted_waits
from tests.laws.planted import MISTAKES as OF_THE_CORE
from tests.laws.planted import Plant, after, before
from tests.trust.sim.play import play

ROOMS = (planted_approvals, planted_lists, planted_locks, planted_waits)
"""Rooms of the laws that register their mistakes when they are read."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong function, the flows that are tried, the law that must see it, and the kind of trouble that it takes."""

    plant: Plant
    flows: tuple[str, ...]
    law: str
    trouble: tuple[str, ...] | None = None


MISTAKES: dict[str, Mistake] = {}
PAIR = ("keyed_pair", "all_classes")
STALLS = ("stalled, then awake too late",) * 3


def mistake(name: str, law: str, *flows: str, trouble: tuple[str, ...] | None = None) -> Callable[[Plant], Plant]:
    """Registers one."""

    def keep(plant: Plant) -> Plant:
        MISTAKES[name] = Mistake(plant=plant, flows=flows or PAIR, law=law, trouble=trouble)
        return plant

    return keep


def end_of(append: Append) -> LogEnd:
    """Where the log would end if this were committed; the salts of a simulation are known."""
    seq, link = append.seq, append.previous_hash
    for entry in map(encode, append.events):
        seq += 1
        link = chained(link, append.run, seq, entry.at, entry.type, entry.step, entry.external_id, entry.digest)
    return LogEnd(seq=seq, hash=link)


# --- the engine ------------------------------------------------------------------------------------------------------


@mistake("a call leaves before its intent is written", "I1", "all_classes", "once_pair", "keyed_pair")
def intent_after_the_call(patch: pytest.MonkeyPatch) -> None:
    right = SqlStore.append

    async def wrong(store: SqlStore, append: Append) -> LogEnd:
        if not any(isinstance(event, e.CallIntended) for event in append.events):
            return await right(store, append)

        async def later() -> None:
            for _ in range(4):
                await asyncio.sleep(0)
            await right(store, append)

        asyncio.get_running_loop().create_task(later())
        return end_of(append)

    patch.setattr(SqlStore, "append", wrong)


@mistake("a commit that failed counts as done", "I1", "all_classes", "lookup_pair", "once_pair")
def failed_commit_counts(patch: pytest.MonkeyPatch) -> None:
    right = SqlStore.append

    async def wrong(store: SqlStore, append: Append) -> LogEnd:
        try:
            return await right(store, append)
        except StoreUnwritable:
            return end_of(append)

    patch.setattr(SqlStore, "append", wrong)


@mistake("a refused decision is carried out all the same", "I1")
def refused_decision_counts(patch: pytest.MonkeyPatch) -> None:
    right = SqlStore.append

    async def wrong(store: SqlStore, append: Append) -> LogEnd:
        try:
            return await right(store, append)
        except SequenceConflict:
            return end_of(append)

    patch.setattr(SqlStore, "append", wrong)


@mistake("an outcome is not recorded", "liveness")
def outcome_lost(patch: pytest.MonkeyPatch) -> None:
    right = advance.advance

    def wrong(*args: Any, reported: Any = (), **words: Any) -> Any:
        kept = tuple(event for event in reported if not isinstance(event, e.CallApplied))
        return right(*args, reported=kept, **words)

    patch.setattr(carrier, "advance", wrong)


@mistake("what a dead engine left open stays open", "liveness", trouble=("killed",) * 3)
def no_take_over(patch: pytest.MonkeyPatch) -> None:
    async def wrong(self: Carrier, driven: Any) -> None:
        return None

    patch.setattr(Carrier, "_take_over", wrong)


@mistake("what a dead engine had sent counts as not sent", "I8", "once_pair", "all_classes", trouble=("killed",) * 3)
def take_over_as_not_sent(patch: pytest.MonkeyPatch) -> None:
    before(patch, carrier, "taken_over", lambda *args, **words: (args, {"is_own": True}))


@mistake("a call leaves however late it is", "I32", trouble=STALLS)
def late_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(carrier, "LATEST_START", 10**12)


@mistake("the time that an intent is old counts from when the engine heard of its commit", "I32", trouble=STALLS)
def heard_of_late(patch: pytest.MonkeyPatch) -> None:
    right = Carrier._start_calls

    async def wrong(self: Carrier, driven: Any, turn: Any) -> Any:
        driven.asked_at = self._clock.monotonic()
        return await right(self, driven, turn)

    patch.setattr(Carrier, "_start_calls", wrong)


@mistake("a connector that breaks off has done nothing", "I8")
def breaking_off_is_refused(patch: pytest.MonkeyPatch) -> None:
    async def wrong(connector: Any, intent: Any, request: Any) -> Outcome:
        found = await perform.perform(connector, intent, request)
        broke = found.result == "unknown" and found.reason == "unknown"
        return replace(found, result="refused", reason="unavailable") if broke else found

    patch.setattr(carrier, "perform", wrong)


@mistake("a timeout is a clear no", "I8", "once_pair", "keyed_pair")
def timeout_is_refused(patch: pytest.MonkeyPatch) -> None:
    async def wrong(connector: Any, intent: Any, request: Any) -> Outcome:
        found = await perform.perform(connector, intent, request)
        return replace(found, result="refused", reason="unavailable") if found.reason == "timeout" else found

    patch.setattr(carrier, "perform", wrong)


@mistake("what is cut off by a stop was not sent", "I8", trouble=("stopped while calls are out",) * 3)
def stopped_is_not_sent(patch: pytest.MonkeyPatch) -> None:
    async def wrong(connector: Any, intent: Any, request: Any) -> Outcome:
        found = await perform.perform(connector, intent, request)
        return replace(found, result="not_sent") if found.reason == "interrupted" else found

    patch.setattr(carrier, "perform", wrong)


@mistake("nobody looks whose time has come", "liveness", "waits")
def no_alarm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Alarm, "_wake_due", lambda self: 30.0)


@mistake("the wake-up of a run is not written", "liveness", "waits", "few_tries", "always_refused")
def no_witness(patch: pytest.MonkeyPatch) -> None:
    after(patch, carrier, "columns_of", lambda columns, *_: replace(columns, wake_at=None))


@mistake("a state that is known is not read on", "liveness")
def stale_state(patch: pytest.MonkeyPatch) -> None:
    async def wrong(self: Carrier, driven: Any) -> None:
        driven.columns = None

    patch.setattr(Carrier, "_read_again", wrong)


# --- the store -------------------------------------------------------------------------------------------------------


@mistake(
    "the fence is not asked",
    "I10",
    "few_tries",
    "rows_beside",
    "all_classes",
    trouble=("stalled, then awake too late",) * 3,
)
def no_fence(patch: pytest.MonkeyPatch) -> None:
    right = Batch.seal

    def wrong(batch: Batch) -> Any:
        (fence,) = batch.ask("SELECT fence FROM meta")[0]
        (commit,) = batch.ask("SELECT commit_no FROM meta")[0]
        mine = batch.site.fence
        batch.site = replace(batch.site, fence=fence, commit_no=commit)
        return replace(right(batch), fence=mine)

    patch.setattr(Batch, "seal", wrong)


@mistake("the effects are not written", "I33")
def no_effects(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(advance, "_effect_changes", lambda told, turn: ())


@mistake("what stands at the end stays pending", "I33", "keyed_pair", "once_pair")
def stays_pending(patch: pytest.MonkeyPatch) -> None:
    def wrong(changes: Any, *_: Any) -> Any:
        return tuple(one for one in changes if one.disposition == "pending")

    after(patch, advance, "_effect_changes", wrong)


@mistake("the chain does not hold what came before", "I27")
def loose_chain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(store_batch, "chained", lambda previous, *rest: chained("", *rest))


@mistake("the row of a run says nothing of its end", "I27")
def no_end_in_the_row(patch: pytest.MonkeyPatch) -> None:
    def wrong(columns: Any, *_: Any) -> Any:
        return replace(columns, status="needs_person", ended_at=None) if columns.ended_at else columns

    after(patch, carrier, "columns_of", wrong)


@mistake("a person's word is taken and not written", "liveness", "reviews", "asks")
def word_not_written(patch: pytest.MonkeyPatch) -> None:
    right = SqlStore.report

    async def wrong(store: SqlStore, run: str, event: e.Event, *rest: Any) -> Any:
        return store.log_end(run) if isinstance(event, e.HandOffResolved) else await right(store, run, event, *rest)

    patch.setattr(SqlStore, "report", wrong)


@mistake("the same event starts two runs", "I29")
def started_twice(patch: pytest.MonkeyPatch) -> None:
    right = store_work.StartWork.plan

    def wrong(work: Any, planned: Batch) -> Any:
        planned.write()
        known = planned.ask(planned.words.by_key, work.new.flow, work.new.mode, work.new.run_key)
        work.new = replace(work.new, rerun=len(known), receipt=None)
        return right(work, planned)

    patch.setattr(store_work.StartWork, "plan", wrong)


# --- the core, played by the real engine -----------------------------------------------------------------------------

CORE: Mapping[str, str] = {
    "a call of class once is sent again after an unknown": "I7",
    "the attempt is part of the key": "I2",
    "the request is written anew for each attempt": "I3",
    "a compensation has the key of its step": "I15",
    "compensations run oldest first": "I14",
    "what is in doubt is undone as if it had happened": "I17",
    "a failed compensation is forgotten": "I18",
    "a key is used past its life": "I4b",
    "a look-up does not wait its delay": "I6b",
    "nothing found after a take-over is sent again": "I11",
    "a forward call is tried again after forward was closed": "I16",
    "a record that was found is compensated": "I13",
    "a final refusal is tried again": "I9b",
    "an expression without an answer skips its step": "I31",
    "a covered step does not wait for its approval": "I20",
    "what is sent is evaluated anew": "I21",
    "a yes is used again for an item that is done anew": "I22",
    "the starter approves too": "I23",
    "an item that was left out is sent": "I24",
    "silence is a yes": "I20",
    "a pause does not pause": "pause",
    "a step is sent without its lock": "locked first",
    "any event of that name will do": "fed",
}
"""Of the laws' own mistakes those that are played here too, and the law that sees them."""

MORE: Mapping[str, tuple[str, ...]] = {
    "compensations run oldest first": ("undo_classes", "all_classes", "keyed_pair"),
    "a forward call is tried again after forward was closed": ("keyed_pair", "once_pair", "branches_undone"),
}
TROUBLED = ("nothing found after a take-over is sent again",)
for _name, _law in CORE.items():
    _plant, _flows = OF_THE_CORE[_name]
    MISTAKES[_name] = Mistake(
        plant=_plant, flows=MORE.get(_name, _flows), law=_law, trouble=("killed",) * 3 if _name in TROUBLED else None
    )


def caught_by(name: str, seeds: int, first: int = 0) -> str:
    """Who sees a mistake, by which seed; empty if nobody does. The law that must see it is among those that do."""
    mistake = MISTAKES[name]
    with pytest.MonkeyPatch.context() as patch:
        mistake.plant(patch)
        for seed in range(first, first + seeds):
            for flow in mistake.flows:
                wrong = play(seed, [flow], trouble=mistake.trouble).wrong
                seen = next((what for what in wrong if what.startswith(f"{mistake.law}:")), "")
                if seen:
                    return f"{seen[:160]}, by {flow}, seed {seed}"
    return ""
