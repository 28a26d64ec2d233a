"""`amends lsp`: the language server, where what it needs is installed."""

from __future__ import annotations

import importlib

from runner.cli import place
from runner.errors import NotPossible

COMMANDS = place.verb()


@COMMANDS.command(help="A language server for flows: an editor starts it and speaks with it over its input and output.")
def lsp() -> None:
    try:
        server = importlib.import_module("runner.editor.server")
    except ModuleNotFoundError as error:
        needed = "install Amends with what editors need: pip install 'amends[editor]'"
        raise NotPossible(f"the language server needs {error.name}, which is not installed; {needed}") from None
    server.serve()
