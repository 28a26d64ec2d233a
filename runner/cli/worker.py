"""`amends worker`: an engine alone, without pages and without what starts by itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

import typer

from runner.app import Amends
from runner.cli import logs, page, place, watching
from runner.errors import NotPossible
from runner.language.settings import Cluster
from runner.serving import serve

COMMANDS = place.verb()


@COMMANDS.command(help="Carry the project's runs, without pages and triggers, until SIGTERM or Ctrl-C.")
def worker(
    connections: Annotated[
        str, typer.Option("--connections", help="Make the calls of these connections alone: billing,bank.")
    ] = "",
) -> None:
    only = [name.strip() for name in connections.split(",") if name.strip()]
    with watching.opened() as amends, logs.observed(amends) as on_turn:
        _check(amends, only)
        logging.getLogger("amends.engine").setLevel(logging.INFO)
        what = f"makes the calls of {', '.join(only)} for" if only else "carries the runs of"
        told = f"This worker {what} {amends.settings.project} ({amends.folder}). Ctrl-C ends it."
        asyncio.run(serve(amends, lambda _: page.say(told, *place.driven_with(amends, only)), on_turn, None, only))
        page.say("Stopped. Other workers go on, or the next one that is started.")


def _check(amends: Amends, only: list[str]) -> None:
    cluster: Cluster | None = amends.settings.cluster
    apart = cluster.apart if cluster is not None else frozenset()
    for name in only:
        if name not in amends.project.connections.by_name:
            raise NotPossible(f'connections.yaml has no line "{name}"; `amends connections list` names them')
        if cluster is not None and name not in apart:
            raise NotPossible(
                f'every worker reaches "{name}"; to keep its calls to workers of its own write into amends.yaml, under '
                f"engine: apart: [{', '.join(sorted({*apart, name}))}]"
            )
