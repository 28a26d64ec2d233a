"""Which engine drives a project's runs: this process, or the workers of a cluster."""

from __future__ import annotations

import asyncio
import importlib
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from runner.clock import SECOND, Clock
from runner.engine.carrier import Carrier
from runner.engine.driven import Desk
from runner.engine.embedded import Embedded
from runner.errors import EngineBusy, NotPossible
from runner.language.project import Project
from runner.language.settings import Settings
from runner.outside import ProjectOutside
from runner.store.lock import EngineLock
from runner.store.shared import LEASE, unlike
from runner.store.sql import SqlStore

LIBRARY = "temporalio"


def made_engine(
    project: Project, store: SqlStore, outside: ProjectOutside, clock: Clock, desk: Desk, *, lasts: bool = True,
    only: Sequence[str] = (),
) -> Carrier:  # fmt: skip
    """The engine that amends.yaml names. `lasts`: it is not there for one command alone. `only`: the connections whose
    calls are made here, and nothing else. Raises NotPossible.
    """
    settings = project.settings
    make: Callable[..., Carrier] = Embedded
    if settings.cluster is not None:
        temporal = temporal_part("engine").TemporalEngine
        make = partial(
            temporal, cluster=settings.cluster, folder=project.folder, secret=outside.secret, lasts=lasts, only=only
        )
    elif only:
        raise NotPossible(
            "only the workers of a Temporal cluster can be kept to some connections, and amends.yaml names none"
        )
    return make(store, outside, clock, workers=settings.runs_at_once, desk=desk)


def temporal_part(name: str) -> Any:
    """A module of `runner.engine.temporal`: loaded by name, because a project without a cluster need not have its
    library. Raises NotPossible where it is missing."""
    try:
        return importlib.import_module(f"runner.engine.temporal.{name}")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != LIBRARY:
            raise
        raise NotPossible(
            "amends.yaml names a Temporal cluster, and its library is not installed: pip install 'amends[temporal]'"
        ) from None


def busy(lock: EngineLock, folder: Path) -> EngineBusy:
    """What to say where another process has the lock."""
    holder = lock.holder()
    return EngineBusy(
        f"process {holder.pid if holder else '?'} drives this project ({folder}) already; one engine is enough"
    )


def refuse_mix(store: SqlStore, settings: Settings) -> None:
    """Raises EngineBusy where other engines of the database leave its runs to a cluster and this one does not, or the
    other way round: each would take the other's runs for forgotten."""
    in_cluster = settings.cluster is not None
    if not store.is_shared or not (names := store.ask(unlike(drives=not in_cluster))):
        return
    here, theirs = ("a Temporal cluster", "is embedded") if in_cluster else ("no cluster", "has a Temporal cluster")
    raise EngineBusy(
        f"amends.yaml names {here}, and what runs on {store.name} {theirs} ({', '.join(names)}); give them all one "
        "`engine:`, or end them and say `amends engine move` first; one that was killed is counted as gone within "
        f"{LEASE // SECOND} s"
    )


def told_to_stop() -> asyncio.Event:
    """Set by SIGTERM and Ctrl-C."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped
