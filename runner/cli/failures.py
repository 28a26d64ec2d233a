"""What a person sees when a command cannot do what was asked: one sentence and an exit code, never a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import re
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from runner.cli import BY_OPTION, DEFECT, INTERRUPTED, OK, QUICK, WRONG
from runner.cli.page import complain, say
from runner.cli.place import FOLDER, Interrupted
from runner.errors import AlreadySo, AmendsError, InputsInvalid, InvalidFlow
from runner.language.problems import render
from runner.secrets import Secrets
from runner.telling.words import bare, plain, sentence

HEARD = logging.ERROR
_SECRET = re.compile(r"secret:\s*[\"']?([A-Za-z_][A-Za-z0-9_]*)")


def guarded(noun: str, words: Sequence[str], folder: Path | None) -> int:
    """Loads the noun, runs its command, and turns whatever goes wrong into a sentence and a code."""
    FOLDER.set(folder)
    logging.basicConfig(level=HEARD, format="amends: %(message)s", handlers=[_Short()])
    try:
        command = typer.main.get_command(_loaded(noun, words))
        asked = list(words) or (["--help"] if hasattr(command, "commands") else [])
        answer = command.main(args=asked, prog_name=f"amends {noun}", standalone_mode=False)
        return answer if isinstance(answer, int) else OK
    except (Interrupted, KeyboardInterrupt, asyncio.CancelledError) as stopped:
        complain(str(stopped) or "Stopped.")
        return INTERRUPTED
    except AlreadySo as so:  # whoever presses a button twice has what was wanted
        say(f"amends: {plain(so)}")
        return OK
    except AmendsError as error:
        explain(error)
        return WRONG
    except BrokenPipeError:
        return OK
    except Exception as error:  # noqa: BLE001  the last resort: a sentence, never a traceback
        if hasattr(error, "format_message"):  # a wrong word on the command line; typer's own classes are private
            complain(f"amends: {_usage(error, noun)}")
            return WRONG
        complain(defect(error, noun, folder))
        return DEFECT


def _loaded(noun: str, words: Sequence[str]) -> typer.Typer:
    other = next(
        (BY_OPTION[noun, word] for word in _options(words) if (noun, word) in BY_OPTION),
        f"{noun.replace('-', '_')}.COMMANDS",
    )
    file, _, name = QUICK.get(" ".join((noun, *words[:1])), other).partition(".")
    gc.disable()  # loading makes much and drops little: to search it again and again costs an eighth of the start
    try:
        commands: typer.Typer = getattr(importlib.import_module(f"runner.cli.{file}"), name)
    finally:
        gc.enable()
    return commands


def _options(words: Sequence[str]) -> list[str]:
    return [word.partition("=")[0] for word in words[: words.index("--") if "--" in words else None]]


def explain(error: AmendsError) -> None:
    """An error as its sentence; all problems of a flow, all wrong inputs."""
    if isinstance(error, InvalidFlow):
        for problem in error.problems:
            complain(render(problem, error.sources.get(problem.file, "")))
    elif isinstance(error, InputsInvalid):
        complain("amends: the inputs do not fit the flow, so nothing was started:")
        complain(*(f"  {name}: {bare(what)}.".replace("?.", "?") for name, what in error.problems.items()))
    else:
        complain(f"amends: {plain(error)}")


def _usage(error: Any, noun: str) -> str:
    said = sentence(error.format_message())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"amends {noun}"
    return f"{said[:1].lower()}{said[1:]} See `{path} --help`."


def defect(error: BaseException, noun: str, folder: Path | None) -> str:
    """Keeps the traceback of an error that nobody foresaw; answers the sentence that says where."""
    at = datetime.now(tz=UTC).isoformat(timespec="seconds")
    text = f"--- {at} amends {noun}\n{''.join(traceback.format_exception(error))}\n"
    with contextlib.suppress(AmendsError):
        secrets = Secrets(folder or Path.cwd())
        secrets.declare((*secrets.known(), *_named_secrets(folder or Path.cwd())))
        text = secrets.redact(text)
    for place in ((folder or Path.cwd()) / ".amends", Path(tempfile.gettempdir())):
        file = place / "defects.log"
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8") as out:
                out.write(text)
        except OSError:
            continue
        return (
            f"amends: a defect in Amends itself ({type(error).__name__}) ended this command; the runs are safe in "
            f"their log, and the details of the defect stand in {file}"
        )
    return f"amends: a defect in Amends itself ended this command: {plain(error)}"


def _named_secrets(folder: Path) -> list[str]:
    """The names that connections.yaml asks for, read as text: it may be what is broken."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _SECRET.findall((folder / "connections.yaml").read_text(encoding="utf-8"))
    return []


class _Short(logging.StreamHandler[Any]):
    """Log records of libraries and the engine as one line; a traceback goes to the defects file."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            complain(f"amends: {plain(record.getMessage())}")
            complain(defect(record.exc_info[1], record.name, FOLDER.get()))
            return
        complain(f"amends: {plain(record.getMessage())}")
