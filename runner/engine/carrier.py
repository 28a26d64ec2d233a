"""Carries one run as far as it can go, and says what it waits for then.

Engines answer who asks for it, and when: a loop in this process (`embedded`) or a cluster's workers.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from runner.clock import Clock
from runner.contract import Outcome, Request
from runner.core import events as e
from runner.core.fold import fold
from runner.core.recall import recall
from runner.core.state import State
from runner.engine.advance import Admit, Turn, admit_within, advance, append_of, columns_of, frozen_request, passes_of
from runner.engine.driven import BLANK, ELSEWHERE, OPEN_DESK, Bell, Desk, Driven, Outside, Rest
from runner.engine.limits import Begun
from runner.engine.neighbours import Neighbours
from runner.engine.past import Past, StoredItems
from runner.engine.perform import LATEST_START, late_evidence, not_begun, outcome_event, perform, taken_over
from runner.engine.restored import Forgotten
from runner.engine.starting import following
from runner.errors import AmendsError, NotPossible, SequenceConflict, StoreError, StoreUnwritable
from runner.store.artifacts import fit
from runner.store.company import HeldByPerson, RunTaken
from runner.store.facts import AlreadyReported, NewRun, OwnOperation, RecordIsHeld, Started, Store

log = logging.getLogger("amends.engine")
AFTER_FAULT = 1.0
"""Seconds before a write is tried again."""

NEVER_SENT = Outcome(result="not_sent", reason="interrupted", summary="The engine was stopped before it was done.")
"""Of a call that was broken off before it had begun."""


class Carrier(Neighbours):
    """Carries runs on one store. `workers` bounds how many calls of a run are begun at once."""

    def __init__(
        self, store: Store, outside: Outside, clock: Clock, *, workers: int = 64, desk: Desk = OPEN_DESK
    ) -> None:  # fmt: skip
        super().__init__(store, clock)
        self._outside = outside
        self._desk = desk
        self._workers = workers
        self.past = Past(store)
        self._forgotten = Forgotten(store)

    # -- what each engine does in its own way --

    @abstractmethod
    async def start(self) -> None:
        """Takes up what was left open, then drives until `stop`."""

    @abstractmethod
    async def stop(self, grace: float | None = None) -> None:
        """No new call; open ones get `grace` seconds to answer, then are recorded as unknown."""

    @abstractmethod
    def is_at_work(self, run: str) -> bool:
        """Whether this process drives the run, or is about to."""

    def is_put_off(self, run: str) -> bool:
        """Whether the run could not be driven on just now, by no defect, and is tried again soon."""
        return False

    def _set_alarm(self, wake_at: int | None) -> None:
        """A run that is carried waits until then, if nothing else comes first."""

    # -- from outside --

    def begin(self, started: Started, event: e.RunStarted) -> None:
        """A run that was just started here: its state is known without reading."""
        self._remember(started, event)
        self.wake(started.run)

    def _remember(self, started: Started, event: e.RunStarted) -> None:
        if started.end is not None and not event.continues:
            self.past.begin(started.run, fold(BLANK, event), started.end)

    # -- one run --

    async def _read(self, run: str, woken: Bell) -> Driven:
        state, end = await self.past.take_up(run)
        bundle = self._outside.bundle(state.bundle)
        return Driven(run=run, bundle=bundle, state=state, end=end, woken=woken)

    async def _read_again(self, driven: Driven) -> None:
        """The state as the log has it now, from where it was known on."""
        driven.state, driven.end = await self.past.read(driven.run, (driven.state, driven.end))
        driven.bundle = self._outside.bundle(driven.state.bundle)
        driven.columns, driven.waits, driven.told = None, None, BLANK

    def _now(self, state: State) -> int:
        return max(self._clock.now(), state.at)

    async def carry(self, run: str, woken: Bell) -> Rest:
        """Carries a run until it has ended or waits. `woken` is set by whoever reports something meanwhile, and left
        set where it came too late to be looked at. Where another engine drives it, nothing is done.
        """
        try:
            if self._store.is_shared and not self._may_drive(run):
                self.past.leave(run)
                self.limits.leave(run)
                return ELSEWHERE
            driven = await self._read(run, woken)
            await self._drive(driven)
        except RunTaken as taken:
            self.limits.leave(run)
            log.warning("%s", taken)
            return ELSEWHERE
        if self._store.is_shared and not driven.is_left and self.limits.waits_for(run) is None:
            await self._store.give_back(run)
        columns = driven.columns
        return Rest(
            has_ended=driven.state.has_ended, due=columns.wake_at if columns else None, flow=driven.state.flow,
            status=columns.status if columns else "",
        )  # fmt: skip

    def _may_drive(self, run: str) -> bool:
        """Whether no other engine drives the run; the first decision takes it."""
        return self.past.has_begun(run) or self._store.fence_of(run) in (0, self._fence)

    async def _drive(self, driven: Driven) -> None:
        await self._take_over(driven)
        reported: tuple[e.Event, ...] = ()
        items: StoredItems | None = None
        try:
            while True:
                turn = await self._turn(driven, reported)
                reported = ()
                if turn.recall is not None:
                    items = items or StoredItems(self._store, driven.state)
                    driven.state = recall(driven.state, turn.recall, items)
                    continue
                if turn.has_more:
                    continue
                answered = await self._start_calls(driven, turn)
                if answered is None and not driven.calls:
                    break
                reported = await self._outcomes(driven) if answered is None else answered
        except asyncio.CancelledError:
            for call in driven.calls:
                call.cancel()
            raise
        finally:
            await self._keep_outcomes(driven)

    async def _take_over(self, driven: Driven) -> None:
        """Attempts that nobody makes any more, because their engine is gone or broke off, get their outcome."""
        lost = [(name, call) for name, call in driven.state.calls.items() if call.is_open]
        if lost and self._store.is_shared and not await self._store.take(driven.run):
            raise RunTaken(f"run {driven.run} is driven by another engine")
        for name, call in lost:
            is_own = driven.bundle.actions[call.action].own
            await self._report(driven, (taken_over(name, call, self._now(driven.state), is_own=is_own),))
        if lost:
            await self._read_again(driven)

    async def _keep_outcomes(self, driven: Driven) -> None:
        """Whatever has broken off the driving: the calls that are out get their outcome."""
        if driven.calls:
            await asyncio.wait(driven.calls)
            await self._report(driven, self._facts(driven))

    async def _turn(self, driven: Driven, reported: tuple[e.Event, ...]) -> Turn:
        """Decides and commits; what was reported is never lost, whatever becomes of the decision.

        What needs a record that others keep from this run waits; the rest goes on.
        """
        kept: dict[str, RecordIsHeld] = {}
        for held in driven.state.held.values():
            if (why := self._store.keeper(held.name, driven.run)) is not None:
                kept[held.name] = why
        while True:
            try:
                turn = self._decide(driven, reported, kept)
            except Exception:
                await self._report(driven, reported)
                raise
            columns = columns_of(turn.after, self.limits.waits_for(driven.run))
            waits = turn.waits if turn.before.held or turn.after.held else None
            if not turn.events and columns == driven.columns and waits == driven.waits:
                return turn
            goes_on = turn.intents or driven.calls or turn.has_more or turn.recall is not None
            rests = not goes_on and self.limits.waits_for(driven.run) is None
            try:
                driven.asked_at = self._clock.monotonic()
                driven.end = await self._store.append(
                    append_of(
                        turn, fence=self._fence, previous_hash=driven.end.hash, told=driven.told, columns=columns,
                        follow=self._follow(driven, turn), rests=rests,
                        passes=passes_of(turn) if self._store.is_shared else (),
                    )
                )  # fmt: skip
            except RunTaken:
                await self._report(driven, reported)
                raise
            except (SequenceConflict, StoreUnwritable, RecordIsHeld, HeldByPerson) as refused:
                if isinstance(refused, RecordIsHeld):
                    kept[refused.record] = refused
                elif isinstance(refused, HeldByPerson):  # on another engine, and not heard of yet
                    self.limits.hold(refused.name, refused.by)
                await self._begin_again(driven, turn, reported, refused)
                reported = ()
                continue
            driven.state, driven.columns, driven.waits, driven.told = turn.after, columns, waits, turn.after
            driven.is_left = rests
            self.past.keep(driven.run, driven.state, driven.end)
            self._set_alarm(columns.wake_at)
            await self._tell(driven.run, turn)
            return turn

    def _decide(self, driven: Driven, reported: tuple[e.Event, ...], kept: Mapping[str, RecordIsHeld]) -> Turn:
        return advance(
            driven.bundle, driven.state, now=self._now(driven.state), fence=self._fence, reported=reported,
            connect=lambda name: self._outside.connector(driven.bundle, name), kept=kept,
            slots=0 if self._is_stopping else self._workers, admit=self._admit(), desk=self._desk,
        )  # fmt: skip

    def _admit(self) -> Admit | None:
        return None if self.limits.is_idle else admit_within(self.limits)

    def _follow(self, driven: Driven, turn: Turn) -> NewRun | None:
        """The run that is started together with this one's end."""
        last = turn.events[-1] if turn.events else None
        if not isinstance(last, e.RunFinished) or not last.then:
            return None
        return following(self._outside.bundle(driven.bundle.follows), turn.after, last)

    async def _begin_again(
        self, driven: Driven, turn: Turn, reported: tuple[e.Event, ...], refused: StoreError | NotPossible
    ) -> None:
        if isinstance(refused, StoreUnwritable):
            await self._pause(refused)
        await self._report(driven, reported)
        await self._read_again(driven)
        if isinstance(refused, StoreUnwritable):
            await self._disown(driven, turn.intents)

    async def _disown(self, driven: Driven, intents: Sequence[e.CallIntended]) -> None:
        """After a commit that may have been kept all the same: what it intended was never begun."""
        for intent in intents:
            call = driven.state.calls.get(intent.call)
            if call is not None and call.is_open and call.attempt == intent.attempt:
                await self._report(driven, (not_begun(intent.call, call, self._now(driven.state)),))
                await self._read_again(driven)

    async def _report(self, driven: Driven, reported: tuple[e.Event, ...]) -> None:
        """Writes reports, as often as it takes. Raises StoreUnwritable when the engine stops before there is room."""
        for event in reported:
            while True:
                try:
                    await self._store.report(driven.run, event)
                except StoreUnwritable as refused:
                    if self._is_stopping:
                        raise
                    await self._pause(refused)
                    continue
                except AlreadyReported:
                    if isinstance(event, e.OutcomeEvent):
                        event = late_evidence(event)
                        continue
                break

    async def _pause(self, refused: StoreUnwritable) -> None:
        log.error("%s", refused)
        await asyncio.sleep(AFTER_FAULT)

    async def _start_calls(self, driven: Driven, turn: Turn) -> tuple[e.Event, ...] | None:
        """Starts what was intended. Answers what is to be reported now, or None where calls are awaited (or none made).

        Actions on our own tables are carried out and recorded here.
        """
        committed = driven.asked_at  # not when this process heard of it: it may have stood still in between
        reported: tuple[e.Event, ...] | None = None
        for intent in turn.intents:
            if driven.bundle.actions[intent.action].own and intent.purpose in ("do", "read", "undo"):
                await self._carry_out(driven, intent)
                reported = ()
                continue
            begun = self.limits.begin(intent.action.partition(".")[0], driven.run)
            call = asyncio.create_task(self._send(driven, intent, committed, begun))
            call.add_done_callback(driven.woken.ring)
            driven.calls[call] = intent
        return reported

    async def _send(self, driven: Driven, intent: e.CallIntended, committed: int, begun: Begun | None) -> Outcome:
        outcome: Outcome | None = None
        try:
            outcome = await self._perform(driven, intent, committed)
        finally:
            if begun is not None:
                self.limits.end(begun, outcome)
        return outcome

    async def _perform(self, driven: Driven, intent: e.CallIntended, committed: int) -> Outcome:
        request = Request(body=frozen_request(driven.state, intent), hash=intent.request_hash)
        if (unknown := self._forgotten.outcome(driven.state, intent, driven.bundle.actions[intent.action])) is not None:
            return unknown
        try:
            connector = self._outside.connector(driven.bundle, intent.action.partition(".")[0])
        except AmendsError as error:
            return Outcome(result="not_sent", reason="unavailable", summary=str(error))
        if self._clock.monotonic() - committed > LATEST_START:
            return Outcome(result="not_sent", reason="late", summary="The engine was too busy to send in time.")
        return await perform(connector, intent, request)

    async def _carry_out(self, driven: Driven, intent: e.CallIntended) -> None:
        request = frozen_request(driven.state, intent)
        operation = OwnOperation(
            run=driven.run, step=intent.step, action=request["own"], key=intent.key, input=request["input"]
        )
        at = self._now(driven.state)
        try:
            end, event = await self._store.carry_out(operation, lambda outcome: outcome_event(intent, outcome, at))
        except StoreUnwritable as refused:
            await self._pause(refused)
            await self._read_again(driven)
            await self._disown(driven, (intent,))
            return
        except AlreadyReported:
            end, event = driven.end, None
        if event is not None and end.seq == driven.state.seq + 1:
            driven.state, driven.end, driven.columns = fold(driven.state, event), end, None
            for observer in self.observers:
                observer(driven.run, (event,), driven.state)
        else:
            await self._read_again(driven)

    async def _outcomes(self, driven: Driven) -> tuple[e.Event, ...]:
        """Waits for the next answers and turns them into facts; or for a report of others, which is then read."""
        await driven.woken.wait()
        if driven.woken.is_set():
            driven.woken.clear()
            if self._store.log_end(driven.run) != driven.end:
                await self._read_again(driven)
        return self._facts(driven)

    def _facts(self, driven: Driven) -> tuple[e.Event, ...]:
        """Of the calls that have their answer."""
        at = self._now(driven.state)
        finished = [call for call in driven.calls if call.done()]
        return tuple(
            fit(outcome_event(driven.calls.pop(call), NEVER_SENT if call.cancelled() else call.result(), at))
            for call in finished
        )
