"""What every command that drives a run needs: the project with its flows, a person's name, the run while it goes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from runner.app import Amends, Driver
from runner.cli import DEFECT, OK, page, place, timeline, words
from runner.cli.telling import AGAIN, Line, tell
from runner.cli.timeline import Clock, Story
from runner.errors import InvalidFlow, NotFound, NotPossible, StoreCorrupt
from runner.language.nearest import did_you_mean
from runner.people.operations import Order
from runner.store.facts import RunView, Started

T = TypeVar("T")
ME = "person:me"
CODES = {
    "succeeded": 0, "drafted": 0, "failed": 1, "compensated": 1, "stopped": 1, "closed": 1, "needs_person": 3,
    "paused": 4,
}  # fmt: skip
"""The exit code for each status that a watched run rests in."""


@contextmanager
def opened(where: Path | None = None) -> Iterator[Amends]:
    """The project with its flows, opened and closed again."""
    amends = Amends.open(where or place.FOLDER.get())
    try:
        yield amends
    finally:
        amends.close()


def person(amends: Amends, by: str) -> str:
    """Who gives an order: somebody of people.yaml, or person:me. Raises NotFound with the nearest name."""
    people = amends.project.people
    known = [name for name in people.names() if name.startswith("person:")]
    if not by or by in known:
        return by or ME
    if not people.has_file:
        raise NotFound(f'"{by}" is nobody: there is no people.yaml, so {ME} is the only name (--by)')
    raise NotFound(f'there is nobody "{by}" in people.yaml (--by); {did_you_mean(by, known, "there are")}')


def story_of(amends: Amends, run: str) -> Story:
    """A run's story as it stands now. Raises NotFound, NotPossible where its flow can no longer be read."""
    view = amends.store.run(run)
    try:
        bundle, state = amends.state(view.run)
    except (InvalidFlow, StoreCorrupt, NotFound) as error:
        why = error.problems[0].what if isinstance(error, InvalidFlow) and error.problems else str(error)
        raise NotPossible(
            f"the flow that run {view.run} ({view.flow}, {view.status}) began with can no longer be read "
            f"({words.bare(why)}); `amends log export {view.run}` writes down all that is known of the run"
        ) from None
    lines, asking = tell(bundle, amends.store.log(view.run))
    return Story(
        view=view, bundle=bundle, state=state, lines=lines, asking=asking,
        effects=tuple(amends.store.effects(view.run)), zone=place.zone_of(amends), now=amends.clock.now(),
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


def watched(amends: Amends, doing: Callable[[Driver], Awaitable[RunView]], found: list[str]) -> RunView:
    """Drives, and turns Ctrl-C into the sentence that says where the run (`found`) is to be seen."""
    try:
        return drive(amends, doing)
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not found:
            raise place.Interrupted("Stopped before a run was started.") from None
        raise place.Interrupted(
            f"\nYou have stopped watching, and run {found[0]} is not stopped: it goes on with `amends serve` or the "
            "next command.\n"
            f"See it with `amends runs show {found[0]}`, go on watching with `amends runs watch {found[0]}`."
        ) from None


async def follow(amends: Amends, driver: Driver, run: str, *, quiet: bool = False) -> RunView:
    """Watches a run until it rests."""
    if quiet:
        return await driver.follow(run, lambda: None)
    watcher = Watcher(lambda: story_of(amends, run), page.console())
    with watcher.showing():
        watcher.turn()
        view = await driver.follow(run, watcher.turn)
        watcher.turn()
    return view


def start_and_watch(
    amends: Amends, begin: Callable[[Driver], Awaitable[Started]], *, detach: bool, as_json: bool
) -> int:
    """Starts a run and watches it until it rests; prints how it ended. The exit code. Raises Interrupted on Ctrl-C."""
    found: list[str] = []

    async def doing(driver: Driver) -> RunView:
        started = await begin(driver)
        found.append(started.run)
        if not as_json:
            page.say(_begun(started, amends))
        return amends.store.run(started.run) if detach else await follow(amends, driver, started.run, quiet=as_json)

    view = watched(amends, doing, found)
    if not detach:
        return tell_rest(amends, view, as_json=as_json)
    if as_json:
        page.say_json(timeline.as_json(story_of(amends, view.run)))
    elif view.ended_at is None:
        page.say("It goes on with `amends serve` or the next command.")
    return OK


def _begun(started: Started, amends: Amends) -> str:
    if started.joined:
        return f"Run {started.run} has this key already ({started.status}): it was joined, nothing was started again."
    view = amends.store.run(started.run)
    return f"Run {view.run} of {view.flow}{' (DRAFT: nothing is sent)' if view.mode == 'draft' else ''}"


def tell_rest(amends: Amends, view: RunView, *, as_json: bool, whole: bool = False) -> int:
    """How a run rests and what can be done; with `whole` the timeline too, which else was shown. Its exit code."""
    story, out = story_of(amends, view.run), page.console()
    if as_json:
        page.say_json(timeline.as_json(story))
    elif whole or out.is_terminal:
        page.show(timeline.brief(story, out), out=out)
    else:
        page.say(f"Run {view.run} {timeline.status_line(story)}")
        page.show(*timeline.ending(story))
    return code_of(view)


def code_of(view: RunView) -> int:
    """The exit code that a watched run's status stands for.

    A wait for a time is 0, one for a record that another run holds is 4 (a person must settle that one). A run that is
    no longer driven and does not wait met a defect, which has been told.
    """
    if view.status == "waiting":
        return OK if view.wake_at is not None else 4
    return CODES.get(view.status, DEFECT)


def act(run: str, order: Order, *, as_json: bool) -> None:
    """Carries out an order, watches what follows from it, and tells how the run stands then."""
    with opened() as amends:
        order = replace(order, by=person(amends, order.by))
        name = amends.store.run(run).run
        found = [name]

        async def doing(driver: Driver) -> RunView:
            view = await driver.act(name, order)
            found[0] = view.run
            if view.status in ("paused", "needs_person") or view.ended_at is not None:
                return view
            return await follow(amends, driver, view.run, quiet=as_json)

        tell_rest(amends, watched(amends, doing, found), as_json=as_json, whole=True)


class Watcher:
    """A run while it goes: a page on a terminal, plain lines elsewhere. `turn` when the log has something new."""

    def __init__(self, read: Callable[[], Story], out: Console) -> None:
        self._read = read
        self._out = out
        self._story: Story | None = None
        self._printed: dict[int, Line] = {}
        self._live: Live | None = None

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Shows the run until it is left; on a terminal it is taken away again then."""
        if not self._out.is_terminal:
            yield
            return
        with Live(get_renderable=self._page, console=self._out, refresh_per_second=8, transient=True) as live:
            self._live = live
            yield
        self._live = None

    def turn(self) -> None:
        """Something new stands in the log."""
        self._story = self._read()
        if self._live is None:
            self._append(self._story)

    def _page(self) -> RenderableType:
        return under_way(self._story, self._out) if self._story is not None else Text("…")

    def _append(self, story: Story) -> None:
        clock = Clock(story)
        for number, line in enumerate(story.lines):
            shown = replace(line, text=line.text.removesuffix(AGAIN).rstrip())
            before = self._printed.get(number)
            if before is not None and shown in (before, replace(before, seq=line.seq, at=line.at, until=None, then="")):
                continue
            self._printed[number] = shown
            step = f"{line.step}: " if line.step else ""
            page.say(f"{clock.time(line.at)} {page.sign(line.sign, self._out).plain} {step}{clock.text(line)}")


def under_way(story: Story, out: Console) -> RenderableType:
    """A run that goes: its status, what has happened, the steps that are still to come."""
    status = Text(f"Run {story.view.run} ", style="bold") + Text(words.STATUS[story.view.status])
    return Group(status, timeline.timeline(story, out, ahead=True))
