"""Which project a command is about, and the words that many commands take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from runner import reading as past
from runner.cli import page
from runner.errors import AmendsError, NotFound, NotPossible
from runner.telling import times, words

FOLDER: ContextVar[Path | None] = ContextVar("FOLDER", default=None)
"""The folder that `--project` names; None is the current one."""

MOST = 5
"""How many engines are named."""

PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show personal data too, which is otherwise hidden.")]
By = Annotated[str, typer.Option("--by", envvar="AMENDS_PERSON", help="Who says so; default: person:me.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, in one sentence; it stands in the log.")]
Reference = Annotated[str, typer.Option("--reference", help="Where it can be looked up: a ticket, a mail, an id.")]


class Interrupted(AmendsError):
    """The person who watched has gone; the sentence says where the run is to be found."""


def verb() -> typer.Typer:
    """A command that is one word."""
    return typer.Typer(**PLAIN)


class Noun(typer.Typer):
    """The commands of one noun; its help tells what each of them does to the end of the sentence."""

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, **{"short_help": settings.get("help"), **settings})


def noun(summary: str) -> typer.Typer:
    """The commands of one noun."""
    commands = Noun(help=summary, **PLAIN)
    commands.callback(help=summary)(lambda: None)  # so that the only command keeps its name
    return commands


@contextmanager
def reading() -> Iterator[past.Reading]:
    """The project's past, opened and closed again."""
    found = past.Reading.open(FOLDER.get())
    refuse_no_project(found.folder)
    try:
        yield found
        tell_rest(found)
    finally:
        found.close()


def tell_rest(project: past.Reading) -> None:
    """Says on standard error that nothing moves, where the database that was looked at rests: its runs only seem to."""
    if project.has_looked and (why := project.rests):
        page.complain(
            "Nothing here is driven, started or sent until somebody has answered:", f"  {words.sentence(why)}"
        )


def refuse_no_project(folder: Path) -> None:
    """Raises NotFound for a folder that is no project: there "nothing waits" would be no answer."""
    if not past.is_project(folder):
        raise NotFound(
            f"{folder} is no project: it has no {past.SETTINGS} and no flows/; go to the project's folder or name it "
            f"(--project FOLDER), or make one with `{words.PROGRAM} init`"
        )


def zone_of(project: past.Reading) -> str:
    """The reader's zone."""
    return times.reader_zone(project.settings.zone, project.settings.has_zone)


def engines(names: Sequence[str]) -> str:
    """Engines that share a database, as they are told: how many, and who."""
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{times.counted(len(names), 'engine')} ({', '.join(names[:MOST])}{more})"


def driven_with(project: past.Reading, only: Sequence[str] = ()) -> list[str]:
    """By which database and cluster runs are driven, in one line; none where it is the file of the folder itself.

    `only`: the connections whose calls alone are made.
    """
    settings, cluster = project.settings, project.settings.cluster
    if cluster is None and not past.database_url(project.folder, settings):
        return []
    log = project.store.name if project.store.is_shared else f"the database {project.store.name}"
    if cluster is None:
        return [f"It drives with {log}."]
    queues = ", ".join(f"{cluster.queue}.{name}" for name in only) or cluster.queue
    word = "queues" if len(only) > 1 else "queue"
    there = f"the Temporal cluster at {cluster.address}, namespace {cluster.namespace}, {word} {queues}"
    return [f"It drives with {log} and {there}."]


def refuse_status(said: Sequence[str]) -> None:
    """Raises NotFound for a word that is no status."""
    if wrong := [word for word in said if word not in words.STATUS]:
        raise NotFound(f'there is no status "{wrong[0]}"; there are {", ".join(words.STATUS)}')


def readable(file: Path) -> str:
    """The text of a file. Raises NotPossible where it cannot be read."""
    try:
        return file.read_text(errors="replace")
    except OSError as error:
        raise NotPossible(f"{file} cannot be read: {error.strerror or error}") from None


def write(file: Path, content: str | bytes) -> None:
    """A file with this text, or with bytes that are its owner's alone.

    Raises NotPossible where it is there already or cannot be written.
    """
    if file.exists():
        raise NotPossible(f"{file} is there already; name another file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o600 if isinstance(content, bytes) else 0o666)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise NotPossible(f"{file} cannot be written: {error.strerror or error}") from None
