"""Who is driven next: runs that go on, and new runs, of each flow in turn, so that no flow waits behind another's many.

New runs beyond the first of a flow stay in the store and are read page by page, however many they are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container, Iterable

from runner.engine.limits import Limits
from runner.store.facts import Store

KEPT = 1_000
"""New runs of one flow that are held here; further ones are behind, in the store alone."""
PAGE = 500
LOW = 100
"""Once so few are left of a flow, the next page is read."""
CROWD = 5_000
"""While so many runs stand in line for connections, no further ones are read: they would only stand there too."""


class Line:
    """`driving` are those that somebody drives, `limits` knows who stands in line for a connection."""

    def __init__(self, store: Store, driving: Container[str], limits: Limits) -> None:
        self._store = store
        self._driving = driving
        self._limits = limits
        self._there = asyncio.Semaphore(0)
        self._known: set[str] = set()
        self._going: deque[str] = deque()
        self._new: dict[str, deque[str]] = {}
        self._behind: set[str] = set()
        self._is_turn_of_new = False

    def __contains__(self, run: object) -> bool:
        return run in self._known

    def read(self) -> None:
        """Takes up what is queued in the store."""
        self._behind = set(self._store.queued_flows())
        self.look()

    def put(self, run: str) -> None:
        """A run that goes on."""
        if run not in self._known:
            self._known.add(run)
            self._going.append(run)
            self._there.release()

    def put_new(self, run: str, flow: str) -> bool:
        """A run that has just begun. False: it has its turn once those before it have been read."""
        line = self._new.get(flow, ())
        if flow in self._behind or len(line) >= KEPT:
            self._behind.add(flow)
            return False
        if run not in self._known:
            self._add(flow, (run,))
        return True

    def is_behind(self, run: str) -> bool:
        """Whether the run is queued in the store and has not been read."""
        if not self._behind or run in self._known:
            return False
        view = self._store.run(run)
        return view.status == "queued" and view.flow in self._behind and not self._limits.stands(run)

    async def take(self) -> str:
        """The next one."""
        await self._there.acquire()
        run = self._next()
        self._known.discard(run)
        return run

    def look(self) -> None:
        """Reads on where there is nothing left of a flow: somebody has let go of a place, or new runs have begun."""
        for flow in [flow for flow in self._behind if flow not in self._new]:
            self._fill(flow)

    def _next(self) -> str:
        self._is_turn_of_new = bool(self._new) and (self._is_turn_of_new or not self._going)
        if not self._is_turn_of_new:
            self._is_turn_of_new = True
            return self._going.popleft()
        self._is_turn_of_new = False
        flow, line = next(iter(self._new.items()))
        run = line.popleft()
        del self._new[flow]
        if line:
            self._new[flow] = line
        if len(line) < LOW and flow in self._behind:
            self._fill(flow)
        return run

    def _add(self, flow: str, runs: Iterable[str]) -> None:
        line = self._new.setdefault(flow, deque())
        for run in runs:
            self._known.add(run)
            line.append(run)
            self._there.release()

    def _fill(self, flow: str) -> None:
        """Reads the next of a flow: those that are known, driven or in line for a connection are queued there too."""
        at = 0
        while self._limits.standing < CROWD:
            page = self._store.queued(flow, at, PAGE)
            fresh = [run for run in page if not self._is_had(run)]
            if fresh:
                self._add(flow, fresh)
            if len(page) < PAGE:
                self._behind.discard(flow)
            if fresh or len(page) < PAGE:
                return
            at += PAGE

    def _is_had(self, run: str) -> bool:
        return run in self._known or run in self._driving or self._limits.stands(run)
