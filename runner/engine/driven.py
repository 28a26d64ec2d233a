"""A run while a worker drives it, and where its bundle and its connectors come from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runner.contract import Connector, Outcome
from runner.core import events as e
from runner.core.state import State
from runner.language.bundle import Bundle
from runner.store.facts import LogEnd, RunColumns
from runner.store.messages import Message


class Outside(Protocol):
    """Where bundles and connectors come from."""

    def bundle(self, digest: str) -> Bundle:
        """The pinned bundle."""

    def connector(self, bundle: Bundle, connection: str) -> Connector:
        """The connector of a connection, as this bundle pins it. Raises SettingsError."""


class Desk(Protocol):
    """Who may approve, and where a connection leads: what no bundle pins."""

    def entitled(self, bundle: Bundle, state: State, by: tuple[str, ...], now: int) -> tuple[str, ...]:
        """The people behind these names who may approve in this run (`person:aya`): whoever started it is not among
        them, except in a draft."""

    def demands_sign_in(self, bundle: Bundle, state: State, approval: str) -> bool:
        """Whether a code by mail does not prove enough for this approval."""

    def leads_to(self, bundle: Bundle, connection: str) -> str:
        """Where a connection leads and by which secrets, by their names: what must not change after an approval.
        Raises SettingsError."""

    def messages(self, bundle: Bundle, state: State, events: Sequence[e.Event]) -> tuple[Message, ...]:
        """What people are told of these facts; `state` is after them."""


class OpenDesk:
    """Takes names as they are: for drills and laws."""

    def entitled(self, bundle: Bundle, state: State, by: tuple[str, ...], now: int) -> tuple[str, ...]:
        """Everybody who is named."""
        return by

    def demands_sign_in(self, bundle: Bundle, state: State, approval: str) -> bool:
        """Never."""
        return False

    def leads_to(self, bundle: Bundle, connection: str) -> str:
        """Itself."""
        return connection

    def messages(self, bundle: Bundle, state: State, events: Sequence[e.Event]) -> tuple[Message, ...]:
        """Nobody is told anything."""
        return ()


OPEN_DESK = OpenDesk()
BLANK = State()
"""Nothing is known of the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rest:
    """What a run that was carried waits for: nothing any more, or a report, and `due` (ms since the epoch).

    `is_elsewhere`: another engine has it, and nothing was done. Else `flow` and `status` are as its row has them.
    """

    has_ended: bool
    due: int | None
    flow: str = ""
    status: str = ""
    is_elsewhere: bool = False


ELSEWHERE = Rest(has_ended=False, due=None, is_elsewhere=True)


class Bell:
    """Is set when something was reported about a run; whoever waits at it hears of answers of calls too (`ring`)."""

    __slots__ = ("_has_rung", "_heard", "_is_set")

    def __init__(self) -> None:
        self._is_set = self._has_rung = False
        self._heard: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        """Whether something was reported since it was cleared."""
        return self._is_set

    def clear(self) -> None:
        """Whatever was reported is looked at now."""
        self._is_set = False

    def set(self) -> None:
        """Something was reported."""
        self._is_set = True
        self.ring()

    def ring(self, call: object = None) -> None:
        """A call has its answer."""
        self._has_rung = True
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(None)

    async def wait(self) -> None:
        """Returns when it is set, or has rung since somebody waited last. One waits at a time."""
        if not (self._is_set or self._has_rung):
            self._heard = asyncio.get_running_loop().create_future()
            await self._heard
        self._has_rung = False


@dataclass(kw_only=True, slots=True)
class Driven:
    """A run that is driven.

    `columns`, `waits` and `told` are what the tables beside the log were last written for; None and an empty state
    where that is not known, because reports may have come in between. `is_left`: it was written that others
    may take the run. `asked_at`: when the last commit was asked for, by the monotonic clock. `woken` is set when
    something was reported.
    """

    run: str
    bundle: Bundle
    state: State
    end: LogEnd
    woken: Bell
    columns: RunColumns | None = None
    waits: tuple[str, ...] | None = None
    is_left: bool = False
    asked_at: int = 0
    told: State = BLANK
    calls: dict[asyncio.Task[Outcome], e.CallIntended] = field(default_factory=dict)
