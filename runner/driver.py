"""Whoever writes for a command: what can be asked of it, in this process or of the one that holds the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from runner.contract import Json
from runner.engine.starting import Wish
from runner.far import PATIENCE
from runner.people.anchoring import Anchored
from runner.people.approvals import Decision
from runner.people.erasing import Erasing
from runner.people.holds import Hold
from runner.people.operations import Order
from runner.people.pruning import Pruned
from runner.store.access import Access
from runner.store.arrivals import Arrived
from runner.store.facts import RunView, Started


class Driver(Protocol):
    """Whoever writes for this command: this process, or the one that holds the engine."""

    async def start(self, flow: str, wish: Wish) -> Started:
        """Starts a run of a flow (id or path), or joins one. Raises InvalidFlow, InputsInvalid, RunKeyConflict."""

    async def pin(self, flow: str) -> str:
        """Keeps a flow (id or path) as it is now, to be started often. Answers its digest. Raises InvalidFlow."""

    async def start_pinned(self, digest: str, wish: Wish) -> Started:
        """Starts a run of a flow that was pinned, or joins one. Raises InputsInvalid, RunKeyConflict."""

    async def act(self, run: str, order: Order) -> RunView:
        """Does what a person ordered, and answers once the engine has decided about it. Raises NotPossible."""

    async def decide(self, run: str, decision: Decision) -> RunView:
        """Records what a person decided about an approval. Raises NotPossible."""

    async def erase(self, wish: Erasing) -> Mapping[str, Json]:
        """Erases what is known about a record; see `erasing.erase`. Raises NotPossible."""

    async def prune(self, by: str) -> Pruned:
        """Removes ended runs whose time is over."""

    async def anchor(self) -> Anchored:
        """Makes an anchor of the action log, and hands it to all who are to keep it."""

    async def follow(self, run: str, on_turn: Callable[[], None], patience: int = PATIENCE) -> RunView:
        """Follows a run until it ends, waits for a person or another run, or for a timer further than `patience` ms.

        `on_turn` is called after each turn; what is new stands in the log.
        """

    async def hold(self, hold: Hold) -> None:
        """Holds or releases a connection or a flow; nothing new is intended at what is held. Raises NotPossible."""

    async def take_again(self, arrival: str, flow: str, by: str, reason: str) -> Arrived:
        """Has an arrival (id, or its beginning) taken again, at one flow or whichever has it. Raises NotFound."""

    async def answer_quarantine(self, run: str, record: str, *, by: str, reason: str, discard: bool) -> None:
        """Releases or discards a record that was set aside. Raises NotFound."""

    async def admit(self, row: Access) -> None:
        """Keeps a new password, link, session or token."""

    async def send_event(self, event_id: str, event: str, data: Mapping[str, Json], source: str) -> bool:
        """Keeps an event from outside, and feeds it to whoever waits for it. False where it had come before."""


class Door(Protocol):
    """What `serve` opens beside the engine."""

    def bind(self) -> None:
        """Takes its place before the engine begins. Raises NotPossible where it is taken."""

    @property
    def address(self) -> str:
        """Where people reach it, once it has its place."""

    def serving(self, driver: Any) -> AbstractAsyncContextManager[None]:
        """Open as long as it is held. `driver` is the engine's own."""
