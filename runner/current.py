"""The project's files as they are now, read again only where one of them was changed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from runner.language.bundle import Bundle
from runner.language.project import Project

Stamp = tuple[tuple[int, int, int] | None, ...]
FOLDERS = ("", "flows", "connectors", "templates")
"""Where files may be added or taken away."""
SETTLED = 100_000_000
"""ns after which a file's time tells it from what is written to it next; until then it is read each time."""


class Glances:
    """What was looked at in this round of the event loop.

    Whatever comes in after a look is heard of in a later round, and looks anew: so nothing is missed that was there
    before it. Where no loop runs (a thread, a command), every look is the first.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._round: asyncio.AbstractEventLoop | None = None

    def is_first(self, what: str) -> bool:
        """Whether it has not been looked at in this round; from now on it has."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return True
        if self._round is not loop:
            self._seen.clear()
            self._round = loop
            loop.call_soon(self._end)
        is_first = what not in self._seen
        self._seen.add(what)
        return is_first

    def forget(self, what: str) -> None:
        """Whoever looks at it next looks anew."""
        self._seen.discard(what)

    def _end(self) -> None:
        self._round = None


class Current:
    """What was read of one project; `adopt` is told whenever it was read anew."""

    def __init__(self, project: Project, adopt: Callable[[Project], None]) -> None:
        self._project = project
        self._adopt = adopt
        self._glances = Glances()
        self._around: Stamp = ()
        self._kept: dict[str, tuple[Bundle, tuple[Path, ...], Stamp]] = {}

    def forget(self) -> None:
        """The next glance is a look."""
        self._glances.forget("")

    def glance(self) -> None:
        """Takes up settings that were changed, once in each round of the event loop."""
        if self._glances.is_first(""):
            self.look()

    def look(self) -> None:
        """Takes up settings that were changed, unless they are wrong; looking whether they were costs little."""
        self._glances.is_first("")
        folder = self._project.folder
        around = (*_listed(folder), *_listed(folder / "connectors"))
        if around == self._around:
            return
        project = self._project.again()
        if not any(problem.level == "error" for problem in project.problems()):
            self._around = around
            self._adopt(project)

    def bundle(self, flow: str) -> Bundle:
        """A flow as its files have it; they are read where one of them was changed. Raises NotFound, InvalidFlow."""
        is_first, kept = self._glances.is_first(flow), self._kept.pop(flow, None)
        if kept is None or (is_first and _stamp(kept[1]) != kept[2]):
            project = self._project.again()
            bundle = project.bundle(flow)
            self._adopt(project)
            files = tuple(project.folder / name for name in (*FOLDERS, ".env", *project.texts))
            kept = (bundle, files, _stamp(files))
        if all(one is None or one[0] < time.time_ns() - SETTLED for one in kept[2]):
            self._kept[flow] = kept
        return kept[0]


def _stamp(files: Iterable[Path]) -> Stamp:
    return tuple(_seen(file) for file in files)


def _listed(folder: Path) -> Stamp:
    """Of its files. This is asked several times for each approval, which is why it goes without `Path`."""
    try:
        with os.scandir(folder) as found:
            return tuple(_seen(file) for file in found if file.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _seen(file: Path | os.DirEntry[str]) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
