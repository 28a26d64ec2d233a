"""How a bound is divided among engines: each has places of it, and all together never more than there are.

Whoever wants more than it has may take what is free, up to its share. Nobody gives up what it does not need while
nobody else needs it. Where a bound cannot be divided evenly, what is left over goes round: a spare place is used once
and given back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.quick import quick

RATE = " rate"
"""How the name of a bound ends whose places count for a while after they were used."""


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What an engine wants of a bound of `whole` places: it could use `wants` now, has `used` in use and so many
    `spare` ones that are not. A place that was used counts for `lasts` ms more when its engine is gone."""

    whole: int
    wants: int
    used: int = 0
    spare: int = 0
    lasts: int = 0


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What it has then: `own` and `spare` places to use, `has` with those that are in use and to be given back. `owes`:
    others want more than they have."""

    own: int
    spare: int
    has: int
    owes: bool = False


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Other:
    """Another engine, as it last said: it has so many places, and could use so many."""

    has: int
    wants: int

    @property
    def is_short(self) -> bool:
        """Whether it waits for more."""
        return self.has < self.wants


def divide(wish: Wish, has: int, others: Sequence[Other], *, gone: int = 0) -> Grant:
    """What an engine that has `has` places gets. `gone` are places of engines that are gone, which count still."""
    most = max(wish.whole - sum(other.has for other in others) - gone, 0)
    share, left = _share(wish, others)
    owes = any(other.is_short for other in others)
    # Not all that is free: when an engine is gone, what it had of a rate counts as used.
    wanted = share if owes else min(max(min(share, 2 * wish.wants), has), wish.whole)
    own = min(wanted, most)
    spare = 0
    if left and wish.wants > share:
        spare = int(own < has <= most and wish.spare > 0) or int(max(own, has) < most)
    return Grant(own=own, spare=spare, has=max(min(wish.used, max(has, most)), own + spare), owes=owes)


def _share(wish: Wish, others: Sequence[Other]) -> tuple[int, int]:
    """How many places are this engine's by right, and how many are left over because they cannot be divided evenly."""
    wanting = sorted(wants for wants in (wish.wants, *(other.wants for other in others)) if wants)
    if not wish.wants:
        return 0, 0
    left = wish.whole
    for at, wants in enumerate(wanting):
        level = left // (len(wanting) - at)
        if wants > level:
            return min(wish.wants, level), left - level * (len(wanting) - at)
        left -= wants
    return wish.wants + left // len(wanting), 0
