"""`amends demo`: a project, two real servers on this computer, four runs, and the proof of what truly happened."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from runner.app import Amends
from runner.cli import FAILED, page, place, timeline, watching
from runner.demo import STORIES, Servers, Story, mailserver, make_project, prove, start_servers
from runner.demo.stories import FLOW
from runner.driver import Driver
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.store.facts import RunView
from runner.telling.words import PROGRAM, plain

COMMANDS = place.verb()

SERVERS = "servers"


@COMMANDS.command(help="Make a project with real local servers, run a flow four times, and prove what truly happened.")
def demo(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="An empty or new folder.")] = Path("amends-demo"),
    only_servers: Annotated[
        bool, typer.Option("--servers", help="Start the servers of a demo made before, until Ctrl-C.")
    ] = False,
    mail: Annotated[
        Path | None,
        typer.Option("--mail", metavar="DIR", help="Only a mail server, until Ctrl-C: what it gets is a file in DIR."),
    ] = None,
    port: Annotated[int, typer.Option(help="Where the mail server of --mail listens.")] = 2525,
) -> None:
    if mail is not None:
        keep_mails(mail, port)
        return
    if only_servers:
        keep_serving(folder)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NotPossible(f"{folder} is not empty; name a new folder: amends demo {folder}-2")
    began = time.time_ns() // 1_000_000
    with start_servers(folder / SERVERS) as servers:
        make_project(folder, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
        page.say(f"The demo's project is {folder}; its back office and mail server run on this computer.")
        with watching.opened(folder) as amends:
            views = watching.drive(amends, lambda driver: tell_stories(amends, driver, servers))
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
    for number, story in enumerate(STORIES, 1):
        page.show(Text(f"\n{number}. {story.title}", style="bold"), f"   {story.before}")
        views.append(await tell_one(amends, driver, servers, story))
        told, out = watching.story_of(amends, views[-1].run), page.console()
        page.show(timeline.timeline(told, out), Text(f"Run {told.view.run} ") + timeline.status(told), out=out)
    return views


async def tell_one(amends: Amends, driver: Driver, servers: Servers, story: Story) -> RunView:
    """Breaks what the story breaks, runs the flow, and watches it."""
    for fault in story.faults:
        servers.control(fault)
    started = await driver.start(FLOW, Wish(given=story.inputs, key=f"demo-{story.name}", starter=watching.ME))
    return await watching.follow(amends, driver, started.run, quiet=not page.console().is_terminal)


def tell_next(folder: Path, views: list[RunView]) -> None:
    """What can be typed now: what needs no server first."""
    page.say(
        "",
        "Go on from here (the servers have ended; these commands need none)",
        f"  cd {plain(folder)}",
        f"  {PROGRAM} runs list",
        f"  {PROGRAM} runs show {views[1].run}",
        f"  {PROGRAM} handoffs list",
        f"  {PROGRAM} log verify",
    )
    waiting = next((view for view in views if view.status == "needs_person"), None)
    if waiting is not None:
        page.say(
            f"Run {waiting.run} waits for you: did the mail arrive? {SERVERS}/mails tells.",
            "To let it go on, start the servers again in a second terminal, then answer:",
            f"  {PROGRAM} demo . --servers",
            f"  {PROGRAM} runs settle {waiting.run} {waiting.at_step} --happened",
            f"With the servers and `{PROGRAM} serve` the flow also starts from its form: http://127.0.0.1:8484/forms/signup",
        )


def keep_serving(folder: Path) -> None:
    """Runs the servers of a demo that was made before, until Ctrl-C or SIGTERM."""
    if not (folder / SERVERS / "servers.json").is_file():
        raise NotPossible(f"{folder} holds no demo; make one with `{PROGRAM} demo`")
    ends = {signal.SIGINT, signal.SIGTERM}
    with start_servers(folder / SERVERS) as servers:
        make_project(folder, backoffice_url=servers.backoffice_url, smtp_port=servers.smtp_port, token=servers.token)
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        page.say(f"Back office at {servers.backoffice_url}, mail server on port {servers.smtp_port}. Ctrl-C ends them.")
        signal.sigwait(ends)
    page.say("The demo's servers have ended.")


def keep_mails(folder: Path, port: int) -> None:
    """A mail server on this computer that sends nothing on, until Ctrl-C or SIGTERM."""

    def tell(ports: str) -> None:
        at = ports.partition(" ")[0]
        safe = "security: none, allow_insecure: true, allow_private: true"
        page.say(
            f"What is mailed to 127.0.0.1:{at} is kept in {plain(folder)} and goes nowhere else. In connections.yaml:",
            f"  mail: {{ connector: email, host: 127.0.0.1, port: {at}, {safe}, from: ops@example.test }}",
            "and in amends.yaml tell_by: mail, so that people are mailed too. Ctrl-C ends it.",
        )

    try:
        asyncio.run(mailserver.run(port, folder, secrets.token_urlsafe(18), until_stdin_closes=False, tell=tell))
    except OSError as error:
        raise NotPossible(f"no mail server can listen on port {port} or keep mails in {folder}: {error}") from None
