"""What a trigger is given to work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.clock import Clock
from runner.contract import Connector
from runner.engine.embedded import Embedded
from runner.store.sql import SqlStore
from runner.triggers.active import Active
from runner.triggers.intake import Intake


@dataclass(frozen=True, kw_only=True)
class Parts:
    """`connect` makes the connector of a connection as the project has it now (raises SettingsError), `on_event` are
    told of events that are sent from outside."""

    active: Active
    intake: Intake
    store: SqlStore
    engine: Embedded
    clock: Clock
    connect: Callable[[str], Connector]
    on_event: list[Callable[[], None]]
