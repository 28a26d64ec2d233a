"""`amends engine`: who drives the runs."""

from __future__ import annotations

import asyncio
import enum
import re
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import page, place
from runner.engines import busy, temporal_part
from runner.errors import NotPossible
from runner.language.settings import Cluster
from runner.reading import SETTINGS, Reading
from runner.secrets import Secrets
from runner.store.lock import EngineLock
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
            raise NotPossible(
                'amends.yaml names no cluster; for --to temporal write `engine: { temporal: "host:7233" }` into it and '
                "say this again. The embedded engine has the runs now"
            )
        lock = EngineLock(project.folder)
        if not lock.acquire():
            raise busy(lock, project.folder)
        try:
            asyncio.run((_to_temporal if to is Engine.TEMPORAL else _to_embedded)(project, cluster))
        finally:
            lock.release()


async def _to_temporal(project: Reading, cluster: Cluster) -> None:
    client = await temporal_part("cluster").connect(cluster, project.folder, Secrets(project.folder).value)
    runs = list(project.store.open_runs()) if project.has_log else []
    await temporal_part("moving").begin_all(client, cluster.queue, runs)
    page.say(
        f"{times.counted(len(runs), 'run')} have a driver in {cluster.address}, namespace {cluster.namespace}. "
        "They go on with `amends serve` or `amends worker`."
    )


async def _to_embedded(project: Reading, cluster: Cluster) -> None:
    client = await temporal_part("cluster").connect(cluster, project.folder, Secrets(project.folder).value)
    runs = list(project.store.open_runs()) if project.has_log else []
    ended = await temporal_part("moving").end_all(client, runs)
    _write_embedded(project.folder / SETTINGS)
    page.say(
        f"{times.counted(ended, 'driver')} ended in {cluster.address}; {times.counted(len(runs), 'run')} go on with "
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
