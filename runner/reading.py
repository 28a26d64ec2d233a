"""A project's past, opened for reading: its settings, its store, its runs. Loads neither the engine nor the connectors.

`runner.app` adds what reads flows and what writes.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Self

from runner.clock import Clock, MachineClock
from runner.core.events import HandedOff
from runner.errors import NotFound, SettingsError
from runner.language.settings import Settings, load_settings
from runner.language.source import read_bytes
from runner.secrets import Secrets
from runner.store.database import is_address
from runner.store.facts import HandOffView, RunFilter, RunView
from runner.store.pages import pages_of
from runner.store.personal import V
from runner.store.restored import why_it_rests
from runner.store.shared import living
from runner.store.sql import FLOOR, SqlStore, open_store
from runner.store.sqlite import shown_size
from runner.tongue import _

SETTINGS = "amends.yaml"
PAGE = 500


def folder_around(path: Path) -> Path:
    """The project's folder: the nearest one above with an amends.yaml, else the path itself, or what holds `flows`."""
    start = path.resolve()
    for above in (start, *start.parents):
        if (above / SETTINGS).is_file():
            return above
    return start.parent if start.name == "flows" and start.parent != start else start


def is_project(folder: Path) -> bool:
    """Whether anything in this folder makes it a project: its settings, flows, or what earlier runs have left."""
    return any((folder / name).exists() for name in (SETTINGS, "flows", "connections.yaml", ".amends"))


class Reading:
    """One project's settings and store. Close it in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock: Clock = MachineClock()
        self._store: SqlStore | None = None

    @classmethod
    def open(cls, folder: Path | None = None) -> Self:
        """The project of a folder (default: the one around the current folder)."""
        return cls(folder_around(folder or Path.cwd()))

    @cached_property
    def settings(self) -> Settings:
        """amends.yaml as far as it can be read."""
        file = self.folder / SETTINGS
        text = read_bytes(file, SETTINGS)[0] if file.is_file() else None
        return load_settings(text, SETTINGS, folder=self.folder.name)[0]

    @property
    def store(self) -> SqlStore:
        """The store, for reading. Raises NotFound while the project has no database, which its first run makes."""
        if self._store is None:
            url = database_url(self.folder, self.settings)
            self._store = open_store(self.folder, clock=self.clock, writable=False, url=url)
        return self._store

    @property
    def has_log(self) -> bool:
        """Whether there is a database: the first run makes it. Raises what keeps it from being read."""
        try:
            return self.store is not None
        except NotFound:
            return False

    def runs(self, wanted: RunFilter) -> list[RunView]:
        """Runs, newest first; none where there is no database yet."""
        return list(self.store.runs(wanted)) if self.has_log else []

    @property
    def short_of_room(self) -> str:
        """What to say while there is so little room that no new run is started; else empty."""
        if not self.has_log or not self.store.is_short:
            return ""
        left, path = shown_size(self.store.room_left()), self.store.name
        return _(
            "Only {left} are free on the disk of {path}: no new run is started until there are {floor}, and runs under "
            "way go on. Free some space, or remove ended runs: amends db prune",
            left=left, path=path, floor=shown_size(FLOOR),
        )  # fmt: skip

    @property
    def pages(self) -> str:
        """Where people reach the pages now."""
        return pages_of(self.folder, self.settings)

    @property
    def has_looked(self) -> bool:
        """Whether the store was opened."""
        return self._store is not None

    @property
    def rests(self) -> str:
        """Why nothing is driven, started or sent from this database; empty where it does not rest."""
        name, place = self.store.name, None if self.store.is_shared else self.folder / ".amends"
        return self.store.ask(lambda connection: why_it_rests(connection, name, place))

    @property
    def engines(self) -> list[str]:
        """The engines of all machines that drive the project now, where they may be several: each as `host:process`."""
        return self.store.ask(living) if self.has_log and self.store.is_shared else []

    def every_run(self) -> list[RunView]:
        """All runs, newest first."""
        found: list[RunView] = []
        while some := self.runs(RunFilter(before=found[-1].run if found else "", limit=PAGE)):
            found += some
        return found

    def handoffs(self, run: str, *, open_only: bool) -> list[HandOffView]:
        """Hand-offs, of one run or of all; none where there is no database yet."""
        return list(self.store.handoffs(run=run, open_only=open_only)) if self.has_log else []

    def veiled(self, told: V) -> V:
        """A row of a list without the personal data in it."""
        personal = self.store.personal(told.run)
        return told if personal is None else personal.fields_of(told)

    def said(self, each: HandOffView) -> str:
        """What the author says where the flow itself hands over; empty for other questions."""
        if each.kind not in ("step", "compensation"):
            return ""
        events = self.store.events_of(each.run, HandedOff.__name__)
        return next((ev.say for ev in events if isinstance(ev, HandedOff) and ev.handoff == each.handoff), "")

    def close(self) -> None:
        """Closes the readers."""
        if self._store is not None:
            self._store.close()


def database_url(folder: Path, settings: Settings) -> str:
    """Where a project's database is, empty for the usual place. Raises SecretMissing, SettingsError."""
    if settings.database_secret:
        return address_of(folder, settings.database_secret)
    usual = settings.database == ".amends/amends.db"
    return "" if usual else f"sqlite:///{folder / settings.database}"


def address_of(folder: Path, secret: str) -> str:
    """The address of a PostgreSQL database that a secret holds. Raises SecretMissing, SettingsError."""
    url = Secrets(folder).value(secret)
    if not is_address(url):
        raise SettingsError(
            f"the secret {secret} is to hold the address of a PostgreSQL database, and that begins with postgresql://; "
            "to keep the runs in a file write `database: path/to/file.db`"
        )
    return url
