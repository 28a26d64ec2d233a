"""How many calls a connection gets at once and how fast, for all runs together; who waits, and whose turn it is.

A run says what it would send before anything is intended (`take`), and waits in line for what it may not send yet: all
that costs is a ticket. When its turn comes a place is kept for it and it is woken; what it does not use of it, it gives
back the next time it says what it would send. Flows take turns, the oldest run of a flow first; making good goes before
new work.

No more than `rate` calls begin in any stretch of its time. Times are ms of the monotonic clock.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from runner.clock import HOUR, MINUTE, SECOND, Clock
from runner.contract import Json, Outcome
from runner.store.facts import PLACE, RELEASE

MANY = 1 << 30
PAUSE = SECOND
"""How long nothing is sent after a 429 that does not say how long."""
LONGEST_PAUSE = HOUR
LEAST, RISE = 1 / 32, 0.1
"""A 429 halves the share of its limits that a connection gets, down to LEAST; it comes back in steps of RISE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """What connections.yaml says: how many open calls, and (how many, in how many ms). None: any number."""

    at_once: int | None = None
    rate: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asker:
    """A run that would send something. `since` is when it began."""

    run: str
    flow: str
    since: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Want:
    """One call that a run would make. `is_urgent`: it makes something good, or settles what is in doubt."""

    connection: str
    step: str
    is_urgent: bool = False


@dataclass(kw_only=True, slots=True)
class _Ticket:
    run: str
    flow: str
    since: int
    step: str
    wanted: int
    is_urgent: bool


def _age(ticket: _Ticket) -> tuple[int, str]:
    return ticket.since, ticket.run


class _Queue:
    """Tickets of one urgency: flows take turns, the one whose turn is next stands first."""

    def __init__(self) -> None:
        self._flows: dict[str, list[_Ticket]] = {}

    def __len__(self) -> int:
        return sum(len(tickets) for tickets in self._flows.values())

    def put(self, ticket: _Ticket) -> None:
        insort(self._flows.setdefault(ticket.flow, []), ticket, key=_age)

    def drop(self, ticket: _Ticket) -> None:
        tickets = self._flows[ticket.flow]
        del tickets[bisect_left(tickets, _age(ticket), key=_age)]
        if not tickets:
            del self._flows[ticket.flow]

    def next(self) -> _Ticket:
        """Whose turn it is; their flow is the last one then."""
        flow = next(iter(self._flows))
        tickets = self._flows[flow] = self._flows.pop(flow)
        return tickets[0]

    def ahead_of(self, ticket: _Ticket) -> int:
        """How many tickets have their turn first."""
        mine = bisect_left(self._flows[ticket.flow], _age(ticket), key=_age)
        ahead, turns = mine, mine + 1
        for flow, tickets in self._flows.items():
            if flow == ticket.flow:
                turns = mine
            else:
                ahead += min(len(tickets), turns)
        return ahead


class _Line:
    """One connection. `kept` places are for runs that were told of them; `out` are calls without their answer."""

    def __init__(self, name: str, bound: Bound) -> None:
        self.name = name
        self.bound = bound
        self.out = 0
        self.kept: dict[str, int] = {}
        self.tickets: dict[str, _Ticket] = {}
        self._urgent, self._usual = _Queue(), _Queue()
        self._begun: deque[int] = deque()
        self._share, self._lowered_at, self._shut_until = 1.0, -MANY, -MANY

    # -- who waits --

    def claim(self, asker: Asker, wants: Sequence[Want], now: int) -> None:
        """What this run wants by now: of what was kept for it, it has what it still wants; for the rest it waits."""
        kept = self.kept.pop(asker.run, 0)
        stays = min(kept, len(wants)) if now >= self._shut_until else 0
        if stays:
            self.kept[asker.run] = stays
        wanted, is_urgent = len(wants) - stays, any(want.is_urgent for want in wants)
        ticket = self.tickets.get(asker.run)
        if ticket is not None and (not wanted or ticket.is_urgent != is_urgent):
            self._drop(ticket)
            ticket = None
        if ticket is not None:
            ticket.wanted, ticket.step = wanted, wants[stays].step
        elif wanted:
            ticket = self.tickets[asker.run] = _Ticket(
                run=asker.run, flow=asker.flow, since=asker.since, step=wants[stays].step, wanted=wanted,
                is_urgent=is_urgent,
            )  # fmt: skip
            self._queue(ticket).put(ticket)

    def serve(self, now: int) -> list[str]:
        """Keeps places for those whose turn it is; the runs they are for."""
        served = []
        for _ in range(self._room(now) if self.tickets else 0):
            ticket = (self._urgent or self._usual).next()
            self.kept[ticket.run] = self.kept.get(ticket.run, 0) + 1
            ticket.wanted -= 1
            served.append(ticket.run)
            if not ticket.wanted:
                self._drop(ticket)
                if not self.tickets:
                    break
        return served

    def place(self, ticket: _Ticket) -> int:
        """1 is the next."""
        return self._queue(ticket).ahead_of(ticket) + 1 + (0 if ticket.is_urgent else len(self._urgent))

    def _queue(self, ticket: _Ticket) -> _Queue:
        return self._urgent if ticket.is_urgent else self._usual

    def _drop(self, ticket: _Ticket) -> None:
        del self.tickets[ticket.run]
        self._queue(ticket).drop(ticket)

    # -- how much room there is --

    def begin(self, run: str, now: int) -> None:
        kept = self.kept.pop(run, 0) - 1
        if kept > 0:
            self.kept[run] = kept
        self.out += 1
        if self.bound.rate is not None:
            self._begun.append(now)

    def _room(self, now: int) -> int:
        if now < self._shut_until:
            return 0
        room, taken = MANY, sum(self.kept.values())
        if self.bound.at_once is not None:
            room = self._lowered(self.bound.at_once, now) - self.out - taken
        if self.bound.rate is not None:
            room = min(room, -self._over(self.bound.rate, now))
        return room

    def _over(self, rate: tuple[int, int], now: int) -> int:
        """How many calls of this stretch of time are too many for one more; negative: so many have room."""
        while self._begun and self._begun[0] <= now - rate[1]:
            self._begun.popleft()
        return len(self._begun) + sum(self.kept.values()) - self._lowered(rate[0], now)

    def opens_at(self, now: int) -> int | None:
        """When it is worth looking again although no call has ended; None where only that makes room."""
        if now < self._shut_until:
            return self._shut_until
        dues = [now + self._step] if self.share(now) < 1 else []
        if self.bound.rate is not None and 0 <= (over := self._over(self.bound.rate, now)) < len(self._begun):
            dues.append(self._begun[over] + self.bound.rate[1])
        return min(dues, default=None)

    # -- what a 429 lowers --

    def lower(self, now: int, begun_at: int, pause: int | None) -> None:
        """The service says: too much. Only a call that began since the limits were lowered lowers them further."""
        if begun_at > self._lowered_at:
            self._share, self._lowered_at = max(self.share(now) / 2, LEAST), now
        self._shut_until = max(self._shut_until, now + min(pause or PAUSE, LONGEST_PAUSE))

    def share(self, now: int) -> float:
        """What is left of the limits: 1 is all."""
        return min(1.0, self._share + RISE * (max(now - self._lowered_until, 0) // self._step))

    def restored_in(self, now: int) -> int:
        """ms until the limits are whole again."""
        return max(self._lowered_until + ceil((1 - self._share) / RISE) * self._step - now, 0)

    @property
    def _lowered_until(self) -> int:
        return max(self._lowered_at, self._shut_until)

    @property
    def _step(self) -> int:
        return min(max(self.bound.rate[1], SECOND), MINUTE) if self.bound.rate is not None else 10 * SECOND

    def _lowered(self, many: int, now: int) -> int:
        return max(int(many * self.share(now)), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """A call that is out at a connection with limits."""

    line: _Line
    at: int


class Limits:
    """All connections that have limits, and what a person holds (`connection:crm`, `flow:signup`).

    `wake` is told of runs that may go on; `later` is asked to call `serve` after so many ms.
    """

    def __init__(self, clock: Clock, *, wake: Callable[[str], None], later: Callable[[int], object]) -> None:
        self._clock = clock
        self._wake = wake
        self._later = later
        self._lines: dict[str, _Line] = {}
        self._stopped: dict[str, tuple[str, str]] = {}
        self._others: dict[str, asyncio.Event] = {}
        self._alarm: int | None = None
        self.held: dict[str, str] = {}
        """What is held, and by whom."""

    @property
    def is_idle(self) -> bool:
        """There is nothing to ask: no limit, and nothing is held."""
        return not (self._lines or self.held or self._stopped)

    def set_bounds(self, bounds: Mapping[str, Bound]) -> None:
        """The limits by connection, from now on."""
        for name in [name for name in self._lines if name not in bounds]:
            gone = self._lines.pop(name)
            self._wake_all({*gone.tickets, *gone.kept})
        for name, bound in bounds.items():
            self._lines.setdefault(name, _Line(name, bound)).bound = bound
        self.serve()

    @property
    def standing(self) -> int:
        """How many runs wait here."""
        return len(self._stopped) + sum(len(line.tickets) for line in self._lines.values())

    def stands(self, run: str) -> bool:
        """Whether the run is one of them."""
        return run in self._stopped or any(run in line.tickets for line in self._lines.values())

    # -- asking --

    def take(self, asker: Asker, wants: Sequence[Want]) -> list[bool]:
        """Which of these the run may intend now. It waits for the others, and gives back whatever else it had."""
        now = self._clock.monotonic()
        granted = [True] * len(wants)
        by_line: dict[str, list[int]] = {}
        self._stopped.pop(asker.run, None)
        for number, want in enumerate(wants):
            hold = self._hold_on(asker.flow, want)
            if hold:
                granted[number] = False
                self._stopped.setdefault(asker.run, (hold, want.step))
            elif want.connection in self._lines:
                by_line.setdefault(want.connection, []).append(number)
        for name, line in self._lines.items():
            mine = by_line.get(name, [])
            if mine or asker.run in line.tickets or asker.run in line.kept:
                line.claim(asker, [wants[number] for number in mine], now)
                self._serve(line, now, quiet=asker.run)
                for number in mine[line.kept.get(asker.run, 0) :]:
                    granted[number] = False
        self._set_alarm(now)
        return granted

    def leave(self, run: str) -> None:
        """The run has met a defect: what it waited for and was promised is others' again."""
        self.take(Asker(run=run, flow="", since=0), ())

    def begin(self, connection: str, run: str) -> Begun | None:
        """One of the places that were kept for the run is used: its call leaves now."""
        line = self._lines.get(connection)
        if line is None:
            return None
        now = self._clock.monotonic()
        line.begin(run, now)
        return Begun(line=line, at=now)

    async def place_for(self, name: str, flow: str, connection: str) -> Begun | None:
        """For a call of no run, under a name of its own: waits in line like a run of this flow, and begins."""
        turn = self._others[name] = asyncio.Event()
        asker, want = Asker(run=name, flow=flow, since=self._clock.now()), Want(connection=connection, step="")
        try:
            while not self.take(asker, [want])[0]:
                await turn.wait()
                turn.clear()
            return self.begin(connection, name)
        finally:
            del self._others[name]
            self.leave(name)

    def end(self, begun: Begun, outcome: Outcome | None) -> None:
        """The call has its answer (or none: it was broken off)."""
        now = self._clock.monotonic()
        begun.line.out -= 1
        if outcome is not None and outcome.result == "refused" and outcome.reason == "rate_limited":
            begun.line.lower(now, begun.at, outcome.retry_after)
        self._serve(begun.line, now)
        self._set_alarm(now)

    def serve(self) -> None:
        """Looks whether anybody's turn has come."""
        self._alarm = None
        now = self._clock.monotonic()
        for line in self._lines.values():
            self._serve(line, now)
        self._set_alarm(now)

    def _serve(self, line: _Line, now: int, quiet: str = "") -> None:
        if f"connection:{line.name}" not in self.held:
            self._wake_all(set(line.serve(now)) - {quiet})

    def _set_alarm(self, now: int) -> None:
        """`serve` is called when time alone may make room."""
        dues = [line.opens_at(now) for line in self._lines.values() if line.tickets]
        due = min((due for due in dues if due is not None), default=None)
        if due is not None and (self._alarm is None or due < self._alarm):
            self._alarm = due
            self._later(max(due - now, 1))

    def _wake_all(self, runs: set[str]) -> None:
        for run in sorted(runs):
            if run in self._others:
                self._others[run].set()
            else:
                self._wake(run)

    # -- holding --

    def hold(self, name: str, by: str) -> None:
        """Nothing new is intended at this connection or by this flow; those who wait there are told."""
        self.held[name] = by
        kind, _, of = name.partition(":")
        for line in self._lines.values():
            if kind == "flow" or line.name == of:
                waiting = {run for run, ticket in line.tickets.items() if kind == "connection" or ticket.flow == of}
                self._wake_all({*waiting, *line.kept})

    def release(self, name: str) -> None:
        """They go on."""
        self.held.pop(name, None)
        self._wake_all({run for run, (hold, _) in self._stopped.items() if hold == name})
        self.serve()

    def _hold_on(self, flow: str, want: Want) -> str:
        """What holds this call. A flow's hold lets it make good what it has done."""
        for name in (f"connection:{want.connection}", "" if want.is_urgent else f"flow:{flow}"):
            if name in self.held:
                return name
        return ""

    # -- telling --

    def waits_for(self, run: str) -> tuple[str, str] | None:
        """(step, what it waits for), None where it waits for nothing here."""
        if run in self._stopped:
            hold, step = self._stopped[run]
            return step, f"{RELEASE}{hold.replace(':', ' ')} (held by {self.held.get(hold, 'nobody')})"
        found = next((line for line in self._lines.values() if run in line.tickets), None)
        return (found.tickets[run].step, f"{PLACE}{found.name}") if found is not None else None

    def place(self, run: str) -> tuple[str, int] | None:
        """(connection, which one in its line: 1 is the next), None where the run is in no line."""
        found = next((line for line in self._lines.values() if run in line.tickets), None)
        return (found.name, found.place(found.tickets[run])) if found is not None else None

    def usage(self) -> Mapping[str, Mapping[str, Json]]:
        """Each connection with limits: places in use, runs that wait, its share of its limits in % (a 429 lowers it),
        and the ms until that is 100 again."""
        now = self._clock.monotonic()
        return {
            name: {
                "in_use": line.out + sum(line.kept.values()), "waiting": len(line.tickets),
                "share": round(line.share(now) * 100), "restored_in": line.restored_in(now),
            }
            for name, line in self._lines.items()
        }  # fmt: skip
