"""What engines that share a database know of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runner.errors import NotPossible, SequenceConflict
from runner.store.anchor import Restoration
from runner.store.dividing import Grant, Wish


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """What an engine left that is gone: its runs, now ours or nobody's, and chains that no checkpoint has (run, seq,
    hash)."""

    fence: int
    name: str
    runs: tuple[str, ...]
    changed: tuple[tuple[str, int, str], ...]


LEFT = "left"
"""What an engine tells the others when it goes, or that something may not have been heard."""


HOLDS = "holds"
"""What an engine tells the others when a person holds a connection or a flow, or lets it go on."""

PLACES = "places"
"""What an engine tells another one that has places of a bound which it needs, or waits for some that it gives back."""

WORDS = (LEFT, HOLDS, PLACES)
"""Whatever else is told is a run's id."""


class HeldByPerson(NotPossible):
    """A person holds what a call needs: `name` (`connection:crm`, `flow:signup`), held `by`."""

    def __init__(self, name: str, by: str) -> None:
        super().__init__(f"{name.replace(':', ' ')} is held by {by}")
        self.name = name
        self.by = by


class RunTaken(SequenceConflict):
    """Another engine drives the run, or did since: this one leaves it."""


class Company(Protocol):
    """What a store answers about other engines, and about copies of itself. Where there is one engine, every run is its
    own."""

    @property
    def is_shared(self) -> bool:
        """Whether other engines may write to it too."""

    def is_in_company(self) -> bool:
        """Whether other engines write to it just now."""

    def watch_left(self, on_left: Callable[[Left], object]) -> None:
        """Has the writer's thread tell of each engine that is gone, with its runs that this one has now; and of this
        engine's own old fence, where others took it for gone."""

    async def listen(self, told: Callable[[int, str], None]) -> None:
        """Hears what engines tell each other, until cancelled: (fence of whom it concerns or 0, a run's id or
        one of WORDS)."""

    async def take(self, run: str) -> bool:
        """Takes a run to be driven here. False where another engine drives it, or it has ended."""

    async def give_back(self, run: str) -> None:
        """Leaves a run to whoever wakes it."""

    async def tell(self, run: str) -> None:
        """Has whichever other engine drives the run look at it again."""

    async def take_on(self, duty: str) -> bool:
        """Takes on what one engine does for all, as long as it lives. Answers whether it is this one."""

    async def divide(self, wishes: Mapping[str, Wish]) -> Mapping[str, Grant]:
        """Takes and gives back places of bounds that engines share, by the names of these. Raises StoreUnwritable."""

    def fence(self) -> int:
        """The current fence: this engine's where it writes."""

    def fence_of(self, run: str) -> int:
        """That of the engine which drives the run; 0 where none does, or there is one engine only. Raises NotFound."""

    def restorations(self) -> Sequence[Restoration]:
        """When the database was put back from a copy and let go on, oldest first; `at` 0 while nobody has answered."""
