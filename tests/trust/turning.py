"""Every project's runs are driven by a real Temporal cluster on PostgreSQL, whatever its amends.yaml leaves out.

The addresses are in TESTS_TEMPORAL and TESTS_DATABASE. A project has a task queue and a schema of its own, by its folder.
TESTS_PLANT names a mistake that is made in the engine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg

from runner import reading
from runner.contract import Outcome
from runner.core import events as e
from runner.engine.driven import Driven
from runner.engine.temporal.engine import TemporalEngine
from runner.language.project import Project
from runner.language.settings import Cluster, Settings

SECRET = "THE_DATABASE_OF_THE_TESTS"
USUAL = Settings(project="any").database
_made: set[str] = set()


def turn() -> None:
    """In this process."""
    for kind in (Project, reading.Reading):
        turned = _turning(vars(kind)["settings"].func)
        turned.__set_name__(kind, "settings")
        setattr(kind, "settings", turned)  # noqa: B010
    if plant := os.environ.get("TESTS_PLANT"):
        PLANTED[plant]()
    address_of = reading.address_of
    setattr(  # noqa: B010 - a name that the module only uses
        reading, "address_of", lambda folder, name: _database(folder) if name == SECRET else address_of(folder, name)
    )


def _calls_twice() -> None:
    perform = TemporalEngine._perform

    async def performed(self: TemporalEngine, driven: Driven, intent: e.CallIntended, committed: int) -> Outcome:
        await perform(self, driven, intent, committed)
        return await perform(self, driven, intent, committed)

    setattr(TemporalEngine, "_perform", performed)  # noqa: B010


def _tells_too_soon() -> None:
    async def rest(self: TemporalEngine, run: str) -> None:
        """As if nobody carried it."""

    setattr(TemporalEngine, "rest", rest)  # noqa: B010


PLANTED: Mapping[str, Callable[[], None]] = {
    "every call is made twice": _calls_twice, "a run is said to rest while it is carried": _tells_too_soon,
}  # fmt: skip


def _turning(usual: Callable[[Any], Settings]) -> cached_property[Settings]:
    return cached_property(lambda of: _turned(usual(of), of.folder))


def _turned(settings: Settings, folder: Path) -> Settings:
    if settings.cluster is None:
        settings = replace(settings, cluster=Cluster(address=os.environ["TESTS_TEMPORAL"], queue=_name(folder)))
    if os.environ.get("TESTS_DATABASE") and settings.database == USUAL and not settings.database_secret:
        settings = replace(settings, database_secret=SECRET)
    return settings


def _name(folder: Path) -> str:
    return "t" + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]


def _database(folder: Path) -> str:
    """The address of the project's schema, which is made where it is missing."""
    server, name = os.environ["TESTS_DATABASE"], _name(folder)
    if name not in _made:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}".encode())
        _made.add(name)
    return f"{server}/postgres?options=-csearch_path%3D{name}"
