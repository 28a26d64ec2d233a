"""`amends demo`: a project, two real servers on this computer, four runs, and the proof of what truly happened."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.text import Text

from runner.app import Amends, Driver
from runner.cli import FAILED, page, place, timeline
from runner.cli.live import Watcher
from runner.cli.words import plain
from runner.demo import STORIES, Servers, Story, make_project, prove, start_servers
from runner.demo.stories import FLOW
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.store.facts import RunView

COMMANDS = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

SERVERS = "servers"


@COMMANDS.command(help="Make a project with real local servers, run a flow four times, and prove what truly happened.")
def demo(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="An empty or new folder.")] = Path("amends-demo"),
    only_servers: Annotated[
        bool, typer.Option("--servers", help="Start the servers of a demo made before, until Ctrl-C.")
    ] = False,
) -> None:
    if only_servers:
        keep_serving(folder)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NotPossible(f"{folder} is not empty; name a new folder: amends demo {folder}-2")
    began = time.time_ns() // 1_000_000
    with start_servers(folder / SERVERS) as servers:
        make_project(folder, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
        page.say(f"The demo's project is {folder}; its back office and mail server run on this computer.")
        with place.opened(folder) as amends:
            views = place.drive(amends, lambda driver: tell_stories(amends, driver, servers))
            wrong = [story.name for story, view in zip(STORIES, views, strict=True) if view.status != story.end]
        page.show(Text("\nWhat truly happened, counted at the servers", style="bold"))
        proof = prove(servers, began)
        page.say(*(f"  {line}" for line in proof))
    if wrong or any(line.startswith("DUPLICATE") for line in proof):
        page.complain(f"amends: the demo did not end as it should: {', '.join(wrong) or 'there are duplicates'}")
        raise typer.Exit(FAILED)
    tell_next(folder, views)


async def tell_stories(amends: Amends, driver: Driver, servers: Servers) -> list[RunView]:
    """Runs the stories one after the other and tells each; the runs as they stand at the end."""
    views: list[RunView] = []
    out = page.console()
    for number, story in enumerate(STORIES, 1):
        out.print(Text(f"\n{number}. {story.title}", style="bold"))
        out.print(f"   {story.before}")
        views.append(await tell_one(amends, driver, servers, story))
        view = place.story(amends, views[-1].run)
        status = Text(f"Run {view.view.run} ") + Text(timeline.status_line(view), style=timeline.style_of(view))
        page.show(timeline.timeline(view, out), status, out=out)
    return views


async def tell_one(amends: Amends, driver: Driver, servers: Servers, story: Story) -> RunView:
    """Breaks what the story breaks, runs the flow, and watches it."""
    for fault in story.faults:
        servers.control(fault)
    started = await driver.start(FLOW, Wish(given=story.inputs, key=f"demo-{story.name}", starter=place.ME))
    out = page.console()
    if not out.is_terminal:
        return await driver.follow(started.run, _nothing)
    watcher = Watcher(lambda: place.story(amends, started.run), amends.clock.now, out)
    with watcher.showing():
        return await driver.follow(started.run, watcher.turn)


def _nothing() -> None:
    """Nobody looks on."""


def tell_next(folder: Path, views: list[RunView]) -> None:
    """What can be typed now: what needs no server first."""
    waiting = next((view for view in views if view.status == "needs_person"), None)
    lines = [
        "",
        "Go on from here (the servers have ended; these commands need none)",
        f"  cd {plain(folder)}",
        "  amends runs list",
        f"  amends runs show {views[1].run}",
        "  amends handoffs list",
        "  amends log verify",
    ]
    if waiting is not None:
        lines += [
            f"Run {waiting.run} waits for you: did the mail arrive? {SERVERS}/mails tells.",
            "To let it go on, start the servers again in a second terminal, then answer:",
            "  amends demo . --servers",
            f"  amends runs settle {waiting.run} {waiting.at_step} --happened",
        ]
    page.say(*lines)


def keep_serving(folder: Path) -> None:
    """Runs the servers of a demo that was made before, until Ctrl-C or SIGTERM."""
    if not (folder / SERVERS / "servers.json").is_file():
        raise NotPossible(f"{folder} holds no demo; make one with `amends demo`")
    with start_servers(folder / SERVERS) as servers:
        make_project(folder, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
        page.say(f"Back office at {servers.backoffice_url}, mail server on port {servers.smtp_port}. Ctrl-C ends them.")
        wait_for_signal()
    page.say("The demo's servers have ended.")


def wait_for_signal(install: Callable[..., object] = signal.signal) -> None:
    """Returns at the first SIGTERM or Ctrl-C."""
    stopped: list[int] = []

    def note(number: int, at: FrameType | None) -> None:
        stopped.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        install(number, note)
    while not stopped:
        signal.pause()
