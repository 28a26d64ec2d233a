"""What every page needs: the project as it is now, its log, who writes, and the address people know it by."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request

from runner.app import Amends, OwnDriver
from runner.core import events as e
from runner.core.state import State
from runner.current import Glances
from runner.language.people import People
from runner.language.project import PEOPLE, SETTINGS, Project
from runner.people.access import Tries
from runner.people.approvals import Decision
from runner.people.operations import Order
from runner.recorded import retold
from runner.store.facts import RunView
from runner.store.sql import SqlStore
from runner.telling import times
from runner.telling.story import Story, story_of
from runner.tongue import _
from runner.triggers.formdesk import FormDesk
from runner.web.figures import Metrics

SOON = 3.0
"""Seconds that a page waits for what follows from an order; then the run's page goes on telling."""
TOGETHER = 0.3
"""Seconds in which changes are told as one."""


class Console:
    """One project behind its pages. `public_url` is what people type; `port` where we listen."""

    def __init__(self, amends: Amends, driver: OwnDriver, *, public_url: str, port: int) -> None:
        self.amends = amends
        self.driver = driver
        self.port = port
        self.public_url = public_url
        self.sign = secrets.token_hex(8)
        self.feed = Feed()
        self.tries, self.crowd = Tries(), Tries(most=50)
        self.noted: tuple[int, Counter[str]] | None = None
        self.forms = FormDesk(driver.store.artifacts.root.parent)
        self.forms.uploads.sweep(self.now)
        self._files = [str(amends.folder / name) for name in (SETTINGS, PEOPLE)]
        self._project: tuple[object, Project] | None = None
        self._glances = Glances()
        self.metrics = Metrics(driver, amends.clock)
        driver.engine.observers += [self.feed.observe, self.metrics.observe]
        driver.store.watch_commits(self.metrics.committed)

    @property
    def prefix(self) -> str:
        """The path before every address of ours: empty, or `/amends` behind such a proxy."""
        return urlsplit(self.public_url).path.rstrip("/")

    @property
    def origin(self) -> str:
        """The origin of our pages: https://amends.acme.example."""
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def is_secure(self) -> bool:
        """People reach it over https."""
        return self.public_url.startswith("https:")

    @property
    def hosts(self) -> frozenset[str]:
        """The names we answer to."""
        own = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        return frozenset({*own, urlsplit(self.public_url).netloc.lower()})

    @property
    def provider(self) -> str:
        """What people call the provider that they sign in at; empty where there is none."""
        words = self.project.settings.sign_in
        return urlsplit(words.oidc).netloc if words is not None else ""

    @property
    def store(self) -> SqlStore:
        """The log."""
        return self.driver.store

    @property
    def project(self) -> Project:
        """The project with its files as they are now."""
        if self._glances.is_first("") or self._project is None:
            known = tuple([_written_at(file) for file in self._files])
            if self._project is None or self._project[0] != known:
                self._project = (known, self.amends.project.again())
        return self._project[1]

    def look_anew(self) -> None:
        """A request has come: it goes by the project's files as they are now, and looks at them once."""
        self._glances.forget("")
        self.driver.look_anew()

    @property
    def people(self) -> People:
        """people.yaml as it is now."""
        return self.project.people

    @property
    def zone(self) -> str:
        """The zone that times are shown in."""
        return times.reader_zone(self.project.settings.zone, self.project.settings.has_zone)

    @property
    def alarm(self) -> str:
        """What keeps runs from going on, or new ones from being started; empty where nothing does."""
        if self.driver.rests:
            return _("This project rests: nothing is driven, started or sent until an admin has answered.")
        if refused := self.store.refused:
            return _("Nothing can be written now, so no run goes on until it can: {why}", why=retold(refused))
        return self.amends.short_of_room

    @property
    def now(self) -> int:
        """ms since the epoch."""
        return self.amends.clock.now()

    def story(self, run: str, *, reveal: bool = False, whole: str | None = None) -> Story:
        """Everything there is to tell of a run, without personal data unless told. Raises NotFound, NotPossible."""
        return story_of(self.amends, run, self.zone, reveal=reveal, whole=whole)

    async def act(self, run: str, order: Order) -> RunView:
        """Has an order carried out and waits a little for what follows. Raises NotPossible, NotFound."""
        await self.soon(self.driver.act(run, order))
        return self.store.run(run)

    async def decide(self, run: str, decision: Decision) -> RunView:
        """Has a decision recorded and waits a little for what follows. Raises NotPossible, NotFound."""
        await self.driver.record(run, decision)
        await self.soon(self.driver.engine.rest(run))
        return self.store.run(run)

    async def soon(self, doing: Coroutine[Any, Any, object]) -> None:
        """Waits a little for it; it goes on by itself."""
        waiting = asyncio.ensure_future(doing)
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), SOON)


def console_of(request: Request) -> Console:
    """The console that a request came to."""
    found: Console = request.app.state.console
    return found


def _written_at(file: str) -> tuple[int, int]:
    """This is asked for many requests, which is why it goes without `Path`."""
    try:
        seen = os.stat(file)  # noqa: PTH116
    except OSError:
        return 0, 0
    return seen.st_mtime_ns, seen.st_size


class Feed:
    """Tells those who look on that something has changed: of one run, or of any."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, str] = {}
        self.is_closed = False

    def observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        """A turn of the engine."""
        for event, wanted in self._waiting.items():
            if events and wanted in ("", run):
                event.set()

    def close(self) -> None:
        """Lets everybody go."""
        self.is_closed = True
        for event in self._waiting:
            event.set()

    async def changed(self, run: str, within: float) -> bool:
        """Waits until something changes in this run (in any: empty), or the time is over. Whether it did."""
        event = asyncio.Event()
        self._waiting[event] = run
        try:
            await asyncio.wait_for(event.wait(), within)
            await asyncio.sleep(0 if self.is_closed else TOGETHER)
        except TimeoutError:
            return False
        finally:
            del self._waiting[event]
        return not self.is_closed
