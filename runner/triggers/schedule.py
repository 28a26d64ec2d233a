"""Schedules: each slot once, as a run or as a fact that says why there is none. The home of APScheduler.

`runner.language.slots` says when, APScheduler wakes, and then every slot since the last one that was dealt with is
looked at. So it is all the same whether a slot comes in time, or after a stop, a suspended machine or a clock that was
put on. A clock that was put back brings slots again that were dealt with: their rows are there, and nothing starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.base import BaseTrigger  # type: ignore[import-untyped]

from runner.clock import MINUTE, Clock, iso
from runner.contract import digest
from runner.core import events as e
from runner.core.state import State
from runner.language.slots import Timed, timed
from runner.store.arrivals import Arrived, cursors_of, listed, restored_after, still_going
from runner.triggers.active import Armed
from runner.triggers.intake import Coming
from runner.triggers.parts import STANDS_BY, Parts

log = logging.getLogger("amends.triggers")
ON_TIME = MINUTE
"""How late a slot may be and is not missed."""
LOOK = 20
"""Seconds between two looks without being woken: the timer stands still while the machine sleeps."""
MOST_CAUGHT_UP = 100
"""Missed slots that `missed: all` makes up for, the newest; and how many may wait in line for the run before."""
MOST_TOLD = 1_000
"""Missed slots that are told one by one; those before them are told as one."""
SOURCE = "schedule:"


class Schedules:
    """Starts what is due."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rings = asyncio.Event()
        self._timer = AsyncIOScheduler(timezone=UTC)
        self._on: dict[str, tuple[Armed, Timed]] = {}
        self._since: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Starts what is due as long as it is held; what was missed while nothing ran comes first."""
        parts = self._parts
        parts.active.changed.append(self._rings.set)
        parts.engine.observers.append(self._observe)
        self._timer.start()
        pause = STANDS_BY if parts.store.is_shared else LOOK
        self._timer.add_job(self._ring, "interval", seconds=pause, misfire_grace_time=None, coalesce=True)
        self._rings.set()
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            parts.active.changed.remove(self._rings.set)
            parts.engine.observers.remove(self._observe)
            self._timer.shutdown(wait=False)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _ring(self) -> None:
        self._rings.set()

    def _observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        if any(isinstance(event, e.RunFinished) for event in events):
            self._rings.set()

    async def _watch(self) -> None:
        while True:
            await self._rings.wait()
            self._rings.clear()
            try:
                await self.take()
            except Exception:
                log.exception("schedules cannot be looked at; it is tried again in %d s", LOOK)

    async def take(self) -> None:
        """Deals with every slot that is due, then with those that wait in line; one engine does, for all."""
        if not await self._parts.store.take_on("schedules"):
            return
        await self._renew()
        for name, (armed, each) in list(self._on.items()):
            try:
                await self._take_due(name, armed, each)
                await self._call_up(armed)
            except Exception:
                log.exception("%s: %s cannot be looked at; it is tried again in %d s", armed.flow, each, LOOK)

    # --- what is on ---------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        """Takes up schedules that came and forgets those that went. A new one begins now."""
        parts = self._parts
        found = {cursor_of(armed, each): (armed, each) for armed, each in scheduled(parts.active.all("schedule"))}
        known = {name: int(value) for name, value in parts.store.ask(cursors_of(SOURCE)).items() if value}
        for name in {*known, *self._on} - found.keys():
            await parts.intake.take_all([], cursor=(name, ""))
            if self._timer.get_job(name):
                self._timer.remove_job(name)
        for name in found.keys() - known.keys():
            now = parts.clock.now()
            await parts.intake.take_all([], cursor=(name, str(now)))
            known[name] = now
        for name in found.keys() - self._on.keys():
            due = _Due(found[name][1], parts.clock)
            self._timer.add_job(self._ring, due, id=name, misfire_grace_time=None, coalesce=True)
        self._on, self._since = found, known

    # --- what is due --------------------------------------------------------------------------------------------------

    async def _take_due(self, name: str, armed: Armed, each: Timed) -> None:
        parts, now = self._parts, self._parts.clock.now()
        since = self._since[name]
        if since > now:  # the clock was put back
            await parts.intake.take_all([], cursor=(name, str(now)))
            return
        due = list(takewhile(lambda at: at > since, islice(each.until(now), MOST_TOLD + 1)))[::-1]
        if not due:
            return
        unknown = parts.store.ask(restored_after(since))
        missed: list[Coming] = []
        if len(due) > MOST_TOLD:
            missed.append(_every_one(each, next(each.after(since)), due[0]))
        due = due[-MOST_TOLD:]
        lost = dict(_missed(each, [at for at in due if at > unknown], now))
        lost |= dict.fromkeys((at for at in due if at <= unknown), "whether it ran is not in the database put back")
        for at in due:
            if at in lost:
                missed.append(_coming(each, at, "missed", lost[at]))
                continue
            await self._tell(name, armed, missed, at - 1)
            missed = []
            came = self._coming_in_line(armed, each, at, is_late=now - at > ON_TIME)
            self._report(armed, await parts.intake.take_all([(armed, came)], cursor=(name, str(at))))
        await self._tell(name, armed, missed, due[-1])

    async def _tell(self, name: str, armed: Armed, missed: Sequence[Coming], until: int) -> None:
        if missed:
            several = [(armed, coming) for coming in missed]
            self._report(armed, await self._parts.intake.take_all(several, cursor=(name, str(until))))

    def _report(self, armed: Armed, took: Sequence[Arrived]) -> None:
        told = [one for one in took if one.is_new and one.status in ("missed", "skipped", "refused", "conflict")]
        if told:
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            log.warning("%s, %s: %s%s: %s", armed.flow, armed.name, told[-1].status, more, told[-1].why)

    def _coming_in_line(self, armed: Armed, each: Timed, at: int, *, is_late: bool) -> Coming:
        """A slot that is to have its run: it starts one, or waits, or is left out because of the run before."""
        before = self._before(armed, iso(at, each.zone))
        if each.overlap == "allow" or not before:
            return _coming(each, at)
        waits = each.overlap == "queue" or (is_late and each.missed == "all")
        if waits and len(self._in_line(armed)) < MOST_CAUGHT_UP:
            return _coming(each, at, "queued", f"{before} (overlap: {each.overlap})")
        return _coming(each, at, "skipped", f"{before} (overlap: {each.overlap})")

    # --- one after the other ------------------------------------------------------------------------------------------

    def _before(self, armed: Armed, slot: str) -> str:
        """What a slot has before it; empty where its run may start. Another schedule's run of this slot is joined."""
        run = self._parts.store.ask(still_going(armed.flow, SOURCE, but=slot))
        if run:
            return f"run {run} of the slot before still goes"
        return "an earlier slot waits in line" if self._in_line(armed) else ""

    def _in_line(self, armed: Armed) -> list[str]:
        """The slots of a flow that wait, oldest first."""
        rows = self._parts.store.ask(listed(flow=armed.flow, source=armed.source, status=("queued",), limit=MOST_TOLD))
        return sorted((row.id for row in rows), key=datetime.fromisoformat)

    async def _call_up(self, armed: Armed) -> None:
        """Starts the slot that has waited longest, once the run before it has ended."""
        parts = self._parts
        while (line := self._in_line(armed)) and not parts.store.ask(still_going(armed.flow, SOURCE)):
            self._report(armed, await parts.intake.take([armed], _of(line[0])))


class _Due(BaseTrigger):  # type: ignore[misc]
    """The next slot, for the timer: as far ahead on the machine's clock as it is on ours."""

    def __init__(self, each: Timed, clock: Clock) -> None:
        self._each = each
        self._clock = clock

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        at = self._clock.now()
        return now + timedelta(milliseconds=next(self._each.after(at)) - at)


def scheduled(armed: Sequence[Armed]) -> Iterator[tuple[Armed, Timed]]:
    """The schedules among these triggers."""
    for one in armed:
        if one.kind == "schedule":
            yield one, timed(one.said, one.bundle.zone)


def cursor_of(armed: Armed, each: Timed) -> str:
    """What the cursor of a schedule is called: other words or another zone make it another one."""
    return f"{SOURCE}{armed.flow}:{each}"


def _missed(each: Timed, due: Sequence[int], now: int) -> Iterator[tuple[int, str]]:
    """Those of the slots, oldest first, that are to have no run because nothing was there at their time."""
    late = [at for at in due if now - at > ON_TIME]
    if each.missed == "all":
        late = late[:-MOST_CAUGHT_UP]
    elif each.missed == "latest" and len(late) == len(due):
        late = late[:-1]
    for at in late:
        yield at, f"nothing ran at that time (missed: {each.missed})"


def _coming(each: Timed, at: int, status: str = "", why: str = "") -> Coming:
    return _of(iso(at, each.zone), status, why)


def _of(slot: str, status: str = "", why: str = "") -> Coming:
    return Coming(id=slot, digest=digest({"slot": slot}), names={"slot": slot}, status=status, why=why)


def _every_one(each: Timed, first: int, end: int) -> Coming:
    told = f"{iso(first, each.zone)} to {iso(end, each.zone)}"
    return _of(
        told, "missed", f"nothing ran from {iso(first, each.zone)} on: every slot until then (missed: {each.missed})"
    )
