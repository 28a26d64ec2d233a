"""How many calls connections get at once and how fast, for all runs together; who waits, and whose turn it is.

A run says what it would send before anything is intended (`take`), and waits in line for what it may not send yet: all
that costs is a ticket. When its turn comes a place is kept for it and it is woken; what it does not use of it, it gives
back the next time it says what it would send. What is so of one connection stands in `bounds`. Times are ms of the
monotonic clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runner.clock import Clock
from runner.contract import Json, Outcome
from runner.engine.bounds import Asker, Bound, Crowd, Want
from runner.store.facts import PLACE, RELEASE


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """A call that is out at a connection with limits."""

    line: Crowd
    at: int


class Limits:
    """All connections that have limits, and what a person holds (`connection:crm`, `flow:signup`).

    `wake` is told of runs that may go on; `later` is asked to call `serve` after so many ms.
    """

    def __init__(
        self, clock: Clock, *, wake: Callable[[str], None], later: Callable[[int], object], is_shared: bool = False
    ) -> None:
        self._clock = clock
        self._is_shared = is_shared
        self._wake = wake
        self._later = later
        self.lines: dict[str, Crowd] = {}
        self.on_uneven: Callable[[], object] = lambda: None
        """Told, where engines share the bounds, that this one wants more of one, or has something to give back."""
        self._stopped: dict[str, tuple[str, str]] = {}
        self._others: dict[str, asyncio.Event] = {}
        self._alarm: int | None = None
        self.held: dict[str, str] = {}
        """What is held, and by whom."""

    @property
    def is_idle(self) -> bool:
        """There is nothing to ask: no limit, and nothing is held."""
        return not (self.lines or self.held or self._stopped)

    def set_bounds(self, bounds: Mapping[str, Bound]) -> None:
        """The limits by connection, from now on."""
        for name in [name for name in self.lines if name not in bounds]:
            gone = self.lines.pop(name)
            self._wake_all({*gone.tickets, *gone.kept})
        for name, bound in bounds.items():
            self.lines.setdefault(name, Crowd(name, bound, is_shared=self._is_shared)).bound = bound
        self.serve()

    @property
    def standing(self) -> int:
        """How many runs wait here."""
        return len(self._stopped) + sum(len(line.tickets) for line in self.lines.values())

    def stands(self, run: str) -> bool:
        """Whether the run is one of them."""
        return run in self._stopped or any(run in line.tickets for line in self.lines.values())

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
            elif want.connection in self.lines:
                by_line.setdefault(want.connection, []).append(number)
        for name, line in self.lines.items():
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
        line = self.lines.get(connection)
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
        begun.line.end()
        if outcome is not None and outcome.result == "refused" and outcome.reason == "rate_limited":
            begun.line.lower(now, begun.at, outcome.retry_after)
        self._serve(begun.line, now)
        self._set_alarm(now)

    def serve(self) -> None:
        """Looks whether anybody's turn has come."""
        self._alarm = None
        now = self._clock.monotonic()
        for line in self.lines.values():
            self._serve(line, now)
        self._set_alarm(now)

    def _serve(self, line: Crowd, now: int, quiet: str = "") -> None:
        if f"connection:{line.name}" not in self.held:
            self._wake_all(set(line.serve(now)) - {quiet})
        if self._is_shared and line.is_uneven(now):
            self.on_uneven()

    def _set_alarm(self, now: int) -> None:
        """`serve` is called when time alone may make room."""
        dues = [line.opens_at(now) for line in self.lines.values() if line.tickets]
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
        for line in self.lines.values():
            if kind == "flow" or line.name == of:
                waiting = {run for run, ticket in line.tickets.items() if kind == "connection" or ticket.flow == of}
                self._wake_all({*waiting, *line.kept})

    def release(self, name: str) -> None:
        """They go on."""
        self.held.pop(name, None)
        self._wake_all({run for run, (hold, _) in self._stopped.items() if hold == name})
        self.serve()

    def keep_up(self, held: Mapping[str, str]) -> None:
        """Holds this, and nothing else; records are looked after where they are used."""
        held = {name: by for name, by in held.items() if not name.startswith("record:")}
        for name in [*self.held.keys() - held.keys()]:
            self.release(name)
        for name in held.keys() - self.held.keys():
            self.hold(name, held[name])

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
        found = next((line for line in self.lines.values() if run in line.tickets), None)
        return (found.tickets[run].step, f"{PLACE}{found.name}") if found is not None else None

    def place(self, run: str) -> tuple[str, int] | None:
        """(connection, which one in its line: 1 is the next), None where the run is in no line."""
        found = next((line for line in self.lines.values() if run in line.tickets), None)
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
            for name, line in self.lines.items()
        }  # fmt: skip
