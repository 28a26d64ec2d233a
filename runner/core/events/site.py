"""Facts of no run: the chain of run id `_site`."""

from __future__ import annotations

from dataclasses import dataclass

from runner.core.events.kinds import SiteEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotMissed(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotSkipped(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryIgnored(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryConflict(SiteEvent):
    """The same run key or delivery id came with other content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryRetaken(SiteEvent):
    """A person had an arrival of the flow `name` taken again; `data`: which, the `reason`, and what became of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventKept(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionHeld(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionReleased(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowHeld(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowReleased(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldPlaced(SiteEvent):
    """A person holds the record `name`: no run changes anything on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldLifted(SiteEvent):
    """A person lets go of the record `name`, whoever held it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowActivated(SiteEvent):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored(SiteEvent):
    """The database stands below its anchor: it was restored or copied."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunsPruned(SiteEvent):
    """Ended runs were removed after their time: `runs` in `data` has the last entry of each log, [seq, hash]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint(SiteEvent):
    """Ties the chains of the runs together."""
