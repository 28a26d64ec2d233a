"""Which project a command is about, who gives it, and how it comes to a driver. What every noun begins with."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from runner.app import Amends, Driver
from runner.cli import page
from runner.cli.timeline import Story, story_of
from runner.errors import AmendsError, NotFound
from runner.store.facts import HandOffView, RunFilter, RunView

T = TypeVar("T")

FOLDER: ContextVar[Path | None] = ContextVar("FOLDER", default=None)
"""The folder that `--project` names; None is the current one."""

ME = "person:me"
PAGE = 500

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]
By = Annotated[str, typer.Option("--by", envvar="AMENDS_PERSON", help="Who says so; default: person:me.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, in one sentence; it stands in the log.")]
Reference = Annotated[str, typer.Option("--reference", help="Where it can be looked up: a ticket, a mail, an id.")]


class Interrupted(AmendsError):
    """The person who watched has gone; the sentence says where the run is to be found."""


def noun(summary: str) -> typer.Typer:
    """The commands of one noun."""
    return typer.Typer(help=summary, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@contextmanager
def opened(where: Path | None = None) -> Iterator[Amends]:
    """The project, opened for reading and closed again."""
    amends = Amends.open(where or FOLDER.get())
    try:
        yield amends
    finally:
        amends.close()


def zone_of(amends: Amends) -> str:
    """The reader's zone."""
    settings = amends.project.settings
    return page.reader_zone(settings.zone, settings.has_zone)


def story(amends: Amends, run: str) -> Story:
    """A run's story as it stands now. Raises NotFound."""
    view = amends.store.run(run)
    bundle, state = amends.state(view.run)
    return story_of(
        view, bundle, state, amends.store.log(view.run), amends.store.effects(view.run), zone=zone_of(amends),
        now=amends.clock.now(),
    )  # fmt: skip


def drive(amends: Amends, doing: Callable[[Driver], Awaitable[T]]) -> T:
    """Does something with the driver. Ctrl-C and SIGTERM end it, and let the engine close in good order."""

    async def go() -> T:
        current = asyncio.current_task()
        assert current is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
        async with amends.driver() as driver:
            return await doing(driver)

    return asyncio.run(go())


def person(by: str) -> str:
    """Who gives an order."""
    return by or os.environ.get("AMENDS_PERSON", "") or ME


def runs_of(amends: Amends, wanted: RunFilter) -> Sequence[RunView]:
    """Runs; none where the project has no database yet."""
    return amends.store.runs(wanted) if has_log(amends) else ()


def handoffs_of(amends: Amends, run: str, *, open_only: bool) -> Sequence[HandOffView]:
    """Hand-offs; none where the project has no database yet."""
    return amends.store.handoffs(run=run, open_only=open_only) if has_log(amends) else ()


def has_log(amends: Amends) -> bool:
    """Whether the project has a database: its first run makes it. Raises what keeps it from being read."""
    try:
        return amends.store is not None
    except NotFound:
        return False


def every_run(amends: Amends) -> list[RunView]:
    """All runs, newest first."""
    found: list[RunView] = []
    while True:
        some = amends.store.runs(RunFilter(before=found[-1].run if found else "", limit=PAGE))
        found += some
        if len(some) < PAGE:
            return found
