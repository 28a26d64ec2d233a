"""What every command that drives a run needs: the project with its flows, a person's name, the run while it goes."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from runner.app import Amends, OwnDriver
from runner.cli import DEFECT, OK, outlet, page, place, timeline
from runner.core.status import APPROVAL
from runner.driver import Driver
from runner.engine.embedded import GRACE
from runner.errors import AlreadySo, EngineBusy, NotFound, NotPossible
from runner.language.nearest import did_you_mean
from runner.people.operations import Order, pinned
from runner.store.facts import PLACE, RunView, Started
from runner.telling import questions, story, words
from runner.telling.lines import AGAIN
from runner.telling.story import Clock, Story, Telling, status_line
from runner.telling.tree import Line

T = TypeVar("T")
ME = "person:me"
CODES = {
    "succeeded": 0, "drafted": 0, "failed": 1, "compensated": 1, "stopped": 1, "closed": 1, "needs_person": 3,
    "paused": 4,
}  # fmt: skip
"""The exit code for each status that a watched run rests in."""


@contextmanager
def opened(where: Path | None = None, *, anywhere: bool = False) -> Iterator[Amends]:
    """The project with its flows, opened and closed again. Raises NotFound where there is none, but not `anywhere`."""
    amends = Amends.open(where or place.FOLDER.get())
    if not (where or anywhere):
        place.refuse_no_project(amends.folder)
    try:
        yield amends
        if not anywhere:
            place.tell_rest(amends)
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


def story_of(amends: Amends, run: str, *, reveal: bool = False, whole: str | None = None) -> Story:
    """A run's story in the reader's zone. Raises NotFound, NotPossible where its flow can no longer be read."""
    return story.story_of(amends, run, place.zone_of(amends), reveal=reveal, whole=whole)


def placed(amends: Amends, told: Story) -> Story:
    """The story with which one the run is in its line, where an engine runs that knows."""
    found = asyncio.run(amends.limits(told.view.run)) if told.view.waiting_for.startswith(PLACE) else None
    if found is None or found["place"] is None:
        return told
    connection, number = found["place"]
    return replace(told, view=replace(told.view, waiting_for=f"{PLACE}{connection} (number {number} in line)"))


def drive(amends: Amends, doing: Callable[[Driver], Awaitable[T]], leaving: Callable[[], None] = lambda: None) -> T:
    """Does something with the driver. Ctrl-C and SIGTERM end it, and let the engine close in good order.

    `leaving` is called first then, where this process has the engine.
    """

    async def go() -> T:
        current = asyncio.current_task()
        assert current is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
        async with amends.driver() as driver:
            try:
                return await doing(driver)
            except asyncio.CancelledError:
                if isinstance(driver, OwnDriver):
                    leaving()
                raise

    with outlet.never_waiting(most=None, patience=None, pipes_only=True):
        return asyncio.run(go())


def watched(amends: Amends, doing: Callable[[Driver], Awaitable[RunView]], found: list[str]) -> RunView:
    """Drives, and turns Ctrl-C into the sentence that says where the run (`found`) is to be seen."""
    calling: list[str] = []

    def leaving() -> None:
        calls = amends.state(found[0])[1].calls.items() if found else ()
        calling.extend(dict.fromkeys(name[0] for name, call in calls if call.is_open))
        if calling:
            page.complain(f"\nWaiting up to {GRACE:g} s for the answer to step {', '.join(calling)} …")

    try:
        return drive(amends, doing, leaving)
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not found:
            raise place.Interrupted("Stopped before a run was started.") from None
        story = story_of(amends, found[0])
        told = {line.step: line.text for line in story.lines if line.sign != "person"}
        became = "".join(f"\nStep {step}: {told[step]}" for step in calling if step in told)
        goes_on = f"is not stopped: it goes on with `{words.PROGRAM} serve`"
        raise place.Interrupted(
            f"{became}\nYou have stopped watching, and run {found[0]} "
            f"{status_line(story) if story.is_asked else goes_on}.\n"
            f"See it with `{words.PROGRAM} runs show {found[0]}`, go on watching with "
            f"`{words.PROGRAM} runs watch {found[0]}`."
        ) from None


async def follow(amends: Amends, driver: Driver, run: str, *, quiet: bool = False, since: int = 0) -> RunView:
    """Watches a run until it rests; what stands in its log up to the entry `since` is not told again.

    Raises Interrupted where the process that has the engine goes away: the run has begun, and is not stopped.
    """
    try:
        if quiet:
            return await driver.follow(run, lambda: None)
        telling = Telling(amends, run, place.zone_of(amends))
        watcher = Watcher(lambda: telling.story(with_effects=False), page.console(), since)
        with watcher.showing():
            watcher.turn()
            view = await driver.follow(run, watcher.turn)
            watcher.turn(is_last=True)
        return view
    except EngineBusy:
        raise place.Interrupted(
            f"The process that drives this project has ended, and run {run} is not stopped: it goes on when the next "
            f"one is started (`{words.PROGRAM} serve`), or with `{words.PROGRAM} runs watch {run}`."
        ) from None


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
        page.say(f"It goes on with `{words.PROGRAM} serve` or `{words.PROGRAM} runs watch {view.run}`.")
    return OK


def _begun(started: Started, amends: Amends) -> str:
    if started.joined:
        return f"Run {started.run} has this key already ({started.status}): it was joined, nothing was started again."
    view = amends.store.run(started.run)
    return f"Run {view.run} of {view.flow}{' (DRAFT: nothing is sent)' if view.mode == 'draft' else ''}"


def tell_rest(amends: Amends, view: RunView, *, as_json: bool, since: int | None = None) -> int:
    """How a run rests and what can be done, and what happened after the entry `since` of its log. Its exit code.

    Without `since` that was told already where lines are only appended; a terminal shows all of it.
    """
    story, out = story_of(amends, view.run), page.console()
    if as_json:
        page.say_json(timeline.as_json(story))
    elif since is not None or out.is_terminal:
        page.show(timeline.brief(story, out, since or 0), out=out)
    else:
        page.say(f"Run {view.run} {status_line(story)}")
        page.show(*timeline.ending(story))
    return code_of(view)


def code_of(view: RunView) -> int:
    """The exit code that a watched run's status stands for.

    A wait for a time is 0, one for an approval, or for a record that another run holds (a person must settle that one),
    is 4. A run that is no longer driven and does not wait met a defect, which the engine's log tells.
    """
    if view.ended_at is None and view.waiting_for.startswith(APPROVAL):
        return 4
    if view.status == "waiting":
        return OK if view.wake_at is not None else 4
    return CODES.get(view.status, DEFECT)


def act(run: str, order: Order, *, as_json: bool) -> None:
    """Carries out an order, watches what follows from it, and tells what happened since and how the run stands.

    What is so already is said, and is no failure: a button that is pressed twice did what was wanted.
    """
    with opened() as amends:
        name = amends.store.run(run).run
        order = completed(amends, name, replace(order, by=person(amends, order.by)))
        order = pinned(story_of(amends, name).state, order)
        before, found, told = amends.store.log_end(name).seq, [name], [False]

        async def doing(driver: Driver) -> RunView:
            view = await driver.act(name, order)
            found[0] = view.run
            if view.status in ("paused", "needs_person") or view.ended_at is not None:
                return view
            told[0] = not as_json and not page.console().is_terminal
            return await follow(amends, driver, view.run, quiet=as_json, since=before if view.run == name else 0)

        try:
            view = watched(amends, doing, found)
        except AlreadySo:
            if not as_json:
                raise
            view = amends.store.run(name)
        tell_rest(amends, view, as_json=as_json, since=None if told[0] else before if view.run == name else 0)


def completed(amends: Amends, run: str, order: Order) -> Order:
    """The order, with what is known of an answer already. Raises NotPossible where "…" was copied."""
    said = {"--reason": order.reason, "--reference": order.reference, "--id": order.external_id, **order.output}
    if unsaid := [name for name, text in said.items() if text in ("…", "...")]:
        raise NotPossible(f'the "…" of {unsaid[0]} stands for your own words; write them in its place')
    return questions.completed(story_of(amends, run, reveal=True), order) if order.action == "happened" else order


class Watcher:
    """A run while it goes: a page on a terminal, plain lines elsewhere. `turn` when the log has something new."""

    def __init__(self, read: Callable[[], Story], out: Console, since: int = 0) -> None:
        self._read = read
        self._out = out
        self._since = since
        self._has_said_how_to_leave = False
        self._story: Story | None = None
        self._printed: dict[int, Line] = {}
        self._live: Live | None = None
        self._listed_at = 0.0

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

    def turn(self, *, is_last: bool = False) -> None:
        """Something new stands in the log."""
        self._story = self._read()
        if self._live is None:
            self._append(self._story, is_last)

    def _page(self) -> RenderableType:
        return under_way(self._story, self._out) if self._story is not None else Text("…")

    def _append(self, story: Story, is_last: bool) -> None:
        clock = Clock(story)
        newest = max((line.seq for line in story.lines), default=0)
        for line in story.lines:
            is_old = line.seq <= self._since or line.is_quiet
            if is_old or (line.is_passing and not is_last and line.seq == newest):
                continue
            shown = replace(line, text=line.text.removesuffix(AGAIN).rstrip(), is_passing=False)
            before = self._printed.get(line.number)
            if before is not None and not self._says_more(before, shown, is_last):
                continue
            self._printed[line.number] = shown
            step = f"{line.place}: " if line.place else ""
            page.say(f"{clock.time(line.at)} {page.sign(line.sign, self._out).plain} {step}{clock.text(line)}")
            if line.details:
                page.say(*(f"  {detail}" for detail in line.details))
        if waits(story) and not self._has_said_how_to_leave:
            self._has_said_how_to_leave = True
            page.say(LEAVE)

    def _says_more(self, before: Line, shown: Line, is_last: bool) -> bool:
        """A line that was printed is worth printing again; how far a list is only every few seconds."""
        same = replace(before, seq=shown.seq, at=shown.at, until=None, then="", depth=shown.depth)
        if shown in (before, same):
            return False
        if not shown.is_list:
            return True
        now = time.monotonic()
        if shown.sign == before.sign == "wait" and now - self._listed_at < PAUSE and not is_last:
            return False
        self._listed_at = now
        return True


PAUSE = 5.0
"""Seconds between two lines that say how far a list is."""
LEAVE = f"(Ctrl-C leaves; it goes on with `{words.PROGRAM} serve`)"
LONG = 10_000
"""ms to wait from which on it is said how to leave."""


def waits(story: Story) -> bool:
    """The run waits for a while."""
    wake_at, is_in_line = story.view.wake_at, story.view.waiting_for.startswith(PLACE)
    return is_in_line or (story.view.status == "waiting" and wake_at is not None and wake_at - story.now > LONG)


def under_way(story: Story, out: Console) -> RenderableType:
    """A run that goes: its status, what has happened, the steps that are still to come."""
    status = Text(f"Run {story.view.run} ", style="bold") + Text(words.STATUS[story.view.status])
    leave = [Text(LEAVE, style="dim")] if waits(story) else []
    return Group(status, timeline.timeline(story, out, ahead=True), *leave)
