"""The command line: one file for each noun, loaded when it is asked for, so that `amends --help` is quick.

May import everything below; home of typer and rich. Begin with `NOUNS`, then `place` (which project), `watching` (who,
the driver, a run while it goes), `telling` (a log as lines), `story` (all there is to tell of a run), `questions` (what
is asked of a person) and `timeline` (a run as a page). `failures` turns errors into sentences and exit codes.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from runner import __version__

NOUNS: dict[str, str] = {
    "demo": "a whole project with real local servers: four runs, told and proved",
    "init": "begin a project in a folder",
    "check": "check flows, and the files around them",
    "explain": "what a problem that check names is, and how it is put right",
    "test": "play the flow tests: cases of a flow, each with what is expected",
    "drill": "fail every step of a flow in every way, and see what is left",
    "show": "show a flow as an outline or a picture",
    "run": "run a flow, and watch it",
    "go-live": "take a flow out of draft: checked, drilled, and the word in its file changed",
    "serve": "drive the project's runs and show its pages until it is stopped",
    "worker": "carry the project's runs, without pages, until it is stopped",
    "engine": "move the runs to the other engine",
    "runs": "list, show, watch, pause, stop, compensate and settle runs",
    "events": "send an event that runs wait for, list what is kept and who waits",
    "triggers": "what starts flows by itself, what came, and what it led to",
    "approvals": "what waits for a yes: list, show, approve, reject",
    "handoffs": "what waits for a person: list, show, ack, resolve",
    "records": "the project's own tables: list, show",
    "quarantine": "records that were set aside: list, release, discard",
    "people": "sign-in links, passwords and tokens: invite, password, token",
    "flows": "the project's flows, their versions, what differs",
    "schedule": "what fires by itself, and when next",
    "forms": "the forms, and what was sent with them: list, export",
    "connections": "list the connections and their limits, hold and release one",
    "connectors": "list, show and try connectors; write one, or out of an OpenAPI document",
    "secrets": "which secrets are needed, and which are missing",
    "log": "verify the action log, anchor it elsewhere, export a run's evidence",
    "db": "back the database up, put a copy back, remove old runs",
    "erase": "erase the personal data of a record",
    "schema": "write the JSON Schemas that editors use",
    "lsp": "a language server for editors",
    "doctor": "check this computer and this project",
}
"""Every command and what it is for. The file of a noun is `runner/cli/<noun>.py` (go-live: `go_live.py`), its commands
are `COMMANDS` there."""

QUICK: dict[str, str] = {
    "runs list": "lists.RUNS",
    "handoffs list": "lists.HANDOFFS",
    **dict.fromkeys(("log verify", "log export", "log key"), "auditing.COMMANDS"),
}
"""Words that only read stand in a file that loads neither flows nor engine, with the name of their commands there."""

BY_OPTION: dict[tuple[str, str], str] = {
    ("run", "--each"): "backfill.COMMANDS", ("run", "--simulate"): "simulate.COMMANDS",
}  # fmt: skip
"""A word that an option makes another command, with its file: what only this one needs is loaded for it alone."""

OK, FAILED, WRONG, DEFECT, INTERRUPTED = 0, 1, 2, 70, 130


_RUST = "temporalio.bridge.temporal_sdk_bridge"


def main() -> None:
    """The entry point `amends`."""
    ended: list[int] = []
    atexit.register(_leave, ended)  # what is registered first is called last
    try:
        code = run_command(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = OK
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    ended.append(code)
    sys.exit(code)


def _leave(ended: Sequence[int]) -> None:
    """The process ends here where the library of Temporal was loaded: its threads cannot be ended, and one that comes
    to Python while that is taken down would abort it."""
    if ended and _RUST in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(ended[0])


def run_command(arguments: Sequence[str]) -> int:
    """Runs one command; answers its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    words, folder, trouble = _without_project(list(arguments))
    if trouble:
        return _wrong(trouble)
    if not words or words[0] in ("--help", "-h", "help"):
        print(_help())
        return OK
    if words[0] == "--version":
        print(f"amends {__version__}")
        return OK
    if words[0] not in NOUNS:
        return _wrong(f'there is no command "{words[0]}"; {_near(words[0])}')
    return _dispatch(words, folder)


def _dispatch(words: list[str], folder: str) -> int:
    try:
        importlib.import_module("runner.cli.late").install()
        failures = importlib.import_module("runner.cli.failures")
    except ImportError as error:
        print(f"amends: this installation is not complete ({error}); install Amends again", file=sys.stderr)
        return DEFECT
    place = Path(folder) if folder else None
    code: int = failures.guarded(words[0], words[1:], place)
    return code


def _without_project(words: list[str]) -> tuple[list[str], str, str]:
    """(the other words, the folder that `--project` names, what is wrong with it)."""
    folder = os.environ.get("AMENDS_PROJECT", "")
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return [*kept, word, *words], folder, ""
        if word == "--project":
            if not words:
                return [], "", "--project needs a folder"
            folder = words.pop(0)
        elif word.startswith("--project="):
            folder = word.partition("=")[2]
        else:
            kept.append(word)
    if folder and not Path(folder).is_dir():
        return [], "", f'there is no folder "{folder}" (--project)'
    return kept, folder, ""


def _wrong(sentence: str) -> int:
    print(f"amends: {sentence}", file=sys.stderr)
    return WRONG


def _near(word: str) -> str:
    if word.lower() in ("version", "help"):
        return f"write `amends --{word.lower()}`"
    turned = [noun for noun in NOUNS if sorted(noun) == sorted(word.lower())]
    close = turned or difflib.get_close_matches(word.lower(), NOUNS, n=1, cutoff=0.5)
    return f'did you mean "{close[0]}"?' if close else "`amends --help` lists all of them"


def _help() -> str:
    lines = [
        "Amends runs automations written in YAML, and makes good what was done when a later step fails.",
        "",
        "Usage: amends [--project DIR] COMMAND …",
        "",
        *(f"  {noun:<12} {summary}" for noun, summary in NOUNS.items()),
        "",
        "`amends COMMAND --help` says more. Begin with `amends demo`, or with `amends init`.",
    ]
    return "\n".join(lines)
