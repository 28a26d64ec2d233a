"""The only place where parts are put together: a project, its store, its connectors, and an engine to drive its runs.

`Amends.open(folder)` reads. `async with amends.driver() as driver:` writes: this process takes the engine's lock, or,
when another process has it, hands everything over to that one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from runner.clock import MachineClock
from runner.contract import Connector, Json
from runner.core import events as e
from runner.core.fold import fold_all
from runner.core.state import State
from runner.engine.embedded import Embedded
from runner.engine.handover import Listener, Tell, ask
from runner.errors import EngineBusy, NotPossible
from runner.language.bundle import Bundle
from runner.language.project import Project
from runner.people.operations import Order, report_for
from runner.store.facts import RunView, Started
from runner.store.lock import EngineLock
from runner.store.sql import SqlStore, open_store
from runner.triggers.start import Wish, start_run

PATIENCE = 600_000
"""ms that `follow` waits for a timer before it lets go."""
RESTS = ("needs_person", "paused")
LOCK_TRIES = 100


class Driver(Protocol):
    """Whoever writes for this command: this process, or the one that holds the engine."""

    async def start(self, flow: str, wish: Wish) -> Started:
        """Starts a run of a flow (id or path), or joins one. Raises InvalidFlow, InputsInvalid, RunKeyConflict."""

    async def act(self, run: str, order: Order) -> RunView:
        """Does what a person ordered, and answers once the engine has decided about it. Raises NotPossible."""

    async def follow(self, run: str, on_turn: Callable[[], None], patience: int = PATIENCE) -> RunView:
        """Follows a run until it ends, waits for a person or another run, or for a timer further than `patience` ms.

        `on_turn` is called after each turn; what is new stands in the log.
        """


class Amends:
    """One project, opened for reading."""

    def __init__(self, project: Project, store: SqlStore) -> None:
        self.project = project
        self.store = store
        self.clock = MachineClock()
