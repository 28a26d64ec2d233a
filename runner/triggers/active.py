"""Which triggers are on: those of the one active version of each flow.

While the engine serves, files are looked at again and again. A flow that was changed and is fit takes its predecessor's
place at one instant; one that has problems leaves the last good version where it is, also over a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.clock import Clock
from runner.contract import Json
from runner.engine.starting import keep
from runner.errors import AmendsError, InvalidFlow, SecretMissing
from runner.language.bundle import Bundle, restore
from runner.language.flow import Flow
from runner.language.project import Project
from runner.language.versions import short
from runner.store.active import ActiveFlow, active_flows
from runner.store.sql import SqlStore

log = logging.getLogger("amends.triggers")
EVERY = 1.0
"""Seconds between two looks at the files."""
KINDS = ("form", "webhook", "schedule", "cron", "mail", "poll", "event")
_FOLDERS = (".", "flows", "connectors", "templates", "schemas")


@dataclass(frozen=True, kw_only=True, slots=True)
class Armed:
    """One trigger that is on. `kind` and `name` as written (`webhook`, `orders`); a cron line is a schedule too."""

    flow: str
    bundle: Bundle
    kind: str
    name: str
    said: Mapping[str, Json]

    @property
    def source(self) -> str:
        """What arrivals call it: `webhook:orders`."""
        return f"{self.kind}:{self.name}"


def armed_by(bundle: Bundle) -> Iterator[Armed]:
    """The triggers of a flow, in their order; `manual` is none."""
    for kind, name, said in triggers_in(bundle.flow):
        yield Armed(flow=bundle.flow.id, bundle=bundle, kind=kind, name=name, said=said)


def triggers_in(flow: Flow) -> Iterator[tuple[str, str, Mapping[str, Json]]]:
    """(kind, name, the map as written) of each trigger of a flow."""
    for said in flow.trigger:
        for word in KINDS:
            if word in said:
                yield "schedule" if word == "cron" else word, str(said[word]), said


class Active:
    """`project` reads the files anew, `require` raises where a flow's secrets are missing. `changed` are told when
    other triggers are on, `broken` when a flow goes on with its last good version, and why: its text, or a secret that
    is not set (`lacks`)."""

    def __init__(
        self, store: SqlStore, clock: Clock, project: Callable[[], Project], require: Callable[[Bundle], None]
    ) -> None:
        self.changed: list[Callable[[], None]] = []
        self.broken: list[Callable[[Bundle, str, bool], None]] = []
        self._store = store
        self._clock = clock
        self._project = project
        self._require = require
        self._looking = asyncio.Lock()
        self._stamp: object = None
        self._flows: Mapping[str, ActiveFlow] = {}
        self._armed: tuple[Armed, ...] = ()

    # -- what is on --

    @property
    def flows(self) -> Mapping[str, ActiveFlow]:
        """Every flow that starts by itself, with the problem that keeps its newer text out."""
        return self._flows

    def all(self, kind: str = "") -> tuple[Armed, ...]:
        """The triggers that are on, of one kind or of all."""
        return tuple(armed for armed in self._armed if not kind or armed.kind == kind)

    def since(self, armed: Armed) -> int:
        """Since when its flow starts by itself, ms since the epoch."""
        return self._flows[armed.flow].at

    def on(self, kind: str, name: str) -> tuple[Armed, ...]:
        """The triggers of this name."""
        return tuple(armed for armed in self._armed if (armed.kind, armed.name) == (kind, name))

    # -- looking --

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Looks at the files as long as it is held, the first time before anything else is done."""
        await self.look()
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.look()
            except Exception:
                log.exception("the files of the flows cannot be looked at; it is tried again")

    async def look(self) -> bool:
        """Takes up flows that were changed. Whether anything changed."""
        async with self._looking:
            return await self._look()

    async def _look(self) -> bool:
        project = self._project()
        stamp = await asyncio.to_thread(_stamp_of, project.folder)
        if stamp == self._stamp:
            return False
        before = self._store.ask(active_flows)
        found, wrong, lacking = await asyncio.to_thread(_read, project, self._require, before)
        if any(flow not in before or before[flow].problem != problem for flow, problem in wrong.items()):
            await asyncio.sleep(EVERY)  # whoever is writing a file will be through, and nobody is told of half of it
            stamp = await asyncio.to_thread(_stamp_of, project.folder)
            found, wrong, lacking = await asyncio.to_thread(_read, self._project(), self._require, before)
        after = _after(before, found, wrong, self._clock.now())
        for bundle in found.values():
            await keep(self._store, bundle)
        new = [each for each in after.values() if _differs(each, before.get(each.flow))]
        gone = [ActiveFlow(flow=flow, bundle="") for flow in before if flow not in after]
        if new or gone:
            await self._store.activate([*new, *gone])
        is_changed = bool(new or gone or self._stamp is None)
        has_looked = self._stamp is not None
        self._flows, self._armed = after, tuple(self._arm(after, found))
        self._stamp = stamp
        for each in new:
            if each.problem:
                self._say(each, lacks=each.flow in lacking)
            elif has_looked:
                log.info("flow %s: version %s is in use now", each.flow, short(each.bundle))
        for tell in self.changed if is_changed else ():
            tell()
        return is_changed

    def _say(self, each: ActiveFlow, *, lacks: bool) -> None:
        log.warning("flow %s: %s", each.flow, each.problem)
        for bundle in [armed.bundle for armed in self._armed if armed.flow == each.flow][:1]:
            for tell in self.broken:
                tell(bundle, each.problem, lacks)

    def _arm(self, after: Mapping[str, ActiveFlow], found: Mapping[str, Bundle]) -> Iterator[Armed]:
        for flow, each in after.items():
            if not each.bundle:
                continue
            bundle = found.get(flow)
            if bundle is None or bundle.digest != each.bundle:
                bundle = restore(each.bundle, self._store.bundle(each.bundle))
            yield from armed_by(bundle)


def _differs(one: ActiveFlow, other: ActiveFlow | None) -> bool:
    return other is None or (one.bundle, one.problem) != (other.bundle, other.problem)


def _after(
    before: Mapping[str, ActiveFlow], found: Mapping[str, Bundle], wrong: Mapping[str, str], now: int
) -> dict[str, ActiveFlow]:
    """What is active from now on. A flow that is not fit keeps what it has; one whose file is gone is out."""
    after: dict[str, ActiveFlow] = {}
    for flow in sorted({*found, *wrong}):
        had = before.get(flow, ActiveFlow(flow=flow, bundle=""))
        bundle = found[flow].digest if flow in found else had.bundle
        since = had.at if had.bundle else now
        after[flow] = ActiveFlow(flow=flow, bundle=bundle, problem=wrong.get(flow, ""), at=since)
    return after


def _stamp_of(folder: Path) -> object:
    places = [folder / name for name in _FOLDERS]
    files = sorted(file for place in places if place.is_dir() for file in place.iterdir() if file.is_file())
    return tuple((file, stat.st_mtime_ns, stat.st_size, stat.st_ino) for file in files for stat in (file.stat(),))


def _read(
    project: Project, require: Callable[[Bundle], None], before: Mapping[str, ActiveFlow]
) -> tuple[dict[str, Bundle], dict[str, str], set[str]]:
    """The flows that start by themselves as their files say now, what is wrong with those that cannot run, and which of
    these only lack a secret."""
    found: dict[str, Bundle] = {}
    wrong: dict[str, str] = {}
    lacking: set[str] = set()
    for path in project.flow_files():
        try:
            bundle = project.bundle(path)
            if any(armed_by(bundle)):
                require(bundle)
                found[bundle.flow.id] = bundle
        except InvalidFlow as error:
            flow = project.check(path)[0].flow
            if flow is not None and flow.id not in before and not any(triggers_in(flow)):
                continue  # people start it, and are told then
            first = error.problems[0]
            more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
            wrong[path.stem] = f"{first.file}:{first.line}: {first.what}{more}"
        except AmendsError as error:
            wrong[path.stem] = str(error)
            lacking |= {path.stem} if isinstance(error, SecretMissing) else set()
    return found, wrong, lacking
