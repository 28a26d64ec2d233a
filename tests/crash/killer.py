"""Where a process dies: named points around every write of the log and every call, counted as they are passed.

`before commit X` and `after commit X` stand around a transaction (X names its last fact), `before call`, `during call`
and `after call` around one attempt of one call. Killing is SIGKILL by the process itself: nothing is cleaned up.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from runner.contract import Connector, Outcome, Request
from runner.core.events import Event

DURING = 0.06
"""Seconds after which a call that is being made is taken to be under way; the receiver answers later than that."""


class Killer:
    """Counts the points that are passed; at the wanted one the process dies."""

    def __init__(self, *, target: str = "", nth: int = 1, trace: Path | None = None) -> None:
        self._target = target
        self._nth = nth
        self._trace = trace
        self._passed: Counter[str] = Counter()
        self.copy: tuple[int, Path] | None = None
        """A copy of the database that is made after so many commits."""

    def wants(self, point: str) -> bool:
        """Whether the next passing of this point is the last thing this process does."""
        return point == self._target and self._passed[point] + 1 == self._nth

    def committed(self, store: Any) -> None:
        """A commit was made; another copy of the database may be due."""
        self._passed["commits"] += 1
        if self.copy is not None and self._passed["commits"] == self.copy[0]:
            store.backup(self.copy[1])

    def passed(self, point: str) -> None:
        """This point is passed."""
        self._passed[point] += 1
        if self._trace is not None:
            with self._trace.open("a") as lines:
                lines.write(f"{self._passed[point]} {point}\n")
        if point == self._target and self._passed[point] == self._nth:
            os.kill(os.getpid(), signal.SIGKILL)


def label(event: Event) -> str:
    """A fact as part of a point's name."""
    words = [type(event).__name__, event.step, getattr(event, "purpose", ""), getattr(event, "timer", "")]
    return " ".join(word for word in words if word)


class KillingStore:
    """A store that passes points around every write."""

    def __init__(self, store: Any, killer: Killer) -> None:
        self._store = store
        self._killer = killer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _around(self, words: str, writing: Any) -> Any:
        try:
            self._killer.passed(f"before commit {words}")
            answer = await writing
        finally:
            writing.close()
        self._killer.committed(self._store)
        self._killer.passed(f"after commit {words}")
        return answer

    async def append(self, append: Any) -> Any:
        words = label(append.events[-1]) if append.events else "columns"
        return await self._around(words, self._store.append(append))

    async def report(self, run: str, event: Event, seq: int | None = None) -> Any:
        return await self._around(f"report {label(event)}", self._store.report(run, event, seq))

    async def carry_out(self, operation: Any, event: Any) -> Any:
        return await self._around(f"own {operation.step} {operation.action}", self._store.carry_out(operation, event))

    async def feed(self, *, event_id: str = "", waiter: str = "") -> Any:
        whom = "waiter" if waiter else "event"
        return await self._around(f"feed {whom}", self._store.feed(event_id=event_id, waiter=waiter))

    async def start(self, new: Any) -> Any:
        return await self._around("start", self._store.start(new))


class KillingConnector:
    """A connector that passes points around every call."""

    def __init__(self, connector: Connector, killer: Killer) -> None:
        self._connector = connector
        self._killer = killer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    async def send(self, action: str, request: Request, *, key: str, purpose: Any, limit: int) -> Outcome:
        words = f"{action} {purpose} {str(request.body.get('recipient', ''))[:3]}".strip()
        self._killer.passed(f"before call {words}")
        sending = asyncio.ensure_future(self._connector.send(action, request, key=key, purpose=purpose, limit=limit))
        if self._killer.wants(f"during call {words}"):
            await asyncio.sleep(DURING)
        self._killer.passed(f"during call {words}")
        outcome = await sending
        self._killer.passed(f"after call {words}")
        return outcome
