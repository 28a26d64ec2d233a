"""`amends engine`: who drives the runs."""

from __future__ import annotations

import asyncio
import enum
import re
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place
from runner.clock import SECOND
from runner.engines import temporal_part
from runner.errors import EngineBusy, NotPossible
from runner.language.settings import Cluster
from runner.reading import SETTINGS, Reading
from runner.secrets import Secrets
from runner.store.lock import EngineLock
from runner.store.shared import LEASE, living
from runner.telling import times

COMMANDS = place.noun("Who drives the runs.")
_LINE = re.compile(r"^engine:.*\n?(?:[ \t]+.*\n?)*", re.MULTILINE)


class Engine(enum.StrEnum):
    """The engines that runs can be moved to."""

    TEMPORAL = "temporal"
    EMBEDDED = "embedded"


@COMMANDS.command(help="Move every open run to the other engine; nothing else of the project may run meanwhile.")
def move(to: Annotated[Engine, typer.Option("--to", help="Who drives them from now on.")]) -> None:
    with place.reading() as project:
        cluster = project.settings.cluster
        if cluster is None:
            _tell_embedded(project, to)
            return
        _refuse_living(project)
        lock = EngineLock(project.folder)
        if not lock.acquire():
            pid = holder.pid if (holder := lock.holder()) else "?"
            raise EngineBusy(f"process {pid} drives this project ({project.folder}); end it, then say this again")
        try:
            asyncio.run((_to_temporal if to is Engine.TEMPORAL else _to_embedded)(project, cluster))
        finally:
            lock.release()


def _tell_embedded(project: Reading, to: Engine) -> None:
    """Says that the embedded engine has the runs. Raises NotPossible where they were to go to a cluster."""
    if to is Engine.TEMPORAL:
        raise NotPossible(
            'amends.yaml names no cluster; for --to temporal write `engine: { temporal: "host:7233" }` into it and '
            "say this again. The embedded engine has the runs now"
        )
    page.say("amends.yaml names no cluster, so the embedded engine has the runs already; nothing was to be done.")


def _refuse_living(project: Reading) -> None:
    """Raises EngineBusy where an engine of the database lives, in this folder or in another one."""
    if not project.has_log or not project.store.is_shared or not (names := project.store.ask(living)):
        return
    one = len(names) == 1
    raise EngineBusy(
        f"{times.counted(len(names), 'engine')} of {project.store.name} {'runs' if one else 'run'} still: "
        f"{', '.join(names)}; end {'it' if one else 'them'}, then say this again; one that was killed is counted as "
        f"gone within {LEASE // SECOND} s"
    )


async def _to_temporal(project: Reading, cluster: Cluster) -> None:
    client = await temporal_part("cluster").connect(cluster, project.folder, Secrets(project.folder).value)
    runs = list(project.store.open_runs()) if project.has_log else []
    renewed = await temporal_part("moving").begin_all(client, cluster.queue, runs)
    has, they = ("has", "It goes") if len(runs) == 1 else ("have", "They go")
    before = f" {times.counted(renewed, 'driver')} on another task queue ended and began anew." if renewed else ""
    page.say(
        f"{times.counted(len(runs), 'run')} {has} a driver in {cluster.address}, namespace {cluster.namespace}, task "
        f"queue {cluster.queue}.{before} {they} on with `amends serve` or `amends worker`."
    )


async def _to_embedded(project: Reading, cluster: Cluster) -> None:
    client = await temporal_part("cluster").connect(cluster, project.folder, Secrets(project.folder).value)
    runs = list(project.store.open_runs()) if project.has_log else []
    ended = await temporal_part("moving").end_all(client, runs)
    _write_embedded(project.folder / SETTINGS)
    go = "goes" if len(runs) == 1 else "go"
    page.say(
        f"{times.counted(ended, 'driver')} ended in {cluster.address}; {times.counted(len(runs), 'run')} {go} on with "
        "`amends serve`. amends.yaml says `engine: embedded` now; the line before it is kept there as a comment."
    )


def _write_embedded(settings: Path) -> None:
    """Puts `engine: embedded` where the cluster stood."""
    text = settings.read_text(encoding="utf-8")

    def commented(found: re.Match[str]) -> str:
        lines = "".join(f"# {line}\n" for line in found[0].rstrip("\n").split("\n"))
        return f"{lines}engine: embedded\n"

    written, count = _LINE.subn(commented, text, count=1)
    if not count:
        raise NotPossible("write `engine: embedded` into amends.yaml yourself; the drivers in the cluster have ended")
    settings.write_text(written, encoding="utf-8")
