"""The project's files as they are now, read again only where one of them was changed."""

from __future__ import annotations

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


class Current:
    """What was read of one project; `adopt` is told whenever it was read anew."""

    def __init__(self, project: Project, adopt: Callable[[Project], None]) -> None:
        self._project = project
        self._adopt = adopt
        self._around: Stamp = ()
        self._kept: dict[str, tuple[Bundle, tuple[Path, ...], Stamp]] = {}

    def look(self) -> None:
        """Takes up settings that were changed, unless they are wrong; looking whether they were costs little."""
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
        kept = self._kept.pop(flow, None)
        if kept is None or _stamp(kept[1]) != kept[2]:
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
