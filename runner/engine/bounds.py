"""One connection's bounds and its line: how many calls it gets at once and how fast, who waits, whose turn it is.

Flows take turns, the oldest run of a flow first; making good goes before new work. No more than `rate` calls begin in
any stretch of its time. Where engines share the bounds this one has a part of each (see `leases`). Times are ms of the
monotonic clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from runner.clock import HOUR, MINUTE, SECOND
from runner.store.dividing import RATE

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
class Part:
    """What this engine has of a bound that it shares with others (see `leases`): `own` places for as long as it likes,
    `spare` ones to be used once. `had` is what others know it to have; they want some of it back where it `owes`."""

    own: int = 0
    spare: int = 0
    had: int = 0
    owes: bool = False
    has_asked: bool = False

    @property
    def has(self) -> int:
        return self.own + self.spare

    def used(self, many: int) -> None:
        """One of so many places in use becomes free."""
        if many > self.own and self.spare:
            self.spare -= 1


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


class Crowd:
    """One connection with those who wait there. `kept` places are for runs that were told of them; `out` are calls
    without their answer."""

    def __init__(self, name: str, bound: Bound, *, is_shared: bool) -> None:
        self.name = name
        self.bound = bound
        self.at_once = Part() if is_shared else None
        self.rate = Part() if is_shared else None
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

    def end(self) -> None:
        if self.at_once is not None:
            self.at_once.used(self.out)
        self.out -= 1

    def _room(self, now: int) -> int:
        if now < self._shut_until:
            return 0
        room, taken = MANY, sum(self.kept.values())
        if self.bound.at_once is not None:
            part = self.at_once
            room = self._lowered(self.bound.at_once if part is None else part.has, now) - self.out - taken
        if self.bound.rate is not None:
            room = min(room, -self._over(self.bound.rate, now))
        return room

    def _over(self, rate: tuple[int, int], now: int) -> int:
        """How many calls of this stretch of time are too many for one more; negative: so many have room."""
        return (
            self.recent(now)
            + sum(self.kept.values())
            - self._lowered(rate[0] if self.rate is None else self.rate.has, now)
        )

    def recent(self, now: int) -> int:
        """How many calls count still for the rate."""
        while self._begun and self.bound.rate is not None and self._begun[0] <= now - self.bound.rate[1]:
            if self.rate is not None:
                self.rate.used(len(self._begun))
            self._begun.popleft()
        return len(self._begun)

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
        return max(int(many * self.share(now)), min(many, 1))

    # -- what it has of a bound that engines share --

    def parts(self, now: int) -> Iterator[tuple[str, Part, int, int, int]]:
        """(name of the bound, what this engine has of it, the whole, how much is in use, ms for which that counts)."""
        kept = sum(self.kept.values())
        if self.at_once is not None and self.bound.at_once is not None:
            yield self.name, self.at_once, self.bound.at_once, self.out + kept, 0
        if self.rate is not None and self.bound.rate is not None:
            yield f"{self.name}{RATE}", self.rate, self.bound.rate[0], self.recent(now) + kept, self.bound.rate[1]

    def is_uneven(self, now: int) -> bool:
        """Whether it wants more than it has, or has something to give back."""
        return any(
            (self.tickets and not part.has_asked and part.has < whole and used >= part.has)
            or (part.owes and used < part.had and (part.had > part.has or not self.tickets))
            or part.has > whole
            for _, part, whole, used, _ in self.parts(now)
        )
