"""An editor without a window: starts a language server and speaks the protocol with it over its standard input."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.house import ROOT

LIMIT = 30.0
"""Seconds that an answer may take."""


class Editor:
    """One conversation. `open` shows a text; the questions take the line and column of the cursor, from 0."""

    def __init__(self, server: subprocess.Popen[bytes], settings: Any) -> None:
        self._server = server
        self._settings = settings
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._number = 0
        self._version = 0
        self._shown: set[str] = set()
        self.problems: dict[str, list[dict[str, Any]]] = {}
        """What is underlined in each file, by its address."""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._server.stdout is not None
        while True:
            length = 0
            while line := self._server.stdout.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            if not length:
                self._said.put(None)
                return
            self._said.put(json.loads(self._server.stdout.read(length)))

    def _send(self, **message: Any) -> None:
        assert self._server.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._server.stdin.flush()

    def _hear(self, limit: float) -> dict[str, Any]:
        """The next answer; what the server asks or tells on the way is taken care of."""
        message = self._said.get(timeout=limit)
        assert message is not None, "the server has ended"
        method = message.get("method")
        if method == "textDocument/publishDiagnostics":
            if message["params"].get("version", self._version) == self._version:
                self.problems[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif method == "workspace/configuration":
            items = message["params"]["items"]
            self._send(id=message["id"], result=[self._settings.get(item.get("section", "")) for item in items])
        elif method is not None and "id" in message:
            self._send(id=message["id"], result=None)
        return message

    def close(self) -> None:
        """Ends the server, if it has not ended by itself."""
        self._server.kill()
        self._server.wait(10)
        self._listener.join(10)
        for pipe in (self._server.stdin, self._server.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def ask(self, method: str, params: Any) -> Any:
        """What the server answers. An error fails."""
        self._number += 1
        self._send(id=self._number, method=method, params=params)
        until = time.monotonic() + LIMIT
        while True:
            message = self._hear(max(0.1, until - time.monotonic()))
            if "method" not in message and message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def tell(self, method: str, params: Any) -> None:
        self._send(method=method, params=params)

    def greet(self, folder: Path) -> Any:
        """What the server can do."""
        can = {
            "textDocument": {
                "completion": {
                    "completionItem": {"snippetSupport": True, "documentationFormat": ["markdown", "plaintext"]}
                },
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "publishDiagnostics": {},
                "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}}},
            },
            "workspace": {"configuration": True, "didChangeConfiguration": {}},
        }
        root = folder.as_uri()
        folders = [{"uri": root, "name": folder.name}]
        known = self.ask(
            "initialize", {"processId": None, "rootUri": root, "workspaceFolders": folders, "capabilities": can}
        )
        self.tell("initialized", {})
        self.tell("workspace/didChangeConfiguration", {"settings": self._settings})
        return known["capabilities"]

    def open(self, path: Path, text: str, address: str = "") -> str:
        """Shows the text as the content of the file, whatever that holds; its address."""
        address = address or path.as_uri()
        self._version += 1
        document = {"uri": address, "languageId": "yaml", "version": self._version, "text": text}
        if address in self._shown:
            self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        else:
            self.tell("textDocument/didOpen", {"textDocument": document})
        self._shown.add(address)
        self.problems.pop(address, None)
        return address

    def underlined(self, address: str) -> list[dict[str, Any]]:
        """The problems of the text, waited for."""
        until = time.monotonic() + LIMIT
        while address not in self.problems:
            self._hear(max(0.1, until - time.monotonic()))
        return self.problems[address]

    def completion(self, address: str, line: int, column: int) -> dict[str, dict[str, Any]]:
        """What is offered at the cursor, by label."""
        answer = self.ask("textDocument/completion", _at(address, line, column))
        items = answer["items"] if isinstance(answer, dict) else answer or []
        return {item["label"]: item for item in items}

    def hover(self, address: str, line: int, column: int) -> str:
        answer = self.ask("textDocument/hover", _at(address, line, column))
        return "" if answer is None else answer["contents"]["value"]

    def definition(self, address: str, line: int, column: int) -> list[tuple[str, int]]:
        """(file's name, line from 0) of each place."""
        answer = self.ask("textDocument/definition", _at(address, line, column)) or []
        places = answer if isinstance(answer, list) else [answer]
        return [(Path(each["uri"]).name, each["range"]["start"]["line"]) for each in places]


def _at(address: str, line: int, column: int) -> dict[str, Any]:
    return {"textDocument": {"uri": address}, "position": {"line": line, "character": column}}


def cursor(text: str, mark: str = "¦") -> tuple[str, int, int]:
    """A text with one mark in it: the text without it, and the line and column where it stood."""
    before, _, after = text.partition(mark)
    return before + after, before.count("\n"), len(before) - before.rfind("\n") - 1


@contextlib.contextmanager
def speaking_with(command: Sequence[str | Path], folder: Path, **settings: Any) -> Iterator[Editor]:
    """An editor whose server has been greeted; it is ended afterwards."""
    server = subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    editor = Editor(server, settings)
    try:
        editor.greet(folder)
        yield editor
        editor.ask("shutdown", None)
        editor.tell("exit", None)
        server.wait(10)
    finally:
        editor.close()
