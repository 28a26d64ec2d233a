"""The place of approvals: what waits for somebody's decision, and the review pages. Nothing asks for one yet.

The routes will stand here: /review/{locator} with `Anyone` as its guard, since a locator proves nothing by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.web.console import Console
from runner.web.guard import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A question that waits for somebody: `path` is its page, `until` (ms since the epoch) when silence is a no."""

    question: str
    path: str
    until: int


def waiting_for(console: Console, caller: Caller) -> Sequence[Decision]:
    """The open decisions of somebody, the most urgent first."""
    return ()
