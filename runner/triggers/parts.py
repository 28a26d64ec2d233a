"""What a trigger is given to work with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from runner.clock import Clock
from runner.contract import Connector
from runner.engine.carrier import Carrier
from runner.errors import StoreError
from runner.store.arrivals import TROUBLE, cursor
from runner.store.sql import SqlStore
from runner.triggers.active import Active
from runner.triggers.intake import Intake

log = logging.getLogger("amends.triggers")
STANDS_BY = 5
"""Seconds until an engine asks again for a duty that another one has, or looks at what that one may have left."""
RESTORED = "the database was put back from a copy since, so nobody knows whether it has started something already"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """`connect` makes the connector of a connection as the project has it now (raises SettingsError), `on_event` are
    told of events that are sent from outside."""

    active: Active
    intake: Intake
    store: SqlStore
    engine: Carrier
    clock: Clock
    connect: Callable[[str], Connector]
    on_event: list[Callable[[], None]]

    async def say_trouble(self, source: str, text: str) -> None:
        """Why a trigger that waits by itself cannot go on just now, for whoever looks; empty when it goes again. Where
        that cannot be stored either, the log alone says it."""
        try:
            if text == self.store.ask(cursor(f"{TROUBLE}{source}")):
                return
            if text:
                log.warning("%s: %s", source, text)
            await self.intake.take_all([], cursor=(f"{TROUBLE}{source}", text))
        except StoreError as error:
            log.error("%s: %s", source, error)
