"""Who may approve in the laws, and where connections lead: both change once, at a chance time."""

from __future__ import annotations

import random
from dataclasses import dataclass

from runner.core.state import State
from runner.engine.driven import OpenDesk
from runner.engine.simulated import VirtualClock
from runner.language.bundle import Bundle

EVERYBODY = tuple(f"person:p{number}" for number in range(1, 8))
TEAMS = {
    "team:leads": ("person:p1", "person:p2", "person:p3", "person:p4"),
    "team:bosses": ("person:p4", "person:p5"),
    "person:p6": ("person:p6",),
}
NEVER = 10**15


@dataclass(kw_only=True)
class Staff(OpenDesk):
    """The desk. `gone` is when p2 may approve nothing any more, `moved` when every connection leads elsewhere."""

    gone: int = NEVER
    moved: int = NEVER
    clock: VirtualClock | None = None

    @classmethod
    def at_random(cls, rng: random.Random) -> Staff:
        start = VirtualClock().at
        spans = (NEVER, NEVER, 1_000, 5_000_000, 90_000_000, 180_000_000)
        return cls(gone=start + rng.choice(spans), moved=start + rng.choice(spans))

    def entitled(self, bundle: Bundle, state: State, by: tuple[str, ...], now: int) -> tuple[str, ...]:
        """See `engine.driven.Desk`."""
        return (state.starter,) if state.mode == "draft" else self.may(by, now, state.starter)

    def may(self, by: tuple[str, ...], now: int, starter: str) -> tuple[str, ...]:
        """Who may approve then."""
        found = dict.fromkeys(person for name in by for person in TEAMS.get(name, ()))
        return tuple(one for one in found if one != starter and not (one == "person:p2" and now >= self.gone))

    def leads_to(self, bundle: Bundle, connection: str) -> str:
        """See `engine.driven.Desk`."""
        return self.where(self.clock.at if self.clock is not None else 0)

    def where(self, at: int) -> str:
        """Where every connection leads then."""
        return "elsewhere" if at >= self.moved else "here"
