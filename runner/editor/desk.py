"""A project as it stands in an editor: its files, and the texts that are open and not saved yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from runner.errors import Problem
from runner.language.called import CheckedFlow
from runner.language.check.context import Context
from runner.language.facts import ProjectFacts
from runner.language.fixes import put_right
from runner.language.load import load_flow
from runner.language.project import YAML, Project
from runner.language.source import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One flow as it is in the editor. `context` is None where nothing can be made of the text."""

    file: str
    text: str
    source: Source | None
    context: Context | None
    shape: tuple[Problem, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong with it, in the order of the file."""
        rules = self.context.problems if self.context is not None else ()
        return tuple(dict.fromkeys(sorted((*self.shape, *rules), key=lambda one: (one.line, one.column, one.code))))


class Desk:
    """One project. `open` holds the texts of open files by path."""

    def __init__(self, path: Path) -> None:
        self.project = Project.around(path)
        self.open: dict[Path, str] = {}
        self._seen: dict[Path, Seen] = {}

    @cached_property
    def facts(self) -> ProjectFacts:
        """What the rules know of the project, with what is open and not saved."""
        return self.project.facts()

    def show(self, path: Path, text: str) -> None:
        """A file has this text now."""
        self.open[path] = text
        self._seen.pop(path, None)
        if self.is_flow(path):
            self.project.texts[self.project.name_of(path)] = text
        else:
            self.read_again()

    def take(self, path: Path, text: str) -> None:
        """As `show`, where the text is another one."""
        if self.open.get(path) != text:
            self.show(path, text)

    def close(self, path: Path) -> None:
        """What the disk holds counts again."""
        self.open.pop(path, None)
        self.read_again()

    def read_again(self) -> None:
        """Files have changed around the flows."""
        self.project = self.project.again()
        self.project.texts.update({self.project.name_of(path): text for path, text in self.open.items()})
        self._seen.clear()
        self.__dict__.pop("facts", None)

    def is_flow(self, path: Path) -> bool:
        """Whether a file is one of the project's flows, or would be one if it were saved."""
        beside = path.parent == (
            self.project.folder / "flows" if (self.project.folder / "flows").is_dir() else self.project.folder
        )
        others = ("amends.yaml", "people.yaml", "connections.yaml")
        if not beside or path.suffix not in YAML or path.name in others or ".test." in path.name:
            return False
        text = self.open.get(path, "")
        return (self.project.folder / "amends.yaml").is_file() or bool(re.search(r"^flow:", text, re.MULTILINE))

    def see(self, path: Path) -> Seen:
        """A flow with the text that is open."""
        if path not in self._seen:
            self._seen[path] = self.read(path, self.open.get(path, ""))
        return self._seen[path]

    def read(self, path: Path, text: str) -> Seen:
        """A flow with this text."""
        file = self.project.name_of(path)
        flow, source, problems = load_flow(text, file, self.facts.read_file)
        context = Context(flow, source, self.facts) if flow is not None and source is not None else None
        return Seen(file=file, text=text, source=source, context=context, shape=problems)

    def put_right(self, path: Path) -> str:
        """The text of a flow with everything put right that is certain."""

        def check(text: str) -> CheckedFlow:
            seen = self.read(path, text)
            flow = seen.context.flow if seen.context is not None else None
            return CheckedFlow(file=seen.file, text=text, flow=flow, source=seen.source, problems=seen.problems)

        return put_right(self.open.get(path, ""), check)[0]

    def around(self) -> Mapping[str, list[Problem]]:
        """What is wrong with the files around the flows, by file."""
        found: dict[str, list[Problem]] = {}
        for problem in self.project.problems():
            found.setdefault(problem.file, []).append(problem)
        return found
