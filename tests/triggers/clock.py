"""A clock that a test puts on and back."""

from __future__ import annotations

from datetime import datetime

from runner.clock import MachineClock


class PutOnClock(MachineClock):
    """The machine's clock, put to some moment and going on from there."""

    def __init__(self, text: str) -> None:
        self._by = 0
        self.put(text)

    def put(self, text: str) -> None:
        self._by += round(datetime.fromisoformat(text).timestamp() * 1000) - self.now()

    def now(self) -> int:
        return super().now() + self._by
