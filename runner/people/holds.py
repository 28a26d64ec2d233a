"""What a person holds: a connection, a flow or a record, at which nothing new is begun until it is released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from runner.core import events as e
from runner.errors import AlreadySo, NotPossible
from runner.people.table import HOLDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """A connection, a flow or a record is to be held, or (`is_held` False) released."""

    kind: Literal["connection", "flow", "record"]
    name: str
    by: str
    reason: str = ""
    is_held: bool = True

    @property
    def what(self) -> str:
        """As the store names it: `connection:crm`."""
        return f"{self.kind}:{self.name}"


def fact_for(hold: Hold, held: Mapping[str, str], now: int, *, keeper: str = "") -> e.SiteEvent:
    """The fact that this becomes; `held` is what is held by now, `keeper` the run that keeps the record.

    Raises NotPossible, AlreadySo.
    """
    by = held.get(hold.what)
    situation = "held by a person" if by is not None else "kept by a run" if keeper else "free"
    answer = HOLDS[situation]["hold" if hold.is_held else "release"]
    if answer == "already" and hold.is_held:
        noun = "run" if hold.kind == "record" else hold.kind
        raise AlreadySo(
            f"{hold.kind} {hold.name} is held already, by {by}; `amends {noun}s release {hold.name}` lets it go on"
        )
    if answer == "already":
        raise AlreadySo(f"{hold.kind} {hold.name} is not held by a person, so there is nothing to release")
    if answer == "refused":
        raise NotPossible(
            f"{hold.kind} {hold.name} is kept by run {keeper}, not by a person; `amends runs show {keeper}` says what "
            "can be done"
        )
    fact = _FACTS[hold.kind, hold.is_held]
    return fact(at=now, name=hold.name, by=hold.by, data={"reason": hold.reason} if hold.reason else {})


_FACTS: Mapping[tuple[str, bool], type[e.SiteEvent]] = {
    ("connection", True): e.ConnectionHeld,
    ("connection", False): e.ConnectionReleased,
    ("flow", True): e.FlowHeld,
    ("flow", False): e.FlowReleased,
    ("record", True): e.HoldPlaced,
    ("record", False): e.HoldLifted,
}
